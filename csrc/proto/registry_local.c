/* registry_local.c - what we declare, and how far each peer has heard of it.
 *
 * The states of one declaration with one peer (enum pdi_said):
 *
 *                  ┌── try again ──► CONTESTED ──┐
 *     NOTHING ─► DUE ──────────────────────────► SENT ──► OK
 *                  ▲  ◄── the batch failed ───────┤ └───► FAILED
 *                                                 │ withdrawn
 *     NOTHING ◄───── refused ─────────────────── DYING
 *        ▲                                        │ accepted
 *        └──── FORGET_SENT ◄──── FORGET_DUE ◄─────┴──── withdrawn, from OK
 *
 * One that is withdrawn in DUE was never told, and is not told (002-36). A slot is free again when the application has
 * let go of the handle and no peer is in any state but NOTHING.
 *
 * What has an alias (registry_alias.c) is told to peers without features by that alone, and is settled when both are.
 *
 * The file is long because all changes of these states are in it.
 *
 * Several declarations of ours may say the same (two subscriptions to one resource): each is told, which costs little
 * as the peers take the second for a repetition, and only the last one that is withdrawn is taken back.
 */
#include "proto/registry_state.h"

enum { GENERATIONS = 4095 }; /* so that no handle is PDI_REGISTRY_NONE */

uint32_t pdi_local_handle(const struct pdi_registry *registry, uint32_t local)
{
    return (uint32_t)registry->locals[local].generation * PDI_REGISTRY_LOCALS_MAX + local;
}

/* Whether a peer in this state does not know it, and should. */
static bool owes(enum pdi_said said)
{
    return said != PDI_SAID_NOTHING && said != PDI_SAID_OK;
}

void pdi_local_said(struct pdi_registry *registry, uint32_t peer, uint32_t local,
                    enum pdi_said said)
{
    uint8_t *at = pdi_said(registry, peer, local);
    struct pdi_registry_peer *hears = &registry->peers[peer];
    struct pdi_local *told = &registry->locals[local];
    enum pdi_said before = (enum pdi_said) * at;
    told->said[before] -= before != PDI_SAID_NOTHING;
    told->said[said] += said != PDI_SAID_NOTHING;
    hears->todo -= before == PDI_SAID_DUE || before == PDI_SAID_FORGET_DUE;
    hears->todo += said == PDI_SAID_DUE || said == PDI_SAID_FORGET_DUE;
    hears->dying -= before == PDI_SAID_DYING;
    hears->dying += said == PDI_SAID_DYING;
    hears->contested -= before == PDI_SAID_CONTESTED;
    hears->contested += said == PDI_SAID_CONTESTED;
    hears->stalled = false;
    if (told->is_alias && told->kind == PYDDSI_RESOURCE && hears->features != 0) {
        told->owing += owes(said);
        told->owing -= owes(before);
        told->in_force = (told->in_force || told->owing == 0) && said != PDI_SAID_FAILED;
    }
    *at = (uint8_t)said;
    if ((said == PDI_SAID_DUE || said == PDI_SAID_FORGET_DUE) &&
        (hears->cursor == PDI_CHAIN_END || told->order < registry->locals[hears->cursor].order))
        hears->cursor = local;
    if (before != PDI_SAID_SENT || told->said[PDI_SAID_SENT] != 0 ||
        told->said[PDI_SAID_CONTESTED] == 0)
        return;
    /* a contested one waits until no other peer owes an answer about it; now nobody does */
    for (uint32_t other = 0; other < registry->peers_max; other++)
        registry->peers[other].stalled = false;
}

/* Its alias, or itself if it has none. */
static const struct pdi_local *twin_of(const struct pdi_registry *registry,
                                       const struct pdi_local *local)
{
    return local->twin == PDI_CHAIN_END ? local : &registry->locals[local->twin];
}

uint32_t pdi_local_waits(const struct pdi_registry *registry, const struct pdi_local *local)
{
    const struct pdi_local *twin = twin_of(registry, local);
    return local->said[PDI_SAID_DUE] + local->said[PDI_SAID_CONTESTED] +
           local->said[PDI_SAID_SENT] + twin->said[PDI_SAID_DUE] + twin->said[PDI_SAID_CONTESTED] +
           twin->said[PDI_SAID_SENT];
}

