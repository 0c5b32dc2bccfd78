/* lanes_out.c - the lanes that a session writes: who joins, who leaves, and the way to the sockets and back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/lanes.h"

#define BITS_MAX PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)

/* ---- beginning and end ---- */

static struct pdi_lane_out *free_lane(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < PDI_LANES_MAX; i++) {
        if (!lanes->out[i].used) {
            lanes->out_used = i < lanes->out_used ? lanes->out_used : i + 1;
            return &lanes->out[i];
        }
    }
    return NULL;
}

static void offer(struct pdi_lanes *lanes, const struct pdi_lane_out *lane)
{
    struct pdi_offer *at = &lanes->page->offers[lane - lanes->out];
    uint64_t stamp = pdi_atomic64_load_relaxed(&at->stamp) | 1;
    pdi_atomic64_store_release(&at->stamp, stamp);
    atomic_thread_fence(memory_order_seq_cst);
    pdi_atomic64_store_relaxed(&at->resource, lane->resource);
    pdi_atomic64_store_relaxed(&at->about, lane->space | (uint64_t)lane->reliable << 8 |
                                               (uint64_t)(lane->closing == 0) << 9);
    pdi_atomic64_store_relaxed(&at->fd, (uint64_t)lane->segment.fd);
    pdi_atomic64_store_relaxed(&at->size, lane->segment.size);
    pdi_atomic64_store_relaxed(&at->cookie, lane->writer.cookie);
    pdi_atomic64_store_release(&at->stamp, stamp + 1);
}

static struct pdi_lane_out *make(struct pdi_lanes *lanes, struct pdi_lane_of *of,
                                 const pyddsi_aside *aside)
{
    char text[PYDDSI_TEXT_MAX];
    struct pdi_lane_out *lane = free_lane(lanes);
    size_t size = pdi_lane_size(lanes->lane_samples, lanes->lane_bytes);
    if (lane == NULL)
        return NULL;
    uint64_t *starts = calloc(lanes->lane_samples, sizeof *starts);
    struct pdi_segment segment = {.fd = -1};
    if (starts == NULL ||
        pdi_segment_make(&segment, "pyddsi-lane", size, false, text, sizeof text) != PYDDSI_OK) {
        free(starts);
        lanes->refused++;
        return NULL;
    }
    pdi_lock_take(&lane->lock);
    lane->starts = starts;
    lane->segment = segment;
    lane->publisher = of->publisher;
    lane->on = lane->others = lane->waits = lane->closing = 0;
    lane->space = aside->space;
    lane->reliable = aside->reliable;
    lane->resource = aside->resource;
    lane->put = 0;
    int status = pdi_lane_init(&lane->writer, segment.memory, size, starts, lanes->lane_samples,
                               lanes->lane_bytes, lanes->random + 2 * ++lanes->cookies);
    lane->used = status == PYDDSI_OK;
    pdi_lock_give(&lane->lock);
    if (status != PYDDSI_OK) {
        pdi_segment_free(&lane->segment);
        free(starts);
        lane->starts = NULL;
        return NULL;
    }
    offer(lanes, lane);
    pdi_atomic32_store_release(&of->lane, (uint32_t)(lane - lanes->out) + 1);
    return lane;
}

/* With the lane's lock. Its memory goes; who still maps it keeps what is in it. */
static void unmake(struct pdi_lanes *lanes, struct pdi_lane_out *lane)
{
    struct pdi_offer *at = &lanes->page->offers[lane - lanes->out];
    uint64_t stamp = pdi_atomic64_load_relaxed(&at->stamp) | 1;
    pdi_atomic64_store_release(&at->stamp, stamp);
    pdi_atomic64_store_relaxed(&at->cookie, 0);
    pdi_atomic64_store_release(&at->stamp, stamp + 1);
    for (uint32_t i = 0; i < lanes->publishers_used; i++) {
        if (pdi_atomic32_load_relaxed(&lanes->of[i].lane) == (uint32_t)(lane - lanes->out) + 1)
            pdi_atomic32_store_release(&lanes->of[i].lane, 0);
    }
    lanes->put += lane->put;
    lane->used = lane->on = lane->waits = 0;
    pdi_segment_free(&lane->segment);
    free(lane->starts);
    lane->starts = NULL;
}

/* ---- readers ---- */

/* Puts go the usual way again, for this reader. `lost`: what it had not released may never reach it. */
static void leave(struct pdi_lanes *lanes, struct pdi_lane_out *lane, unsigned row,
                  enum pyddsi_reason lost, pdi_time now)
{
    uint64_t owed = lane->writer.next - lane->joined[row];
    uint64_t left = pdi_lane_leave(&lane->writer, lane->writer.places[row]);
    lanes->owed += owed;
    if (lost != PYDDSI_REASON_COUNT && left != 0) {
        lanes->lost += left;
        pdi_node_note(lanes->node, PYDDSI_AT_WINDOW, lost, lane->space, lane->resource, left, now);
    }
    if (lane->publisher != PDI_LANE_NOBODY)
        pdi_node_carry(lanes->node, lane->publisher, lane->peer[row], 0, now);
}

