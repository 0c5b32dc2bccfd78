/* trace_session.c - opening, closing, leases.
 *
 *     SCOUT ─► HELLO ─► OPEN ─► ACCEPT ───────────────────────────► CLOSE
 *                       opening  open      silence < lease           closed
 *                                          silence > lease           expired, at the end of the lease
 *                                          CLOSE after 95 % of it    expired, at the CLOSE
 *                       refused: CLOSE     the same id elsewhere     moved
 *                                          OPEN ... ACCEPT again     again
 *
 * A session belongs to two parties, in whichever order. What it is about the pair is found by a key made of both; what it
 * is about one of them, a silence above all, by that party's list.
 *
 * Leases are absences: nothing in a capture says that one has ended. So each packet of a party is held against its last
 * one, and the end of the capture against the last packet of all. A party remembers the least of the longest silences in
 * its sessions, and most packets are over sooner than that: then nothing is done.
 *
 * Whether counters begin anew with a session is told by the counters themselves (trace_flow.c); what is counted here are
 * greetings, and how often an endpoint has told another id, for then another process runs there.
 */
#include "capture/trace_inside.h"

static const char *const end_names[PDI_END_COUNT] = {"",      "closed",  "expired", "moved",
                                                     "again", "refused", "evicted"};

const char *pdi_seen_end_name(unsigned end)
{
    return end < PDI_END_COUNT ? end_names[end] : "";
}

static uint64_t key_of(uint32_t a, uint32_t b)
{
    return a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
}

static uint32_t find(const struct pdi_trace *trace, uint32_t a, uint32_t b)
{
    uint64_t found;
    return pdi_map_get(&trace->session_of, key_of(a, b), &found) ? (uint32_t)found : PDI_NONE32;
}

static uint64_t id_of(const struct pdi_trace *trace, const struct pdi_seen *session)
{
    return pdi_id(
        pdi_mix(trace->parties[session->party[0]].ep ^ trace->parties[session->party[1]].ep,
                pdi_mix((uint64_t)session->open_ns, session->number)));
}

static void link_out(struct pdi_trace *trace, uint32_t index)
{
    const struct pdi_seen *session = &trace->sessions[index];
    for (unsigned i = 0; i < 2; i++) {
        uint32_t party = session->party[i];
        uint32_t *at = &trace->parties[party].sessions;
        while (*at != PDI_NONE32 && *at != index) { /* its sessions */
            struct pdi_seen *other = &trace->sessions[*at];
            at = &other->next[pdi_seen_side(other, party)];
        }
        if (*at == index) {
            *at = session->next[i];
        }
    }
}

void pdi_seen_free(struct pdi_trace *trace, uint32_t index)
{
    struct pdi_seen *session = &trace->sessions[index];
    if (trace->listener.session_goes != NULL) {
        trace->listener.session_goes(trace->listener.context, index);
    }
    link_out(trace, index);
    (void)pdi_map_remove(&trace->session_of, session->key);
    session->used = 0;
    pdi_slots_put(&trace->session_slots, index);
}

/* The session that begins between these two different parties, in place of the last one. */
static uint32_t make(struct pdi_trace *trace, uint32_t opener, uint32_t acceptor, int64_t time_ns)
{
    uint32_t index = find(trace, opener, acceptor);
    uint32_t number = 0;
    if (index != PDI_NONE32) {
        number = trace->sessions[index].number + 1;
        if (trace->sessions[index].state == PDI_SESSION_OPEN) {
            pdi_seen_end(trace, index, PDI_END_AGAIN, time_ns);
        }
        pdi_seen_free(trace, index);
    }
    index = pdi_slots_get(&trace->session_slots);
    if (index == PDI_NONE32) {
        pdi_sweep_sessions(trace);
        index = pdi_slots_get(&trace->session_slots);
    }
    PDI_CHECK(index != PDI_NONE32);
    struct pdi_seen *session = &trace->sessions[index];
    *session = (struct pdi_seen){
        .open_ns = time_ns,
        .accept_ns = PDI_NONE64,
        .end_ns = PDI_NONE64,
        .lease_ns = {PDI_NONE64, PDI_NONE64},
        .party = {opener, acceptor},
        .open_packet = trace->packet_number,
        .open_files = trace->files,
        .number = number,
        .state = PDI_SESSION_OPENING,
        .seq_bits = trace->parties[opener].seq_bits,
    };
    (void)pdi_seen_set(trace, index);
    return index;
}

