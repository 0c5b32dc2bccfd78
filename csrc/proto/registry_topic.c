/* registry_topic.c - ids, their names, and who defines them.
 *
 * Definers of a topic are our own resource declarations in force and the definitions of peers. They agree on the name
 * (whoever would make them disagree is refused before), so it is kept once, with the topic, for as long as there is a
 * definer. They need not agree on the quality of service: then the definer with the lowest id counts, which all
 * participants find out alike whatever the order in which they heard of the definers.
 */
#include <string.h>

#include "proto/registry_state.h"
#include "wire/name.h"

uint32_t pdi_topic_find(const struct pdi_registry *registry, uint8_t space, uint64_t id)
{
    uint64_t topic;
    if (id > PDI_REGISTRY_ID_MAX ||
        !pdi_map_get(&registry->topic_map, pdi_topic_key(space, id), &topic))
        return PDI_CHAIN_END;
    return (uint32_t)topic;
}

uint32_t pdi_topic_take(struct pdi_registry *registry, uint8_t space, uint64_t id)
{
    uint32_t topic = pdi_topic_find(registry, space, id);
    if (topic == PDI_CHAIN_END) {
        topic = pdi_slots_get(&registry->topics_free);
        if (topic == PDI_CHAIN_END)
            return topic;
        struct pdi_topic *made = &registry->topics[topic];
        *made = (struct pdi_topic){.key = pdi_topic_key(space, id),
                                   .definitions = PDI_ENDS_EMPTY,
                                   .subscriptions = PDI_ENDS_EMPTY};
        for (int kind = 0; kind <= PYDDSI_BINDING; kind++)
            made->locals[kind] = PDI_ENDS_EMPTY;
        int status = pdi_map_put(&registry->topic_map, made->key, topic);
        PDI_CHECK(status == PYDDSI_OK); /* the map holds as many as there are slots */
        (void)status;
    }
    registry->topics[topic].users++;
    return topic;
}

void pdi_topic_drop(struct pdi_registry *registry, uint32_t topic)
{
    struct pdi_topic *dropped = &registry->topics[topic];
    PDI_CHECK(dropped->users > 0);
    if (--dropped->users > 0)
        return;
    PDI_CHECK(dropped->definers == 0);
    pdi_map_remove(&registry->topic_map, dropped->key);
    pdi_slots_put(&registry->topics_free, topic);
}

int pdi_topic_define(struct pdi_registry *registry, uint32_t topic, pyddsi_bytes name)
{
    struct pdi_topic *defined = &registry->topics[topic];
    if (defined->definers > 0) {
        PDI_CHECK(pdi_text_equal(pdi_topic_name(registry, defined), name));
        defined->definers++;
        return PYDDSI_OK;
    }
    uint32_t unit = pdi_pages_get(&registry->name_pages, pdi_units(name.size));
    if (unit == PDI_PAGES_NONE)
        return PYDDSI_NO_SPACE;
    memcpy(registry->names + (size_t)unit * PDI_REGISTRY_UNIT, name.data, name.size);
    defined->name_unit = unit;
    defined->name_size = (uint16_t)name.size;
    defined->definers = 1;
    registry->named_count++;
    registry->route_changes++;
    int status = pdi_topic_link(registry, topic);
    if (status != PYDDSI_OK)
        pdi_topic_undefine(registry, topic);
    return status;
}

void pdi_topic_undefine(struct pdi_registry *registry, uint32_t topic)
{
    struct pdi_topic *defined = &registry->topics[topic];
    PDI_CHECK(defined->definers > 0);
    if (--defined->definers > 0)
        return;
    pdi_late_put(registry->late, defined->key,
                 (pyddsi_bytes){registry->names + (size_t)defined->name_unit * PDI_REGISTRY_UNIT,
                                defined->name_size});
    pdi_topic_unlink(registry, topic);
    pdi_pages_put(&registry->name_pages, defined->name_unit, pdi_units(defined->name_size));
    registry->named_count--;
    registry->route_changes++;
}

/* ---- selections */

/* The canonical text of a query. OK, or BAD_INPUT. */
static int canonical(pyddsi_bytes query, char text[PDI_NAME_MAX], size_t *size)
{
    pyddsi_fault fault;
    return pdi_name_canonical((const char *)query.data, query.size, text, PDI_NAME_MAX, size,
                              &fault);
}

