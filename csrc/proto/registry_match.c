/* registry_match.c - which publication is for which subscription, and whom a sample that came is for.
 *
 * A publication p of ours and a subscription s of a peer match if they are in the same space, and
 *
 *     s names a resource:   it is the resource of p, or the names of both are known and have a string in common
 *     s names a selection:  the name of p is known and has a string in common with the selection's path
 *
 * Links are made when either of the two, or a name, appears, and go when one of them goes:
 *
 *     what appears             is compared with                           costs
 *     publication              all subscriptions                          one match each
 *     subscription             all publications; without a name only      one match each
 *                              those of its id
 *     name of a topic          its publications with all subscriptions,   one match each
 *                              its subscriptions with all publications
 *     anything that goes       its own links                              its own links
 *
 * A publication for one (way UNICAST) has links into one peer only: a subscription of another peer is refused, and a name
 * that makes one match is taken without the link; the publication is then marked, and looks again when it is free.
 */
#include "proto/registry_state.h"
#include "wire/match.h"
#include "wire/name.h"

/* The name by which a subscription matches others; size 0 if it is not known. */
static pyddsi_bytes subscription_name(const struct pdi_registry *registry,
                                      const struct pdi_subscription *subscription)
{
    if (subscription->definition == PDI_CHAIN_END)
        return pdi_topic_name(registry, &registry->topics[subscription->topic]);
    return pdi_selection_path(registry, registry->definitions[subscription->definition].selection);
}

static bool matches(const struct pdi_registry *registry, const struct pdi_local *publication,
                    const struct pdi_subscription *subscription)
{
    if (publication->topic == subscription->topic)
        return true;
    if (publication->space != subscription->remote.space)
        return false;
    pyddsi_bytes one = pdi_topic_name(registry, &registry->topics[publication->topic]);
    if (one.size == 0)
        return false;
    pyddsi_bytes two = subscription_name(registry, subscription);
    return two.size > 0 && pdi_intersect(one, two);
}

static uint64_t pair_key(uint32_t publication, uint32_t peer)
{
    return (uint64_t)publication << 32 | peer;
}

static void tell_match(struct pdi_registry *registry, uint8_t kind, uint32_t publication,
                       uint32_t peer)
{
    const struct pdi_local *local = &registry->locals[publication];
    const struct pdi_change change = {.kind = kind,
                                      .space = local->space,
                                      .handle = pdi_local_handle(registry, publication),
                                      .peer = peer,
                                      .id = local->id};
    pdi_registry_tell(registry, &change);
}

/* Whether a publication is for one peer, and that is another one. */
static bool is_taken(const struct pdi_registry *registry, const struct pdi_local *publication,
                     uint32_t peer)
{
    if (publication->way != PYDDSI_WAY_UNICAST || publication->links.first == PDI_CHAIN_END)
        return false;
    const struct pdi_link *link = &registry->links[publication->links.first];
    return registry->subscriptions[link->subscription].remote.peer != peer;
}

/* Joins the two, which match. PDI_STATUS_OK, SPACE or TAKEN. */
static int link_make(struct pdi_registry *registry, uint32_t publication, uint32_t subscription)
{
    struct pdi_local *local = &registry->locals[publication];
    uint32_t peer = registry->subscriptions[subscription].remote.peer;
    if (is_taken(registry, local, peer))
        return PDI_STATUS_TAKEN;
    uint32_t index = pdi_slots_get(&registry->links_free);
    if (index == PDI_CHAIN_END)
        return PDI_STATUS_SPACE;
    registry->links[index] =
        (struct pdi_link){.publication = publication, .subscription = subscription};
    pdi_lane_append(&registry->lane_publication_links, &local->links, index);
    pdi_lane_append(&registry->lane_subscription_links,
                    &registry->subscriptions[subscription].links, index);
    local->link_changes++;
    uint64_t pairs = 0;
    pdi_map_get(&registry->pairs, pair_key(publication, peer), &pairs);
    int status = pdi_map_put(&registry->pairs, pair_key(publication, peer), pairs + 1);
    PDI_CHECK(status == PYDDSI_OK); /* the map holds as many as there are links */
    (void)status;
    if (pairs == 0)
        tell_match(registry, PYDDSI_MATCHED, publication, peer);
    return PDI_STATUS_OK;
}

