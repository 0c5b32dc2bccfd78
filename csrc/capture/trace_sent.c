/* trace_sent.c - what is remembered of single numbers of a flow: when each was first sent, and which are missing.
 *
 * First transmissions are remembered from `base` on: the lowest number that some acker still waits for, or as far back as
 * there is room. The ring that holds their times grows with what is under way, in steps of two, out of one pool:
 *
 *     ring    [n & (size - 1)] = time of number n        valid for base <= n <= highest; 0: not seen, or not known when
 *
 * Missing numbers are stretches in a list, the lowest first. They seldom are more than a few; when they are too many, the
 * lowest is forgotten, and nothing is known any more of what is not above it.
 */
#include "capture/trace_inside.h"

/* ---- first transmissions ---- */

/* Where the time of a number lies, for a flow that remembers any. */
static uint64_t *sent_at(const struct pdi_trace *trace, const struct pdi_flow *flow, int64_t usn)
{
    return &trace->sent[(size_t)flow->sent * PDI_SENT_UNIT +
                        ((uint64_t)usn & (flow->sent_size - 1))];
}

int64_t pdi_flow_sent(const struct pdi_trace *trace, const struct pdi_flow *flow, int64_t usn)
{
    if (flow->sent == PDI_NONE32 || usn < flow->base || usn > flow->highest) {
        return PDI_NONE64;
    }
    return (int64_t)(*sent_at(trace, flow, usn) + (uint64_t)PDI_NONE64);
}

void pdi_flow_sent_set(const struct pdi_trace *trace, const struct pdi_flow *flow, int64_t usn,
                       int64_t time_ns)
{
    *sent_at(trace, flow, usn) = (uint64_t)time_ns - (uint64_t)PDI_NONE64;
}

void pdi_sent_free(struct pdi_trace *trace, struct pdi_flow *flow)
{
    if (flow->sent != PDI_NONE32) {
        pdi_pages_put(&trace->sent_pages, flow->sent, flow->sent_size / PDI_SENT_UNIT);
        flow->sent = PDI_NONE32;
        flow->sent_size = 0;
    }
}

/* Twice the room, or the first; false: there is none, or it is as large as it may be. */
static bool sent_grow(struct pdi_trace *trace, struct pdi_flow *flow)
{
    uint32_t size = flow->sent == PDI_NONE32 ? PDI_SENT_UNIT : flow->sent_size * 2;
    uint32_t most = flow->ackers == PDI_NONE32 ? PDI_SENT_ALONE : PDI_SENT_MAX;
    if (size > most) {
        return false;
    }
    uint32_t units = pdi_pages_get(&trace->sent_pages, size / PDI_SENT_UNIT);
    if (units == PDI_PAGES_NONE) {
        return false;
    }
    struct pdi_flow old = *flow;
    flow->sent = units;
    flow->sent_size = size;
    memset(&trace->sent[(size_t)units * PDI_SENT_UNIT], 0, size * sizeof(uint64_t));
    for (int64_t n = old.base; old.sent != PDI_NONE32 && n <= old.highest;
         n++) { /* at most its size */
        *sent_at(trace, flow, n) = *sent_at(trace, &old, n);
    }
    pdi_sent_free(trace, &old);
    return true;
}

/* The highest becomes |usn|: makes room for the times in between, which are not known, and notes this one. */
void pdi_sent_note(struct pdi_trace *trace, struct pdi_flow *flow, int64_t usn, int64_t time_ns)
{
    while ((flow->sent == PDI_NONE32 || usn - flow->base >= flow->sent_size) &&
           sent_grow(trace, flow)) {
        /* it doubles, up to a limit */
    }
    int64_t before = flow->highest;
    flow->highest = usn;
    if (flow->sent == PDI_NONE32) {
        flow->base = usn + 1; /* the pool is empty: nothing is remembered */
        return;
    }
    if (usn - flow->base >= flow->sent_size) {
        flow->base = usn - flow->sent_size + 1;
    }
    int64_t from = before + 1 > flow->base ? before + 1 : flow->base;
    for (int64_t n = from; n < usn; n++) { /* at most the ring's size */
        pdi_flow_sent_set(trace, flow, n, PDI_NONE64);
    }
    pdi_flow_sent_set(trace, flow, usn, time_ns);
}

