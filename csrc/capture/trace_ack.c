/* trace_ack.c - acknowledgements: who has what of a flow, and how long it took.
 *
 * An ACKNACK goes from one who receives to the party that sends, and names that one's conduit. So its flow is found the
 * other way round: from the ACKNACK's target, on this conduit, to a group if there is such a flow, else to the ACKNACK's
 * source alone.
 *
 * Two times are different things, and both are measured:
 *
 *     delivery    first transmission of a number ─► the first ACKNACK of anybody that covers it
 *     answer      the last message that asks (S, or SYNCH) ─► the next ACKNACK of this peer
 *
 * Without S nobody acknowledges, so the first of them is long where the sender asks seldom; the second tells whether the
 * receiver is awake.
 */
#include "capture/trace_inside.h"

#define STALL_TIMES  10    /* an answer so many times later than usual is a stall, */
#define STALL_US_MIN 10000 /* if it is later than this as well */

#define HAS_LEFT                                                                                   \
    INT64_MAX /* in the place of what somebody has acknowledged: nobody waits for it any more */

void pdi_ackers_free(struct pdi_trace *trace, struct pdi_flow *flow)
{
    while (flow->ackers != PDI_NONE32) { /* PDI_FLOW_ACKERS_MAX */
        uint32_t gone = flow->ackers;
        flow->ackers = trace->ackers[gone].next;
        pdi_slots_put(&trace->acker_slots, gone);
    }
    flow->acker_count = 0;
}

/* Forgets the times of what all have acknowledged. */
static void forget_known(struct pdi_trace *trace, struct pdi_flow *flow)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = flow->ackers; i != PDI_NONE32;
         i = trace->ackers[i].next) { /* PDI_FLOW_ACKERS_MAX */
        least = trace->ackers[i].acked < least ? trace->ackers[i].acked : least;
    }
    if (least != HAS_LEFT) {
        least = least <= flow->highest + 1 ? least : flow->highest + 1;
        flow->base = least > flow->base ? least : flow->base;
    }
}

void pdi_acker_leave(struct pdi_trace *trace, uint32_t index, uint32_t party)
{
    struct pdi_flow *flow = &trace->flows[index];
    for (uint32_t i = flow->ackers; i != PDI_NONE32; i = trace->ackers[i].next) {
        if (trace->ackers[i].party == party) { /* PDI_FLOW_ACKERS_MAX */
            trace->ackers[i].acked = HAS_LEFT;
            forget_known(trace, flow);
            return;
        }
    }
}

void pdi_acker_free(struct pdi_trace *trace, uint32_t index, uint32_t party)
{
    struct pdi_flow *flow = &trace->flows[index];
    for (uint32_t *at = &flow->ackers; *at != PDI_NONE32; at = &trace->ackers[*at].next) {
        if (trace->ackers[*at].party == party) { /* PDI_FLOW_ACKERS_MAX */
            uint32_t gone = *at;
            *at = trace->ackers[gone].next;
            flow->acker_count--;
            pdi_slots_put(&trace->acker_slots, gone);
            forget_known(trace, flow);
            return;
        }
    }
}

/* Makes place for one more, where there is none, in that of one who has left. */
static void replace_one(struct pdi_trace *trace, const struct pdi_flow *flow, uint32_t index)
{
    for (uint32_t i = flow->ackers; i != PDI_NONE32; i = trace->ackers[i].next) {
        if (trace->ackers[i].acked == HAS_LEFT) { /* PDI_FLOW_ACKERS_MAX */
            pdi_acker_free(trace, index, trace->ackers[i].party);
            return;
        }
    }
}

