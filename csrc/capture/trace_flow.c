/* trace_flow.c - numbers: what a message is to those of its flow that were seen before.
 *
 *     usn    0  1  2  3  .  .  6  7  8              highest = 8
 *            │        │  └missing┘   │              4, 5 and 6 are asked for again, by somebody:
 *            base     acked                         4 fills, 6 repeats, 9 is next
 *
 * A number is unwrapped to the count nearest to the highest one so far; so a jump of less than half the circle is
 * understood, and a repetition never moves the highest. What lies farther away, or comes after a silence in which the flow
 * at its own pace could have gone half round, is ambiguous: its count is then as good a guess as any, and it is no gap.
 *
 * What is remembered of single numbers, when they were first sent and which are missing, is in trace_sent.c.
 */
#include "capture/trace_inside.h"

static bool is_data(unsigned kind)
{
    return kind == PYDDSI_SDATA || kind == PYDDSI_WDATA || kind == PYDDSI_BDATA;
}

/* ---- finding and making ---- */

/* Parties have 12 bits, and conduits 16: no two flows have one key. */
static uint64_t key_of(uint32_t source, uint32_t to, uint64_t conduit, bool reliable)
{
    return (uint64_t)source << 32 | (uint64_t)to << 18 | (conduit & 0xffffU) << 1 | reliable;
}

static uint32_t target_of(const struct pdi_trace *trace, uint32_t target)
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
    return pdi_mix(trace->parties[source].ep, pdi_mix(other, conduit << 1 | reliable));
}

/* A flow to groups begins: a SYNCH on its conduit may have gone to somebody already. */
static void synched_before(struct pdi_trace *trace, uint32_t index)
{
    struct pdi_flow *flow = &trace->flows[index];
    for (uint32_t i = trace->parties[flow->source].flows; i != PDI_NONE32;
         i = trace->flows[i].next) {
        const struct pdi_flow *other = &trace->flows[i]; /* PDI_FLOWS_MAX; a party has a few */
        if (other->reliable && other->conduit == flow->conduit && other->synched) {
            flow->synched = 1;
            flow->synch_greetings = other->synch_greetings;
        }
    }
}

uint32_t pdi_flow_get(struct pdi_trace *trace, uint32_t source, uint32_t target, uint64_t conduit,
                      bool reliable)
{
    uint32_t to = target_of(trace, target);
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
    if (reliable && to == PDI_ALL_GROUPS) {
        synched_before(trace, flow);
    }
    return flow;
}

bool pdi_flow_set(struct pdi_trace *trace, uint32_t flow, uint32_t source, uint32_t target,
                  uint64_t conduit, bool reliable)
{
    struct pdi_party *party = &trace->parties[source];
    uint64_t key = key_of(source, target_of(trace, target), conduit, reliable), taken;
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
        .seq_bits = party->seq_bits,
    };
    party->flows = flow;
    pdi_flow_tally(&trace->flows[flow]);
    (void)pdi_map_put(&trace->flow_of, key, flow);
    return true;
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
    flow->t_acks = flow->t_nacks = flow->t_nacked = flow->t_synchs = flow->t_outstanding = 0;
    flow->t_ambiguous = flow->t_resets = 0;
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
    flow->zero_wanted = 0;
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

/* ---- messages ---- */

/* Whether the flow, at its own pace, could have gone half round since its last message. */
static bool could_have_wrapped(const struct pdi_flow *flow, const struct pdi_seq *seq,
                               int64_t time_ns)
{
    if (flow->seen < 16 || flow->last_ns == PDI_NONE64 || flow->begun_ns == PDI_NONE64 ||
        time_ns <= flow->last_ns) {
        return false;
    }
    int64_t lived = flow->last_ns - flow->begun_ns;
    return lived > 0 && (double)(time_ns - flow->last_ns) * (double)flow->seen >
                            (double)lived * (double)seq->half;
}

/* A message at or below the highest: what is it? */
static uint8_t behind(struct pdi_trace *trace, struct pdi_flow *flow, int64_t usn,
                      const pyddsi_message *message, pyddsi_note *note, int64_t time_ns)
{
    if (!flow->reliable) {
        flow->t_old++;
        return PDI_SEQ_OLD;
    }
    if (usn < flow->lowest) {
        flow->t_ambiguous++; /* from before the capture began, or the epoch */
        return PDI_SEQ_AMBIGUOUS;
    }
    if (flow->missing != PDI_NONE32 && pdi_missing_take(trace, flow, usn)) {
        flow->t_fills++;
        flow->t_missing--;
        if (is_data(message->kind)) {
            trace->samples_missing--;
            trace->samples_filled++;
        }
        if (flow->sent != PDI_NONE32 && usn >= flow->base && time_ns != PDI_TIME_NONE) {
            *pdi_flow_sent_at(trace, flow, usn) = (uint64_t)time_ns;
        }
        return PDI_SEQ_FILL;
    }
    note->since_first_us = pdi_trace_us(pdi_flow_sent(trace, flow, usn), time_ns);
    bool early = !flow->synched || usn <= flow->presync;
    flow->t_repeats++;
    flow->t_presync += early;
    if (is_data(message->kind)) {
        trace->samples_repeated++;
        trace->samples_presync += early;
    }
    return early ? PDI_SEQ_PRE_SYNC : PDI_SEQ_REPEAT;
}

