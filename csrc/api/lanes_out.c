/* lanes_out.c - the lanes that a session writes: who joins, who leaves, and the way to the sockets and back. It is long, since each of
 * these looks at what the others have done to a lane. */
#include <string.h>

#include "api/lanes.h"

#define PATIENCE       (20 * PDI_TIME_MS)  /* of puts, for what went by the sockets */
#define STUCK_PATIENCE (100 * PDI_TIME_MS) /* with readers that only look at what they have */
#define BITS_MAX       PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)

static struct pdi_shared_page *page_of(const struct pdi_lanes *lanes,
                                       const struct pdi_lane_out *lane, unsigned row)
{
    return (struct pdi_shared_page *)lanes->neighbours[lane->rows[row].peer].segment.memory;
}

uint64_t pdi_lanes_brought(const struct pdi_lanes *lanes, struct pdi_lane_out *lane, unsigned row)
{
    struct pdi_lane_row_out *reader = &lane->rows[row];
    struct pdi_shared_page *page = page_of(lanes, lane, row);
    uint32_t index = (uint32_t)(lane->writer.places[row] - page->places);
    uint64_t number = pdi_atomic64_load_acquire(&page->brought[index].number);
    if (number - reader->brought <= lane->writer.next - reader->brought) {
        reader->brought = number;
    } else if (number != PDI_BROUGHT_NOTHING || reader->brought != reader->joined) {
        lane->writer.broken |= UINT64_C(1) << row;
    }
    return reader->brought;
}

uint64_t pdi_lanes_unbrought(const struct pdi_lanes *lanes, struct pdi_lane_out *lane)
{
    uint64_t sum = 0;
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        sum += lane->writer.next - pdi_lanes_brought(lanes, lane, (unsigned)__builtin_ctzll(left));
    }
    return sum;
}

bool pdi_lanes_linger(struct pdi_lanes *lanes, uint8_t space, uint64_t resource)
{
    bool found = false;
    for (uint32_t i = 0; !found && i < lanes->out_used; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        if (!lane->used || lane->resource != resource || lane->space != space) {
            continue;
        }
        pdi_lanes_enter(lane);
        found = lane->used && pdi_lanes_unbrought(lanes, lane) != 0;
        pdi_lanes_exit(lane);
    }
    return found;
}

bool pdi_lanes_looked_at(const struct pdi_lanes *lanes, const struct pdi_lane_out *lane)
{
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        unsigned row = (unsigned)__builtin_ctzll(left);
        struct pdi_shared_page *page = page_of(lanes, lane, row);
        uint32_t index = (uint32_t)(lane->writer.places[row] - page->places);
        if (pdi_atomic32_load_acquire(&page->brought[index].held) != 0) {
            return true;
        }
    }
    return false;
}

/* ---- readers ---- */

void pdi_lanes_leave(struct pdi_lanes *lanes, struct pdi_lane_out *lane, unsigned row,
                     enum pyddsi_reason reason, pdi_time now)
{
    uint64_t lost = lane->writer.next - pdi_lanes_brought(lanes, lane, row);
    lanes->owed += lane->writer.next - lane->rows[row].joined;
    lanes->lost += lost;
    pdi_node_note(lanes->node, PYDDSI_AT_WINDOW, reason, lane->space, lane->resource, lost, now);
    (void)pdi_lane_leave(&lane->writer, lane->writer.places[row]);
    if (lane->publisher != PDI_LANE_NOBODY) {
        pdi_node_carry(lanes->node, lane->publisher, lane->rows[row].peer, 0, now);
    }
}

static void close_it(struct pdi_lanes *lanes, struct pdi_lane_out *lane)
{
    if (!lane->closing) {
        lane->closing = 1;
        pdi_lanes_offer(lanes, lane);
    }
}

