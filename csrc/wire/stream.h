/* stream.h - packets in a stream of bytes.
 *
 *     02 | 01 05             a frame of 2: SCOUT     framed: a length of one or two bytes,
 *     1a | 23 01 02 ...      a frame of 26: OPEN     then the packet
 *     00                     from here on            unframed: messages back to back,
 *     67 00 02 02 01 32      SDATA                   for ever
 *
 * Each direction switches to unframed when it likes, once. The bytes stay where the caller has
 * them: a stream says how many at the front make a packet, and he comes again with the rest, or
 * with more. So a stream can be split and merged at any byte, and a packet that came whole is never
 * copied.
 *
 * Without frames there are no packets, so what a marker is in force for must be decided: we take
 * the markers and the one message behind them for a packet. A sender that marks every message is
 * read alike either way.
 */
#ifndef PDI_WIRE_STREAM_H
#define PDI_WIRE_STREAM_H

#include "pyddsi.h"

#define PDI_FRAME_MAX 16383U /* what two bytes of length can say */

/* Begins a stream whose packets have at most |packet_max| bytes; 0 means PDI_FRAME_MAX. */
void pdi_stream_init(pyddsi_stream *stream, const pyddsi_reading *reading, size_t packet_max);

/* Looks at the |size| bytes at |data|, the first of which was not used before.
 * OK: |packet| is the next one, and |used| bytes are to be taken off the front, after the packet
 * has been read. SHORT: more bytes are needed; |used| may yet be more than 0, and |need| tells how
 * many bytes there must be at least after taking those off. BAD_INPUT: the stream is broken for
 * good; fault says why, counted from data. */
int pdi_stream_next(pyddsi_stream *stream, const uint8_t *data, size_t size, pyddsi_bytes *packet,
                    size_t *used, size_t *need);

/* Writes the length that goes in front of a packet of |size| bytes; a size of 0 announces that no
 * frames follow. OK, NO_SPACE, or BAD_ARGUMENT for a packet over PDI_FRAME_MAX. */
int pdi_stream_frame(size_t size, uint8_t *out, size_t room, size_t *at);

#endif
