/* registry.h - what is declared, here and elsewhere, and what matches.
 *
 * Declarations of the application and of the peers go in; declarations for each peer, matches and settled outcomes come
 * out. The registry sees no packet: it reads and writes the bodies of DECLARE messages, which the node moves over the
 * unicast conduit of each peer, reliably and in order. So history and news reach a peer in one order:
 *
 *     our declarations, in the order made; what is withdrawn moves to the end
 *
 *        resource 1 ── subscription 1 ── publication 2 ── forget subscription 3 ── ...
 *            ▲ cursor of a newcomer                           ▲ cursor of a peer that knows the rest
 *
 * What is withdrawn before a peer was told of it is never told to that peer, nor taken back.
 *
 * Out: what fits one DECLARE, and a commit at its end; then the result is awaited. Of a peer with commit mode 0 or 1 one
 * result may be outstanding, with mode n n of them (at most PDI_REGISTRY_BATCHES_MAX). Results of ours always leave, so
 * two that wait for each other do not wait long. A failure leaves out the one that is named and tells the others again;
 * registry_result.c has the rules. A peer that announces no features is told only what zhe understands.
 *
 * In: declarations are kept aside until their commit; then all take effect, or none does and the result names a status
 * and an id. A committed DECLARE that cannot be accepted answers PDI_REGISTRY_REFUSED, and so does a peer that commits
 * without waiting for results: close the session with reason 6. No input costs more than its size times what a match costs;
 * one peer can take at most half of resources_max, of names_bytes and of the predicates, all of them three quarters of the
 * names, and remotes_peer_max subscriptions and selections each.
 *
 *     status          a declaration of a peer gets it when
 *     SPACE        1  there is no room, or the peer has used up its share
 *     CONFLICT     2  the id has another name, text or quality of service that stays
 *     LARGE        3  the transaction is larger than transaction_bytes
 *     RETRY        4  the id has another name, and it is not settled yet which one stays
 *     INVALID      5  the id is 0, wider than rid_bits, at or above 2^56, or of the wrong parity; the name or the query does
 *                     not parse; the selection that it names is not known; the duration is not below the period
 *     UNSUPPORTED  6  features say that we do not do this: spaces, pull, or (features 0) anything but what zhe does
 *     TAKEN      128  it would be the second subscriber of a publication for one
 *
 * Two names for one id (rows 002-2, 002-3). One that is established, which means that every peer there was has accepted
 * it, stays against a newcomer. Of two that are not, the one of the lower peer id (memcmp, shorter first on a tie) stays,
 * the other fails with CONFLICT, is taken back everywhere, and takes no part any more, though its handle lives until it is
 * forgotten. Third ones answer RETRY meanwhile. If two groups meet, each with its own established name, both keep it, and
 * both have the status CONFLICT. Equal names never conflict.
 *
 * Quality of service of a resource: what its definers say by properties 6 and 8; if they do not agree, the lowest peer id
 * counts. The first definition that says something, against a publication that runs with something else, gets CONFLICT,
 * and QOS_CONFLICT is told on both sides; the publication goes on as it was.
 *
 * Several declarations of ours may say the same; what is told to the peers ends with the last one. Saying something else
 * about the same id is a CONFLICT (publications may differ). A selection that is forgotten while subscriptions or bindings
 * stand on it stays until they go. There is no message that takes back a binding; it ends with its selection. A peer that
 * forgets a selection loses its subscription to it.
 *
 * Why the whole outcome is decided without a clock: a wait for "long enough" is either too short on some network or
 * too long on all others. Instead a contested declaration is told again when no other peer owes an answer about it, so
 * rounds follow the network's own pace, and their number has a limit.
 *
 * One thread at a time. Cost: a new subscription is matched against all publications and the other way round, one
 * pdi_intersect each; what goes walks its own links only, so a peer's leaving costs what it had declared, and one step for
 * each declaration of ours (002-22). Ids are as on the wire, keys are (space, id).
 */
#ifndef PDI_PROTO_REGISTRY_H
#define PDI_PROTO_REGISTRY_H

#include "base/carve.h"
#include "base/map.h"
#include "proto/predicate.h"
#include "pyddsi.h"

#define PDI_REGISTRY_NONE       UINT32_MAX
#define PDI_REGISTRY_REFUSED    16   /* beside pyddsi_status: the session cannot go on */
#define PDI_REGISTRY_PENDING    255  /* beside pdi_status: some peer has not answered yet */
#define PDI_REGISTRY_ROOM_MIN   1200 /* so that any single declaration fits */
#define PDI_REGISTRY_ROOM_LEAST 64   /* any without a text */

