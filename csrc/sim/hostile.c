/* hostile.c - packets that no node of ours would send. */
#include "sim/hostile.h"

#include <string.h>

void pdi_hostile_init(struct pdi_hostile *hostile, struct pdi_rand rand, enum pdi_hostile_kind kind,
                      unsigned seq_bits)
{
    memset(hostile, 0, sizeof(*hostile));
    hostile->rand = rand;
    hostile->kind = kind;
    hostile->seq_bits = seq_bits;
}

/* Whether these bytes hold the name of a node. */
static bool names_one(const struct pdi_world *world, const uint8_t *data, size_t size)
{
    for (int node = 0; node < world->count; node++) {
        const pyddsi_config *config = &world->nodes[node].config;
        for (size_t at = 0; at + config->id_size <= size; at++) {
            if (memcmp(data + at, config->id, config->id_size) == 0)
                return true;
        }
    }
    return false;
}

/* Whether a packet begins with a message by which two meet. */
static bool meets(const uint8_t *data, size_t size)
{
    return size != 0 && ((data[0] & 31) == PYDDSI_OPEN || (data[0] & 31) == PYDDSI_ACCEPT);
}

void pdi_hostile_hear(struct pdi_hostile *hostile, const struct pdi_world *world,
                      const uint8_t *data, size_t size)
{
    bool met = hostile->kind == PDI_HOSTILE_IMPOSTOR && meets(data, size);
    if (size > PDI_HOSTILE_PACKET_MAX || !(met || pdi_rand_chance(&hostile->rand, 1, 8)) ||
        (hostile->kind == PDI_HOSTILE_STRANGER && names_one(world, data, size)))
        return;
    struct pdi_overheard *row = met ? hostile->met : hostile->heard;
    row += pdi_rand_below(&hostile->rand, PDI_HOSTILE_HEARD);
    memcpy(row->bytes, data, size);
    row->size = size;
}

static uint64_t below(struct pdi_hostile *hostile, uint64_t limit)
{
    return pdi_rand_below(&hostile->rand, limit);
}

/* Numbers near the edges of things more often than others. */
static uint64_t any_number(struct pdi_hostile *hostile, unsigned bits)
{
    uint64_t mask = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    switch (below(hostile, 6)) {
    case 0:
        return below(hostile, 4) & mask;
    case 1:
        return (mask - below(hostile, 4)) & mask;
    case 2:
        return (mask / 2 + below(hostile, 4)) & mask;
    case 3:
        return below(hostile, 64) & mask;
    default:
        return pdi_rand_u64(&hostile->rand) & mask;
    }
}

/* Who he says he is: index below PDI_HOSTILE_ADDRESSES has a name of its own. */
static void own_name(uint8_t id[4], uint32_t index)
{
    id[0] = 0xee;
    id[1] = 0xee;
    id[2] = (uint8_t)(index >> 8);
    id[3] = (uint8_t)index;
}

static pyddsi_endpoint own_address(uint32_t index)
{
    pyddsi_endpoint endpoint = {.ip = {10, 9, (uint8_t)(index >> 8), (uint8_t)index},
                                .port = (uint16_t)(4000 + index % 1000),
                                .kind = 4};
    return endpoint;
}

/* ---- well formed messages ---- */

#define LIST_ROOM 600U

/* Declarations of all kinds, sensible or not. Answers how many bytes. */
static size_t declarations(struct pdi_hostile *hostile, uint8_t *out, size_t *count)
{
    static const char *const texts[] = {"/r/1",
                                        "/r/2",
                                        "/r/*",
                                        "/**",
                                        "/evil/a",
                                        "//",
                                        "not a name",
                                        "/r/1?{$byte0 < 100}",
                                        "/r/1?{",
                                        "",
                                        "/r/3#{transient}"};
    size_t at = 0, before;
    pyddsi_fault fault;
    *count = 0;
    for (uint64_t want = 1 + below(hostile, 12); want > 0; want--) {
        const char *text = texts[below(hostile, sizeof(texts) / sizeof(texts[0]))];
        pyddsi_declaration one = {
            .kind = (uint8_t)(1 + below(hostile, 11)),
            .flags = below(hostile, 4) == 0 ? PYDDSI_G : 0,
            .id = any_number(hostile, below(hostile, 2) == 0 ? 6 : 60) | 2,
            .new_id = any_number(hostile, 6) | 3,
            .mode = 1 + below(hostile, 5),
            .origin = any_number(hostile, 30),
            .period = 1 + any_number(hostile, 20),
            .duration = any_number(hostile, 10),
            .commit = below(hostile, 2) == 0 ? below(hostile, 4) : below(hostile, 256),
            .status = below(hostile, 256),
            .uri = {(const uint8_t *)text, strlen(text)},
            .query = {(const uint8_t *)text, strlen(text)},
        };
        if (one.kind == PYDDSI_SELECTION || one.kind == PYDDSI_BINDING)
            one.id |= 1;
        before = at;
        if (pyddsi_encode_declaration(&one, out, LIST_ROOM, &at, &fault) != PYDDSI_OK) {
            at = before;
            continue;
        }
        (*count)++;
    }
    return at;
}

