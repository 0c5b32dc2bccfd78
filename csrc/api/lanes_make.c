/* lanes_make.c - the lanes that a session writes: making them, showing them, and waking their readers. */
#include <stdlib.h>
#include <string.h>

#include "api/lanes.h"
#include "host/clock.h"

#define PAUSE       PDI_TIME_S         /* after a sample that was too large for its lane */
#define GROWTH      (20 * PDI_TIME_MS) /* how long puts wait for a larger one */
#define AMPLE_SHARE 32U /* of a lane: a sample that needs more should have a larger lane, */
#define GROWN_MANY  64U /* which holds so many, */
#define GROWN_FEW   8U  /* or so many, where it has more bytes than caches hold: */
#define GROWN_BYTES (UINT32_C(8) << 20)

static struct pdi_lane_out *free_lane(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < PDI_LANES_MAX; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        if (i == lanes->out_used) {
            lane->segment.fd = -1; /* 0 is somebody's, too */
            lane->lock.allowed = lanes->barrier;
            lanes->out_used++;
        }
        if (!lane->used) {
            return lane;
        }
    }
    return NULL;
}

/* A reader takes what it read between two looks at the same even stamp. */
void pdi_lanes_offer(struct pdi_lanes *lanes, const struct pdi_lane_out *lane)
{
    struct pdi_offer *at = &lanes->page->offers[lane - lanes->out];
    uint64_t stamp = pdi_atomic64_add(&at->stamp, 1) + 1;
    pdi_atomic64_store_release(&at->resource, lane->resource);
    pdi_atomic64_store_release(&at->about, lane->space | (uint64_t)lane->reliable << 8 |
                                               (uint64_t)(lane->closing == 0) << 9);
    pdi_atomic64_store_release(&at->fd, (uint64_t)lane->segment.fd);
    pdi_atomic64_store_release(&at->size, lane->segment.size);
    pdi_atomic64_store_release(&at->cookie, lane->used ? lane->writer.cookie : 0);
    pdi_atomic64_store_release(&at->stamp, stamp + 1);
}

struct pdi_lane_out *pdi_lanes_make(struct pdi_lanes *lanes, struct pdi_lane_of *of,
                                    const pyddsi_aside *aside, pdi_time now)
{
    char text[PYDDSI_TEXT_MAX];
    struct pdi_lane_out *lane = free_lane(lanes);
    uint32_t bytes = of->bytes != 0 ? of->bytes : lanes->lane_first;
    size_t size = pdi_lane_size(lanes->lane_samples, bytes);
    if (lane == NULL) {
        return NULL;
    }
    uint64_t *starts = calloc(lanes->lane_samples, sizeof *starts);
    struct pdi_segment segment = {.fd = -1};
    if (starts == NULL || pdi_door_make(&lanes->door, &segment, "pyddsi-lane", size, false, text,
                                        sizeof text) != PYDDSI_OK) {
        free(starts);
        lanes->refused++;
        of->again = of->bytes != 0 ? 0 : PDI_TIME_NEVER; /* with every look it would be refused */
        lanes->look = of->bytes != 0;
        lanes->lane_bytes = lanes->lane_first; /* it is not tried with larger ones again */
        of->bytes = 0;
        return NULL;
    }
    pdi_lanes_enter(lane);
    lane->starts = starts;
    lane->segment = segment;
    lane->publisher = of->publisher;
    lane->on = lane->others = lane->company = lane->waits = lane->closing = lane->light = 0;
    lane->space = aside->space;
    lane->reliable = aside->reliable;
    lane->resource = aside->resource;
    uint64_t most = pdi_node_largest(lanes->node, of->publisher);
    lane->ample = bytes < lanes->lane_bytes ? bytes / AMPLE_SHARE
                  : most < UINT32_MAX       ? (uint32_t)most
                                            : UINT32_MAX;
    lane->put = lane->asked_next = lane->asked_head = 0;
    lane->joiner = 0;
    memset(lane->invited, 0, sizeof lane->invited);
    lane->asked = lane->retry = lane->pause = 0;
    lane->short_of = 0;
    lane->short_rows = 0;
    lane->stuck = lane->back = 0;
    pdi_spin_init(&lane->spin);
    int status = pdi_lane_init(&lane->writer, segment.memory, segment.size, starts,
                               lanes->lane_samples, bytes, lanes->random + 2 * ++lanes->cookies);
    PDI_CHECK(status == PYDDSI_OK); /* its sizes are right: pdi_lane_size said so */
    (void)status;
    lane->used = 1;
    pdi_lanes_exit(lane);
    pdi_lanes_offer(lanes, lane);
    pdi_atomic32_store_release(&of->lane, (uint32_t)(lane - lanes->out) + 1);
    if (of->growing != 0) { /* since then the one before may have led back for long */
        of->growing = pdi_time_add(now, GROWTH);
        lanes->grows = 1;
    }
    return lane;
}

