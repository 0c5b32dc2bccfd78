/* gossip.c - peers tell each other about peers, where no group brings them together.
 *
 *     A ── names ──► hub ◄── names ── C        the hub tells A where C is, and C where A is;
 *     A ◄──────── SCOUT, HELLO, OPEN ────────► C        then they meet as those do who were named
 *
 * What is told is a HELLO for nobody (its mask is 0, so that zhe, and builds of ours before this one, pass over it), from a
 * peer with a session to a peer of ours with a session, never to zhe. Its locators are entries: the id of a peer in hexadecimal
 * digits, "@", and where it is:
 *
 *     7b0c22d1f00d4a3e@udp/10.0.0.5:40017
 *
 * Of whom. Only of peers that the teller has a session with, at the address from which their packets come; so a chain of
 * nodes finds together link by link, and what an entry says was true a moment ago. And only if one of the two hears no
 * group of ours: those who hear it meet there, and on a network with multicast nothing is told of others. A peer behind a
 * connection (TCP, a Unix socket) has no address that others can use; but each session has a UDP socket, too, and tells its
 * peers where that is, under its own id. By the same entries a machine with several networks says that all of its
 * addresses are one peer: what comes from them is of its session (receive.c).
 *
 * Where a node listens for TCP connections it tells as well (tcp/ in the place of udp/), and its peers pass that on. A node that
 * has connections calls there when a peer has no UDP address, or does not answer there (UDP_FIRST); if both listen, the one with
 * the lower id first, so that they do not call each other at the same time. To the node a call is a SCOUT like any other: the
 * driver makes the connection that it needs (host/streams.h).
 *
 * When. As soon as somebody has come, some times more, since a packet may be lost, and every eighth look for peers.
 *
 * What it can cost. An entry is tried with a SCOUT, a packet of two bytes, a few times with growing pauses; at most
 * PDI_PROBES_MAX of them leave between two looks for peers, whatever is told: nobody can have a third flooded. The table has
 * PDI_HEARD_MAX entries; if it is full, the one that was tried most often goes. So a peer that tells of a million addresses
 * delays the meeting of others, and has no other effect. Groups, broadcast and nowhere are no addresses of a peer, nor are
 * connections of this machine one of a peer on another.
 */
#include "node/state.h"
#include "wire/encode.h"
#include "wire/list.h"

enum { TCP = PDI_ENDPOINT_TCP4 - PDI_ENDPOINT_UDP4 };
enum {
    ENTRY_MAX = 2 * PYDDSI_ID_MAX + 1 + PDI_ENDPOINT_TEXT_MAX,
    ROUNDS = 3,
    SELDOM = 8,
    UDP_FIRST = 2
};

/* ---- in ---- */

static int digit(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The same place for datagrams. */
static pyddsi_endpoint plain(const pyddsi_endpoint *where)
{
    pyddsi_endpoint same = *where;
    same.kind = (uint8_t)(same.kind - (pdi_endpoint_is_stream(where) ? TCP : 0));
    return same;
}

/* Reads udp/ADDRESS:PORT, or tcp/. */
static bool place_read(const char *text, size_t size, pyddsi_endpoint *where)
{
    char udp[PDI_ENDPOINT_TEXT_MAX];
    bool tcp = size > 4 && size <= sizeof udp && memcmp(text, "tcp/", 4) == 0;
    if (tcp) {
        memcpy(udp, text, size);
        udp[0] = 'u';
        udp[1] = 'd';
    }
    if (pdi_endpoint_parse(tcp ? udp : text, size, where) != PYDDSI_OK) {
        return false;
    }
    where->kind = (uint8_t)(where->kind + (tcp ? TCP : 0));
    return true;
}

/* Reads an entry. False: it is none. */
static bool entry_in(pyddsi_bytes text, struct pdi_heard *heard)
{
    const uint8_t *at = text.size != 0 ? memchr(text.data, '@', text.size) : NULL;
    size_t digits = at != NULL ? (size_t)(at - text.data) : 0;
    *heard = (struct pdi_heard){.id_size = (uint8_t)(digits / 2)};
    if (digits == 0 || digits % 2 != 0 || digits > 2 * sizeof heard->id) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        int value = digit(text.data[i]);
        if (value < 0) {
            return false;
        }
        heard->id[i / 2] = (uint8_t)(heard->id[i / 2] << 4 | value);
    }
    return place_read((const char *)at + 1, text.size - digits - 1, &heard->where);
}

