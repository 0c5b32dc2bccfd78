/* hello.c - the messages of sessions: from bytes to chores, and from replies to bytes. It is long, since what is read of a
 * property and what is written of it stand together.
 *
 * The receive side reads a HELLO, OPEN or ACCEPT into a chore and leaves it to housekeeping, which alone makes and ends
 * sessions. A full ring of chores drops the newest: whoever wanted something asks again. So a thousand half-open peers
 * cost what the ring holds, and not more.
 *
 * OPEN and ACCEPT carry what wire.md part C lists, in vendor properties: 1 what we can do, 3 our incarnation, and
 * 5 *(ours)*: the number of the session, which differs each time its sender's numbers begin anew, and a secret. By the number a
 * repeated OPEN is told from one of a peer that has lost the session, by the secret from one of somebody else; and 7, by which those who run the nodes tell each other where their
 * shared memory is. With features of 0 none of them is written, and we look like zhe.
 */
#include "node/state.h"
#include "wire/encode.h"
#include "wire/list.h"

enum {
    PROPERTY_FEATURES = 1,
    PROPERTY_INCARNATION = 3,
    PROPERTY_SESSION = 5,
    PROPERTY_TOKEN = 7,
    PROPERTY_ANSWERED = 9,
    PROPERTY_SEQ_BITS = 4,
    PROPERTY_COMMIT_MODE = 10,
    PROPERTY_AUTHENTICATION = 12
};
enum {
    FEATURES_VERSION = 1,
    LENGTH_UNTOLD = 14,
    LEASE_UNITS_MAX = 21474836,
    TELL_HEAD = 16, /* bytes of a HELLO beside its locators, at most */
    MASK_BROKER = 1,
    MASK_PEER = 4,
    MASK_CLIENT = 8,
    SECRET_SIZE = 8
};

/* Of a chore: the reason to refuse it with, told from none. */
#define REFUSE(reason) ((uint16_t)((reason) + 1))

/* ---- in ---- */

/* The next number of a property's value; 0 if there is none. */
static uint64_t number_in(struct pdi_reader *reader)
{
    uint64_t value = 0;
    enum pdi_vle read = pdi_vle_get(reader, UINT64_MAX, PDI_VLE_MAX, &value);
    return read == PDI_VLE_OK || read == PDI_VLE_LONG_FORM ? value : 0;
}

/* The eight bytes that follow it, the lowest first; 0 if there are fewer. */
static uint64_t secret_in(const struct pdi_reader *reader)
{
    uint64_t secret = 0;
    if (reader->end - reader->at >= SECRET_SIZE) {
        for (unsigned i = 0; i < SECRET_SIZE; i++) {
            secret |= (uint64_t)reader->at[i] << 8 * i;
        }
    }
    return secret;
}

/* Bit i: the text is the destination of our multicast conduit i. Who speaks through a connection may have joined a group
 * of the same name in another network. */
static uint8_t groups_in(const struct pdi_node *node, const pyddsi_endpoint *from,
                         pyddsi_list locators)
{
    uint8_t groups = 0;
    pyddsi_locator locator;
    if (pdi_endpoint_is_stream(from)) {
        return 0;
    }
    while (pdi_list_locator(&locators, &locator) == PYDDSI_OK) { /* at most the message's bytes */
        for (uint32_t i = 0; i < node->config.multicasts; i++) {
            char text[PDI_LOCATOR_MAX];
            size_t size = pdi_endpoint_print(&node->config.multicast_to[i], text, sizeof text);
            if (size == locator.text.size && memcmp(text, locator.text.data, size) == 0) {
                groups |= (uint8_t)(1U << i);
            }
        }
    }
    return groups;
}

/* The length of its numbers, which we follow; without features we do as zhe, who has one. */
static void length_in(const struct pdi_node *node, uint64_t bits, size_t size,
                      struct pdi_chore *chore)
{
    chore->bits = (uint8_t)bits;
    if (bits < PDI_SEQ_BITS_MIN || bits > PDI_SEQ_BITS_MAX ||
        (node->config.features == 0 && bits != node->config.seq_bits)) {
        chore->refuse = size == 0 ? REFUSE(255) : REFUSE(4);
    }
}