bool pdi_seen_set(struct pdi_trace *trace, uint32_t index)
{
    struct pdi_seen *session = &trace->sessions[index];
    uint64_t taken;
    session->key = key_of(session->party[0], session->party[1]);
    if (session->party[0] == session->party[1] ||
        pdi_map_get(&trace->session_of, session->key, &taken)) {
        return false;
    }
    session->id = id_of(trace, session);
    session->used = 1;
    for (unsigned i = 0; i < 2; i++) {
        struct pdi_party *party = &trace->parties[session->party[i]];
        session->next[i] = party->sessions;
        party->sessions = index;
    }
    (void)pdi_map_put(&trace->session_of, session->key, index);
    return true;
}

/* ---- the end of one ---- */

/* Nobody acknowledges what is between these two any more. */
static void part(struct pdi_trace *trace, uint32_t one, uint32_t other)
{
    for (uint32_t i = trace->parties[one].flows; i != PDI_NONE32; i = trace->flows[i].next) {
        pdi_acker_leave(trace, i, other); /* a party has a few */
    }
}

void pdi_seen_end(struct pdi_trace *trace, uint32_t index, unsigned end, int64_t time_ns)
{
    struct pdi_seen *session = &trace->sessions[index];
    session->state = PDI_SESSION_ENDED;
    session->end = (uint8_t)end;
    session->end_ns = time_ns;
    session->end_packet = trace->packet_number;
    session->end_files = trace->files;
    part(trace, session->party[0], session->party[1]);
    part(trace, session->party[1], session->party[0]);
}

/* ---- silences ---- */

/* A silence of one side of a session that is open; false: the session has ended by it. */
static bool silent(struct pdi_trace *trace, uint32_t index, uint32_t party, int64_t from,
                   int64_t until)
{
    struct pdi_seen *session = &trace->sessions[index];
    unsigned side = pdi_seen_side(session, party);
    int64_t begun = session->accept_ns > from ? session->accept_ns : from;
    int64_t silence = until - begun;
    if (silence <= session->silence_ns[side]) {
        return true;
    }
    session->silence_ns[side] = silence;
    int64_t lease = session->lease_ns[side];
    if (lease <= 0) {
        return true; /* for ever, or not known */
    }
    bool ends = silence > lease;
    if (!ends && silence <= lease / 2) {
        return true;
    }
    struct pdi_event *event = pdi_trace_event(
        trace, ends ? PDI_EVENT_LEASE_EXPIRED : PDI_EVENT_SILENCE, ends ? begun + lease : until);
    event->peer = trace->parties[party].ep;
    event->value_us = silence / 1000;
    pdi_event_say(event, "lease # ms", (uint64_t)(lease / 1000000));
    if (ends) {
        pdi_seen_end(trace, index, PDI_END_EXPIRED, begun + lease);
    }
    return !ends;
}

void pdi_seen_heard(struct pdi_trace *trace, uint32_t index, int64_t time_ns)
{
    struct pdi_party *party = &trace->parties[index];
    if (__builtin_sub_overflow(time_ns, trace->stopped_ns - party->stopped_ns, &time_ns)) {
        return;
    }
    if (time_ns < party->last_ns || time_ns - party->last_ns <= party->silence_ns) {
        return;
    }
    int64_t least = INT64_MAX;
    for (uint32_t i = party->sessions; i != PDI_NONE32;) { /* its sessions */
        struct pdi_seen *session = &trace->sessions[i];
        unsigned side = pdi_seen_side(session, index);
        uint32_t next = session->next[side];
        if (session->state == PDI_SESSION_OPEN &&
            silent(trace, i, index, party->last_ns, time_ns) && session->silence_ns[side] < least) {
            least = session->silence_ns[side];
        }
        i = next;
    }
    party->silence_ns = least;
}

/* ---- messages ---- */

static int64_t lease_of(struct pdi_trace *trace, const pyddsi_message *message)
{
    int64_t lease_ns =
        message->lease <= INT64_C(40000000000) ? (int64_t)message->lease * 100000000 : 0;
    trace->lease_ns = lease_ns > trace->lease_ns ? lease_ns : trace->lease_ns;
    return lease_ns;
}

static void keep_id(struct pdi_seen *session, unsigned side, pyddsi_bytes id)
{
    if (id.size <= sizeof session->id_of[side]) {
        session->id_size[side] = (uint8_t)id.size;
        memcpy(session->id_of[side], id.data, id.size);
    }
}

static void open_seen(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                      const pyddsi_message *message)
{
    if (packet->source == packet->target) {
        return; /* to itself */
    }
    uint32_t index = find(trace, packet->source, packet->target);
    if (index == PDI_NONE32 || trace->sessions[index].state == PDI_SESSION_ENDED ||
        (trace->sessions[index].state == PDI_SESSION_OPENING &&
         trace->sessions[index].party[0] != packet->source)) {
        index = make(trace, packet->source, packet->target, packet->time_ns);
    }
    struct pdi_seen *session = &trace->sessions[index];
    unsigned side = pdi_seen_side(session, packet->source);
    session->lease_ns[side] = lease_of(trace, message);
    keep_id(session, side, message->id);
    if (session->state == PDI_SESSION_OPENING) {
        session->seq_bits = trace->parties[packet->source].seq_bits;
    }
}