/* Whether nobody on another machine can be there. A Unix socket leads nowhere else. */
static bool on_loopback(const pyddsi_endpoint *where)
{
    static const uint8_t loopback6[16] = {[15] = 1};
    pyddsi_endpoint same = plain(where);
    return same.kind == PDI_ENDPOINT_UDP4   ? same.ip[0] == 127
           : same.kind == PDI_ENDPOINT_UDP6 ? memcmp(same.ip, loopback6, sizeof loopback6) == 0
                                            : pdi_endpoint_is_stream(where);
}

/* Whether somebody could be there of whom this peer tells. */
static bool fit(const struct pdi_node_peer *teller, const pyddsi_endpoint *where)
{
    static const uint8_t all[4] = {255, 255, 255, 255};
    bool v4 = plain(where).kind == PDI_ENDPOINT_UDP4;
    bool group = v4 ? (where->ip[0] & 0xf0) == 0xe0 : where->ip[0] == 0xff;
    bool nowhere = where->ip[0] == 0 && (v4 || (where->ip[1] == 0 && where->ip[15] == 0));
    bool broadcast = v4 && memcmp(where->ip, all, 4) == 0;
    bool inward =
        pdi_endpoint_is_stream(where) && on_loopback(where) && !on_loopback(&teller->endpoint);
    return where->port != 0 && !group && !nowhere && !broadcast && !inward;
}

/* Whether the driver makes connections. */
static bool calls(const struct pdi_node *node)
{
    bool any = false;
    for (uint32_t i = 0; i < node->config.asked_count; i++) {
        any = any || pdi_endpoint_is_stream(&node->config.asked[i]);
    }
    return any;
}

/* An address of the peer itself. */
static void place_in(struct pdi_node *node, struct pdi_node_peer *who, const pyddsi_endpoint *where)
{
    for (uint32_t i = 0; i < PDI_PLACES_MAX; i++) {
        if (who->places[i].kind == 0 || pdi_endpoint_equal(&who->places[i], where)) {
            who->places[i] = *where;
            node->has_places = 1;
            return;
        }
    }
}

static bool same_id(const struct pdi_heard *heard, const uint8_t *id, size_t size)
{
    return heard->id_size == size && memcmp(heard->id, id, size) == 0;
}

/* Whether a connection is not made yet: the peer may answer by UDP; or it is for the peer to call us. */
static bool later(const struct pdi_node *node, struct pdi_heard *heard)
{
    bool udp = false;
    for (uint32_t i = 0; i < PDI_HEARD_MAX; i++) {
        const struct pdi_heard *one = &node->heard[i];
        udp = udp || (same_id(one, heard->id, heard->id_size) && one->tries < UDP_FIRST &&
                      !pdi_endpoint_is_stream(&one->where));
    }
    size_t least = heard->id_size < node->config.id_size ? heard->id_size : node->config.id_size;
    bool higher = memcmp(heard->id, node->config.id, least) < 0;
    bool theirs = !udp && higher && node->listens && heard->tries < UDP_FIRST;
    heard->tries = (uint8_t)(heard->tries + theirs);
    return udp || theirs;
}

static void probe(struct pdi_node *node, struct pdi_heard *heard)
{
    if (node->probes_left == 0) {
        return; /* a later look for peers has room for it */
    }
    if (pdi_endpoint_is_stream(&heard->where) && later(node, heard)) {
        heard->wait = (uint8_t)(1U + heard->tries);
        return;
    }
    node->probes_left--;
    heard->tries++;
    heard->wait = (uint8_t)(1U << (heard->tries < 6 ? heard->tries : 6));
    pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_SCOUT, .to = heard->where});
    node->stats.scouts_out++;
}

static void hear(struct pdi_node *node, const struct pdi_heard *fresh)
{
    struct pdi_heard *place = &node->heard[0];
    for (uint32_t i = 0; i < PDI_HEARD_MAX; i++) {
        struct pdi_heard *one = &node->heard[i];
        if (one->id_size != 0 && same_id(one, fresh->id, fresh->id_size) &&
            pdi_endpoint_equal(&one->where, &fresh->where)) {
            return; /* it is being tried */
        }
        bool rather = one->id_size == 0 ? place->id_size != 0
                                        : place->id_size != 0 && one->tries > place->tries;
        place = rather ? one : place;
    }
    *place = *fresh;
    probe(node, place);
}