/* Who has ended, who has gone, who wants nothing any more. */
static void see_off(struct pdi_lanes *lanes, struct pdi_lane_out *lane, const uint64_t *bits,
                    pdi_time now)
{
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        unsigned row = (unsigned)__builtin_ctzll(left);
        struct pdi_place *place = lane->writer.places[row];
        struct pdi_neighbour *neighbour = &lanes->neighbours[lane->rows[row].peer];
        (void)pdi_lanes_brought(lanes, lane, row);
        bool broken = (lane->writer.broken >> row & 1) != 0;
        if (!neighbour->used || broken) {
            lanes->refused += broken && !neighbour->shut;
            neighbour->shut = neighbour->shut || broken;
            /* It may be stopped, and read on later: the memory is not written again. */
            pdi_lanes_leave(lanes, lane, row, PYDDSI_BY_PEER_LOST, now);
            close_it(lanes, lane);
        } else if (pdi_place_state(place) != PDI_PLACE_ACTIVE) {
            pdi_lanes_leave(lanes, lane, row, PYDDSI_BY_NO_SUBSCRIBER, now);
        } else if (!pdi_bitset_test(bits, lane->rows[row].peer) && !lane->closing &&
                   pdi_atomic64_load_acquire(&place->position) == lane->writer.next) {
            pdi_lanes_leave(lanes, lane, row, PYDDSI_BY_NO_SUBSCRIBER, now);
            pdi_lanes_nudge(&lanes->neighbours[lane->rows[row].peer]);
        }
    }
}

static bool has_joined(const struct pdi_lane_out *lane, uint32_t peer)
{
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        if (lane->rows[__builtin_ctzll(left)].peer == peer) {
            return true;
        }
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
            pdi_atomic64_load_relaxed(&place->cookie) == cookie) {
            return place;
        }
    }
    return NULL;
}

static void join(struct pdi_lanes *lanes, struct pdi_lane_out *lane, uint32_t peer,
                 struct pdi_place *place, pdi_time now)
{
    uint64_t before = lane->writer.readers;
    if (pdi_lane_join(&lane->writer, place) != PYDDSI_OK) {
        return;
    }
    unsigned row = (unsigned)__builtin_ctzll(lane->writer.readers & ~before);
    lane->rows[row] = (struct pdi_lane_row_out){
        .joined = lane->writer.next, .brought = lane->writer.next, .peer = (uint16_t)peer};
    pdi_node_carry(lanes->node, lane->publisher, peer, 1, now);
    pdi_lanes_nudge(&lanes->neighbours[peer]);
}

/* Whether this peer has what it was sent by the sockets. Puts wait for that, but not for long: it may be that its
 * application does not read. Then they do not wait for another one at once either, or several such peers would have them wait
 * for ever; who has all he was sent joins without that. */
static bool settled(struct pdi_lanes *lanes, struct pdi_lane_out *lane, uint32_t peer, pdi_time now)
{
    struct pdi_settle once = {0};
    if (lane->retry > now) {
        lanes->due = lane->retry < lanes->due ? lane->retry : lanes->due;
        return pdi_node_settle(lanes->node, lane->publisher, peer, &once) == PYDDSI_OK;
    }
    if (lane->asked == 0 || lane->joiner != peer + 1) {
        lane->joiner = peer + 1;
        lane->asked = now;
        lane->settle = (struct pdi_settle){0};
    }
    if (pdi_node_settle(lanes->node, lane->publisher, peer, &lane->settle) == PYDDSI_OK) {
        lane->asked = lane->pause = 0;
        return true;
    }
    pdi_time until = lane->asked + PATIENCE;
    if (now < until) {
        lane->waits = lanes->moving = 1;
    } else {
        lane->asked = 0;
        lane->pause = lane->pause == 0           ? 2 * PATIENCE
                      : lane->pause < PDI_TIME_S ? 2 * lane->pause
                                                 : lane->pause;
        until = lane->retry = now + lane->pause;
    }
    lanes->due = until < lanes->due ? until : lanes->due;
    return false;
}

