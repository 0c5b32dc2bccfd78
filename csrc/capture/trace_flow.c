/* trace_flow.c - flows: finding, making and ending them.
 *
 * A flow is one counter: what one party sends on one conduit, reliably or not, to one other party, or to groups, of which a
 * conduit may use several and has one counter all the same. It is found by a key of all that; the last flow of each party is
 * tried first, for messages of one flow come together.
 *
 * What its numbers mean is found in trace_number.c.
 */
#include "capture/trace_inside.h"

/* ---- finding and making ---- */

/* Parties have 23 bits, and conduits 16: no two flows have one key. */
static uint64_t key_of(uint32_t source, uint32_t to, uint64_t conduit, bool reliable)
{
    return (uint64_t)source << 40 | (uint64_t)to << 17 | (conduit & 0xffffU) << 1 | reliable;
}

uint32_t pdi_flow_target(const struct pdi_trace *trace, uint32_t target)
{
    return trace->parties[target].group ? PDI_ALL_GROUPS : target;
}

uint32_t pdi_flow_find(struct pdi_trace *trace, uint32_t source, uint32_t to, uint64_t conduit,
                       bool reliable)
{
    uint64_t key = key_of(source, to, conduit, reliable), found;
    uint32_t recent = trace->parties[source].recent[reliable];
    if (recent != PDI_NONE32 && trace->flows[recent].key == key && trace->flows[recent].used) {
        return recent;
    }
    if (!pdi_map_get(&trace->flow_of, key, &found)) {
        return PDI_NONE32;
    }
    trace->parties[source].recent[reliable] = (uint32_t)found;
    return (uint32_t)found;
}

static uint64_t flow_id(const struct pdi_trace *trace, uint32_t source, uint32_t target,
                        uint64_t conduit, bool reliable)
{
    const struct pdi_party *to = &trace->parties[target];
    uint64_t other = to->group ? 0 : to->ep;
    return pdi_id(pdi_mix(trace->parties[source].ep, pdi_mix(other, conduit << 1 | reliable)));
}

uint32_t pdi_flow_get(struct pdi_trace *trace, uint32_t source, uint32_t target, uint64_t conduit,
                      bool reliable)
{
    uint32_t to = pdi_flow_target(trace, target);
    uint32_t flow = pdi_flow_find(trace, source, to, conduit, reliable);
    if (flow != PDI_NONE32) {
        return flow;
    }
    flow = pdi_slots_get(&trace->flow_slots);
    if (flow == PDI_NONE32) {
        pdi_sweep_flows(trace);
        flow = pdi_slots_get(&trace->flow_slots);
    }
    PDI_CHECK(flow != PDI_NONE32);
    (void)pdi_flow_set(trace, flow, source, target, conduit, reliable);
    trace->parties[source].recent[reliable] = flow;
    return flow;
}

bool pdi_flow_set(struct pdi_trace *trace, uint32_t flow, uint32_t source, uint32_t target,
                  uint64_t conduit, bool reliable)
{
    struct pdi_party *party = &trace->parties[source];
    uint64_t key = key_of(source, pdi_flow_target(trace, target), conduit, reliable), taken;
    if (pdi_map_get(&trace->flow_of, key, &taken)) {
        return false;
    }
    trace->flows[flow] = (struct pdi_flow){
        .id = flow_id(trace, source, target, conduit, reliable),
        .key = key,
        .last_ns = PDI_NONE64,
        .asked_ns = PDI_NONE64,
        .begun_ns = PDI_NONE64,
        .presync = PDI_NONE64,
        .source = source,
        .target = target,
        .next = party->flows,
        .ackers = PDI_NONE32,
        .missing = PDI_NONE32,
        .sent = PDI_NONE32,
        .histogram = PDI_NONE32,
        .conduit = (uint16_t)conduit,
        .used = 1,
        .reliable = reliable,
        .greetings = party->greetings,
        .lives = party->lives,
        .cuts = party->cuts,
        .seq_bits = party->seq_bits,
    };
    party->flows = flow;
    pdi_flow_tally(&trace->flows[flow]);
    (void)pdi_map_put(&trace->flow_of, key, flow);
    return true;
}

void pdi_flow_synched(struct pdi_trace *trace, struct pdi_flow *flow)
{
    if (flow->synched) {
        return;
    }
    for (uint32_t i = trace->parties[flow->source].flows; i != PDI_NONE32;
         i = trace->flows[i].next) {
        const struct pdi_flow *other = &trace->flows[i]; /* a party has a few */
        if (other->reliable && other->conduit == flow->conduit && other->synched) {
            flow->synched = 1;
            flow->synch_greetings = other->synch_greetings;
        }
    }
}

void pdi_flow_tally(struct pdi_flow *flow)
{
    flow->t_first_ns = flow->t_last_ns = PDI_NONE64;
    flow->t_first_usn = flow->t_last_usn = PDI_NONE64;
    flow->t_packet = 0;
    flow->t_messages = flow->t_samples = flow->t_bytes = flow->t_packets = 0;
    flow->t_gaps = flow->t_repeats = flow->t_presync = flow->t_fills = flow->t_old = 0;
    flow->t_missing = 0;
    flow->t_gap_packet = flow->t_repeat_packet = 0;
    flow->t_gap_file = flow->t_repeat_file = 0;
    flow->t_acks = flow->t_nacks = flow->t_nacked = flow->t_synchs = flow->t_outstanding = 0;
    flow->t_ambiguous = flow->t_unclear = flow->t_resets = 0;
}

/* ---- the end of one, and beginning anew ---- */

void pdi_histograms_free(struct pdi_trace *trace, struct pdi_flow *flow)
{
    if (flow->histogram != PDI_NONE32) {
        pdi_slots_put(&trace->histogram_slots, flow->histogram);
        flow->histogram = PDI_NONE32;
    }
}

void pdi_flow_restart(struct pdi_trace *trace, uint32_t index)
{
    struct pdi_flow *flow = &trace->flows[index];
    pdi_sent_free(trace, flow);
    pdi_missing_free(trace, flow);
    pdi_ackers_free(trace, flow);
    flow->zero_wanted = flow->asked = 0;
    flow->presync = PDI_NONE64;
    flow->asked_ns = PDI_NONE64;
    flow->seen = 0;
    flow->begun_ns = PDI_NONE64;
}

void pdi_flow_free(struct pdi_trace *trace, uint32_t index)
{
    struct pdi_flow *flow = &trace->flows[index];
    if (trace->listener.flow_goes != NULL) {
        trace->listener.flow_goes(trace->listener.context, index);
    }
    pdi_flow_restart(trace, index);
    pdi_histograms_free(trace, flow);
    (void)pdi_map_remove(&trace->flow_of, flow->key);
    flow->used = 0;
    pdi_slots_put(&trace->flow_slots, index);
}
