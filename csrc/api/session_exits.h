/* session_exits.h - peers of this machine whose process ends: their sessions end at once, and not with their lease.
 *
 *     housekeeping   sessions have begun or ended ──► follow: watches the processes that peers' tokens name
 *     receive        a watched process has ended ──► told: what it had sent is fed first, then its session ends, reason "exited"
 *
 * It holds for all peers of this machine, however they are reached. Where nothing can be watched (exits.h), or where a peer is
 * another user's or in another container, its lease has to do.
 */
#ifndef PDI_API_SESSION_EXITS_H
#define PDI_API_SESSION_EXITS_H

#include "api/session.h"

/* Begins to watch; the port must be open. Without it leases have to do. */
void pdi_session_exits_begin(pyddsi_session *session);
void pdi_session_exits_end(pyddsi_session *session);

/* Watches those who have come, and no longer those who have gone; with the lock. */
void pdi_session_exits_follow(pyddsi_session *session);

/* Ends the sessions of peers whose process has ended. Of the receive thread, which has fed all that it took before. */
void pdi_session_exits_told(pyddsi_session *session);

#endif
