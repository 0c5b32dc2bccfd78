/* lanes_in.c - the lanes that a session reads: asking to join, pumping, leaving. */
#include <stdlib.h>
#include <string.h>

#include "api/lanes.h"

/* held: PDI_ENV_HELD, then the lane (6 bits above 16), then the entry. */
static uint32_t held_of(uint32_t lane, uint64_t number)
{
    return PDI_ENV_HELD | lane << 16 | (uint32_t)(number & 0xffff);
}

static struct pdi_shared_page *page_of(const struct pdi_lanes *lanes, const struct pdi_lane_in *lane)
{
    const struct pdi_neighbour *neighbour = &lanes->neighbours[lane->peer];
    return neighbour->used ? (struct pdi_shared_page *)neighbour->segment.memory : NULL;
}

/* ---- holding ---- */

void pdi_lanes_hold(void *context, uint32_t held)
{
    struct pdi_lanes *lanes = context;
    struct pdi_lane_in *lane = &lanes->in[held >> 16 & (PDI_LANES_MAX - 1)];
    lane->holds[held & 0xffff & (lane->reader.entries_max - 1)]++;
}

void pdi_lanes_release(void *context, uint32_t held)
{
    struct pdi_lanes *lanes = context;
    struct pdi_lane_in *lane = &lanes->in[held >> 16 & (PDI_LANES_MAX - 1)];
    uint32_t index = held & 0xffff & (lane->reader.entries_max - 1);
    if (--lane->holds[index] == 0) {
        uint64_t base = lane->reader.base;
        pdi_lane_release(&lane->reader, base + ((index - base) & (lane->reader.entries_max - 1)));
        lanes->freed += !lane->freed;
        lane->freed = 1;
    }
}

void pdi_lanes_tell(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; lanes->freed != 0 && i < lanes->in_used; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        if (!lane->freed)
            continue;
        lane->freed = 0;
        lanes->freed--;
        struct pdi_shared_page *page = lane->used ? page_of(lanes, lane) : NULL;
        if (page != NULL && pdi_atomic32_load_acquire(&page->thirsty) != 0) {
            pdi_atomic32_store_release(&page->attention, 1);
            (void)pdi_bell_ring(&page->news);
            (void)pdi_bell_ring(&page->chores);
        }
        lanes->look = lanes->look || lane->orphan;
    }
}

/* ---- what has come ---- */

static void pump(struct pdi_lanes *lanes, struct pdi_lane_in *lane, uint32_t max, pdi_time now)
{
    uint32_t index = (uint32_t)(lane - lanes->in);
    uint64_t until = pdi_lane_next(&lane->reader);
    for (uint32_t i = 0; i < max; i++) {
        if (!lane->has_next) {
            int status = pdi_lane_take(&lane->reader, until, &lane->next);
            if (status != PYDDSI_OK) {
                lane->orphan = lane->orphan || status != PYDDSI_AGAIN;
                lanes->look = lanes->look || lane->orphan;
                return;
            }
            lane->has_next = 1;
            lane->holds[lane->next.number & (lane->reader.entries_max - 1)] = 1;
        }
        struct pdi_brought sample = {
            .data = lane->next.bytes,
            .resource = lane->resource,
            .number = lane->next.number,
            .time_ns = now,
            .peer = lane->peer,
            .held = held_of(index, lane->next.number),
            .space = lane->space,
            .reliable = lane->reliable,
        };
        if (pdi_node_bring(lanes->node, &sample, now) != PYDDSI_OK)
            return; /* there is no room for it now */
        lane->has_next = 0;
        lane->taken++;
        pdi_lanes_release(lanes, sample.held);
    }
}

void pdi_lanes_pump(struct pdi_lanes *lanes, uint32_t max, pdi_time now)
{
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->used && lane->active)
            pump(lanes, lane, max, now);
    }
}

/* ---- coming and going ---- */

static struct pdi_lane_in *free_lane(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < PDI_LANES_MAX; i++) {
        if (!lanes->in[i].used && pdi_place_state(&lanes->page->places[i]) == PDI_PLACE_FREE) {
            lanes->in_used = i < lanes->in_used ? lanes->in_used : i + 1;
            return &lanes->in[i];
        }
    }
    return NULL;
}

static void detach(struct pdi_lanes *lanes, struct pdi_lane_in *lane)
{
    struct pdi_place *place = &lanes->page->places[lane - lanes->in];
    struct pdi_shared_page *page = page_of(lanes, lane);
    if (page == NULL)
        pdi_place_clear(place); /* nobody else will touch it */
    else if (pdi_place_state(place) == PDI_PLACE_LOST)
        pdi_place_clear(place);
    else
        pdi_place_end(place);
    if (page != NULL)
        pdi_lanes_nudge(&lanes->neighbours[lane->peer]);
    lanes->freed -= lane->freed;
    pdi_segment_free(&lane->segment);
    free(lane->released);
    free(lane->holds);
    *lane = (struct pdi_lane_in){.segment = {.fd = -1}};
}

