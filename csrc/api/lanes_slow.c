/* lanes_slow.c - readers of lanes that others would wait for.
 *
 * A put finds no room when a reader has not brought what is in the lane, or lets the writer go no further ahead of what it has read
 * (until): its process is stopped, or its application does not read.
 * Then a put waits, and with it all other readers. By the sockets it would wait for `slow` (node/skip.c), so it does here:
 *
 *     no progress for `slow` while a put, or the way back, waits      and there are others, or the reader drops when it is full
 *         ──► it goes without samples, and its lane leads back: the memory is not written again, as it may still read there
 *     it goes on, and finds that its place is lost
 *         ──► it gives up what it had not brought, reads what is in its rings to the end, and frees the place
 *     the place is not lost any more
 *         ──► it is told how many samples it lacks (the hole in its unicast conduit's numbers), and may join again
 *
 * The only reader of all is waited for, unless everybody there drops when full (on_full): a publisher is not to wait for such a one
 * in any case, and it can only be stopped, since it would bring all there is otherwise.
 */
#include "api/lanes.h"

#define GLANCE (100 * PDI_TIME_MS) /* so long for one that drops when it is full */

/* Whether this reader says the same as when we began to wait for it, and we do: what is there it has not brought, or the writer may
 * go no further ahead of it. */
static bool stands(const struct pdi_lanes *lanes, struct pdi_lane_out *lane, unsigned row,
                   pdi_time now)
{
    struct pdi_lane_row_out *reader = &lane->rows[row];
    const struct pdi_place *place = lane->writer.places[row];
    uint64_t until = pdi_atomic64_load_acquire(&place->until);
    uint64_t brought = pdi_lanes_brought(lanes, lane, row);
    uint64_t seen = brought + until + pdi_atomic64_load_acquire(&place->position);
    bool late =
        brought != lane->writer.next ||
        (!lane->closing && lane->writer.limits[row] != UINT64_MAX && until <= lane->writer.next);
    if (!late) {
        reader->since = 0;
    } else if (reader->since == 0 || reader->seen != seen) {
        reader->since = now;
        reader->seen = seen;
        reader->asked = 0;
    }
    return late;
}

/* How long others wait for this reader; NEVER: as long as its session lasts. */
static pdi_time patience(const struct pdi_lanes *lanes, const struct pdi_lane_out *lane,
                         unsigned row)
{
    bool alone = (lane->writer.readers & (lane->writer.readers - 1)) == 0 && !lane->company;
    bool drops = lane->writer.limits[row] >= PDI_CREDIT_ENDLESS &&
                 lane->writer.limits[row] != UINT64_MAX; /* nobody there has anybody wait */
    if (lanes->slow == 0 || (alone && !drops)) {
        return PDI_TIME_NEVER;
    }
    return drops && GLANCE < lanes->slow ? GLANCE : lanes->slow;
}

static struct pdi_lane_absent *free_row(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < PDI_LANES_ABSENT_MAX; i++) {
        if (lanes->absent[i].place == NULL) {
            return &lanes->absent[i];
        }
    }
    return NULL;
}

/* It is in the books for what it had brought; of the rest it is told when it is back. */
static bool leave(struct pdi_lanes *lanes, struct pdi_lane_out *lane, unsigned row, pdi_time now)
{
    const struct pdi_lane_row_out *reader = &lane->rows[row];
    struct pdi_lane_absent *absent = free_row(lanes);
    if (absent == NULL) {
        return false;
    }
    pdi_lane_flush(&lane->writer);
    uint64_t brought = pdi_lanes_brought(lanes, lane, row);
    *absent = (struct pdi_lane_absent){
        .place = lane->writer.places[row], .publisher = lane->publisher, .peer = reader->peer};
    lanes->absents++;
    lanes->owed += brought - reader->joined;
    (void)pdi_lane_leave(&lane->writer, absent->place);
    pdi_node_skip(lanes->node, lane->publisher, reader->peer, lane->writer.next - brought, now);
    pdi_node_carry(lanes->node, lane->publisher, reader->peer, 0, now);
    return true;
}

bool pdi_lanes_see_slow(struct pdi_lanes *lanes, struct pdi_lane_out *lane, pdi_time now)
{
    bool waits = lane->reliable && lane->publisher != PDI_LANE_NOBODY &&
                 (lane->short_of != 0 || lane->closing);
    bool left_one = false;
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        unsigned row = (unsigned)__builtin_ctzll(left);
        struct pdi_lane_row_out *reader = &lane->rows[row];
        if (!waits || !stands(lanes, lane, row, now)) {
            reader->since = 0;
            continue;
        }
        pdi_time glance = pdi_time_add(reader->since, GLANCE);
        pdi_time until = pdi_time_add(reader->since, patience(lanes, lane, row));
        if (until <= now && leave(lanes, lane, row, now)) {
            left_one = true;
            continue;
        }
        if (!reader->asked && glance <= now) { /* another process may have written over it */
            reader->asked = 1;
            pdi_lanes_nudge(&lanes->neighbours[reader->peer]);
        }
        until = until <= now ? pdi_time_add(now, lanes->slow) : until;
        until = !reader->asked && glance < until ? glance : until;
        lanes->due = until < lanes->due ? until : lanes->due;
    }
    return left_one;
}

bool pdi_lanes_is_absent(const struct pdi_lanes *lanes, uint32_t publisher, uint32_t peer)
{
    for (uint32_t i = 0; lanes->absents != 0 && i < PDI_LANES_ABSENT_MAX; i++) {
        const struct pdi_lane_absent *absent = &lanes->absent[i];
        if (absent->place != NULL && absent->publisher == publisher && absent->peer == peer) {
            return true;
        }
    }
    return false;
}

void pdi_lanes_see_back(struct pdi_lanes *lanes, pdi_time now)
{
    for (uint32_t i = 0; lanes->absents != 0 && i < PDI_LANES_ABSENT_MAX; i++) {
        struct pdi_lane_absent *absent = &lanes->absent[i];
        if (absent->place == NULL) {
            continue;
        }
        bool gone = !lanes->neighbours[absent->peer].used; /* the node has forgotten it, too */
        bool there = lanes->of[absent->publisher & 0xffff].publisher == absent->publisher;
        if (!gone && there && pdi_place_state(absent->place) == PDI_PLACE_LOST) {
            continue;
        }
        if (!gone) {
            pdi_node_skip_end(lanes->node, absent->publisher, absent->peer, now);
        }
        absent->place = NULL;
        lanes->absents--;
    }
}
