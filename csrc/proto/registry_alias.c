/* registry_alias.c - the numbers by which names are told to peers without features, which is to say to zhe.
 *
 * Our own peers find the same number for a name without asking, since it is made of the name; so it is large. zhe's tables
 * take small numbers only, the least of them below 128, and a number that is wider than its ids ends its session. Towards
 * such peers a name whose number is of our choice therefore has a second one, its alias:
 *
 *     resource 91823 /plant/pose ── twin ── resource 77 /plant/pose       told to all: samples that a group with a zhe in
 *                                                                         it hears carry this number
 *     subscription 91823 ────────── twin ── subscription 77               told to peers without features alone
 *
 * A twin is a declaration like any other, with its own state for each peer, but no handle. All are made when the first peer
 * without features joins, and from then on with what they belong to, so a session without zhe has none.
 *
 * Which number: one that a peer without features has declared for the very name; else the first of 64 to 127, beginning
 * where the name's hash says, then from 128 on, that nothing known speaks of. 1 to 63 are left to programs. A peer that has
 * another use for it says so, with a result or a declaration of its own; then the alias moves on to another number, a
 * limited number of times.
 *
 * A number is in force, for what groups hear, when all peers with features know it, and from then on; who comes later gets
 * samples when it knows it, too (pdi_registry_knows).
 */
#include "proto/registry_state.h"

enum {
    SMALL_FROM = 64, /* doubled they fit eight bits */
    SMALL_UNTIL = 128,
    WIDE_UNTIL = 1 << 15, /* doubled they fit sixteen bits */
    MOVES_MAX = 100
};

static uint32_t hash(pyddsi_bytes name)
{
    uint32_t sum = 2166136261U; /* FNV-1a */
    for (size_t i = 0; i < name.size; i++)
        sum = (sum ^ name.data[i]) * 16777619U;
    return sum ^ sum >> 15;
}

/* Whether nothing speaks of this number, or all that does calls it by this name. */
static bool is_free(const struct pdi_registry *registry, uint8_t space, uint64_t number,
                    pyddsi_bytes name)
{
    uint32_t topic = pdi_topic_find(registry, space, number << 1);
    return topic == PDI_CHAIN_END ||
           (registry->topics[topic].definers > 0 &&
            pdi_text_equal(pdi_topic_name(registry, &registry->topics[topic]), name));
}

/* The id by which this peer has declared the name, at most `most`; 0: it has not. */
static uint64_t declared_by(const struct pdi_registry *registry, uint32_t peer, uint8_t space,
                            pyddsi_bytes name, uint64_t most)
{
    for (uint32_t at = registry->peers[peer].definitions.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_peer_definitions, at)) {
        const struct pdi_topic *topic = &registry->topics[registry->definitions[at].topic];
        if (registry->definitions[at].selection == PDI_CHAIN_END &&
            pdi_topic_space(topic) == space && pdi_topic_id(topic) <= most &&
            pdi_text_equal(pdi_topic_name(registry, topic), name))
            return pdi_topic_id(topic);
    }
    return 0;
}

/* The alias of a name; 0: there is none. */
static uint64_t choose(struct pdi_registry *registry, struct pdi_local *main, pyddsi_bytes name)
{
    for (uint32_t peer = pdi_bitset_find(registry->joined, registry->peers_max, 0);
         main->moves == 0 && peer < registry->peers_max;
         peer = pdi_bitset_find(registry->joined, registry->peers_max, peer + 1)) {
        uint64_t id =
            registry->peers[peer].features == 0
                ? declared_by(registry, peer, main->space, name, UINT64_C(2) * (WIDE_UNTIL - 1))
                : 0;
        if (id != 0)
            return id;
    }
    for (uint32_t span = SMALL_UNTIL - SMALL_FROM; main->probes < span;) {
        uint32_t number = SMALL_FROM + (hash(name) + main->probes++) % span;
        if (is_free(registry, main->space, number, name))
            return (uint64_t)number << 1;
    }
    while (registry->alias_next < WIDE_UNTIL - SMALL_UNTIL) {
        uint32_t number = SMALL_UNTIL + registry->alias_next++;
        if (is_free(registry, main->space, number, name))
            return (uint64_t)number << 1;
    }
    return 0;
}