/* Lets this peer in if it asks and the lane is not shut, or tells it of the lane if it may not know of it. */
static void let_in_one(struct pdi_lanes *lanes, struct pdi_lane_out *lane, uint32_t peer, bool shut,
                       pdi_time now)
{
    struct pdi_neighbour *neighbour = &lanes->neighbours[peer];
    if (!neighbour->used || neighbour->shut) {
        pdi_bitset_clear(lane->invited, peer);
        return;
    }
    if (has_joined(lane, peer) || pdi_lanes_is_absent(lanes, lane->publisher, peer)) {
        return;
    }
    struct pdi_place *place = wish(neighbour, lane->writer.cookie);
    if (place == NULL && !pdi_bitset_test(lane->invited, peer)) {
        pdi_bitset_set(lane->invited, peer);
        pdi_lanes_nudge(neighbour);
    } else if (place != NULL && !shut && !lane->waits && settled(lanes, lane, peer, now)) {
        join(lanes, lane, peer, place, now);
    }
}

/* All of them, one after the other: first the one that is waited for, or after the last one, the next. */
static void let_in(struct pdi_lanes *lanes, struct pdi_lane_out *lane, const uint64_t *bits,
                   pdi_time now)
{
    for (uint32_t i = 0; i < PDI_BITSET_WORDS(lanes->peers_max); i++) {
        lane->invited[i] &= bits[i];
    }
    pdi_time strange = pdi_node_strangers(lanes->node, lane->publisher, now);
    if (strange != 0) {
        lane->asked = 0; /* puts do not wait meanwhile, so who was asked has to be asked again */
        lanes->due = strange < lanes->due ? strange : lanes->due;
    }
    uint32_t first = lane->asked != 0 ? lane->joiner - 1 : lane->joiner;
    for (uint32_t peer = pdi_bitset_find(bits, lanes->peers_max, first); peer < lanes->peers_max;
         peer = pdi_bitset_find(bits, lanes->peers_max, peer + 1)) {
        let_in_one(lanes, lane, peer, strange != 0, now);
    }
    for (uint32_t peer = pdi_bitset_find(bits, lanes->peers_max, 0);
         peer < lanes->peers_max && peer < first;
         peer = pdi_bitset_find(bits, lanes->peers_max, peer + 1)) {
        let_in_one(lanes, lane, peer, strange != 0, now);
    }
}

/* Whether a lane with this cookie is one that somebody may join. */
static bool stands(const struct pdi_lanes *lanes, uint64_t cookie)
{
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        const struct pdi_lane_out *lane = &lanes->out[i];
        if (lane->used && !lane->closing && lane->writer.cookie == cookie) {
            return true;
        }
    }
    return false;
}

static bool in_a_lane(const struct pdi_lanes *lanes, const struct pdi_place *place)
{
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        if (lanes->out[i].used &&
            pdi_lane_find(&lanes->out[i].writer, place) != PDI_LANE_READERS_MAX) {
            return true;
        }
    }
    return false;
}

void pdi_lanes_dismiss(struct pdi_lanes *lanes, struct pdi_neighbour *neighbour, bool gone)
{
    struct pdi_shared_page *page = (struct pdi_shared_page *)neighbour->segment.memory;
    bool any = false;
    for (uint32_t i = 0; i < PDI_LANES_MAX; i++) {
        struct pdi_place *place = &page->places[i];
        enum pdi_place_state state = pdi_place_state(place);
        if (state != PDI_PLACE_WANTED && state != PDI_PLACE_ENDED) {
            continue;
        }
        uint64_t cookie = pdi_atomic64_load_relaxed(&place->cookie);
        bool ours = (cookie - lanes->random) % 2 == 0 && cookie != lanes->random &&
                    (cookie - lanes->random) / 2 <= lanes->cookies;
        if (ours && (gone || state == PDI_PLACE_ENDED || !stands(lanes, cookie)) &&
            !in_a_lane(lanes, place)) {
            pdi_place_dismiss(place);
            any = true;
        }
    }
    if (any && !gone) {
        pdi_lanes_nudge(neighbour);
    }
}

static bool any_neighbour(const struct pdi_lanes *lanes, const uint64_t *bits)
{
    for (uint32_t peer = pdi_bitset_find(bits, lanes->peers_max, 0); peer < lanes->peers_max;
         peer = pdi_bitset_find(bits, lanes->peers_max, peer + 1)) {
        if (lanes->neighbours[peer].used && !lanes->neighbours[peer].shut) {
            return true;
        }
    }
    return false;
}