/* The first group that is named, whether it is ours or not; kind 0: none. */
static pyddsi_endpoint group_in(const pyddsi_endpoint *from, pyddsi_list locators)
{
    pyddsi_endpoint group = {0};
    pyddsi_locator locator;
    if (pdi_endpoint_is_stream(from) || pdi_list_locator(&locators, &locator) != PYDDSI_OK ||
        pdi_endpoint_parse((const char *)locator.text.data, locator.text.size, &group) !=
            PYDDSI_OK) {
        group = (pyddsi_endpoint){0};
    }
    return group;
}

static void properties_in(const struct pdi_node *node, pyddsi_list properties,
                          struct pdi_chore *chore)
{
    pyddsi_property property;
    while (pdi_list_property(&properties, &property) == PYDDSI_OK) { /* its bytes at most */
        if ((property.id & 1) != 0 && node->config.features == 0) {
            continue; /* as zhe, who knows none of these */
        }
        struct pdi_reader reader = {property.value.data, property.value.data + property.value.size};
        switch (property.id) {
        case PROPERTY_SEQ_BITS: /* of an OPEN; an ACCEPT has none, and is not refused */
            length_in(node, number_in(&reader), property.value.size, chore);
            break;
        case PROPERTY_COMMIT_MODE:
            chore->commit_mode = number_in(&reader);
            break;
        case PROPERTY_FEATURES:
            chore->features =
                number_in(&reader) == FEATURES_VERSION ? (uint32_t)number_in(&reader) : 0;
            break;
        case PROPERTY_INCARNATION:
            chore->incarnation = number_in(&reader);
            break;
        case PROPERTY_SESSION:
            chore->session = number_in(&reader);
            chore->secret = secret_in(&reader);
            break;
        case PROPERTY_ANSWERED:
            chore->answered = number_in(&reader);
            chore->answered_secret = secret_in(&reader);
            break;
        case PROPERTY_TOKEN:
            if (property.value.size <= sizeof chore->token) {
                chore->token_size = (uint8_t)property.value.size;
                memcpy(chore->token, property.value.data, property.value.size);
            }
            break;
        default: /* not known: skipped */
            break;
        }
    }
}

static void push_chore(struct pdi_node *node, const struct pdi_chore *chore, pdi_time now)
{
    if (node->chore_head - node->chore_tail == PDI_CHORES_MAX) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_LIMIT, 0, 0, 1, now);
        return;
    }
    node->chores[node->chore_head++ % PDI_CHORES_MAX] = *chore;
}

/* A peer has said something in another session than the one that we have with it. */
void pdi_hello_doubt(struct pdi_node *node, uint32_t peer, pdi_time now)
{
    struct pdi_chore chore = {.kind = PDI_CHORE_DOUBT, .from = node->peers[peer].endpoint};
    push_chore(node, &chore, now);
}

/* PINGs and ACKNACKs are sent in a session alone, and here is none. Zhe sends no PING, and no PONG before an ACKNACK. */
void pdi_hello_believer(struct pdi_node *node, const pyddsi_endpoint *from, bool ours, pdi_time now)
{
    struct pdi_chore chore = {.kind = PDI_CHORE_BELIEVER, .from = *from, .ours = ours};
    if (!node->closing) {
        push_chore(node, &chore, now);
    }
}

static void set_id(struct pdi_chore *chore, pyddsi_bytes id)
{
    chore->id_size = (uint8_t)(id.size <= PYDDSI_ID_MAX ? id.size : 0);
    memcpy(chore->id, id.data, chore->id_size);
}

static bool same(pyddsi_bytes id, const uint8_t *other, size_t size)
{
    return id.size == size && memcmp(id.data, other, size) == 0;
}

/* What we are, as a mask. */
static uint8_t mask_of(const struct pdi_node *node)
{
    static const uint8_t masks[] = {MASK_PEER, MASK_CLIENT, MASK_BROKER};
    return masks[node->config.role];
}

