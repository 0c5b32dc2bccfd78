/* registry_look.c - what the peers have declared, as a list for people, and whether it covers a name. */
#include "proto/registry_state.h"
#include "wire/match.h"

struct look {
    pyddsi_known *known;
    size_t max, count;
    uint8_t *names;
    size_t room, used;
};

/* One more; the list goes on being counted when it is full, and a name that does not fit is left out. */
static void add(struct look *look, pyddsi_known known, pyddsi_bytes name)
{
    if (look->count++ >= look->max) {
        return;
    }
    if (name.size != 0 && name.size <= look->room - look->used) {
        memcpy(look->names + look->used, name.data, name.size);
        known.name_at = (uint32_t)look->used;
        known.name_size = (uint32_t)name.size;
        look->used += name.size;
    }
    look->known[look->count - 1] = known;
}

static void add_definitions(const struct pdi_registry *registry, uint32_t peer, struct look *look)
{
    for (uint32_t at = registry->peers[peer].definitions.first; at != PDI_CHAIN_END;
         at = registry->definitions[at].of_peer.next) { /* at most resources_max */
        const struct pdi_definition *definition = &registry->definitions[at];
        const struct pdi_topic *topic = &registry->topics[definition->topic];
        bool resource = definition->selection == PDI_CHAIN_END;
        pyddsi_bytes name = pdi_topic_name(registry, topic);
        if (!resource) {
            const struct pdi_selection *selection = &registry->selections[definition->selection];
            name =
                (pyddsi_bytes){registry->names + (size_t)selection->text_unit * PDI_REGISTRY_UNIT,
                               selection->text_size};
        }
        add(look,
            (pyddsi_known){.peer = peer,
                           .kind = resource ? PYDDSI_RESOURCE : PYDDSI_SELECTION,
                           .space = pdi_topic_space(topic),
                           .id = pdi_topic_id(topic)},
            name);
    }
}

static void add_subscriptions(const struct pdi_registry *registry, uint32_t peer, struct look *look)
{
    for (uint32_t at = registry->peers[peer].subscriptions.first; at != PDI_CHAIN_END;
         at = registry->subscriptions[at].of_peer.next) { /* at most remotes_peer_max */
        const struct pdi_subscription *subscription = &registry->subscriptions[at];
        const struct pdi_topic *topic = &registry->topics[subscription->topic];
        add(look,
            (pyddsi_known){.peer = peer,
                           .kind = PYDDSI_SUBSCRIPTION,
                           .space = pdi_topic_space(topic),
                           .mode = subscription->remote.mode,
                           .id = pdi_topic_id(topic)},
            pdi_topic_name(registry, topic));
    }
}

size_t pdi_registry_known(const struct pdi_registry *registry, pyddsi_known *known, size_t max,
                          uint8_t *names, size_t room)
{
    struct look look = {.known = known, .max = max, .names = names, .room = room};
    for (uint32_t peer = 0; peer < registry->peers_max; peer++) {
        if (registry->peers[peer].joined) {
            add_definitions(registry, peer, &look);
            add_subscriptions(registry, peer, &look);
        }
    }
    return look.count;
}

bool pdi_registry_wants(const struct pdi_registry *registry, uint32_t peer, pyddsi_bytes name)
{
    bool wants = false;
    for (uint32_t at = registry->peers[peer].subscriptions.first; at != PDI_CHAIN_END && !wants;
         at = registry->subscriptions[at].of_peer.next) { /* at most remotes_peer_max */
        const struct pdi_subscription *one = &registry->subscriptions[at];
        pyddsi_bytes wanted =
            one->definition == PDI_CHAIN_END
                ? pdi_topic_name(registry, &registry->topics[one->topic])
                : pdi_selection_path(registry, registry->definitions[one->definition].selection);
        wants = wanted.size > 0 && pdi_intersect(wanted, name);
    }
    return wants;
}

int pdi_registry_taken(const struct pdi_registry *registry, uint32_t handle, uint32_t peer)
{
    uint32_t local = pdi_local_of(registry, handle);
    if (local == PDI_CHAIN_END)
        return PDI_STATUS_OTHER;
    switch (*pdi_said(registry, peer, local)) {
    case PDI_SAID_OK:
        return PDI_STATUS_OK;
    case PDI_SAID_DUE:
    case PDI_SAID_CONTESTED:
    case PDI_SAID_SENT:
        return PDI_REGISTRY_PENDING;
    default:
        return PDI_STATUS_OTHER;
    }
}

bool pdi_registry_told(const struct pdi_registry *registry, uint32_t peer)
{
    return registry->peers[peer].told;
}

uint64_t pdi_registry_settles(const struct pdi_registry *registry)
{
    return registry->settles;
}
