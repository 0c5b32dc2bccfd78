/* tap.c - the ring of a recording: see tap.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "api/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "host/clock.h"
#include "wire/encode.h"

#define NAP    (20 * PDI_TIME_MS) /* how long the taker lets records gather, */
#define PLENTY 4U                 /* unless this part of the ring is full */
#define GRAIN  8U

#define CLOCK_SET_NS ((uint64_t)PDI_TIME_S) /* a time earlier by so much is no waiting thread's */

/* ---- beginning and end ---- */

/* The marker before each sample of shared memory; answers its size. */
static uint8_t conduit(uint8_t *out, size_t room)
{
    const pyddsi_message marker = {.kind = PYDDSI_CONDUIT, .conduit = PYDDSI_RECORD_CONDUIT};
    pyddsi_fault fault;
    size_t size = 0;
    (void)pdi_encode_message(&marker, out, room, &size, &fault); /* there is room for it */
    return (uint8_t)size;
}

int pdi_tap_begin(struct pdi_tap *tap, uint32_t size, uint8_t seq_bits,
                  const pyddsi_endpoint *group)
{
    int status = PYDDSI_AGAIN;
    pdi_lock_take(&tap->lock);
    if (tap->ring == NULL) {
        status = PYDDSI_NO_SPACE;
        struct pdi_tap_made *made = calloc(1, sizeof *made);
        void *ring = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made != NULL && ring != MAP_FAILED) {
            made->seq_bits = seq_bits;
            made->conduit_size = conduit(made->conduit, sizeof made->conduit);
            made->group = *group;
            tap->made = made;
            tap->ring = ring;
            tap->size = size;
            pdi_atomic64_store_relaxed(&tap->head, 0);
            pdi_atomic64_store_relaxed(&tap->tail, 0);
            pdi_atomic64_store_relaxed(&tap->records, 0);
            pdi_atomic64_store_relaxed(&tap->bytes, 0);
            pdi_atomic64_store_relaxed(&tap->lost, 0);
            pdi_atomic64_store_relaxed(&tap->lost_bytes, 0);
            pdi_atomic64_store_relaxed(&tap->odd, 0);
            pdi_atomic32_store_relaxed(&tap->over, 0);
            pdi_atomic32_store_release(&tap->on, 1);
            status = PYDDSI_OK;
        } else {
            free(made);
            if (ring != MAP_FAILED) {
                (void)munmap(ring, size);
            }
        }
    }
    pdi_lock_give(&tap->lock);
    return status;
}

void pdi_tap_stop(struct pdi_tap *tap)
{
    pdi_lock_take(&tap->lock);
    pdi_atomic32_store_relaxed(&tap->on, 0);
    pdi_atomic32_store_release(&tap->over, 1);
    pdi_lock_give(&tap->lock);
    (void)pdi_bell_ring(&tap->some);
    (void)pdi_bell_ring(&tap->much);
}

void pdi_tap_fini(struct pdi_tap *tap)
{
    pdi_lock_take(&tap->lock);
    pdi_atomic32_store_relaxed(&tap->on, 0);
    if (tap->ring != NULL) {
        (void)munmap(tap->ring, tap->size);
    }
    free(tap->made);
    tap->ring = NULL;
    tap->made = NULL;
    pdi_lock_give(&tap->lock);
}

/* ---- putting ---- */

static struct pdi_tap_record *at(const struct pdi_tap *tap, uint64_t position)
{
    return (struct pdi_tap_record *)(void *)(tap->ring + (position & (tap->size - 1)));
}

/* Room for |span| bytes in one piece, with the lock; null: there is none. *end: the head behind them, *used: of the ring. */
static struct pdi_tap_record *reserve(struct pdi_tap *tap, uint64_t span, uint64_t *end,
                                      uint64_t *used)
{
    uint64_t head = pdi_atomic64_load_relaxed(&tap->head);
    uint64_t tail = pdi_atomic64_load_acquire(&tap->tail);
    uint64_t left = tap->size - (head & (tap->size - 1)); /* before the ring's end */
    uint64_t skip = left < span ? left : 0;
    if (span > tap->size || head - tail + skip + span > tap->size) {
        return NULL;
    }
    if (skip != 0) { /* a record is larger than a grain, so there is room for its first word */
        at(tap, head)->span = 0;
        head += skip;
    }
    *end = head + span;
    *used = *end - tail;
    return at(tap, head);
}

