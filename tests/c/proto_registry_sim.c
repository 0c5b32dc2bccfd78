/* proto/registry.h: many registries, joined by queues that lose nothing, keep the order and delay at random; declarations,
 * forgets, leaving and coming back at random; and at the end every one is held against a model that knows only what the
 * applications wished and what each was answered.
 *
 * It is long because it is one world: the queues, the applications and the model share it. */
#include "proto/registry.h"

#include <stdlib.h>

#include "base/rand.h"
#include "proto/registry_state.h"
#include "test.h"
#include "wire/decode.h"
#include "wire/encode.h"
#include "wire/list.h"
#include "wire/match.h"
#include "wire/name.h"

enum {
    NODES = 16,
    WISHES = 12,
    QUEUE = 64,
    BODY = 1400,
    MEMORY = 1 << 20,
    SEEDS = 1200,
    CONTESTS = 400,
    TICKS_MAX = 200000,
    IDS = 5
};

struct packet {
    uint64_t due;
    uint32_t epoch;
    uint8_t space;
    uint16_t size;
    uint8_t body[BODY];
};

/* One direction between two nodes. */
struct queue {
    uint32_t first, count;
    uint64_t last_due;
    struct packet *packets; /* QUEUE of them */
};

struct wish {
    bool made;
    bool held; /* a selection that is forgotten, but that others stand on */
    struct pdi_wish wish;
    char text[64];
    uint32_t handle;
};

struct node {
    struct pdi_registry *registry;
    uint32_t features;
    struct wish wishes[WISHES];
    bool joined[NODES];    /* as this side sees it */
    uint32_t epoch[NODES]; /* of the session that it is in */
    uint8_t id[3];
    uint8_t id_size;
};

/* What a world is like. */
struct world {
    struct pdi_rand rand;
    uint32_t nodes;
    uint32_t delay;
    bool together; /* all are joined from the beginning to the end */
    bool
        aliases; /* numbers of names are of our choice, and others use the small ones; the model does not know what follows */
    uint64_t now;
    struct node node[NODES];
    struct queue queue[NODES][NODES];
    uint32_t epoch[NODES][NODES]; /* of the pair, the lower index first */
};

static struct world world;
static _Alignas(64) uint8_t memory[NODES][MEMORY];
static uint64_t total_messages, total_ok, total_conflict, total_links, total_taken;

static uint32_t draw(uint32_t limit)
{
    return (uint32_t)pdi_rand_below(&world.rand, limit);
}

static pyddsi_config config_of(uint32_t index)
{
    pyddsi_config config = {.seed = index * 77 + 5,
                            .rid_bits = 32,
                            .peers_max = NODES,
                            .resources_max = 64,
                            .names_bytes = 64 * 1024,
                            .publishers_max = 16,
                            .subscribers_max = 16,
                            .remotes_max = 256,
                            .remotes_peer_max = 32,
                            .transaction_bytes = 1500,
                            .commit_mode = 3,
                            .events_max = 64};
    const struct node *node = &world.node[index];
    config.features = node->features;
    memcpy(config.id, node->id, node->id_size);
    config.id_size = node->id_size;
    return config;
}

static void world_init(uint64_t seed)
{
    static struct packet packets[NODES][NODES][QUEUE];
    memset(&world, 0, sizeof world);
    pdi_rand_init(&world.rand, seed);
    world.nodes = draw(4) != 0 ? 2 + draw(3) : 2 + draw(NODES - 1);
    world.delay = 1 + draw(20);
    world.together = draw(3) == 0;
    for (uint32_t i = 0; i < world.nodes; i++) {
        struct node *node = &world.node[i];
        node->features = draw(5) == 0 && !world.together ? 0 : PYDDSI_CAN_ALL;
        node->id[0] = (uint8_t)((i * 7 + seed) % 16); /* some are equal but for their length */
        node->id[1] = (uint8_t)i;
        node->id_size = 2 + (uint8_t)draw(2);
        pyddsi_config config = config_of(i);
        struct pdi_carve carve = {.memory = memory[i]};
        size_t size = pdi_registry_size(&config);
        CHECK(size <= MEMORY);
        CHECK_EQ(pdi_registry_init(&node->registry, &config, &carve), PYDDSI_OK);
        CHECK(carve.size <= size);
        node->registry->rounds_max = 200;
        for (uint32_t j = 0; j < world.nodes; j++)
            world.queue[i][j].packets = packets[i][j];
    }
}

