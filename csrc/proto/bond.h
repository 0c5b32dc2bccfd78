/* bond.h - two processes that map each other's page find out that it is the other's, and not one that somebody else has shown.
 *
 *     A                                      B
 *     writes its bond into its own page      writes its bond into its own page
 *     raises the word in B's page            raises the word in A's page
 *     passes by its own word                 passes by its own word
 *     looks into B's page for B's bond       looks into A's page for A's bond
 *
 * A bond is a number that only the two ends of a session can compute. Both change each of the two words (to pass by is to add 0), and
 * who changes the same word later sees what the other wrote before: so at least one of the two finds the other's bond. It then wakes
 * the other, whose word has been raised since it looked, and who finds the bond now. Who cannot write to the page has nowhere to
 * put a bond; and who can, but is no end of the session, does not know which.
 *
 * Invariant: a row is written by the page's owner alone; `raised` only grows.
 */
#ifndef PDI_PROTO_BOND_H
#define PDI_PROTO_BOND_H

#include "base/atomic.h"
#include "pyddsi.h"

/* Of one page. */
struct pdi_bonds {
    PDI_CACHE_ALIGNED struct pdi_atomic32 raised;
    struct pdi_atomic64 rows[PYDDSI_PEERS_MAX]; /* by the owner's number of the peer; 0: none */
};

/* Writes the bond of one peer into our page; 0: there is none any more. */
static inline void pdi_bond_write(struct pdi_bonds *own, uint32_t peer, uint64_t bond)
{
    if (pdi_atomic64_load_relaxed(&own->rows[peer]) != bond) {
        pdi_atomic64_store_release(&own->rows[peer], bond);
    }
}

/* Whether this bond stands in another's page; after ours was written. If so, the other has to be woken. */
static inline bool pdi_bond_find(struct pdi_bonds *own, struct pdi_bonds *other, uint64_t bond)
{
    (void)pdi_atomic32_add(&other->raised, 1);
    (void)pdi_atomic32_add(&own->raised, 0);
    for (uint32_t i = 0; bond != 0 && i < PYDDSI_PEERS_MAX; i++) {
        if (pdi_atomic64_load_acquire(&other->rows[i]) == bond) {
            return true;
        }
    }
    return false;
}

/* Differs when others have looked for theirs since: what we looked for in vain may be there. */
static inline uint32_t pdi_bond_raised(const struct pdi_bonds *own)
{
    return pdi_atomic32_load_acquire(&own->raised);
}

#endif