static bool attach(struct pdi_lanes *lanes, uint32_t peer, uint64_t resource, uint64_t about,
                   uint64_t fd, uint64_t size, uint64_t cookie)
{
    char text[PYDDSI_TEXT_MAX];
    struct pdi_lane_in *lane = free_lane(lanes);
    if (lane == NULL)
        return false;
    struct pdi_lane_in made = {.segment = {.fd = -1},
                               .cookie = cookie,
                               .resource = resource,
                               .peer = peer,
                               .space = (uint8_t)about,
                               .reliable = (uint8_t)(about >> 8 & 1),
                               .used = 1};
    size_t words = PDI_LANE_WORDS(PDI_LANE_ENTRIES_MAX);
    made.released = calloc(words, sizeof *made.released);
    made.holds = calloc(PDI_LANE_ENTRIES_MAX, sizeof *made.holds);
    if (made.released == NULL || made.holds == NULL ||
        pdi_segment_map(&made.segment, lanes->neighbours[peer].pid, (int)fd, size, false, text,
                        sizeof text) != PYDDSI_OK ||
        pdi_lane_open(&made.reader, made.segment.memory, size, cookie, made.released, words) !=
            PYDDSI_OK) {
        pdi_segment_free(&made.segment);
        free(made.released);
        free(made.holds);
        lanes->refused++;
        return false;
    }
    *lane = made;
    pdi_place_want(&lanes->page->places[lane - lanes->in], cookie, false);
    pdi_lanes_nudge(&lanes->neighbours[peer]);
    return true;
}

static bool is_attached(const struct pdi_lanes *lanes, uint32_t peer, uint64_t cookie)
{
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        const struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->used && lane->cookie == cookie && lane->peer == peer)
            return true;
    }
    return false;
}

/* What this neighbour offers, and we want. */
static void browse(struct pdi_lanes *lanes, uint32_t peer)
{
    struct pdi_shared_page *page = (struct pdi_shared_page *)lanes->neighbours[peer].segment.memory;
    for (uint32_t i = 0; i < PDI_LANES_MAX; i++) {
        const struct pdi_offer *offer = &page->offers[i];
        uint64_t stamp = pdi_atomic64_load_acquire(&offer->stamp);
        uint64_t resource = pdi_atomic64_load_acquire(&offer->resource);
        uint64_t about = pdi_atomic64_load_acquire(&offer->about);
        uint64_t fd = pdi_atomic64_load_acquire(&offer->fd);
        uint64_t size = pdi_atomic64_load_acquire(&offer->size);
        uint64_t cookie = pdi_atomic64_load_acquire(&offer->cookie);
        if (stamp == 0 || (stamp & 1) != 0 || cookie == 0 || fd > INT32_MAX ||
            pdi_atomic64_load_acquire(&offer->stamp) != stamp || (about >> 9 & 1) == 0)
            continue; /* nothing; or it is being changed, and we are told when it has been */
        if (!is_attached(lanes, peer, cookie) && pdi_node_wants(lanes->node, (uint8_t)about, resource))
            (void)attach(lanes, peer, resource, about, fd, size, cookie);
    }
}

/* One lane that we read. True: it has begun. */
static bool look_at(struct pdi_lanes *lanes, struct pdi_lane_in *lane)
{
    bool begun = false;
    if (page_of(lanes, lane) == NULL)
        lane->orphan = 1;
    if (!lane->active) {
        int status = lane->orphan ? PYDDSI_END
                                  : pdi_lane_start(&lane->reader,
                                                   &lanes->page->places[lane - lanes->in]);
        begun = status == PYDDSI_OK;
        lane->active = begun;
        if (status != PYDDSI_OK && status != PYDDSI_AGAIN)
            detach(lanes, lane);
        return begun;
    }
    bool wanted = pdi_node_wants(lanes->node, lane->space, lane->resource);
    bool empty = !lane->has_next && pdi_lane_behind(&lane->reader) == 0;
    bool lost = lane->orphan || pdi_lane_lost(&lane->reader);
    if (!wanted && lane->has_next) {
        lane->has_next = 0;
        pdi_lanes_release(lanes, held_of((uint32_t)(lane - lanes->in), lane->next.number));
    }
    if ((!wanted || (lost && empty)) && lane->reader.base == lane->reader.taken)
        detach(lanes, lane);
    return begun;
}

bool pdi_lanes_look_in(struct pdi_lanes *lanes)
{
    bool moved = false;
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        if (lanes->in[i].used)
            moved = look_at(lanes, &lanes->in[i]) || moved;
    }
    for (uint32_t peer = 0; peer < lanes->peers_max; peer++) {
        if (lanes->neighbours[peer].used)
            browse(lanes, peer);
    }
    return moved;
}