/* ---- the network */

/* What the node does with a body: it goes onto the wire and comes off it. */
static void deliver(uint32_t from, uint32_t to, const struct packet *packet)
{
    uint8_t bytes[BODY + 16];
    size_t at = 0;
    pyddsi_fault fault;
    pyddsi_reading reading;
    pyddsi_decoder decoder;
    const pyddsi_options options = {.strictness = PYDDSI_STRICT, .rid_bits = 32};
    CHECK(packet->body[0] < 0x80);
    const pyddsi_message space = {
        .kind = PYDDSI_RSPACE, .flags = packet->space <= 4 ? PYDDSI_Z : 0, .space = packet->space};
    pyddsi_message message = {.kind = PYDDSI_DECLARE,
                              .declarations = {.data = packet->body + 1,
                                               .size = packet->size - 1U,
                                               .count = packet->body[0]}};
    if (packet->space != 0)
        CHECK_EQ(pdi_encode_message(&space, bytes, sizeof bytes, &at, &fault), PYDDSI_OK);
    CHECK_EQ(pdi_encode_message(&message, bytes, sizeof bytes, &at, &fault), PYDDSI_OK);
    pdi_reading_init(&reading, &options);
    pdi_decoder_init(&decoder, &reading, bytes, at);
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK_EQ(pdi_registry_input(world.node[to].registry, from, (uint8_t)message.space, false,
                                message.declarations),
             PYDDSI_OK);
}

static void send_all(uint32_t from)
{
    struct node *node = &world.node[from];
    for (uint32_t to = 0; to < world.nodes; to++) {
        if (to == from)
            continue;
        struct queue *queue = &world.queue[from][to];
        while (node->joined[to] && pdi_registry_pending(node->registry, to) &&
               queue->count < QUEUE) {
            struct packet *packet = &queue->packets[(queue->first + queue->count) % QUEUE];
            size_t size = 0;
            if (pdi_registry_output(node->registry, to, packet->body,
                                    PDI_REGISTRY_ROOM_MIN + draw(200), &size,
                                    &packet->space) != PYDDSI_OK) {
                CHECK(!pdi_registry_pending(node->registry, to)); /* or the node would spin */
                break;
            }
            uint64_t due = world.now + 1 + draw(world.delay);
            queue->last_due = due > queue->last_due ? due : queue->last_due;
            packet->due = queue->last_due;
            packet->size = (uint16_t)size;
            packet->epoch = node->epoch[to];
            queue->count++;
            total_messages++;
        }
    }
}

static void receive_all(uint32_t to)
{
    struct node *node = &world.node[to];
    for (uint32_t from = 0; from < world.nodes; from++) {
        struct queue *queue = &world.queue[from][to];
        while (queue->count > 0 && queue->packets[queue->first].due <= world.now) {
            const struct packet *packet = &queue->packets[queue->first];
            if (node->joined[from] && node->epoch[from] == packet->epoch)
                deliver(from, to, packet);
            queue->first = (queue->first + 1) % QUEUE;
            queue->count--;
        }
    }
}

static bool quiet(void)
{
    for (uint32_t i = 0; i < world.nodes; i++) {
        for (uint32_t j = 0; j < world.nodes; j++) {
            if (world.queue[i][j].count > 0 || (i != j && world.node[i].joined[j] &&
                                                pdi_registry_pending(world.node[i].registry, j)))
                return false;
        }
    }
    return true;
}

