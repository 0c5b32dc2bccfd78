/* registry_run.c - what the peers declare takes effect, all of a transaction or nothing.
 *
 * With the commit, or at once for a DECLARE that is committed already, a transaction runs over them in passes:
 *
 *     yielding     where a name contradicts one of ours that is not established, and our id is the greater one, ours
 *                  loses. That is so whatever becomes of the transaction.
 *     making       resources and selections, then subscriptions (which may stand before what they name): each is judged
 *                  and made. The first failure is noted, a definite one before "try again".
 *     undoing      if there was a failure: what was made is removed, and no change is told.
 *     changing     else: what cannot fail. Subscriptions that were known get their new mode, bindings bind, forgets forget.
 *
 * A forget that stands before a declaration of the same id in one transaction is void, for the declaration is made
 * first; whoever wants another name for an id takes two transactions.
 *
 * Two names for one id. There are three sides to it: two who define, and others who hear of both.
 *     one who defines answers CONFLICT if its own is established (every peer there was had accepted it). Else the lower
 *     id wins: the winner answers "try again", the loser withdraws its own everywhere and accepts.
 *     one who hears answers "try again": the two will settle it among themselves, and the loser takes back. After
 *     rounds_max times it answers CONFLICT, for the two may not know each other.
 * So among those that declare at the same time exactly one name remains; and who comes late with another name loses
 * against those who were there.
 *
 * The file is long because the passes share one verdict and are read together.
 */
#include "proto/registry_state.h"
#include "wire/list.h"
#include "wire/name.h"

/* What has gone wrong. */
struct verdict {
    uint8_t status;
    uint32_t at;
    uint64_t id;
    uint32_t runs; /* our publication that runs with another quality of service, or PDI_CHAIN_END */
};

struct transaction {
    uint32_t peer;
    struct pdi_walk walk;
    struct verdict verdict;
};

static bool walk_next(struct pdi_walk *walk, pyddsi_declaration *declaration)
{
    if (walk->aside) {
        if (walk->list.size == 0)
            return false;
        walk->space = *walk->list.data++;
        walk->list.size--;
        walk->list.count = 1;
    }
    walk->at++;
    return pdi_list_declaration(&walk->list, declaration) == PYDDSI_OK;
}

/* The first failure counts, but a definite one before "try again". */
static void note(struct verdict *verdict, int status, uint32_t at, uint64_t id)
{
    bool definite = status != PDI_STATUS_RETRY;
    bool had = verdict->status != PDI_STATUS_OK;
    bool had_definite = had && verdict->status != PDI_STATUS_RETRY;
    if (had && (definite == had_definite ? at >= verdict->at : had_definite))
        return;
    verdict->status = (uint8_t)status;
    verdict->at = at;
    verdict->id = id;
}

/* What the properties say of the quality of service. */
struct quality {
    uint8_t reliability, durability;
    bool durability_told;
};

static struct quality quality_of(const pyddsi_declaration *declaration)
{
    struct quality quality = {PYDDSI_BY_RESOURCE, PYDDSI_VOLATILE, false};
    pyddsi_list list = declaration->properties;
    pyddsi_property property;
    while (pdi_list_property(&list, &property) == PYDDSI_OK) {
        if (property.value.size != 1)
            continue;
        uint8_t value = property.value.data[0];
        if (property.id == 6 && value <= 1)
            quality.reliability = value == 1 ? PYDDSI_RELIABLE : PYDDSI_BEST_EFFORT;
        if (property.id == 8 && value <= PYDDSI_PERSISTENT) {
            quality.durability = value;
            quality.durability_told = true;
        }
    }
    return quality;
}

/* ---- yielding */

static bool name_valid(pyddsi_bytes name)
{
    pyddsi_fault fault;
    return pdi_name_check(name, PDI_NAME_MAX, &fault) == PYDDSI_OK;
}

