/* session_tap.h - where a session's packets and samples go into a recording; called only while there is one. */
#ifndef PDI_API_SESSION_TAP_H
#define PDI_API_SESSION_TAP_H

#include "api/session.h"

/* A packet that has come, and lies in the node's slot, or in an inbox if it is larger. */
struct pdi_tap_input {
    const uint8_t *data;
    size_t size;
    const pyddsi_endpoint *from;
    const pyddsi_endpoint *group; /* by which it came; null: it was for us alone */
    bool unpacked;                /* from an inbox */
};

/* A sample in a lane. */
struct pdi_tap_sample {
    const uint8_t *data;
    size_t size;
    uint64_t resource;
    uint8_t space, reliable;
};

/* Packets that leave next; without the session's lock. */
__attribute__((noinline)) void pdi_session_tap_sent(pyddsi_session *session,
                                                    const struct pdi_port_packet *packets,
                                                    uint32_t count);
/* pdi_node_input, and the packet into the recording; with the lock. */
__attribute__((noinline)) void
pdi_session_tap_input(pyddsi_session *session, const struct pdi_tap_input *input, pdi_time now);
/* A sample that is put into a lane of ours; with the lane's lock. */
__attribute__((noinline)) void pdi_session_tap_out(pyddsi_session *session,
                                                   const struct pdi_lane_out *lane,
                                                   const void *data, size_t size);
/* Samples that were brought from a lane; with the session's lock. */
__attribute__((noinline)) void pdi_lanes_tap_in(const struct pdi_lanes *lanes,
                                                const struct pdi_lane_in *lane,
                                                const struct pdi_poured *samples, uint32_t count);

/* pyddsi_session_record, for a session that is being opened. */
int pdi_session_tap_begin(pyddsi_session *session, uint32_t ring_bytes);

#endif
