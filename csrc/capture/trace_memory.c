/* trace_memory.c - the memory of a trace: how much of what there is room for, and where it lies.
 *
 * Whoever reads says how many bytes there may be. They are shared out by what a thousand endpoints usually come with (two counters
 * each, a session, some names, ...), so that no table is full long before the others; one function lays the tables out, and says
 * how much that is by running once without memory (base/carve.h).
 */
#include "base/carve.h"
#include "capture/trace_inside.h"

/* Of a share, PDI_TRACE_BYTES_MIN. */
enum {
    PARTIES = 1024,
    FLOWS = 2048,
    ACKERS = 4096,
    MISSING = 4096,
    SESSIONS = 1024,
    RESOURCES = 4096,
    HISTOGRAMS = 512, /* pairs of them; flows beyond have none */
    NAME_UNITS = 8192,
    SENT_UNITS = 2048, /* of first transmissions: flows beyond have none */
    RATES = 8192,      /* twice the sums that there can be */
    SHARES_MAX = PDI_PARTIES_MAX / PARTIES,
};

enum { MAPS = 6, SLOTS = 7 };

struct layout {
    struct pdi_map_slot *slots[MAPS];
    uint64_t *used[MAPS];
    uint64_t *pages[2];
    uint32_t *free[SLOTS];
    uint32_t map_slots[MAPS];
    uint32_t slot_counts[SLOTS];
    struct pdi_trace_room room;
};

struct pdi_trace_room pdi_trace_room(uint64_t bytes)
{
    uint64_t fit = bytes / PDI_TRACE_BYTES_MIN;
    uint32_t shares = fit == 0 ? 1 : fit > SHARES_MAX ? SHARES_MAX : (uint32_t)fit;
    uint32_t rates = RATES;
    while (rates < shares * RATES) { /* a power of two, up to 2^26 */
        rates *= 2;
    }
    return (struct pdi_trace_room){.parties = shares * PARTIES,
                                   .flows = shares * FLOWS,
                                   .ackers = shares * ACKERS,
                                   .missing = shares * MISSING,
                                   .sessions = shares * SESSIONS,
                                   .resources = shares * RESOURCES,
                                   .histograms = shares * HISTOGRAMS,
                                   .name_units = shares * NAME_UNITS,
                                   .sent_units = shares * SENT_UNITS,
                                   .rates = rates};
}

/* Slots of a map with so many keys: a quarter and more of them stays free. */
static uint32_t map_for(uint32_t count)
{
    uint32_t slots = PDI_MAP_CAPACITY_MIN;
    while (PDI_MAP_LIMIT(slots) < count) { /* it doubles */
        slots *= 2;
    }
    return slots;
}

static struct pdi_trace *lay_out(struct pdi_carve *carve, struct layout *layout, uint64_t bytes)
{
    struct pdi_trace *trace = pdi_carve(carve, 1, sizeof *trace);
    struct pdi_trace aside;
    struct pdi_trace *into = trace != NULL ? trace : &aside;
    struct pdi_trace_room room = layout->room = pdi_trace_room(bytes);
    const uint32_t keys[MAPS] = {room.parties,   room.flows,     room.sessions,
                                 room.resources, room.resources, room.parties};
    const uint32_t counts[SLOTS] = {room.parties,  room.flows,     room.ackers,    room.missing,
                                    room.sessions, room.resources, room.histograms};
    into->parties = pdi_carve(carve, room.parties, sizeof *into->parties);
    into->flows = pdi_carve(carve, room.flows, sizeof *into->flows);
    into->ackers = pdi_carve(carve, room.ackers, sizeof *into->ackers);
    into->missing = pdi_carve(carve, room.missing, sizeof *into->missing);
    into->sessions = pdi_carve(carve, room.sessions, sizeof *into->sessions);
    into->resources = pdi_carve(carve, room.resources, sizeof *into->resources);
    into->sent = pdi_carve(carve, (size_t)room.sent_units * PDI_SENT_UNIT, sizeof *into->sent);
    into->names = pdi_carve(carve, room.name_units, PDI_NAME_UNIT);
    into->histograms = pdi_carve(carve, room.histograms, sizeof *into->histograms);
    for (unsigned i = 0; i < MAPS; i++) {
        layout->map_slots[i] = map_for(keys[i]);
        layout->slots[i] = pdi_carve(carve, layout->map_slots[i], sizeof(struct pdi_map_slot));
        layout->used[i] = pdi_carve_bits(carve, layout->map_slots[i]);
    }
    layout->pages[0] = pdi_carve_bits(carve, room.sent_units);
    layout->pages[1] = pdi_carve_bits(carve, room.name_units);
    for (unsigned i = 0; i < SLOTS; i++) {
        layout->slot_counts[i] = counts[i];
        layout->free[i] = pdi_carve(carve, counts[i], sizeof(uint32_t));
    }
    return trace;
}

size_t pdi_trace_size(uint64_t bytes)
{
    struct pdi_carve carve = {0};
    struct layout layout;
    (void)lay_out(&carve, &layout, bytes);
    return carve.size;
}

struct pdi_trace *pdi_trace_init(void *memory, uint64_t bytes, const uint64_t seed[2])
{
    struct pdi_carve carve = {.memory = memory, .zero = true};
    struct layout layout;
    struct pdi_trace *trace = lay_out(&carve, &layout, bytes);
    struct pdi_map *const maps[MAPS] = {&trace->party_of,    &trace->flow_of, &trace->session_of,
                                        &trace->resource_of, &trace->rid_of,  &trace->id_of};
    struct pdi_slots *const slots[SLOTS] = {&trace->party_slots,    &trace->flow_slots,
                                            &trace->acker_slots,    &trace->missing_slots,
                                            &trace->session_slots,  &trace->resource_slots,
                                            &trace->histogram_slots};
    for (unsigned i = 0; i < MAPS; i++) {
        (void)pdi_map_init(maps[i], layout.slots[i], layout.used[i], layout.map_slots[i], seed);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        pdi_slots_init(slots[i], layout.free[i], layout.slot_counts[i]);
    }
    (void)pdi_pages_init(&trace->sent_pages, layout.pages[0], layout.room.sent_units);
    (void)pdi_pages_init(&trace->name_pages, layout.pages[1], layout.room.name_units);
    trace->ports[0] = 7447;
    trace->port_count = 1;
    trace->learn = 1;
    trace->busy[0] = trace->busy[1] = PDI_NONE32;
    trace->latest_ns = PDI_NONE64;
    for (unsigned i = 0; i < PDI_CACHE; i++) {
        trace->cache[i].party = PDI_NONE32;
    }
    pdi_trace_begin(trace);
    return trace;
}