/* Our own id stands behind that of the peer. */
static bool is_behind(const struct pdi_registry *registry, uint32_t peer)
{
    const struct pdi_registry_peer *other = &registry->peers[peer];
    return pdi_peer_id_before((pyddsi_bytes){other->id, other->id_size},
                              (pyddsi_bytes){registry->id, registry->id_size});
}

/* The topic, if it has a name and it is another one; PDI_CHAIN_END otherwise. */
static uint32_t contradicted(const struct pdi_registry *registry, uint8_t space,
                             const pyddsi_declaration *resource)
{
    uint32_t topic = pdi_topic_find(registry, space, resource->id);
    if (topic == PDI_CHAIN_END || registry->topics[topic].definers == 0 ||
        pdi_text_equal(pdi_topic_name(registry, &registry->topics[topic]), resource->uri))
        return PDI_CHAIN_END;
    return topic;
}

static void yield_to(struct pdi_registry *registry, uint32_t peer, uint8_t space,
                     const pyddsi_declaration *resource)
{
    if (pdi_id_judge(registry, PYDDSI_RESOURCE, space, resource->id) != PDI_STATUS_OK ||
        !name_valid(resource->uri))
        return;
    pdi_alias_yield(registry, space, resource->id, resource->uri);
    if (!is_behind(registry, peer))
        return;
    uint32_t topic = contradicted(registry, space, resource);
    while (topic != PDI_CHAIN_END) { /* ends: each time one local leaves the topic */
        uint32_t own = registry->topics[topic].locals[PYDDSI_RESOURCE].first;
        if (own == PDI_CHAIN_END || registry->locals[own].established ||
            registry->locals[own].is_alias)
            return;
        pdi_local_lose(registry, own);
        topic = contradicted(registry, space, resource);
    }
}

/* ---- making */

static int resource_make(struct pdi_registry *registry, struct transaction *running,
                         const pyddsi_declaration *resource)
{
    uint32_t peer = running->peer;
    uint8_t space = running->walk.space;
    struct quality quality = quality_of(resource);
    if (!name_valid(resource->uri))
        return PDI_STATUS_INVALID;
    uint32_t topic = pdi_topic_find(registry, space, resource->id);
    uint32_t index = pdi_definition_find(registry, peer, topic);
    if (contradicted(registry, space, resource) != PDI_CHAIN_END) {
        uint32_t own = registry->topics[topic].locals[PYDDSI_RESOURCE].first;
        bool settled = own != PDI_CHAIN_END && registry->locals[own].established;
        return index != PDI_CHAIN_END || settled ? PDI_STATUS_CONFLICT : PDI_STATUS_RETRY;
    }
    if (index != PDI_CHAIN_END) {
        struct pdi_definition *known = &registry->definitions[index];
        known->told = registry->transaction;
        known->told_at = running->walk.at;
        return known->reliability == quality.reliability &&
                       known->durability == quality.durability &&
                       known->durability_told == quality.durability_told
                   ? PDI_STATUS_OK
                   : PDI_STATUS_CONFLICT;
    }
    uint32_t runs = pdi_publication_contradicts(registry, topic, quality.reliability,
                                                quality.durability, quality.durability_told);
    if (runs != PDI_CHAIN_END) {
        running->verdict.runs = runs;
        return PDI_STATUS_CONFLICT;
    }
    int status =
        pdi_definition_resource(registry, peer, space, resource->id, resource->uri, &index);
    if (status != PDI_STATUS_OK)
        return status;
    struct pdi_definition *made = &registry->definitions[index];
    made->reliability = quality.reliability;
    made->durability = quality.durability;
    made->durability_told = quality.durability_told;
    made->born = made->told = registry->transaction;
    made->told_at = running->walk.at;
    pdi_alias_hear(registry, peer, resource->uri);
    return PDI_STATUS_OK;
}