/* Whom we look for. */
static uint8_t wanted(const struct pdi_node *node)
{
    static const uint8_t masks[] = {MASK_PEER | MASK_BROKER, MASK_BROKER, MASK_PEER};
    return masks[node->config.role];
}

static void open_in(struct pdi_node *node, const pyddsi_message *message, struct pdi_chore *chore,
                    pdi_time now)
{
    chore->kind = PDI_CHORE_OPEN;
    chore->bits = node->config.features != 0 ? LENGTH_UNTOLD : node->config.seq_bits;
    chore->lease = message->lease;
    chore->groups = groups_in(node, &chore->from, message->locators);
    chore->group = group_in(&chore->from, message->locators);
    chore->lone = message->locators.count == 0;
    if ((message->flags & PYDDSI_P) != 0) {
        properties_in(node, message->properties, chore);
    }
    if (chore->refuse == 0 && message->version != 1) {
        chore->refuse = REFUSE(2);
    }
    if (chore->refuse == 0 && (message->id.size == 0 || message->id.size > PYDDSI_ID_MAX)) {
        chore->refuse = REFUSE(255);
    }
    if (chore->refuse == 0 && message->lease > LEASE_UNITS_MAX) {
        chore->refuse = REFUSE(255);
    }
    bool own = same(message->id, node->config.id, node->config.id_size);
    if (!own) { /* our own voice is not answered */
        set_id(chore, message->id);
        push_chore(node, chore, now);
    }
}

static void pong_in(struct pdi_node *node, uint32_t peer, uint64_t hash, pdi_time now)
{
    if (peer != PDI_NONE) {
        pdi_repeat_pong(node, peer, hash);
    }
    struct pdi_node_peer *who = peer != PDI_NONE ? &node->peers[peer] : NULL;
    if (who != NULL && who->ping != 0 && hash == who->ping) {
        pdi_rtt_sample(&who->rtt, now - who->ping_at);
        who->ping = 0;
    }
}

void pdi_hello_input(struct pdi_node *node, const pyddsi_message *message,
                     const pyddsi_endpoint *from, uint32_t peer, pdi_time now)
{
    struct pdi_chore chore = {.from = *from};
    if (node->closing) {
        return;
    }
    switch (message->kind) {
    case PYDDSI_SCOUT:
        if ((message->mask & mask_of(node)) != 0 &&
            (peer == PDI_NONE || !pdi_session_established(node, peer))) {
            pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_HELLO, .to = *from});
        }
        return;
    case PYDDSI_HELLO:
        if (message->mask == 0 && peer != PDI_NONE && pdi_session_established(node, peer)) {
            pdi_gossip_input(node, peer, message->locators, now);
            return;
        }
        if ((message->mask & wanted(node)) != 0) {
            chore.kind = PDI_CHORE_HELLO;
            chore.groups = groups_in(node, from, message->locators);
            chore.group = group_in(from, message->locators);
            push_chore(node, &chore, now);
        }
        return;
    case PYDDSI_OPEN:
        open_in(node, message, &chore, now);
        return;
    case PYDDSI_ACCEPT:
        if (same(message->opener, node->config.id, node->config.id_size)) {
            chore.kind = PDI_CHORE_ACCEPT;
            chore.lease = message->lease;
            if ((message->flags & PYDDSI_P) != 0) {
                properties_in(node, message->properties, &chore);
            }
            set_id(&chore, message->acceptor);
            push_chore(node, &chore, now);
        }
        return;
    case PYDDSI_CLOSE:
        if (peer != PDI_NONE && !pdi_refusal_close(node, peer, message, now)) {
            pdi_session_end(node, peer, (uint32_t)message->reason, 0, now);
        }
        return;
    case PYDDSI_KEEPALIVE:
        if (peer == PDI_NONE) {
            chore.kind = PDI_CHORE_MOVE;
            set_id(&chore, message->id);
            push_chore(node, &chore, now);
        }
        return;
    case PYDDSI_PING:
        pdi_hello_reply(node, &(struct pdi_reply){.kind = PDI_REPLY_PONG,
                                                  .to = *from,
                                                  .hash = (uint16_t)message->hash});
        return;
    default:
        pong_in(node, peer, message->hash, now);
        return;
    }
}

