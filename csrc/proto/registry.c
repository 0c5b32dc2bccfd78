/* registry.c - memory, peers coming and going, and what can be asked. */
#include "proto/registry.h"

#include <string.h>

#include "proto/registry_state.h"

/* The sizes that follow from a configuration. */
struct sizes {
    uint32_t locals_max[PYDDSI_BINDING + 1];
    uint32_t locals, topics, definitions, subscriptions, links, selections, predicates;
    uint32_t units, answers, changes, peers;
};

static uint32_t at_least(uint32_t value, uint32_t least)
{
    return value < least ? least : value;
}

static uint32_t at_most(uint64_t value, uint32_t most)
{
    return value > most ? most : (uint32_t)value;
}

static uint32_t count_of(uint32_t value, uint32_t most)
{
    return at_least(at_most(value, most), 1);
}

/* Nothing overflows, whatever the configuration; init refuses what had to be cut down. */
static struct sizes sizes_of(const pyddsi_config *config)
{
    struct sizes sizes = {.peers = count_of(config->peers_max, PYDDSI_PEERS_MAX)};
    uint32_t subscribers = count_of(config->subscribers_max, PDI_REGISTRY_LOCALS_MAX);
    uint32_t resources = count_of(config->resources_max, PDI_REGISTRY_LOCALS_MAX);
    uint32_t publishers = count_of(config->publishers_max, PDI_REGISTRY_LOCALS_MAX);
    uint32_t sharers = at_most(sizes.peers, PDI_REGISTRY_SHARERS_MAX);
    uint64_t links = (uint64_t)publishers * at_most(sizes.peers, 64);
    sizes.locals_max[PYDDSI_RESOURCE] = resources;
    sizes.locals_max[PYDDSI_PUBLICATION] = publishers;
    sizes.locals_max[PYDDSI_SUBSCRIPTION] = subscribers;
    sizes.locals_max[PYDDSI_SELECTION] = subscribers;
    sizes.locals_max[PYDDSI_BINDING] = subscribers;
    for (int kind = 0; kind <= PYDDSI_BINDING; kind++)
        sizes.locals += 2 * sizes.locals_max[kind]; /* as many again may wait to be forgotten */
    sizes.subscriptions = count_of(config->remotes_max, PDI_REGISTRY_REMOTES_MAX);
    sizes.definitions = resources * sharers + sizes.subscriptions;
    sizes.selections = subscribers * 2 + sizes.subscriptions;
    sizes.topics = 2 * resources + sizes.locals + 2 * sizes.subscriptions;
    sizes.links = at_least(at_most(links, 1U << 24), 8 * sizes.subscriptions);
    sizes.predicates = 16 + resources / 4;
    sizes.units = at_least(config->names_bytes / PDI_REGISTRY_UNIT, 4);
    sizes.answers = (uint32_t)config->commit_mode + 8;
    sizes.changes = at_least(config->events_max, 16);
    return sizes;
}

/* The capacity of a map that holds so many keys. */
static uint32_t map_capacity(uint32_t keys)
{
    uint32_t capacity = PDI_MAP_CAPACITY_MIN;
    while (PDI_MAP_LIMIT(capacity) < keys)
        capacity *= 2;
    return capacity;
}

static void map_lay(struct pdi_map *map, uint32_t keys, const pyddsi_config *config, uint64_t salt,
                    struct pdi_carve *carve)
{
    uint32_t capacity = map_capacity(keys);
    struct pdi_map_slot *slots = pdi_carve(carve, capacity, sizeof *slots);
    uint64_t *used = pdi_carve_bits(carve, capacity);
    uint64_t seed[2] = {config->seed, ~config->seed + salt};
    if (slots != NULL)
        pdi_map_init(map, slots, used, capacity, seed);
}