uint8_t pdi_local_worst(const struct pdi_registry *registry, const struct pdi_local *local)
{
    const struct pdi_local *twin = twin_of(registry, local);
    uint8_t one = local->said[PDI_SAID_FAILED] != 0 ? local->status : PDI_STATUS_OK;
    uint8_t two = twin->said[PDI_SAID_FAILED] != 0 ? twin->status : PDI_STATUS_OK;
    return one > two ? one : two;
}

static void announce(struct pdi_registry *registry, uint32_t local, uint8_t status)
{
    struct pdi_local *told = &registry->locals[local];
    if (told->announced == status || !told->used)
        return;
    told->announced = status;
    const struct pdi_change change = {.kind = PYDDSI_DECLARED,
                                      .status = status,
                                      .space = told->space,
                                      .handle = pdi_local_handle(registry, local),
                                      .peer = PDI_REGISTRY_NONE,
                                      .id = told->id};
    pdi_registry_tell(registry, &change);
}

void pdi_local_settle(struct pdi_registry *registry, uint32_t local)
{
    local = registry->locals[local].is_alias ? registry->locals[local].twin : local;
    if (local == PDI_CHAIN_END || !registry->locals[local].live ||
        pdi_local_waits(registry, &registry->locals[local]) != 0)
        return;
    struct pdi_local *settled = &registry->locals[local];
    if (settled->said[PDI_SAID_FAILED] == 0) {
        settled->established |= settled->said[PDI_SAID_OK] != 0;
        settled->status = PDI_STATUS_OK;
    }
    registry->settles++;
    announce(registry, local, pdi_local_worst(registry, settled));
}

void pdi_local_retire(struct pdi_registry *registry, uint32_t local)
{
    struct pdi_local *retires = &registry->locals[local];
    if (retires->used || retires->live || !retires->listed)
        return;
    for (int said = PDI_SAID_DUE; said < PDI_SAID_COUNT; said++) {
        if (retires->said[said] != 0)
            return;
    }
    for (uint32_t peer = pdi_bitset_find(registry->joined, registry->peers_max, 0);
         peer < registry->peers_max;
         peer = pdi_bitset_find(registry->joined, registry->peers_max, peer + 1)) {
        if (registry->peers[peer].cursor == local)
            registry->peers[peer].cursor = pdi_chain_next(&registry->lane_all, local);
    }
    retires->listed = false;
    pdi_lane_remove(&registry->lane_all, &registry->all, local);
    pdi_slots_put(&registry->locals_free, local);
}

bool pdi_local_for(const struct pdi_registry *registry, uint32_t peer, uint32_t local)
{
    const struct pdi_local *told = &registry->locals[local];
    uint32_t features = registry->peers[peer].features;
    if (told->space != 0 && (features & PYDDSI_CAN_SPACE) == 0)
        return false;
    if (features == 0) /* it knows no selections, and of the modes the first alone */
        return told->id % 2 == 0 && !pdi_alias_hides(registry, local) &&
               (told->kind != PYDDSI_SUBSCRIPTION || told->mode == PYDDSI_PUSH);
    if (told->is_alias && told->kind == PYDDSI_SUBSCRIPTION)
        return false;
    bool pulls = told->kind == PYDDSI_SUBSCRIPTION && told->mode != PYDDSI_PUSH &&
                 told->mode != PYDDSI_PERIODIC_PUSH;
    return !pulls || (features & PYDDSI_CAN_PULL) != 0;
}

/* ---- coming into force */

