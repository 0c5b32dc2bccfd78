/* ledger.h - where everything that was dropped is written down.
 *
 * Whoever drops a sample, or a packet, says where it was (the place), why (the reason) and of which
 * resource, and how many. The ledger adds that to the line of this key and remembers when the first
 * and the last one were dropped. Nothing is dropped without a line, so the books balance: accepted
 * = delivered + stored + in flight + what stands here.
 *
 *     lines   0 ................ PDI_LEDGER_LINES_MIN ................ capacity
 *             one for each place        resources' own lines,
 *             and reason,               found by a hash of the key
 *             without resource
 *
 * Resources are named by peers, so there can be more of them than lines. The lower part has a line
 * for each place and reason, whatever happens; a key for which no line of its own is left is
 * counted there. So `total` is always the sum of all lines, and what a flood of made-up resources
 * costs is detail and not truth.
 *
 * Invariants: a line is in use if its count is not 0, and is then never given up or moved. A key's
 * own line lies within PDI_LEDGER_PROBES_MAX lines from the home of the key, and all lines between
 * are in use; so a search ends at the first free one. That also bounds what an unlucky or hostile
 * choice of ids can cost, and no seed is needed against it: such ids share lines, no more.
 *
 * Drops come in bursts of one kind: the line used last is tried first, inline.
 *
 * Why lines are not freed when they are old: their counts would have to go somewhere, and a reader
 * who compares two readings of the ledger would see numbers go down.
 *
 * One thread per ledger. A node with several threads has several, and adds them up for its reader.
 */
#ifndef PDI_FLOW_LEDGER_H
#define PDI_FLOW_LEDGER_H

#include "base/check.h"
#include "base/time.h"
#include "pyddsi.h"

/* One line for every place and reason, without a resource. */
#define PDI_LEDGER_LINES_MIN ((uint32_t)PYDDSI_PLACE_COUNT * (uint32_t)PYDDSI_REASON_COUNT)
#define PDI_LEDGER_LINES_MAX (UINT32_C(1) << 24)

/* How many lines are looked at for a key. A ledger with so many resources' own lines or fewer fills
 * up to the last. */
#define PDI_LEDGER_PROBES_MAX 32U

struct pdi_ledger {
    pyddsi_drop *lines;
    pyddsi_drop *last; /* the line that was used last */
    uint32_t capacity; /* of lines; PDI_LEDGER_LINES_MIN more than there may be resources' own */
    uint32_t count;    /* lines in use */
    uint64_t total;
    uint64_t by_reason[PYDDSI_REASON_COUNT];
};

/* Makes an empty ledger in `lines[capacity]`, which need not be cleared.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if capacity is not in PDI_LEDGER_LINES_MIN ..
 * PDI_LEDGER_LINES_MAX. */
int pdi_ledger_init(struct pdi_ledger *ledger, pyddsi_drop *lines, uint32_t capacity);

/* Finds the line of a key, or the one without resource if there is none left, and makes it the
 * last. The slow half of pdi_ledger_add. */
void pdi_ledger_find(struct pdi_ledger *ledger, enum pyddsi_place place, enum pyddsi_reason reason,
                     uint8_t space, uint64_t resource, pdi_time now);

/* Writes down that `count` were dropped; 0 changes nothing. The resource is as on the wire, and 0
 * in space 0 if none is known. */
static inline void pdi_ledger_add(struct pdi_ledger *ledger, enum pyddsi_place place,
                                  enum pyddsi_reason reason, uint8_t space, uint64_t resource,
                                  uint64_t count, pdi_time now)
{
    PDI_CHECK((unsigned)place < PYDDSI_PLACE_COUNT && (unsigned)reason < PYDDSI_REASON_COUNT);
    if (count == 0) {
        return;
    }
    const pyddsi_drop *last = ledger->last;
    if (last->resource != resource || last->place != (uint8_t)place ||
        last->reason != (uint8_t)reason || last->space != space || last->count == 0) {
        pdi_ledger_find(ledger, place, reason, space, resource, now);
    }
    ledger->last->count += count;
    ledger->last->last_ns = now;
    ledger->total += count;
    ledger->by_reason[reason] += count;
}

/* The index-th line in use, counted from 0, in no order.
 * PYDDSI_OK; PYDDSI_END behind the last. It walks over all lines before; to read them all use
 * pdi_ledger_next. */
int pdi_ledger_get(const struct pdi_ledger *ledger, uint32_t index, pyddsi_drop *drop);

/* The same one after the other: start with *cursor = 0 and call until it answers END. */
int pdi_ledger_next(const struct pdi_ledger *ledger, uint32_t *cursor, pyddsi_drop *drop);

/* A word for use in programs, such as "assembly"; "?" if there is no such place. */
const char *pdi_place_name(int place);
/* Half a sentence for people that can follow "dropped ". */
const char *pdi_place_text(int place);
/* A word for use in programs, such as "peer_lost"; "?" if there is no such reason. */
const char *pdi_reason_name(int reason);
/* Half a sentence for people that can follow "because ". */
const char *pdi_reason_text(int reason);

#endif