/* An array and its free list. */
static void *slots_lay(struct pdi_slots *slots, uint32_t count, size_t item_bytes,
                       struct pdi_carve *carve)
{
    void *items = pdi_carve(carve, count, item_bytes);
    uint32_t *next = pdi_carve(carve, count, sizeof *next);
    if (items != NULL) {
        pdi_carve_clear(carve, items, count * item_bytes);
        pdi_slots_init(slots, next, count);
    }
    return items;
}

/* Cuts everything; while measuring |to| is a dummy. */
static void lay_out(struct pdi_registry *to, const pyddsi_config *config, const struct sizes *sizes,
                    struct pdi_carve *carve)
{
    size_t said = (size_t)sizes->peers * sizes->locals;
    to->peers = pdi_carve(carve, sizes->peers, sizeof *to->peers);
    to->joined = pdi_carve_bits(carve, sizes->peers);
    to->said = pdi_carve(carve, said, 1);
    to->asides = pdi_carve(carve, sizes->peers, config->transaction_bytes);
    to->answers = pdi_carve(carve, (size_t)sizes->peers * sizes->answers, sizeof *to->answers);
    to->locals = slots_lay(&to->locals_free, sizes->locals, sizeof *to->locals, carve);
    to->topics = slots_lay(&to->topics_free, sizes->topics, sizeof *to->topics, carve);
    to->definitions =
        slots_lay(&to->definitions_free, sizes->definitions, sizeof *to->definitions, carve);
    to->subscriptions =
        slots_lay(&to->subscriptions_free, sizes->subscriptions, sizeof *to->subscriptions, carve);
    to->links = slots_lay(&to->links_free, sizes->links, sizeof *to->links, carve);
    to->selections =
        slots_lay(&to->selections_free, sizes->selections, sizeof *to->selections, carve);
    to->predicates =
        slots_lay(&to->predicates_free, sizes->predicates, sizeof *to->predicates, carve);
    to->names = pdi_carve(carve, sizes->units, PDI_REGISTRY_UNIT);
    uint64_t *pages = pdi_carve_bits(carve, sizes->units);
    to->late = pdi_carve(carve, 1, sizeof *to->late);
    to->changes = pdi_carve(carve, sizes->changes, sizeof *to->changes);
    map_lay(&to->topic_map, sizes->topics, config, 1, carve);
    map_lay(&to->owned, sizes->definitions + sizes->subscriptions, config, 2, carve);
    map_lay(&to->pairs, sizes->links, config, 3, carve);
    if (pages == NULL)
        return;
    pdi_pages_init(&to->name_pages, pages, sizes->units);
    pdi_carve_clear(carve, to->late, sizeof *to->late); /* as pdi_late_init, for less memory */
    pdi_carve_clear(carve, to->peers, sizes->peers * sizeof *to->peers);
    pdi_carve_clear(carve, to->said, said); /* PDI_SAID_NOTHING */
}

#define LANE(array, member) ((struct pdi_chains){&(array)->member, sizeof *(array)})

static void lanes_init(struct pdi_registry *registry)
{
    registry->all = registry->publications = registry->listeners = PDI_ENDS_EMPTY;
    registry->subscribers = PDI_ENDS_EMPTY;
    registry->lane_all = LANE(registry->locals, of_all);
    registry->lane_same = LANE(registry->locals, of_topic);
    registry->lane_kind = LANE(registry->locals, of_kind);
    registry->lane_peer_definitions = LANE(registry->definitions, of_peer);
    registry->lane_topic_definitions = LANE(registry->definitions, of_topic);
    registry->lane_peer_subscriptions = LANE(registry->subscriptions, of_peer);
    registry->lane_topic_subscriptions = LANE(registry->subscriptions, of_topic);
    registry->lane_subscribers = LANE(registry->subscriptions, of_all);
    registry->lane_publication_links = LANE(registry->links, of_publication);
    registry->lane_subscription_links = LANE(registry->links, of_subscription);
}

