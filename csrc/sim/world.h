/* world.h - nodes in memory, joined by a network that fails as it is told to, in a time that nobody waits for.
 *
 *      seed ──► fork ──► link 0→1, 0→2, ..    one stream of random numbers for each direction of each pair
 *
 *     ┌────────┐ output  ┌───────────────────────┐  heap of (time, item)   ┌────────┐
 *     │ node 0 │ ──────► │ link: loss, delay, .. │ ───► packet in flight ──►│ node 1 │ input
 *     └────────┘         └───────────────────────┘      deadline of a node ►└────────┘ tick
 *                                                       timer of the driver ► on_timer
 *
 * One heap holds everything that will happen: the next deadline of each node, each packet in flight, and the timers of
 * whoever drives the world (readers, writers, faults). An event is taken out, one node is told of it, all that the
 * node has to send is given to the network, and its new deadline goes back into the heap. Then on_step is called,
 * in which the driver looks at what happened. So the world is in a whole state between any two events, and one seed
 * repeats a run to the last bit: pdi_world.digest is a hash of all packets, and of what the driver adds to it.
 *
 * Invariants
 *   - Virtual time never runs backwards; neither does the time that a node is told, whatever its clock does.
 *   - Two packets on one link never arrive at the same moment, and without reordering in the order in which they were sent;
 *     but with group_delay_ns or alone_delay_ns those to groups are a row of their own.
 *   - A node is entered only through pdi_world_enter and left through pdi_world_leave, which drains its output.
 *   - Random numbers of a link are drawn for that link alone, so a packet more on one link changes nothing on others.
 *
 * Connections lose nothing and have no end but a crash: the first packet to where a node listens makes one. Links of datagrams fail as
 * they are told to beside them.
 *
 * Memory comes from malloc: the simulator is no part of the core. A world that finds no memory, or a node that does
 * what no node may do (output without end, ticks without time going on), says so in `fault` and stands still.
 *
 * Why not a thread for each node, or real sockets: neither can be repeated, nor run a thousand times faster than time.
 */
#ifndef PDI_SIM_WORLD_H
#define PDI_SIM_WORLD_H

#include "base/atomic.h"
#include "base/bitset.h"
#include "base/heap.h"
#include "base/rand.h"
#include "base/time.h"
#include "node/node.h"
#include "pyddsi.h"
#include "sim/shared.h"

#define PDI_WORLD_TIMERS_MAX  1024U
#define PDI_WORLD_HANDLES_MAX 4096U
#define PDI_WORLD_OUTPUTS_MAX 200000U /* packets that a node may have to say at once */
#define PDI_WORLD_STILL_MAX   100000U /* steps of one node in one moment of virtual time */
#define PDI_WORLD_HELD_MAX    1000U   /* packets that wait for a paused node; one more is lost */
#define PDI_WORLD_PORT        50000U
#define PDI_WORLD_GROUP_PORT  7447U
#define PDI_WORLD_LISTEN_PORT 7448U  /* where a node listens for connections, */
#define PDI_WORLD_CALL_PORT   20000U /* and where one to node n comes from: n more */

/* Where the items of the heap begin: nodes, then timers, then packets. */
#define PDI_WORLD_ITEM_TIMER  ((uint32_t)PYDDSI_SIM_NODES_MAX)
#define PDI_WORLD_ITEM_PACKET (PDI_WORLD_ITEM_TIMER + PDI_WORLD_TIMERS_MAX)

