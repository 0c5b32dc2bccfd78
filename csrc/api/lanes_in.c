/* lanes_in.c - the lanes that a session reads: asking to join, pumping, leaving. It is long, since what comes and what goes
 * share all their state. */
#include <stdlib.h>
#include <string.h>

#include "api/session_tap.h"

#define POUR_MAX 64U
#define PUT_OFF  PDI_TIME_MS /* so long a writer waits at most for more room than for one sample */
#define PART     4U          /* so much of what it had shown is enough: a quarter */

/* held: PDI_ENV_HELD, then the lane (6 bits above 16), then the entry. */
static uint32_t held_of(uint32_t lane, uint64_t number)
{
    return PDI_ENV_HELD | lane << 16 | (uint32_t)(number & 0xffff);
}

static struct pdi_place *place_of(const struct pdi_lanes *lanes, const struct pdi_lane_in *lane)
{
    return &lanes->page->places[lane - lanes->in];
}

/* The writer's page; null when the session with it has ended. */
static struct pdi_shared_page *page_of(const struct pdi_lanes *lanes,
                                       const struct pdi_lane_in *lane)
{
    return lane->orphan ? NULL
                        : (struct pdi_shared_page *)lanes->neighbours[lane->peer].segment.memory;
}

/* ---- holding ---- */

void pdi_lanes_hold(void *context, uint32_t held)
{
    struct pdi_lanes *lanes = context;
    struct pdi_lane_in *lane = &lanes->in[held >> 16 & (PDI_LANES_MAX - 1)];
    lane->holds[held & 0xffff & (lane->reader.entries_max - 1)]++;
    lane->ringed++;
}

static void mark(struct pdi_lanes *lanes, struct pdi_lane_in *lane, uint8_t what)
{
    lanes->tell += lane->tell == 0;
    lane->tell |= what;
}

static void let_go(struct pdi_lanes *lanes, struct pdi_lane_in *lane, uint32_t held)
{
    uint32_t index = held & 0xffff & (lane->reader.entries_max - 1);
    if (--lane->holds[index] == 0) {
        uint64_t base = lane->reader.base;
        pdi_lane_release(&lane->reader, base + ((index - base) & (lane->reader.entries_max - 1)));
        mark(lanes, lane, PDI_TELL_ROOM);
    }
}

void pdi_lanes_release(void *context, uint32_t held)
{
    struct pdi_lanes *lanes = context;
    struct pdi_lane_in *lane = &lanes->in[held >> 16 & (PDI_LANES_MAX - 1)];
    lane->ringed--;
    let_go(lanes, lane, held);
}

/* A record goes from its ring to the application with the hold that it has. */
uint32_t pdi_lanes_took(struct pdi_lanes *lanes, uint32_t held)
{
    struct pdi_lane_in *lane = &lanes->in[held >> 16 & (PDI_LANES_MAX - 1)];
    lane->taken_out++;
    lane->ringed--;
    return lane->reader.bytes_max;
}

/* The node releases what was in a ring; so before it does, it is as if it lay there again. */
void pdi_lanes_gave_back(struct pdi_lanes *lanes, uint32_t held)
{
    struct pdi_lane_in *lane = &lanes->in[held >> 16 & (PDI_LANES_MAX - 1)];
    lane->taken_out--;
    lane->ringed++;
}

/* Says whether only the application's will moves our position. */
static bool tell_held(struct pdi_lanes *lanes, struct pdi_lane_in *lane)
{
    bool held = lane->ringed == 0 && lane->taken_out != 0 && !lane->has_next &&
                pdi_lane_behind(&lane->reader) == 0;
    if (held != lane->held) {
        lane->held = held;
        pdi_atomic32_store_release(&lanes->page->brought[lane - lanes->in].held, held);
    }
    return held;
}

/* Best effort that comes by a socket when later samples have come by the lane. */
bool pdi_lanes_overtaken(void *context, uint32_t peer, uint8_t space, uint64_t resource)
{
    const struct pdi_lanes *lanes = context;
    for (uint32_t i = 0; lanes->best_in != 0 && i < lanes->in_used; i++) {
        const struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->used && lane->active && !lane->reliable && lane->peer == peer &&
            lane->space == space && lane->resource == resource &&
            lane->reader.taken - lane->has_next != lane->first && !lane->orphan &&
            !pdi_lane_lost(&lane->reader)) {
            return true;
        }
    }
    return false;
}