/* With both locks. Its memory goes; who still maps it keeps what is in it. */
void pdi_lanes_unmake(struct pdi_lanes *lanes, struct pdi_lane_out *lane)
{
    lane->used = lane->on = lane->waits = 0;
    pdi_lanes_offer(lanes, lane);
    for (uint32_t i = 0; i < lanes->publishers_used; i++) {
        if (pdi_atomic32_load_relaxed(&lanes->of[i].lane) == (uint32_t)(lane - lanes->out) + 1) {
            pdi_atomic32_store_release(&lanes->of[i].lane, 0);
        }
    }
    lanes->put += lane->put;
    lane->put = 0;
    pdi_door_unmap(&lanes->door, &lane->segment);
    free(lane->starts);
    lane->starts = NULL;
}

/* ---- publishers ---- */

void pdi_lanes_publisher(struct pdi_lanes *lanes, uint32_t publisher)
{
    uint32_t index = publisher & 0xffff;
    if (index < lanes->publishers_max) {
        lanes->of[index].publisher = publisher;
        lanes->of[index].again = lanes->of[index].growing = lanes->of[index].vain = 0;
        lanes->of[index].bytes = 0;
        pdi_atomic32_store_release(&lanes->of[index].lane, 0);
        lanes->publishers_used =
            index < lanes->publishers_used ? lanes->publishers_used : index + 1;
        lanes->look = 1;
    }
}

/* Handles of other things have the same indexes, so the whole handle is compared. */
void pdi_lanes_forget(struct pdi_lanes *lanes, uint32_t publisher)
{
    uint32_t index = publisher & 0xffff;
    if (index >= lanes->publishers_max || lanes->of[index].publisher != publisher) {
        return;
    }
    struct pdi_lane_out *lane = pdi_lanes_of(lanes, publisher);
    lanes->of[index].publisher = PDI_LANE_NOBODY;
    pdi_atomic32_store_release(&lanes->of[index].lane, 0);
    lanes->look = 1;
    if (lane != NULL) {
        pdi_lanes_enter(lane);
        lane->publisher = PDI_LANE_NOBODY;
        pdi_lanes_exit(lane);
    }
}

struct pdi_lane_out *pdi_lanes_of(struct pdi_lanes *lanes, uint32_t publisher)
{
    uint32_t index = publisher & 0xffff;
    uint32_t lane =
        index < lanes->publishers_max ? pdi_atomic32_load_acquire(&lanes->of[index].lane) : 0;
    return lane != 0 && lane <= PDI_LANES_MAX ? &lanes->out[lane - 1] : NULL;
}

/* Whether one of our windows could take it: that of the group, or those of all who read the lane. */
static bool fits_sockets(const struct pdi_lanes *lanes, const struct pdi_lane_out *lane,
                         size_t size)
{
    pyddsi_window window;
    int group = pdi_node_conduit(lanes->node, lane->publisher);
    if (group >= 0 && pdi_node_window(lanes->node, group, &window) == PYDDSI_OK &&
        size <= window.size_bytes) {
        return true;
    }
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        int single = -1 - (int)lane->rows[__builtin_ctzll(left)].peer;
        if (pdi_node_window(lanes->node, single, &window) == PYDDSI_OK &&
            size > window.size_bytes) {
            return false;
        }
    }
    return true;
}

