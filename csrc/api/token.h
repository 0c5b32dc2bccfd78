/* token.h - what a session tells its peers in property 7 of OPEN and ACCEPT: which machine it is on, as which process, and where
 * its page of shared memory lies.
 *
 *     host 8 │ cookie 8 │ pid 4 │ fd 4 │ size 4       in the byte order of the machine: it is read there or not at all
 *
 * The host is the same for two processes that see each other's process numbers and may map each other's memory (segment.h).
 * A size of 0: it shares no memory, but whoever is on the same machine can still see when its process ends (exits.h).
 *
 * Any peer may tell any token. One that shows the process of another is taken for gone when that one ends; its session ends, and no
 * other's.
 */
#ifndef PDI_API_TOKEN_H
#define PDI_API_TOKEN_H

#include <stdbool.h>

#include "pyddsi.h"

struct pdi_token {
    uint64_t host, cookie;
    uint32_t pid, fd, size;
};

/* Says it to all peers of a session with this configuration. */
void pdi_token_put(const struct pdi_token *token, pyddsi_config *config);
/* False: the peer has told none. */
bool pdi_token_get(const pyddsi_peer *peer, struct pdi_token *token);

#endif
