/* series.h - fragments become samples again.
 *
 * A sample that does not fit one packet is sent as a series of messages of rising numbers; all
 * pieces are of one size but the last, which is not larger. It is delivered whole or not at all.
 * Where the pieces come in order and none is missing (reliable), messages of others may lie between
 * them. Where some may be lost (best effort) the numbers must follow each other, for a hole in them
 * may be a piece: so an owner of best effort has one growing series at most, and any message of it
 * with another number than the one due ends that one (pdi_assembler_broken). Either way a piece is copied to the end of what is there, and there is never
 * anything to sort.
 *
 *     first                  next                     fragments
 *       │ piece │ piece │ piece │ . . . . . . . . . . . . │ last │
 *       └──────── size ─────────┘
 *
 *                 first piece                 last piece, or close
 *      free ────────────────────► growing ────────────────────► complete
 *       ▲                         │      │                         │
 *       └──── fault, no memory, forget   └── next piece            │
 *       └──────────────────────────── free ────────────────────────┘
 *
 * A series is known by (owner, first). The owner is the caller's word for a peer, a conduit and a
 * reliability. Several series in order may grow at once, of one owner too: the pieces must only be in
 * order within each series. But an owner with PDI_SERIES_OWNER_MAX growing ones gets no more, so one peer
 * that never ends what it begins does not take the whole table.
 *
 * Memory. A series lies in neighbouring pages (base/pages.h) of one block, so it can be read in
 * one piece. If its first piece tells how many there will be, all pages are taken at once: what has
 * begun cannot fail for want of memory. If not, it grows: into the pages behind it if they are
 * free, else it moves to a run of twice the size, so that growing to n bytes copies less than 2 n
 * unless memory is so short that there is no such run.
 * A complete series gives back the pages that it did not need. It stays where it is until its
 * reader has it freed.
 *
 * Invariants, of growing series: 1 <= next - first pieces are in; size is (next - first) * piece,
 * or less by a short last piece; size <= pages * PDI_SERIES_PAGE and size <= sample_max; if
 * fragments is told, next - first < fragments. Pages taken are those of growing and complete
 * series, so when there are none, all pages are free.
 *
 *     chain of an owner's home:   series[home].head ──► series ──► series    growing ones alone
 *     free entries:               assembler.idle ─────► series ──► series
 *
 * Bounds: a call looks at the growing series whose owners share a home, PDI_SERIES_OWNER_MAX for
 * each owner; pdi_assembler_forget at the whole table, and not if nothing is growing.
 *
 * One thread at a time: a reader in another thread posts what it has done with to this one.
 */
#ifndef PDI_PROTO_SERIES_H
#define PDI_PROTO_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pages.h"
#include "base/time.h"
#include "pyddsi.h"

#define PDI_SERIES_PAGE      4096U
#define PDI_SERIES_NONE      UINT32_MAX
#define PDI_SERIES_MAX       65536U /* entries of the table */
#define PDI_SERIES_OWNER_MAX 16U    /* growing series of one owner */

enum pdi_series_state { PDI_SERIES_FREE, PDI_SERIES_GROWING, PDI_SERIES_COMPLETE };

struct pdi_series {
    uint64_t owner;
    int64_t first;
    int64_t next;       /* first and the pieces so far: the number due if there are no others */
    uint64_t id;        /* of the resource, and */
    uint64_t size;      /* bytes so far */
    pdi_time moved;     /* when the last piece came */
    uint32_t page;      /* where they are */
    uint32_t pages;     /* how many are taken */
    uint32_t fragments; /* in all; 0: not told */
    uint32_t piece;     /* size of each but the last */
    uint32_t head;      /* first of those whose owner has its home at this entry */
    uint32_t link;      /* next in the same chain */
    uint8_t state;      /* enum pdi_series_state */
    uint8_t space;      /* the space of the resource; both from the first piece */
    bool in_order;      /* reliable */
};

struct pdi_assembler {
    uint8_t *memory;
    struct pdi_pages pages;
    struct pdi_series *series;
    uint32_t series_max;
    uint32_t used;    /* entries that are growing or complete */
    uint32_t growing; /* entries that are growing, */
    uint32_t loose;   /* those of them that are best effort, */
    uint32_t untold;  /* and those that do not know how many pieces they will have */
    uint32_t idle;    /* first of the free entries */
    uint64_t sample_max;
};