static size_t samples(struct pdi_hostile *hostile, uint8_t flags, uint8_t *out, size_t *count)
{
    static const uint8_t bytes[16] = {1, 2, 3};
    size_t at = 0, before;
    pyddsi_fault fault;
    *count = 0;
    for (uint64_t want = below(hostile, 20); want > 0; want--) {
        pyddsi_sample one = {.rid = 2 + 2 * below(hostile, 4),
                             .payload = {bytes, below(hostile, sizeof(bytes))}};
        before = at;
        if (pyddsi_encode_sample(&one, flags, out, LIST_ROOM, &at, &fault) != PYDDSI_OK)
            at = before;
        else
            (*count)++;
    }
    return at;
}

/* One message of any kind that can be written, with any values. */
static void message(struct pdi_hostile *hostile, const pyddsi_bytes *id, uint8_t *out, size_t room,
                    size_t *at)
{
    static const uint8_t kinds[] = {
        PYDDSI_SCOUT,   PYDDSI_HELLO,   PYDDSI_OPEN,    PYDDSI_ACCEPT,    PYDDSI_CLOSE,
        PYDDSI_DECLARE, PYDDSI_DECLARE, PYDDSI_SDATA,   PYDDSI_SDATA,     PYDDSI_BDATA,
        PYDDSI_WDATA,   PYDDSI_PULL,    PYDDSI_PING,    PYDDSI_PONG,      PYDDSI_SYNCH,
        PYDDSI_SYNCH,   PYDDSI_ACKNACK, PYDDSI_ACKNACK, PYDDSI_KEEPALIVE, PYDDSI_CONDUIT_CLOSE,
        PYDDSI_FRAG,    PYDDSI_CONDUIT, PYDDSI_MIGRATE, PYDDSI_RSPACE,
    };
    static const uint8_t payload[100] = {'x'};
    static const char *const uris[] = {"/r/1", "/**", "/r/*", "/evil"};
    uint8_t list[LIST_ROOM];
    pyddsi_fault fault;
    const char *uri = uris[below(hostile, 4)];
    uint8_t kind = kinds[below(hostile, sizeof(kinds))];
    pyddsi_message one = {
        .kind = kind,
        .flags = (uint8_t)(below(hostile, 8) << 5),
        .conduit = below(hostile, 4) == 0 ? any_number(hostile, 16) : below(hostile, 3),
        .space = below(hostile, 6),
        .sn = any_number(hostile, hostile->seq_bits),
        .rid = below(hostile, 3) == 0 ? any_number(hostile, 62) | 2 : 2 + 2 * below(hostile, 3),
        .data_rid = 2 + below(hostile, 4),
        .mask = kind == PYDDSI_ACKNACK ? any_number(hostile, 64) : below(hostile, 16),
        .count = any_number(hostile, hostile->seq_bits),
        .lease = 1 + below(hostile, 10),
        .version = 1,
        .reason = below(hostile, 256),
        .hash = any_number(hostile, 16),
        .limit = any_number(hostile, 16),
        .first = any_number(hostile, hostile->seq_bits),
        .fragments = any_number(hostile, hostile->seq_bits),
        .left = below(hostile, 4),
        .last_reliable = any_number(hostile, hostile->seq_bits),
        .last_unreliable = any_number(hostile, hostile->seq_bits),
        .id = *id,
        .opener = *id,
        .acceptor = *id,
        .uri = {(const uint8_t *)uri, strlen(uri)},
        .payload = {payload, below(hostile, sizeof(payload))},
    };
    if (kind == PYDDSI_OPEN || kind == PYDDSI_ACCEPT || kind == PYDDSI_HELLO)
        one.flags &= (uint8_t)~PYDDSI_P;
    if (kind == PYDDSI_DECLARE) {
        one.declarations.data = list;
        one.declarations.size = declarations(hostile, list, &one.declarations.count);
    }
    if (kind == PYDDSI_BDATA) {
        one.samples.data = list;
        one.samples.size = samples(hostile, one.flags, list, &one.samples.count);
        one.samples.flags = one.flags;
    }
    size_t before = *at;
    if (pyddsi_encode_message(&one, out, room, at, &fault) != PYDDSI_OK)
        *at = before;
}