/* ---- out ---- */

/* Lists are written into memory of their own first, and then as part of the message. */
struct scratch {
    uint8_t locators[1200]; /* all groups, or as many peers as a packet of usual size holds */
    uint8_t properties[128];
};

static pyddsi_list locators_of(const struct pdi_node *node, struct scratch *scratch)
{
    pyddsi_list list = {.data = scratch->locators};
    pyddsi_fault fault;
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        char text[PDI_LOCATOR_MAX];
        uint32_t before = 0;
        while (before < i && !pdi_endpoint_equal(&node->config.multicast_to[before],
                                                 &node->config.multicast_to[i])) {
            before++;
        }
        if (before < i) {
            continue; /* several conduits may use one group */
        }
        size_t size = pdi_endpoint_print(&node->config.multicast_to[i], text, sizeof text);
        pyddsi_locator locator = {{(const uint8_t *)text, size}};
        if (pdi_encode_locator(&locator, scratch->locators, sizeof scratch->locators, &list.size,
                               &fault) == PYDDSI_OK) {
            list.count++;
        }
    }
    return list;
}

/* Through a connection: all that zhe sends to everybody comes this way, too. Only who says so by this text is waited for
 * by what it sends to all. */
static pyddsi_list locators_of_stream(struct scratch *scratch)
{
    static const char all[] = "tcp/0.0.0.0:0";
    pyddsi_list list = {.data = scratch->locators};
    pyddsi_locator locator = {{(const uint8_t *)all, sizeof all - 1}};
    pyddsi_fault fault;
    list.count = pdi_encode_locator(&locator, scratch->locators, sizeof scratch->locators,
                                    &list.size, &fault) == PYDDSI_OK;
    return list;
}

static void value_out(struct scratch *scratch, pyddsi_list *list, uint64_t id, const uint8_t *value,
                      size_t size)
{
    pyddsi_property property = {.id = id, .value = {value, size}};
    pyddsi_fault fault;
    if (pdi_encode_property(&property, scratch->properties, sizeof scratch->properties, &list->size,
                            &fault) == PYDDSI_OK) {
        list->count++;
    }
}

static void property_out(struct scratch *scratch, pyddsi_list *list, uint64_t id, uint64_t one,
                         const uint64_t *two)
{
    uint8_t value[2 * PDI_VLE_MAX];
    struct pdi_writer writer = {value, value + sizeof value};
    (void)pdi_vle_put(&writer, one);
    if (two != NULL) {
        (void)pdi_vle_put(&writer, *two);
    }
    value_out(scratch, list, id, value, (size_t)(writer.at - value));
}

static void session_out(struct scratch *scratch, pyddsi_list *list, uint64_t id, uint64_t session,
                        uint64_t secret)
{
    uint8_t value[PDI_VLE_MAX + SECRET_SIZE];
    struct pdi_writer writer = {value, value + sizeof value};
    (void)pdi_vle_put(&writer, session);
    for (unsigned i = 0; i < SECRET_SIZE; i++) {
        *writer.at++ = (uint8_t)(secret >> 8 * i);
    }
    value_out(scratch, list, id, value, (size_t)(writer.at - value));
}