/* Whether the counter has begun anew: somebody else runs at this endpoint; or it has greeted somebody and counts from 0
 * again, where 0 is neither the next number nor one that was asked for. */
static bool begins_anew(const struct pdi_trace *trace, const struct pdi_flow *flow, uint64_t sn,
                        int64_t usn)
{
    const struct pdi_party *sender = &trace->parties[flow->source];
    return sender->lives != flow->lives ||
           (sn == 0 && flow->highest >= 1 && usn != flow->highest + 1 &&
            sender->greetings != flow->greetings && !flow->zero_wanted);
}

/* Finds the event of a number, and moves the highest. */
static void place(struct pdi_trace *trace, uint32_t index, const pyddsi_message *message,
                  pyddsi_note *note, int64_t time_ns)
{
    struct pdi_flow *flow = &trace->flows[index];
    struct pdi_seq seq = pdi_trace_seq(flow);
    uint64_t sn = message->sn & seq.mask;
    int64_t usn = (int64_t)sn;
    bool resets = false;
    if (flow->begun) {
        usn = pdi_seq_unwrap(&seq, flow->highest, sn);
        resets = begins_anew(trace, flow, sn, usn);
    }
    if (!flow->begun || resets) {
        if (resets) {
            if (trace->listener.flow_goes != NULL) {
                trace->listener.flow_goes(trace->listener.context, index);
                pdi_flow_tally(flow);
                pdi_histograms_free(trace, flow);
            }
            pdi_flow_restart(trace, index);
            flow->synched =
                flow->synched && flow->synch_greetings == trace->parties[flow->source].greetings;
            flow->epoch++;
            flow->t_resets++;
            usn = (int64_t)sn;
        }
        flow->begun = 1;
        flow->highest = usn - 1;
        flow->base = flow->acked = flow->lowest = usn;
        note->event = resets ? PDI_SEQ_RESET : PDI_SEQ_FIRST;
    } else if (usn == flow->highest + 1) {
        note->event = PDI_SEQ_NEXT;
    } else if (usn <= flow->highest) {
        note->event = behind(trace, flow, usn, message, note, time_ns);
        note->usn = usn;
        return;
    } else if (could_have_wrapped(flow, &seq, time_ns)) {
        note->event = PDI_SEQ_AMBIGUOUS;
        flow->t_ambiguous++;
    } else {
        uint64_t gap = (uint64_t)(usn - flow->highest - 1);
        note->event = PDI_SEQ_GAP;
        note->gap = gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX;
        flow->t_gaps++;
        flow->t_missing += (int64_t)gap;
        if (is_data(message->kind)) {
            trace->samples_missing += (int64_t)gap;
        }
        if (flow->reliable) {
            pdi_missing_add(trace, flow, flow->highest + 1, usn - 1);
        }
    }
    note->usn = usn;
    if (flow->reliable) {
        pdi_sent_note(trace, flow, usn, time_ns);
    } else {
        flow->highest = usn;
        flow->base = usn + 1;
    }
}

static void tally(struct pdi_flow *flow, const struct pdi_trace_packet *packet,
                  const pyddsi_message *message, const pyddsi_note *note)
{
    flow->t_messages++;
    flow->t_packets += flow->t_packet != packet->number;
    flow->t_packet = packet->number;
    if (is_data(message->kind)) {
        flow->t_samples++;
        flow->t_bytes +=
            message->kind == PYDDSI_BDATA ? message->samples.size : message->payload.size;
    }
    if (packet->time_ns != PDI_TIME_NONE) {
        if (flow->t_first_ns == PDI_NONE64 || packet->time_ns < flow->t_first_ns) {
            flow->t_first_ns = packet->time_ns;
        }
        flow->t_last_ns = packet->time_ns > flow->t_last_ns ? packet->time_ns : flow->t_last_ns;
    }
    if (note->event == PDI_SEQ_GAP && flow->t_gap_packet == 0) {
        flow->t_gap_packet = packet->number;
    }
    if (note->event == PDI_SEQ_REPEAT && flow->t_repeat_packet == 0) {
        flow->t_repeat_packet = packet->number;
    }
    if (flow->t_first_usn == PDI_NONE64 || note->usn < flow->t_first_usn) {
        flow->t_first_usn = note->usn;
    }
    flow->t_last_usn = note->usn > flow->t_last_usn ? note->usn : flow->t_last_usn;
}

