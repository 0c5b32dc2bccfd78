/* session_exits.c - see session_exits.h. */
#include "api/session_exits.h"

#include <stdlib.h>
#include <unistd.h>

#include "api/token.h"

#define ESTABLISHED 254

void pdi_session_exits_begin(pyddsi_session *session)
{
    const pyddsi_config *config = &session->options.node;
    struct pdi_watched *watched = &session->watched;
    if (config->token_size == 0 ||
        pdi_exits_init(&watched->exits, config->peers_max) != PYDDSI_OK) {
        return;
    }
    watched->epochs = calloc(config->peers_max, sizeof *watched->epochs);
    watched->on =
        watched->epochs != NULL && pdi_port_watch(session->port, watched->exits.epoll) == PYDDSI_OK;
}

void pdi_session_exits_end(pyddsi_session *session)
{
    session->watched.on = false;
    pdi_exits_fini(&session->watched.exits);
    free(session->watched.epochs);
    session->watched.epochs = NULL;
}

/* A process that cannot be watched is not asked for again: its row has the epoch. */
void pdi_session_exits_follow(pyddsi_session *session)
{
    struct pdi_watched *watched = &session->watched;
    uint32_t changes = pdi_node_peer_changes(session->node);
    pyddsi_peer peer;
    if (!watched->on || watched->changes == changes) {
        return;
    }
    watched->changes = changes;
    for (uint32_t i = 0; pdi_node_peer(session->node, i, &peer) == PYDDSI_OK; i++) { /* peers_max */
        struct pdi_token token;
        uint32_t epoch = peer.state == ESTABLISHED ? peer.epoch + 1U : 0;
        if (watched->epochs[i] == epoch) {
            continue;
        }
        watched->epochs[i] = epoch;
        if (epoch != 0 && pdi_token_get(&peer, &token) && token.host == watched->host &&
            token.pid != (uint32_t)getpid()) {
            (void)pdi_exits_watch(&watched->exits, i, token.pid);
        } else {
            pdi_exits_forget(&watched->exits, i);
        }
    }
}

void pdi_session_exits_told(pyddsi_session *session)
{
    struct pdi_watched *watched = &session->watched;
    uint32_t row;
    pdi_lock_take(&session->lock);
    while (!session->closed && pdi_exits_next(&watched->exits, &row)) { /* each is forgotten */
        pdi_node_exited(session->node, row, (uint16_t)(watched->epochs[row] - 1),
                        pdi_session_now(session));
        pdi_exits_forget(&watched->exits, row);
    }
    pdi_session_leave(session);
}