/* Takes back what the writer with this page wants of `what`; answers all that it wanted. It asks before its last look, and this is
 * after what it asks for has happened: so one of us sees the other, if there is a barrier on both sides. */
static uint32_t wanted_of(const struct pdi_lanes *lanes, struct pdi_shared_page *page,
                          uint32_t what)
{
    if (lanes->barrier && pdi_atomic32_load_relaxed(&page->heavy) != 0) {
        pdi_barrier_light();
        uint32_t wanted = pdi_atomic32_load_acquire(&page->wanted);
        if ((wanted & what) == 0) {
            return wanted;
        }
    }
    return pdi_atomic32_and(&page->wanted, ~what);
}

/* A writer that is told of the room of one sample puts one, and waits again: then to be woken, and to wake, is most of what
 * both do. So it is told of more at once; but not later than after a moment, as the application may take no more. */
static bool put_off(struct pdi_lanes *lanes, struct pdi_lane_in *lane, pdi_time now)
{
    uint64_t shown = pdi_lane_next(&lane->reader) - lane->told;
    uint64_t free = lane->reader.base - lane->told;
    uint64_t more = lane->until - lane->told_until;
    if (free * PART >= shown || more * PART >= shown || lane->held || lane->leaving ||
        pdi_lane_lost(&lane->reader)) {
        return false;
    }
    if (lane->tell_by == 0) {
        lane->tell_by = pdi_time_add(now, PUT_OFF);
        lanes->due = lane->tell_by < lanes->due ? lane->tell_by : lanes->due;
    }
    return now < lane->tell_by;
}

/* What of this is to be said now; the rest is said later. */
static uint32_t say(struct pdi_lanes *lanes, struct pdi_lane_in *lane, uint32_t what, pdi_time now)
{
    what |= lane->tell_by != 0 ? PDI_TELL_ROOM : 0;
    if ((what & PDI_TELL_ROOM) != 0 && put_off(lanes, lane, now)) {
        mark(lanes, lane, PDI_TELL_ROOM);
        return what & ~(uint32_t)PDI_TELL_ROOM;
    }
    lane->told = lane->reader.base;
    lane->told_until = lane->until;
    lane->tell_by = 0;
    return what;
}

void pdi_lanes_tell(struct pdi_lanes *lanes, pdi_time now)
{
    for (uint32_t i = 0; lanes->tell != 0 && i < lanes->in_used; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        uint32_t what = lane->tell;
        if (what == 0) {
            continue;
        }
        lane->tell = 0;
        lanes->tell--;
        lanes->look = lanes->look || lane->leaving || lane->orphan || pdi_lane_lost(&lane->reader);
        struct pdi_shared_page *page = page_of(lanes, lane);
        if (page == NULL) {
            continue;
        }
        bool held = tell_held(lanes, lane);
        uint32_t wanted = wanted_of(lanes, page, what);
        uint32_t said = say(lanes, lane, wanted & what, now);
        if (said != 0) {
            (void)pdi_bell_ring(&page->news);
        }
        if ((said & PDI_TELL_BROUGHT) != 0 || (held && ((wanted | said) & PDI_TELL_ROOM) != 0)) {
            pdi_lanes_nudge(&lanes->neighbours[lane->peer]);
        }
    }
}

/* ---- how far its writer may go ---- */

static struct pdi_brought model_of(const struct pdi_lane_in *lane, pdi_time now)
{
    return (struct pdi_brought){.resource = lane->resource,
                                .time_ns = now,
                                .peer = lane->peer,
                                .space = lane->space,
                                .reliable = lane->reliable};
}

/* How far depends on the depth of the readers that wait: it is counted from what lies in their rings, not from what the application
 * looks at. A few times the depth, since a writer that may be only little ahead sleeps, and is woken, all the time. */
