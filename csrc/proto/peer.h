/* peer.h - the word that says what a peer is.
 *
 * The receive thread, housekeeping and the application's threads meet in one 64-bit word for each
 * peer, and in nothing else of it:
 *
 *     word = deadline of the lease (32, ms) │ epoch (16) │ busy (8) │ state (8)
 *
 *                  open             establish
 *      ┌─────────┐ ────► OPENING 1 ──────────► ┌─────────────┐ expire, end ┌─────────┐
 *      │ UNKNOWN │       │ retry               │ ESTABLISHED │ ──────────► │ EXPIRED │
 *      │         │ ◄──── OPENING i ──────────► │             │             │         │
 *      └─────────┘ give_up                     └─────────────┘             └─────────┘
 *       ▲      └─────────── accept ────────────────▲                            │
 *       └────────────────── reset, only if nobody is busy ──────────────────────┘
 *
 * The table: each operation in each state. A dash means that the operation answers AGAIN and the
 * word stays as it was. (i) stands for OPENING i.
 *
 *     operation    who          UNKNOWN       (i)           ESTABLISHED        EXPIRED
 *     open         either       (1), epoch+1  -             -                  -
 *     retry        keeping      -             (i+1) 1)      -                  -
 *     give_up      keeping      -             UNKNOWN       -                  -
 *     establish    either       -             ESTABLISHED   -                  -
 *     accept       either       ESTABLISHED,  -             -                  -
 *                               epoch+1
 *     enter        any          -             -             busy+1 2)          -
 *     leave        any 3)       -             -             busy-1             busy-1
 *     renew        receive      -             -             deadline           -
 *     expire       keeping      -             -             EXPIRED 4)         -
 *     end          either       -             -             EXPIRED            -
 *     reset        keeping      -             -             -                  UNKNOWN 5)
 *
 *     1) unless i is opens_max already   2) unless busy is 255   3) who has entered
 *     4) only if the deadline has passed   5) only if busy is 0
 *
 * "Either" is the receive thread or housekeeping. The deadline is 0 while the peer is not
 * ESTABLISHED, except that an EXPIRED one keeps its last, for whoever wants to read it.
 *
 * Invariants.
 *   - Busy is above 0 only while ESTABLISHED or EXPIRED, and counts those who have entered and not
 *     left. So what belongs to the peer is used only between enter and leave, and taken down only
 *     after a reset: never under anybody's feet.
 *   - Every way from ESTABLISHED leads over EXPIRED, and out of EXPIRED there is one way, which
 *     only housekeeping takes.
 *   - The epoch is another in each incarnation, so what was noted in an earlier one is recognized
 *     as old. (It comes round after 65536 incarnations; no note lives as long.)
 *
 * Each change is one compare-and-swap of the whole word, so it happens whole or not at all: the
 * lease cannot be renewed between the look at the deadline and the expiry, an ACCEPT cannot
 * establish a peer that is being given up, and two threads that both bring an end learn from the
 * answers which of them did it. That is also why state and deadline are not two words: an expiry
 * would have to be taken back when the lease turns out to be renewed.
 *
 * A compare-and-swap fails only because another thread's succeeded, and each of those is a step of
 * a peer's life or of a packet's: a loop goes round once for each that came between, and no thread
 * does nothing else. There is no number of tries after which leave could give up.
 *
 * Deadlines are milliseconds since the core's origin modulo 2^32, compared on the circle: the half
 * behind now has passed. Half the circle is 24 days, and housekeeping looks more often than that.
 * 0 is no deadline and means never.
 */
#ifndef PDI_PROTO_PEER_H
#define PDI_PROTO_PEER_H

#include "base/atomic.h"
#include "base/check.h"
#include "pyddsi.h"

#define PDI_PEER_BUSY_MAX     255
#define PDI_PEER_LEASE_MS_MAX INT32_MAX /* a longer lease is cut to this */

enum pdi_peer_state {
    PDI_PEER_UNKNOWN = 0,
    PDI_PEER_OPENING = 1, /* .. PDI_PEER_OPENING_LAST: how many OPENs went out */
    PDI_PEER_OPENING_LAST = 200,
    PDI_PEER_ESTABLISHED = 254,
    PDI_PEER_EXPIRED = 255,
};

struct pdi_peer_word {
    struct pdi_atomic64 word;
};

struct pdi_peer_view {
    uint8_t state;
    uint8_t busy;
    uint16_t epoch;
    uint32_t deadline_ms;
};

/* Where busy stands in the word. */
#define PDI_PEER_BUSY_ONE (UINT64_C(1) << 8)

/* The parts of a word. */
static inline struct pdi_peer_view pdi_peer_decode(uint64_t word)
{
    return (struct pdi_peer_view){.state = (uint8_t)word,
                                  .busy = (uint8_t)(word >> 8),
                                  .epoch = (uint16_t)(word >> 16),
                                  .deadline_ms = (uint32_t)(word >> 32)};
}

