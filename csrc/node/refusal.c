/* refusal.c - sessions that did not come about because one side refused: whose, why, and how often.
 *
 * A node whose places for peers are taken answers an OPEN by CLOSE, reason 3, and so both sides know of it: the refusing
 * node by its own limit, the other by that CLOSE, which comes while it is opening. Both go on asking every scout_ms, so a
 * refusal is an entry of a table, told as one event when it is new, and not told again while it lasts. An entry leaves
 * with the session that comes about after all, or gives its place away when it was not repeated for some rounds. Where
 * all places are held by others the ledger alone counts, so that invented peers cost no events.
 */
#include "node/state.h"

/* Whether it was not repeated for so long that it says nothing of now. */
static bool stale(const struct pdi_node *node, const pyddsi_refusal *refusal)
{
    return node->now - refusal->last_ns >
           PDI_REFUSAL_ROUNDS * PDI_TIME_MS * (pdi_time)node->config.scout_ms;
}

static pyddsi_refusal *place_for(struct pdi_node *node, const pyddsi_endpoint *endpoint)
{
    pyddsi_refusal *found = NULL;
    for (uint32_t i = 0; i < PDI_REFUSALS_MAX; i++) {
        pyddsi_refusal *one = &node->refusals[i];
        if (one->count != 0 && pdi_endpoint_equal(&one->endpoint, endpoint)) {
            return one;
        }
        found = found == NULL && (one->count == 0 || stale(node, one)) ? one : found;
    }
    return found;
}

void pdi_refusal_note(struct pdi_node *node, const pyddsi_endpoint *endpoint, pyddsi_bytes id,
                      uint32_t reason, pdi_time now)
{
    pyddsi_refusal *one = place_for(node, endpoint);
    enum pyddsi_reason line = reason == PYDDSI_END_LIMIT    ? PYDDSI_BY_PEERS_MAX
                              : reason == PYDDSI_END_LENGTH ? PYDDSI_BY_UNSUPPORTED
                                                            : PYDDSI_BY_REFUSED;
    pdi_drop(node, PYDDSI_AT_INPUT, line, 0, 0, 1, now);
    if (one == NULL || id.size > PYDDSI_ID_MAX) {
        return;
    }
    bool fresh = one->count == 0 || !pdi_endpoint_equal(&one->endpoint, endpoint) ||
                 one->reason != reason || stale(node, one);
    if (fresh) {
        *one = (pyddsi_refusal){.endpoint = *endpoint, .reason = reason, .first_ns = now};
    }
    if (id.size != 0) {
        one->id_size = (uint8_t)id.size;
        memcpy(one->id, id.data, id.size);
    }
    one->count++;
    one->last_ns = now;
    if (fresh) {
        pyddsi_event *event = pdi_event_push(node, PYDDSI_REFUSED, now);
        event->endpoint = *endpoint;
        event->reason = reason;
        event->id_size = one->id_size;
        memcpy(event->id, one->id, sizeof event->id);
    }
}

/* Whether a CLOSE answers an OPEN of ours, and ends no session. Reason 0 is no refusal: the peer begins another session. */
bool pdi_refusal_close(struct pdi_node *node, uint32_t peer, const pyddsi_message *message,
                       pdi_time now)
{
    uint8_t state = pdi_peer_look(&node->peers[peer].word).state;
    bool opening = state >= PDI_PEER_OPENING && state <= PDI_PEER_OPENING_LAST;
    if (opening && message->reason != 0) {
        pdi_refusal_note(node, &node->peers[peer].endpoint, message->id, (uint32_t)message->reason,
                         now);
    }
    return opening || pdi_lead_answered(node, peer, message->reason);
}

/* There is a session with this address. */
void pdi_refusal_over(struct pdi_node *node, const pyddsi_endpoint *endpoint)
{
    for (uint32_t i = 0; i < PDI_REFUSALS_MAX; i++) {
        pyddsi_refusal *one = &node->refusals[i];
        if (one->count != 0 && pdi_endpoint_equal(&one->endpoint, endpoint)) {
            one->count = 0;
        }
    }
}

int pdi_node_refusal(const struct pdi_node *node, uint32_t index, pyddsi_refusal *refusal)
{
    for (uint32_t i = 0; i < PDI_REFUSALS_MAX; i++) {
        const pyddsi_refusal *one = &node->refusals[i];
        if (one->count != 0 && !stale(node, one) && index-- == 0) {
            *refusal = *one;
            return PYDDSI_OK;
        }
    }
    return PYDDSI_END;
}
