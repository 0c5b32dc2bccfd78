/* trace_inside.h - what the files of the trace share.
 *
 *     trace.c          parties: whose packets are ours
 *     trace_memory.c   memory
 *     trace_flow.c     flows: finding, making and ending them
 *     trace_number.c   numbers: gaps, repeats, what comes late
 *     trace_sent.c     when each was first sent, and which are missing
 *     trace_ack.c      acknowledgements: who has what, and how long it took
 *     trace_session.c  opening, closing, leases
 *     trace_party.c    what parties tell of themselves
 *     trace_name.c     resources
 *     trace_sweep.c    what is given up when a table is full
 *     trace_store.c       the state as bytes
 */
#ifndef PDI_CAPTURE_TRACE_INSIDE_H
#define PDI_CAPTURE_TRACE_INSIDE_H

#include "base/check.h"
#include "capture/hash.h"
#include "capture/trace.h"
#include "wire/list.h"

/* Whole microseconds from one time to another; PDI_NONE64 if one of them is not known, or the clock was set back. */
static inline int64_t pdi_trace_us(int64_t from, int64_t to)
{
    if (from == PDI_NONE64 || to == PDI_NONE64 || to < from) {
        return PDI_NONE64;
    }
    return (int64_t)(((uint64_t)to - (uint64_t)from) / 1000);
}

#define PDI_FAR (INT64_C(1) << 31) /* a number as far away as this is not of its counter */

/* The arithmetic of a flow's numbers; its length has been checked. */
static inline struct pdi_seq pdi_trace_seq(const struct pdi_flow *flow)
{
    uint64_t half = UINT64_C(1) << (flow->seq_bits - 1);
    return (struct pdi_seq){.mask = (half << 1) - 1, .half = half};
}

/* A new event, of which the type is set and nothing else; never null: what has no room goes into a spare place. */
struct pdi_event *pdi_trace_event(struct pdi_trace *trace, unsigned type, int64_t time_ns);
/* Sets the detail: a format of printf's with one text and one number is all that is needed. */
void pdi_event_say(struct pdi_event *event, const char *text, uint64_t number);

/* ---- parties ---- */

/* The party with this endpoint, made if need be. */
uint32_t pdi_party_get(struct pdi_trace *trace, const pyddsi_endpoint *at);
/* The same, or PDI_NONE32. */
uint32_t pdi_party_find(struct pdi_trace *trace, const pyddsi_endpoint *at);
/* Makes it in this free place. */
void pdi_party_set(struct pdi_trace *trace, uint32_t party, const pyddsi_endpoint *at);

/* ---- flows ---- */

/* In the place of a party: whichever groups a conduit goes to, it has one counter. */
#define PDI_ALL_GROUPS ((uint32_t)PDI_PARTIES_MAX)

/* The flow from a party to another, or to all groups, on a conduit; PDI_NONE32 if there is none. */
uint32_t pdi_flow_find(struct pdi_trace *trace, uint32_t source, uint32_t to, uint64_t conduit,
                       bool reliable);
/* In the place of a party in such a search: the groups, if the target is one. */
uint32_t pdi_flow_target(const struct pdi_trace *trace, uint32_t target);
/* The same for a party or a group, made if need be. */
uint32_t pdi_flow_get(struct pdi_trace *trace, uint32_t source, uint32_t target, uint64_t conduit,
                      bool reliable);
/* Makes it in this free place; false: there is one. */
bool pdi_flow_set(struct pdi_trace *trace, uint32_t flow, uint32_t source, uint32_t target,
                  uint64_t conduit, bool reliable);
