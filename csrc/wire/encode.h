/* encode.h - from messages to bytes. The contract is in pyddsi.h, at pyddsi_encode_message. */
#ifndef PDI_WIRE_ENCODE_H
#define PDI_WIRE_ENCODE_H

#include "pyddsi.h"

/* Each writes one message or item at out[*at] and moves *at behind it, or leaves both alone. OK;
 * NO_SPACE; BAD_INPUT with |fault| naming the rule that the tolerant reading would find broken, at
 * the field with that number. */
int pdi_encode_message(const pyddsi_message *message, uint8_t *out, size_t room, size_t *at,
                       pyddsi_fault *fault);
int pdi_encode_locator(const pyddsi_locator *locator, uint8_t *out, size_t room, size_t *at,
                       pyddsi_fault *fault);
int pdi_encode_property(const pyddsi_property *property, uint8_t *out, size_t room, size_t *at,
                        pyddsi_fault *fault);
int pdi_encode_sample(const pyddsi_sample *sample, uint8_t flags, uint8_t *out, size_t room,
                      size_t *at, pyddsi_fault *fault);
int pdi_encode_declaration(const pyddsi_declaration *declaration, uint8_t *out, size_t room,
                           size_t *at, pyddsi_fault *fault);

#endif
