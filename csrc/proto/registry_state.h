/* registry_state.h - what a registry remembers. For the registry's own files and its tests. It is long because all of
 * them share it.
 *
 *                      ┌───────────── topic: one (space, id) ─────────────┐
 *                      │ name, if somebody defines it                     │
 *                      └──┬──────────┬───────────────┬───────────────┬────┘
 *        our declarations │          │ definitions   │ subscriptions │ of the peers
 *                      local      definition ── peer ── subscription │
 *                         │ publication                    │
 *                         └───────────── link ─────────────┘
 *
 * A topic exists as long as anything speaks of its id, so whoever has an id finds by one look into a map what is known
 * of it, and whoever changes its name finds at once whom that concerns. A definition is a resource or a selection that a
 * peer has declared; a topic has at most one of a peer, and at most one subscription, and the map `owned` finds them.
 *
 * Invariants
 *   - all who define the resource of a topic agree on its name, and the name is stored while there is one of them;
 *   - a link joins a publication and a subscription if and only if they match (registry_match.c says when), but for
 *     publications for one, which may have matches without a link (skipped);
 *   - counts in a local are the numbers of peers with which it is in these states (enum pdi_said), and every change of a
 *     state goes through pdi_local_said, which keeps them so;
 *   - nothing that belongs to a peer outlives its leaving.
 *
 * The files
 *     registry.c          memory, peers coming and going, what is asked
 *     registry_topic.c    topics, names, definitions
 *     registry_match.c    links, routes
 *     registry_local.c    our declarations; registry_judge.c: which can be; registry_alias.c: their numbers for zhe;
 *                         registry_width.c: and how wide these may be
 *     registry_out.c      telling them to the peers; registry_result.c: what these answer
 *     registry_in.c       what the peers tell; registry_run.c: their transactions
 */
#ifndef PDI_PROTO_REGISTRY_STATE_H
#define PDI_PROTO_REGISTRY_STATE_H

#include <string.h>

#include "base/bitset.h"
#include "base/pages.h"
#include "proto/late.h"
#include "proto/registry.h"
#include "base/chain.h"

enum {
    PDI_REGISTRY_BATCH_MAX = 64,   /* declarations of ours before a commit */
    PDI_REGISTRY_BATCHES_MAX = 4,  /* commits whose results we wait for at the same time */
    PDI_REGISTRY_ROUNDS_MAX = 250, /* how often the same peer is told in a row to try again */
    PDI_REGISTRY_UNIT = 32,        /* names are kept in pieces of so many bytes */
    PDI_REGISTRY_LOCALS_MAX = 1 << 20,
    PDI_REGISTRY_REMOTES_MAX = 1 << 22,
    PDI_REGISTRY_WIDTHS = 3,       /* of a zhe's ids, that a wider one can be too much for */
    PDI_REGISTRY_SHARERS_MAX = 16, /* on average so many peers may define the same resource */
};

#define PDI_REGISTRY_ID_MAX ((UINT64_C(1) << 56) - 1)

/* What one peer has been told of one of our declarations. */
enum pdi_said {
    PDI_SAID_NOTHING,     /* and nothing need be said */
    PDI_SAID_DUE,         /* to be told */
    PDI_SAID_CONTESTED,   /* to be told again, for the peer said that it should be tried again */
    PDI_SAID_SENT,        /* told; the result is awaited */
    PDI_SAID_DYING,       /* the same, but meanwhile it was withdrawn */
    PDI_SAID_OK,          /* the peer has accepted it */
    PDI_SAID_FAILED,      /* the peer has refused it for good */
    PDI_SAID_FORGET_DUE,  /* to be taken back */
    PDI_SAID_FORGET_SENT, /* taken back; the result is awaited */
    PDI_SAID_COUNT
};

struct pdi_topic {
    uint64_t key;   /* space in the upper byte, id below */
    uint32_t users; /* whoever holds its index */
    uint32_t name_unit;
    uint16_t name_size;
    uint32_t definers; /* definitions and locals that stand for the name; 0: there is none */
    struct pdi_ends locals[PYDDSI_BINDING + 1]; /* ours that are in force, by kind */
    struct pdi_ends definitions;
    struct pdi_ends subscriptions;
};

/* A selection, of a peer or ours. The text is canonical, so its path begins it. */
struct pdi_selection {
    uint32_t text_unit;
    uint16_t text_size;
    uint16_t path_size;
    uint8_t tags;
    uint32_t predicate; /* PDI_CHAIN_END: everything */
    uint64_t bound_id;  /* of a peer's: the global id that it also has; 0: none */
};