int pdi_lanes_outgrown(struct pdi_lanes *lanes, struct pdi_lane_out *lane, size_t size,
                       pdi_time now)
{
    if (!fits_sockets(lanes, lane, size)) {
        return PYDDSI_BAD_ARGUMENT;
    }
    lane->closing = lane->waits = 1;
    lanes->look = 1;
    lanes->of[lane->publisher & 0xffff].again = pdi_time_add(now, PAUSE);
    return PYDDSI_AGAIN;
}

/* What a lane should have for samples of this size, as far as it may. */
static uint32_t bytes_for(const struct pdi_lanes *lanes, size_t size)
{
    uint32_t bytes = lanes->lane_first;
    while (bytes < lanes->lane_bytes &&
           bytes / (bytes < GROWN_BYTES ? GROWN_MANY : GROWN_FEW) < size) {
        bytes *= 2;
    }
    return bytes;
}

bool pdi_lanes_await(struct pdi_lanes *lanes, uint32_t publisher, size_t size, pdi_time now)
{
    uint32_t index = publisher & 0xffff;
    if (index >= lanes->publishers_max || lanes->of[index].publisher != publisher) {
        return false;
    }
    struct pdi_lane_of *of = &lanes->of[index];
    const struct pdi_lane_out *lane = pdi_lanes_of(lanes, publisher);
    if (of->growing != 0) {
        return true;
    }
    if (now < of->vain || of->again > now || size > lanes->lane_bytes ||
        (lane != NULL && (lane->on || lane->closing)) || !pdi_lanes_wanted(lanes, publisher, now)) {
        return false;
    }
    of->bytes = bytes_for(lanes, size);
    of->growing = pdi_time_add(now, GROWTH);
    lanes->grows = 1;
    of->vain = pdi_time_add(now, 5 * GROWTH);
    lanes->look = 1;
    return true;
}

bool pdi_lanes_grow(struct pdi_lanes *lanes, struct pdi_lane_out *lane, size_t size, pdi_time now)
{
    uint32_t bytes = bytes_for(lanes, size);
    if (size <= lane->ample) {
        return false;
    }
    if (bytes <= lane->writer.bytes_max) {
        lane->ample = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX; /* as ample as it gets */
        return false;
    }
    if (!lane->reliable && size <= lane->writer.bytes_max &&
        pdi_lanes_unbrought(lanes, lane) != 0) {
        /* best effort waits for nobody: another sample may find that all has been brought */
        pdi_lanes_hurry(lanes, lane);
        return false;
    }
    struct pdi_lane_of *of = &lanes->of[lane->publisher & 0xffff];
    of->bytes = bytes;
    of->again = 0;
    of->growing = pdi_time_add(now, GROWTH);
    lanes->grows = 1;
    lane->closing = lane->waits = 1;
    lanes->look = 1;
    return true;
}

void pdi_lanes_again(struct pdi_lanes *lanes, uint32_t publisher, pdi_time now)
{
    uint32_t index = publisher & 0xffff;
    if (index < lanes->publishers_max && lanes->of[index].again != 0 &&
        lanes->of[index].again <= now) {
        lanes->of[index].again = 0;
        lanes->look = 1;
    }
}

/* ---- waking, and waiting ---- */

/* The writer comes into another half of its lane. Readers that only drop bring what is there now, so that it need not wait for that
 * when the lane is full. */
static void ask_ahead(struct pdi_lanes *lanes, struct pdi_lane_out *lane)
{
    lane->asked_next = lane->writer.next;
    lane->asked_head = lane->writer.head;
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        unsigned row = (unsigned)__builtin_ctzll(left);
        if (lane->writer.limits[row] >= PDI_CREDIT_ENDLESS) {
            pdi_lanes_nudge(&lanes->neighbours[lane->rows[row].peer]);
        }
    }
}

