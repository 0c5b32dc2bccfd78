/* lanes.c - the page of a session, its neighbours, and the books of its lanes. */
#include "api/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/token.h"

#define ESTABLISHED 254
#define FIRST_BYTES (UINT32_C(1) << 20) /* of a lane, until larger samples come */

static uint32_t power_of_two(uint32_t number, uint32_t least, uint32_t most)
{
    uint32_t power = least;
    while (power < number && power < most)
        power *= 2;
    return power;
}

int pdi_lanes_init(struct pdi_lanes *lanes, pyddsi_config *config,
                   const struct pdi_lanes_door *door, uint32_t bytes, uint32_t samples,
                   uint64_t random, bool barrier, char *text, size_t room)
{
    lanes->door = *door;
    lanes->segment.fd = -1;
    lanes->peers_max = config->peers_max;
    lanes->publishers_max = config->publishers_max;
    lanes->lane_bytes = power_of_two(bytes, 1 << 12, PDI_LANE_BYTES_MAX);
    lanes->lane_first = lanes->lane_bytes < FIRST_BYTES ? lanes->lane_bytes : FIRST_BYTES;
    lanes->lane_samples = power_of_two(samples, 16, PDI_LANE_ENTRIES_MAX);
    lanes->random = random | 1;
    lanes->slow = config->slow_ms * PDI_TIME_MS;
    lanes->due = PDI_TIME_NEVER;
    lanes->neighbours = calloc(lanes->peers_max, sizeof *lanes->neighbours);
    lanes->of = calloc(lanes->publishers_max, sizeof *lanes->of);
    lanes->barrier = barrier;
    for (uint32_t i = 0; lanes->neighbours != NULL && i < lanes->peers_max; i++) {
        lanes->neighbours[i].segment.fd = -1;
    }
    if (lanes->neighbours == NULL || lanes->of == NULL) {
        (void)snprintf(text, room, "no memory is left");
        return PYDDSI_NO_SPACE;
    }
    int status =
        pdi_door_make(door, &lanes->segment, "pyddsi-page", sizeof *lanes->page, true, text, room);
    if (status != PYDDSI_OK)
        return status;
    lanes->page = (struct pdi_shared_page *)lanes->segment.memory;
    pdi_bell_init(&lanes->page->news);
    pdi_bell_init(&lanes->page->chores);
    pdi_atomic32_store_relaxed(&lanes->page->heavy, lanes->barrier);
    pdi_atomic64_store_relaxed(&lanes->page->cookie, lanes->random);
    pdi_atomic64_store_release(&lanes->page->magic, PDI_PAGE_MAGIC);
    pdi_token_put(&(struct pdi_token){.host = door->host,
                                      .cookie = lanes->random,
                                      .pid = door->pid,
                                      .fd = (uint32_t)lanes->segment.fd,
                                      .size = (uint32_t)lanes->segment.size},
                  config);
    return PYDDSI_OK;
}

void pdi_lanes_begin(struct pdi_lanes *lanes, struct pdi_node *node)
{
    lanes->node = node;
}

void pdi_lanes_fini(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        pdi_door_unmap(&lanes->door, &lanes->out[i].segment);
        free(lanes->out[i].starts);
    }
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        pdi_door_unmap(&lanes->door, &lanes->in[i].segment);
        free(lanes->in[i].released);
        free(lanes->in[i].holds);
    }
    for (uint32_t i = 0; lanes->neighbours != NULL && i < lanes->peers_max; i++)
        pdi_door_unmap(&lanes->door, &lanes->neighbours[i].segment);
    pdi_door_unmap(&lanes->door, &lanes->segment);
    free(lanes->neighbours);
    free(lanes->of);
    lanes->neighbours = NULL;
    lanes->of = NULL;
}