static void step(void)
{
    world.now++;
    for (uint32_t i = 0; i < world.nodes; i++)
        receive_all(i);
    for (uint32_t i = 0; i < world.nodes; i++)
        send_all(i);
}

static void join_one(uint32_t at, uint32_t peer)
{
    struct node *node = &world.node[at], *other = &world.node[peer];
    node->epoch[peer] = world.epoch[at < peer ? at : peer][at < peer ? peer : at];
    node->joined[peer] = true;
    pdi_registry_join(node->registry, peer, (pyddsi_bytes){other->id, other->id_size},
                      other->features, draw(5));
}

static void join(uint32_t a, uint32_t b)
{
    if (a == b || world.node[a].joined[b] || world.node[b].joined[a])
        return;
    world.epoch[a < b ? a : b][a < b ? b : a]++;
    join_one(a, b);
    join_one(b, a);
}

static void leave(uint32_t at, uint32_t peer)
{
    if (!world.node[at].joined[peer])
        return;
    world.node[at].joined[peer] = false;
    pdi_registry_leave(world.node[at].registry, peer);
}

/* ---- the applications */

static const char *const names[] = {"/a/b", "/a/*", "/a/c", "/**", "/x", "/x/y"};
static const char *const queries[] = {"/a/**", "/x?{size > 3}", "a/b#unreliable", "/q/?"};

static struct pdi_wish wish_draw(struct wish *slot)
{
    struct pdi_wish wish = {.kind = (uint8_t)(1 + draw(5)),
                            .space = draw(6) == 0 ? 1 : 0,
                            .id = 2 + 2 * draw(IDS),
                            .mode = PYDDSI_PUSH,
                            .reliability = PYDDSI_BY_RESOURCE};
    const char *text = names[(wish.id / 2 + draw(2)) % 6];
    if (world.aliases) {
        wish.is_chosen = wish.kind == PYDDSI_RESOURCE && draw(4) != 0;
        wish.id = draw(3) == 0 ? 2 * (64 + (uint64_t)draw(64)) : wish.id;
    }
    switch (wish.kind) {
    case PYDDSI_PUBLICATION:
        wish.way = draw(4) == 0 ? PYDDSI_WAY_UNICAST : PYDDSI_WAY_MULTICAST;
        break;
    case PYDDSI_SUBSCRIPTION:
        wish.id += draw(4) == 0;
        wish.reliability = draw(3) == 0 ? PYDDSI_BEST_EFFORT : PYDDSI_BY_RESOURCE;
        if (draw(3) == 0) {
            wish.mode = PYDDSI_PERIODIC_PULL;
            wish.origin_ms = 3;
            wish.period_ms = 1000;
            wish.duration_ms = draw(1000);
        }
        break;
    case PYDDSI_SELECTION:
    case PYDDSI_BINDING:
        text = queries[draw(4)];
        wish.id++;
        wish.new_id = 101;
        wish.is_global = 1;
        break;
    default:
        break;
    }
    memcpy(slot->text, text, strlen(text) + 1);
    wish.text = (pyddsi_bytes){(const uint8_t *)slot->text, strlen(text)};
    return wish;
}

static void declare(struct node *node)
{
    struct wish *slot = &node->wishes[draw(WISHES)];
    int status = 0;
    if (slot->made)
        return;
    slot->held = false;
    slot->wish = wish_draw(slot);
    int answer = pdi_registry_declare(node->registry, &slot->wish, &slot->handle, &status);
    slot->made = answer == PYDDSI_OK;
    CHECK(slot->made || status != PDI_STATUS_OK);
}

/* Another wish of the same id: of the selection itself, or of what stands on it. */
static bool has_other(const struct node *node, const struct wish *slot, bool stands)
{
    for (int i = 0; i < WISHES; i++) {
        const struct wish *other = &node->wishes[i];
        bool is_selection = other->wish.kind == PYDDSI_SELECTION;
        if (other != slot && other->made && is_selection == !stands &&
            other->wish.id == slot->wish.id && other->wish.space == slot->wish.space &&
            (is_selection || other->wish.kind == PYDDSI_SUBSCRIPTION ||
             other->wish.kind == PYDDSI_BINDING))
            return true;
    }
    return false;
}