/* The acker of this party, made if need be; null: there is no room. */
static struct pdi_acker *acker_get(struct pdi_trace *trace, struct pdi_flow *flow,
                                   uint32_t flow_index, uint32_t party)
{
    for (uint32_t i = flow->ackers; i != PDI_NONE32;
         i = trace->ackers[i].next) { /* PDI_FLOW_ACKERS_MAX */
        if (trace->ackers[i].party == party) {
            if (trace->ackers[i].acked == HAS_LEFT) {
                trace->ackers[i].acked = INT64_MIN; /* it is here again */
            }
            return &trace->ackers[i];
        }
    }
    if (flow->acker_count == PDI_FLOW_ACKERS_MAX || pdi_slots_full(&trace->acker_slots)) {
        replace_one(trace, flow, flow_index);
    }
    uint32_t made =
        flow->acker_count < PDI_FLOW_ACKERS_MAX ? pdi_slots_get(&trace->acker_slots) : PDI_NONE32;
    if (made == PDI_NONE32) {
        trace->forgotten++;
        return NULL;
    }
    trace->ackers[made] = (struct pdi_acker){.acked = INT64_MIN,
                                             .usual_us = PDI_NONE64,
                                             .flow = flow_index,
                                             .party = party,
                                             .next = flow->ackers};
    flow->ackers = made;
    flow->acker_count++;
    return &trace->ackers[made];
}

static uint32_t flow_of(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                        uint64_t conduit)
{
    uint32_t flow = pdi_flow_find(trace, packet->target, PDI_ALL_GROUPS, conduit, true);
    if (flow != PDI_NONE32 && trace->flows[flow].begun) {
        return flow;
    }
    return pdi_flow_find(trace, packet->target, packet->source, conduit, true);
}

/* What is longer than all places counts as the longest. */
static unsigned place_of(int64_t us)
{
    unsigned place = pdi_histogram_slot((uint64_t)us);
    return place < PDI_PLACES ? place : PDI_PLACES - 1;
}

static struct pdi_histograms *histograms_of(struct pdi_trace *trace, struct pdi_flow *flow)
{
    if (flow->histogram == PDI_NONE32) {
        flow->histogram = pdi_slots_get(&trace->histogram_slots);
        if (flow->histogram == PDI_NONE32) {
            return NULL;
        }
        memset(&trace->histograms[flow->histogram], 0, sizeof *trace->histograms);
    }
    return &trace->histograms[flow->histogram];
}

/* What this ACKNACK is the first to cover: all numbers from flow->acked up to before |acked|. */
static void delivered(struct pdi_trace *trace, struct pdi_flow *flow, int64_t acked, int64_t now,
                      pyddsi_note *note)
{
    acked = acked <= flow->highest + 1
                ? acked
                : flow->highest + 1; /* or it covers more than was ever seen */
    if (acked <= flow->acked) {
        return;
    }
    struct pdi_histograms *histograms = histograms_of(trace, flow);
    int64_t from = flow->acked > flow->base ? flow->acked : flow->base;
    for (int64_t n = from; n < acked; n++) { /* at most what is under way: PDI_SENT_MAX */
        int64_t us = pdi_trace_us(pdi_flow_sent(trace, flow, n), now);
        if (us != PDI_NONE64 && histograms != NULL) {
            histograms->delivery[place_of(us)]++;
        }
    }
    note->delivery_us = pdi_trace_us(pdi_flow_sent(trace, flow, acked - 1), now);
    flow->acked = acked;
}

static void answered(struct pdi_trace *trace, struct pdi_flow *flow, struct pdi_acker *acker,
                     const struct pdi_trace_packet *packet, pyddsi_note *note)
{
    if (acker->answered >= flow->asks || flow->asked_ns == PDI_NONE64) {
        return;
    }
    acker->answered = flow->asks;
    int64_t us = pdi_trace_us(flow->asked_ns, packet->time_ns);
    if (us == PDI_NONE64) {
        return;
    }
    note->answer_us = us;
    struct pdi_histograms *histograms = histograms_of(trace, flow);
    if (histograms != NULL) {
        histograms->answer[place_of(us)]++;
    }
    if (acker->usual_us != PDI_NONE64 && us > STALL_US_MIN && us / STALL_TIMES > acker->usual_us) {
        struct pdi_event *event = pdi_trace_event(trace, PDI_EVENT_STALL, packet->time_ns);
        event->flow = flow->id;
        event->epoch = flow->epoch;
        event->peer = trace->parties[packet->source].ep;
        event->value_us = us;
        pdi_event_say(event, "usually # us", (uint64_t)(acker->usual_us > 0 ? acker->usual_us : 0));
        return; /* it is not what is usual */
    }
    acker->usual_us =
        acker->usual_us == PDI_NONE64 ? us : acker->usual_us + (us - acker->usual_us) / 8;
}