/* Fills the predicate of a selection. */
static int selection_predicate(struct pdi_registry *registry, struct pdi_selection *selection,
                               pyddsi_bytes text)
{
    pyddsi_fault fault;
    selection->predicate = PDI_CHAIN_END;
    if (text.size == 0)
        return PDI_STATUS_OK;
    uint32_t predicate = pdi_slots_get(&registry->predicates_free);
    if (predicate == PDI_CHAIN_END)
        return PDI_STATUS_SPACE;
    if (pdi_predicate_init(&registry->predicates[predicate], (const char *)text.data, text.size,
                           &fault) != PYDDSI_OK) {
        pdi_slots_put(&registry->predicates_free, predicate);
        return PDI_STATUS_INVALID;
    }
    selection->predicate = predicate;
    return PDI_STATUS_OK;
}

uint32_t pdi_selection_make(struct pdi_registry *registry, pyddsi_bytes query, int *status)
{
    char text[PDI_NAME_MAX];
    size_t size;
    struct pdi_name name;
    pyddsi_fault fault;
    *status = PDI_STATUS_INVALID;
    if (canonical(query, text, &size) != PYDDSI_OK ||
        pdi_name_parse(text, size, &name, &fault) != PYDDSI_OK)
        return PDI_CHAIN_END;
    *status = PDI_STATUS_SPACE;
    uint32_t index = pdi_slots_get(&registry->selections_free);
    if (index == PDI_CHAIN_END)
        return index;
    struct pdi_selection *made = &registry->selections[index];
    *made = (struct pdi_selection){.text_size = (uint16_t)size,
                                   .path_size = (uint16_t)name.path.size,
                                   .tags = (uint8_t)name.tags};
    made->text_unit = pdi_pages_get(&registry->name_pages, pdi_units(size));
    if (made->text_unit != PDI_PAGES_NONE) {
        *status = selection_predicate(registry, made, name.predicate);
        if (*status == PDI_STATUS_OK) {
            memcpy(registry->names + (size_t)made->text_unit * PDI_REGISTRY_UNIT, text, size);
            return index;
        }
        pdi_pages_put(&registry->name_pages, made->text_unit, pdi_units(size));
    }
    pdi_slots_put(&registry->selections_free, index);
    return PDI_CHAIN_END;
}

void pdi_selection_free(struct pdi_registry *registry, uint32_t selection)
{
    const struct pdi_selection *freed = &registry->selections[selection];
    if (freed->predicate != PDI_CHAIN_END)
        pdi_slots_put(&registry->predicates_free, freed->predicate);
    pdi_pages_put(&registry->name_pages, freed->text_unit, pdi_units(freed->text_size));
    pdi_slots_put(&registry->selections_free, selection);
}

pyddsi_bytes pdi_selection_text(const struct pdi_registry *registry, uint32_t selection)
{
    const struct pdi_selection *asked = &registry->selections[selection];
    return (pyddsi_bytes){registry->names + (size_t)asked->text_unit * PDI_REGISTRY_UNIT,
                          asked->text_size};
}

pyddsi_bytes pdi_selection_path(const struct pdi_registry *registry, uint32_t selection)
{
    pyddsi_bytes text = pdi_selection_text(registry, selection);
    text.size = registry->selections[selection].path_size;
    return text;
}

bool pdi_selection_equal(const struct pdi_registry *registry, uint32_t selection,
                         pyddsi_bytes query)
{
    char text[PDI_NAME_MAX];
    size_t size;
    return canonical(query, text, &size) == PYDDSI_OK &&
           pdi_text_equal(pdi_selection_text(registry, selection),
                          (pyddsi_bytes){(const uint8_t *)text, size});
}

/* ---- definitions of peers */

uint64_t pdi_owned_key(uint32_t topic, bool subscription, uint32_t peer)
{
    return (uint64_t)topic << 32 | (uint64_t)subscription << 31 | peer;
}

static uint32_t owned_find(const struct pdi_registry *registry, uint32_t peer, uint32_t topic,
                           bool subscription)
{
    uint64_t index;
    if (topic == PDI_CHAIN_END ||
        !pdi_map_get(&registry->owned, pdi_owned_key(topic, subscription, peer), &index))
        return PDI_CHAIN_END;
    return (uint32_t)index;
}