static void forget(struct node *node, struct wish *slot)
{
    if (!slot->made || slot->held)
        return;
    if (slot->wish.kind == PYDDSI_SELECTION)
        slot->held = has_other(node, slot, true) && !has_other(node, slot, false);
    CHECK_EQ(pdi_registry_forget(node->registry, slot->handle), PYDDSI_OK);
    CHECK_EQ(pdi_registry_status(node->registry, slot->handle), PYDDSI_BAD_ARGUMENT);
    slot->made = slot->held;
    for (int i = 0; i < WISHES; i++) {
        struct wish *other = &node->wishes[i];
        if (other->held && !has_other(node, other, true))
            other->made = other->held = false;
    }
}

/* ---- invariants inside */

static void check_inside(const struct node *node)
{
    const struct pdi_registry *registry = node->registry;
    for (uint32_t peer = 0; peer < world.nodes; peer++) {
        const struct pdi_registry_peer *hears = &registry->peers[peer];
        uint32_t todo = 0, contested = 0;
        bool before = hears->cursor != PDI_CHAIN_END;
        if (!hears->joined)
            continue;
        for (uint32_t at = registry->all.first; at != PDI_CHAIN_END;
             at = pdi_chain_next(&registry->lane_all, at)) {
            uint8_t said = *pdi_said(registry, peer, at);
            bool tell = said == PDI_SAID_DUE || said == PDI_SAID_FORGET_DUE;
            before = before && at != hears->cursor;
            CHECK(!tell || (!before && hears->cursor != PDI_CHAIN_END));
            todo += tell;
            contested += said == PDI_SAID_CONTESTED;
        }
        CHECK_EQ(hears->todo, todo);
        CHECK_EQ(hears->contested, contested);
    }
    for (uint32_t at = registry->all.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_all, at)) {
        uint32_t count[PDI_SAID_COUNT] = {0};
        for (uint32_t peer = 0; peer < registry->peers_max; peer++)
            count[*pdi_said(registry, peer, at)]++;
        for (int said = PDI_SAID_DUE; said < PDI_SAID_COUNT; said++)
            CHECK_EQ(registry->locals[at].said[said], count[said]);
    }
}

/* ---- the model at rest */

static bool in_force(const struct node *node, const struct wish *slot)
{
    return slot->made && !node->registry->locals[slot->handle % PDI_REGISTRY_LOCALS_MAX].lost;
}

/* How the peer has answered a wish. */
static uint8_t said(const struct node *node, const struct wish *slot, uint32_t peer)
{
    return *pdi_said(node->registry, peer, slot->handle % PDI_REGISTRY_LOCALS_MAX);
}

/* What one of the others has told this node with success: its first wish of that kind and id, or null. */
static const struct wish *told(uint32_t from, uint32_t to, uint8_t kind, uint8_t space, uint64_t id)
{
    const struct node *node = &world.node[from];
    if (!node->joined[to])
        return NULL;
    for (int i = 0; i < WISHES; i++) {
        const struct wish *slot = &node->wishes[i];
        if (in_force(node, slot) && slot->wish.kind == kind && slot->wish.space == space &&
            slot->wish.id == id && said(node, slot, to) == PDI_SAID_OK)
            return slot;
    }
    return NULL;
}

/* The name that a node knows for an id. */
static pyddsi_bytes model_name(uint32_t at, uint8_t space, uint64_t id)
{
    const struct node *node = &world.node[at];
    for (int i = 0; i < WISHES; i++) {
        const struct wish *slot = &node->wishes[i];
        if (in_force(node, slot) && slot->wish.kind == PYDDSI_RESOURCE &&
            slot->wish.space == space && slot->wish.id == id)
            return slot->wish.text;
    }
    for (uint32_t from = 0; from < world.nodes; from++) {
        const struct wish *slot = from == at ? NULL : told(from, at, PYDDSI_RESOURCE, space, id);
        if (slot != NULL)
            return slot->wish.text;
    }
    return (pyddsi_bytes){NULL, 0};
}