/* In the order of zhe (4, 10, 12), then what is ours. */
static pyddsi_list properties_of(const struct pdi_node *node, const struct pdi_node_peer *who,
                                 bool opening, bool short_of_room, struct scratch *scratch)
{
    pyddsi_list list = {.data = scratch->properties};
    uint64_t features = node->config.features;
    /* with 14 bits zhe leaves it out; but one of 7 bits would then take us, and find a number too large later on */
    if (opening && (who->bits != 14 || features != 0)) {
        property_out(scratch, &list, PROPERTY_SEQ_BITS, who->bits, NULL);
    }
    if (node->config.commit_mode != 0) {
        property_out(scratch, &list, PROPERTY_COMMIT_MODE, node->config.commit_mode, NULL);
    }
    property_out(scratch, &list, PROPERTY_AUTHENTICATION, 2, &(uint64_t){3});
    if (features != 0) {
        property_out(scratch, &list, PROPERTY_FEATURES, FEATURES_VERSION, &features);
        session_out(scratch, &list, PROPERTY_SESSION, who->mine, who->proof);
    }
    if (!opening && who->session != 0 && features != 0) {
        session_out(scratch, &list, PROPERTY_ANSWERED, who->session, who->secret);
    }
    if (node->config.incarnation != 0 && features != 0) {
        property_out(scratch, &list, PROPERTY_INCARNATION, node->config.incarnation, NULL);
    }
    if (node->config.token_size != 0 && features != 0 && !short_of_room) {
        value_out(scratch, &list, PROPERTY_TOKEN, node->config.token, node->config.token_size);
    }
    return list;
}

int pdi_hello_write(struct pdi_node *node, const struct pdi_reply *reply, uint8_t *out, size_t room,
                    size_t *size)
{
    static const uint8_t kinds[] = {PYDDSI_SCOUT,  PYDDSI_HELLO,     PYDDSI_OPEN,
                                    PYDDSI_ACCEPT, PYDDSI_CLOSE,     PYDDSI_PONG,
                                    PYDDSI_PING,   PYDDSI_KEEPALIVE, PYDDSI_HELLO};
    struct scratch scratch;
    pyddsi_bytes id = {node->config.id, node->config.id_size};
    bool stream = pdi_endpoint_is_stream(&reply->to);
    bool opening = reply->kind == PDI_REPLY_OPEN;
    const struct pdi_node_peer *who = &node->peers[reply->peer];
    pyddsi_message message = {
        .kind = kinds[reply->kind],
        .mask = reply->kind == PDI_REPLY_SCOUT ? wanted(node) : mask_of(node),
        .version = 1,
        .id = id,
        .opener = {who->id, who->id_size},
        .acceptor = id,
        .lease = (node->config.lease_ms + 99) / 100,
        .reason = reply->reason,
        .hash = reply->hash,
    };
    if (reply->kind == PDI_REPLY_HELLO || reply->kind == PDI_REPLY_OPEN) {
        message.locators = stream ? locators_of_stream(&scratch) : locators_of(node, &scratch);
    }
    if (reply->kind == PDI_REPLY_TELL) {
        size_t most = room > TELL_HEAD ? room - TELL_HEAD : 0;
        message.mask = 0;
        message.locators =
            pdi_gossip_write(node, reply, scratch.locators,
                             most < sizeof scratch.locators ? most : sizeof scratch.locators);
    }
    if (reply->kind == PDI_REPLY_OPEN || reply->kind == PDI_REPLY_ACCEPT) {
        /* always: zhe reads properties of an OPEN whether or not there are any */
        message.flags = PYDDSI_P;
        message.properties = properties_of(node, who, opening, false, &scratch);
    }
    pyddsi_fault fault;
    *size = 0;
    int status = pdi_encode_message(&message, out, room, size, &fault);
    if (stream && *size > PDI_STREAM_PACKET_ZHE && message.flags != 0 && who->session == 0) {
        message.properties = properties_of(node, who, opening, true, &scratch);
        *size = 0;
        status = pdi_encode_message(&message, out, room, size, &fault);
    }
    return status;
}

void pdi_hello_reply(struct pdi_node *node, const struct pdi_reply *reply)
{
    if (node->reply_head - node->reply_tail == PDI_REPLIES_MAX) {
        pdi_drop(node, PYDDSI_AT_PACKET, PYDDSI_BY_LIMIT, 0, 0, 1, node->now);
        return;
    }
    node->replies[node->reply_head++ % PDI_REPLIES_MAX] = *reply;
}
