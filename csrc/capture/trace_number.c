/* trace_number.c - numbers: what a message is to those of its flow that were seen before.
 *
 *     usn    0  1  2  3  .  .  6  7  8              highest = 8
 *            │        │  └missing┘   │              4, 5 and 6 are asked for again, by somebody:
 *            base     acked                         4 fills, 6 repeats, 9 is next
 *
 * A number is unwrapped to the count nearest to the highest one so far; so a jump of less than half the circle is
 * understood, and a repetition never moves the highest. What comes after a silence in which the flow at its own pace could
 * have gone half round is ambiguous: its count is then as good a guess as any, it is no gap, and what is below it now might
 * be anything. A number that does not fit its counter shows that the counter is longer than we knew.
 *
 * What a snap length has cut off a packet may have been any messages: a number behind it that passes others over is
 * ambiguous as well.
 *
 * What is remembered of single numbers, when they were first sent and which are missing, is in trace_sent.c.
 */
#include "capture/trace_inside.h"

#define PACE_MESSAGES 16U /* what a flow's pace is told from, at least */
#define ANEW_FIRST                                                                                 \
    16U              /* the first numbers of a counter, by which it is seen that it begins anew, */
#define ANEW_BACK 64 /* if they are so far below the highest */

static bool is_data(unsigned kind)
{
    return kind == PYDDSI_SDATA || kind == PYDDSI_WDATA || kind == PYDDSI_BDATA;
}

size_t pdi_trace_payload(const pyddsi_message *message)
{
    if (message->kind != PYDDSI_BDATA) {
        return is_data(message->kind) ? message->payload.size : 0;
    }
    pyddsi_list list = message->samples;
    pyddsi_sample sample;
    size_t size = 0;
    for (size_t i = 0; i < message->samples.count; i++) { /* each has a byte at least */
        if (pdi_list_sample(&list, &sample) != PYDDSI_OK) {
            break;
        }
        size += sample.payload.size;
    }
    return size;
}

/* Whether the flow, at its own pace, could have gone half round since its last message. */
static bool could_have_wrapped(const struct pdi_flow *flow, const struct pdi_seq *seq,
                               int64_t time_ns)
{
    if (flow->seen < PACE_MESSAGES || flow->last_ns == PDI_NONE64 || flow->begun_ns == PDI_NONE64 ||
        time_ns <= flow->last_ns) {
        return false;
    }
    __int128 lived = (__int128)flow->last_ns - flow->begun_ns;
    __int128 silent = (__int128)time_ns - flow->last_ns;
    return lived > 0 && silent * (__int128)flow->seen > lived * (__int128)seq->half;
}

/* How many numbers may have gone by in that silence: of those that lead to this one, however often the counter went round,
 * the count nearest to what the flow has at its own pace. */
static uint64_t gone_by(const struct pdi_flow *flow, const struct pdi_seq *seq, uint64_t sn,
                        int64_t time_ns)
{
    __int128 lived = (__int128)flow->last_ns - flow->begun_ns;
    __int128 usual = ((__int128)time_ns - flow->last_ns) * (__int128)flow->seen / lived;
    __int128 least = (__int128)((sn - (uint64_t)flow->highest - 1) & seq->mask);
    __int128 rounds =
        usual > least ? (usual - least + (__int128)seq->half) / 2 / (__int128)seq->half : 0;
    __int128 all = least + rounds * 2 * (__int128)seq->half;
    return all < INT32_MAX ? (uint64_t)all : INT32_MAX;
}

