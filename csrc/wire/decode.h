/* decode.h - from bytes to messages. The types and the contract are in pyddsi.h. */
#ifndef PDI_WIRE_DECODE_H
#define PDI_WIRE_DECODE_H

#include "pyddsi.h"

/* Prepares |reading| from |options|: the largest value and number of bytes of each type of number.
 * OK, or BAD_ARGUMENT for a length, width or strictness that cannot be. */
int pdi_reading_init(pyddsi_reading *reading, const pyddsi_options *options);

/* From here on sequence numbers have |bits| bits, 7 to 56. */
void pdi_reading_numbers(pyddsi_reading *reading, unsigned bits);

/* Begins a walk over the |size| bytes at |data|, which must stay until the last view into them is
 * gone. */
void pdi_decoder_init(pyddsi_decoder *decoder, const pyddsi_reading *reading, const uint8_t *data,
                      size_t size);

/* Takes the next message: OK, END, SHORT or BAD_INPUT. After the last two the decoder's fault is
 * set and the walk is over; a stream that was SHORT begins a new walk at decoder->at when it has
 * more bytes. */
int pdi_decoder_next(pyddsi_decoder *decoder, pyddsi_message *message);

#endif