/* A message that takes a number of its flow. */
void pdi_flow_count(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                    const pyddsi_message *message, pyddsi_note *note);
void pdi_flow_synch(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                    const pyddsi_message *message, pyddsi_note *note);
/* A message that belongs to a flow and takes none of its numbers. */
void pdi_flow_mention(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                      const pyddsi_message *message, pyddsi_note *note);
/* Forgets what was seen of its numbers, and who acknowledged them. */
void pdi_flow_restart(struct pdi_trace *trace, uint32_t index);
/* The highest number becomes this one, which was first sent now. */
void pdi_sent_note(struct pdi_trace *trace, struct pdi_flow *flow, int64_t usn, int64_t time_ns);
void pdi_sent_free(struct pdi_trace *trace, struct pdi_flow *flow);
void pdi_missing_free(struct pdi_trace *trace, struct pdi_flow *flow);
void pdi_missing_add(struct pdi_trace *trace, struct pdi_flow *flow, int64_t from, int64_t to);
bool pdi_missing_has(const struct pdi_trace *trace, const struct pdi_flow *flow, int64_t usn);
/* Whether the number was missing; it no longer is. */
bool pdi_missing_take(struct pdi_trace *trace, struct pdi_flow *flow, int64_t usn);
/* When a number was first sent, PDI_NONE64 if that is not remembered. */
int64_t pdi_flow_sent(const struct pdi_trace *trace, const struct pdi_flow *flow, int64_t usn);
/* Remembers it, for a number from the flow's base to its highest; PDI_NONE64: it is not known. */
void pdi_flow_sent_set(const struct pdi_trace *trace, const struct pdi_flow *flow, int64_t usn,
                       int64_t time_ns);
void pdi_flow_free(struct pdi_trace *trace, uint32_t index);
/* A flow to groups begins: a SYNCH on its conduit may have gone to somebody already. */
void pdi_flow_synched(struct pdi_trace *trace, struct pdi_flow *flow);
/* Begins a range for it. */
void pdi_flow_tally(struct pdi_flow *flow);
void pdi_histograms_free(struct pdi_trace *trace, struct pdi_flow *flow);

/* ---- acknowledgements ---- */

void pdi_ack_count(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                   const pyddsi_message *message, pyddsi_note *note);
/* Nobody, or this party, acknowledges the flow any more; or the party itself is gone. */
void pdi_ackers_free(struct pdi_trace *trace, struct pdi_flow *flow);
void pdi_acker_leave(struct pdi_trace *trace, uint32_t index, uint32_t party);
void pdi_acker_free(struct pdi_trace *trace, uint32_t index, uint32_t party);

/* ---- what parties tell of themselves ---- */

/* Its id; it may have come from another place. */
void pdi_party_named(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                     pyddsi_bytes id);
void pdi_party_properties(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                          const pyddsi_message *message);
/* Which party has told which id, anew from what all have told. */
void pdi_ids_again(struct pdi_trace *trace);
void pdi_party_locators(struct pdi_trace *trace, const pyddsi_message *message);
/* An event about the sender of this packet. */
struct pdi_event *pdi_party_event(struct pdi_trace *trace, unsigned type,
                                  const struct pdi_trace_packet *packet);

/* ---- sessions ---- */

/* Which of the two sides of a session a party is. */
static inline unsigned pdi_seen_side(const struct pdi_seen *session, uint32_t party)
{
    return session->party[0] == party ? 0 : 1;
}

void pdi_seen_message(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                      const pyddsi_message *message, pyddsi_note *note);
void pdi_seen_heard(struct pdi_trace *trace, uint32_t index, int64_t time_ns);
/* It is over at this time, which the packet at hand shows. */
void pdi_seen_end(struct pdi_trace *trace, uint32_t index, unsigned end, int64_t time_ns);
void pdi_seen_free(struct pdi_trace *trace, uint32_t index);
/* Takes in what a snapshot told of it; false: its two have a session, or are one. */
bool pdi_seen_set(struct pdi_trace *trace, uint32_t session);

/* ---- names ---- */

/* A DECLARE; |again|: it was seen before. */
void pdi_names_message(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                       const pyddsi_message *message, bool again);
void pdi_resource_free(struct pdi_trace *trace, uint32_t index);
/* Whether nobody has declared the number after this. */
bool pdi_resource_is_last(const struct pdi_trace *trace, uint32_t resource);
/* Makes it in this free place; false: there is one, or no room for the name. */
bool pdi_resource_set(struct pdi_trace *trace, uint32_t index, const struct pdi_resource *resource,
                      pyddsi_bytes name, bool last);

/* ---- room ---- */

/* Gives up the half of a table that was idle longest. */
void pdi_sweep_parties(struct pdi_trace *trace);
void pdi_sweep_flows(struct pdi_trace *trace);
void pdi_sweep_sessions(struct pdi_trace *trace);
void pdi_sweep_resources(struct pdi_trace *trace);
/* Makes the lists of all parties anew. */
void pdi_trace_relink(struct pdi_trace *trace);

#endif