bool pdi_lanes_wanted(struct pdi_lanes *lanes, uint32_t publisher, pdi_time now)
{
    uint64_t bits[BITS_MAX];
    pyddsi_aside aside;
    return pdi_node_audience(lanes->node, publisher, bits, &aside, now) == PYDDSI_OK &&
           any_neighbour(lanes, bits);
}

/* ---- the way back ---- */

/* A reader that only looks at what it has, while a put waits for room, may do so for as long as it likes: after a moment
 * we begin another lane. */
static void see_stuck(struct pdi_lanes *lanes, struct pdi_lane_out *lane, pdi_time now)
{
    if (lane->short_of == 0 || lane->closing) {
        return;
    }
    bool held = pdi_lanes_looked_at(lanes, lane);
    if (pdi_lane_room(&lane->writer, lane->short_of) == PYDDSI_OK &&
        (!lane->short_rows || pdi_lane_has_row(&lane->writer))) {
        lane->short_of = lane->short_rows = 0;
        held = false;
    }
    if (held && lane->stuck != 0 && now - lane->stuck >= STUCK_PATIENCE) {
        close_it(lanes, lane);
        return;
    }
    lane->stuck = !held ? 0 : lane->stuck != 0 ? lane->stuck : now;
    if (held && lane->stuck + STUCK_PATIENCE < lanes->due) {
        lanes->due = lane->stuck + STUCK_PATIENCE;
    }
}

/* One that leads back is left when all of it has been brought; who still looks at something keeps the memory. Best effort waits
 * for nobody: who has not brought it after a moment (it was stopped, perhaps) does without. It is unmade when nobody writes into
 * it any more. */
static void lead_back(struct pdi_lanes *lanes, struct pdi_lane_out *lane, pdi_time now)
{
    pdi_lane_flush(&lane->writer);
    lane->back = lane->back != 0 ? lane->back : now;
    bool patient = lane->reliable || lane->publisher == PDI_LANE_NOBODY;
    pdi_time until = patient ? PDI_TIME_NEVER : lane->back + PATIENCE;
    if (lane->writer.readers != 0) {
        pdi_lanes_want(lanes, PDI_TELL_BROUGHT);
        if (pdi_lanes_unbrought(lanes, lane) != 0 && now < until) {
            lanes->look = lanes->look || lane->writer.broken != 0;
            lane->waits = lanes->moving = 1;
            lanes->due = until < lanes->due ? until : lanes->due;
            pdi_lanes_hurry(lanes, lane);
            return;
        }
    }
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        unsigned row = (unsigned)__builtin_ctzll(left);
        uint32_t peer = lane->rows[row].peer;
        pdi_lanes_leave(lanes, lane, row, lane->reliable ? PYDDSI_BY_CLOSE : PYDDSI_BY_FULL, now);
        pdi_lanes_nudge(&lanes->neighbours[peer]);
    }
    if (lane->writer.open == 0) {
        pdi_lanes_unmake(lanes, lane);
        lanes->look = 1; /* a new one may be wanted */
    }
}

/* Whether it is enough to ring for its readers lightly. */
static bool all_heavy(const struct pdi_lanes *lanes, const struct pdi_lane_out *lane)
{
    bool heavy = lanes->barrier;
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        const struct pdi_shared_page *page = page_of(lanes, lane, (unsigned)__builtin_ctzll(left));
        heavy = heavy && pdi_atomic32_load_acquire(&page->heavy) != 0;
    }
    return heavy;
}

