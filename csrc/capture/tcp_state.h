/* tcp_state.h - the memory of TCP's directions; for tcp.c and its kin alone.
 *
 *     direction 7    next = 4          held ──► 5..5 ──► 7..9 ──► 8..8        a list, by position
 *                                               │        │        │
 *     arena          ┌─────────┬────────────────┴────────┴────────┴──────┬──────────────┐
 *                    │ (dead)  │ bytes, in the order in which they came  │ ► top        │
 *                    └─────────┴─────────────────────────────────────────┴──────────────┘
 *
 * What is held must lie in one piece, for it comes out as it came. So bytes are put at the top of the arena, and when it
 * is reached those that are still held are moved together at the bottom. The arena is twice as large as what may be held,
 * so a byte is moved at most once for each that comes; and whether there is room depends on what is held alone, and
 * not on where it lies: a reader that goes on from a snapshot gives up the same holes.
 *
 * Directions are found by a hash of their endpoints, in chains; the list from `oldest` to `newest` says which is idle
 * longest. They are never taken out, only given to others, so those in use are the first `count`.
 *
 * What a packet lets out is not computed at once but by steps, one part at each pop: what was held is given out from
 * where it lies.
 */
#ifndef PDI_CAPTURE_TCP_STATE_H
#define PDI_CAPTURE_TCP_STATE_H

#include <stdbool.h>

#include "capture/tcp.h"

#define PDI_TCP_NONE      UINT16_MAX /* no direction, */
#define PDI_HELD_NONE     UINT32_MAX /* and nothing held */
#define PDI_TCP_BUCKETS   1024U
#define PDI_TCP_STEPS_MAX 4U
#define PDI_HELD_MAX      (PDI_TCP_HELD_TOTAL_MAX / PDI_TCP_HELD_OVERHEAD)
#define PDI_ARENA_BYTES   (2 * PDI_TCP_HELD_TOTAL_MAX)

/* Positions begin one round of the sequence number above zero, so that what lies before the first has one too. */
#define PDI_TCP_ROUND (UINT64_C(1) << 32)

/* A part of a direction as a packet brought it. The end is a piece of size 1, as it is in TCP. */
struct pdi_tcp_piece {
    uint64_t position;
    uint64_t number;
    uint64_t offset;
    int64_t time_ns;
    uint32_t size;  /* on the line, */
    uint32_t bytes; /* and how many of them were captured */
    bool end;
};

struct pdi_held {
    struct pdi_tcp_piece piece;
    uint32_t at; /* of its bytes in the arena; PDI_HELD_NONE: it has none, or is not in use */
    uint32_t next;
    uint32_t previous;
};

/* Both endpoints, as words that can be compared. */
struct pdi_tcp_key {
    uint64_t source[2];
    uint64_t target[2];
    uint64_t ports; /* kind, source, target */
};

struct pdi_tcp_direction {
    struct pdi_tcp_key key;
    uint64_t next;    /* the first position that was not delivered */
    uint64_t missing; /* bytes of the gap before it, if there is one */
    uint32_t first;   /* the sequence number of its SYN, */
    bool begun;       /* if that was seen */
    bool ended;
    bool lost;           /* the next bytes come behind a gap */
    uint32_t held_first; /* the nearest that is held, */
    uint32_t held_last;  /* and the farthest */
    uint32_t cost;       /* of all that are: their bytes, and PDI_TCP_HELD_OVERHEAD for each */
    uint16_t chain;      /* the next one of its bucket */
    uint16_t older;
    uint16_t newer;
};

enum pdi_tcp_step_kind {
    PDI_STEP_FLUSH, /* what is held comes out, with holes */
    PDI_STEP_END,   /* the same, and the end */
    PDI_STEP_BEGIN, /* the place is the new direction's */
    PDI_STEP_LAY,   /* the packet is laid on the line, */
    PDI_STEP_DRAIN, /* and what is in order comes out */
};

struct pdi_tcp_step {
    uint8_t kind;
    bool
        lost; /* END: the end comes behind a gap; BEGIN: so do the first bytes, if the old one was open */
    uint16_t direction;
};

/* The packet that came last, while it is looked at. */
struct pdi_tcp_segment {
    struct pdi_tcp_key key;
    struct pdi_tcp_piece piece[2]; /* its bytes, and the end */
    uint8_t pieces;
    uint8_t at; /* the pieces before this one are done with */
    const uint8_t *data;
    uint32_t sequence; /* of its first byte, */
    uint32_t syn;      /* and of its SYN, */
    bool start;        /* with which a direction begins */
    bool fin;
};

struct pdi_tcp {
    uint64_t late;
    uint32_t count;
    uint16_t oldest;
    uint16_t newest;
    uint16_t
        finishing; /* PDI_TCP_NONE: the capture goes on; else the direction that is flushed next */
    uint8_t step;
    uint8_t steps;
    struct pdi_tcp_step todo[PDI_TCP_STEPS_MAX];
    struct pdi_tcp_segment arrival;
    uint32_t cost;       /* of all that is held */
    uint32_t held_free;  /* a chain of places that were in use, */
    uint32_t held_fresh; /* and the first that never was */
    uint32_t top;
    uint16_t bucket[PDI_TCP_BUCKETS];
    struct pdi_tcp_direction direction[PDI_TCP_DIRECTIONS_MAX];
    struct pdi_held held[PDI_HELD_MAX];
    _Alignas(8) uint8_t arena[PDI_ARENA_BYTES];
};

/* tcp_table.c: the directions. */
/* The direction between these endpoints, or PDI_TCP_NONE. */
uint16_t pdi_tcp_find(const struct pdi_tcp *tcp, const struct pdi_tcp_key *key);
/* Puts a direction, which begins at |sequence|, into a place that is not in use; and takes out one that holds nothing. */
void pdi_tcp_put(struct pdi_tcp *tcp, uint16_t index, const struct pdi_tcp_key *key,
                 uint32_t sequence);
void pdi_tcp_remove(struct pdi_tcp *tcp, uint16_t index);
/* It is the one in use last. */
void pdi_tcp_touch(struct pdi_tcp *tcp, uint16_t index);

/* tcp_held.c: what waits behind holes. */
static inline uint32_t pdi_held_cost(const struct pdi_tcp_piece *piece)
{
    return piece->bytes + PDI_TCP_HELD_OVERHEAD;
}
/* Holds a piece behind those that are not farther. It must fit the limits. */
void pdi_held_put(struct pdi_tcp *tcp, struct pdi_tcp_direction *direction,
                  const struct pdi_tcp_piece *piece, const uint8_t *data);
/* Takes out the nearest, which must be there. Its bytes lie where they lay until the next put. */
const uint8_t *pdi_held_get(struct pdi_tcp *tcp, struct pdi_tcp_direction *direction,
                            struct pdi_tcp_piece *piece);

#endif
