/* env.h - the back door: what a node asks of whoever runs it, beyond bytes and the time.
 *
 * Samples may reach a node past its sockets (pdi_node_bring): their bytes lie in memory that the node knows nothing of. It
 * tells here how long it needs them: one hold for each ring that a sample lies in, and one release for each hold. Both are
 * called in the middle of the node's work, as is overtaken, so they must not call it.
 */
#ifndef PDI_ENV_H
#define PDI_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PDI_ENV_HELD                                                                               \
    UINT32_C(                                                                                      \
        0x40000000) /* in pyddsi_received.held: not the node's own memory; below it 30 bits of the runner's */

struct pdi_env {
    void *context;
    void (*hold)(void *context, uint32_t held);
    void (*release)(void *context, uint32_t held);
    /* Whether later samples of this resource and peer have come past the sockets: best effort that comes by one now is
     * too late. */
    bool (*overtaken)(void *context, uint32_t peer, uint8_t space, uint64_t resource);
    /* A copy of these bytes, held once; OK, AGAIN: there is no room now, or BAD_ARGUMENT: there never is. Null: the node
     * has no readers of its own. */
    int (*copy)(void *context, const uint8_t *data, size_t size, uint32_t *held,
                const uint8_t **bytes);
    /* Whether samples of this resource that went past the sockets have still to reach their readers. */
    bool (*lingers)(void *context, uint8_t space, uint64_t resource);
};

#endif