static bool model_match(uint32_t at, const struct pdi_wish *publication, uint32_t from,
                        const struct pdi_wish *subscription)
{
    if (publication->space != subscription->space)
        return false;
    if (publication->id == subscription->id)
        return true;
    pyddsi_bytes one = model_name(at, publication->space, publication->id), two;
    if (subscription->id % 2 == 0) {
        two = model_name(at, subscription->space, subscription->id);
    } else {
        struct pdi_name name;
        static char text[PDI_NAME_MAX];
        size_t size;
        pyddsi_fault fault;
        const struct wish *slot =
            told(from, at, PYDDSI_SELECTION, subscription->space, subscription->id);
        CHECK(slot != NULL);
        if (slot == NULL)
            return false;
        pdi_name_canonical((const char *)slot->wish.text.data, slot->wish.text.size, text,
                           sizeof text, &size, &fault);
        pdi_name_parse(text, size, &name, &fault);
        two = name.path;
    }
    return one.size > 0 && two.size > 0 && pdi_intersect(one, two);
}

static bool is_linked(const struct pdi_registry *registry, uint32_t handle, uint32_t peer,
                      uint8_t space, uint64_t id)
{
    for (uint32_t link = pdi_registry_link_first(registry, handle); link != PDI_REGISTRY_NONE;
         link = pdi_registry_link_next(registry, link)) {
        const struct pdi_remote *remote = pdi_registry_link_remote(registry, link);
        if (remote->peer == peer && remote->space == space && remote->id == id)
            return true;
    }
    return false;
}

static uint32_t count_links(const struct pdi_registry *registry, uint32_t handle)
{
    uint32_t count = 0;
    for (uint32_t link = pdi_registry_link_first(registry, handle); link != PDI_REGISTRY_NONE;
         link = pdi_registry_link_next(registry, link))
        count++;
    return count;
}

/* The links of one publication are what the model says; one for a single peer has those of one of the peers. */
static void check_links(uint32_t at, const struct wish *publication)
{
    const struct pdi_registry *registry = world.node[at].registry;
    bool single = publication->wish.way == PYDDSI_WAY_UNICAST;
    uint32_t wanted = 0, peers = 0;
    for (uint32_t from = 0; from < world.nodes; from++) {
        uint32_t matched = 0, linked = 0;
        for (uint8_t space = 0; space < 2 && from != at; space++) {
            for (uint64_t id = 2; id < 4 + 2 * IDS; id++) {
                const struct wish *slot = told(from, at, PYDDSI_SUBSCRIPTION, space, id);
                if (slot == NULL || !model_match(at, &publication->wish, from, &slot->wish))
                    continue;
                matched++;
                linked += is_linked(registry, publication->handle, from, space, id);
            }
        }
        CHECK(single ? linked == 0 || linked == matched : linked == matched);
        wanted += single ? linked : matched;
        peers += linked > 0;
        if (single && matched > 0)
            CHECK(count_links(registry, publication->handle) > 0);
    }
    CHECK_EQ(count_links(registry, publication->handle), wanted);
    CHECK(!single || peers <= 1);
    total_links += wanted;
}

