/* registry_out.c - telling the peers what we declare, and what became of what they declared.
 *
 * All declarations hang in one list in the order in which they were made; one that is withdrawn moves to its end. Each
 * peer has a cursor, before which nothing is left to be told to it. A newcomer's cursor starts at the head, so history
 * and news come out of the same list and cannot mix up their order:
 *
 *     resource 1 ── subscription 1 ── publication 2 ── forget subscription 3 ── ...
 *         ▲ cursor of a newcomer                            ▲ cursor of a peer that knows the rest
 *
 * What is told at once is a batch: one DECLARE with a commit at its end, all of one space, and either declarations or
 * forgets. Declarations and forgets of one id thus never share a transaction. While a batch of forgets is out nothing
 * follows it, so that a repeated forget can never hit what was declared after it; and nothing follows while one that was
 * withdrawn awaits its result, for only then it is known whether it must be forgotten before its id is told anew.
 */
#include "base/bytes.h"
#include "proto/registry_state.h"
#include "wire/encode.h"

enum { COMMIT_BYTES = 2, FORGET_OFFSET = PYDDSI_FORGET_RESOURCE - PYDDSI_RESOURCE };

/* A body in the making. */
struct body {
    uint8_t *out;
    size_t room, at;
    uint32_t count;
};

static int body_put(struct body *body, const pyddsi_declaration *declaration)
{
    pyddsi_fault fault;
    int status = pdi_encode_declaration(declaration, body->out, body->room, &body->at, &fault);
    PDI_CHECK(status != PYDDSI_BAD_INPUT);
    if (status == PYDDSI_OK)
        body->count++;
    return status;
}

/* The count stands in one byte in front; there are never more than 127. */
static struct body body_begin(uint8_t *out, size_t room)
{
    return (struct body){.out = out, .room = room, .at = 1};
}

static void body_end(const struct body *body, size_t *size)
{
    PDI_CHECK(body->count > 0 && body->count < 0x80);
    body->out[0] = (uint8_t)body->count;
    *size = body->at;
}

/* ---- one declaration */

static void property_put(uint64_t id, const uint8_t *value, uint8_t *out, size_t room, size_t *at,
                         pyddsi_list *list)
{
    pyddsi_fault fault;
    const pyddsi_property property = {.id = id, .value = {value, 1}};
    int status = pdi_encode_property(&property, out, room, at, &fault);
    PDI_CHECK(status == PYDDSI_OK);
    (void)status;
    list->count++;
    list->size = *at;
}

static int declaration_put(const struct pdi_registry *registry, uint32_t index, struct body *body)
{
    const struct pdi_local *local = &registry->locals[index];
    const uint8_t reliable = local->reliability == PYDDSI_RELIABLE;
    uint8_t properties[8];
    size_t at = 0;
    pyddsi_declaration out = {.kind = local->kind,
                              .id = local->id,
                              .new_id = local->new_id,
                              .mode = local->mode,
                              .origin = local->origin_ms,
                              .period = local->period_ms,
                              .duration = local->duration_ms,
                              .properties = {.data = properties}};
    if (local->reliability != PYDDSI_BY_RESOURCE)
        property_put(6, &reliable, properties, sizeof properties, &at, &out.properties);
    if (local->durability != PYDDSI_VOLATILE)
        property_put(8, &local->durability, properties, sizeof properties, &at, &out.properties);
    if (out.properties.count > 0 && local->kind != PYDDSI_BINDING)
        out.flags |= PYDDSI_P;
    switch (local->kind) {
    case PYDDSI_RESOURCE:
        out.uri = pdi_topic_name(registry, &registry->topics[local->topic]);
        break;
    case PYDDSI_SELECTION:
        out.query = pdi_selection_text(registry, local->selection);
        out.flags |= local->is_global ? PYDDSI_G : 0;
        break;
    case PYDDSI_BINDING:
        out.flags |= local->is_global ? PYDDSI_G : 0;
        break;
    default:
        break;
    }
    return body_put(body, &out);
}

static int forget_put(const struct pdi_registry *registry, uint32_t index, struct body *body)
{
    const struct pdi_local *local = &registry->locals[index];
    const pyddsi_declaration out = {.kind = local->kind + FORGET_OFFSET, .id = local->id};
    return body_put(body, &out);
}

/* ---- results of ours */

static int results_put(struct pdi_registry *registry, struct pdi_registry_peer *peer,
                       const struct pdi_answer *answers, struct body *body)
{
    while (peer->answers > 0 && body->count < PDI_REGISTRY_BATCH_MAX) {
        const struct pdi_answer *answer = &answers[peer->answer_first];
        const pyddsi_declaration out = {.kind = PYDDSI_RESULT,
                                        .commit = answer->commit,
                                        .status = answer->status,
                                        .id = answer->id};
        if (body_put(body, &out) != PYDDSI_OK)
            break;
        peer->answer_first = (peer->answer_first + 1) % registry->answers_max;
        peer->answers--;
    }
    return PYDDSI_OK;
}

/* ---- batches */