/* ---- missing numbers ---- */

void pdi_missing_free(struct pdi_trace *trace, struct pdi_flow *flow)
{
    while (flow->missing != PDI_NONE32) { /* PDI_FLOW_MISSING_MAX */
        uint32_t gone = flow->missing;
        flow->missing = trace->missing[gone].next;
        pdi_slots_put(&trace->missing_slots, gone);
    }
    flow->missing_count = 0;
}

static void forget_lowest(struct pdi_trace *trace, struct pdi_flow *flow)
{
    uint32_t lowest = flow->missing;
    flow->lowest = trace->missing[lowest].to + 1;
    flow->missing = trace->missing[lowest].next;
    flow->missing_count--;
    pdi_slots_put(&trace->missing_slots, lowest);
    trace->forgotten += flow->reliable; /* best effort that is so late is of no use to anybody */
}

/* A place for one more stretch; PDI_NONE32: there is none, and this flow has no other. */
static uint32_t stretch_get(struct pdi_trace *trace, struct pdi_flow *flow)
{
    uint32_t most = flow->reliable ? PDI_FLOW_MISSING_MAX : PDI_BEST_MISSING_MAX;
    if (flow->missing_count >= most ||
        (pdi_slots_full(&trace->missing_slots) && flow->missing != PDI_NONE32)) {
        forget_lowest(trace, flow);
    }
    return pdi_slots_get(&trace->missing_slots);
}

/* A stretch at the upper end. The lowest makes room if there are too many. */
void pdi_missing_add(struct pdi_trace *trace, struct pdi_flow *flow, int64_t from, int64_t to)
{
    uint32_t place = stretch_get(trace, flow);
    if (place == PDI_NONE32) {
        flow->lowest = to + 1;
        trace->forgotten += flow->reliable;
        return;
    }
    trace->missing[place] = (struct pdi_missing){from, to, PDI_NONE32};
    uint32_t *end = &flow->missing;
    while (*end != PDI_NONE32) { /* PDI_FLOW_MISSING_MAX */
        end = &trace->missing[*end].next;
    }
    *end = place;
    flow->missing_count++;
}

/* A stretch without one of its numbers, which lies inside. */
static void split(struct pdi_trace *trace, struct pdi_flow *flow, struct pdi_missing *stretch,
                  int64_t usn)
{
    int64_t to = stretch->to;
    stretch->to = usn - 1;
    uint32_t upper = stretch_get(trace, flow);
    PDI_CHECK(upper != PDI_NONE32); /* this one could be forgotten for it */
    uint32_t *at = &flow->missing;
    while (*at != PDI_NONE32 && trace->missing[*at].from < usn) { /* PDI_FLOW_MISSING_MAX */
        at = &trace->missing[*at].next;
    }
    trace->missing[upper] = (struct pdi_missing){usn + 1, to, *at};
    *at = upper;
    flow->missing_count++;
}

bool pdi_missing_has(const struct pdi_trace *trace, const struct pdi_flow *flow, int64_t usn)
{
    for (uint32_t i = flow->missing; i != PDI_NONE32; i = trace->missing[i].next) {
        if (usn >= trace->missing[i].from && usn <= trace->missing[i].to) {
            return true; /* PDI_FLOW_MISSING_MAX */
        }
    }
    return false;
}

bool pdi_missing_take(struct pdi_trace *trace, struct pdi_flow *flow, int64_t usn)
{
    for (uint32_t *at = &flow->missing; *at != PDI_NONE32; at = &trace->missing[*at].next) {
        struct pdi_missing *stretch = &trace->missing[*at]; /* PDI_FLOW_MISSING_MAX */
        if (usn < stretch->from || usn > stretch->to) {
            continue;
        }
        if (stretch->from == stretch->to) {
            uint32_t gone = *at;
            *at = stretch->next;
            flow->missing_count--;
            pdi_slots_put(&trace->missing_slots, gone);
        } else if (usn == stretch->from) {
            stretch->from++;
        } else if (usn == stretch->to) {
            stretch->to--;
        } else {
            split(trace, flow, stretch, usn);
        }
        return true;
    }
    return false;
}
