/* guard.c - a handler runs only if it can write.
 *
 * A subscriber may name publishers and sizes: it gets a sample only while each of these has room for so much, so what it
 * writes in answer never waits. The guards of all readers of a sample count together, and with those of the samples
 * that lie in rings and have not been taken; what they come to is added up per window, and asked there once.
 */
#include "node/state.h"

/* Adds what the handler of this reader may write for so many samples to the conduits concerned; 0 samples: nothing is
 * promised there any more. */
static void add_promise(struct pdi_node *node, const struct pdi_subscriber *reader,
                        uint32_t samples)
{
    for (uint32_t i = 0; i < reader->guards; i++) {
        struct pdi_publisher *publisher = pdi_publisher_get(node, reader->guard_publisher[i]);
        uint32_t bytes = reader->guard_bytes[i];
        if (publisher == NULL || !publisher->reliable || bytes > PDI_WINDOW_BYTES_MAX) {
            continue;
        }
        (void)pdi_plan(node, publisher, node->now);
        uint32_t numbers = pdi_publish_pieces(bytes, pdi_publish_piece(node, publisher, bytes));
        struct pdi_way way;
        pdi_publish_way(node, publisher, bytes, &way);
        pdi_way_promise(node, &way, bytes, numbers, samples);
    }
}

/* Whether the windows that this reader's handler writes to have room for all that is promised there. What one sample alone
 * promises may be more than they ever hold: that is not waited for. */
static bool kept(struct pdi_node *node, const struct pdi_subscriber *reader, bool alone)
{
    bool all = true;
    for (uint32_t i = 0; all && i < reader->guards; i++) {
        struct pdi_publisher *publisher = pdi_publisher_get(node, reader->guard_publisher[i]);
        if (publisher == NULL || !publisher->reliable) {
            continue;
        }
        struct pdi_way way;
        all = pdi_plan(node, publisher, node->now) == PYDDSI_OK;
        pdi_publish_way(node, publisher, reader->guard_bytes[i], &way);
        int status = all ? pdi_way_room(node, &way) : PYDDSI_AGAIN;
        all = status == PYDDSI_OK || (status == PYDDSI_BAD_ARGUMENT && alone);
    }
    return all;
}

static bool in_route(const struct pdi_route *route, uint32_t reader)
{
    for (uint32_t i = 0; i < route->count; i++) {
        if (route->reader[i] == reader) {
            return true;
        }
    }
    return false;
}

/* The guards of all readers of a sample together. Each handler may write what its guard says for this sample, and for those
 * that it has not taken yet; there must be room for all of that. */
bool pdi_guard_keeps(struct pdi_node *node, const struct pdi_route *route)
{
    bool all = true;
    bool alone = true; /* no handler has a sample that it has not taken */
    for (uint32_t i = 0; i < node->readers_used; i++) {
        const struct pdi_subscriber *reader = &node->readers[i];
        if (!reader->used || reader->guards == 0) {
            continue;
        }
        uint32_t waiting = pdi_ring_used(reader);
        alone = alone && waiting == 0;
        if (waiting + in_route(route, i) != 0) {
            add_promise(node, reader, waiting + in_route(route, i));
        }
    }
    for (uint32_t i = 0; all && i < route->count; i++) {
        all = kept(node, &node->readers[route->reader[i]], alone);
    }
    for (uint32_t i = 0; i < node->readers_used; i++) {
        if (node->readers[i].used) {
            add_promise(node, &node->readers[i], 0);
        }
    }
    return all;
}
