/* sim_shared.c - lanes in a simulated world (sim/shared.h): the session's own, in memory of a simulated machine.
 *
 * The machine answers lanes_door.h: a descriptor is the index of a segment, a process number that of a life. Nothing here reads a
 * clock or asks the system for anything but memory, so a seed names a run with lanes as it names one without.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/session.h"
#include "sim/shared.h"

#define SEGMENTS_MAX 8192U
#define PUMP_MAX     256U
#define HOST         UINT64_C(0x5d0)

struct segment {
    uint8_t *memory; /* null: a free row */
    void *whole;
    size_t size;
    uint32_t pid;
    uint32_t maps;
    uint8_t open; /* its owner has not closed it: others can map it */
};

struct pdi_machines {
    struct pdi_rand rand;
    uint32_t pids;
    struct segment segments[SEGMENTS_MAX];
};

struct pdi_shared {
    struct pdi_machines *machines;
    struct pdi_sharing sharing;
    pyddsi_session session; /* of it only what lanes need: node, lanes, options, echo */
    struct pdi_lanes lanes;
    uint64_t heard; /* what had been put for it when it attended last */
    uint32_t pid;
};

/* ---- the machine ---- */

static int make(void *context, struct pdi_segment *segment, const char *name, size_t size,
                bool shared, char *text, size_t room)
{
    const struct pdi_shared *of = context;
    (void)name;
    (void)shared;
    *segment = (struct pdi_segment){.fd = -1};
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        struct segment *row = &of->machines->segments[i];
        if (row->memory != NULL) {
            continue;
        }
        void *whole = calloc(1, size + PDI_CACHE_LINE);
        if (whole == NULL) {
            break;
        }
        uintptr_t over = (uintptr_t)whole % PDI_CACHE_LINE;
        *row = (struct segment){.memory = (uint8_t *)whole + (PDI_CACHE_LINE - over),
                                .whole = whole,
                                .size = size,
                                .pid = of->pid,
                                .maps = 1,
                                .open = 1};
        *segment = (struct pdi_segment){.memory = row->memory, .size = size, .fd = (int)i};
        return PYDDSI_OK;
    }
    (void)snprintf(text, room, "the simulated machine has no memory left");
    return PYDDSI_SYSTEM;
}

static int map(void *context, struct pdi_segment *segment, uint32_t pid, int fd, size_t size,
               bool shared, char *text, size_t room)
{
    const struct pdi_shared *of = context;
    struct segment *row =
        fd >= 0 && (uint32_t)fd < SEGMENTS_MAX ? &of->machines->segments[fd] : NULL;
    (void)shared;
    *segment = (struct pdi_segment){.fd = -1};
    bool there =
        row != NULL && row->memory != NULL && row->open && row->pid == pid && row->size == size;
    if (!there || (of->sharing.unmapped_ppm != 0 &&
                   pdi_rand_chance(&of->machines->rand, of->sharing.unmapped_ppm, 1000000))) {
        (void)snprintf(text, room, "no process has such memory");
        return PYDDSI_SYSTEM;
    }
    row->maps++;
    *segment = (struct pdi_segment){.memory = row->memory, .size = size, .fd = -1};
    return PYDDSI_OK;
}

static void unmap(void *context, struct pdi_segment *segment)
{
    const struct pdi_shared *of = context;
    for (uint32_t i = 0; segment->memory != NULL && i < SEGMENTS_MAX; i++) {
        struct segment *row = &of->machines->segments[i];
        if (row->memory != segment->memory) {
            continue;
        }
        row->open = row->open && segment->fd < 0;
        if (--row->maps == 0) {
            free(row->whole);
            row->memory = NULL;
        }
        break;
    }
    *segment = (struct pdi_segment){.fd = -1};
}

/* A life whose page nobody could map any more has ended: the page is the last that a process gives up. */
static bool runs(void *context, uint32_t pid)
{
    const struct pdi_shared *of = context;
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        const struct segment *row = &of->machines->segments[i];
        if (row->memory != NULL && row->open && row->pid == pid) {
            return true;
        }
    }
    return false;
}