static void allow(struct pdi_lanes *lanes, struct pdi_lane_in *lane)
{
    struct pdi_brought model = model_of(lane, 0);
    bool some;
    uint64_t credit = pdi_node_credit(lanes->node, &model, &some);
    uint64_t until = credit == PDI_CREDIT_ENDLESS ? PDI_CREDIT_ENDLESS
                                                  : lane->reader.taken - lane->has_next + credit;
    lane->tight = some;
    if (until != lane->until) {
        lane->until = until;
        pdi_place_limit(place_of(lanes, lane), until);
        mark(lanes, lane, PDI_TELL_ROOM);
    }
}

void pdi_lanes_allow(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->tight && lane->active) {
            allow(lanes, lane);
        }
    }
}

/* ---- what has come ---- */

/* Whether its writer has written down as lost what we have not brought, and goes on without us in another session. We may not know
 * that ours is over: who was stopped hears by a group what came after that before he hears the end of his session. (A writer that
 * closes leaves us too, but what it had put is ours.) */
static bool given_up(const struct pdi_lanes *lanes, const struct pdi_lane_in *lane)
{
    const struct pdi_shared_page *page = page_of(lanes, lane);
    return page == NULL ? !lane->farewell && pdi_lane_lost(&lane->reader)
                        : pdi_place_state(lane->reader.place) == PDI_PLACE_LOST &&
                              pdi_atomic64_load_acquire(&page->magic) != 0;
}

/* Up to `max` samples to their only reader, all at once. What pdi_lane_take says of the last one; OK: there may be more. */
static int pour(struct pdi_lanes *lanes, struct pdi_lane_in *lane, const struct pdi_brought *model,
                uint64_t until, uint32_t *max)
{
    struct pdi_poured samples[POUR_MAX];
    uint32_t index = (uint32_t)(lane - lanes->in);
    uint32_t count = 0;
    int status = PYDDSI_OK;
    while (count < *max && count < POUR_MAX) {
        struct pdi_lane_sample next;
        status = pdi_lane_take(&lane->reader, until, &next);
        if (status != PYDDSI_OK) {
            break;
        }
        lane->holds[next.number & (lane->reader.entries_max - 1)] = 1; /* the ring's */
        samples[count++] =
            (struct pdi_poured){next.bytes, next.number, held_of(index, next.number)};
    }
    lane->ringed += count;
    if (count != 0) {
        pdi_node_pour(lanes->node, model, samples, count);
        if (pdi_tap_is_on(lanes->tap)) {
            pdi_lanes_tap_in(lanes, lane, samples, count);
        }
    }
    *max = count;
    return status;
}

/* Passes by what would be pushed out of the rings again. (Two recordings of one lane should not differ by who reads it.) */
static void pass(struct pdi_lanes *lanes, struct pdi_lane_in *lane, const struct pdi_brought *model,
                 uint64_t until)
{
    struct pdi_lane_reader *reader = &lane->reader;
    uint64_t behind = until - reader->taken;
    if (!lane->has_next && reader->base == reader->taken && behind <= reader->entries_max &&
        !pdi_tap_is_on(lanes->tap)) {
        uint64_t passed = pdi_node_pass(lanes->node, model, behind, model->time_ns);
        if (passed != 0) {
            pdi_lane_pass(reader, passed);
            mark(lanes, lane, PDI_TELL_ROOM);
        }
    }
}

