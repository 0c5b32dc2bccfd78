/* late.h - names that nobody declares any more, for samples that lie in our rings still.
 *
 * A sample carries a number. Who reads it asks for the name, and the peer that declared it may have left meanwhile: a
 * program that publishes one sample and ends is gone before another one is scheduled. So what a name was is remembered for
 * a while after the last who declared it.
 *
 *     ways    ... │ key, at, size │ ...     a key has one set of PDI_LATE_WAYS places; the oldest one gives way
 *     text    ... a/b │ plant/pose │ ...    a ring of bytes: `at` counts on without wrapping
 *
 * A name holds until the ring comes round to it, so nothing is ever freed, a hostile peer can do no more than make us
 * forget, and no call costs more than one set. Names of peers that are there are none of this module's business: they are
 * looked up first, and their number may have another name by now.
 *
 * One thread at a time.
 */
#ifndef PDI_PROTO_LATE_H
#define PDI_PROTO_LATE_H

#include "pyddsi.h"

#define PDI_LATE_SETS  256
#define PDI_LATE_WAYS  8
#define PDI_LATE_BYTES 65536 /* of text; a name has at most a sixteenth of it */

struct pdi_late_way {
    uint64_t key;
    uint64_t at;   /* where its text begins, counted since the start; */
    uint32_t size; /* 0: the place is empty */
};

struct pdi_late {
    struct pdi_late_way way[PDI_LATE_SETS][PDI_LATE_WAYS];
    uint64_t next; /* where the next text begins at the earliest */
    uint8_t text[PDI_LATE_BYTES];
};

void pdi_late_init(struct pdi_late *late);
/* From now on this key is known by this name, until it is forgotten for others. What is too long is not kept. */
void pdi_late_put(struct pdi_late *late, uint64_t key, pyddsi_bytes name);
/* The latest name of this key; empty: it is not known. It holds until the next put. */
pyddsi_bytes pdi_late_find(const struct pdi_late *late, uint64_t key);

#endif