size_t pdi_registry_size(const pyddsi_config *config)
{
    struct sizes sizes = sizes_of(config);
    struct pdi_registry measured;
    struct pdi_carve carve = {0};
    pdi_carve(&carve, 1, sizeof measured);
    lay_out(&measured, config, &sizes, &carve);
    return carve.size + PDI_CACHE_LINE; /* whoever carves on begins on a line of its own */
}

int pdi_registry_init(struct pdi_registry **registry, const pyddsi_config *config,
                      struct pdi_carve *carve)
{
    struct sizes sizes = sizes_of(config);
    struct pdi_registry unused;
    struct pdi_registry *made = pdi_carve(carve, 1, sizeof *made);
    if (sizes.locals > PDI_REGISTRY_LOCALS_MAX || config->peers_max > PYDDSI_PEERS_MAX ||
        config->remotes_max > PDI_REGISTRY_REMOTES_MAX || config->id_size > PYDDSI_ID_MAX ||
        config->rid_bits > 64)
        return PYDDSI_BAD_ARGUMENT;
    if (made == NULL) {
        lay_out(&unused, config, &sizes, carve);
        return PYDDSI_OK;
    }
    *made = (struct pdi_registry){
        .id_size = config->id_size,
        .features = config->features,
        .rounds_max = PDI_REGISTRY_ROUNDS_MAX,
        .peers_max = sizes.peers,
        .resources_max = sizes.locals_max[PYDDSI_RESOURCE],
        .remotes_peer_max = at_least(config->remotes_peer_max, 1),
        .aside_max = config->transaction_bytes,
        .answers_max = sizes.answers,
        .changes_max = sizes.changes,
    };
    memcpy(made->id, config->id, config->id_size);
    memcpy(made->locals_max, sizes.locals_max, sizeof made->locals_max);
    made->id_max = config->rid_bits == 0 || config->rid_bits >= 56
                       ? PDI_REGISTRY_ID_MAX
                       : (UINT64_C(1) << config->rid_bits) - 1;
    lay_out(made, config, &sizes, carve);
    lanes_init(made);
    *registry = made;
    return PYDDSI_OK;
}

void pdi_registry_join(struct pdi_registry *registry, uint32_t peer, pyddsi_bytes id,
                       uint32_t features, uint64_t commit_mode)
{
    PDI_CHECK(peer < registry->peers_max && id.size <= PYDDSI_ID_MAX);
    struct pdi_registry_peer *joins = &registry->peers[peer];
    if (joins->joined)
        pdi_registry_leave(registry, peer);
    const struct pdi_widths widths = pdi_width_recall(registry, id);
    *joins = (struct pdi_registry_peer){
        .joined = true,
        .id_size = (uint8_t)id.size,
        .features = features,
        .widths = widths,
        .cursor = PDI_CHAIN_END,
        .batches_max = at_least(at_most(commit_mode, PDI_REGISTRY_BATCHES_MAX), 1),
        .batch_max = PDI_REGISTRY_BATCH_MAX,
        .definitions = PDI_ENDS_EMPTY,
        .subscriptions = PDI_ENDS_EMPTY,
    };
    if (id.size > 0)
        memcpy(joins->id, id.data, id.size);
    if (features == 0)
        pdi_alias_begin(registry);
    pdi_bitset_set(registry->joined, peer);
    for (uint32_t local = registry->all.first; local != PDI_CHAIN_END;
         local = pdi_chain_next(&registry->lane_all, local)) {
        if (registry->locals[local].live && pdi_local_for(registry, peer, local))
            pdi_local_said(registry, peer, local, PDI_SAID_DUE);
    }
}