/* What the declaration changes here, while it is linked into its topic already. */
static int take_effect(struct pdi_registry *registry, uint32_t local, const struct pdi_wish *wish)
{
    struct pdi_local *made = &registry->locals[local];
    int status = PDI_STATUS_OK;
    switch (made->kind) {
    case PYDDSI_RESOURCE:
        if (pdi_topic_define(registry, made->topic, wish->text) != PYDDSI_OK)
            status = PDI_STATUS_SPACE;
        break;
    case PYDDSI_PUBLICATION:
        pdi_lane_append(&registry->lane_kind, &registry->publications, local);
        status = pdi_publication_link(registry, local);
        if (status != PDI_STATUS_OK) {
            pdi_publication_unlink(registry, local);
            pdi_lane_remove(&registry->lane_kind, &registry->publications, local);
        }
        break;
    case PYDDSI_SUBSCRIPTION:
        if (!made->is_alias) /* what comes for an alias finds those whose alias it is by their name */
            pdi_lane_append(&registry->lane_kind, &registry->listeners, local);
        break;
    case PYDDSI_SELECTION:
        made->selection = pdi_selection_make(registry, wish->text, &status);
        break;
    default: /* a binding is looked up when it is needed */
        break;
    }
    registry->route_changes++;
    return status;
}

/* Takes back what take_effect did. */
static void lose_effect(struct pdi_registry *registry, uint32_t local)
{
    struct pdi_local *ends = &registry->locals[local];
    switch (ends->kind) {
    case PYDDSI_RESOURCE:
        pdi_topic_undefine(registry, ends->topic);
        break;
    case PYDDSI_PUBLICATION:
        pdi_publication_unlink(registry, local);
        pdi_lane_remove(&registry->lane_kind, &registry->publications, local);
        break;
    case PYDDSI_SUBSCRIPTION:
        if (!ends->is_alias)
            pdi_lane_remove(&registry->lane_kind, &registry->listeners, local);
        break;
    case PYDDSI_SELECTION:
        pdi_selection_free(registry, ends->selection);
        ends->selection = PDI_CHAIN_END;
        break;
    default:
        break;
    }
    registry->route_changes++;
}

static uint16_t next_generation(uint16_t generation)
{
    return generation % (GENERATIONS - 1) + 1U;
}

/* Fills a slot and links it to its topic and to the list of all. */
static int local_make(struct pdi_registry *registry, uint32_t local, uint32_t of,
                      const struct pdi_wish *wish)
{
    struct pdi_local *made = &registry->locals[local];
    uint32_t topic = pdi_topic_take(registry, wish->space, wish->id);
    if (topic == PDI_CHAIN_END)
        return PDI_STATUS_SPACE;
    *made = (struct pdi_local){
        .generation = next_generation(made->generation),
        .kind = wish->kind,
        .space = wish->space,
        .reliability = wish->reliability,
        .durability = wish->durability,
        .mode = wish->mode,
        .way = wish->way,
        .is_global = wish->is_global,
        .is_chosen = wish->is_chosen,
        .is_alias = of != PDI_CHAIN_END,
        .twin = of,
        .used = of == PDI_CHAIN_END,
        .live = true,
        .listed = true,
        .announced = PDI_REGISTRY_PENDING,
        .topic = topic,
        .selection = PDI_CHAIN_END,
        .id = wish->id,
        .new_id = wish->new_id,
        .origin_ms = wish->origin_ms,
        .period_ms = wish->period_ms,
        .duration_ms = wish->duration_ms,
        .order = ++registry->order,
        .links = PDI_ENDS_EMPTY,
    };
    pdi_lane_append(&registry->lane_same, &registry->topics[topic].locals[made->kind], local);
    int status = take_effect(registry, local, wish);
    if (status == PDI_STATUS_OK) {
        pdi_lane_append(&registry->lane_all, &registry->all, local);
        return status;
    }
    made->used = made->live = false;
    pdi_lane_remove(&registry->lane_same, &registry->topics[topic].locals[made->kind], local);
    pdi_topic_drop(registry, topic);
    return status;
}

