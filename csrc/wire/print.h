/* print.h - a message as one line of text, for people. */
#ifndef PDI_WIRE_PRINT_H
#define PDI_WIRE_PRINT_H

#include "pyddsi.h"

#define PDI_PRINT_BYTES_MAX 32U /* bytes of a vector that are shown; the rest is counted */

/* Writes |message| to |out|, as much as |room| allows and always ended by a zero if there is room
 * for that. Returns the length of the whole line without the zero, as snprintf does. */
size_t pdi_print_message(const pyddsi_message *message, char *out, size_t room);

#endif
