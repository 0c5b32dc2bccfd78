/* session_links.c - the sockets of a session: what they need, who is asked, what became of them.
 *
 * To the node a connection is an endpoint like any other. Two things make peers meet there: whoever connects speaks first,
 * and each look for peers goes to every connection as well (the endpoint that says nothing; host/streams.h). Peers
 * that are named by the address of their datagrams are asked with it.
 */
#include <stdio.h>
#include <string.h>

#include "api/session.h"
#include "wire/decode.h"
#include "wire/stream.h"

/* Larger packets are received where they will be read: copying them costs more than system calls. */
#define MANY_BELOW 8192U

static uint8_t family_of(const pyddsi_session_options *options)
{
    uint8_t family = options->group.kind;
    for (uint32_t i = 0; family == 0 && i < options->peer_count; i++) {
        family = pdi_stream_is(&options->peers[i]) ? 0 : options->peers[i].kind;
    }
    return family != 0 ? family : 4;
}

static bool is_placed(const pyddsi_endpoint *endpoint)
{
    static const pyddsi_endpoint none;
    return memcmp(endpoint->ip, none.ip, sizeof none.ip) != 0;
}

/* Which of those that the node asks a peer is. */
static uint32_t asked_place(const pyddsi_session_options *options, uint32_t peer)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < peer; i++) {
        place += !pdi_stream_is(&options->peers[i]);
    }
    return place;
}

int pyddsi_session_aim(pyddsi_session *session, uint32_t peer, const pyddsi_endpoint *where)
{
    if (!pdi_session_enter(session)) {
        return PYDDSI_CLOSED;
    }
    pyddsi_session_options *options = &session->options;
    bool fine = peer < options->peer_count && options->peers[peer].kind == where->kind;
    if (fine) {
        options->peers[peer] = *where;
        if (pdi_stream_is(where)) {
            pdi_streams_aim(pdi_port_streams(session->port), peer, where);
        } else {
            pdi_node_ask(session->node, asked_place(options, peer), where);
        }
    }
    pdi_session_leave(session);
    return fine ? PYDDSI_OK : PYDDSI_BAD_ARGUMENT;
}

int pyddsi_session_named(pyddsi_session *session, uint32_t peer, pyddsi_named *named)
{
    if (!pdi_session_enter(session)) {
        return PYDDSI_CLOSED;
    }
    const pyddsi_session_options *options = &session->options;
    bool fine = peer < options->peer_count;
    if (fine) {
        const pyddsi_endpoint *where = &options->peers[peer];
        *named = (pyddsi_named){.where = *where};
        if (pdi_stream_is(where)) {
            struct pdi_streams_attempts found =
                pdi_streams_attempts(pdi_port_streams(session->port), peer);
            named->live = found.live;
            named->failed = found.failed;
            named->code = found.code;
        } else {
            named->live = pdi_node_knows(session->node, where);
        }
    }
    pdi_session_leave(session);
    return fine ? PYDDSI_OK : PYDDSI_BAD_ARGUMENT;
}

static int plan_links(pyddsi_session *session, struct pdi_streams_options *streams, char *text)
{
    static const uint8_t looks_for[] = {5, 1, 4}; /* peers and brokers, brokers, peers */
    pyddsi_session_options *options = &session->options;
    pyddsi_config *node = &options->node;
    const pyddsi_options reading = {.strictness = PYDDSI_TOLERANT, .seq_bits = node->seq_bits};
    bool any = options->listen_count != 0;
    node->asked_count = 0;
    for (uint32_t i = 0; i < options->peer_count; i++) {
        if (pdi_stream_is(&options->peers[i])) {
            any = true;
        } else {
            pyddsi_endpoint *one = &node->asked[node->asked_count++];
            *one = options->peers[i];
            one->kind = is_placed(one) ? one->kind : 0; /* nobody is asked before it is aimed */
        }
    }
    if (!any) {
        return PYDDSI_AGAIN;
    }
    node->asked[node->asked_count++] = (pyddsi_endpoint){.kind = PDI_STREAM_TCP4};
    *streams = (struct pdi_streams_options){
        .peers = options->peers,
        .peer_count = options->peer_count,
        .listen = options->listen,
        .listen_count = options->listen_count,
        .paths = options->paths,
        .greeting = {PYDDSI_SCOUT, looks_for[node->role <= PYDDSI_BROKER ? node->role : 0]},
        .greeting_size = 2,
    };
    if (pdi_reading_init(&streams->reading, &reading) != PYDDSI_OK ||
        node->packet_max > PDI_FRAME_MAX) {
        (void)snprintf(text, PYDDSI_TEXT_MAX,
                       "packet_max is %u, but through TCP and Unix sockets packets have at most "
                       "%u bytes",
                       (unsigned)node->packet_max, PDI_FRAME_MAX);
        return PYDDSI_BAD_ARGUMENT;
    }
    return PYDDSI_OK;
}