uint32_t pdi_definition_find(const struct pdi_registry *registry, uint32_t peer, uint32_t topic)
{
    return owned_find(registry, peer, topic, false);
}

uint32_t pdi_subscription_find(const struct pdi_registry *registry, uint32_t peer, uint32_t topic)
{
    return owned_find(registry, peer, topic, true);
}

/* Makes a bare definition; PDI_CHAIN_END: no room. */
static uint32_t definition_make(struct pdi_registry *registry, uint32_t peer, uint8_t space,
                                uint64_t id)
{
    uint32_t topic = pdi_topic_take(registry, space, id);
    if (topic == PDI_CHAIN_END)
        return topic;
    uint32_t index = pdi_slots_get(&registry->definitions_free);
    if (index == PDI_CHAIN_END) {
        pdi_topic_drop(registry, topic);
        return index;
    }
    registry->definitions[index] =
        (struct pdi_definition){.topic = topic, .peer = peer, .selection = PDI_CHAIN_END};
    PDI_CHECK(pdi_definition_find(registry, peer, topic) == PDI_CHAIN_END);
    int status = pdi_map_put(&registry->owned, pdi_owned_key(topic, false, peer), index);
    PDI_CHECK(status == PYDDSI_OK);
    (void)status;
    pdi_lane_append(&registry->lane_peer_definitions, &registry->peers[peer].definitions, index);
    pdi_lane_append(&registry->lane_topic_definitions, &registry->topics[topic].definitions, index);
    return index;
}

static void definition_free(struct pdi_registry *registry, uint32_t index)
{
    const struct pdi_definition *freed = &registry->definitions[index];
    uint32_t topic = freed->topic, peer = freed->peer;
    pdi_map_remove(&registry->owned, pdi_owned_key(topic, false, peer));
    pdi_lane_remove(&registry->lane_peer_definitions, &registry->peers[peer].definitions, index);
    pdi_lane_remove(&registry->lane_topic_definitions, &registry->topics[topic].definitions, index);
    pdi_slots_put(&registry->definitions_free, index);
    pdi_topic_drop(registry, topic);
}

/* Whether the peers' share of the names has room for one more of this peer: three quarters for all of them, half for
 * one. */
static bool names_have_room(const struct pdi_registry *registry, uint32_t peer, uint32_t units)
{
    const struct pdi_pages *pages = &registry->name_pages;
    return pages->free >= units + pages->pages / 4 &&
           registry->peers[peer].name_units + units <= pages->pages / 2;
}

int pdi_definition_resource(struct pdi_registry *registry, uint32_t peer, uint8_t space,
                            uint64_t id, pyddsi_bytes name, uint32_t *definition)
{
    struct pdi_registry_peer *owner = &registry->peers[peer];
    uint32_t topic = pdi_topic_find(registry, space, id);
    bool known = topic != PDI_CHAIN_END && registry->topics[topic].definers > 0;
    uint32_t share = registry->resources_max - registry->resources_max / 2;
    if (owner->resource_count >= share || !names_have_room(registry, peer, pdi_units(name.size)) ||
        (!known && registry->named_count >= registry->resources_max))
        return PDI_STATUS_SPACE;
    uint32_t index = definition_make(registry, peer, space, id);
    if (index == PDI_CHAIN_END)
        return PDI_STATUS_SPACE;
    if (pdi_topic_define(registry, registry->definitions[index].topic, name) != PYDDSI_OK) {
        definition_free(registry, index);
        return PDI_STATUS_SPACE;
    }
    owner->resource_count++;
    owner->name_units += pdi_units(name.size);
    *definition = index;
    return PDI_STATUS_OK;
}