/* A resource or a selection that a peer has declared. */
struct pdi_definition {
    uint32_t topic, peer;
    uint32_t selection; /* PDI_CHAIN_END: a resource */
    uint8_t reliability, durability, durability_told;
    struct pdi_chain of_peer, of_topic;
    uint64_t born;    /* in which transaction, */
    uint64_t told;    /* and in which it was told last, */
    uint32_t told_at; /* as the how manyth declaration */
};

/* A subscription that a peer has declared. */
struct pdi_subscription {
    struct pdi_remote remote;
    uint32_t topic;
    uint32_t definition; /* of its selection; PDI_CHAIN_END: of a resource */
    struct pdi_chain of_peer, of_topic, of_all;
    struct pdi_ends links;
    uint64_t born, told;
    uint32_t told_at;
};

struct pdi_link {
    uint32_t publication, subscription;
    struct pdi_chain of_publication, of_subscription;
};

/* A declaration of ours. */
struct pdi_local {
    uint16_t generation; /* of the handle */
    uint8_t kind, space, reliability, durability, mode, way, is_global;
    bool used;         /* the application holds the handle */
    bool live;         /* it is in force */
    bool lost;         /* a resource that lost against another name, for good */
    bool established;  /* every peer there was has accepted it; it does not give way any more */
    bool skipped;      /* a publication for one that has matches without links */
    bool is_chosen;    /* a resource whose number is of our own choice: it may have an alias */
    bool is_alias;     /* the twin of another one, made by registry_alias.c */
    bool in_force;     /* an alias that all peers with features know, or once did */
    bool listed;       /* it hangs in the list of all */
    uint8_t status;    /* the worst refusal, while there is one */
    uint8_t announced; /* the status that the application was told last */
    uint8_t moves,
        probes; /* of a resource: how often its alias moved on, and how many small numbers were tried */
    uint32_t owing; /* of an alias: how many peers with features have still to accept it */
    uint32_t twin;  /* its alias; of an alias what it belongs to; PDI_CHAIN_END: none */
    uint32_t topic, selection;
    uint64_t id, new_id, origin_ms, period_ms, duration_ms;
    uint64_t order; /* its place in the list of all, for comparisons */
    struct pdi_chain of_all, of_topic, of_kind;
    struct pdi_ends links;
    uint32_t link_changes;
    uint32_t said[PDI_SAID_COUNT]; /* how many peers are in which state */
};

/* Declarations that were sent with one commit. */
struct pdi_batch {
    uint8_t commit;
    uint8_t count;
    bool forgets;
    uint32_t items[PDI_REGISTRY_BATCH_MAX];
};

/* A result that a peer is to get. */
struct pdi_answer {
    uint8_t commit, status;
    uint64_t id;
};

/* How often in a row a session ended behind a number that is too wide for ids of 8, 16 and 32 bits (registry_width.c). */
struct pdi_widths {
    uint8_t ends[PDI_REGISTRY_WIDTHS];
};

struct pdi_registry_peer {
    bool joined;
    bool told;    /* it has committed something since */
    bool stalled; /* what is to be told must wait; any change of a state ends that */
    bool refuses; /* it has refused an alias */
    bool turn;    /* the last batch was of contested ones */
    uint8_t id[PYDDSI_ID_MAX];
    uint8_t id_size;
    uint32_t features;
    struct pdi_widths widths; /* kept from session to session */

    /* what it is told */
    uint32_t cursor;                 /* nothing is to be told before this one of the list of all */
    uint32_t todo, contested, dying; /* how many of ours are in these states with it */
    uint32_t batches, batches_max;
    uint32_t batch_max; /* declarations in one batch, smaller after a failure */
    uint32_t rounds;    /* how often it has answered in a row that we should try again */
    uint8_t commit_next;
    struct pdi_batch batch[PDI_REGISTRY_BATCHES_MAX]; /* the oldest first */

    /* what it tells */
    struct pdi_ends definitions, subscriptions;
    uint32_t resource_count, selection_count, subscription_count, predicate_count, name_units;
    uint32_t aside;       /* bytes of declarations before their commit */
    uint8_t aside_status; /* LARGE: some found no room, */
    uint64_t aside_id;    /* the first of them */
    uint32_t retries;     /* how often in a row it was told to try again */
    uint32_t answer_first, answers;
};

struct pdi_registry {
    uint8_t id[PYDDSI_ID_MAX];
    uint8_t id_size;
    uint32_t features;
    uint64_t id_max;
    uint32_t rounds_max; /* PDI_REGISTRY_ROUNDS_MAX; tests take less */