struct pdi_world_node {
    struct pdi_node *node; /* null: crashed */
    pyddsi_config config;
    pyddsi_endpoint endpoint;
    void *memory;
    size_t size;
    pdi_time last;         /* the latest time that it was told */
    int64_t offset;        /* what its clock is ahead of the world's */
    pdi_time paused_until; /* 0: not paused */
    pdi_time held_until;   /* when the last packet that waits for it is to be delivered */
    uint32_t held;         /* how many wait */
    uint32_t ports;        /* how many it has used up */
    uint32_t lives;        /* how often it has been started */
    uint8_t listens;       /* others may connect to it; */
    uint64_t calls[PDI_BITSET_WORDS(PYDDSI_SIM_NODES_MAX)]; /* to those it has connected */
    pdi_time still_at; /* how many steps it has made at this moment */
    uint32_t still;
    struct pdi_sharing sharing;
    struct pdi_shared *shared; /* null: it shares no memory */
    pdi_time asked_at;         /* when it attends to that, since others have asked it to */
    uint32_t handles_count;    /* what its application declared, for pdi_world_quiet */
    uint32_t handles_room;
    uint32_t *handles;
};

/* The state of one direction of one pair. */
struct pdi_world_link {
    pyddsi_sim_link quality;
    struct pdi_rand rand;
    pdi_time
        last[3]; /* when the latest packet in order arrives, to one, to a group, by a connection */
    pdi_time busy; /* with a limited rate: until when earlier packets occupy the link */
};

struct pdi_world_packet {
    uint8_t *data;
    uint32_t room;
    uint32_t size;
    uint32_t next; /* the next free one */
    uint32_t to;
    uint16_t port; /* where to there; 0: a group */
    uint8_t held;  /* it waits for a paused node */
    pyddsi_endpoint source;
};

struct pdi_world_log {
    pyddsi_sim_packet *rows;
    uint64_t count, room;
    uint64_t bytes, bytes_max;
    bool keep;
};

struct pdi_world {
    uint64_t seed;
    pdi_time now;
    uint64_t digest;
    uint64_t events;
    const char *fault; /* null: none; else what cannot be, and the world stands still */
    uint8_t poison;    /* what the memory of a node holds before it starts */
    struct pdi_rand links_rand;

    struct pdi_heap heap;
    uint32_t heap_room;

    struct pdi_world_node *nodes; /* PYDDSI_SIM_NODES_MAX of them */
    int count;

    struct pdi_world_link *links; /* links_stride * links_stride, row: from */
    int links_stride;
    pyddsi_sim_link quality; /* of links to come */

    struct pdi_sharing sharing; /* of nodes to come */
    struct pdi_machines *machines;
    struct pdi_rand wake_rand; /* how long it takes until a node is awake */

    struct pdi_world_packet *packets;
    uint32_t packets_room;
    uint32_t packets_free; /* first of the list, or UINT32_MAX */
    uint32_t in_flight;
    uint64_t numbers; /* of packets */

    uint8_t *staging; /* a packet on its way out of a node */
    struct pdi_world_log log;

    /* counts */
    uint64_t sent, bytes, lost, duplicated, reordered, corrupted;

    /* The driver's. on_step may not enter a node or add one. */
    void *context;
    void (*on_step)(void *context, int node);
    void (*on_timer)(void *context, uint32_t timer);
    /* Called for each packet on its way to a node, if set, before chance decides. Answers 1 if it must be lost. */
    int (*on_packet)(void *context, int from, int to, const uint8_t *data, size_t size);
};

/* OK, or NO_SPACE. fini is allowed after either. */
int pdi_world_init(struct pdi_world *world, uint64_t seed);
void pdi_world_fini(struct pdi_world *world);

/* Nodes; pyddsi.h has the contracts (pyddsi_sim_node and so on). */
int pdi_world_add(struct pdi_world *world, const pyddsi_config *config, const char **text);
int pdi_world_crash(struct pdi_world *world, int node);
int pdi_world_restart(struct pdi_world *world, int node, int same_port);
/* Tells a node where it can be reached; if it listens, by connections too. */
void pdi_world_places(struct pdi_world *world, int node, int listens);
/* Where a node listens. */
pyddsi_endpoint pdi_world_listener(const struct pdi_world *world, int node);
/* Its packets come from another address from now on, and what is sent to the old one is lost. told: it knows. */
int pdi_world_move(struct pdi_world *world, int node, int told);
int pdi_world_pause(struct pdi_world *world, int node, pdi_time duration);
int pdi_world_clock_step(struct pdi_world *world, int node, int64_t step);
int pdi_world_inject(struct pdi_world *world, int node, const pyddsi_endpoint *from,
                     const uint8_t *data, size_t size);