void pdi_registry_leave(struct pdi_registry *registry, uint32_t peer)
{
    PDI_CHECK(peer < registry->peers_max);
    struct pdi_registry_peer *leaves = &registry->peers[peer];
    if (!leaves->joined)
        return;
    while (leaves->subscriptions.first != PDI_CHAIN_END)
        pdi_subscription_remove(registry, leaves->subscriptions.first);
    while (leaves->definitions.first != PDI_CHAIN_END)
        pdi_definition_remove(registry, leaves->definitions.first);
    uint32_t next;
    for (uint32_t local = registry->all.first; local != PDI_CHAIN_END; local = next) {
        next = pdi_chain_next(&registry->lane_all, local);
        if (*pdi_said(registry, peer, local) == PDI_SAID_NOTHING)
            continue;
        pdi_local_said(registry, peer, local, PDI_SAID_NOTHING);
        pdi_local_settle(registry, local);
        pdi_local_retire(registry, local);
    }
    pdi_bitset_clear(registry->joined, peer);
    leaves->joined = false;
    leaves->aside = leaves->answers = leaves->batches = 0;
    pdi_registry_rescan(registry);
}

void pdi_registry_tell(struct pdi_registry *registry, const struct pdi_change *change)
{
    if (registry->quiet)
        return;
    if (registry->change_count == registry->changes_max) {
        registry->changes_lost++;
        return;
    }
    uint32_t at = (registry->change_first + registry->change_count++) % registry->changes_max;
    registry->changes[at] = *change;
}

int pdi_registry_change(struct pdi_registry *registry, struct pdi_change *change)
{
    if (registry->change_count == 0)
        return PYDDSI_END;
    *change = registry->changes[registry->change_first];
    registry->change_first = (registry->change_first + 1) % registry->changes_max;
    registry->change_count--;
    return PYDDSI_OK;
}

uint64_t pdi_registry_changes_lost(const struct pdi_registry *registry)
{
    return registry->changes_lost;
}

int pdi_registry_status(const struct pdi_registry *registry, uint32_t handle)
{
    uint32_t index = pdi_local_of(registry, handle);
    if (index == PDI_CHAIN_END)
        return PYDDSI_BAD_ARGUMENT;
    const struct pdi_local *local = &registry->locals[index];
    return local->lost                             ? PDI_STATUS_CONFLICT
           : pdi_local_waits(registry, local) != 0 ? PDI_REGISTRY_PENDING
                                                   : pdi_local_worst(registry, local);
}

pyddsi_bytes pdi_registry_name(const struct pdi_registry *registry, uint8_t space, uint64_t id)
{
    uint32_t topic = pdi_topic_find(registry, space, id);
    if (topic == PDI_CHAIN_END)
        return (pyddsi_bytes){NULL, 0};
    return pdi_topic_name(registry, &registry->topics[topic]);
}

pyddsi_bytes pdi_registry_name_late(const struct pdi_registry *registry, uint8_t space, uint64_t id)
{
    pyddsi_bytes name = pdi_registry_name(registry, space, id);
    return name.size != 0 || id > PDI_REGISTRY_ID_MAX
               ? name
               : pdi_late_find(registry->late, pdi_topic_key(space, id));
}

uint8_t pdi_registry_reliability(const struct pdi_registry *registry, uint8_t space, uint64_t id)
{
    uint32_t topic = pdi_topic_find(registry, space, id);
    return topic == PDI_CHAIN_END ? PYDDSI_BY_RESOURCE : pdi_topic_reliability(registry, topic);
}

uint8_t pdi_registry_durability(const struct pdi_registry *registry, uint8_t space, uint64_t id)
{
    bool told;
    uint32_t topic = pdi_topic_find(registry, space, id);
    return topic == PDI_CHAIN_END ? PYDDSI_VOLATILE : pdi_topic_durability(registry, topic, &told);
}

struct pdi_registry_usage pdi_registry_usage(const struct pdi_registry *registry)
{
    return (struct pdi_registry_usage){
        .locals = registry->locals_free.used,
        .resources = registry->named_count,
        .remotes = registry->subscriptions_free.used,
        .links = registry->links_free.used,
        .name_bytes = (registry->name_pages.pages - registry->name_pages.free) * PDI_REGISTRY_UNIT,
        .selections = registry->selections_free.used,
    };
}