int pdi_session_open_port(pyddsi_session *session, char *text)
{
    const pyddsi_session_options *options = &session->options;
    struct pdi_streams_options streams;
    int status = plan_links(session, &streams, text);
    if (status < 0)
        return status;
    struct pdi_port_options port = {
        .interface = options->interface,
        .family = family_of(options),
        .streams = status == PYDDSI_OK ? &streams : NULL,
        .ttl = options->ttl,
        .loopback = options->loopback,
        .port = options->port,
        .receive_bytes = options->receive_bytes,
        .send_bytes = PYDDSI_SEND_BYTES,
        .own_filter = 1, /* what we sent to the group ourselves need not wake us */
        .many = options->node.packet_max <= MANY_BELOW,
    };
    if (options->node.scout_to.kind != 0)
        port.group[port.groups++] = options->node.scout_to;
    for (uint32_t i = 0; i < options->node.multicasts; i++)
        port.group[port.groups++] = options->node.multicast_to[i];
    status = pdi_port_open(&session->port, &port, &session->local, text, PYDDSI_TEXT_MAX);
    if (status < 0) {
        return PYDDSI_SYSTEM; /* an errno may look like another answer */
    }
    if (!pdi_port_has_inbox(
            session->port)) { /* a larger packet than a slot has no place to lie in */
        session->options.node.features &= ~(uint32_t)PYDDSI_CAN_LARGE;
    }
    return PYDDSI_OK;
}

/* Where a session can be reached. */
enum { PLACES_MAX = 8, PLACES_UDP = 4 };

struct places {
    pyddsi_endpoint list[PLACES_MAX];
    uint32_t count;
};

static void add_place(struct places *places, const pyddsi_endpoint *ip,
                      const pyddsi_endpoint *listener)
{
    bool link_local = listener->kind == PDI_STREAM_TCP6 && ip->ip[0] == 0xfe &&
                      (ip->ip[1] & 0xc0) == 0x80; /* it has a meaning on its own link alone */
    if (places->count < PLACES_MAX && !link_local) {
        places->list[places->count] = *ip;
        places->list[places->count].kind = listener->kind;
        places->list[places->count++].port = listener->port;
    }
}

/* One that listens at all addresses of this machine has each of them. */
static void add_listener(struct places *places, const pyddsi_endpoint *listener)
{
    struct pdi_port_interface list[PDI_PORT_INTERFACES_MAX];
    uint32_t count = 0;
    if (listener->kind != PDI_STREAM_TCP4 && listener->kind != PDI_STREAM_TCP6) {
        return; /* others cannot use a path */
    }
    if (is_placed(listener)) {
        add_place(places, listener, listener);
        return;
    }
    (void)pdi_port_interfaces(list, PDI_PORT_INTERFACES_MAX, &count);
    for (int loopback = 0; loopback < 2; loopback++) { /* what others can use first */
        for (uint32_t i = 0; i < count; i++) {
            if (list[i].up && list[i].loopback == (loopback != 0) &&
                list[i].address.kind + 10 == listener->kind) {
                add_place(places, &list[i].address, listener);
            }
        }
    }
}

void pdi_session_places(pyddsi_session *session)
{
    struct places found = {0};
    bool listens = session->options.listen_count != 0;
    found.count = pdi_port_addresses(session->port, found.list, listens ? PLACES_UDP : PLACES_MAX);
    for (uint32_t i = 0; i < session->options.listen_count; i++) {
        add_listener(&found, &session->options.listen[i]);
    }
    pdi_node_places(session->node, found.list, found.count);
}

static void count_links(pyddsi_session *session, pyddsi_session_counts *counts)
{
    struct pdi_streams_counts found;
    if (!pdi_session_here(session)) {
        return; /* in a child the locks may have been held when it was forked */
    }
    pdi_lock_take(&session->wire); /* so that it is not closed meanwhile */
    struct pdi_streams *streams = session->port != NULL ? pdi_port_streams(session->port) : NULL;
    if (streams != NULL) {
        pdi_streams_count(streams, &found);
    }
    pdi_lock_give(&session->wire);
    if (streams == NULL) {
        return;
    }
    counts->links = found.live;
    counts->links_made = found.made;
    counts->links_accepted = found.accepted;
    counts->links_failed = found.failed;
    counts->links_refused = found.refused;
    counts->links_broken = found.broken;
    counts->links_full = found.full;
}

void pyddsi_session_count(pyddsi_session *session, pyddsi_session_counts *counts)
{
    *counts = (pyddsi_session_counts){
        .wakeups_receive = pdi_atomic64_load_relaxed(&session->wakeups[PDI_RECEIVE]),
        .wakeups_housekeeping = pdi_atomic64_load_relaxed(&session->wakeups[PDI_HOUSEKEEPING]),
        .sent_receive = pdi_atomic64_load_relaxed(&session->sent[PDI_RECEIVE]),
        .sent_housekeeping = pdi_atomic64_load_relaxed(&session->sent[PDI_HOUSEKEEPING]),
        .sent_application = pdi_atomic64_load_relaxed(&session->sent[PDI_APPLICATION]),
        .send_full = pdi_atomic64_load_relaxed(&session->send_full),
        .send_failed = pdi_atomic64_load_relaxed(&session->send_failed),
        .bells = pdi_atomic64_load_relaxed(&session->bells_rung),
    };
    if (session->lanes != NULL && pdi_session_enter(session)) {
        pdi_lanes_count(session->lanes, counts);
        pdi_session_leave(session);
    } else if (session->lanes == NULL && session->options.shared &&
               session->options.node.features != 0) {
        counts->lane_refused = 1; /* we have no memory to share: that holds for all peers */
    }
    counts->received = pdi_atomic64_load_relaxed(&session->received);
    count_links(session, counts);
}