    uint32_t peers_max, resources_max, remotes_peer_max, aside_max, answers_max;
    uint32_t locals_max[PYDDSI_BINDING + 1], locals_used[PYDDSI_BINDING + 1];
    struct pdi_registry_peer *peers;
    uint64_t *joined;
    uint8_t *said; /* of peer p and local l at p * locals.count + l */
    uint8_t *asides;
    struct pdi_answer *answers;

    struct pdi_slots locals_free, topics_free, definitions_free, subscriptions_free, links_free,
        selections_free, predicates_free;
    struct pdi_local *locals;
    struct pdi_topic *topics;
    struct pdi_definition *definitions;
    struct pdi_subscription *subscriptions;
    struct pdi_link *links;
    struct pdi_selection *selections;
    struct pdi_predicate *predicates;
    uint8_t *names;
    struct pdi_pages name_pages;
    struct pdi_late *late; /* what ids were called whose last definer has gone */

    struct pdi_map topic_map; /* key of a topic to its index */
    struct pdi_map owned;     /* topic, kind and peer to a definition or subscription */
    struct pdi_map pairs;     /* publication and peer to how many links they have */

    struct pdi_ends all, publications, listeners, subscribers;
    struct pdi_chains lane_all, lane_same, lane_kind;
    struct pdi_chains lane_peer_definitions, lane_topic_definitions;
    struct pdi_chains lane_peer_subscriptions, lane_topic_subscriptions, lane_subscribers;
    struct pdi_chains lane_publication_links, lane_subscription_links;

    struct pdi_change *changes;
    uint32_t changes_max, change_first, change_count;
    uint64_t changes_lost;
    bool quiet; /* what is undone was never told */

    bool rescan;         /* a publication for one has become free */
    bool aliasing;       /* a peer without features has been here: names have aliases */
    uint32_t alias_next; /* how many of the wider numbers were tried for aliases */
    uint32_t named_count;
    uint32_t serial;
    uint64_t order;
    uint64_t transaction;
    uint64_t route_changes;
    uint64_t settles; /* how often one of ours has come to an end with all peers, told or not */
};

/* ---- registry.c */

/* Notes a change for the application. */
void pdi_registry_tell(struct pdi_registry *registry, const struct pdi_change *change);

/* ---- registry_topic.c */

static inline uint64_t pdi_topic_key(uint8_t space, uint64_t id)
{
    return (uint64_t)space << 56 | id;
}

static inline uint8_t pdi_topic_space(const struct pdi_topic *topic)
{
    return (uint8_t)(topic->key >> 56);
}

static inline uint64_t pdi_topic_id(const struct pdi_topic *topic)
{
    return topic->key & PDI_REGISTRY_ID_MAX;
}

static inline pyddsi_bytes pdi_topic_name(const struct pdi_registry *registry,
                                          const struct pdi_topic *topic)
{
    if (topic->definers == 0)
        return (pyddsi_bytes){NULL, 0};
    return (pyddsi_bytes){registry->names + (size_t)topic->name_unit * PDI_REGISTRY_UNIT,
                          topic->name_size};
}

static inline bool pdi_text_equal(pyddsi_bytes a, pyddsi_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* How many units a text takes. */
static inline uint32_t pdi_units(size_t size)
{
    return (uint32_t)((size + PDI_REGISTRY_UNIT - 1) / PDI_REGISTRY_UNIT);
}

/* The topic of an id, PDI_CHAIN_END if nobody speaks of it. */
uint32_t pdi_topic_find(const struct pdi_registry *registry, uint8_t space, uint64_t id);
/* The same, made if need be, with one more user; PDI_CHAIN_END: no room. */
uint32_t pdi_topic_take(struct pdi_registry *registry, uint8_t space, uint64_t id);
void pdi_topic_drop(struct pdi_registry *registry, uint32_t topic);
/* One more who defines the topic by this name, which is the topic's own if it has one. The first one makes it known, and
 * what now matches is linked. OK; NO_SPACE. */
int pdi_topic_define(struct pdi_registry *registry, uint32_t topic, pyddsi_bytes name);
void pdi_topic_undefine(struct pdi_registry *registry, uint32_t topic);

/* The selection that a text makes, PDI_CHAIN_END if it cannot be; *status then says why. */
uint32_t pdi_selection_make(struct pdi_registry *registry, pyddsi_bytes query, int *status);
void pdi_selection_free(struct pdi_registry *registry, uint32_t selection);
pyddsi_bytes pdi_selection_text(const struct pdi_registry *registry, uint32_t selection);
pyddsi_bytes pdi_selection_path(const struct pdi_registry *registry, uint32_t selection);
/* Whether the query says the same as the selection. */
bool pdi_selection_equal(const struct pdi_registry *registry, uint32_t selection,
                         pyddsi_bytes query);

/* Whose definition comes first when two cannot both be: the lower id; on a tie the shorter one. */
static inline bool pdi_peer_id_before(pyddsi_bytes a, pyddsi_bytes b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);
    return order != 0 ? order < 0 : a.size < b.size;
}