static void pump(struct pdi_lanes *lanes, struct pdi_lane_in *lane, uint32_t max, pdi_time now)
{
    uint32_t index = (uint32_t)(lane - lanes->in);
    uint64_t until = pdi_lane_next(&lane->reader);
    uint64_t before = lane->reader.taken - lane->has_next;
    /* It is not to write over what we have not released, unless somebody has told it that we had. */
    bool over = until - lane->reader.base > lane->reader.entries_max;
    lane->broken = lane->broken || (over && !given_up(lanes, lane));
    if (given_up(lanes, lane) || lane->broken) {
        lanes->look = 1;
        return;
    }
    struct pdi_brought sample = model_of(lane, now);
    if (pdi_node_drops(lanes->node, &sample)) {
        pass(lanes, lane, &sample, until);
        max = lane->reader.entries_max;
    }
    for (uint32_t i = 0; i < max; i++) {
        uint32_t some = lane->has_next ? 0 : pdi_node_pours(lanes->node, &sample);
        if (some != 0) {
            some = some < max - i ? some : max - i;
            int status = pour(lanes, lane, &sample, until, &some);
            lane->broken = status == PYDDSI_BAD_INPUT;
            lanes->look = lanes->look || (status != PYDDSI_OK && status != PYDDSI_AGAIN);
            if (status != PYDDSI_OK) {
                break;
            }
            i += some - 1;
            continue;
        }
        if (!lane->has_next) {
            int status = pdi_lane_take(&lane->reader, until, &lane->next);
            if (status != PYDDSI_OK) {
                lane->broken = status == PYDDSI_BAD_INPUT;
                lanes->look = lanes->look || status != PYDDSI_AGAIN;
                break;
            }
            lane->has_next = 1;
            lane->holds[lane->next.number & (lane->reader.entries_max - 1)] = 1;
        }
        sample.data = lane->next.bytes;
        sample.number = lane->next.number;
        sample.held = held_of(index, lane->next.number);
        if (pdi_node_bring(lanes->node, &sample, now) != PYDDSI_OK) {
            break; /* there is no room for it now */
        }
        lane->has_next = 0;
        if (pdi_tap_is_on(lanes->tap)) {
            struct pdi_poured one = {.data = sample.data};
            pdi_lanes_tap_in(lanes, lane, &one, 1);
        }
        let_go(lanes, lane, sample.held);
    }
    uint64_t brought = lane->reader.taken - lane->has_next;
    if (brought != before) {
        lane->taken += brought - before;
        pdi_atomic64_store_release(&lanes->page->brought[index].number, brought);
        mark(lanes, lane, PDI_TELL_BROUGHT);
        allow(lanes, lane);
    }
}

void pdi_lanes_pump(struct pdi_lanes *lanes, uint32_t max, pdi_time now)
{
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->used && lane->active) {
            pump(lanes, lane, max, now);
        }
    }
}

/* ---- coming ---- */

/* A place of a dead process is nobody's; that of one that is stopped may still be written to when it goes on. */
static bool is_free(struct pdi_lanes *lanes, uint32_t index)
{
    struct pdi_place *place = &lanes->page->places[index];
    if (pdi_place_state(place) == PDI_PLACE_FREE) {
        return true;
    }
    if (lanes->owners[index] == 0 || lanes->door.runs(lanes->door.context, lanes->owners[index])) {
        return false;
    }
    pdi_place_clear(place);
    return true;
}

static struct pdi_lane_in *free_lane(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < PDI_LANES_MAX; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        if (i == lanes->in_used) {
            lane->segment.fd = -1; /* 0 is somebody's, too */
            lanes->in_used++;
        }
        if (!lane->used && is_free(lanes, i)) {
            return lane;
        }
    }
    return NULL;
}

static void free_memory(const struct pdi_lanes *lanes, struct pdi_lane_in *lane)
{
    pdi_door_unmap(&lanes->door, &lane->segment);
    free(lane->released);
    free(lane->holds);
}

static void attach(struct pdi_lanes *lanes, uint32_t peer, const struct pdi_lane_in *found, int fd,
                   size_t size)
{
    char text[PYDDSI_TEXT_MAX];
    struct pdi_lane_in *lane = free_lane(lanes);
    if (lane == NULL) {
        return;
    }
    struct pdi_lane_in made = *found;
    size_t words = PDI_LANE_WORDS(PDI_LANE_ENTRIES_MAX);
    made.released = calloc(words, sizeof *made.released);
    made.holds = calloc(PDI_LANE_ENTRIES_MAX, sizeof *made.holds);
    if (made.released == NULL || made.holds == NULL ||
        pdi_door_map(&lanes->door, &made.segment, made.pid, fd, size, false, text, sizeof text) !=
            PYDDSI_OK ||
        pdi_lane_open(&made.reader, made.segment.memory, size, made.cookie, made.released, words) !=
            PYDDSI_OK) {
        free_memory(lanes, &made);
        lanes->refused++;
        return;
    }
    *lane = made;
    uint32_t index = (uint32_t)(lane - lanes->in);
    lanes->owners[index] = made.pid;
    pdi_atomic64_store_relaxed(&lanes->page->brought[index].number, PDI_BROUGHT_NOTHING);
    pdi_atomic32_store_relaxed(&lanes->page->brought[index].held, 0);
    pdi_atomic64_store_relaxed(&lanes->page->places[index].position, PDI_BROUGHT_NOTHING);
    bool some;
    struct pdi_brought model = model_of(&made, 0);
    uint64_t credit = pdi_node_credit(lanes->node, &model, &some);
    pdi_place_limit(&lanes->page->places[index], credit);
    pdi_place_want(&lanes->page->places[index], made.cookie, false);
    pdi_lanes_nudge(&lanes->neighbours[peer]);
}