/* Of results. */
enum pdi_status {
    PDI_STATUS_OK = 0,
    PDI_STATUS_SPACE = 1,
    PDI_STATUS_CONFLICT = 2,
    PDI_STATUS_LARGE = 3,
    PDI_STATUS_RETRY = 4,
    PDI_STATUS_INVALID = 5,
    PDI_STATUS_UNSUPPORTED = 6,
    PDI_STATUS_OTHER = 7,
    PDI_STATUS_TAKEN = 128, /* ours */
};

struct pdi_registry; /* its fields are in proto/registry_state.h */

/* What the application declares. */
struct pdi_wish {
    uint8_t kind; /* enum pyddsi_declaration_kind: RESOURCE to BINDING */
    uint8_t space;
    uint8_t reliability; /* enum pyddsi_reliability; BY_RESOURCE: no property is written */
    uint8_t durability;  /* enum pyddsi_durability; VOLATILE: no property is written */
    uint8_t mode;        /* SUBSCRIPTION: enum pyddsi_mode */
    uint8_t way;         /* PUBLICATION: enum pyddsi_way */
    uint8_t is_global;   /* SELECTION, BINDING */
    uint8_t
        is_chosen; /* RESOURCE: the id is of our choice, so peers without features may be told a smaller one */
    uint64_t id;     /* even for resources, odd for selections; a subscription may name either */
    uint64_t new_id; /* BINDING */
    uint64_t origin_ms, period_ms, duration_ms;
    pyddsi_bytes text; /* RESOURCE: name in wire form; SELECTION: query. Only for the call */
};

/* What has changed. */
struct pdi_change {
    uint8_t
        kind; /* enum pyddsi_event_kind: DECLARED, MATCHED, UNMATCHED, QOS_CONFLICT, REJECTED (each refusal for good) */
    uint8_t status; /* enum pdi_status */
    uint8_t space;  /* with the id: what it is about */
    uint32_t handle;
    uint32_t peer; /* PDI_REGISTRY_NONE if it is about none in particular */
    uint64_t id;
};

/* A subscription of a peer. */
struct pdi_remote {
    uint32_t peer;
    uint64_t id;       /* even a resource, odd a selection */
    uint64_t bound_id; /* of a selection with a global binding: that id, else 0 */
    uint8_t space;
    uint8_t mode;
    uint8_t reliability; /* by property, or BEST_EFFORT by its selection's tag; else BY_RESOURCE */
    uint64_t origin_ms, period_ms, duration_ms;
    const struct pdi_predicate *predicate; /* null: everything */
    uint32_t serial; /* of this subscription with this mode, these times and this reliability */
};

/* Everything in use, to see that nothing leaks. */
struct pdi_registry_usage {
    uint32_t locals, resources, remotes, links, name_bytes, selections;
};

/* How much memory init cuts. */
size_t pdi_registry_size(const pyddsi_config *config);
/* Cuts the memory and starts; while carve only measures it just adds up. OK; BAD_ARGUMENT for sizes that cannot be. */
int pdi_registry_init(struct pdi_registry **registry, const pyddsi_config *config,
                      struct pdi_carve *carve);

/* OK, and *handle is set; NO_SPACE: a table is full; AGAIN: it is full of what peers have still to hear is forgotten;
 * BAD_ARGUMENT: it cannot be. *status says why as a result would. A handle is never used again for 4094 rounds. */
int pdi_registry_declare(struct pdi_registry *registry, const struct pdi_wish *wish,
                         uint32_t *handle, int *status);
/* OK; BAD_ARGUMENT: there is no such declaration (any more). */
int pdi_registry_forget(struct pdi_registry *registry, uint32_t handle);
/* PDI_STATUS_OK: settled with everybody; PDI_REGISTRY_PENDING; else the worst answer. BAD_ARGUMENT: no such. */
int pdi_registry_status(const struct pdi_registry *registry, uint32_t handle);

/* A session with this peer, an index below peers_max, begins. commit_mode as told by property 10, 0 if not told. */
void pdi_registry_join(struct pdi_registry *registry, uint32_t peer, pyddsi_bytes id,
                       uint32_t features, uint64_t commit_mode);
/* It is about to end, since the peer ended it or began anew: what that was told last may have been too much for it. (A lease
 * that is over tells of the network.) */
void pdi_registry_broke(struct pdi_registry *registry, uint32_t peer);
/* It has ended; nothing of it remains, but how wide its ids are. */
void pdi_registry_leave(struct pdi_registry *registry, uint32_t peer);

/* Whether output may have something for this peer. False after output has answered AGAIN, until something has changed. */
bool pdi_registry_pending(const struct pdi_registry *registry, uint32_t peer);
/* Whether all that is pending for this peer has been told before and was to be tried again: there is no hurry. */
bool pdi_registry_contested(const struct pdi_registry *registry, uint32_t peer);
/* The body of the next DECLARE for this peer, as it stands behind the sequence number (the count, then the declarations),
 * in at most room bytes, PDI_REGISTRY_ROOM_LEAST or more; all of one *space. What does not fit by itself, where room is less
 * than PDI_REGISTRY_ROOM_MIN, is refused as if the peer had no space. What was written counts as sent: it is
 * delivered, or the peer leaves. OK; AGAIN: nothing now. */