static void link_free(struct pdi_registry *registry, uint32_t index)
{
    const struct pdi_link *link = &registry->links[index];
    uint32_t publication = link->publication;
    struct pdi_local *local = &registry->locals[publication];
    struct pdi_subscription *subscription = &registry->subscriptions[link->subscription];
    uint32_t peer = subscription->remote.peer;
    uint64_t pairs = 1;
    pdi_lane_remove(&registry->lane_publication_links, &local->links, index);
    pdi_lane_remove(&registry->lane_subscription_links, &subscription->links, index);
    pdi_slots_put(&registry->links_free, index);
    local->link_changes++;
    pdi_map_get(&registry->pairs, pair_key(publication, peer), &pairs);
    if (pairs > 1) {
        pdi_map_put(&registry->pairs, pair_key(publication, peer), pairs - 1);
        return;
    }
    pdi_map_remove(&registry->pairs, pair_key(publication, peer));
    tell_match(registry, PYDDSI_UNMATCHED, publication, peer);
    registry->rescan |= local->skipped;
}

int pdi_subscription_make(struct pdi_registry *registry, const struct pdi_remote *remote,
                          uint32_t definition, uint32_t *subscription)
{
    struct pdi_registry_peer *owner = &registry->peers[remote->peer];
    if (owner->subscription_count >= registry->remotes_peer_max)
        return PDI_STATUS_SPACE;
    uint32_t topic = pdi_topic_take(registry, remote->space, remote->id);
    if (topic == PDI_CHAIN_END)
        return PDI_STATUS_SPACE;
    uint32_t index = pdi_slots_get(&registry->subscriptions_free);
    if (index == PDI_CHAIN_END) {
        pdi_topic_drop(registry, topic);
        return PDI_STATUS_SPACE;
    }
    struct pdi_subscription *made = &registry->subscriptions[index];
    *made = (struct pdi_subscription){
        .remote = *remote, .topic = topic, .definition = definition, .links = PDI_ENDS_EMPTY};
    made->remote.serial = ++registry->serial;
    pdi_map_put(&registry->owned, pdi_owned_key(topic, true, remote->peer), index);
    pdi_lane_append(&registry->lane_peer_subscriptions, &owner->subscriptions, index);
    pdi_lane_append(&registry->lane_topic_subscriptions, &registry->topics[topic].subscriptions,
                    index);
    pdi_lane_append(&registry->lane_subscribers, &registry->subscribers, index);
    owner->subscription_count++;
    *subscription = index;
    bool by_name = subscription_name(registry, made).size > 0;
    const struct pdi_chains *lane = by_name ? &registry->lane_kind : &registry->lane_same;
    uint32_t at = by_name ? registry->publications.first
                          : registry->topics[topic].locals[PYDDSI_PUBLICATION].first;
    int status = PDI_STATUS_OK;
    for (; at != PDI_CHAIN_END && status == PDI_STATUS_OK; at = pdi_chain_next(lane, at)) {
        if (matches(registry, &registry->locals[at], made))
            status = link_make(registry, at, index);
    }
    return status;
}

void pdi_subscription_remove(struct pdi_registry *registry, uint32_t subscription)
{
    struct pdi_subscription *removed = &registry->subscriptions[subscription];
    struct pdi_registry_peer *owner = &registry->peers[removed->remote.peer];
    uint32_t topic = removed->topic;
    while (removed->links.first != PDI_CHAIN_END)
        link_free(registry, removed->links.first);
    pdi_map_remove(&registry->owned, pdi_owned_key(topic, true, removed->remote.peer));
    pdi_lane_remove(&registry->lane_peer_subscriptions, &owner->subscriptions, subscription);
    pdi_lane_remove(&registry->lane_topic_subscriptions, &registry->topics[topic].subscriptions,
                    subscription);
    pdi_lane_remove(&registry->lane_subscribers, &registry->subscribers, subscription);
    owner->subscription_count--;
    pdi_slots_put(&registry->subscriptions_free, subscription);
    pdi_topic_drop(registry, topic);
}

void pdi_subscription_touch(struct pdi_registry *registry, uint32_t subscription)
{
    uint32_t at = registry->subscriptions[subscription].links.first;
    for (; at != PDI_CHAIN_END; at = pdi_chain_next(&registry->lane_subscription_links, at))
        registry->locals[registry->links[at].publication].link_changes++;
}

