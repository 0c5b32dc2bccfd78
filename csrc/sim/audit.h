/* audit.h - what was promised, and whether it was kept.
 *
 * The simulator writes down by itself what its applications do, in words that the nodes never see, and compares:
 *
 *      author                                                audience
 *     (a publisher in one life of one node)                 (a subscriber in one life of one node)
 *      put 0, 1, 2, ..  ──────── node ~~~~ net ~~~~ node ──────► take: whose is it, which number, is it whole?
 *        │                                                       │
 *        └─ stamp, and which nodes were matched then             └─ last number taken of each author, declared when
 *
 * Every payload begins with a stub (author, number, size, checksum), so each sample that is taken can be found among
 * those that were put. A stamp counts everything that happened, so "before" is exact even within one moment of time.
 *
 * Owed. A sample is owed to a subscriber if, when it was put, the subscriber had been declared (in this life of its node),
 * the publisher's node had said MATCHED about that node and not yet UNMATCHED, its session was with that node's present
 * life, both are reliable, and the subscriber wants it (resource or name, colour for selections).
 * Of a publisher that keeps samples for those who come late, new subscribers get the last ones first. Where they begin is up to the
 * nodes, but it is no later than the samples kept at the end; from there on all is owed.
 *
 * Excused. An owed sample may be missing only
 *   - if the publisher's life has ended (it may have been lost with it), but not with later ones of it delivered;
 *   - if after it was put a session between the two broke, a GAP or DETACHED was told: then the ledgers and gaps
 *     of the two must count at least as many samples of that resource as are missing;
 *   - if the subscriber follows a forgotten one of the same node, which shares memory: what a lane has still for the one that
 *     went is not for its successor, until the publisher knows of it; then the ledgers must count as many;
 *   - if nonsense is written into shared memory: likewise;
 *   - if the subscriber asked for drops when its ring is full: then its node's ledger must count as many.
 * Everything else is a violation: a line of text with time, node and what. They are collected; nothing stops.
 *
 * What is checked when: after every step of a node its books and bounds; at every take payload, once, order and holes;
 * at the end completeness, matches and declarations. The node is only asked what an application could ask.
 *
 * Why stubs and masks instead of a second implementation of the protocol: a model as rich as the node would have its own
 * faults; what an application may rely on is simple, and said in a page.
 */
#ifndef PDI_SIM_AUDIT_H
#define PDI_SIM_AUDIT_H

#include "sim/world.h"

#define PDI_AUDIT_NODES_MAX     32
#define PDI_AUDIT_AUTHORS_MAX   1024U
#define PDI_AUDIT_AUDIENCES_MAX 192U
#define PDI_AUDIT_TEXTS_MAX     64U
#define PDI_AUDIT_STUB          20U /* bytes of the least payload */
#define PDI_AUDIT_NAME_MAX      64U
#define PDI_AUDIT_NONE          UINT32_MAX

struct pdi_audit_put {
    uint64_t stamp;
    pdi_time time;
    uint32_t matched; /* bit: this node was matched, and in its present life */
    uint8_t colour;
    uint8_t alone; /* of an author that moves: it went to one node, and not to the group */
    uint64_t taken[PDI_AUDIT_AUDIENCES_MAX / 64]; /* bit: this audience has it */
};

/* What names one side of a match. */
struct pdi_audit_topic {
    uint64_t resource; /* not doubled; of a selection its number */
    uint8_t space;
    uint8_t is_selection;
    uint8_t colour_limit; /* of a selection: it wants colours below; 0: all */
    uint8_t reliable;
    uint8_t name_size;
    char name[PDI_AUDIT_NAME_MAX]; /* wire form; empty: none */
};

struct pdi_author {
    int node;
    uint32_t life;
    uint32_t handle;
    struct pdi_audit_topic topic;
    uint8_t forgotten;
    uint8_t moves;        /* best effort whose way depends on how many nodes are matched */
    uint8_t unmatched_ok; /* MATCHED need not follow from the declarations, as for a second one */
    uint32_t matched;     /* bit: the node said MATCHED about that node */
    uint32_t batch;       /* the most samples in one message: ledgers may count messages */
    uint32_t keeps;       /* samples for those who come late */
    struct pdi_audit_put *puts;
    uint32_t count, room;
};

struct pdi_audience {
    int node;
    uint32_t life;
    uint32_t handle;
    struct pdi_audit_topic topic;
    uint64_t declared; /* stamp */
    uint8_t drops;     /* on_full is not to wait */
    uint8_t partial;   /* pull, periods: nothing is owed */
    uint8_t forgotten;
    uint8_t rejected;
    uint8_t follows; /* a forgotten one of the same topic, and its node shares memory */
    uint32_t *last;  /* of each author and way: the number after the last one taken */
    uint32_t last_room;
    uint32_t taken;
    uint64_t excused;
};