/* Makes an assembler in `memory[pages * PDI_SERIES_PAGE]`, `used[PDI_BITSET_WORDS(pages)]` and
 * `series[series_max]`, none of which need be cleared. Samples have up to sample_max bytes, and not
 * more than fit the pages.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if pages is not in 1 .. PDI_PAGES_MAX or series_max not in 1 ..
 * PDI_SERIES_MAX. */
int pdi_assembler_init(struct pdi_assembler *assembler, uint8_t *memory, uint64_t *used,
                       uint32_t pages, struct pdi_series *series, uint32_t series_max,
                       uint64_t sample_max);

/* One piece. */
struct pdi_fragment {
    uint64_t owner;
    int64_t number;     /* of this message, a count */
    int64_t first;      /* of its series; the same for the first piece */
    uint32_t fragments; /* 0: not told */
    bool in_order;      /* reliable: none is missing, and others may lie between the pieces */
    uint64_t id;        /* these two are read from the first piece */
    uint8_t space;
    pyddsi_bytes payload;
    pdi_time now;
};

/* How many pages the series of this first piece takes at its start; 0: it is larger than any
 * sample. */
uint32_t pdi_assembler_pages(const struct pdi_assembler *assembler,
                             const struct pdi_fragment *fragment);

/* Whether there is room for this piece now: an entry and pages for a first one, more pages for a
 * later one that needs them. True as well where room is of no use, since the piece is refused anyway:
 * it contradicts its series, is larger than any sample, or its owner has too many. */
bool pdi_assembler_room(const struct pdi_assembler *assembler, const struct pdi_fragment *fragment);

/* Takes one piece. How many pieces there are may be told by any of them, and left out of any.
 * PYDDSI_OK: taken, more must come. PYDDSI_END: that was the last, *series is complete.
 * PYDDSI_BAD_INPUT: it contradicts its series or has none (an earlier piece was lost; it is empty;
 * it is larger than the first, or smaller and not the last; it is beyond the total; the total is
 * another one; the first came twice). PYDDSI_NO_SPACE: no memory, no entry, too many of this owner,
 * or more than sample_max. After the last two the series, if there was one, is gone, and its later
 * pieces are BAD_INPUT. *dropped is 1 if this call threw a growing series away, else 0; *series is
 * PDI_SERIES_NONE if nothing is complete. */
int pdi_assembler_input(struct pdi_assembler *assembler, const struct pdi_fragment *fragment,
                        uint32_t *series, int *dropped);

/* The slow half of pdi_assembler_close. */
int pdi_assembler_finish(struct pdi_assembler *assembler, uint64_t owner, uint32_t *series);

/* A message in order that is no fragment came from this owner: series of untold length end here.
 * PYDDSI_OK: *series is complete; call again, there may be more. PYDDSI_END: none is left. */
static inline int pdi_assembler_close(struct pdi_assembler *assembler, uint64_t owner,
                                      uint32_t *series)
{
    return assembler->untold == 0 ? PYDDSI_END : pdi_assembler_finish(assembler, owner, series);
}

/* Throws away the growing series of all owners with (owner & mask) == match: their peer left, or
 * numbers were skipped. Answers how many. Complete ones stay. */
uint32_t pdi_assembler_forget(struct pdi_assembler *assembler, uint64_t mask, uint64_t match);

/* The slow half of pdi_assembler_broken. */
uint32_t pdi_assembler_broken_one(const struct pdi_assembler *assembler, uint64_t owner,
                                  int64_t number);

/* A message of best effort with this number came from this owner. Answers the growing series that now
 * lacks a piece for ever, since another number was due; or PDI_SERIES_NONE. */
static inline uint32_t pdi_assembler_broken(const struct pdi_assembler *assembler, uint64_t owner,
                                            int64_t number)
{
    return assembler->loose == 0 ? PDI_SERIES_NONE
                                 : pdi_assembler_broken_one(assembler, owner, number);
}

/* Throws a growing series away. */
void pdi_assembler_drop(struct pdi_assembler *assembler, uint32_t series);

/* The bytes of a complete series. */
pyddsi_bytes pdi_assembler_bytes(const struct pdi_assembler *assembler, uint32_t series);

/* A complete series is not needed any more. */
void pdi_assembler_free(struct pdi_assembler *assembler, uint32_t series);

#endif
