/* latch.h - stop and go, with hysteresis.
 *
 * A queue that fills faster than it is read tells its senders to stop (xoff), and later to go on
 * (xon). With one mark it would say so at every sample that comes or goes; with two it says it once
 * for each time that the queue has filled up and emptied again.
 *
 *     level      high ─────────────●─────────────── at or above: off
 *                                 / \      ●
 *                                /   \    / \       between: as it was
 *                               /     \  /   \
 *                low  ─────────/───────\/─────●──── at or below: on
 *                          on  │  off         │ on
 *
 * Invariant: low < high. Who reports every change of the level gets xoff and xon in turn, never two
 * of one kind. It starts on.
 *
 * The latch asks nobody to wait: what is on its way when it turns off still comes, so the queue
 * needs room above the high mark, or its senders credit (flow/credit.h).
 */
#ifndef PDI_FLOW_LATCH_H
#define PDI_FLOW_LATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "pyddsi.h"

enum pdi_latch_turn {
    PDI_LATCH_UNCHANGED,
    PDI_LATCH_OFF, /* tell them to stop */
    PDI_LATCH_ON,  /* tell them to go on */
};

struct pdi_latch {
    uint64_t high;
    uint64_t low;
    bool off;
};

/* Starts, on.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if low is not below high. */
static inline int pdi_latch_init(struct pdi_latch *latch, uint64_t high, uint64_t low)
{
    if (low >= high) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *latch = (struct pdi_latch){.high = high, .low = low};
    return PYDDSI_OK;
}

/* The level is now this. Answers what must be told, if anything. */
static inline enum pdi_latch_turn pdi_latch_input(struct pdi_latch *latch, uint64_t level)
{
    if (latch->off ? level > latch->low : level < latch->high) {
        return PDI_LATCH_UNCHANGED;
    }
    latch->off = !latch->off;
    return latch->off ? PDI_LATCH_OFF : PDI_LATCH_ON;
}

#endif