/* The word of some parts. */
static inline uint64_t pdi_peer_encode(struct pdi_peer_view view)
{
    return (uint64_t)view.deadline_ms << 32 | (uint64_t)view.epoch << 16 |
           (uint64_t)view.busy << 8 | (uint64_t)view.state;
}

/* The deadline `lease_ms` after now_ms; 0 (never) for a lease of 0. A deadline that happens to fall
 * on 0 is moved to 1. */
static inline uint32_t pdi_peer_deadline(uint32_t now_ms, uint32_t lease_ms)
{
    if (lease_ms == 0) {
        return 0;
    }
    uint32_t deadline =
        now_ms + (lease_ms < PDI_PEER_LEASE_MS_MAX ? lease_ms : PDI_PEER_LEASE_MS_MAX);
    return deadline != 0 ? deadline : 1;
}

/* UNKNOWN, idle, epoch 0. Before any other thread knows the peer. */
void pdi_peer_init(struct pdi_peer_word *peer);

/* Anyone: one consistent look, which may be out of date at once. */
static inline struct pdi_peer_view pdi_peer_look(const struct pdi_peer_word *peer)
{
    return pdi_peer_decode(pdi_atomic64_load_acquire(&peer->word));
}

/* Each of the following answers PYDDSI_OK if the change happened, and PYDDSI_AGAIN, without any
 * change, where the table above has a dash or its note says so. Who may call which: the table. */

/* A HELLO was answered: UNKNOWN becomes OPENING 1, of a new epoch. */
int pdi_peer_open(struct pdi_peer_word *peer);

/* Another OPEN goes out: OPENING i becomes OPENING i + 1; AGAIN if opens_max went out already.
 * opens_max is at most PDI_PEER_OPENING_LAST; what is above counts as that. */
int pdi_peer_retry(struct pdi_peer_word *peer, unsigned opens_max);

/* No ACCEPT came: OPENING becomes UNKNOWN. */
int pdi_peer_give_up(struct pdi_peer_word *peer);

/* ACCEPT came, or an OPEN that crossed ours: OPENING becomes ESTABLISHED. */
int pdi_peer_establish(struct pdi_peer_word *peer, uint32_t deadline_ms);

/* An OPEN came and was accepted: UNKNOWN becomes ESTABLISHED, of a new epoch. */
int pdi_peer_accept(struct pdi_peer_word *peer, uint32_t deadline_ms);

/* Somebody begins to work for an ESTABLISHED peer and will leave; *epoch is set only if OK. */
static inline int pdi_peer_enter(struct pdi_peer_word *peer, uint16_t *epoch)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    struct pdi_peer_view view;
    do {
        view = pdi_peer_decode(word);
        if (view.state != PDI_PEER_ESTABLISHED || view.busy == PDI_PEER_BUSY_MAX) {
            return PYDDSI_AGAIN;
        }
    } while (!pdi_atomic64_cas(&peer->word, &word, word + PDI_PEER_BUSY_ONE));
    *epoch = view.epoch;
    return PYDDSI_OK;
}

/* Who has entered has done with the peer, whatever became of it. AGAIN only if nobody is busy,
 * which is a mistake of the program. */
static inline int pdi_peer_leave(struct pdi_peer_word *peer)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    do {
        if (pdi_peer_decode(word).busy == 0) {
            return PYDDSI_AGAIN;
        }
    } while (!pdi_atomic64_cas(&peer->word, &word, word - PDI_PEER_BUSY_ONE));
    return PYDDSI_OK;
}

/* A packet came in time: a new deadline. Between enter and leave: otherwise the peer may have
 * become another incarnation since it was looked at, and this one would get the deadline. */
static inline int pdi_peer_renew(struct pdi_peer_word *peer, uint32_t deadline_ms)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    uint64_t renewed = 0;
    do {
        struct pdi_peer_view view = pdi_peer_decode(word);
        if (view.state != PDI_PEER_ESTABLISHED) {
            return PYDDSI_AGAIN;
        }
        if (view.deadline_ms == deadline_ms) {
            return PYDDSI_OK; /* the second packet within a millisecond */
        }
        view.deadline_ms = deadline_ms;
        renewed = pdi_peer_encode(view);
    } while (!pdi_atomic64_cas(&peer->word, &word, renewed));
    return PYDDSI_OK;
}

/* The lease ran out: ESTABLISHED becomes EXPIRED if now_ms is after its deadline. */
int pdi_peer_expire(struct pdi_peer_word *peer, uint32_t now_ms);

/* CLOSE came, or bytes that end the session: ESTABLISHED becomes EXPIRED at once. Between enter and
 * leave, as for renew. */
int pdi_peer_end(struct pdi_peer_word *peer);

/* All that belonged to it can be taken down: EXPIRED becomes UNKNOWN if nobody is busy. */
int pdi_peer_reset(struct pdi_peer_word *peer);

#endif