/* How one node sees another. */
struct pdi_session {
    uint32_t peer; /* index */
    uint8_t connected;
    uint8_t current; /* with its present life */
    uint64_t broken; /* stamp of the last break, 0 if there was none */
    uint64_t gaps;   /* numbers that GAP events named */
};

struct pdi_audit_node {
    uint64_t events[16]; /* by kind */
    uint64_t slots;      /* allocated at the start */
    uint32_t steps;
    pyddsi_stats stats; /* after the last step */
};

struct pdi_audit {
    struct pdi_world *world;
    uint64_t stamp;
    uint8_t strangers; /* somebody sends who is no node: what he sends is nobody's put */
    uint8_t broken;    /* bytes are changed or addresses forged: only robustness is checked */
    uint8_t lossless; /* nothing breaks a session in this run; if one breaks, that is a violation */
    uint8_t events_may_be_lost;
    uint8_t lines_suffice; /* what is missing has lines in the ledgers, but no event says so */

    struct pdi_author *authors;
    uint32_t authors_count, authors_room;
    struct pdi_audience *audiences;
    uint32_t audiences_count, audiences_room;
    struct pdi_session sessions[PDI_AUDIT_NODES_MAX][PDI_AUDIT_NODES_MAX]; /* who, of whom */
    struct pdi_audit_node nodes[PDI_AUDIT_NODES_MAX];

    uint64_t put, owed, taken, excused, foreign;
    uint64_t resent; /* of the lives that have ended */
    uint64_t checks[PYDDSI_CHECK_COUNT];
    uint64_t violations;
    char (*texts)[PYDDSI_SIM_TEXT_MAX];
    uint32_t texts_count;

    /* The theme's, may be null: a sample was taken and is in order; an event came. */
    void *context;
    void (*on_take)(void *context, uint32_t audience, const pyddsi_received *sample,
                    uint32_t author, uint32_t number);
    void (*on_event)(void *context, int node, const pyddsi_event *event);
};

/* OK or NO_SPACE; fini is allowed after either. */
int pdi_audit_init(struct pdi_audit *audit, struct pdi_world *world);
void pdi_audit_fini(struct pdi_audit *audit);

/* One check of a kind was made. Answers `good`; if that is false, the text becomes a violation. */
bool pdi_audit_check(struct pdi_audit *audit, enum pyddsi_sim_check check, bool good, int node,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A node was started: its present life begins, and its former one is over. */
void pdi_audit_started(struct pdi_audit *audit, int node);
/* A node is about to crash or to be restarted. */
void pdi_audit_ending(struct pdi_audit *audit, int node);

/* PDI_AUDIT_NONE: the tables are full. */
uint32_t pdi_audit_author(struct pdi_audit *audit, int node, uint32_t handle,
                          const struct pdi_audit_topic *topic);
uint32_t pdi_audit_audience(struct pdi_audit *audit, int node, uint32_t handle,
                            const struct pdi_audit_topic *topic);

/* The payload of the author's sample number `count` + ahead, of `size` bytes (at least the stub's). */
void pdi_audit_fill(const struct pdi_audit *audit, uint32_t author, uint32_t ahead, uint8_t colour,
                    uint8_t *payload, uint32_t size);
/* It was accepted. `matched` and `stamp` are those of the moment when it began: audit->stamp, pdi_audit_matched. */
void pdi_audit_put(struct pdi_audit *audit, uint32_t author, uint8_t colour, uint32_t matched,
                   uint64_t stamp);
/* The nodes that are to have what this author puts now; and of those that were to have what it began at `stamp`, the ones
 * with which it has been matched ever since. */
uint32_t pdi_audit_matched(const struct pdi_audit *audit, uint32_t author);
uint32_t pdi_audit_still(const struct pdi_audit *audit, uint32_t author, uint32_t matched,
                         uint64_t stamp);

void pdi_audit_take(struct pdi_audit *audit, uint32_t index, const pyddsi_received *sample);

/* After every step of a node: its events, its books. */
void pdi_audit_step(struct pdi_audit *audit, int node);

/* At the end of a run, when all is quiet (or was to be). */
void pdi_audit_complete(struct pdi_audit *audit);
void pdi_audit_settled(struct pdi_audit *audit);
/* ... and when every subscriber is forgotten and every sample released. */
void pdi_audit_memory(struct pdi_audit *audit, int node);
/* Windows and peers, exactly. */
void pdi_audit_windows(struct pdi_audit *audit, int node, bool empty);

/* Whether samples of this author are for this audience, whatever happened. */
bool pdi_audit_wants(const struct pdi_audience *audience, const struct pdi_author *author,
                     uint8_t colour);
/* How much the ledger of a node counts for a resource (as on the wire) for reasons that excuse that a sample is missing. */
uint64_t pdi_audit_ledger(const struct pdi_audit *audit, int node, uint8_t space,
                          uint64_t resource);

static inline bool pdi_audit_alive(const struct pdi_audit *audit, int node, uint32_t life)
{
    return pdi_world_runs(audit->world, node) && audit->world->nodes[node].lives == life;
}

#endif