/* Whether what it stands on is, or will be, known to the peer before it. When it never will it is refused here. */
static bool stands(struct pdi_registry *registry, uint32_t peer, uint32_t index,
                   const struct pdi_batch *batch)
{
    const struct pdi_local *local = &registry->locals[index];
    if (local->id > pdi_registry_id_most(registry, peer)) {
        /* of numbers that are ours to choose the last one that it can read is in use */
        pdi_local_refuse(registry, peer, index,
                         local->is_alias ? PDI_STATUS_SPACE : PDI_STATUS_INVALID);
        return false;
    }
    if (local->id % 2 == 0 || local->kind == PYDDSI_SELECTION)
        return true;
    uint32_t on = pdi_local_selecting(registry, local->space, local->id);
    PDI_CHECK(on != PDI_CHAIN_END); /* a selection stays as long as others stand on it */
    uint8_t status = PDI_STATUS_OK;
    for (; on != PDI_CHAIN_END; on = pdi_chain_next(&registry->lane_same, on)) {
        switch (*pdi_said(registry, peer, on)) {
        case PDI_SAID_OK:
            return true;
        case PDI_SAID_FAILED:
            status = registry->locals[on].status;
            continue;
        default:
            break;
        }
        for (uint32_t i = 0; i < batch->count; i++) {
            if (batch->items[i] == on)
                return true;
        }
        return false;
    }
    pdi_local_refuse(registry, peer, index, status);
    return false;
}

/* Fills the batch with what is to be told in this state (DUE with FORGET_DUE, or CONTESTED) from `from` on. Answers the
 * first one that was left. */
static uint32_t batch_fill(struct pdi_registry *registry, uint32_t peer, uint32_t from,
                           bool contested, struct body *body, struct pdi_batch *batch,
                           uint8_t *space)
{
    uint32_t left = PDI_CHAIN_END, next;
    for (uint32_t at = from; at != PDI_CHAIN_END; at = next) {
        const struct pdi_local *local = &registry->locals[at];
        uint8_t said = *pdi_said(registry, peer, at);
        next = pdi_chain_next(&registry->lane_all, at);
        bool forgets = said == PDI_SAID_FORGET_DUE;
        if (contested ? said != PDI_SAID_CONTESTED || local->said[PDI_SAID_SENT] > 0
                      : said != PDI_SAID_DUE && !forgets)
            continue;
        if (!contested && left == PDI_CHAIN_END)
            left = at;
        if (batch->count > 0 && local->space != *space)
            continue;
        if (batch->count > 0 && forgets != batch->forgets)
            break;
        if (!forgets && !stands(registry, peer, at, batch)) {
            if (left == at && *pdi_said(registry, peer, at) != PDI_SAID_DUE)
                left = PDI_CHAIN_END;
            continue;
        }
        if (batch->count == registry->peers[peer].batch_max)
            break;
        if ((forgets ? forget_put(registry, at, body) : declaration_put(registry, at, body)) !=
            PYDDSI_OK) {
            if (batch->count != 0 || forgets)
                break;
            pdi_local_refuse(registry, peer, at, PDI_STATUS_SPACE); /* it never fits */
            left = left == at ? PDI_CHAIN_END : left;
            continue;
        }
        *space = local->space;
        batch->forgets = forgets;
        batch->items[batch->count++] = at;
        if (left == at)
            left = PDI_CHAIN_END;
        pdi_local_said(registry, peer, at, forgets ? PDI_SAID_FORGET_SENT : PDI_SAID_SENT);
    }
    return left;
}

/* Fills the batch with contested ones, or with the others. */
static void fill(struct pdi_registry *registry, uint32_t peer, bool contested, struct body *body,
                 struct pdi_batch *batch, uint8_t *space)
{
    struct pdi_registry_peer *hears = &registry->peers[peer];
    if (contested && hears->contested > 0)
        batch_fill(registry, peer, registry->all.first, true, body, batch, space);
    else if (!contested && hears->todo > 0)
        hears->cursor = batch_fill(registry, peer, hears->cursor, false, body, batch, space);
}

/* Whether another commit may go out now. */
static bool may_commit(const struct pdi_registry_peer *peer)
{
    return peer->batches < peer->batches_max && peer->dying == 0 &&
           (peer->batches == 0 || !peer->batch[peer->batches - 1].forgets);
}

bool pdi_registry_pending(const struct pdi_registry *registry, uint32_t peer)
{
    const struct pdi_registry_peer *asked = &registry->peers[peer];
    if (!asked->joined)
        return false;
    return asked->answers > 0 ||
           (asked->todo + asked->contested > 0 && !asked->stalled && may_commit(asked));
}

bool pdi_registry_contested(const struct pdi_registry *registry, uint32_t peer)
{
    const struct pdi_registry_peer *asked = &registry->peers[peer];
    return asked->answers == 0 && asked->todo == 0 && asked->contested > 0;
}

int pdi_registry_output(struct pdi_registry *registry, uint32_t peer, uint8_t *out, size_t room,
                        size_t *size, uint8_t *space)
{
    PDI_CHECK(room >= PDI_REGISTRY_ROOM_LEAST);
    struct pdi_registry_peer *hears = &registry->peers[peer];
    struct body body = body_begin(out, room);
    if (!pdi_registry_pending(registry, peer))
        return PYDDSI_AGAIN;
    *space = 0;
    if (hears->answers > 0) {
        results_put(registry, hears, registry->answers + (size_t)peer * registry->answers_max,
                    &body);
        body_end(&body, size);
        return PYDDSI_OK;
    }
    struct pdi_batch *batch = &hears->batch[hears->batches];
    batch->count = 0;
    batch->forgets = false;
    body.room = room - COMMIT_BYTES;
    bool contested = hears->turn && hears->contested > 0;
    fill(registry, peer, contested, &body, batch, space);
    if (batch->count == 0) {
        contested = !contested;
        fill(registry, peer, contested, &body, batch, space);
    }
    hears->turn = !contested; /* where there are both, neither starves */
    if (batch->count == 0) {
        hears->stalled = true;
        return PYDDSI_AGAIN;
    }
    batch->commit = hears->commit_next++;
    hears->batches++;
    const pyddsi_declaration commit = {.kind = PYDDSI_COMMIT, .commit = batch->commit};
    body.room = room;
    body_put(&body, &commit);
    body_end(&body, size);
    return PYDDSI_OK;
}