struct pdi_machines *pdi_machines_new(uint64_t seed)
{
    struct pdi_machines *machines = calloc(1, sizeof *machines);
    if (machines != NULL) {
        pdi_rand_init(&machines->rand, seed);
    }
    return machines;
}

void pdi_machines_free(struct pdi_machines *machines)
{
    for (uint32_t i = 0; machines != NULL && i < SEGMENTS_MAX; i++) {
        if (machines->segments[i].memory != NULL) {
            free(machines->segments[i].whole);
        }
    }
    free(machines);
}

/* ---- one life of a node ---- */

struct pdi_shared *pdi_shared_new(struct pdi_machines *machines, const struct pdi_sharing *sharing,
                                  pyddsi_config *config)
{
    char text[PYDDSI_TEXT_MAX];
    struct pdi_shared *shared = aligned_alloc(PDI_CACHE_LINE, sizeof *shared);
    if (shared == NULL) {
        return NULL;
    }
    memset(shared, 0, sizeof *shared);
    shared->machines = machines;
    shared->sharing = *sharing;
    shared->pid = ++machines->pids;
    struct pdi_lanes_door door = {.context = shared,
                                  .host = HOST + sharing->machine,
                                  .pid = shared->pid,
                                  .make = make,
                                  .map = map,
                                  .unmap = unmap,
                                  .runs = runs};
    if (pdi_lanes_init(&shared->lanes, config, &door, sharing->bytes_max, sharing->samples_max,
                       pdi_rand_u64(&machines->rand), false, text, sizeof text) != PYDDSI_OK) {
        pdi_lanes_fini(&shared->lanes);
        free(shared);
        return NULL;
    }
    shared->lanes.lane_first = sharing->bytes_first;
    shared->session.options.node = *config;
    shared->session.echo.bytes_max = config->sample_max;
    shared->session.lanes = &shared->lanes;
    shared->lanes.tap = &shared->session.tap;
    return shared;
}

void pdi_shared_begin(struct pdi_shared *shared, struct pdi_node *node)
{
    shared->session.node = node;
    pdi_lanes_begin(&shared->lanes, node);
    pdi_session_env(&shared->session);
}

void pdi_shared_free(struct pdi_shared *shared)
{
    if (shared != NULL) {
        pdi_echo_fini(&shared->session.echo);
        pdi_lanes_fini(&shared->lanes);
        free(shared);
    }
}

void pdi_shared_close(struct pdi_shared *shared, pdi_time now)
{
    pdi_lanes_close(&shared->lanes, now);
    shared->session.closed = 1;
}

/* ---- who is woken ---- */

/* What has been put for us so far; differs when there is more. */
static uint64_t put_for(const struct pdi_shared *shared)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < shared->lanes.in_used; i++) {
        const struct pdi_lane_in *lane = &shared->lanes.in[i];
        if (lane->used && lane->active) {
            sum += pdi_lane_next(&lane->reader) + lane->cookie;
        }
    }
    return sum;
}

bool pdi_shared_asked(const struct pdi_shared *shared)
{
    return !shared->session.closed &&
           (pdi_atomic32_load_acquire(&shared->lanes.page->attention) != 0 ||
            put_for(shared) != shared->heard);
}

/* As the session's housekeeping does (session_thread.c), and an application that has been woken. */
void pdi_shared_attend(struct pdi_shared *shared, pdi_time now)
{
    struct pdi_lanes *lanes = &shared->lanes;
    if (shared->session.closed) {
        return;
    }
    bool asked = pdi_atomic32_and(&lanes->page->attention, 0) != 0;
    if (asked || pdi_lanes_due(lanes) || lanes->moving || lanes->due <= now) {
        (void)pdi_lanes_look(lanes, now);
    }
    if (asked || put_for(shared) != shared->heard) {
        pdi_lanes_pump(lanes, PUMP_MAX, now);
    }
    shared->heard = put_for(shared);
}