/* What a node knows of one of the others is what the other has told it. */
static void check_known(uint32_t from, uint32_t to)
{
    const struct pdi_registry *registry = world.node[to].registry;
    uint32_t definitions = 0, subscriptions = 0, counted = 0;
    for (uint8_t space = 0; space < 2; space++) {
        for (uint64_t id = 2; id < 4 + 2 * IDS; id++) {
            uint32_t topic = pdi_topic_find(registry, space, id);
            uint8_t kind = id % 2 == 0 ? PYDDSI_RESOURCE : PYDDSI_SELECTION;
            const struct wish *defined = told(from, to, kind, space, id);
            const struct wish *wanted = told(from, to, PYDDSI_SUBSCRIPTION, space, id);
            uint32_t definition = pdi_definition_find(registry, from, topic);
            uint32_t subscription = pdi_subscription_find(registry, from, topic);
            CHECK_EQ(definition != PDI_CHAIN_END, defined != NULL);
            CHECK_EQ(subscription != PDI_CHAIN_END, wanted != NULL);
            definitions += defined != NULL;
            subscriptions += wanted != NULL;
            if (subscription == PDI_CHAIN_END || wanted == NULL)
                continue;
            const struct pdi_remote *remote = &registry->subscriptions[subscription].remote;
            CHECK_EQ(remote->mode, wanted->wish.mode);
            CHECK_EQ(remote->duration_ms, wanted->wish.duration_ms);
            CHECK_EQ(remote->predicate != NULL,
                     id % 2 == 1 && defined != NULL &&
                         memchr(defined->text, '{', strlen(defined->text)) != NULL);
        }
    }
    for (uint32_t at = registry->peers[from].definitions.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_peer_definitions, at))
        counted++;
    CHECK_EQ(counted, definitions);
    CHECK_EQ(registry->peers[from].subscription_count, subscriptions);
}

/* Two that define one id by different names: not both can be well. */
static void check_names(uint32_t a, uint32_t b)
{
    const struct node *one = &world.node[a], *two = &world.node[b];
    for (int i = 0; i < WISHES; i++) {
        for (int j = 0; j < WISHES; j++) {
            const struct wish *x = &one->wishes[i], *y = &two->wishes[j];
            if (!x->made || !y->made || x->wish.kind != PYDDSI_RESOURCE ||
                y->wish.kind != PYDDSI_RESOURCE || x->wish.id != y->wish.id ||
                x->wish.space != y->wish.space || strcmp(x->text, y->text) == 0 ||
                !pdi_local_for(one->registry, b, pdi_local_of(one->registry, x->handle)) ||
                !pdi_local_for(two->registry, a, pdi_local_of(two->registry, y->handle)))
                continue;
            CHECK(pdi_registry_status(one->registry, x->handle) == PDI_STATUS_CONFLICT ||
                  pdi_registry_status(two->registry, y->handle) == PDI_STATUS_CONFLICT);
            if (world.together) /* 002-3: one of them has lost, and takes no part any more */
                CHECK(!in_force(one, x) || !in_force(two, y));
        }
    }
}

/* 002-2: among all who are together exactly one name remains for an id that somebody still defines. */
static void check_one_remains(void)
{
    for (uint32_t i = 0; i < world.nodes; i++) {
        for (int k = 0; k < WISHES; k++) {
            const struct wish *slot = &world.node[i].wishes[k];
            if (!slot->made || slot->wish.kind != PYDDSI_RESOURCE)
                continue;
            int status = pdi_registry_status(world.node[i].registry, slot->handle);
            CHECK(status == PDI_STATUS_OK || status == PDI_STATUS_CONFLICT);
            total_ok += status == PDI_STATUS_OK;
            total_conflict += status == PDI_STATUS_CONFLICT;
            CHECK(!world.together || in_force(&world.node[i], slot) == (status == PDI_STATUS_OK));
        }
    }
}

static void check_rest(void)
{
    for (uint32_t i = 0; world.aliases && i < world.nodes; i++)
        check_inside(&world.node[i]);
    for (uint32_t i = 0; !world.aliases && i < world.nodes; i++) {
        const struct node *node = &world.node[i];
        check_inside(node);
        for (int k = 0; k < WISHES; k++) {
            const struct wish *slot = &node->wishes[k];
            if (!slot->made || slot->held)
                continue;
            int status = pdi_registry_status(node->registry, slot->handle);
            CHECK(status != PDI_REGISTRY_PENDING && status >= 0);
            total_taken += status == PDI_STATUS_TAKEN;
            CHECK(status == PDI_STATUS_OK || status == PDI_STATUS_CONFLICT ||
                  status == PDI_STATUS_TAKEN);
            if (slot->wish.kind == PYDDSI_PUBLICATION)
                check_links(i, slot);
        }
        for (uint32_t j = 0; j < world.nodes; j++) {
            if (i == j || !node->joined[j])
                continue;
            check_known(j, i);
            check_names(i, j);
        }
    }
    check_one_remains();
}

