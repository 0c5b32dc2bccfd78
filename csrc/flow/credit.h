/* credit.h - how much a sender may send before the receiver has room for more.
 *
 * The receiver has a window of so many units (samples, bytes). It grants as many as fit, and more
 * as its reader frees them; a sender uses what it was granted and then waits. So the receiver is
 * never sent what it has no room for, however long the way: the window is a hard limit where the
 * latch (flow/latch.h) is a soft one.
 *
 *     receiver    freed ──────── came ──────── granted = freed + window, when last told
 *                   0              │               │
 *     sender        │            used ───────── granted, as last heard
 *
 * All are counts since the beginning; they never wrap (64 bits) and never go down. What is sent is
 * the total that may be used and not "so many more". Therefore
 *
 *   - a grant that is lost is made good by the next one,
 *   - a grant that comes twice, or late, is not above what is known and changes nothing,
 *   - a grant may be repeated at any time, which it must be if it was the last one that was lost:
 *     the receiver believes that it has told, and the sender waits. On a way that loses, a sender
 *     that waits asks again, and is answered by pdi_credit_grant whether or not that is news.
 *
 * Invariants: used <= granted at the sender, whose granted is never above the receiver's; freed <=
 * came <= granted <= freed + window at the receiver, unless the sender cheats, which is an answer
 * of pdi_credit_came.
 *
 * Telling each freed unit would cost a message each. A grant is due when it would be news of at
 * least half the window, or when the sender may be waiting, as nothing is left of what it was
 * granted.
 *
 * Two structs, one for each side; each belongs to one thread.
 */
#ifndef PDI_FLOW_CREDIT_H
#define PDI_FLOW_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "pyddsi.h"

/* The sender's side. */
struct pdi_credit {
    uint64_t granted;
    uint64_t used;
};

/* The receiver's side. */
struct pdi_credit_window {
    uint64_t window;
    uint64_t granted; /* the total that was told last */
    uint64_t came;
    uint64_t freed;
};

/* Sender: nothing is used; `granted` may be without asking. */
static inline void pdi_credit_init(struct pdi_credit *credit, uint64_t granted)
{
    *credit = (struct pdi_credit){.granted = granted};
}

/* Sender: a grant came; answers whether it was news. */
static inline bool pdi_credit_input(struct pdi_credit *credit, uint64_t granted)
{
    if (granted <= credit->granted) {
        return false;
    }
    credit->granted = granted;
    return true;
}

/* Sender: how much may be sent now. */
static inline uint64_t pdi_credit_left(const struct pdi_credit *credit)
{
    return credit->granted - credit->used;
}

/* Sender: uses `count`, all or nothing.
 * PYDDSI_OK; PYDDSI_AGAIN if not so much is left. */
static inline int pdi_credit_take(struct pdi_credit *credit, uint64_t count)
{
    if (count > pdi_credit_left(credit)) {
        return PYDDSI_AGAIN;
    }
    credit->used += count;
    return PYDDSI_OK;
}

/* Receiver: has room for `window` units, which counts as told: the sender starts with so many.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if it has room for none. */
static inline int pdi_credit_window_init(struct pdi_credit_window *credit, uint64_t window)
{
    if (window == 0) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *credit = (struct pdi_credit_window){.window = window, .granted = window};
    return PYDDSI_OK;
}

/* Receiver: `count` units came.
 * PYDDSI_OK; PYDDSI_BAD_INPUT if they were not granted: then nothing changes, and they must be
 * dropped. */
static inline int pdi_credit_came(struct pdi_credit_window *credit, uint64_t count)
{
    if (count > credit->granted - credit->came) {
        return PYDDSI_BAD_INPUT;
    }
    credit->came += count;
    return PYDDSI_OK;
}

/* Receiver: the reader is done with `count` units of those that came. */
static inline void pdi_credit_free(struct pdi_credit_window *credit, uint64_t count)
{
    PDI_CHECK(count <= credit->came - credit->freed);
    credit->freed += count;
}

/* Receiver: the grant that is true now; whoever asks for it counts as told. */
static inline uint64_t pdi_credit_grant(struct pdi_credit_window *credit)
{
    credit->granted = credit->freed + credit->window;
    return credit->granted;
}

/* Receiver: whether a grant is worth a message. */
static inline bool pdi_credit_due(const struct pdi_credit_window *credit)
{
    uint64_t news = credit->freed + credit->window - credit->granted;
    return news > 0 && (news >= (credit->window + 1) / 2 || credit->came == credit->granted);
}

#endif
