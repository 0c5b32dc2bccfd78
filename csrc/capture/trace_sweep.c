/* trace_sweep.c - what is given up when a table is full.
 *
 * The half that was idle longest goes at once. Which half that is need not be exact: the middle between the oldest and the
 * newest is halved until it parts the table well enough. After that there is room for thousands, so what the walk costs is
 * little for each of them, however many strangers a capture is flooded with.
 *
 * A party takes with it what cannot be without it: the flows from it and to it, and its sessions. Lists are made anew by
 * one walk and not unravelled link by link.
 */
#include "capture/trace_inside.h"

/* When a thing was last active; PDI_NONE64 counts as longest ago. */
typedef int64_t active_function(const struct pdi_trace *trace, uint32_t index);
typedef bool used_function(const struct pdi_trace *trace, uint32_t index);

struct table {
    uint32_t count;
    used_function *used;
    active_function *active;
};

/* A time that parts a table: a quarter to three quarters of it, if it can be parted so, was active before. */
static int64_t part(const struct pdi_trace *trace, const struct table *table)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->used(trace, i)) {
            int64_t at = table->active(trace, i);
            low = at < low ? at : low;
            high = at > high ? at : high;
        }
    }
    int64_t middle = low;
    for (unsigned round = 0; round < 64; round++) {
        middle = low / 2 + high / 2 + (low % 2 + high % 2) / 2;
        uint32_t before = 0, all = 0;
        for (uint32_t i = 0; i < table->count; i++) {
            all += table->used(trace, i);
            before += table->used(trace, i) && table->active(trace, i) < middle;
        }
        if (before >= all / 4 && before <= all - all / 4) {
            return middle;
        }
        if (before < all / 4) {
            low = middle;
        } else {
            high = middle;
        }
        if (high - low <= 1) {
            return high; /* many of the same moment: all of them, if need be */
        }
    }
    return middle;
}

static bool goes(const struct pdi_trace *trace, const struct table *table, uint32_t index,
                 int64_t limit, uint32_t *left)
{
    if (!table->used(trace, index) || *left == 0) {
        return false;
    }
    bool old = table->active(trace, index) <= limit;
    *left -= old;
    return old;
}

/* ---- parties ---- */

static bool party_used(const struct pdi_trace *trace, uint32_t i)
{
    return trace->parties[i].used != 0;
}

static int64_t party_active(const struct pdi_trace *trace, uint32_t i)
{
    return trace->parties[i].last_ns;
}

void pdi_trace_relink(struct pdi_trace *trace)
{
    pdi_ids_again(trace);
    for (uint32_t i = 0; i < trace->party_slots.fresh; i++) {
        trace->parties[i].flows = trace->parties[i].sessions = PDI_NONE32;
    }
    for (uint32_t i = 0; i < trace->flow_slots.fresh; i++) {
        struct pdi_flow *flow = &trace->flows[i];
        if (flow->used) {
            flow->next = trace->parties[flow->source].flows;
            trace->parties[flow->source].flows = i;
        }
    }
    for (uint32_t i = 0; i < trace->session_slots.fresh; i++) {
        struct pdi_seen *session = &trace->sessions[i];
        for (unsigned side = 0; session->used && side < 2; side++) {
            session->next[side] = trace->parties[session->party[side]].sessions;
            trace->parties[session->party[side]].sessions = i;
        }
    }
}

static bool stays(const struct pdi_trace *trace, uint32_t party)
{
    return trace->parties[party].used == 1;
}

/* Everything that belongs to parties which are about to go. */
static void drop_orphans(struct pdi_trace *trace)
{
    for (uint32_t i = 0; i < trace->session_slots.fresh; i++) {
        struct pdi_seen *session = &trace->sessions[i];
        if (session->used &&
            !(stays(trace, session->party[0]) && stays(trace, session->party[1]))) {
            session->end = session->state == PDI_SESSION_ENDED ? session->end : PDI_END_EVICTED;
            pdi_seen_free(trace, i);
        }
    }
    for (uint32_t i = 0; i < trace->flow_slots.fresh; i++) {
        if (trace->flows[i].used &&
            !(stays(trace, trace->flows[i].source) && stays(trace, trace->flows[i].target))) {
            pdi_flow_free(trace, i);
        }
    }
    for (uint32_t i = 0; i < trace->resource_slots.fresh; i++) {
        if (trace->resources[i].used && !stays(trace, trace->resources[i].party)) {
            pdi_resource_free(trace, i);
        }
    }
    for (uint32_t i = 0; i < trace->flow_slots.fresh; i++) {
        uint32_t ackers = trace->flows[i].used ? trace->flows[i].ackers : PDI_NONE32;
        while (ackers != PDI_NONE32) { /* PDI_FLOW_ACKERS_MAX */
            uint32_t party = trace->ackers[ackers].party;
            ackers = trace->ackers[ackers].next;
            if (!stays(trace, party)) {
                pdi_acker_free(trace, i, party);
            }
        }
    }
}