/* ---- runs */

static void settle(void)
{
    uint64_t end = world.now + TICKS_MAX;
    do {
        step();
    } while (!quiet() && world.now < end);
    CHECK(world.now < end);
}

static void act(void)
{
    uint32_t at = draw(world.nodes), peer = draw(world.nodes);
    struct node *node = &world.node[at];
    struct pdi_change change;
    switch (draw(world.together ? 8 : 12)) {
    case 0:
    case 1:
        forget(node, &node->wishes[draw(WISHES)]);
        break;
    case 8:
        leave(at, peer);
        break;
    case 9:
        leave(at, peer);
        leave(peer, at);
        break;
    case 10:
    case 11:
        join(at, peer);
        break;
    case 2:
        while (pdi_registry_change(node->registry, &change) == PYDDSI_OK)
            CHECK(change.kind >= PYDDSI_DECLARED && change.kind <= PYDDSI_REJECTED);
        break;
    default:
        declare(node);
    }
}

static void check_empty(const struct pdi_registry *registry)
{
    struct pdi_registry_usage usage = pdi_registry_usage(registry), none = {0};
    CHECK(memcmp(&usage, &none, sizeof usage) == 0);
    CHECK_EQ(registry->topics_free.used, 0);
    CHECK_EQ(registry->definitions_free.used, 0);
    CHECK_EQ(registry->predicates_free.used, 0);
    CHECK_EQ(registry->owned.count, 0);
    CHECK_EQ(registry->pairs.count, 0);
    CHECK_EQ(registry->topic_map.count, 0);
    CHECK_EQ(registry->name_pages.free, registry->name_pages.pages);
    for (int kind = 0; kind <= PYDDSI_BINDING; kind++)
        CHECK_EQ(registry->locals_used[kind], 0);
}

/* All leave and forget, in one order or the other. */
static void check_end(void)
{
    bool first = draw(2) == 0;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < world.nodes; i++) {
            for (int k = 0; k < WISHES && (round == 0) == first; k++)
                forget(&world.node[i], &world.node[i].wishes[k]);
            for (uint32_t j = 0; j < world.nodes && (round == 0) != first; j++)
                leave(i, j);
        }
        if (draw(2) == 0) {
            settle();
            check_rest();
        }
    }
    for (uint32_t i = 0; i < world.nodes; i++)
        check_empty(world.node[i].registry);
}

static void run_seed(uint64_t seed, bool aliases)
{
    world_init(seed);
    world.aliases = aliases;
    uint32_t phases = 1 + draw(4);
    for (uint32_t i = 0; i < world.nodes; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (world.together || draw(2) == 0)
                join(i, j);
        }
    }
    for (uint32_t phase = 0; phase < phases; phase++) {
        uint32_t acts = draw(20 * world.nodes), pause = draw(4);
        for (uint32_t i = 0; i < acts; i++) {
            act();
            if (pause > 0 && draw(pause) == 0)
                step();
        }
        for (uint32_t i = 0; i < world.nodes; i++) {
            check_inside(&world.node[i]);
            for (uint32_t j = 0; j < i; j++) { /* who lost one side loses both, or it is for ever */
                if (world.node[i].joined[j] != world.node[j].joined[i]) {
                    leave(i, j);
                    leave(j, i);
                }
            }
        }
        settle();
        check_rest();
    }
    check_end();
}