static bool is_attached(const struct pdi_lanes *lanes, uint32_t peer, uint64_t cookie)
{
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        const struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->used && lane->cookie == cookie && lane->peer == peer) {
            return true;
        }
    }
    return false;
}

/* What this neighbour offers, and we want. */
static void browse(struct pdi_lanes *lanes, uint32_t peer)
{
    const struct pdi_neighbour *neighbour = &lanes->neighbours[peer];
    const struct pdi_shared_page *page = (const struct pdi_shared_page *)neighbour->segment.memory;
    for (uint32_t i = 0; i < PDI_LANES_MAX; i++) {
        const struct pdi_offer *offer = &page->offers[i];
        uint64_t stamp = pdi_atomic64_load_acquire(&offer->stamp);
        uint64_t resource = pdi_atomic64_load_acquire(&offer->resource);
        uint64_t about = pdi_atomic64_load_acquire(&offer->about);
        uint64_t fd = pdi_atomic64_load_acquire(&offer->fd);
        uint64_t size = pdi_atomic64_load_acquire(&offer->size);
        uint64_t cookie = pdi_atomic64_load_acquire(&offer->cookie);
        if (stamp == 0 || (stamp & 1) != 0 || cookie == 0 || fd > INT32_MAX ||
            pdi_atomic64_load_acquire(&offer->stamp) != stamp || (about >> 9 & 1) == 0) {
            continue; /* nothing; or it is being changed, and we are told when it has been */
        }
        struct pdi_lane_in found = {.segment = {.fd = -1},
                                    .cookie = cookie,
                                    .resource = resource,
                                    .peer = peer,
                                    .pid = neighbour->pid,
                                    .space = (uint8_t)about,
                                    .reliable = (uint8_t)(about >> 8 & 1),
                                    .used = 1};
        if (!is_attached(lanes, peer, cookie) &&
            pdi_node_wants(lanes->node, found.space, resource)) {
            attach(lanes, peer, &found, (int)fd, size);
        }
    }
}

/* ---- going ---- */

static void detach(struct pdi_lanes *lanes, struct pdi_lane_in *lane)
{
    struct pdi_place *place = place_of(lanes, lane);
    bool told = page_of(lanes, lane) != NULL;
    pdi_place_end(place);
    if (pdi_place_state(place) == PDI_PLACE_LOST) {
        pdi_place_clear(place); /* else it becomes free when its writer has seen that */
    }
    if (told) {
        pdi_lanes_nudge(&lanes->neighbours[lane->peer]);
    }
    lanes->tell -= lane->tell != 0;
    lanes->best_in -= lane->active && !lane->reliable;
    lanes->taken += lane->taken;
    free_memory(lanes, lane);
    *lane = (struct pdi_lane_in){.segment = {.fd = -1}};
}

void pdi_lanes_orphan(struct pdi_lanes *lanes, uint32_t peer)
{
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->used && !lane->orphan && lane->peer == peer) {
            lane->farewell = pdi_atomic64_load_acquire(&page_of(lanes, lane)->magic) == 0;
            lane->orphan = 1;
            lane->tell_by = 0;
        }
    }
}

void pdi_lanes_leave_all(struct pdi_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->used && lane->reader.base == lane->reader.taken) {
            pdi_place_end(place_of(lanes, lane));
        }
    }
}

