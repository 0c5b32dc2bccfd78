/* hide.h - a packet of the protocol without its secrets: who, what about, and what it said; not how.
 *
 *     addresses   mapped by a key, so that two that share their first n bits share them afterwards; groups, and addresses
 *                 that mean the same everywhere (loopback, the unspecified one), stay
 *     payloads    zeros, of the same length
 *     peer ids    other bytes, of the same length; equal ids stay equal
 *     names       other letters, part by part: equal parts stay equal, wildcards and slashes stay (if wanted)
 *     locators    groups stay; of others each digit of the address becomes 0; peer ids in them as above
 *     properties  numbers that say what a peer can do and which session it is stay; all else is zeros
 *
 * Fields are found by their types in the table of messages (wire/table.h), so a message that is added there is hidden, too.
 * What the protocol is studied by stays as it was: kinds, flags, numbers, lengths, times. Without the key nobody
 * can tell which address was which, and with it everybody can, so a new key is drawn for each file unless one is given.
 *
 * Of a message that breaks a rule, and of all behind it in the packet, the kind and the length stay: its other bytes become
 * such as no message has, and it breaks a rule as before. One that the capture has cut off ends behind its kind.
 */
#ifndef PDI_CAPTURE_HIDE_H
#define PDI_CAPTURE_HIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "pyddsi.h"

struct pdi_hide {
    uint64_t key[2];
    uint8_t names; /* whether names are hidden as well */
};

/* The address that stands for this one. */
void pdi_hide_endpoint(const struct pdi_hide *hide, pyddsi_endpoint *endpoint);

/* Hides what is secret in a packet, in place. |cut|: the capture lacks its end. Answers how many of its bytes may be shown:
 * all, unless a message is cut off. */
size_t pdi_hide_packet(const struct pdi_hide *hide, const pyddsi_reading *reading, uint8_t *data,
                       size_t size, bool cut);

#endif