/* What a peer has declared of a topic: definition, subscription; PDI_CHAIN_END if nothing. */
uint32_t pdi_definition_find(const struct pdi_registry *registry, uint32_t peer, uint32_t topic);
uint32_t pdi_subscription_find(const struct pdi_registry *registry, uint32_t peer, uint32_t topic);
uint64_t pdi_owned_key(uint32_t topic, bool subscription, uint32_t peer);
/* Makes the definition of a resource; it must not exist, and the name must not contradict. PDI_STATUS_OK or SPACE. */
int pdi_definition_resource(struct pdi_registry *registry, uint32_t peer, uint8_t space,
                            uint64_t id, pyddsi_bytes name, uint32_t *definition);
/* The same for a selection. PDI_STATUS_OK, SPACE or INVALID. */
int pdi_definition_selection(struct pdi_registry *registry, uint32_t peer, uint8_t space,
                             uint64_t id, pyddsi_bytes query, uint32_t *definition);
void pdi_definition_remove(struct pdi_registry *registry, uint32_t definition);
/* The quality of service that is in force for a topic: what the definer with the lowest id of those says who say
 * something. *told: somebody does. */
uint8_t pdi_topic_reliability(const struct pdi_registry *registry, uint32_t topic);
uint8_t pdi_topic_durability(const struct pdi_registry *registry, uint32_t topic, bool *told);

/* ---- registry_match.c */

/* Makes a peer's subscription with its links; it must not exist. PDI_STATUS_OK, SPACE or TAKEN. */
int pdi_subscription_make(struct pdi_registry *registry, const struct pdi_remote *remote,
                          uint32_t definition, uint32_t *subscription);
void pdi_subscription_remove(struct pdi_registry *registry, uint32_t subscription);
/* Links a new publication of ours. PDI_STATUS_OK, SPACE or TAKEN. */
int pdi_publication_link(struct pdi_registry *registry, uint32_t publication);
void pdi_publication_unlink(struct pdi_registry *registry, uint32_t publication);
/* Its caches have become wrong. */
void pdi_subscription_touch(struct pdi_registry *registry, uint32_t subscription);
/* A topic has got a name: links what matches by it. OK; NO_SPACE. */
int pdi_topic_link(struct pdi_registry *registry, uint32_t topic);
/* A topic is to lose its name: takes away the links that only the name made. */
void pdi_topic_unlink(struct pdi_registry *registry, uint32_t topic);
/* Links publications for one that have become free. At the end of whatever removes links. */
void pdi_registry_rescan(struct pdi_registry *registry);

/* ---- registry_local.c */

static inline uint8_t *pdi_said(const struct pdi_registry *registry, uint32_t peer, uint32_t local)
{
    return &registry->said[(size_t)peer * registry->locals_free.count + local];
}

/* The local with this handle, PDI_CHAIN_END if there is none (any more). */
static inline uint32_t pdi_local_of(const struct pdi_registry *registry, uint32_t handle)
{
    uint32_t local = handle & (PDI_REGISTRY_LOCALS_MAX - 1);
    if (local >= registry->locals_free.count || !registry->locals[local].used ||
        registry->locals[local].generation != handle / PDI_REGISTRY_LOCALS_MAX)
        return PDI_CHAIN_END;
    return local;
}

uint32_t pdi_local_handle(const struct pdi_registry *registry, uint32_t local);
/* The peer's new state with respect to the local. */
void pdi_local_said(struct pdi_registry *registry, uint32_t peer, uint32_t local,
                    enum pdi_said said);
/* Makes a declaration, of the application or (of: what it belongs to) an alias. OK, NO_SPACE, AGAIN or BAD_ARGUMENT. */
int pdi_local_make(struct pdi_registry *registry, const struct pdi_wish *wish, uint32_t of,
                   uint32_t *local, int *status);
/* It is to be told to all peers that are to hear of it. */
void pdi_local_tell(struct pdi_registry *registry, uint32_t local);
/* Out of force: taken back wherever it was told. */
void pdi_local_withdraw(struct pdi_registry *registry, uint32_t local);
/* Says DECLARED if the local has settled. */
void pdi_local_settle(struct pdi_registry *registry, uint32_t local);
/* Gives the slot back if nobody needs it any more. */
void pdi_local_retire(struct pdi_registry *registry, uint32_t local);
/* Whether another one of ours, which said the same before this one was withdrawn, keeps alive at the peer what this one
 * has told it. */
