/* session_look.c - what a session knows of its peers' declarations, and samples that leave piece by piece. */
#include <string.h>

#include "api/session.h"

void pyddsi_session_ring(pyddsi_session *session)
{
    (void)pdi_bell_ring(session->bell);
}

int pyddsi_session_name(pyddsi_session *session, uint8_t space, uint64_t id, uint8_t *name,
                        size_t room, size_t *size)
{
    int status = PYDDSI_END;
    if (!pdi_session_here(session))
        return PYDDSI_CLOSED;
    pdi_lock_take(&session->lock); /* also after the end: samples may be read then */
    pyddsi_bytes found = pdi_node_name(session->node, space, id);
    if (found.size != 0) {
        status = found.size <= room ? PYDDSI_OK : PYDDSI_NO_SPACE;
        memcpy(name, found.data, status == PYDDSI_OK ? found.size : 0);
        *size = found.size;
    }
    pdi_lock_give(&session->lock);
    return status;
}

int pyddsi_session_known(pyddsi_session *session, pyddsi_known *known, size_t max, size_t *count,
                         uint8_t *names, size_t room)
{
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    *count = pdi_node_known(session->node, known, max, names, room);
    pdi_session_leave(session);
    return *count <= max ? PYDDSI_OK : PYDDSI_NO_SPACE;
}
