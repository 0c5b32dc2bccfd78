/* urge.c - whether it is time to ask for output.
 *
 * A driver sends packets more cheaply if it sends many at once. So it may let full packets gather, as long as nobody waits
 * for them: until there is half of what leaves with one call of the system, or a quarter of the window, or something
 * else is to go.
 */
#include "node/state.h"

static enum pdi_urge urge_of(const struct pdi_conduit *conduit)
{
    uint32_t quarter = conduit->window.size / 4;
    if (conduit->sealed_size != 0 || conduit->big_left != 0) {
        return PDI_URGE_BRIM;
    }
    if (conduit->flush || conduit->draining || conduit->wanted != 0 || conduit->synch != 0 ||
        conduit->draft_size != 0 || conduit->waiting >= PDI_URGE_BYTES ||
        conduit->waiting >= quarter) {
        return PDI_URGE_SOME;
    }
    return PDI_URGE_SMALL;
}

enum pdi_urge pdi_node_urge(const struct pdi_node *node)
{
    enum pdi_urge most = PDI_URGE_NONE;
    uint32_t conduits = node->config.multicasts + node->peers_used;
    uint32_t number = 0;
    if (node->reply_head != node->reply_tail ||
        pdi_bitset_find(node->talk, node->peers_used, 0) < node->peers_used) {
        most = PDI_URGE_SOME;
    }
    while ((number = pdi_bitset_find(node->work, conduits, number)) < conduits) {
        enum pdi_urge urge = urge_of(&node->out[number++]);
        if (urge > most) {
            most = urge;
        }
    }
    return most;
}