bool pdi_local_inherited(struct pdi_registry *registry, uint32_t local, uint32_t peer);
/* A resource that has lost: it is taken back everywhere, and its status is CONFLICT for good. */
void pdi_local_lose(struct pdi_registry *registry, uint32_t local);
/* How many peers have not answered yet for it, or for its alias; and the worst refusal of those that have. */
uint32_t pdi_local_waits(const struct pdi_registry *registry, const struct pdi_local *local);
uint8_t pdi_local_worst(const struct pdi_registry *registry, const struct pdi_local *local);
/* Whether the peer is to hear of it. */
bool pdi_local_for(const struct pdi_registry *registry, uint32_t peer, uint32_t local);
/* Our selection of this id that is in force, and the local that declares it; PDI_CHAIN_END: there is none. */
uint32_t pdi_local_selection(const struct pdi_registry *registry, uint8_t space, uint64_t id);
uint32_t pdi_local_selecting(const struct pdi_registry *registry, uint8_t space, uint64_t id);
/* The publication of ours that runs with another quality of service than a first definition says; PDI_CHAIN_END: none.
 * reliability BY_RESOURCE, durability_told false: the definition does not say. */
uint32_t pdi_publication_contradicts(const struct pdi_registry *registry, uint32_t topic,
                                     uint8_t reliability, uint8_t durability, bool durability_told);

/* ---- registry_alias.c */

/* A peer without features joins: from now on names have aliases. */
void pdi_alias_begin(struct pdi_registry *registry);
/* Makes the alias that this declaration is to have, if any. */
void pdi_alias_make(struct pdi_registry *registry, uint32_t main);
/* Whether peers without features are told its alias, or nothing, in its place. */
bool pdi_alias_hides(const struct pdi_registry *registry, uint32_t local);
/* What has this alias goes: its alias goes to another one that says the same, or goes, too. */
void pdi_alias_drop(struct pdi_registry *registry, uint32_t main);
/* The alias cannot stay, because of this answer of a peer (PDI_REGISTRY_NONE: of none): another number is told. False: no
 * other number would do. */
bool pdi_alias_move(struct pdi_registry *registry, uint32_t alias, uint32_t peer, uint8_t status);
/* A peer without features has declared this name: an alias that it has refused moves to that number. */
void pdi_alias_hear(struct pdi_registry *registry, uint32_t peer, pyddsi_bytes name);
/* Aliases of ours make room, where this id is to have another name, or (size 0) is used without one. */
void pdi_alias_yield(struct pdi_registry *registry, uint8_t space, uint64_t id, pyddsi_bytes name);

/* ---- registry_width.c */

/* The peer has shown that it can read this id. */
void pdi_width_read(struct pdi_registry *registry, uint32_t peer, uint64_t id);
/* What former sessions with a peer of this id have shown, taken out of the slot that remembers it, if one does. */
struct pdi_widths pdi_width_recall(struct pdi_registry *registry, pyddsi_bytes id);

/* ---- registry_judge.c */

/* Whether the wish can be: PDI_STATUS_OK, or why not. */
int pdi_wish_judge(struct pdi_registry *registry, const struct pdi_wish *wish);
/* PDI_STATUS_OK, INVALID or UNSUPPORTED: whether an id can be at all, for this kind of declaration. */
int pdi_id_judge(const struct pdi_registry *registry, uint8_t kind, uint8_t space, uint64_t id);
/* The same for the mode and the times of a subscription. */
int pdi_mode_judge(const struct pdi_registry *registry, uint64_t id, uint64_t mode,
                   uint64_t period_ms, uint64_t duration_ms);

/* ---- registry_result.c */

/* The peer has refused the local for good, or never will know what it stands on. */
void pdi_local_refuse(struct pdi_registry *registry, uint32_t peer, uint32_t index, uint8_t status);
/* A result of this peer. */
void pdi_registry_result(struct pdi_registry *registry, uint32_t peer, uint64_t commit,
                         uint64_t status, uint64_t id);

/* ---- registry_run.c */

/* The declarations of a transaction, in order. */
struct pdi_walk {
    pyddsi_list list;
    bool aside; /* each has its space in front, and the list's count does not count */
    uint8_t space;
    uint32_t at; /* how many were taken */
};

/* A whole transaction of this peer: PDI_STATUS_OK, and it has taken effect; or the status with the id at fault in *id,
 * and nothing has changed. */
int pdi_registry_run(struct pdi_registry *registry, uint32_t peer, struct pdi_walk begin,
                     uint64_t *id);

#endif