/* Begins where the writer let us in, perhaps after it has left us already: all it put between is for us. */
static int begin(struct pdi_lanes *lanes, struct pdi_lane_in *lane)
{
    struct pdi_place *place = place_of(lanes, lane);
    int status = pdi_lane_start(&lane->reader, place);
    if (status == PYDDSI_END && pdi_place_state(place) == PDI_PLACE_LOST) {
        uint64_t position = pdi_atomic64_load_acquire(&place->position);
        if (position != PDI_BROUGHT_NOTHING &&
            pdi_lane_next(&lane->reader) - position <= lane->reader.entries_max) {
            lane->reader.place = place;
            lane->reader.base = lane->reader.taken = position;
            lane->reader.span = lane->reader.entries_max;
            status = PYDDSI_OK;
        }
    }
    if (status == PYDDSI_OK) {
        lane->active = 1;
        lane->first = lane->told = lane->reader.taken;
        lanes->best_in += !lane->reliable;
        pdi_atomic64_store_release(&lanes->page->brought[lane - lanes->in].number,
                                   lane->reader.taken);
        mark(lanes, lane, PDI_TELL_BROUGHT);
    }
    return status;
}

/* What stands in our page is what we said, whoever may have written over it. (A position that its writer may move is left alone.) */
static void say_again(struct pdi_lanes *lanes, const struct pdi_lane_in *lane)
{
    struct pdi_place *place = place_of(lanes, lane);
    struct pdi_atomic64 *brought = &lanes->page->brought[lane - lanes->in].number;
    uint64_t number = lane->reader.taken - lane->has_next;
    if (pdi_atomic64_load_relaxed(brought) != number) {
        pdi_atomic64_store_release(brought, number);
    }
    if (!lane->reader.drops && pdi_atomic64_load_relaxed(&place->position) != lane->reader.base) {
        pdi_atomic64_store_release(&place->position, lane->reader.base);
    }
    if (lane->until != 0 && pdi_atomic64_load_relaxed(&place->until) != lane->until) {
        pdi_place_limit(place, lane->until);
    }
}

/* One lane that we read. True: it has begun. */
static bool look_at(struct pdi_lanes *lanes, struct pdi_lane_in *lane, pdi_time now)
{
    bool wanted = pdi_node_wants(lanes->node, lane->space, lane->resource);
    bool begun = false;
    if (!lane->active) {
        int status = begin(lanes, lane);
        begun = status == PYDDSI_OK;
        if (!begun && (status != PYDDSI_AGAIN || lane->orphan || !wanted)) {
            detach(lanes, lane);
        }
        if (!begun) {
            return false;
        }
    }
    bool over = given_up(lanes, lane) || lane->broken;
    lane->leaving = !wanted;
    allow(lanes, lane);
    if (!over) {
        say_again(lanes, lane);
    }
    if (over && lane->has_next) {
        lane->has_next = 0;
        let_go(lanes, lane, held_of((uint32_t)(lane - lanes->in), lane->next.number));
    }
    /* Once it has left us nothing more comes, so this is looked at first. */
    bool lost = lane->orphan || pdi_lane_lost(&lane->reader);
    if (!over && !wanted) {
        pump(lanes, lane, lane->reader.entries_max, now); /* to nobody, which is written down */
    }
    bool empty = !lane->has_next && pdi_lane_behind(&lane->reader) == 0;
    if ((over || (!wanted && !lane->has_next) || (lost && empty)) &&
        lane->reader.base == lane->reader.taken) {
        detach(lanes, lane);
    }
    return begun;
}

bool pdi_lanes_look_in(struct pdi_lanes *lanes, pdi_time now)
{
    bool moved = false;
    for (uint32_t i = 0; i < lanes->in_used; i++) {
        struct pdi_lane_in *lane = &lanes->in[i];
        if (lane->used) {
            moved = look_at(lanes, lane, now) || moved;
        }
        if (lane->tell_by != 0 && lane->tell_by < lanes->due) {
            lanes->due = lane->tell_by;
        }
    }
    for (uint32_t peer = 0; peer < lanes->peers_max; peer++) {
        if (lanes->neighbours[peer].used) {
            browse(lanes, peer);
        }
    }
    return moved;
}