void pdi_lanes_nudge(struct pdi_neighbour *neighbour)
{
    struct pdi_shared_page *page = (struct pdi_shared_page *)neighbour->segment.memory;
    if (page != NULL) {
        pdi_atomic32_store_release(&page->attention, 1);
        (void)pdi_bell_ring(&page->chores);
    }
}

/* ---- who is on this machine ---- */

static void meet(struct pdi_lanes *lanes, struct pdi_neighbour *neighbour,
                 const struct pdi_token *token, uint32_t epoch)
{
    char text[PYDDSI_TEXT_MAX];
    struct pdi_segment segment;
    if (token->size != lanes->segment.size ||
        pdi_door_map(&lanes->door, &segment, token->pid, (int)token->fd, token->size, true, text,
                     sizeof text) != PYDDSI_OK) {
        lanes->refused++;
        neighbour->epoch = epoch; /* once is enough */
        neighbour->cookie = 0;
        return;
    }
    const struct pdi_shared_page *page = (const struct pdi_shared_page *)segment.memory;
    if (pdi_atomic64_load_acquire(&page->magic) != PDI_PAGE_MAGIC ||
        pdi_atomic64_load_relaxed(&page->cookie) != token->cookie) {
        pdi_door_unmap(&lanes->door, &segment);
        lanes->refused++;
        neighbour->epoch = epoch;
        return;
    }
    *neighbour = (struct pdi_neighbour){.segment = segment,
                                        .cookie = token->cookie,
                                        .pid = token->pid,
                                        .epoch = epoch,
                                        .unproven = 1};
}

/* Whether a page is that of the peer who told us of it. */
static void prove(struct pdi_lanes *lanes, uint32_t peer)
{
    struct pdi_neighbour *neighbour = &lanes->neighbours[peer];
    struct pdi_shared_page *page = (struct pdi_shared_page *)neighbour->segment.memory;
    uint64_t bond = pdi_node_bond(lanes->node, peer, false);
    if (pdi_bond_find(&lanes->page->bonds, &page->bonds, bond)) {
        neighbour->unproven = 0;
        neighbour->used = 1;
        pdi_lanes_nudge(neighbour);
    }
}

/* Who has gone is marked so, and stays mapped until the lanes have left. */
static void part(struct pdi_lanes *lanes)
{
    pyddsi_peer peer;
    for (uint32_t i = 0; i < lanes->peers_max; i++) {
        struct pdi_neighbour *neighbour = &lanes->neighbours[i];
        if (neighbour->used && (pdi_node_peer(lanes->node, i, &peer) != PYDDSI_OK ||
                                peer.state != ESTABLISHED || peer.epoch + 1U != neighbour->epoch)) {
            pdi_lanes_orphan(lanes, i);
            neighbour->used = 0;
        }
    }
}

static void greet(struct pdi_lanes *lanes)
{
    pyddsi_peer peer;
    struct pdi_token token;
    uint32_t raised = pdi_bond_raised(&lanes->page->bonds);
    bool told = raised != lanes->raised;
    lanes->raised = raised;
    for (uint32_t i = 0; i < lanes->peers_max && pdi_node_peer(lanes->node, i, &peer) == PYDDSI_OK;
         i++) {
        struct pdi_neighbour *neighbour = &lanes->neighbours[i];
        bool near = peer.state == ESTABLISHED && pdi_token_get(&peer, &token) &&
                    token.host == lanes->door.host && token.size != 0;
        bool fresh = near && neighbour->epoch != peer.epoch + 1U;
        if (neighbour->unproven && (!near || fresh)) {
            neighbour->unproven = 0;
            lanes->refused++;
            pdi_door_unmap(&lanes->door, &neighbour->segment);
        } else if (!neighbour->used && !neighbour->unproven && neighbour->segment.memory != NULL) {
            pdi_lanes_dismiss(lanes, neighbour, true);
            pdi_door_unmap(&lanes->door, &neighbour->segment);
        }
        pdi_bond_write(&lanes->page->bonds, i, near ? pdi_node_bond(lanes->node, i, true) : 0);
        if (!neighbour->used && fresh) {
            meet(lanes, neighbour, &token, peer.epoch + 1U);
        }
        if (neighbour->unproven && (fresh || told)) {
            prove(lanes, i);
        }
    }
}