/* Whether the packet at hand is of this party. */
static bool busy(const struct pdi_trace *trace, uint32_t party)
{
    return party == trace->busy[0] || party == trace->busy[1];
}

static void party_goes(struct pdi_trace *trace, uint32_t party)
{
    if (trace->listener.party_goes != NULL) {
        trace->listener.party_goes(trace->listener.context, party);
    }
    trace->parties[party].used = 2;
    trace->evicted++;
}

void pdi_sweep_parties(struct pdi_trace *trace)
{
    const struct table table = {trace->party_slots.fresh, party_used, party_active};
    int64_t limit = part(trace, &table);
    uint32_t left = trace->party_slots.count / 2, before = left;
    for (uint32_t i = 0; i < table.count; i++) {
        /* groups stay: they are few, and without them multicast is nobody's */
        if (!busy(trace, i) && !trace->parties[i].group && goes(trace, &table, i, limit, &left)) {
            party_goes(trace, i);
        }
    }
    for (uint32_t i = 0; left == before && i < table.count; i++) {
        if (!busy(trace, i)) { /* nothing but groups: a made-up capture */
            party_goes(trace, i);
            left--;
        }
    }
    drop_orphans(trace);
    for (uint32_t i = 0; i < table.count; i++) {
        if (trace->parties[i].used == 2) {
            trace->parties[i].used = 0;
            (void)pdi_map_remove(&trace->party_of, trace->parties[i].ep);
            pdi_slots_put(&trace->party_slots, i);
        }
    }
    for (uint32_t i = 0; i < PDI_CACHE; i++) {
        trace->cache[i].party = PDI_NONE32;
    }
    pdi_trace_relink(trace);
}

/* ---- flows ---- */

static bool flow_used(const struct pdi_trace *trace, uint32_t i)
{
    return trace->flows[i].used;
}

static int64_t flow_active(const struct pdi_trace *trace, uint32_t i)
{
    return trace->flows[i].last_ns;
}

void pdi_sweep_flows(struct pdi_trace *trace)
{
    const struct table table = {trace->flow_slots.fresh, flow_used, flow_active};
    int64_t limit = part(trace, &table);
    uint32_t left = trace->flow_slots.count / 2;
    for (uint32_t i = 0; i < trace->flow_slots.fresh; i++) {
        if (goes(trace, &table, i, limit, &left)) {
            pdi_flow_free(trace, i);
            trace->evicted++;
        }
    }
    pdi_trace_relink(trace);
}

/* ---- sessions ---- */

static bool session_used(const struct pdi_trace *trace, uint32_t i)
{
    return trace->sessions[i].used;
}

/* Those that have ended go before all others. */
static int64_t session_active(const struct pdi_trace *trace, uint32_t i)
{
    const struct pdi_seen *session = &trace->sessions[i];
    return session->state == PDI_SESSION_ENDED ? PDI_NONE64 : session->open_ns;
}

void pdi_sweep_sessions(struct pdi_trace *trace)
{
    const struct table table = {trace->session_slots.fresh, session_used, session_active};
    int64_t limit = part(trace, &table);
    uint32_t left = trace->session_slots.count / 2;
    for (uint32_t i = 0; i < trace->session_slots.fresh; i++) {
        if (goes(trace, &table, i, limit, &left)) {
            struct pdi_seen *session = &trace->sessions[i];
            session->end = session->state == PDI_SESSION_ENDED ? session->end : PDI_END_EVICTED;
            pdi_seen_free(trace, i);
            trace->evicted++;
        }
    }
    pdi_trace_relink(trace);
}

/* ---- resources ---- */

static bool resource_used(const struct pdi_trace *trace, uint32_t i)
{
    return trace->resources[i].used;
}

static int64_t resource_active(const struct pdi_trace *trace, uint32_t i)
{
    return trace->resources[i].from_ns;
}

void pdi_sweep_resources(struct pdi_trace *trace)
{
    const struct table table = {trace->resource_slots.fresh, resource_used, resource_active};
    if (trace->resource_slots.used > trace->resource_slots.count / 4) {
        int64_t limit = part(trace, &table);
        uint32_t left = trace->resource_slots.count / 2;
        for (uint32_t i = 0; i < trace->resource_slots.fresh; i++) {
            if (goes(trace, &table, i, limit, &left)) {
                pdi_resource_free(trace, i);
                trace->evicted++;
            }
        }
    }
}