bool pdi_shared_leave(struct pdi_shared *shared, pdi_time now)
{
    struct pdi_lanes *lanes = &shared->lanes;
    uint64_t news = pdi_node_news(shared->session.node);
    bool looked = false;
    pdi_lanes_tell(lanes, now);
    if (shared->session.closed) {
        return false;
    }
    if (pdi_lanes_due(lanes) || (lanes->moving && news != shared->session.news)) {
        looked = true;
        (void)pdi_lanes_look(lanes, now);
        pdi_lanes_tell(lanes, now);
    }
    shared->session.news = pdi_node_news(shared->session.node);
    return looked && (lanes->moving || pdi_lanes_due(lanes));
}

pdi_time pdi_shared_due(const struct pdi_shared *shared)
{
    return shared->session.closed ? PDI_TIME_NEVER : shared->lanes.due;
}

bool pdi_shared_quiet(struct pdi_shared *shared)
{
    uint64_t left = 0;
    for (uint32_t i = 0; i < shared->lanes.out_used; i++) {
        struct pdi_lane_out *lane = &shared->lanes.out[i];
        left += lane->used ? pdi_lanes_unbrought(&shared->lanes, lane) : 0;
    }
    return left == 0 && !pdi_shared_asked(shared);
}

/* ---- what an application does ---- */

void pdi_shared_publisher(struct pdi_shared *shared, uint32_t publisher)
{
    pdi_lanes_publisher(&shared->lanes, publisher);
}

void pdi_shared_forget(struct pdi_shared *shared, uint32_t handle)
{
    pdi_lanes_forget(&shared->lanes, handle);
}

int pdi_shared_put(struct pdi_shared *shared, uint32_t publisher, const void *data, size_t size,
                   pdi_time now)
{
    const struct pdi_put put = {publisher, data, size};
    return pdi_session_put(&shared->session, &put, now);
}

void pdi_shared_pump(struct pdi_shared *shared, pdi_time now)
{
    pdi_lanes_pump(&shared->lanes, PUMP_MAX, now);
}

void pdi_shared_took(struct pdi_shared *shared, const pyddsi_received *sample)
{
    if (pdi_lanes_have(sample->held)) {
        (void)pdi_lanes_took(&shared->lanes, sample->held);
    }
}

void pdi_shared_allow(struct pdi_shared *shared)
{
    pdi_lanes_allow(&shared->lanes);
}

void pdi_shared_gave_back(struct pdi_shared *shared, const pyddsi_received *sample)
{
    if (pdi_lanes_have(sample->held)) {
        pdi_lanes_gave_back(&shared->lanes, sample->held);
    }
}

void pdi_shared_scribble(struct pdi_shared *shared, struct pdi_rand *rand, uint32_t words,
                         bool likely)
{
    struct pdi_shared_page *page = shared->lanes.page;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t index = (uint32_t)pdi_rand_below(rand, pdi_rand_chance(rand, 3, 4) ? 4 : 64);
        uint64_t word =
            likely ? pdi_rand_below(rand, 2000) : pdi_rand_u64(rand) | UINT64_C(1) << 40;
        switch (pdi_rand_below(rand, 4)) {
        case 0:
            pdi_atomic64_store_release(&page->brought[index].number, word);
            break;
        case 1:
            pdi_atomic64_store_release(&page->places[index].position, word);
            break;
        case 2:
            pdi_atomic64_store_release(&page->places[index].until, word);
            break;
        default:
            pdi_atomic32_store_release(&page->brought[index].held, (uint32_t)word & 1);
            break;
        }
    }
}

void pdi_shared_count(struct pdi_shared *shared, struct pdi_shared_counts *counts)
{
    pyddsi_session_counts lanes = {0};
    pyddsi_stats stats = {0};
    pdi_lanes_count(&shared->lanes, &lanes);
    pdi_lanes_stats(&shared->lanes, &stats);
    *counts = (struct pdi_shared_counts){.put = lanes.lane_put,
                                         .taken = lanes.lane_taken,
                                         .refused = lanes.lane_refused,
                                         .lost = stats.forgiven,
                                         .owed = stats.owed,
                                         .lanes = (uint32_t)lanes.lanes};
    for (uint32_t i = 0; i < shared->lanes.in_used; i++) {
        const struct pdi_lane_in *lane = &shared->lanes.in[i];
        counts->reads += lane->used && lane->active;
        counts->held += lane->used ? lane->ringed + lane->taken_out : 0;
    }
}