int pdi_definition_selection(struct pdi_registry *registry, uint32_t peer, uint8_t space,
                             uint64_t id, pyddsi_bytes query, uint32_t *definition)
{
    struct pdi_registry_peer *owner = &registry->peers[peer];
    int status;
    uint32_t selection = pdi_selection_make(registry, query, &status);
    if (selection == PDI_CHAIN_END)
        return status;
    const struct pdi_selection *made = &registry->selections[selection];
    uint32_t units = pdi_units(made->text_size);
    bool filters = made->predicate != PDI_CHAIN_END;
    uint32_t index = PDI_CHAIN_END;
    if (owner->selection_count < registry->remotes_peer_max && names_have_room(registry, peer, 0) &&
        owner->name_units + units <= registry->name_pages.pages / 2 &&
        owner->predicate_count + filters <= registry->predicates_free.count / 2)
        index = definition_make(registry, peer, space, id);
    if (index == PDI_CHAIN_END) {
        pdi_selection_free(registry, selection);
        return PDI_STATUS_SPACE;
    }
    owner->selection_count++;
    owner->name_units += units;
    owner->predicate_count += filters;
    registry->definitions[index].selection = selection;
    *definition = index;
    return PDI_STATUS_OK;
}

void pdi_definition_remove(struct pdi_registry *registry, uint32_t definition)
{
    const struct pdi_definition *removed = &registry->definitions[definition];
    struct pdi_registry_peer *owner = &registry->peers[removed->peer];
    if (removed->selection == PDI_CHAIN_END) {
        owner->resource_count--;
        owner->name_units -= pdi_units(registry->topics[removed->topic].name_size);
        pdi_topic_undefine(registry, removed->topic);
    } else {
        const struct pdi_selection *selection = &registry->selections[removed->selection];
        uint32_t subscription = pdi_subscription_find(registry, removed->peer, removed->topic);
        if (subscription != PDI_CHAIN_END)
            pdi_subscription_remove(registry, subscription);
        owner->selection_count--;
        owner->name_units -= pdi_units(selection->text_size);
        owner->predicate_count -= selection->predicate != PDI_CHAIN_END;
        pdi_selection_free(registry, removed->selection);
    }
    definition_free(registry, definition);
}

/* ---- quality of service */

/* Whether the id of peer a (PDI_CHAIN_END: our own) stands before that of b. */
static bool id_before(const struct pdi_registry *registry, uint32_t a, uint32_t b)
{
    const uint8_t *one = a == PDI_CHAIN_END ? registry->id : registry->peers[a].id;
    const uint8_t *two = b == PDI_CHAIN_END ? registry->id : registry->peers[b].id;
    size_t one_size = a == PDI_CHAIN_END ? registry->id_size : registry->peers[a].id_size;
    size_t two_size = b == PDI_CHAIN_END ? registry->id_size : registry->peers[b].id_size;
    return pdi_peer_id_before((pyddsi_bytes){one, one_size}, (pyddsi_bytes){two, two_size});
}

/* The definer that says something of this property (reliability or durability) and has the lowest id: PDI_CHAIN_END is
 * us, any other one is a peer; false if nobody says anything. */
static bool quality(const struct pdi_registry *registry, uint32_t topic, bool reliability,
                    uint8_t *value)
{
    const struct pdi_topic *asked = &registry->topics[topic];
    uint32_t best = PDI_CHAIN_END;
    bool told = false;
    uint32_t at = asked->locals[PYDDSI_RESOURCE].first;
    for (; at != PDI_CHAIN_END && !told; at = pdi_chain_next(&registry->lane_same, at)) {
        const struct pdi_local *local = &registry->locals[at];
        *value = reliability ? local->reliability : local->durability;
        told = *value != 0; /* BY_RESOURCE, VOLATILE: it is not written */
    }
    for (at = asked->definitions.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_topic_definitions, at)) {
        const struct pdi_definition *definition = &registry->definitions[at];
        bool says = reliability ? definition->reliability != PYDDSI_BY_RESOURCE
                                : definition->durability_told;
        if (!says || (told && !id_before(registry, definition->peer, best)))
            continue;
        *value = reliability ? definition->reliability : definition->durability;
        best = definition->peer;
        told = true;
    }
    return told;
}

uint8_t pdi_topic_reliability(const struct pdi_registry *registry, uint32_t topic)
{
    uint8_t value = PYDDSI_BY_RESOURCE;
    return quality(registry, topic, true, &value) ? value : PYDDSI_BY_RESOURCE;
}

uint8_t pdi_topic_durability(const struct pdi_registry *registry, uint32_t topic, bool *told)
{
    uint8_t value = PYDDSI_VOLATILE;
    *told = quality(registry, topic, false, &value);
    return *told ? value : PYDDSI_VOLATILE;
}