static void accept_seen(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                        const pyddsi_message *message)
{
    if (packet->source == packet->target) {
        return;
    }
    uint32_t index = find(trace, packet->source, packet->target);
    if (index == PDI_NONE32 || trace->sessions[index].state == PDI_SESSION_ENDED) {
        index = make(trace, packet->target, packet->source,
                     packet->time_ns); /* its OPEN was not captured */
    }
    struct pdi_seen *session = &trace->sessions[index];
    unsigned side = pdi_seen_side(session, packet->source);
    session->lease_ns[side] = lease_of(trace, message);
    keep_id(session, side, message->acceptor);
    if (session->state == PDI_SESSION_OPENING) {
        session->state = PDI_SESSION_OPEN;
        session->accept_ns = packet->time_ns;
        trace->parties[packet->source].silence_ns = trace->parties[packet->target].silence_ns = 0;
    }
}

/* Who closes may do so because the other side says nothing any more, and no later packet tells how long it was silent. True:
 * for that it was closed, though by our clock a little of the lease was left. Nobody else closes then: peers count in whole
 * milliseconds and more, and from when they looked. */
static bool gives_up(struct pdi_trace *trace, uint32_t index, uint32_t party, int64_t now,
                     bool reason)
{
    struct pdi_seen *session = &trace->sessions[index];
    unsigned side = pdi_seen_side(session, party);
    int64_t last_ns = trace->parties[party].last_ns;
    if (session->state != PDI_SESSION_OPEN || last_ns == PDI_NONE64 || now < last_ns ||
        !silent(trace, index, party, last_ns, now)) {
        return false;
    }
    int64_t lease = session->lease_ns[side];
    int64_t silence = now - (session->accept_ns > last_ns ? session->accept_ns : last_ns);
    if (reason || lease <= 0 || silence < lease - lease / 20) {
        return false;
    }
    struct pdi_event *event = pdi_trace_event(trace, PDI_EVENT_LEASE_EXPIRED, now);
    event->peer = trace->parties[party].ep;
    event->value_us = silence / 1000;
    pdi_event_say(event, "given up, lease # ms", (uint64_t)(lease / 1000000));
    return true;
}

static void close_seen(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                       const pyddsi_message *message)
{
    uint32_t index = find(trace, packet->source, packet->target);
    bool refuses = index != PDI_NONE32 && trace->sessions[index].state == PDI_SESSION_OPENING &&
                   trace->sessions[index].party[1] == packet->source;
    struct pdi_event *event =
        pdi_party_event(trace, refuses ? PDI_EVENT_REFUSED : PDI_EVENT_CLOSE, packet);
    pdi_event_say(event, "reason #", message->reason);
    event->value_us = PDI_NONE64;
    bool gone = index != PDI_NONE32 &&
                gives_up(trace, index, packet->target, packet->time_ns, message->reason != 0);
    if (index != PDI_NONE32 && trace->sessions[index].state != PDI_SESSION_ENDED) {
        trace->sessions[index].reason = (uint8_t)message->reason;
        pdi_seen_end(trace, index,
                     refuses ? PDI_END_REFUSED
                     : gone  ? PDI_END_EXPIRED
                             : PDI_END_CLOSED,
                     packet->time_ns);
    }
}

void pdi_seen_message(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                      const pyddsi_message *message, pyddsi_note *note)
{
    (void)note;
    switch (message->kind) {
    case PYDDSI_SCOUT:
        (void)pdi_party_event(trace, PDI_EVENT_SCOUT, packet);
        break;
    case PYDDSI_HELLO:
        trace->parties[packet->source].greetings++;
        pdi_party_locators(trace, message);
        break;
    case PYDDSI_OPEN:
        (void)pdi_party_event(trace, PDI_EVENT_OPEN, packet);
        trace->parties[packet->source].greetings++;
        pdi_party_properties(trace, packet, message);
        pdi_party_named(trace, packet, message->id);
        pdi_party_locators(trace, message);
        open_seen(trace, packet, message);
        break;
    case PYDDSI_ACCEPT:
        (void)pdi_party_event(trace, PDI_EVENT_ACCEPT, packet);
        trace->parties[packet->source].greetings++;
        pdi_party_properties(trace, packet, message);
        pdi_party_named(trace, packet, message->acceptor);
        accept_seen(trace, packet, message);
        break;
    case PYDDSI_CLOSE:
        close_seen(trace, packet, message);
        break;
    case PYDDSI_KEEPALIVE:
        pdi_party_named(trace, packet, message->id);
        break;
    default:
        break;
    }
}