static int selection_make(struct pdi_registry *registry, struct transaction *running,
                          const pyddsi_declaration *selection)
{
    uint32_t peer = running->peer;
    uint8_t space = running->walk.space;
    uint32_t index =
        pdi_definition_find(registry, peer, pdi_topic_find(registry, space, selection->id));
    if (index == PDI_CHAIN_END) {
        int status = pdi_definition_selection(registry, peer, space, selection->id,
                                              selection->query, &index);
        if (status != PDI_STATUS_OK)
            return status;
        registry->definitions[index].born = registry->transaction;
    } else if (!pdi_selection_equal(registry, registry->definitions[index].selection,
                                    selection->query)) {
        return PDI_STATUS_CONFLICT;
    }
    registry->definitions[index].told = registry->transaction;
    registry->definitions[index].told_at = running->walk.at;
    return PDI_STATUS_OK;
}

/* The subscription that a declaration describes; definition is that of its selection. */
static struct pdi_remote remote_of(const struct pdi_registry *registry,
                                   const struct transaction *running,
                                   const pyddsi_declaration *declaration, uint32_t definition)
{
    struct pdi_remote remote = {.peer = running->peer,
                                .id = declaration->id,
                                .space = running->walk.space,
                                .mode = (uint8_t)declaration->mode,
                                .reliability = quality_of(declaration).reliability,
                                .origin_ms = declaration->origin,
                                .period_ms = declaration->period,
                                .duration_ms = declaration->duration};
    if (definition == PDI_CHAIN_END)
        return remote;
    const struct pdi_selection *selection =
        &registry->selections[registry->definitions[definition].selection];
    remote.bound_id = selection->bound_id;
    if (selection->predicate != PDI_CHAIN_END)
        remote.predicate = &registry->predicates[selection->predicate];
    if (remote.reliability == PYDDSI_BY_RESOURCE && (selection->tags & PDI_NAME_UNRELIABLE) != 0)
        remote.reliability = PYDDSI_BEST_EFFORT;
    return remote;
}

static int subscription_make(struct pdi_registry *registry, struct transaction *running,
                             const pyddsi_declaration *declaration)
{
    uint8_t space = running->walk.space;
    uint32_t topic = pdi_topic_find(registry, space, declaration->id);
    int status = pdi_mode_judge(registry, declaration->id, declaration->mode, declaration->period,
                                declaration->duration);
    if (status != PDI_STATUS_OK)
        return status;
    uint32_t definition = PDI_CHAIN_END;
    if (declaration->id % 2 == 1) {
        definition = pdi_definition_find(registry, running->peer, topic);
        if (definition == PDI_CHAIN_END)
            return PDI_STATUS_INVALID;
    }
    uint32_t index = pdi_subscription_find(registry, running->peer, topic);
    if (index == PDI_CHAIN_END) {
        struct pdi_remote remote = remote_of(registry, running, declaration, definition);
        index = PDI_CHAIN_END;
        status = pdi_subscription_make(registry, &remote, definition, &index);
        if (index == PDI_CHAIN_END)
            return status;
        registry->subscriptions[index].born = registry->transaction;
    }
    registry->subscriptions[index].told = registry->transaction;
    registry->subscriptions[index].told_at = running->walk.at;
    return status;
}

static int binding_judge(const struct pdi_registry *registry, const struct transaction *running,
                         const pyddsi_declaration *binding)
{
    int status = pdi_id_judge(registry, PYDDSI_SELECTION, running->walk.space, binding->new_id);
    if (status != PDI_STATUS_OK)
        return status;
    uint32_t topic = pdi_topic_find(registry, running->walk.space, binding->id);
    return pdi_definition_find(registry, running->peer, topic) == PDI_CHAIN_END ? PDI_STATUS_INVALID
                                                                                : PDI_STATUS_OK;
}

/* Whether it is an id of zhe for which no key is wide enough: it is passed over, since a refusal would end the session, and
 * with it all that has smaller ones. */