void pdi_gossip_input(struct pdi_node *node, uint32_t peer, pyddsi_list locators, pdi_time now)
{
    struct pdi_node_peer *who = &node->peers[peer];
    pyddsi_locator locator;
    if (who->session == 0 || node->config.role == PYDDSI_CLIENT) {
        return; /* zhe does not say such a thing; a client looks for one broker and no more */
    }
    bool first = true;
    while (pdi_list_locator(&locators, &locator) == PYDDSI_OK) { /* the message's bytes at most */
        struct pdi_heard heard;
        if (!entry_in(locator.text, &heard) || !fit(who, &heard.where)) {
            pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_UNSUPPORTED, 0, 0, 1, now);
            return;
        }
        if (same_id(&heard, who->id, who->id_size)) {
            if (first) { /* all that it tells of itself stands in one message */
                memset(who->places, 0, sizeof who->places);
                first = false;
            }
            place_in(node, who, &heard.where);
        } else if (pdi_endpoint_is_stream(&heard.where) && !calls(node)) {
            continue;
        } else if (!same_id(&heard, node->config.id, node->config.id_size) &&
                   pdi_session_find(node, &heard.where) == PDI_NONE &&
                   pdi_session_find_id(node, heard.id, heard.id_size) == PDI_NONE) {
            hear(node, &heard);
        }
    }
}

bool pdi_gossip_seeks(const struct pdi_node *node, const uint8_t *id, size_t size,
                      const pyddsi_endpoint *where)
{
    for (uint32_t i = 0; size != 0 && i < PDI_HEARD_MAX; i++) {
        const struct pdi_heard *one = &node->heard[i];
        if (same_id(one, id, size) && pdi_endpoint_equal(&one->where, where)) {
            return true;
        }
    }
    return false;
}

uint32_t pdi_gossip_find(const struct pdi_node *node, const pyddsi_endpoint *from)
{
    bool any = node->has_places && !pdi_endpoint_is_stream(from); /* a connection is one peer's */
    for (uint32_t peer = 0; any && peer < node->peers_used; peer++) {
        const struct pdi_node_peer *who = &node->peers[peer];
        for (uint32_t i = 0; i < PDI_PLACES_MAX && who->places[i].kind != 0; i++) {
            if (pdi_endpoint_equal(&who->places[i], from) && pdi_session_established(node, peer)) {
                return peer;
            }
        }
    }
    return PDI_NONE;
}

bool pdi_node_knows(const struct pdi_node *node, const pyddsi_endpoint *where)
{
    uint32_t peer = pdi_session_find(node, where);
    return (peer != PDI_NONE && pdi_session_established(node, peer)) ||
           pdi_gossip_find(node, where) != PDI_NONE;
}

/* ---- out ---- */

/* Whether this peer takes what we tell. */
static bool takes(const struct pdi_node *node, uint32_t peer)
{
    return node->peers[peer].session != 0 && pdi_session_established(node, peer);
}

/* Whether one is to be told of the other. */
static bool apart(const struct pdi_node *node, uint32_t one, uint32_t other)
{
    return one != other && takes(node, other) &&
           (node->peers[one].groups == 0 || node->peers[other].groups == 0);
}

static bool add(pyddsi_list *list, uint8_t *memory, size_t room, const uint8_t *id, size_t id_size,
                const pyddsi_endpoint *where)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t text[ENTRY_MAX + 1];
    size_t size = 0;
    pyddsi_fault fault;
    for (size_t i = 0; i < id_size; i++) {
        text[size++] = (uint8_t)digits[id[i] >> 4];
        text[size++] = (uint8_t)digits[id[i] & 15];
    }
    text[size++] = '@';
    pyddsi_endpoint same = plain(where);
    size_t begin = size;
    size += pdi_endpoint_print(&same, (char *)text + size, sizeof text - size);
    if (pdi_endpoint_is_stream(where)) {
        text[begin] = 't';
        text[begin + 1] = 'c';
    }
    pyddsi_locator locator = {{text, size}};
    if (list->size + size + 2 > room ||
        pdi_encode_locator(&locator, memory, room, &list->size, &fault) != PYDDSI_OK) {
        return false;
    }
    list->count++;
    return true;
}

