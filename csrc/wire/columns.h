/* columns.h - many messages at once, one array per field.
 *
 * What looks at millions of messages wants columns: one number after another, without a message
 * struct in between and without a Python object each. The arrays are the caller's; a packet is in
 * them whole or up to its fault.
 */
#ifndef PDI_WIRE_COLUMNS_H
#define PDI_WIRE_COLUMNS_H

#include "pyddsi.h"

/* Appends the messages of the packet with this |number|. OK; NO_SPACE, and count is as before;
 * SHORT or BAD_INPUT with |fault| set, and the messages before the fault are in. */
int pdi_columns_packet(pyddsi_columns *columns, const pyddsi_reading *reading, uint32_t number,
                       const uint8_t *data, size_t size, pyddsi_fault *fault);

#endif
