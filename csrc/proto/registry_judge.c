/* registry_judge.c - what can be declared at all: by the application, and, where that is the same question, by a peer. */
#include "proto/registry_state.h"
#include "wire/name.h"

int pdi_id_judge(const struct pdi_registry *registry, uint8_t kind, uint8_t space, uint64_t id)
{
    bool odd = id % 2 == 1;
    if (id < 2 || id > registry->id_max || (kind == PYDDSI_SELECTION && !odd) ||
        ((kind == PYDDSI_RESOURCE || kind == PYDDSI_PUBLICATION) && odd))
        return PDI_STATUS_INVALID;
    if (space != 0 && (registry->features & PYDDSI_CAN_SPACE) == 0)
        return PDI_STATUS_UNSUPPORTED;
    if (odd && registry->features == 0)
        return PDI_STATUS_UNSUPPORTED;
    return PDI_STATUS_OK;
}

int pdi_mode_judge(const struct pdi_registry *registry, uint64_t id, uint64_t mode,
                   uint64_t period_ms, uint64_t duration_ms)
{
    bool periodic = mode == PYDDSI_PERIODIC_PUSH || mode == PYDDSI_PERIODIC_PULL;
    bool pulls =
        mode == PYDDSI_PULL_MODE || mode == PYDDSI_PERIODIC_PULL || mode == PYDDSI_PUSH_PULL;
    if (registry->features == 0 && (mode != PYDDSI_PUSH || id % 2 == 1))
        return PDI_STATUS_UNSUPPORTED;
    if (pulls && (registry->features & PYDDSI_CAN_PULL) == 0)
        return PDI_STATUS_UNSUPPORTED;
    if (mode < PYDDSI_PUSH || mode > PYDDSI_PUSH_PULL || (periodic && duration_ms >= period_ms))
        return PDI_STATUS_INVALID;
    return PDI_STATUS_OK;
}

uint32_t pdi_publication_contradicts(const struct pdi_registry *registry, uint32_t topic,
                                     uint8_t reliability, uint8_t durability, bool durability_told)
{
    bool told;
    if (topic == PDI_CHAIN_END || pdi_topic_reliability(registry, topic) != PYDDSI_BY_RESOURCE)
        return PDI_CHAIN_END;
    pdi_topic_durability(registry, topic, &told);
    if (told)
        return PDI_CHAIN_END;
    uint32_t at = registry->topics[topic].locals[PYDDSI_PUBLICATION].first;
    for (; at != PDI_CHAIN_END; at = pdi_chain_next(&registry->lane_same, at)) {
        const struct pdi_local *local = &registry->locals[at];
        uint8_t runs =
            local->reliability == PYDDSI_BY_RESOURCE ? PYDDSI_RELIABLE : local->reliability;
        if ((reliability != PYDDSI_BY_RESOURCE && reliability != runs) ||
            (durability_told && durability != local->durability))
            return at;
    }
    return PDI_CHAIN_END;
}

uint32_t pdi_local_selection(const struct pdi_registry *registry, uint8_t space, uint64_t id)
{
    uint32_t local = pdi_local_selecting(registry, space, id);
    return local == PDI_CHAIN_END ? local : registry->locals[local].selection;
}

uint32_t pdi_local_selecting(const struct pdi_registry *registry, uint8_t space, uint64_t id)
{
    uint32_t topic = pdi_topic_find(registry, space, id);
    return topic == PDI_CHAIN_END ? topic : registry->topics[topic].locals[PYDDSI_SELECTION].first;
}

/* Whether what is in force already (the first of a list of those that say the same) says something else. */
static bool differs(const struct pdi_registry *registry, uint32_t other,
                    const struct pdi_wish *wish)
{
    if (other == PDI_CHAIN_END)
        return false;
    const struct pdi_local *local = &registry->locals[other];
    switch (wish->kind) {
    case PYDDSI_RESOURCE:
        return local->reliability != wish->reliability || local->durability != wish->durability;
    case PYDDSI_SUBSCRIPTION:
        return local->reliability != wish->reliability || local->durability != wish->durability ||
               local->mode != wish->mode || local->origin_ms != wish->origin_ms ||
               local->period_ms != wish->period_ms || local->duration_ms != wish->duration_ms;
    case PYDDSI_SELECTION:
        return local->is_global != wish->is_global ||
               !pdi_selection_equal(registry, local->selection, wish->text);
    case PYDDSI_BINDING:
        return local->new_id != wish->new_id || local->is_global != wish->is_global;
    default:
        return false; /* publications may differ; each tells its own */
    }
}

static int judge_resource(struct pdi_registry *registry, uint32_t topic,
                          const struct pdi_wish *wish)
{
    pyddsi_fault fault;
    if (pdi_name_check(wish->text, PDI_NAME_MAX, &fault) != PYDDSI_OK)
        return PDI_STATUS_INVALID;
    if (topic == PDI_CHAIN_END)
        return PDI_STATUS_OK;
    const struct pdi_topic *known = &registry->topics[topic];
    if (known->definers > 0 && !pdi_text_equal(pdi_topic_name(registry, known), wish->text))
        return PDI_STATUS_CONFLICT;
    uint32_t runs = pdi_publication_contradicts(
        registry, topic, wish->reliability, wish->durability, wish->durability != PYDDSI_VOLATILE);
    if (runs == PDI_CHAIN_END)
        return PDI_STATUS_OK;
    const struct pdi_change change = {.kind = PYDDSI_QOS_CONFLICT,
                                      .status = PDI_STATUS_CONFLICT,
                                      .space = wish->space,
                                      .handle = pdi_local_handle(registry, runs),
                                      .peer = PDI_REGISTRY_NONE,
                                      .id = wish->id};
    pdi_registry_tell(registry, &change);
    return PDI_STATUS_CONFLICT;
}

int pdi_wish_judge(struct pdi_registry *registry, const struct pdi_wish *wish)
{
    int status = pdi_id_judge(registry, wish->kind, wish->space, wish->id);
    if (status != PDI_STATUS_OK)
        return status;
    uint32_t topic = pdi_topic_find(registry, wish->space, wish->id);
    if (topic != PDI_CHAIN_END &&
        differs(registry, registry->topics[topic].locals[wish->kind].first, wish))
        return PDI_STATUS_CONFLICT;
    bool unknown = pdi_local_selecting(registry, wish->space, wish->id) == PDI_CHAIN_END;
    switch (wish->kind) {
    case PYDDSI_RESOURCE:
        return judge_resource(registry, topic, wish);
    case PYDDSI_SUBSCRIPTION:
        if (wish->id % 2 == 1 && unknown)
            return PDI_STATUS_INVALID;
        return pdi_mode_judge(registry, wish->id, wish->mode, wish->period_ms, wish->duration_ms);
    case PYDDSI_BINDING:
        if (wish->id % 2 == 0 || unknown)
            return PDI_STATUS_INVALID;
        return pdi_id_judge(registry, PYDDSI_SELECTION, wish->space, wish->new_id);
    default:
        return PDI_STATUS_OK;
    }
}