static void nacked(struct pdi_trace *trace, struct pdi_flow *flow,
                   const struct pdi_trace_packet *packet, const pyddsi_message *message,
                   pyddsi_note *note)
{
    uint64_t mask = message->mask;
    note->nack_mask = (int64_t)mask;
    note->nacked = 1U + (uint32_t)__builtin_popcountll(mask);
    flow->t_nacks++;
    flow->t_nacked += note->nacked;
    struct pdi_event *event = pdi_trace_event(trace, PDI_EVENT_NACK, packet->time_ns);
    event->flow = flow->id;
    event->epoch = flow->epoch;
    event->peer = trace->parties[packet->source].ep;
    event->usn_from = note->ack_usn;
    event->usn_to = mask != 0 ? note->ack_usn + 64 - __builtin_clzll(mask) : note->ack_usn;
    /* whether the first number wanted has gone by; if so it was lost later, or was not taken */
    bool seen =
        note->ack_usn <= flow->highest && pdi_flow_sent(trace, flow, note->ack_usn) != PDI_NONE64;
    pdi_event_say(event, !flow->synched ? "pre-sync" : seen ? "seen" : "not seen", 0);
}

/* The number that it says, unwrapped; PDI_NONE64: it cannot be of this counter. */
static int64_t unwrapped(const struct pdi_flow *flow, uint64_t sn)
{
    if (sn >> flow->seq_bits != 0) {
        return PDI_NONE64;
    }
    if (!flow->begun) {
        return (int64_t)sn;
    }
    struct pdi_seq seq = pdi_trace_seq(flow);
    int64_t usn = pdi_seq_unwrap(&seq, flow->highest, sn);
    return usn - flow->highest < PDI_FAR && flow->highest - usn < PDI_FAR ? usn : PDI_NONE64;
}

void pdi_ack_count(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                   const pyddsi_message *message, pyddsi_note *note)
{
    uint32_t index = flow_of(trace, packet, message->conduit);
    note->nacked =
        message->flags & PYDDSI_M ? 1U + (uint32_t)__builtin_popcountll(message->mask) : 0;
    note->nack_mask = message->flags & PYDDSI_M ? (int64_t)message->mask : PDI_NONE64;
    if (index == PDI_NONE32) {
        return; /* the capture has none of the flow that it answers */
    }
    struct pdi_flow *flow = &trace->flows[index];
    note->flow = flow->id;
    note->epoch = flow->epoch;
    flow->t_acks++;
    flow->zero_wanted |= message->sn == 0 && (message->flags & PYDDSI_M) != 0;
    flow->asked |= (message->flags & PYDDSI_M) != 0;
    note->ack_usn = unwrapped(flow, message->sn);
    struct pdi_acker *acker = acker_get(trace, flow, index, packet->source);
    if (acker != NULL) {
        answered(trace, flow, acker, packet, note);
    }
    if (!flow->begun || note->ack_usn == PDI_NONE64) {
        return;
    }
    delivered(trace, flow, note->ack_usn, packet->time_ns, note);
    if (message->flags & PYDDSI_M) {
        nacked(trace, flow, packet, message, note);
    }
    if (acker != NULL && note->ack_usn > acker->acked && note->ack_usn <= flow->highest + 1) {
        acker->acked = note->ack_usn;
        forget_known(trace, flow);
    }
}