/* 002-2, 002-3, 002-32, 002-34, 002-36, 002-90, 002-95, 002-98, 002-103: if it failed, participants would know different
 * things for ever, or wait for each other, or leave something behind. */
static void test_worlds(bool aliases)
{
    const char *chosen = getenv("PDI_SEED");
    uint64_t begin = chosen != NULL ? strtoull(chosen, NULL, 10) : 0;
    uint64_t end = chosen != NULL ? begin + 1 : SEEDS;
    for (uint64_t seed = begin; seed < end; seed++) {
        int failures = test_failures;
        run_seed(seed, aliases);
        if (test_failures != failures) {
            printf("seed %" PRIu64 ": %u nodes\n", seed, world.nodes);
            return;
        }
    }
    if (chosen == NULL && !aliases) { /* what never happened would prove nothing */
        CHECK(total_ok > 1000 && total_conflict > 200 && total_links > 1000 && total_taken > 20);
        printf("%" PRIu64 " messages, %" PRIu64 " ok, %" PRIu64 " conflicts, %" PRIu64
               " links, %" PRIu64 " taken\n",
               total_messages, total_ok, total_conflict, total_links, total_taken);
    }
}

/* All declare one id in one tick, by one of `choice` names. */
static void run_contest(uint64_t seed, uint32_t choice)
{
    struct node *first = NULL;
    uint32_t standing = 0;
    const char *name = NULL;
    world_init(seed);
    world.together = true;
    for (uint32_t i = 0; i < world.nodes; i++) {
        world.node[i].features = PYDDSI_CAN_ALL;
        for (uint32_t j = 0; j < i; j++)
            join(i, j);
    }
    for (uint32_t i = 0; i < world.nodes; i++) {
        struct node *node = &world.node[i];
        struct wish *slot = &node->wishes[0];
        int status;
        const char *text = names[draw(choice)];
        memcpy(slot->text, text, strlen(text) + 1);
        slot->wish = (struct pdi_wish){.kind = PYDDSI_RESOURCE, .id = 2};
        slot->wish.text = (pyddsi_bytes){(const uint8_t *)slot->text, strlen(text)};
        CHECK_EQ(pdi_registry_declare(node->registry, &slot->wish, &slot->handle, &status),
                 PYDDSI_OK);
        slot->made = true;
        if (first == NULL || pdi_peer_id_before((pyddsi_bytes){node->id, node->id_size},
                                                (pyddsi_bytes){first->id, first->id_size}))
            first = node;
    }
    settle();
    check_rest();
    CHECK_EQ(pdi_registry_status(first->registry, first->wishes[0].handle), PDI_STATUS_OK);
    for (uint32_t i = 0; i < world.nodes; i++) {
        const struct node *node = &world.node[i];
        int status = pdi_registry_status(node->registry, node->wishes[0].handle);
        pyddsi_bytes known = pdi_registry_name(node->registry, 0, 2);
        standing += status == PDI_STATUS_OK;
        name = first->wishes[0].text;
        CHECK_EQ(known.size, strlen(name));
        CHECK(known.size == strlen(name) && memcmp(known.data, name, known.size) == 0);
        CHECK_EQ(pdi_registry_usage(node->registry).resources, 1);
    }
    CHECK(choice > 1 || standing == world.nodes);
    CHECK(world.now < 100 + 20 * (uint64_t)world.delay); /* a bounded number of rounds */
}

/* 002-2, 002-3: if it failed, those who define one id at the same time would not end with one definition, that of the
 * lowest id, everywhere; or those who agree would not all be well; or it would take for ever. */
static void test_contests(void)
{
    for (uint64_t seed = 0; seed < CONTESTS; seed++) {
        int failures = test_failures;
        run_contest(seed, 1 + (uint32_t)(seed % 3));
        if (test_failures != failures) {
            printf("contest %" PRIu64 ": %u nodes\n", seed, world.nodes);
            return;
        }
    }
}

int main(void)
{
    test_contests();
    test_worlds(false);
    test_worlds(true);
    return test_result();
}
