/* registry.h - what is declared, here and elsewhere, and what matches. CONTRACT, the essay is the implementer's.
 *
 * One small machine: declarations of the application and of peers go in; declarations for each peer, matches and settled
 * outcomes come out. It sees no packet: it reads and writes the bodies of DECLARE messages; the node moves these over the
 * unicast conduit of each peer, reliably and in order. So every peer hears our declarations in the order in which they
 * were made, and history and news cannot mix up their order (row 002-36): each peer has one cursor on one list.
 *
 *   local declarations, in the order made (a list through indices, no scan over free slots):
 *
 *        resource 1 ── subscription 1 ── publication 2 ── forget subscription 1 ── ...
 *                          ▲ cursor of peer A (newcomer)        ▲ cursor of peer B
 *
 * An item that is forgotten before a peer's cursor has reached it is never told to that peer; a forget item is freed when
 * all cursors have passed it.
 *
 * Outgoing, per peer: a batch of declarations, then a commit (ids 0 .. 255 wrap), then the result is awaited; the peer's
 * commit mode says how many results may be outstanding beyond one before further DECLAREs wait. Result 4 (try again): the
 * whole batch is sent again after all incoming transactions have been handled (bounded rounds: rule below). Other failure
 * statuses: the named declaration (by id) is marked failed with that peer and the rest of the batch is sent again without it
 * (so one bad one does not take the good ones with it).
 *
 * Incoming, per peer: declarations are kept aside as bytes (at most transaction_bytes, else status 3) until the commit; then all
 * are checked, and either all take effect or none does and the result names status and id. A retryable status (4) is
 * overridden by a definite one; otherwise the first problem counts. With the C flag a DECLARE is a transaction of its own
 * without result; a failure answers PDI_REGISTRY_REFUSED (the node closes with reason 6).
 *
 * Checks: resource: name valid (5), id already bound to another name (2), QoS properties contradict a local publication that
 * runs with other QoS without a definition (2, and change QOS_CONFLICT), known with equal name: idempotent (0); id above
 * the width rid_bits (5); no room (1); while OUR declaration of the same id with ANOTHER name is not yet settled anywhere (pending): the lower peer
 * id (memcmp, shorter first on a tie) wins: the winner answers 4, the loser accepts, and its own declaration then fails
 * with conflict (2) locally if the names differ. Equal names never conflict.
 * subscription: id above width (5); no room (1); predicate or selection unknown at commit (5); a publication with way UNICAST
 * that it would match already has a subscriber in another peer: PDI_STATUS_TAKEN. Modes 2 to 5 to be accepted. selection: query text parses (5),
 * id odd (5), known with another text (2). binding: both ids odd, old one known (5). publication: 0. forget: 0 even if unknown. A
 * subscription mode outside 1 .. 5 or an undefined declaration kind never gets here (the decoder refuses).
 * PDI_STATUS_TAKEN is 128 (ours; statuses up to 254 are allowed).
 *
 * Matching: a remote subscription matches a local publication if they are in the same space and have the same id, or
 * both names are known (here) and intersect (wire/match.h); for a selection its path counts. Names that become known
 * later are matched then. Cost: one new remote subscription is matched against all local publications, and the other
 * way round; removal walks only its own links. Reset of a peer is O(what it declared).
 *
 * Deliveries: pdi_registry_routes says which local subscriptions a sample is for.
 *
 * Keys: (space, id as on the wire). Ids of 2^56 and above are refused (5).
 */
#ifndef PDI_PROTO_REGISTRY_H
#define PDI_PROTO_REGISTRY_H

#include "base/carve.h"
#include "base/map.h"
#include "proto/predicate.h"
#include "pyddsi.h"

#define PDI_REGISTRY_NONE    UINT32_MAX
#define PDI_REGISTRY_REFUSED 16 /* beside pyddsi_status: a committed declaration cannot be accepted */
#define PDI_STATUS_TAKEN     128

enum pdi_status { /* of results */
    PDI_STATUS_OK, PDI_STATUS_SPACE, PDI_STATUS_CONFLICT, PDI_STATUS_LARGE, PDI_STATUS_RETRY, PDI_STATUS_INVALID,
    PDI_STATUS_UNSUPPORTED, PDI_STATUS_OTHER,
};

struct pdi_registry; /* fields in proto/registry_state.h, for the registry's own files and its tests */

/* What the application declares. */
struct pdi_wish {
    uint8_t kind;        /* enum pyddsi_declaration_kind: RESOURCE, PUBLICATION, SUBSCRIPTION, SELECTION, BINDING */
    uint8_t space;
    uint8_t reliability; /* enum pyddsi_reliability; BY_RESOURCE: no property is written */
    uint8_t durability;
    uint8_t mode;        /* SUBSCRIPTION */
    uint8_t way;         /* PUBLICATION: enum pyddsi_way */
    uint8_t is_global;   /* SELECTION, BINDING */
    uint64_t id;         /* as on the wire: even for resources, odd for selections. A subscription may name either */
    uint64_t new_id;     /* BINDING */
    uint64_t origin_ms, period_ms, duration_ms;
    pyddsi_bytes text;   /* RESOURCE: name (wire form); SELECTION: query (canonical form) */
};

/* The memory that a registry needs, and its start. measure: registry may be null. */
size_t pdi_registry_size(const pyddsi_config *config);
int pdi_registry_init(struct pdi_registry **registry, const pyddsi_config *config, struct pdi_carve *carve);