static size_t well_formed(struct pdi_hostile *hostile, const pyddsi_bytes *id)
{
    size_t size = 0;
    for (uint64_t want = 1 + below(hostile, 4); want > 0; want--) {
        message(hostile, id, hostile->out, PDI_HOSTILE_PACKET_MAX, &size);
    }
    return size;
}

/* OPEN is the way in for all that follows; only so does he have a session. */
static size_t open_packet(struct pdi_hostile *hostile, const pyddsi_bytes *id, uint64_t lease)
{
    static const char group[] = "udp/239.255.0.1:7447";
    uint8_t properties[8], locators[40];
    uint8_t bits = (uint8_t)hostile->seq_bits;
    size_t size = 0, list = 0, places = 0;
    pyddsi_fault fault;
    pyddsi_property length = {.id = 4, .value = {&bits, 1}};
    pyddsi_locator locator = {.text = {(const uint8_t *)group, sizeof(group) - 1}};
    (void)pyddsi_encode_property(&length, properties, sizeof(properties), &list, &fault);
    (void)pyddsi_encode_locator(&locator, locators, sizeof(locators), &places, &fault);
    pyddsi_message one = {.kind = PYDDSI_OPEN,
                          .flags = PYDDSI_P,
                          .version = 1,
                          .id = *id,
                          .lease = lease,
                          .locators = {.data = locators, .size = places, .count = 1},
                          .properties = {.data = properties, .size = list, .count = 1}};
    (void)pyddsi_encode_message(&one, hostile->out, PDI_HOSTILE_PACKET_MAX, &size, &fault);
    return size;
}

/* ---- the other kinds ---- */

static size_t senseless(struct pdi_hostile *hostile)
{
    size_t size = (size_t)below(hostile, below(hostile, 8) == 0 ? PDI_HOSTILE_PACKET_MAX : 60);
    for (size_t i = 0; i < size; i++) {
        hostile->out[i] = (uint8_t)pdi_rand_u64(&hostile->rand);
    }
    return size;
}

static size_t overheard(struct pdi_hostile *hostile)
{
    uint64_t which = below(hostile, PDI_HOSTILE_HEARD);
    size_t size = hostile->heard[which].size;
    memcpy(hostile->out, hostile->heard[which].bytes, size);
    if (size == 0 || below(hostile, 3) == 0)
        return size;
    if (below(hostile, 3) == 0)
        return (size_t)below(hostile, size); /* cut */
    for (uint64_t changes = 1 + below(hostile, 4); changes > 0; changes--) {
        hostile->out[below(hostile, size)] = (uint8_t)any_number(hostile, 8);
    }
    return size;
}

/* ---- in the names of others ---- */

static void put_number(uint8_t *out, size_t *size, uint64_t number)
{
    for (; number > 127; number >>= 7) {
        out[(*size)++] = (uint8_t)(number | 128);
    }
    out[(*size)++] = (uint8_t)number;
}

/* What one of ours says of itself and the session, all of it true or likely; but the secret. */
static pyddsi_list told(struct pdi_hostile *hostile, const pyddsi_config *config, uint8_t *out,
                        size_t room)
{
    uint8_t bits[4], able[12], number[20], life[12];
    size_t sizes[4] = {0};
    pyddsi_list list = {.data = out};
    pyddsi_fault fault;
    put_number(bits, &sizes[0], hostile->seq_bits);
    put_number(able, &sizes[1], 1);
    put_number(able, &sizes[1], config->features);
    put_number(number, &sizes[2], 1 + below(hostile, below(hostile, 4) == 0 ? UINT64_MAX : 24));
    for (uint64_t i = below(hostile, 9); i > 0; i--) {
        number[sizes[2]++] = (uint8_t)any_number(hostile, 8);
    }
    put_number(life, &sizes[3], config->incarnation + (below(hostile, 4) == 0));
    const pyddsi_property properties[] = {{.id = 4, .value = {bits, sizes[0]}},
                                          {.id = 1, .value = {able, sizes[1]}},
                                          {.id = 5, .value = {number, sizes[2]}},
                                          {.id = 3, .value = {life, sizes[3]}}};
    /* sometimes as zhe says it: nothing */
    size_t count = below(hostile, 4) == 0 ? 1 : sizeof(properties) / sizeof(properties[0]);
    for (size_t i = 0; i < count; i++) {
        if (pyddsi_encode_property(&properties[i], out, room, &list.size, &fault) == PYDDSI_OK)
            list.count++;
    }
    return list;
}