/* The resource of ours that has an alias for this topic. */
static uint32_t aliased(const struct pdi_registry *registry, uint32_t topic)
{
    uint32_t at = registry->topics[topic].locals[PYDDSI_RESOURCE].first;
    while (at != PDI_CHAIN_END &&
           (registry->locals[at].is_alias || registry->locals[at].twin == PDI_CHAIN_END))
        at = pdi_chain_next(&registry->lane_same, at);
    return at;
}

bool pdi_alias_hides(const struct pdi_registry *registry, uint32_t local)
{
    const struct pdi_local *told = &registry->locals[local];
    if (told->kind == PYDDSI_SUBSCRIPTION)
        return !told->is_alias && told->twin != PDI_CHAIN_END;
    return !told->is_alias && aliased(registry, told->topic) != PDI_CHAIN_END;
}

static void twin_make(struct pdi_registry *registry, uint32_t main, uint64_t id, pyddsi_bytes name)
{
    const struct pdi_local *one = &registry->locals[main];
    const struct pdi_wish wish = {.kind = one->kind,
                                  .space = one->space,
                                  .reliability = one->reliability,
                                  .durability = one->durability,
                                  .mode = one->mode,
                                  .id = id,
                                  .text = name};
    uint32_t twin;
    int status;
    if (pdi_local_make(registry, &wish, main, &twin, &status) != PYDDSI_OK)
        return; /* a table is full: peers without features are told the number itself */
    registry->locals[main].twin = twin;
    pdi_local_tell(registry, twin);
}

/* Twins for the resource, and for the subscriptions to it. */
static void resource_alias(struct pdi_registry *registry, uint32_t main, uint64_t id)
{
    const struct pdi_topic *topic = &registry->topics[registry->locals[main].topic];
    if (id != 0)
        twin_make(registry, main, id, pdi_topic_name(registry, topic));
    if (registry->locals[main].twin == PDI_CHAIN_END)
        return;
    for (uint32_t at = topic->locals[PYDDSI_SUBSCRIPTION].first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_same, at)) {
        if (!registry->locals[at].is_alias && registry->locals[at].twin == PDI_CHAIN_END)
            twin_make(registry, at, id, (pyddsi_bytes){NULL, 0});
    }
}

void pdi_alias_make(struct pdi_registry *registry, uint32_t main)
{
    struct pdi_local *one = &registry->locals[main];
    if (!registry->aliasing || one->is_alias || !one->live || one->twin != PDI_CHAIN_END)
        return;
    uint32_t named = aliased(registry, one->topic);
    if (one->kind == PYDDSI_RESOURCE && one->is_chosen && named == PDI_CHAIN_END) {
        pyddsi_bytes name = pdi_topic_name(registry, &registry->topics[one->topic]);
        resource_alias(registry, main, choose(registry, one, name));
    } else if (one->kind == PYDDSI_SUBSCRIPTION && named != PDI_CHAIN_END) {
        twin_make(registry, main, registry->locals[registry->locals[named].twin].id,
                  (pyddsi_bytes){NULL, 0});
    }
}

void pdi_alias_begin(struct pdi_registry *registry)
{
    if (registry->aliasing)
        return;
    registry->aliasing = true;
    uint32_t last = registry->all.last; /* what is made here stands behind it */
    for (uint32_t at = registry->all.first; at != PDI_CHAIN_END;
         at = at == last ? PDI_CHAIN_END : pdi_chain_next(&registry->lane_all, at))
        pdi_alias_make(registry, at);
}

/* Another resource of ours that says the same; PDI_CHAIN_END: none. */
static uint32_t heir_of(const struct pdi_registry *registry, uint32_t main)
{
    const struct pdi_local *one = &registry->locals[main];
    uint32_t at = PDI_CHAIN_END;
    if (one->kind == PYDDSI_RESOURCE)
        at = registry->topics[one->topic].locals[PYDDSI_RESOURCE].first;
    while (at != PDI_CHAIN_END &&
           (at == main || registry->locals[at].is_alias || !registry->locals[at].is_chosen))
        at = pdi_chain_next(&registry->lane_same, at);
    return at;
}

static void twin_drop(struct pdi_registry *registry, uint32_t main)
{
    uint32_t twin = registry->locals[main].twin;
    if (twin == PDI_CHAIN_END || registry->locals[main].is_alias)
        return;
    registry->locals[main].twin = registry->locals[twin].twin = PDI_CHAIN_END;
    pdi_local_withdraw(registry, twin);
    pdi_local_retire(registry, twin);
}