int pdi_local_make(struct pdi_registry *registry, const struct pdi_wish *wish, uint32_t of,
                   uint32_t *local, int *status)
{
    *status = PDI_STATUS_SPACE;
    *local = pdi_slots_get(&registry->locals_free);
    if (*local == PDI_CHAIN_END)
        return PYDDSI_AGAIN;
    uint32_t changes = registry->change_count;
    uint64_t lost = registry->changes_lost;
    *status = local_make(registry, *local, of, wish);
    if (*status == PDI_STATUS_OK)
        return PYDDSI_OK;
    registry->change_count = changes;
    registry->changes_lost = lost;
    pdi_slots_put(&registry->locals_free, *local);
    return *status == PDI_STATUS_SPACE ? PYDDSI_NO_SPACE : PYDDSI_BAD_ARGUMENT;
}

void pdi_local_tell(struct pdi_registry *registry, uint32_t local)
{
    for (uint32_t peer = pdi_bitset_find(registry->joined, registry->peers_max, 0);
         peer < registry->peers_max;
         peer = pdi_bitset_find(registry->joined, registry->peers_max, peer + 1)) {
        if (pdi_local_for(registry, peer, local))
            pdi_local_said(registry, peer, local, PDI_SAID_DUE);
    }
    registry->locals[local].in_force = registry->locals[local].owing == 0;
}

int pdi_registry_declare(struct pdi_registry *registry, const struct pdi_wish *wish,
                         uint32_t *handle, int *status)
{
    *status = PDI_STATUS_INVALID;
    if (wish->kind < PYDDSI_RESOURCE || wish->kind > PYDDSI_BINDING)
        return PYDDSI_BAD_ARGUMENT;
    pdi_alias_yield(registry, wish->space, wish->id,
                    wish->kind == PYDDSI_RESOURCE ? wish->text : (pyddsi_bytes){NULL, 0});
    *status = pdi_wish_judge(registry, wish);
    if (*status != PDI_STATUS_OK)
        return PYDDSI_BAD_ARGUMENT;
    *status = PDI_STATUS_SPACE;
    if (registry->locals_used[wish->kind] >= registry->locals_max[wish->kind])
        return PYDDSI_NO_SPACE;
    uint32_t local;
    int answer = pdi_local_make(registry, wish, PDI_CHAIN_END, &local, status);
    if (answer != PYDDSI_OK)
        return answer;
    registry->locals_used[wish->kind]++;
    *handle = pdi_local_handle(registry, local);
    pdi_alias_make(registry, local);
    pdi_local_tell(registry, local);
    pdi_local_settle(registry, local);
    return PYDDSI_OK;
}

/* ---- going out of force */

bool pdi_local_inherited(struct pdi_registry *registry, uint32_t local, uint32_t peer)
{
    const struct pdi_local *gone = &registry->locals[local];
    uint32_t topic = pdi_topic_find(registry, gone->space, gone->id);
    if (topic == PDI_CHAIN_END)
        return false;
    for (uint32_t at = registry->topics[topic].locals[gone->kind].first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_same, at)) {
        if (registry->locals[at].order > gone->order)
            break; /* declared since then, and perhaps as something else */
        switch (*pdi_said(registry, peer, at)) {
        case PDI_SAID_OK:
        case PDI_SAID_SENT:
            return true;
        case PDI_SAID_DUE:
        case PDI_SAID_CONTESTED:
            pdi_local_said(registry, peer, at, PDI_SAID_OK);
            pdi_local_settle(registry, at);
            return true;
        default:
            break;
        }
    }
    return false;
}

/* What the peer is to hear of a declaration that has just been withdrawn. */
static void unsay(struct pdi_registry *registry, uint32_t peer, uint32_t local)
{
    switch (*pdi_said(registry, peer, local)) {
    case PDI_SAID_DUE:
    case PDI_SAID_CONTESTED:
    case PDI_SAID_FAILED:
        pdi_local_said(registry, peer, local, PDI_SAID_NOTHING);
        break;
    case PDI_SAID_SENT:
        pdi_local_said(registry, peer, local, PDI_SAID_DYING);
        break;
    case PDI_SAID_OK:
        if (registry->locals[local].kind == PYDDSI_BINDING ||
            pdi_local_inherited(registry, local, peer))
            pdi_local_said(registry, peer, local, PDI_SAID_NOTHING);
        else
            pdi_local_said(registry, peer, local, PDI_SAID_FORGET_DUE);
        break;
    default:
        break;
    }
}