void pdi_tap_put(struct pdi_tap *tap, struct pdi_tap_record *record, const void *data)
{
    uint64_t span = (sizeof *record + (uint64_t)record->size + GRAIN - 1) / GRAIN * GRAIN;
    uint64_t end = 0;
    uint64_t used = 0;
    pdi_lock_take(&tap->lock);
    if (pdi_atomic32_load_relaxed(&tap->on) == 0) {
        pdi_lock_give(&tap->lock);
        return;
    }
    struct pdi_tap_record *there = span <= UINT32_MAX ? reserve(tap, span, &end, &used) : NULL;
    if (there == NULL) {
        (void)pdi_atomic64_add(&tap->lost, 1);
        (void)pdi_atomic64_add(&tap->lost_bytes, record->size);
        pdi_lock_give(&tap->lock);
        return;
    }
    record->span = (uint32_t)span;
    if (record->time_ns < tap->newest_ns && tap->newest_ns - record->time_ns < CLOCK_SET_NS) {
        record->time_ns = tap->newest_ns;
    }
    tap->newest_ns = record->time_ns;
    memcpy(there, record, sizeof *record);
    if (record->size != 0) { /* data may be null when there is nothing to copy */
        memcpy(there + 1, data, record->size);
    }
    pdi_atomic64_store_release(&tap->head, end);
    pdi_lock_give(&tap->lock);
    (void)pdi_bell_ring(&tap->some);
    if (used > tap->size / PLENTY) {
        (void)pdi_bell_ring(&tap->much);
    }
}

/* ---- taking ---- */

const struct pdi_tap_record *pdi_tap_first(struct pdi_tap *tap)
{
    uint64_t tail = pdi_atomic64_load_relaxed(&tap->tail);
    uint64_t head = pdi_atomic64_load_acquire(&tap->head);
    if (head == tail) {
        return NULL;
    }
    if (at(tap, tail)->span == 0) {
        tail += tap->size - (tail & (tap->size - 1));
        pdi_atomic64_store_release(&tap->tail, tail);
    }
    return at(tap, tail);
}

void pdi_tap_pop(struct pdi_tap *tap, const struct pdi_tap_record *record)
{
    (void)pdi_atomic64_add(&tap->tail, record->span);
    (void)pdi_atomic64_add(&tap->records, 1);
}

/* Waits for this bell, unless there is something to be taken, or nothing will ever be. */
static void wait(struct pdi_tap *tap, struct pdi_bell *bell, bool even_so, uint64_t timeout_ns)
{
    uint32_t heard = pdi_bell_listen(bell);
    bool some = pdi_tap_first(tap) != NULL && !even_so;
    if (some || pdi_atomic32_load_acquire(&tap->over) != 0) {
        pdi_bell_unlisten(bell);
    } else {
        (void)pdi_bell_wait(bell, heard, timeout_ns);
    }
}

/* What there is, as far as it fits. */
static void drain(struct pdi_tap *tap, pyddsi_copy *into)
{
    const struct pdi_tap_record *record;
    while ((record = pdi_tap_first(tap)) != NULL) { /* ends with the room */
        if (pdi_tap_write(tap, record, into) != PYDDSI_OK) {
            return;
        }
        pdi_tap_pop(tap, record);
    }
}

int pdi_tap_take(struct pdi_tap *tap, pyddsi_copy *into, uint64_t timeout_ns)
{
    if (tap->ring == NULL) {
        return PYDDSI_END;
    }
    if (pdi_tap_first(tap) == NULL && timeout_ns != 0) {
        wait(tap, &tap->some, false, timeout_ns);
        if (pdi_tap_first(tap) != NULL) {
            wait(tap, &tap->much, true, timeout_ns < NAP ? timeout_ns : NAP);
        }
    }
    bool over = pdi_atomic32_load_acquire(&tap->over) != 0; /* then this is the last of it */
    drain(tap, into);
    if (over && into->count == 0) {
        pdi_tap_fini(tap);
        return PYDDSI_END;
    }
    return PYDDSI_OK;
}

void pdi_tap_count(const struct pdi_tap *tap, pyddsi_recorded *counts)
{
    *counts = (pyddsi_recorded){
        .records = pdi_atomic64_load_relaxed(&tap->records),
        .bytes = pdi_atomic64_load_relaxed(&tap->bytes),
        .lost = pdi_atomic64_load_relaxed(&tap->lost),
        .lost_bytes = pdi_atomic64_load_relaxed(&tap->lost_bytes),
        .odd = pdi_atomic64_load_relaxed(&tap->odd),
    };
}