void pdi_alias_drop(struct pdi_registry *registry, uint32_t main)
{
    PDI_CHECK(!registry->locals[main].is_alias);
    uint32_t twin = registry->locals[main].twin;
    uint32_t heir = twin == PDI_CHAIN_END ? twin : heir_of(registry, main);
    if (heir == PDI_CHAIN_END) {
        twin_drop(registry, main);
        return;
    }
    registry->locals[main].twin = PDI_CHAIN_END;
    registry->locals[heir].twin = twin;
    registry->locals[twin].twin = heir;
}

/* Takes the alias of a resource, and those of the subscriptions to it, back everywhere. */
static void resource_drop(struct pdi_registry *registry, uint32_t main)
{
    const struct pdi_topic *topic = &registry->topics[registry->locals[main].topic];
    twin_drop(registry, main);
    for (uint32_t at = topic->locals[PYDDSI_SUBSCRIPTION].first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_same, at))
        twin_drop(registry, at);
}

bool pdi_alias_move(struct pdi_registry *registry, uint32_t twin, uint32_t peer, uint8_t status)
{
    uint32_t main = registry->locals[twin].twin;
    if (main == PDI_CHAIN_END)
        return false;
    if (registry->locals[main].kind == PYDDSI_SUBSCRIPTION)
        main = aliased(registry, registry->locals[main].topic);
    if (main == PDI_CHAIN_END || registry->locals[main].moves == MOVES_MAX)
        return false;
    struct pdi_local *moves = &registry->locals[main];
    uint64_t before = registry->locals[moves->twin].id, id = 0;
    pyddsi_bytes name = pdi_topic_name(registry, &registry->topics[moves->topic]);
    if (peer != PDI_REGISTRY_NONE)
        id = declared_by(registry, peer, moves->space, name, PDI_REGISTRY_ID_MAX);
    bool other = status == PDI_STATUS_CONFLICT || status == PDI_STATUS_RETRY ||
                 (status == PDI_STATUS_INVALID && before >= UINT64_C(2) * SMALL_FROM &&
                  registry->locals[twin].kind == PYDDSI_SUBSCRIPTION);
    moves->moves++;
    if (id == 0 || id == before)
        id = other ? choose(registry, moves, name) : 0;
    if (id == 0)
        return false; /* no number helps */
    resource_drop(registry, main);
    resource_alias(registry, main, id);
    return true;
}

void pdi_alias_hear(struct pdi_registry *registry, uint32_t peer, pyddsi_bytes name)
{
    if (!registry->peers[peer].refuses)
        return;
    for (uint32_t at = registry->all.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_all, at)) {
        const struct pdi_local *local = &registry->locals[at];
        if (local->is_alias && local->live && local->kind == PYDDSI_RESOURCE &&
            *pdi_said(registry, peer, at) == PDI_SAID_FAILED &&
            pdi_text_equal(pdi_topic_name(registry, &registry->topics[local->topic]), name)) {
            (void)pdi_alias_move(registry, at, peer, local->status);
            return;
        }
    }
}

void pdi_alias_yield(struct pdi_registry *registry, uint8_t space, uint64_t id, pyddsi_bytes name)
{
    uint32_t topic = pdi_topic_find(registry, space, id), next;
    if (!registry->aliasing || topic == PDI_CHAIN_END ||
        pdi_text_equal(pdi_topic_name(registry, &registry->topics[topic]), name) ||
        registry->topics[topic].definitions.first != PDI_CHAIN_END)
        return;
    for (uint32_t at = registry->topics[topic].locals[PYDDSI_RESOURCE].first; at != PDI_CHAIN_END;
         at = next) {
        next = pdi_chain_next(&registry->lane_same, at);
        if (registry->locals[at].is_alias &&
            !pdi_alias_move(registry, at, PDI_REGISTRY_NONE, PDI_STATUS_CONFLICT))
            resource_drop(registry, registry->locals[at].twin);
        if (pdi_topic_find(registry, space, id) != topic)
            return; /* nothing speaks of it any more */
    }
}

uint64_t pdi_registry_told_id(const struct pdi_registry *registry, uint8_t space, uint64_t id,
                              bool by_group)
{
    uint32_t topic = registry->aliasing ? pdi_topic_find(registry, space, id) : PDI_CHAIN_END;
    uint32_t main = topic == PDI_CHAIN_END ? topic : aliased(registry, topic);
    if (main == PDI_CHAIN_END)
        return id;
    const struct pdi_local *twin = &registry->locals[registry->locals[main].twin];
    return by_group && !twin->in_force ? id : twin->id;
}
