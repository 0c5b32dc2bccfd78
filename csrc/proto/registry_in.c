/* registry_in.c - what comes from the peers.
 *
 * Declarations before their commit are kept aside, as the bytes that they are, each with a byte for its space in front.
 * They belong to nobody else and have no effect, so a peer that goes takes them along without a trace.
 */
#include "proto/registry_state.h"
#include "wire/list.h"

/* Keeps a declaration aside, whose bytes are those from begin to end. */
static void keep(struct pdi_registry *registry, uint32_t peer, uint8_t space,
                 const pyddsi_declaration *declaration, const uint8_t *begin, const uint8_t *end)
{
    struct pdi_registry_peer *owner = &registry->peers[peer];
    size_t size = (size_t)(end - begin);
    uint8_t *to = registry->asides + (size_t)peer * registry->aside_max + owner->aside;
    if (owner->aside_status != PDI_STATUS_OK)
        return;
    if (size + 1 > registry->aside_max - owner->aside) {
        owner->aside_status = PDI_STATUS_LARGE;
        owner->aside_id = declaration->id;
        return;
    }
    to[0] = space;
    memcpy(to + 1, begin, size);
    owner->aside += (uint32_t)size + 1;
}

/* Ends what was kept aside. OK; PDI_REGISTRY_REFUSED if the peer does not wait for results. */
static int commit(struct pdi_registry *registry, uint32_t peer, uint64_t number)
{
    struct pdi_registry_peer *owner = &registry->peers[peer];
    if (owner->answers == registry->answers_max)
        return PDI_REGISTRY_REFUSED;
    int status = owner->aside_status;
    uint64_t id = owner->aside_id;
    if (status == PDI_STATUS_OK) {
        const uint8_t *aside = registry->asides + (size_t)peer * registry->aside_max;
        const struct pdi_walk walk = {.list = {.data = aside, .size = owner->aside}, .aside = true};
        status = pdi_registry_run(registry, peer, walk, &id);
    }
    owner->aside = 0;
    owner->aside_status = PDI_STATUS_OK;
    owner->told = owner->told || status == PDI_STATUS_OK;
    if (status != PDI_STATUS_RETRY) {
        owner->retries = 0;
    } else if (++owner->retries > registry->rounds_max) {
        status = PDI_STATUS_CONFLICT;
        owner->retries = 0;
    }
    uint32_t at = (owner->answer_first + owner->answers++) % registry->answers_max;
    registry->answers[(size_t)peer * registry->answers_max + at] =
        (struct pdi_answer){.commit = (uint8_t)number, .status = (uint8_t)status, .id = id};
    return PYDDSI_OK;
}

int pdi_registry_input(struct pdi_registry *registry, uint32_t peer, uint8_t space, bool committed,
                       pyddsi_list declarations)
{
    PDI_CHECK(peer < registry->peers_max);
    if (!registry->peers[peer].joined)
        return PYDDSI_OK;
    int status = PYDDSI_OK;
    pyddsi_list list = declarations;
    pyddsi_declaration declaration;
    for (const uint8_t *at = list.data; status == PYDDSI_OK; at = list.data) {
        if (pdi_list_declaration(&list, &declaration) != PYDDSI_OK)
            break;
        pdi_width_read(registry, peer, declaration.id);
        if (declaration.kind == PYDDSI_RESULT)
            pdi_registry_result(registry, peer, declaration.commit, declaration.status,
                                declaration.id);
        else if (declaration.kind == PYDDSI_COMMIT)
            status = commit(registry, peer, declaration.commit);
        else if (!committed)
            keep(registry, peer, space, &declaration, at, list.data);
    }
    if (committed && status == PYDDSI_OK) {
        registry->peers[peer].told = true;
        const struct pdi_walk walk = {.list = declarations, .space = space};
        uint64_t unused;
        if (pdi_registry_run(registry, peer, walk, &unused) != PDI_STATUS_OK)
            status = PDI_REGISTRY_REFUSED;
    }
    pdi_registry_rescan(registry);
    return status;
}