void pdi_lanes_ring(struct pdi_lanes *lanes, struct pdi_lane_out *lane)
{
    const struct pdi_lane_writer *writer = &lane->writer;
    if ((((writer->next ^ lane->asked_next) & (writer->entries_max / 2)) |
         ((writer->head ^ lane->asked_head) & (writer->bytes_max / 2))) != 0) {
        ask_ahead(lanes, lane);
    }
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        const struct pdi_neighbour *neighbour =
            &lanes->neighbours[lane->rows[__builtin_ctzll(left)].peer];
        struct pdi_bell *news = &((struct pdi_shared_page *)neighbour->segment.memory)->news;
        (void)(lane->light ? pdi_bell_ring_light(news) : pdi_bell_ring(news));
    }
}

void pdi_lanes_hurry(struct pdi_lanes *lanes, const struct pdi_lane_out *lane)
{
    for (uint64_t left = lane->writer.readers; left != 0; left &= left - 1) { /* a row each */
        pdi_lanes_nudge(&lanes->neighbours[lane->rows[__builtin_ctzll(left)].peer]);
    }
}

void pdi_lanes_hurry_all(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->out_used; i++) {
        struct pdi_lane_out *lane = &lanes->out[i];
        pdi_lanes_enter(lane);
        if (lane->used && pdi_lanes_unbrought(lanes, lane) != 0) {
            pdi_lanes_hurry(lanes, lane);
        }
        pdi_lanes_exit(lane);
    }
}

int pdi_lanes_room(struct pdi_lanes *lanes, struct pdi_lane_out *lane, size_t size)
{
    int status = pdi_lane_room(&lane->writer, size);
    if (status == PYDDSI_AGAIN) {
        pdi_lanes_want(lanes, PDI_TELL_ROOM);
        status = pdi_lane_room(&lane->writer, size);
    }
    if (status == PYDDSI_AGAIN) {
        pdi_lanes_short(lanes, lane, size, false);
    }
    return status;
}

/* A reader that only looks says so once, to whoever has asked by then; if that was before us, we look at it ourselves. */
void pdi_lanes_short(struct pdi_lanes *lanes, struct pdi_lane_out *lane, size_t size, bool rows)
{
    if (pdi_lanes_unbrought(lanes, lane) != 0) {
        pdi_lanes_hurry(lanes, lane); /* a reader that drops the oldest may make room */
    }
    lanes->look = lanes->look || lane->short_of == 0 ||
                  (lane->stuck == 0 && pdi_lanes_looked_at(lanes, lane));
    lane->short_of = size != 0 ? size : 1;
    lane->short_rows = lane->short_rows || rows;
}

/* Whether to look once more: OK, there is room; AGAIN; END: no, or no longer. */
static int look(struct pdi_lane_out *lane, uint32_t publisher, size_t size, pdi_time *until)
{
    int status = PYDDSI_END;
    pdi_lanes_enter(lane);
    if (lane->reliable && pdi_lanes_alone(lane, publisher) && size <= lane->ample) {
        bool first = *until == 0;
        *until = first ? pdi_spin_begin(&lane->spin) : *until;
        status = *until != 0 ? pdi_lane_room(&lane->writer, size) : PYDDSI_END;
        bool over = !first && status != PYDDSI_OK && pdi_clock_now() >= *until;
        if (status == PYDDSI_OK || over) {
            pdi_spin_end(&lane->spin, !over);
        }
        status = over ? PYDDSI_END : status;
    }
    pdi_lanes_exit(lane);
    return status;
}

bool pdi_lanes_spin(struct pdi_lane_out *lane, uint32_t publisher, size_t size)
{
    pdi_time until = 0;
    int status;
    do { /* ends with the time */
        status = look(lane, publisher, size, &until);
        if (status == PYDDSI_AGAIN) {
            pdi_spin_pause();
        }
    } while (status == PYDDSI_AGAIN);
    return status == PYDDSI_OK;
}