/* The events of the table that dashboards read; a message that is simply the next has none. */
static void tell(struct pdi_trace *trace, const struct pdi_flow *flow, const pyddsi_note *note,
                 int64_t time_ns)
{
    unsigned type = note->event == PDI_SEQ_GAP ? PDI_EVENT_GAP
                    : note->event == PDI_SEQ_REPEAT || note->event == PDI_SEQ_PRE_SYNC
                        ? PDI_EVENT_REPEAT
                    : note->event == PDI_SEQ_FILL ? PDI_EVENT_FILL
                                                  : PDI_EVENT_RESET;
    struct pdi_event *event = pdi_trace_event(trace, type, time_ns);
    event->flow = flow->id;
    event->epoch = flow->epoch;
    event->peer = trace->parties[flow->source].ep;
    event->usn_from = note->usn;
    event->usn_to = note->usn;
    if (type == PDI_EVENT_GAP) {
        event->usn_from = note->usn - note->gap;
        event->usn_to = note->usn - 1;
    }
    event->value_us = note->since_first_us;
    if (note->event == PDI_SEQ_PRE_SYNC) {
        pdi_event_say(event, "pre-sync", 0);
    } else if (note->event == PDI_SEQ_AMBIGUOUS) {
        pdi_event_say(event, "ambiguous", 0);
    }
}

void pdi_flow_count(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                    const pyddsi_message *message, pyddsi_note *note)
{
    bool reliable = !is_data(message->kind) || (message->flags & PYDDSI_R) != 0;
    uint32_t index =
        pdi_flow_get(trace, packet->source, packet->target, message->conduit, reliable);
    struct pdi_flow *flow = &trace->flows[index];
    while (message->sn >> flow->seq_bits != 0) { /* 14, 28, 56: then all fit */
        flow->seq_bits = flow->seq_bits < 14 ? 14 : flow->seq_bits < 28 ? 28 : 56;
        if (message->sn >> 56 != 0) {
            break;
        }
    }
    place(trace, index, message, note, packet->time_ns);
    note->flow = flow->id;
    note->epoch = flow->epoch;
    flow->greetings = trace->parties[packet->source].greetings;
    flow->lives = trace->parties[packet->source].lives;
    flow->zero_wanted = flow->zero_wanted && message->sn != 0;
    flow->seen++;
    flow->begun_ns = flow->begun_ns == PDI_NONE64 ? packet->time_ns : flow->begun_ns;
    flow->last_ns = packet->time_ns;
    if (message->flags & PYDDSI_S) {
        flow->asked_ns = packet->time_ns;
        flow->asks++;
    }
    tally(flow, packet, message, note);
    if (note->event != PDI_SEQ_NEXT && note->event != PDI_SEQ_FIRST && note->event != PDI_SEQ_OLD) {
        tell(trace, flow, note, packet->time_ns);
    }
}

/* The flow that a SYNCH is about: that to groups if it has begun, for a newcomer gets a SYNCH of his own; else the one to
 * where the SYNCH goes. */
static uint32_t synched_flow(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                             uint64_t conduit)
{
    uint32_t flow = pdi_flow_find(trace, packet->source, PDI_ALL_GROUPS, conduit, true);
    if (flow != PDI_NONE32 && trace->flows[flow].begun) {
        return flow;
    }
    return pdi_flow_get(trace, packet->source, packet->target, conduit, true);
}

void pdi_flow_synch(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                    const pyddsi_message *message, pyddsi_note *note)
{
    struct pdi_flow *flow = &trace->flows[synched_flow(trace, packet, message->conduit)];
    note->outstanding = message->flags & PYDDSI_U ? (int64_t)(message->count & INT64_MAX) : 0;
    if (!flow->synched) {
        flow->synched = 1;
        flow->presync = flow->begun ? flow->highest : PDI_NONE64;
    }
    flow->synch_greetings = trace->parties[packet->source].greetings;
    note->flow = flow->id;
    note->epoch = flow->epoch;
    flow->t_synchs++;
    if ((uint64_t)note->outstanding > flow->t_outstanding) {
        flow->t_outstanding = (uint64_t)note->outstanding;
    }
    if (message->flags & PYDDSI_S) {
        flow->asked_ns = packet->time_ns;
        flow->asks++;
    }
}

void pdi_flow_mention(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                      const pyddsi_message *message, pyddsi_note *note)
{
    uint32_t to = target_of(trace, packet->target);
    uint32_t flow = pdi_flow_find(trace, packet->source, to, message->conduit, true);
    if (flow != PDI_NONE32) {
        note->flow = trace->flows[flow].id;
        note->epoch = trace->flows[flow].epoch;
    }
}