static bool is_beyond(const struct pdi_registry *registry, uint32_t peer,
                      const pyddsi_declaration *declaration)
{
    return registry->peers[peer].features == 0 && declaration->id > PDI_REGISTRY_ID_MAX &&
           (declaration->kind == PYDDSI_RESOURCE || declaration->kind == PYDDSI_SUBSCRIPTION);
}

/* Judges one declaration and makes it if it is of this pass: 0 resources and selections, 1 the others. */
static int make(struct pdi_registry *registry, struct transaction *running, int pass,
                const pyddsi_declaration *declaration)
{
    bool defines = declaration->kind == PYDDSI_RESOURCE || declaration->kind == PYDDSI_SELECTION;
    bool other = declaration->kind == PYDDSI_SUBSCRIPTION || declaration->kind == PYDDSI_BINDING ||
                 declaration->kind == PYDDSI_PUBLICATION;
    if (pass == 0 ? !defines : !other)
        return PDI_STATUS_OK;
    uint8_t kind = declaration->kind == PYDDSI_BINDING ? PYDDSI_SELECTION : declaration->kind;
    int status = pdi_id_judge(registry, kind, running->walk.space, declaration->id);
    if (status != PDI_STATUS_OK)
        return declaration->kind == PYDDSI_PUBLICATION ||
                       is_beyond(registry, running->peer, declaration)
                   ? PDI_STATUS_OK
                   : status;
    switch (declaration->kind) {
    case PYDDSI_RESOURCE:
        return resource_make(registry, running, declaration);
    case PYDDSI_SELECTION:
        return selection_make(registry, running, declaration);
    case PYDDSI_SUBSCRIPTION:
        return subscription_make(registry, running, declaration);
    case PYDDSI_BINDING:
        return binding_judge(registry, running, declaration);
    default:
        return PDI_STATUS_OK; /* nobody asks who publishes */
    }
}

/* ---- undoing */

static void undo(struct pdi_registry *registry, uint32_t peer)
{
    struct pdi_registry_peer *owner = &registry->peers[peer];
    uint64_t born = registry->transaction;
    uint32_t last;
    while ((last = owner->subscriptions.last) != PDI_CHAIN_END &&
           registry->subscriptions[last].born == born)
        pdi_subscription_remove(registry, last);
    while ((last = owner->definitions.last) != PDI_CHAIN_END &&
           registry->definitions[last].born == born)
        pdi_definition_remove(registry, last);
}

/* ---- changing */

static void subscription_change(struct pdi_registry *registry, const struct transaction *running,
                                const pyddsi_declaration *declaration)
{
    uint32_t topic = pdi_topic_find(registry, running->walk.space, declaration->id);
    uint32_t index = pdi_subscription_find(registry, running->peer, topic);
    if (is_beyond(registry, running->peer, declaration))
        return;
    PDI_CHECK(index != PDI_CHAIN_END);
    struct pdi_subscription *known = &registry->subscriptions[index];
    struct pdi_remote remote = remote_of(registry, running, declaration, known->definition);
    const struct pdi_remote *old = &known->remote;
    if (remote.mode == old->mode && remote.reliability == old->reliability &&
        remote.origin_ms == old->origin_ms && remote.period_ms == old->period_ms &&
        remote.duration_ms == old->duration_ms)
        return;
    remote.serial = ++registry->serial;
    known->remote = remote;
    pdi_subscription_touch(registry, index);
}

static void binding_change(struct pdi_registry *registry, const struct transaction *running,
                           const pyddsi_declaration *binding)
{
    uint32_t topic = pdi_topic_find(registry, running->walk.space, binding->id);
    uint32_t definition = pdi_definition_find(registry, running->peer, topic);
    uint32_t subscription = pdi_subscription_find(registry, running->peer, topic);
    PDI_CHECK(definition != PDI_CHAIN_END);
    uint64_t bound = (binding->flags & PYDDSI_G) != 0 ? binding->new_id : 0;
    registry->selections[registry->definitions[definition].selection].bound_id = bound;
    if (subscription == PDI_CHAIN_END)
        return;
    registry->subscriptions[subscription].remote.bound_id = bound;
    pdi_subscription_touch(registry, subscription);
}