/* One lane, with its lock. */
static bool look_at(struct pdi_lanes *lanes, struct pdi_lane_out *lane, const uint64_t *bits,
                    int status, pdi_time now)
{
    uint64_t readers = lane->writer.readers;
    uint8_t waited = lane->waits;
    uint8_t was_used = lane->used;
    lane->waits = 0;
    see_off(lanes, lane, bits, now);
    if (status != PYDDSI_OK || (lane->writer.readers == 0 && !any_neighbour(lanes, bits))) {
        close_it(lanes, lane); /* nobody is left who might read it, and it holds memory */
    }
    see_stuck(lanes, lane, now);
    if (pdi_lanes_see_slow(lanes, lane, now)) {
        close_it(lanes, lane);
    }
    if (lane->closing) {
        lead_back(lanes, lane, now);
    } else {
        let_in(lanes, lane, bits, now);
    }
    lane->on = lane->used && lane->writer.readers != 0;
    lane->light = all_heavy(lanes, lane);
    if (lane->used && lane->publisher != PDI_LANE_NOBODY) {
        pyddsi_aside aside;
        uint64_t again[BITS_MAX];
        (void)pdi_node_audience(lanes->node, lane->publisher, again, &aside, now);
        lane->company = aside.others;
        lane->others = aside.others || aside.skips;
        lane->here = pdi_node_wants(lanes->node, lane->space, lane->resource) != 0;
    }
    return lane->writer.readers != readers || lane->waits != waited || lane->used != was_used;
}

/* Puts that wait for a larger lane go on when all read it, or when it has taken too long. */
static bool end_growth(struct pdi_lanes *lanes, struct pdi_lane_of *of, pdi_time now)
{
    uint32_t index = pdi_atomic32_load_relaxed(&of->lane);
    if (of->growing == 0) {
        return false;
    }
    if (index == 0 ? lanes->look != 0
                   : lanes->out[index - 1].closing && lanes->out[index - 1].writer.readers != 0) {
        return false; /* its time begins with the new lane */
    }
    bool all = index != 0 && pdi_lanes_alone(&lanes->out[index - 1], of->publisher);
    if (!all && now < of->growing) {
        lanes->due = of->growing < lanes->due ? of->growing : lanes->due;
        return false;
    }
    of->growing = 0;
    return true;
}

/* Whether some peer on this machine could read a lane. */
static bool any_used(const struct pdi_lanes *lanes)
{
    uint32_t peer = 0;
    while (peer < lanes->peers_max && !lanes->neighbours[peer].used) {
        peer++;
    }
    return peer < lanes->peers_max;
}

bool pdi_lanes_look_out(struct pdi_lanes *lanes, pdi_time now)
{
    bool moved = false;
    uint64_t bits[BITS_MAX];
    pyddsi_aside aside;
    pdi_lanes_see_back(lanes, now);
    uint32_t publishers = any_used(lanes) ? lanes->publishers_used : 0;
    for (uint32_t i = 0; i < publishers; i++) {
        struct pdi_lane_of *of = &lanes->of[i];
        if (of->publisher == PDI_LANE_NOBODY || of->publisher == 0 || of->again > now ||
            pdi_atomic32_load_relaxed(&of->lane) != 0) {
            continue;
        }
        if (pdi_node_audience(lanes->node, of->publisher, bits, &aside, now) == PYDDSI_OK &&
            any_neighbour(lanes, bits)) {
            (void)pdi_lanes_make(lanes, of, &aside, now);
        }
    }
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        if (!lane->used) {
            continue;
        }
        memset(bits, 0, sizeof bits);
        int status = lane->publisher == PDI_LANE_NOBODY
                         ? PYDDSI_END
                         : pdi_node_audience(lanes->node, lane->publisher, bits, &aside, now);
        pdi_lanes_enter(lane);
        moved = look_at(lanes, lane, bits, status, now) || moved;
        pdi_lanes_exit(lane);
    }
    uint32_t growing = lanes->grows ? lanes->publishers_used : 0;
    lanes->grows = 0;
    for (uint32_t i = 0; i < growing; i++) {
        moved = end_growth(lanes, &lanes->of[i], now) || moved;
        lanes->grows |= lanes->of[i].growing != 0;
    }
    for (uint32_t peer = 0; peer < lanes->peers_max; peer++) {
        if (lanes->neighbours[peer].used) {
            pdi_lanes_dismiss(lanes, &lanes->neighbours[peer], false);
        }
    }
    return moved;
}
