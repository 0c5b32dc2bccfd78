/* lone.h - a node that talks to nobody: what it would say is looked at in its state. */
#ifndef PDI_TESTS_LONE_H
#define PDI_TESTS_LONE_H

#include <stdlib.h>

#include "node/state.h"
#include "test.h"

/* With room for so many peers; *memory is to be freed. */
static inline struct pdi_node *lone_node(pyddsi_config *config, uint32_t peers, void **memory)
{
    config->id_size = 8;
    config->seed = 1;
    config->peers_max = peers;
    size_t size = pdi_node_size(config, NULL);
    struct pdi_node *node = NULL;
    *memory = aligned_alloc(PDI_CACHE_LINE,
                            (size + PDI_CACHE_LINE - 1) / PDI_CACHE_LINE * PDI_CACHE_LINE);
    CHECK(*memory != NULL);
    CHECK_EQ(pdi_node_init(&node, config, *memory, size, false, 0), PYDDSI_OK);
    for (uint32_t peer = 0; peer < peers; peer++) { /* as if they had told what we would */
        (void)pdi_seq_init(&node->peers[peer].seq, config->seq_bits);
    }
    return node;
}

#endif