int pdi_publication_link(struct pdi_registry *registry, uint32_t publication)
{
    const struct pdi_local *local = &registry->locals[publication];
    const struct pdi_topic *topic = &registry->topics[local->topic];
    bool by_name = topic->definers > 0;
    const struct pdi_chains *lane =
        by_name ? &registry->lane_subscribers : &registry->lane_topic_subscriptions;
    uint32_t at = by_name ? registry->subscribers.first : topic->subscriptions.first;
    int status = PDI_STATUS_OK;
    for (; at != PDI_CHAIN_END && status == PDI_STATUS_OK; at = pdi_chain_next(lane, at)) {
        if (matches(registry, local, &registry->subscriptions[at]))
            status = link_make(registry, publication, at);
    }
    return status;
}

void pdi_publication_unlink(struct pdi_registry *registry, uint32_t publication)
{
    while (registry->locals[publication].links.first != PDI_CHAIN_END)
        link_free(registry, registry->locals[publication].links.first);
}

/* Joins the two if they match by their names, and do not match by their ids. OK; NO_SPACE. */
static int link_by_name(struct pdi_registry *registry, uint32_t publication, uint32_t subscription)
{
    struct pdi_local *local = &registry->locals[publication];
    const struct pdi_subscription *other = &registry->subscriptions[subscription];
    if (local->topic == other->topic || !matches(registry, local, other))
        return PYDDSI_OK;
    int status = link_make(registry, publication, subscription);
    if (status == PDI_STATUS_TAKEN)
        local->skipped = true;
    return status == PDI_STATUS_SPACE ? PYDDSI_NO_SPACE : PYDDSI_OK;
}

int pdi_topic_link(struct pdi_registry *registry, uint32_t topic)
{
    int status = PYDDSI_OK;
    uint32_t at, other;
    for (at = registry->topics[topic].locals[PYDDSI_PUBLICATION].first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_same, at)) {
        for (other = registry->subscribers.first; other != PDI_CHAIN_END && status == PYDDSI_OK;
             other = pdi_chain_next(&registry->lane_subscribers, other))
            status = link_by_name(registry, at, other);
    }
    for (at = registry->topics[topic].subscriptions.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_topic_subscriptions, at)) {
        for (other = registry->publications.first; other != PDI_CHAIN_END && status == PYDDSI_OK;
             other = pdi_chain_next(&registry->lane_kind, other))
            status = link_by_name(registry, other, at);
    }
    return status;
}

/* Frees those links of a list that the ids alone would not make. */
static void unlink_names(struct pdi_registry *registry, const struct pdi_chains *lane,
                         const struct pdi_ends *links)
{
    uint32_t next;
    for (uint32_t at = links->first; at != PDI_CHAIN_END; at = next) {
        const struct pdi_link *link = &registry->links[at];
        next = pdi_chain_next(lane, at);
        if (registry->locals[link->publication].topic !=
            registry->subscriptions[link->subscription].topic)
            link_free(registry, at);
    }
}

void pdi_topic_unlink(struct pdi_registry *registry, uint32_t topic)
{
    uint32_t at;
    for (at = registry->topics[topic].locals[PYDDSI_PUBLICATION].first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_same, at))
        unlink_names(registry, &registry->lane_publication_links, &registry->locals[at].links);
    for (at = registry->topics[topic].subscriptions.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_topic_subscriptions, at))
        unlink_names(registry, &registry->lane_subscription_links,
                     &registry->subscriptions[at].links);
}

void pdi_registry_rescan(struct pdi_registry *registry)
{
    if (!registry->rescan)
        return;
    registry->rescan = false;
    for (uint32_t at = registry->publications.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_kind, at)) {
        struct pdi_local *local = &registry->locals[at];
        if (!local->skipped || local->links.first != PDI_CHAIN_END)
            continue;
        local->skipped = false;
        for (uint32_t other = registry->subscribers.first; other != PDI_CHAIN_END;
             other = pdi_chain_next(&registry->lane_subscribers, other)) {
            if (matches(registry, local, &registry->subscriptions[other]) &&
                link_make(registry, at, other) == PDI_STATUS_TAKEN)
                local->skipped = true;
        }
    }
}