/* What leads to a session, in the name of one node, for another; or word for word what they said. */
static size_t in_the_name_of(struct pdi_hostile *hostile, const pyddsi_config *config,
                             const pyddsi_config *other)
{
    static const uint8_t kinds[] = {PYDDSI_OPEN, PYDDSI_OPEN, PYDDSI_ACCEPT, PYDDSI_ACCEPT,
                                    PYDDSI_KEEPALIVE};
    uint8_t list[80];
    size_t size = 0;
    pyddsi_fault fault;
    const struct pdi_overheard *met = &hostile->met[below(hostile, PDI_HOSTILE_HEARD)];
    if (met->size != 0 && below(hostile, 2) == 0) {
        memcpy(hostile->out, met->bytes, met->size);
        return met->size;
    }
    pyddsi_bytes id = {config->id, config->id_size};
    pyddsi_message one = {.kind = kinds[below(hostile, sizeof(kinds))],
                          .version = 1,
                          .id = id,
                          .acceptor = id,
                          .opener = {other->id, other->id_size},
                          .lease = below(hostile, 20)};
    if (one.kind != PYDDSI_KEEPALIVE) {
        one.flags = PYDDSI_P;
        one.properties = told(hostile, config, list, sizeof(list));
    }
    if (one.kind == PYDDSI_ACCEPT) { /* it answers an OPEN, and a HELLO asks for that */
        pyddsi_message hello = {.kind = PYDDSI_HELLO, .mask = 15, .id = id};
        (void)pyddsi_encode_message(&hello, hostile->out, PDI_HOSTILE_PACKET_MAX, &size, &fault);
        if (below(hostile, 2) == 0)
            return size;
        size = 0;
    }
    (void)pyddsi_encode_message(&one, hostile->out, PDI_HOSTILE_PACKET_MAX, &size, &fault);
    return size;
}

/* ---- */

void pdi_hostile_act(struct pdi_hostile *hostile, struct pdi_world *world)
{
    uint8_t name[4];
    int node = (int)below(hostile, (uint64_t)world->count);
    int other = (int)below(hostile, (uint64_t)world->count);
    uint32_t index = (uint32_t)below(hostile, PDI_HOSTILE_ADDRESSES);
    uint64_t what = below(hostile, 16);
    bool passing = what == 0; /* somebody who opens, and is never heard of again */
    if (passing)
        index = PDI_HOSTILE_ADDRESSES + (uint32_t)below(hostile, 2000);
    own_name(name, index);
    pyddsi_endpoint from = own_address(index);
    pyddsi_bytes id = {name, sizeof(name)};
    size_t size;
    if (hostile->kind == PDI_HOSTILE_FORGER && below(hostile, 2) == 0)
        from = world->nodes[other].endpoint;
    if (hostile->kind != PDI_HOSTILE_STRANGER && below(hostile, 2) == 0) {
        id.data = world->nodes[other].config.id;
        id.size = world->nodes[other].config.id_size;
    }
    if (hostile->kind == PDI_HOSTILE_IMPOSTOR && below(hostile, 2) == 0) {
        size = in_the_name_of(hostile, &world->nodes[other].config, &world->nodes[node].config);
    } else if (passing) {
        size = open_packet(hostile, &id, 1 + below(hostile, 4));
    } else if (what < 3) {
        size = open_packet(hostile, &id, 1 + below(hostile, 20));
    } else if (what < 5) {
        size = senseless(hostile);
    } else if (what < 8 && (hostile->kind != PDI_HOSTILE_STRANGER || below(hostile, 2) == 0)) {
        size = overheard(hostile);
    } else {
        size = well_formed(hostile, &id);
    }
    (void)pdi_world_inject(world, node, &from, hostile->out, size);
}

void pdi_hostile_leave(struct pdi_hostile *hostile, struct pdi_world *world)
{
    for (int node = 0; node < world->count; node++) {
        for (uint32_t index = 0; index < PDI_HOSTILE_ADDRESSES; index++) {
            uint8_t name[4];
            size_t size = 0;
            pyddsi_fault fault;
            pyddsi_endpoint from = own_address(index);
            own_name(name, index);
            pyddsi_message farewell = {.kind = PYDDSI_CLOSE, .id = {name, sizeof(name)}};
            (void)pyddsi_encode_message(&farewell, hostile->out, PDI_HOSTILE_PACKET_MAX, &size,
                                        &fault);
            (void)pdi_world_inject(world, node, &from, hostile->out, size);
        }
    }
}