void pdi_local_withdraw(struct pdi_registry *registry, uint32_t local)
{
    struct pdi_local *gone = &registry->locals[local];
    PDI_CHECK(gone->live);
    uint32_t next = pdi_chain_next(&registry->lane_all, local);
    gone->live = false;
    pdi_lane_remove(&registry->lane_same, &registry->topics[gone->topic].locals[gone->kind], local);
    lose_effect(registry, local);
    pdi_topic_drop(registry, gone->topic);
    for (uint32_t peer = pdi_bitset_find(registry->joined, registry->peers_max, 0);
         peer < registry->peers_max;
         peer = pdi_bitset_find(registry->joined, registry->peers_max, peer + 1)) {
        if (registry->peers[peer].cursor == local)
            registry->peers[peer].cursor = next;
    }
    /* what is said of it from now on stands behind everything said before */
    pdi_lane_remove(&registry->lane_all, &registry->all, local);
    pdi_lane_append(&registry->lane_all, &registry->all, local);
    gone->order = ++registry->order;
    for (uint32_t peer = pdi_bitset_find(registry->joined, registry->peers_max, 0);
         peer < registry->peers_max;
         peer = pdi_bitset_find(registry->joined, registry->peers_max, peer + 1))
        unsay(registry, peer, local);
}

void pdi_local_lose(struct pdi_registry *registry, uint32_t local)
{
    PDI_CHECK(registry->locals[local].kind == PYDDSI_RESOURCE);
    pdi_alias_drop(registry, local);
    pdi_local_withdraw(registry, local);
    registry->locals[local].lost = true;
    announce(registry, local, PDI_STATUS_CONFLICT);
}

/* Ends a declaration whose handle nobody holds any more. */
static void end(struct pdi_registry *registry, uint32_t local)
{
    pdi_alias_drop(registry, local);
    if (registry->locals[local].live)
        pdi_local_withdraw(registry, local);
    registry->locals_used[registry->locals[local].kind]--;
    pdi_local_retire(registry, local);
}

/* Whether the selection must stay, as the last of its id, because others of ours stand on it. */
static bool is_held(const struct pdi_registry *registry, uint32_t local)
{
    const struct pdi_local *asked = &registry->locals[local];
    if (asked->kind != PYDDSI_SELECTION)
        return false;
    const struct pdi_topic *topic = &registry->topics[asked->topic];
    return topic->locals[PYDDSI_SELECTION].first == topic->locals[PYDDSI_SELECTION].last &&
           (topic->locals[PYDDSI_SUBSCRIPTION].first != PDI_CHAIN_END ||
            topic->locals[PYDDSI_BINDING].first != PDI_CHAIN_END);
}

int pdi_registry_forget(struct pdi_registry *registry, uint32_t handle)
{
    uint32_t local = pdi_local_of(registry, handle);
    if (local == PDI_CHAIN_END)
        return PYDDSI_BAD_ARGUMENT;
    const struct pdi_local *gone = &registry->locals[local];
    uint64_t id = gone->id;
    uint8_t space = gone->space;
    registry->locals[local].used = false;
    if (is_held(registry, local))
        return PYDDSI_OK;
    end(registry, local);
    local = pdi_local_selecting(registry, space, id);
    if (local != PDI_CHAIN_END && !registry->locals[local].used && !is_held(registry, local))
        end(registry, local);
    pdi_registry_rescan(registry);
    return PYDDSI_OK;
}

const struct pdi_predicate *pdi_registry_predicate(const struct pdi_registry *registry,
                                                   uint32_t subscription)
{
    uint32_t local = pdi_local_of(registry, subscription);
    if (local == PDI_CHAIN_END || registry->locals[local].kind != PYDDSI_SUBSCRIPTION)
        return NULL;
    uint32_t selection =
        pdi_local_selection(registry, registry->locals[local].space, registry->locals[local].id);
    if (selection == PDI_CHAIN_END || registry->selections[selection].predicate == PDI_CHAIN_END)
        return NULL;
    return &registry->predicates[registry->selections[selection].predicate];
}