int pdi_registry_output(struct pdi_registry *registry, uint32_t peer, uint8_t *out, size_t room,
                        size_t *size, uint8_t *space);
/* The declarations of a DECLARE of this peer, in order. committed: it had the flag C. OK; PDI_REGISTRY_REFUSED. */
int pdi_registry_input(struct pdi_registry *registry, uint32_t peer, uint8_t space, bool committed,
                       pyddsi_list declarations);

/* The next change, OK or END. They wait in a ring of events_max; what found no room is counted. */
int pdi_registry_change(struct pdi_registry *registry, struct pdi_change *change);
uint64_t pdi_registry_changes_lost(const struct pdi_registry *registry);

/* Whether a peer has answered for what we told it of the name of this publication. Until then it may not know the name, and
 * what matches by name alone could reach it as a sample of something unknown. True as well if there was nothing to tell. */
bool pdi_registry_knows(const struct pdi_registry *registry, uint32_t publication, uint32_t peer);

/* The widest id (doubled) that this peer can read, as far as its sessions have shown; UINT64_MAX: any. */
uint64_t pdi_registry_id_most(const struct pdi_registry *registry, uint32_t peer);

/* The id that samples of this one carry where a peer without features hears them: to it alone, or by a group. */
uint64_t pdi_registry_told_id(const struct pdi_registry *registry, uint8_t space, uint64_t id,
                              bool by_group);

/* How a peer has taken one of our declarations: PDI_STATUS_OK; PDI_REGISTRY_PENDING: it has not answered yet; else it does
 * not have it. */
int pdi_registry_taken(const struct pdi_registry *registry, uint32_t handle, uint32_t peer);

/* Whether this peer has declared something, and it was taken in. */
bool pdi_registry_told(const struct pdi_registry *registry, uint32_t peer);

/* How often the links of this publication, or the subscriptions behind them, have changed; for caches. */
uint32_t pdi_registry_link_changes(const struct pdi_registry *registry, uint32_t publication);
/* The first and the next link of a publication, PDI_REGISTRY_NONE at the end; and the subscription behind a link. Links
 * and subscriptions stay where they are until the next call that is not const. */
uint32_t pdi_registry_link_first(const struct pdi_registry *registry, uint32_t publication);
uint32_t pdi_registry_link_next(const struct pdi_registry *registry, uint32_t link);
const struct pdi_remote *pdi_registry_link_remote(const struct pdi_registry *registry,
                                                  uint32_t link);

/* Which of our subscriptions (handles) a sample is for that came for data id `id` (0: not known), with the reason `via` (flag
 * A; else 0), or by name (WDATA: ids 0; the name may have wildcards). With a reason it is for those who gave it: their id, or
 * the global id that their selection is bound to; if nobody did, as without. At most max are written; answers how many there
 * are. Predicates are not looked at. */
uint32_t pdi_registry_routes(const struct pdi_registry *registry, uint8_t space, uint64_t id,
                             uint64_t via, pyddsi_bytes name, uint32_t *handles, uint32_t max);
/* Whether this peer subscribes to what is put by this name alone. */
bool pdi_registry_wants(const struct pdi_registry *registry, uint32_t peer, pyddsi_bytes name);
/* Grows whenever an earlier answer of pdi_registry_routes may have become wrong. */
uint64_t pdi_registry_route_changes(const struct pdi_registry *registry);
/* Grows whenever one of our declarations settles, also when there is nothing new to tell of it. */
uint64_t pdi_registry_settles(const struct pdi_registry *registry);
/* The predicate of our subscription; null: everything. */
const struct pdi_predicate *pdi_registry_predicate(const struct pdi_registry *registry,
                                                   uint32_t subscription);

/* What is known of an id: its name (size 0: none), and what its definition says, BY_RESOURCE and VOLATILE if nothing. */
pyddsi_bytes pdi_registry_name(const struct pdi_registry *registry, uint8_t space, uint64_t id);
/* The same; else what it was called last, as far as that is remembered (late.h): for people, who read late. */
pyddsi_bytes pdi_registry_name_late(const struct pdi_registry *registry, uint8_t space,
                                    uint64_t id);
/* What the peers have declared; answers how many that are, of which the first `max` are written, with the names in
 * names[room]. */
size_t pdi_registry_known(const struct pdi_registry *registry, pyddsi_known *known, size_t max,
                          uint8_t *names, size_t room);
uint8_t pdi_registry_reliability(const struct pdi_registry *registry, uint8_t space, uint64_t id);
uint8_t pdi_registry_durability(const struct pdi_registry *registry, uint8_t space, uint64_t id);

struct pdi_registry_usage pdi_registry_usage(const struct pdi_registry *registry);

#endif