/* Who has ended, who has gone, who wants nothing any more. */
static void see_off(struct pdi_lanes *lanes, struct pdi_lane_out *lane, const uint64_t *bits, pdi_time now)
{
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        unsigned row = (unsigned)__builtin_ctzll(left);
        struct pdi_place *place = lane->writer.places[row];
        bool gone = !lanes->neighbours[lane->peer[row]].used;
        bool broken = pdi_lane_broken(&lane->writer) == place;
        if (gone || broken) {
            /* It may be stopped, and read on later: the memory is not written again. */
            leave(lanes, lane, row, PYDDSI_BY_PEER_LOST, now);
            lane->closing = 1;
            offer(lanes, lane);
        } else if (pdi_place_state(place) != PDI_PLACE_ACTIVE) {
            leave(lanes, lane, row, PYDDSI_REASON_COUNT, now);
        } else if (!pdi_bitset_test(bits, lane->peer[row]) && lane->publisher != PDI_LANE_NOBODY &&
                   pdi_lane_in_flight(&lane->writer) == 0) {
            leave(lanes, lane, row, PYDDSI_REASON_COUNT, now);
        }
    }
}

static bool has_joined(const struct pdi_lane_out *lane, uint32_t peer)
{
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        if (lane->peer[__builtin_ctzll(left)] == peer)
            return true;
    }
    return false;
}

/* The place in which this neighbour asks to join; null if it does not. */
static struct pdi_place *wish(const struct pdi_neighbour *neighbour, uint64_t cookie)
{
    struct pdi_shared_page *page = (struct pdi_shared_page *)neighbour->segment.memory;
    for (uint32_t i = 0; i < PDI_LANES_MAX; i++) {
        struct pdi_place *place = &page->places[i];
        if (pdi_place_state(place) == PDI_PLACE_WANTED &&
            pdi_atomic64_load_relaxed(&place->cookie) == cookie)
            return place;
    }
    return NULL;
}

static bool join(struct pdi_lanes *lanes, struct pdi_lane_out *lane, uint32_t peer,
                 struct pdi_place *place, pdi_time now)
{
    uint64_t before = lane->writer.readers;
    if (pdi_lane_join(&lane->writer, place) != PYDDSI_OK)
        return false;
    unsigned row = (unsigned)__builtin_ctzll(lane->writer.readers & ~before);
    lane->joined[row] = lane->writer.next;
    lane->peer[row] = (uint16_t)peer;
    pdi_node_carry(lanes->node, lane->publisher, peer, 1, now);
    pdi_lanes_nudge(&lanes->neighbours[peer]);
    return true;
}

/* Lets in who asks, when what it was sent by the sockets has been acknowledged. */
static void let_in(struct pdi_lanes *lanes, struct pdi_lane_out *lane, const uint64_t *bits, pdi_time now)
{
    for (uint32_t peer = pdi_bitset_find(bits, lanes->peers_max, 0); peer < lanes->peers_max;
         peer = pdi_bitset_find(bits, lanes->peers_max, peer + 1)) {
        struct pdi_neighbour *neighbour = &lanes->neighbours[peer];
        if (!neighbour->used || has_joined(lane, peer))
            continue;
        struct pdi_place *place = wish(neighbour, lane->writer.cookie);
        if (place == NULL)
            continue;
        if (pdi_node_settle(lanes->node, peer) != PYDDSI_OK) {
            lane->waits = 1;
            lanes->moving = 1;
        } else {
            (void)join(lanes, lane, peer, place, now);
        }
    }
}

static bool any_neighbour(const struct pdi_lanes *lanes, const uint64_t *bits)
{
    for (uint32_t peer = pdi_bitset_find(bits, lanes->peers_max, 0); peer < lanes->peers_max;
         peer = pdi_bitset_find(bits, lanes->peers_max, peer + 1)) {
        if (lanes->neighbours[peer].used)
            return true;
    }
    return false;
}

static void invite(struct pdi_lanes *lanes, const uint64_t *bits)
{
    for (uint32_t peer = pdi_bitset_find(bits, lanes->peers_max, 0); peer < lanes->peers_max;
         peer = pdi_bitset_find(bits, lanes->peers_max, peer + 1)) {
        if (lanes->neighbours[peer].used)
            pdi_lanes_nudge(&lanes->neighbours[peer]);
    }
}