/* Whether the peer has still to answer for this one. */
static bool is_learning(const struct pdi_registry *registry, uint32_t peer, uint32_t local)
{
    uint8_t said = *pdi_said(registry, peer, local);
    return said == PDI_SAID_DUE || said == PDI_SAID_CONTESTED || said == PDI_SAID_SENT;
}

bool pdi_registry_knows(const struct pdi_registry *registry, uint32_t publication, uint32_t peer)
{
    uint32_t local = pdi_local_of(registry, publication);
    if (local == PDI_CHAIN_END)
        return false;
    const struct pdi_topic *topic = &registry->topics[registry->locals[local].topic];
    for (uint32_t at = topic->locals[PYDDSI_RESOURCE].first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_same, at)) {
        uint32_t twin = registry->locals[at].twin;
        if (is_learning(registry, peer, at) ||
            (twin != PDI_CHAIN_END && !registry->locals[at].is_alias &&
             (is_learning(registry, peer, twin) ||
              (registry->peers[peer].features == 0 && !registry->locals[twin].in_force))))
            return false;
    }
    return true;
}

/* ---- walking the links */

uint32_t pdi_registry_link_changes(const struct pdi_registry *registry, uint32_t publication)
{
    uint32_t local = pdi_local_of(registry, publication);
    return local == PDI_CHAIN_END ? 0 : registry->locals[local].link_changes;
}

uint32_t pdi_registry_link_first(const struct pdi_registry *registry, uint32_t publication)
{
    uint32_t local = pdi_local_of(registry, publication);
    return local == PDI_CHAIN_END ? PDI_REGISTRY_NONE : registry->locals[local].links.first;
}

uint32_t pdi_registry_link_next(const struct pdi_registry *registry, uint32_t link)
{
    PDI_CHECK(link < registry->links_free.count);
    return registry->links[link].of_publication.next;
}

const struct pdi_remote *pdi_registry_link_remote(const struct pdi_registry *registry,
                                                  uint32_t link)
{
    PDI_CHECK(link < registry->links_free.count);
    return &registry->subscriptions[registry->links[link].subscription].remote;
}

/* ---- routes of samples that came */

/* Whether the sample says itself that it is for this subscription. */
static bool routes_via(const struct pdi_registry *registry, const struct pdi_local *local,
                       uint64_t via)
{
    if (local->id == via)
        return true;
    if (local->id % 2 == 0)
        return false;
    uint32_t binding = registry->topics[local->topic].locals[PYDDSI_BINDING].first;
    return binding != PDI_CHAIN_END && registry->locals[binding].is_global &&
           registry->locals[binding].new_id == via;
}

/* Whether a sample of this id, or of this name, is for this subscription. */
static bool routes_to(const struct pdi_registry *registry, const struct pdi_local *local,
                      uint64_t id, pyddsi_bytes name)
{
    if (id != 0 && local->id == id)
        return true;
    if (name.size == 0)
        return false;
    pyddsi_bytes wanted;
    if (local->id % 2 == 0) {
        wanted = pdi_topic_name(registry, &registry->topics[local->topic]);
    } else {
        uint32_t selection = pdi_local_selection(registry, local->space, local->id);
        if (selection == PDI_CHAIN_END)
            return false;
        wanted = pdi_selection_path(registry, selection);
    }
    return wanted.size > 0 && pdi_intersect(wanted, name);
}

uint32_t pdi_registry_routes(const struct pdi_registry *registry, uint8_t space, uint64_t id,
                             uint64_t via, pyddsi_bytes name, uint32_t *handles, uint32_t max)
{
    uint32_t count = 0;
    if (id != 0 && name.size == 0)
        name = pdi_registry_name(registry, space, id);
    if (name.size > PDI_NAME_MAX)
        return 0;
    for (int pass = via != 0 ? 0 : 1; pass < 2 && count == 0; pass++) {
        for (uint32_t at = registry->listeners.first; at != PDI_CHAIN_END;
             at = pdi_chain_next(&registry->lane_kind, at)) {
            const struct pdi_local *local = &registry->locals[at];
            if (local->space != space || !(pass == 0 ? routes_via(registry, local, via)
                                                     : routes_to(registry, local, id, name)))
                continue;
            if (count < max)
                handles[count] = pdi_local_handle(registry, at);
            count++;
        }
    }
    return count;
}

uint64_t pdi_registry_route_changes(const struct pdi_registry *registry)
{
    return registry->route_changes;
}