/* A forget, unless the transaction declares the same again behind it. */
static void forget(struct pdi_registry *registry, const struct transaction *running,
                   const pyddsi_declaration *gone)
{
    uint32_t topic = pdi_topic_find(registry, running->walk.space, gone->id), index;
    if (gone->kind == PYDDSI_FORGET_SUBSCRIPTION) {
        index = pdi_subscription_find(registry, running->peer, topic);
        if (index == PDI_CHAIN_END)
            return;
        const struct pdi_subscription *known = &registry->subscriptions[index];
        if (known->told != registry->transaction || known->told_at < running->walk.at)
            pdi_subscription_remove(registry, index);
        return;
    }
    index = pdi_definition_find(registry, running->peer, topic);
    if (index == PDI_CHAIN_END)
        return;
    const struct pdi_definition *known = &registry->definitions[index];
    bool is_selection = known->selection != PDI_CHAIN_END;
    if (is_selection == (gone->kind == PYDDSI_FORGET_SELECTION) &&
        (known->told != registry->transaction || known->told_at < running->walk.at))
        pdi_definition_remove(registry, index);
}

static void change(struct pdi_registry *registry, const struct transaction *running,
                   const pyddsi_declaration *declaration)
{
    switch (declaration->kind) {
    case PYDDSI_SUBSCRIPTION:
        subscription_change(registry, running, declaration);
        break;
    case PYDDSI_BINDING:
        binding_change(registry, running, declaration);
        break;
    case PYDDSI_FORGET_RESOURCE:
    case PYDDSI_FORGET_SUBSCRIPTION:
    case PYDDSI_FORGET_SELECTION:
        forget(registry, running, declaration);
        break;
    default:
        break;
    }
}

/* ---- the transaction */

/* Says that definitions contradict what runs here. */
static void tell_conflict(struct pdi_registry *registry, const struct transaction *failed)
{
    if (failed->verdict.runs == PDI_CHAIN_END)
        return;
    const struct pdi_local *local = &registry->locals[failed->verdict.runs];
    const struct pdi_change told = {.kind = PYDDSI_QOS_CONFLICT,
                                    .status = PDI_STATUS_CONFLICT,
                                    .space = local->space,
                                    .handle = pdi_local_handle(registry, failed->verdict.runs),
                                    .peer = failed->peer,
                                    .id = local->id};
    pdi_registry_tell(registry, &told);
}

int pdi_registry_run(struct pdi_registry *registry, uint32_t peer, struct pdi_walk begin,
                     uint64_t *id)
{
    struct transaction running = {.peer = peer, .walk = begin, .verdict = {.runs = PDI_CHAIN_END}};
    pyddsi_declaration declaration;
    registry->transaction++;
    while (walk_next(&running.walk, &declaration)) {
        if (declaration.kind == PYDDSI_RESOURCE)
            yield_to(registry, running.peer, running.walk.space, &declaration);
    }
    uint32_t changes = registry->change_count;
    uint64_t lost = registry->changes_lost;
    for (int pass = 0; pass < 2; pass++) {
        running.walk = begin;
        while (walk_next(&running.walk, &declaration)) {
            int status = make(registry, &running, pass, &declaration);
            if (status != PDI_STATUS_OK)
                note(&running.verdict, status, running.walk.at, declaration.id);
        }
    }
    if (running.verdict.status != PDI_STATUS_OK) {
        undo(registry, running.peer);
        registry->change_count = changes;
        registry->changes_lost = lost;
        tell_conflict(registry, &running);
        *id = running.verdict.id;
        return running.verdict.status;
    }
    running.walk = begin;
    while (walk_next(&running.walk, &declaration))
        change(registry, &running, &declaration);
    return PDI_STATUS_OK;
}