/* One lane, with its lock. */
static bool look_at(struct pdi_lanes *lanes, struct pdi_lane_out *lane, const uint64_t *bits, int status,
                    pdi_time now)
{
    uint64_t readers = lane->writer.readers;
    uint8_t waited = lane->waits;
    lane->waits = 0;
    see_off(lanes, lane, bits, now);
    if (status != PYDDSI_OK && !lane->closing) {
        lane->closing = 1;
        offer(lanes, lane);
    }
    if (lane->closing) {
        bool empty = pdi_lane_in_flight(&lane->writer) == 0 && lane->writer.open == 0;
        for (uint64_t left = empty ? lane->writer.readers : 0; left != 0; left &= left - 1)
            leave(lanes, lane, (unsigned)__builtin_ctzll(left), PYDDSI_REASON_COUNT, now);
        lane->waits = !empty;
        lanes->moving |= !empty;
        if (empty) {
            unmake(lanes, lane);
            lanes->look = 1; /* a new one may be wanted */
        }
    } else {
        let_in(lanes, lane, bits, now);
    }
    lane->on = lane->used && lane->writer.readers != 0;
    if (lane->used && lane->publisher != PDI_LANE_NOBODY) {
        pyddsi_aside aside;
        uint64_t again[BITS_MAX];
        (void)pdi_node_audience(lanes->node, lane->publisher, again, &aside, now);
        lane->others = aside.others;
    }
    return lane->writer.readers != readers || lane->waits != waited;
}

bool pdi_lanes_look_out(struct pdi_lanes *lanes, pdi_time now)
{
    bool moved = false;
    uint64_t bits[BITS_MAX];
    pyddsi_aside aside;
    for (uint32_t i = 0; i < lanes->publishers_used; i++) {
        struct pdi_lane_of *of = &lanes->of[i];
        if (of->publisher == PDI_LANE_NOBODY || of->publisher == 0 ||
            pdi_atomic32_load_relaxed(&of->lane) != 0)
            continue;
        if (pdi_node_audience(lanes->node, of->publisher, bits, &aside, now) == PYDDSI_OK &&
            any_neighbour(lanes, bits) && make(lanes, of, &aside) != NULL)
            invite(lanes, bits);
    }
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        if (!lane->used)
            continue;
        memset(bits, 0, sizeof bits);
        int status = lane->publisher == PDI_LANE_NOBODY
                         ? PYDDSI_END
                         : pdi_node_audience(lanes->node, lane->publisher, bits, &aside, now);
        pdi_lock_take(&lane->lock);
        moved = look_at(lanes, lane, bits, status, now) || moved;
        pdi_lock_give(&lane->lock);
    }
    return moved;
}

/* ---- publishers ---- */

void pdi_lanes_publisher(struct pdi_lanes *lanes, uint32_t publisher)
{
    uint32_t index = publisher & 0xffff;
    if (index < lanes->publishers_max) {
        lanes->of[index].publisher = publisher;
        pdi_atomic32_store_release(&lanes->of[index].lane, 0);
        lanes->publishers_used = index < lanes->publishers_used ? lanes->publishers_used : index + 1;
        lanes->look = 1;
    }
}

void pdi_lanes_forget(struct pdi_lanes *lanes, uint32_t publisher)
{
    struct pdi_lane_out *lane = pdi_lanes_of(lanes, publisher);
    uint32_t index = publisher & 0xffff;
    if (lane != NULL) {
        pdi_lock_take(&lane->lock);
        lane->publisher = PDI_LANE_NOBODY;
        pdi_lock_give(&lane->lock);
    }
    if (index < lanes->publishers_max && lanes->of[index].publisher == publisher) {
        lanes->of[index].publisher = PDI_LANE_NOBODY;
        pdi_atomic32_store_release(&lanes->of[index].lane, 0);
        lanes->look = 1;
    }
}

struct pdi_lane_out *pdi_lanes_of(struct pdi_lanes *lanes, uint32_t publisher)
{
    uint32_t index = publisher & 0xffff;
    uint32_t lane = index < lanes->publishers_max ? pdi_atomic32_load_acquire(&lanes->of[index].lane) : 0;
    return lane != 0 && lane <= PDI_LANES_MAX ? &lanes->out[lane - 1] : NULL;
}

void pdi_lanes_ring(struct pdi_lanes *lanes, const struct pdi_lane_out *lane)
{
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        const struct pdi_neighbour *neighbour = &lanes->neighbours[lane->peer[__builtin_ctzll(left)]];
        (void)pdi_bell_ring(&((struct pdi_shared_page *)neighbour->segment.memory)->news);
    }
}

void pdi_lanes_hurry(struct pdi_lanes *lanes, const struct pdi_lane_out *lane)
{
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) /* a row each */
        pdi_lanes_nudge(&lanes->neighbours[lane->peer[__builtin_ctzll(left)]]);
}

void pdi_lanes_close(struct pdi_lanes *lanes, pdi_time now)
{
    pdi_atomic64_store_release(&lanes->page->magic, 0);
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        pdi_lock_take(&lane->lock);
        for (uint64_t left = lane->used ? lane->writer.readers : 0; left != 0; left &= left - 1)
            leave(lanes, lane, (unsigned)__builtin_ctzll(left), PYDDSI_BY_CLOSE, now);
        if (lane->used)
            unmake(lanes, lane);
        pdi_lock_give(&lane->lock);
    }
}