/* Forgets every packet that is in flight. */
void pdi_world_flush(struct pdi_world *world);

static inline bool pdi_world_runs(const struct pdi_world *world, int node)
{
    return node >= 0 && node < world->count && world->nodes[node].node != NULL;
}

/* Whether it runs and is not paused. */
static inline bool pdi_world_awake(const struct pdi_world *world, int node)
{
    return pdi_world_runs(world, node) && world->nodes[node].paused_until <= world->now;
}

/* The shared memory of a node that runs and has some, or null. */
static inline struct pdi_shared *pdi_world_shared(const struct pdi_world *world, int node)
{
    return pdi_world_runs(world, node) ? world->nodes[node].shared : NULL;
}

/* What this node takes for the time. */
pdi_time pdi_world_clock(const struct pdi_world *world, int node);

/* The node with this peer id, or -1. */
int pdi_world_find(const struct pdi_world *world, const uint8_t *id, size_t size);

/* To call a function of node.h: enter, call, leave. enter answers null if the node does not run. */
struct pdi_node *pdi_world_enter(struct pdi_world *world, int node, pdi_time *now);
void pdi_world_leave(struct pdi_world *world, int node);
/* A handle that pdi_world_quiet is to look at. */
void pdi_world_declared(struct pdi_world *world, int node, uint32_t handle);

/* Links. from and to may be -1: all. OK or BAD_ARGUMENT. */
int pdi_world_link_set(struct pdi_world *world, int from, int to, const pyddsi_sim_link *quality);
int pdi_world_link_get(const struct pdi_world *world, int from, int to, pyddsi_sim_link *quality);
int pdi_world_cut(struct pdi_world *world, int from, int to, int cut);

/* Time. A timer is in the heap at most once; PDI_TIME_NEVER takes it out. */
void pdi_world_timer(struct pdi_world *world, uint32_t timer, pdi_time at);
pdi_time pdi_world_timer_get(const struct pdi_world *world, uint32_t timer);
/* The next event, if it is not after `until`: OK; END: there is none, and now is `until`, or the world stands still. */
int pdi_world_step(struct pdi_world *world, pdi_time until);
uint64_t pdi_world_run(struct pdi_world *world, pdi_time duration);

/* Whether nothing is left to do; if not, *why (if given) says what. */
bool pdi_world_quiet(const struct pdi_world *world, const char **why);
/* Whether each of the two takes the other for established. */
bool pdi_world_joined(const struct pdi_world *world, int one, int two);
int pdi_world_run_until_quiet(struct pdi_world *world, pdi_time duration);

/* Adds something that happened to the digest. */
void pdi_world_digest(struct pdi_world *world, uint64_t what);

void pdi_world_log(struct pdi_world *world, bool keep, uint64_t bytes_max);

/* Between the files of the world. */
struct pdi_world_sent {
    int from; /* -1: injected */
    pyddsi_endpoint source, target;
    const uint8_t *data;
    size_t size;
};
void pdi_world_send(struct pdi_world *world, const struct pdi_world_sent *sent);
void pdi_world_outlive(struct pdi_world *world, int node);
void pdi_world_strand(struct pdi_world *world, int node);
void pdi_world_hasten(struct pdi_world *world, int node, pdi_time until);
void pdi_world_arrive(struct pdi_world *world, uint32_t index);
void pdi_world_reschedule(struct pdi_world *world, int node); /* its deadline has changed */
bool pdi_world_schedule(struct pdi_world *world, uint32_t item, pdi_time at);
void pdi_world_log_add(struct pdi_world *world, const struct pdi_world_sent *sent, int to,
                       pdi_time arrives, enum pyddsi_sim_fate fate, const uint8_t *data);
/* Tells a node what the links carry of whose ways it wants to know that. */
void pdi_world_measure(struct pdi_world *world, int node);

#endif