/* A message at or below the highest: what is it? */
static uint8_t behind(struct pdi_trace *trace, struct pdi_flow *flow, int64_t usn,
                      const pyddsi_message *message, pyddsi_note *note, int64_t time_ns)
{
    if (flow->reliable && usn < flow->lowest) {
        flow->t_ambiguous++; /* from before the capture or the epoch began, or forgotten */
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
            pdi_flow_sent_set(trace, flow, usn, time_ns);
        }
        return PDI_SEQ_FILL;
    }
    if (!flow->reliable) {
        flow->t_old++;
        return PDI_SEQ_OLD;
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

/* Whether the counter has begun anew: another life runs at this endpoint; or it has greeted somebody and counts from 0
 * again, where 0 is neither the next number nor one that was asked for. Its first samples may be lost: so one of its
 * first numbers will do as well, if that is far below and nothing was asked for. */
static bool begins_anew(const struct pdi_trace *trace, const struct pdi_flow *flow, uint64_t sn,
                        int64_t usn)
{
    const struct pdi_party *sender = &trace->parties[flow->source];
    if (sender->lives != flow->lives) {
        return true;
    }
    if (sender->greetings == flow->greetings || usn == flow->highest + 1) {
        return false;
    }
    return sn == 0 ? flow->highest >= 1 && !flow->zero_wanted
                   : sn < ANEW_FIRST && flow->highest - usn >= ANEW_BACK && !flow->asked;
}

/* It may have gone round any number of times: nothing is known of what is below. */
static void begin_below(struct pdi_trace *trace, struct pdi_flow *flow, int64_t usn)
{
    pdi_missing_free(trace, flow);
    flow->highest = usn - 1;
    flow->base = flow->lowest = usn;
}

/* It cannot be of this counter. */
static void cannot_be(struct pdi_flow *flow, pyddsi_note *note)
{
    note->event = PDI_SEQ_AMBIGUOUS;
    flow->t_ambiguous++;
}

/* Numbers between the highest and this one have not come. */
static void pass_over(struct pdi_trace *trace, struct pdi_flow *flow, int64_t usn,
                      const pyddsi_message *message, pyddsi_note *note)
{
    int64_t gap = usn - flow->highest - 1;
    note->event = PDI_SEQ_GAP;
    note->gap = (uint32_t)gap;
    flow->t_gaps++;
    flow->t_missing += gap;
    if (is_data(message->kind)) {
        trace->samples_missing += gap;
    }
    pdi_missing_add(trace, flow, flow->highest + 1, usn - 1);
}

/* Finds the event of a number, and moves the highest. */
static void place(struct pdi_trace *trace, uint32_t index, const pyddsi_message *message,
                  pyddsi_note *note, int64_t time_ns)
{
    struct pdi_flow *flow = &trace->flows[index];
    struct pdi_seq seq = pdi_trace_seq(flow);
    uint64_t sn = message->sn;
    int64_t usn = (int64_t)sn;
    bool resets = false;
    if (sn >> PDI_SEQ_BITS_MAX != 0) {
        cannot_be(flow, note);
        return;
    }
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
        if (!flow->begun && flow->reliable && trace->parties[flow->target].group) {
            pdi_flow_synched(trace, flow);
        }
        flow->begun = 1;
        flow->highest = usn - 1;
        flow->base = flow->acked = flow->lowest = usn;
        note->event = resets ? PDI_SEQ_RESET : PDI_SEQ_FIRST;
    } else if (usn - flow->highest >= PDI_FAR || flow->highest - usn >= PDI_FAR) {
        cannot_be(flow, note);
        return;
    } else if (usn == flow->highest + 1) {
        note->event = PDI_SEQ_NEXT;
    } else if (flow->highest - usn >= (int64_t)(seq.half / 4) &&
               could_have_wrapped(flow, &seq, time_ns) && !pdi_missing_has(trace, flow, usn)) {
        note->event = PDI_SEQ_AMBIGUOUS;
        flow->t_ambiguous++;
        flow->t_unclear += gone_by(flow, &seq, sn, time_ns);
        usn += (int64_t)(2 * seq.half);
        begin_below(trace, flow, usn);
    } else if (usn <= flow->highest) {
        note->event = behind(trace, flow, usn, message, note, time_ns);
        note->usn = usn;
        return;
    } else if (could_have_wrapped(flow, &seq, time_ns) ||
               trace->parties[flow->source].cuts != flow->cuts) {
        note->event = PDI_SEQ_AMBIGUOUS;
        flow->t_ambiguous++;
        flow->t_unclear +=
            could_have_wrapped(flow, &seq, time_ns) ? gone_by(flow, &seq, sn, time_ns) : 0;
        begin_below(trace, flow, usn);
    } else {
        pass_over(trace, flow, usn, message, note);
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
                  const pyddsi_message *message, const pyddsi_note *note, int32_t file)
{
    flow->t_messages++;
    flow->t_packets += flow->t_packet != packet->number || flow->t_file != file;
    flow->t_packet = packet->number;
    flow->t_file = file;
    if (is_data(message->kind)) {
        flow->t_samples++;
        flow->t_bytes += pdi_trace_payload(message);
    }
    if (packet->time_ns != PDI_TIME_NONE) {
        if (flow->t_first_ns == PDI_NONE64 || packet->time_ns < flow->t_first_ns) {
            flow->t_first_ns = packet->time_ns;
        }
        flow->t_last_ns = packet->time_ns > flow->t_last_ns ? packet->time_ns : flow->t_last_ns;
    }
    if (note->event == PDI_SEQ_GAP && flow->t_gap_packet == 0) {
        flow->t_gap_packet = packet->number;
        flow->t_gap_file = file;
    }
    if (note->event == PDI_SEQ_REPEAT && flow->t_repeat_packet == 0) {
        flow->t_repeat_packet = packet->number;
        flow->t_repeat_file = file;
    }
    if (note->usn == PDI_NONE64) {
        return;
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
    while (message->sn >> PDI_SEQ_BITS_MAX == 0 && message->sn >> flow->seq_bits != 0) {
        flow->seq_bits = flow->seq_bits < 14   ? 14
                         : flow->seq_bits < 28 ? 28
                                               : PDI_SEQ_BITS_MAX; /* then all fit */
    }
    place(trace, index, message, note, packet->time_ns);
    note->flow = flow->id;
    note->epoch = flow->epoch;
    flow->greetings = trace->parties[packet->source].greetings;
    flow->lives = trace->parties[packet->source].lives;
    flow->cuts = trace->parties[packet->source].cuts;
    flow->zero_wanted = flow->zero_wanted && message->sn != 0;
    flow->asked = 0;
    flow->seen++;
    flow->begun_ns = flow->begun_ns == PDI_NONE64 ? packet->time_ns : flow->begun_ns;
    flow->last_ns = packet->time_ns;
    if (message->flags & PYDDSI_S) {
        flow->asked_ns = packet->time_ns;
        flow->asks++;
    }
    tally(flow, packet, message, note, trace->file);
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
    uint32_t to = pdi_flow_target(trace, packet->target);
    uint32_t flow = pdi_flow_find(trace, packet->source, to, message->conduit, true);
    if (flow != PDI_NONE32) {
        note->flow = trace->flows[flow].id;
        note->epoch = trace->flows[flow].epoch;
    }
}