/* OK, *handle is set (it holds a generation: stale handles are refused everywhere); NO_SPACE: a table is full; AGAIN: it is
 * full of forgotten ones that peers have still to hear of; BAD_ARGUMENT: it cannot be, *status says why as a result would. */
int pdi_registry_declare(struct pdi_registry *registry, const struct pdi_wish *wish, uint32_t *handle, int *status);
int pdi_registry_forget(struct pdi_registry *registry, uint32_t handle);
/* The state of a declaration: PDI_STATUS_OK settled everywhere, PDI_REGISTRY_PENDING, or the worst answer. BAD_ARGUMENT (-3): no such. */
#define PDI_REGISTRY_PENDING 255
int pdi_registry_status(const struct pdi_registry *registry, uint32_t handle);

/* Peers are indices below peers_max. commit_mode as told by property 10 (0 if not told). */
void pdi_registry_join(struct pdi_registry *registry, uint32_t peer, pyddsi_bytes id, uint32_t features, uint64_t commit_mode);
void pdi_registry_leave(struct pdi_registry *registry, uint32_t peer);

/* Whether output has something for this peer. */
bool pdi_registry_pending(const struct pdi_registry *registry, uint32_t peer);
/* The body of the next DECLARE for this peer, as stands on the wire behind the sequence number: VLE count and declarations, at
 * most room bytes, all of one *space. OK; AGAIN: nothing now. room must be at least PDI_REGISTRY_ROOM_MIN so that any single
 * declaration fits. What was written counts as sent: the node delivers it reliably or the peer leaves. */
#define PDI_REGISTRY_ROOM_MIN 1200
int pdi_registry_output(struct pdi_registry *registry, uint32_t peer, uint8_t *out, size_t room, size_t *size, uint8_t *space);

/* The declarations of one DECLARE of this peer, in order. OK; PDI_REGISTRY_REFUSED. */
int pdi_registry_input(struct pdi_registry *registry, uint32_t peer, uint8_t space, bool committed, pyddsi_list declarations);

/* What changed: OK or END. Bounded by a ring; what finds no room is counted in changes_lost (state can always be asked for). */
struct pdi_change {
    uint8_t kind; /* enum pyddsi_event_kind: DECLARED, MATCHED, UNMATCHED, QOS_CONFLICT, REJECTED (our subscription, status TAKEN) */
    uint8_t status;
    uint8_t space;
    uint32_t handle;
    uint32_t peer;
    uint64_t id;
};
int pdi_registry_change(struct pdi_registry *registry, struct pdi_change *change);

/* A link between a publication and a remote subscription that match. Walk: pdi_registry_links, then pdi_registry_next. */
struct pdi_remote {
    uint32_t peer;
    uint64_t id;        /* as on the wire: even a resource, odd a selection */
    uint64_t bound_id;  /* of a selection that has been bound: the global id, else 0 */
    uint8_t space;
    uint8_t mode;
    uint8_t reliability; /* property of the subscription; BY_RESOURCE if none */
    uint64_t origin_ms, period_ms, duration_ms;
    const struct pdi_predicate *predicate; /* null: everything */
    uint32_t serial; /* differs for every remote subscription ever accepted */
};
/* How often the links of this publication have changed; for caches. */
uint32_t pdi_registry_link_changes(const struct pdi_registry *registry, uint32_t publication);
/* The first / next link of a publication, PDI_REGISTRY_NONE at the end. */
uint32_t pdi_registry_link_first(const struct pdi_registry *registry, uint32_t publication);
uint32_t pdi_registry_link_next(const struct pdi_registry *registry, uint32_t link);
const struct pdi_remote *pdi_registry_link_remote(const struct pdi_registry *registry, uint32_t link);

/* Which local subscriptions (handles) want a sample of data id `id` (0: unknown) that came with reason id `via` (flag A; else 0),
 * or by name (WDATA: name set, ids 0; the name may have wildcards). At most max are written; answers how many there are. A selection's
 * predicate is not looked at: ask pdi_registry_predicate. */
uint32_t pdi_registry_routes(const struct pdi_registry *registry, uint8_t space, uint64_t id, uint64_t via, pyddsi_bytes name,
                             uint32_t *handles, uint32_t max);
/* Grows whenever an earlier answer of pdi_registry_routes may have become wrong. */
uint64_t pdi_registry_route_changes(const struct pdi_registry *registry);
const struct pdi_predicate *pdi_registry_predicate(const struct pdi_registry *registry, uint32_t subscription);

/* Known things. name: size 0 if unknown. reliability/durability of the definition: BY_RESOURCE / VOLATILE if not told. */
pyddsi_bytes pdi_registry_name(const struct pdi_registry *registry, uint8_t space, uint64_t id);
uint64_t pdi_registry_find(const struct pdi_registry *registry, uint8_t space, pyddsi_bytes name); /* id as on the wire, 0: none */
uint8_t pdi_registry_reliability(const struct pdi_registry *registry, uint8_t space, uint64_t id);
uint8_t pdi_registry_durability(const struct pdi_registry *registry, uint8_t space, uint64_t id);

/* For tests and statistics: everything used, to see that nothing leaks. */
struct pdi_registry_usage { uint32_t locals, resources, remotes, links, name_bytes, selections; };
struct pdi_registry_usage pdi_registry_usage(const struct pdi_registry *registry);

#endif
