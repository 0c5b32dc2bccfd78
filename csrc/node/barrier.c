/* barrier.c - a resource moves from one conduit to another, as its sender says by a MIGRATE.
 *
 *     old conduit   ... 17 18 19                 numbers up to last_reliable must have come,
 *     new conduit              │ 5 6 7 ...       before 5 is handed over (deliver.c asks: passes)
 *
 * What waits is held like any message that cannot be handled yet, so the writer feels it too.
 */
#include "node/state.h"

/* A resource moves here: what comes now on this conduit waits for what was sent on the other. */
void pdi_turn_migrate(struct pdi_node *node, uint32_t peer, uint32_t conduit,
                      const pyddsi_message *message, pdi_time now)
{
    if (message->left >= node->config.conduits_in || message->left == conduit) {
        pdi_drop(node, PYDDSI_AT_INPUT, PYDDSI_BY_UNSUPPORTED, 0, 0, 1, now);
        return;
    }
    struct pdi_order *left = pdi_node_order(node, peer, (uint32_t)message->left);
    int64_t last = (int64_t)message->last_reliable;
    if (left->synched) {
        last = pdi_seq_unwrap(left->seq, left->expected, message->last_reliable);
        if (last < left->expected) {
            return; /* all of it has come */
        }
    }
    struct pdi_barrier *at = NULL;
    for (uint32_t i = 0; i < PDI_BARRIERS_MAX; i++) {
        struct pdi_barrier *barrier = &node->barriers[i];
        if (barrier->used && barrier->peer == peer && barrier->on == conduit &&
            barrier->left == message->left && barrier->id == message->rid &&
            barrier->space == message->space && barrier->begun == left->synched &&
            barrier->last_reliable == last) {
            return; /* told again, with a repetition */
        }
        at = at == NULL && !barrier->used ? barrier : at;
    }
    if (at == NULL) {
        pdi_drop(node, PYDDSI_AT_ORDER, PYDDSI_BY_LIMIT, (uint8_t)message->space, message->rid, 0,
                 now);
        return;
    }
    *at = (struct pdi_barrier){.used = 1,
                               .space = (uint8_t)message->space,
                               .whole = (message->flags & PYDDSI_I) == 0,
                               .begun = left->synched,
                               .peer = peer,
                               .on = (uint16_t)conduit,
                               .left = (uint16_t)message->left,
                               .id = message->rid,
                               .last_reliable = last};
    node->barriers_used++;
}