bool pdi_lanes_look(struct pdi_lanes *lanes, pdi_time now)
{
    lanes->audience = pdi_node_audience_changes(lanes->node);
    lanes->wants = pdi_node_wants_changes(lanes->node);
    lanes->peers = pdi_node_peer_changes(lanes->node);
    lanes->look = lanes->moving = 0;
    lanes->due = PDI_TIME_NEVER;
    part(lanes);
    bool moved = pdi_lanes_look_in(lanes, now);
    moved = pdi_lanes_look_out(lanes, now) || moved;
    greet(lanes);
    /* who has just been met may have something for us, or want something */
    lanes->moving = 0;
    moved = pdi_lanes_look_in(lanes, now) || moved;
    moved = pdi_lanes_look_out(lanes, now) || moved;
    lanes->audience = pdi_node_audience_changes(lanes->node); /* what we ourselves have changed */
    return moved;
}

void pdi_lanes_close(struct pdi_lanes *lanes, pdi_time now)
{
    pdi_atomic64_store_release(&lanes->page->magic, 0);
    pdi_lanes_leave_all(lanes);
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        pdi_lanes_enter(lane);
        if (lane->used) {
            pdi_lane_flush(&lane->writer);
        }
        for (uint64_t left = lane->used ? lane->writer.readers : 0; left != 0; left &= left - 1) {
            pdi_lanes_leave(lanes, lane, (unsigned)__builtin_ctzll(left), PYDDSI_BY_CLOSE, now);
        }
        lane->on = lane->waits = 0;
        lane->closing = 1;
        if (lane->used &&
            lane->writer.open == 0) { /* else somebody writes into it, and fini frees it */
            pdi_lanes_unmake(lanes, lane);
        }
        pdi_lanes_exit(lane);
    }
    for (uint32_t i = 0; i < lanes->peers_max; i++) {
        if (lanes->neighbours[i].segment.memory != NULL && !lanes->neighbours[i].unproven) {
            pdi_lanes_dismiss(lanes, &lanes->neighbours[i], true);
            pdi_lanes_nudge(&lanes->neighbours[i]);
        }
    }
}

/* ---- the books ---- */

/* Of one lane, what its present readers were owed. */
static uint64_t owed_by(const struct pdi_lane_out *lane)
{
    uint64_t owed = 0;
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) /* a row each */
        owed += lane->writer.next - lane->rows[__builtin_ctzll(left)].joined;
    return owed;
}

void pdi_lanes_stats(struct pdi_lanes *lanes, pyddsi_stats *stats)
{
    uint64_t owed = lanes->owed;
    uint64_t in_flight = 0;
    stats->accepted += lanes->put;
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        pdi_lanes_enter(lane);
        if (lane->used) {
            owed += owed_by(lane);
            in_flight += pdi_lanes_unbrought(lanes, lane);
            stats->accepted += lane->put;
        }
        pdi_lanes_exit(lane);
    }
    stats->owed += owed;
    stats->forgiven += lanes->lost;
    stats->acknowledged += owed - lanes->lost - in_flight;
}

void pdi_lanes_count(struct pdi_lanes *lanes, pyddsi_session_counts *counts)
{
    counts->lane_put = lanes->put;
    counts->lane_copied = lanes->copied;
    counts->lane_refused = lanes->refused;
    counts->lane_taken = lanes->taken;
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        pdi_lanes_enter(lane);
        if (lane->used) {
            counts->lanes++;
            counts->lane_put += lane->put;
            counts->lane_readers += (uint64_t)__builtin_popcountll(lane->writer.readers);
        }
        pdi_lanes_exit(lane);
    }
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        counts->lane_taken += lanes->in[i].taken;
    }
}
