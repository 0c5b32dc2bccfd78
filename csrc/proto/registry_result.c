/* registry_result.c - what the peers answer.
 *
 *     OK           the batch is settled
 *     TRY AGAIN    the one named is contested; the others are told again without it. Contested ones are told when no other
 *                  peer owes an answer about them, for such an answer may well decide the contest.
 *     TOO LARGE    batches become half as large
 *     else         the one named is refused, the others are told again without it. If it is not clear which one is
 *                  meant, batches become half as large; one alone is always clear.
 * Every failure settles one declaration or halves the batch, so a peer that always says no is done with after a bounded
 * number of messages; after success batches grow again by one. A peer that always says "try again" is given up after
 * twice the number of rounds after which we ourselves would say "conflict".
 */
#include "proto/registry_state.h"

void pdi_local_refuse(struct pdi_registry *registry, uint32_t peer, uint32_t index, uint8_t status)
{
    struct pdi_local *local = &registry->locals[index];
    struct pdi_change change = {.status = status,
                                .space = local->space,
                                .handle = pdi_local_handle(registry, index),
                                .peer = peer,
                                .id = local->id};
    pdi_local_said(registry, peer, index, PDI_SAID_FAILED);
    if (status > local->status)
        local->status = status;
    registry->peers[peer].refuses |= local->is_alias;
    if (local->is_alias && local->twin != PDI_CHAIN_END)
        change.handle = pdi_local_handle(registry, local->twin);
    change.kind = PYDDSI_REJECTED;
    pdi_registry_tell(registry, &change);
    if (local->kind == PYDDSI_RESOURCE && status == PDI_STATUS_CONFLICT && !local->is_alias) {
        /* the name is in force here, so nobody here has contradicted it: it may be the quality of service */
        if (local->reliability != PYDDSI_BY_RESOURCE || local->durability != PYDDSI_VOLATILE) {
            change.kind = PYDDSI_QOS_CONFLICT;
            pdi_registry_tell(registry, &change);
        }
        if (!local->established) {
            pdi_local_lose(registry, index);
            return;
        }
    }
    pdi_local_settle(registry, index);
}

/* Whether a result can mean this one: an item that has not been told can be refused by nobody. */
static bool may_mean(const struct pdi_local *local, uint64_t status, uint64_t id)
{
    if (local->id != id && !(local->kind == PYDDSI_BINDING && local->new_id == id))
        return false;
    switch (status) {
    case PDI_STATUS_CONFLICT:
        return local->kind == PYDDSI_RESOURCE || local->kind == PYDDSI_SELECTION;
    case PDI_STATUS_RETRY:
        return local->kind == PYDDSI_RESOURCE;
    case PDI_STATUS_TAKEN:
        return local->kind == PYDDSI_SUBSCRIPTION;
    default:
        return local->kind != PYDDSI_PUBLICATION;
    }
}

/* Which of a batch a failure means: its index in the batch, or the count if that is not clear. */
static uint32_t meant(const struct pdi_registry *registry, const struct pdi_batch *batch,
                      uint64_t status, uint64_t id)
{
    uint32_t found = batch->count, candidates = 0;
    if (batch->count == 1)
        return 0;
    if (status == PDI_STATUS_LARGE)
        return batch->count;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (may_mean(&registry->locals[batch->items[i]], status, id)) {
            found = i;
            candidates++;
        }
    }
    return candidates == 1 ? found : batch->count;
}

/* One of a batch that was accepted. */
static void accepted(struct pdi_registry *registry, uint32_t peer, uint32_t index)
{
    switch (*pdi_said(registry, peer, index)) {
    case PDI_SAID_SENT:
        pdi_width_read(registry, peer, registry->locals[index].id);
        pdi_local_said(registry, peer, index, PDI_SAID_OK);
        pdi_local_settle(registry, index);
        break;
    case PDI_SAID_DYING:
        if (registry->locals[index].kind == PYDDSI_BINDING ||
            pdi_local_inherited(registry, index, peer))
            pdi_local_said(registry, peer, index, PDI_SAID_NOTHING);
        else
            pdi_local_said(registry, peer, index, PDI_SAID_FORGET_DUE);
        break;
    default:
        pdi_local_said(registry, peer, index, PDI_SAID_NOTHING);
    }
    pdi_local_retire(registry, index);
}

/* One of a batch that was refused, but not because of this one. */
static void returned(struct pdi_registry *registry, uint32_t peer, uint32_t index)
{
    switch (*pdi_said(registry, peer, index)) {
    case PDI_SAID_SENT:
        pdi_local_said(registry, peer, index, PDI_SAID_DUE);
        break;
    case PDI_SAID_FORGET_SENT:
        pdi_local_said(registry, peer, index, PDI_SAID_FORGET_DUE);
        break;
    default:
        pdi_local_said(registry, peer, index, PDI_SAID_NOTHING);
    }
    pdi_local_retire(registry, index);
}

/* The one of a batch because of which it was refused. */
static void blamed(struct pdi_registry *registry, uint32_t peer, uint32_t index, uint8_t status)
{
    struct pdi_registry_peer *hears = &registry->peers[peer];
    if (*pdi_said(registry, peer, index) != PDI_SAID_SENT) {
        pdi_local_said(registry, peer, index, PDI_SAID_NOTHING);
        pdi_local_retire(registry, index);
        return;
    }
    if (registry->locals[index].is_alias) {
        pdi_local_said(registry, peer, index, PDI_SAID_FAILED);
        if (pdi_alias_move(registry, index, peer, status))
            return;
    }
    if (status == PDI_STATUS_RETRY) {
        if (++hears->rounds <= 2 * registry->rounds_max) {
            pdi_local_said(registry, peer, index, PDI_SAID_CONTESTED);
            return;
        }
        hears->rounds = 0;
        if (registry->locals[index].kind == PYDDSI_RESOURCE)
            status = PDI_STATUS_CONFLICT;
    }
    pdi_local_refuse(registry, peer, index, status);
    pdi_local_retire(registry, index);
}

void pdi_registry_result(struct pdi_registry *registry, uint32_t peer, uint64_t commit,
                         uint64_t status, uint64_t id)
{
    struct pdi_registry_peer *hears = &registry->peers[peer];
    uint32_t at = 0;
    while (at < hears->batches && hears->batch[at].commit != commit)
        at++;
    if (at == hears->batches)
        return; /* we never asked */
    struct pdi_batch batch = hears->batch[at];
    hears->batches--;
    for (; at < hears->batches && at + 1 < PDI_REGISTRY_BATCHES_MAX; at++)
        hears->batch[at] = hears->batch[at + 1];
    hears->stalled = false;
    if (status == PDI_STATUS_OK) {
        hears->rounds = 0;
        hears->batch_max += hears->batch_max < PDI_REGISTRY_BATCH_MAX;
        for (uint32_t i = 0; i < batch.count; i++)
            accepted(registry, peer, batch.items[i]);
        return;
    }
    uint32_t blame = meant(registry, &batch, status, id);
    if (blame == batch.count)
        hears->batch_max = (batch.count + 1U) / 2;
    for (uint32_t i = 0; i < batch.count; i++) {
        if (i != blame)
            returned(registry, peer, batch.items[i]);
    }
    if (blame < batch.count)
        blamed(registry, peer, batch.items[blame], (uint8_t)status);
}