pyddsi_list pdi_gossip_write(const struct pdi_node *node, const struct pdi_reply *reply,
                             uint8_t *memory, size_t room)
{
    pyddsi_list list = {.data = memory};
    const pyddsi_endpoint *to = &node->peers[reply->peer].endpoint;
    bool near = on_loopback(to);
    bool all = pdi_endpoint_is_stream(to) || node->places_count > 1;
    for (uint32_t i = 0; all && i < node->places_count; i++) {
        if (near || !on_loopback(&node->places[i])) {
            (void)add(&list, memory, room, node->config.id, node->config.id_size, &node->places[i]);
        }
    }
    for (uint32_t i = 0; i < node->peers_used; i++) {
        uint32_t peer = (reply->hash + i) % node->peers_used;
        const struct pdi_node_peer *who = &node->peers[peer];
        /* under our own name we tell of ourselves alone, whoever else says that it is his */
        if (!apart(node, reply->peer, peer) ||
            (who->id_size == node->config.id_size &&
             memcmp(who->id, node->config.id, who->id_size) == 0)) {
            continue;
        }
        bool behind = pdi_endpoint_is_stream(&who->endpoint);
        for (uint32_t k = 0; k <= PDI_PLACES_MAX; k++) { /* its endpoint, and those that it told */
            const pyddsi_endpoint *where = k == 0 ? &who->endpoint : &who->places[k - 1];
            bool useful = k == 0 ? !behind : behind || pdi_endpoint_is_stream(where);
            if (where->kind != 0 && useful && (near || !on_loopback(where)) &&
                !add(&list, memory, room, who->id, who->id_size, where)) {
                return list; /* the next round begins elsewhere */
            }
        }
    }
    return list;
}

static void tell(struct pdi_node *node, uint32_t peer, uint32_t first)
{
    bool something =
        node->places_count > 1 || node->listens ||
        (node->places_count != 0 && pdi_endpoint_is_stream(&node->peers[peer].endpoint));
    for (uint32_t i = 0; !something && i < node->peers_used; i++) {
        something = apart(node, peer, i);
    }
    if (something && takes(node, peer) &&
        node->reply_head - node->reply_tail < PDI_REPLIES_MAX / 4) {
        pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_TELL,
                                                  .peer = peer,
                                                  .hash = (uint16_t)first,
                                                  .to = node->peers[peer].endpoint});
    }
}

void pdi_gossip_joined(struct pdi_node *node, uint32_t peer)
{
    memset(node->peers[peer].places, 0, sizeof node->peers[peer].places);
    node->tell_rounds = ROUNDS;
    tell(node, peer, 0);
    for (uint32_t older = 0; older < node->peers_used; older++) {
        if (apart(node, peer, older)) {
            /* the older one hears of this one; NOLINTNEXTLINE(readability-suspicious-call-argument) */
            tell(node, older, peer);
        }
    }
}

void pdi_gossip_tick(struct pdi_node *node)
{
    node->looks++;
    node->probes_left = PDI_PROBES_MAX;
    for (uint32_t i = 0; i < PDI_HEARD_MAX; i++) {
        struct pdi_heard *one = &node->heard[(node->looks + i) % PDI_HEARD_MAX];
        one->wait = (uint8_t)(one->wait - (one->id_size != 0 && one->wait != 0));
        if (one->id_size == 0 || one->wait != 0) {
            continue;
        }
        if (one->tries >= PDI_PROBE_TRIES ||
            pdi_session_find_id(node, one->id, one->id_size) != PDI_NONE) {
            one->id_size = 0;
        } else {
            probe(node, one);
        }
    }
    if (node->tell_rounds == 0 && node->looks % SELDOM != 0) {
        return;
    }
    node->tell_rounds = (uint8_t)(node->tell_rounds - (node->tell_rounds != 0));
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        tell(node, peer, node->looks);
    }
}

void pdi_node_places(struct pdi_node *node, const pyddsi_endpoint *places, uint32_t count)
{
    node->places_count = count < PDI_PLACES_MAX ? count : PDI_PLACES_MAX;
    memcpy(node->places, places, node->places_count * sizeof *places);
    node->listens = 0;
    for (uint32_t i = 0; i < node->places_count; i++) {
        node->listens = node->listens || pdi_endpoint_is_stream(&places[i]);
    }
    node->tell_rounds = ROUNDS;
}
