/* play.h - a world with people in it: writers, readers, what they declare, and what goes wrong.
 *
 * A scenario sets up a play (nodes, things, writers, readers, faults), and the play runs by itself:
 *
 *     0 ─────────────────────── half ─────────── stop ─────────────── quiet ──── closed
 *       writers put, readers      all faults stop:  writers       everything    readers are forgotten,
 *       take, faults happen       links perfect,    stop          arrived:      everything released:
 *                                 crashed nodes                   audit         memory as at the start
 *                                 start again
 *
 * Liveness is the second half: however much went wrong, once it stops everything that was promised arrives, in bounded
 * time. Everybody acts on timers of the world, and draws from a stream of random numbers of his own.
 *
 * Writers and readers belong to a node and are declared again in each of its lives. A writer that is told "not now"
 * comes again; a sample has its number only once it is accepted.
 */
#ifndef PDI_SIM_PLAY_H
#define PDI_SIM_PLAY_H

#include "sim/audit.h"

#define PDI_PLAY_THINGS_MAX  256U
#define PDI_PLAY_WRITERS_MAX 96U
#define PDI_PLAY_READERS_MAX 96U
#define PDI_PLAY_FAULTS_MAX  128U
#define PDI_PLAY_HELD_MAX    32U
#define PDI_PLAY_MANY_MAX    24U
#define PDI_PLAY_SIZE_MAX    (UINT32_C(1) << 20)

/* Whose timer is whose. */
#define PDI_PLAY_TIMER_WRITER 0U
#define PDI_PLAY_TIMER_READER (PDI_PLAY_TIMER_WRITER + PDI_PLAY_WRITERS_MAX)
#define PDI_PLAY_TIMER_FAULT  (PDI_PLAY_TIMER_READER + PDI_PLAY_READERS_MAX)
#define PDI_PLAY_TIMER_THEME  (PDI_PLAY_TIMER_FAULT + PDI_PLAY_FAULTS_MAX)

/* A resource, selection or binding that a node declares. */
struct pdi_play_thing {
    uint8_t kind; /* PYDDSI_RESOURCE, PYDDSI_SELECTION, PYDDSI_BINDING */
    int node;
    uint8_t space;
    uint8_t reliability, durability;
    uint8_t is_global;
    uint8_t may_fail; /* its status may be other than 0 */
    uint64_t id, new_id;
    char text[96]; /* name or query */
    uint32_t handle;
    uint8_t declared;
    uint8_t later; /* not before a fault declares it; likewise below */
};

struct pdi_play_writer {
    int node;
    pyddsi_publisher_options options;
    struct pdi_audit_topic topic;
    pdi_time from, until; /* 0: the play's stop */
    pdi_time interval;
    uint32_t size_min, size_max;
    uint32_t many_max;  /* above 1: sometimes as batches */
    uint32_t large_ppm; /* of samples are large and go out piece by piece */
    uint32_t large_max;
    uint32_t drop_ppm; /* of the large ones are given up before their end */
    uint32_t loan_ppm; /* are written in place */
    uint32_t most;     /* samples; 0: no limit */
    uint8_t may_fail;
    uint8_t later;
    uint8_t idle; /* it does not put (any more) */

    struct pdi_rand rand;
    uint32_t author;
    uint32_t handle;
    uint8_t declared;
    uint32_t count;
    uint64_t again; /* how often it was told: not now */
    /* a large sample on its way */
    uint8_t *large;
    uint32_t large_size, large_done;
    uint8_t large_dropped; /* it will be given up before its end */
    uint8_t large_colour;
    uint32_t large_matched;
    uint64_t large_stamp;
};

struct pdi_listener {
    int node;
    pyddsi_subscriber_options options;
    struct pdi_audit_topic topic;
    pdi_time delay_max; /* between something coming and its being read */
    uint32_t hold_max;  /* samples kept before they are released */
    uint8_t takes_one;  /* one sample at a time */
    uint8_t may_fail;
    uint8_t later;
    uint8_t stopped;                          /* it does not read */
    uint32_t guard_writers[PYDDSI_GUARD_MAX]; /* whose publishers are the guards */
    pdi_time pull_every;                      /* 0: it does not pull */
    uint32_t pull_max;

    struct pdi_rand rand;
    uint32_t audience;
    uint32_t handle;
    uint8_t declared;
    pdi_time pull_at;
    uint64_t ends;   /* marks of the end of an answer */
    uint32_t answer; /* samples since the last one */
    pyddsi_received held[PDI_PLAY_HELD_MAX];
    uint32_t held_count;
};

/* A reader, a writer or a thing is `a`. */
enum pdi_fault_kind {
    PDI_FAULT_CRASH,
    PDI_FAULT_RESTART, /* b: 1 with the same port */
    PDI_FAULT_CUT,     /* a to b, and if both also back */
    PDI_FAULT_HEAL,
    PDI_FAULT_PAUSE,
    PDI_FAULT_CLOCK,
    PDI_FAULT_STOP_READER, /* a: which */
    PDI_FAULT_START_READER,
    PDI_FAULT_FORGET_READER,
    PDI_FAULT_DECLARE_READER,
    PDI_FAULT_FORGET_WRITER,
    PDI_FAULT_DECLARE_WRITER,
    PDI_FAULT_FORGET_THING,
    PDI_FAULT_DECLARE_THING,
    PDI_FAULT_MOVE,          /* to another address; b: it knows */
    PDI_FAULT_CLOSE_SESSION, /* a ends its session with b */
    PDI_FAULT_CLOSE,         /* says farewell, and is gone a moment later */
    PDI_FAULT_SCRIBBLE,      /* b words are written over the page of a; both: that might be true */
};

struct pdi_fault {
    enum pdi_fault_kind kind;
    int a, b;
    uint8_t both;
    pdi_time at;
    pdi_time duration;
    int64_t step;
};

struct pdi_play {
    struct pdi_world world;
    struct pdi_audit audit;
    struct pdi_rand rand; /* of the plan */
    pdi_time half, stop;
    pdi_time patience; /* how long after stop it may take until all is quiet */
    uint64_t delivered[PDI_AUDIT_NODES_MAX]; /* when its readers were woken last */
    uint8_t dead[PDI_AUDIT_NODES_MAX];       /* this node does not come back at half time */
    uint8_t no_settle;                       /* matches are not compared at the end */
    uint8_t filtered;                        /* links lose what goes to groups for ever */
    pyddsi_config config;                    /* what the nodes of this play have in common */
    uint8_t calm;

    struct pdi_play_thing things[PDI_PLAY_THINGS_MAX];
    uint32_t things_count;
    struct pdi_play_writer writers[PDI_PLAY_WRITERS_MAX];
    uint32_t writers_count;
    struct pdi_listener readers[PDI_PLAY_READERS_MAX];
    uint32_t readers_count;
    struct pdi_fault faults[PDI_PLAY_FAULTS_MAX];
    uint32_t faults_count;
    uint8_t *payload; /* being written */

    uint64_t crashes, restarts, declared, pulls, marks;

    /* The theme's own, may be null. */
    uint64_t theme[16];
    void *extra; /* freed with the play */
    void (*on_timer)(struct pdi_play *play, uint32_t timer);
    void (*on_take)(struct pdi_play *play, uint32_t reader, const pyddsi_received *sample,
                    uint32_t author, uint32_t number);
    void (*on_event)(struct pdi_play *play, int node, const pyddsi_event *event);
    void (*on_put)(struct pdi_play *play, uint32_t writer);
    void (*on_calm)(struct pdi_play *play); /* all faults have stopped */
    void (*on_end)(struct pdi_play *play);
};

/* OK or NO_SPACE; fini is allowed after either. */
int pdi_play_init(struct pdi_play *play, uint64_t seed);
void pdi_play_fini(struct pdi_play *play);

/* Building. Nodes are there from the beginning; one that is to come later is added, and then crashed by _absent. Full
 * tables are a mistake of the scenario and checked. */
int pdi_play_node(struct pdi_play *play, const pyddsi_config *config);
void pdi_play_absent(struct pdi_play *play, int node);
struct pdi_play_thing *pdi_play_thing(struct pdi_play *play, int node, uint8_t kind, uint64_t id,
                                      const char *text);
struct pdi_play_writer *pdi_play_writer(struct pdi_play *play, int node, uint64_t resource);
struct pdi_listener *pdi_play_reader(struct pdi_play *play, int node, uint64_t resource);
struct pdi_fault *pdi_play_fault(struct pdi_play *play, enum pdi_fault_kind kind, int a, int b,
                                 pdi_time at);

/* Runs it to the end. */
void pdi_play_run(struct pdi_play *play);
void pdi_play_report(const struct pdi_play *play, pyddsi_report *report);

/* For scenarios that act by themselves. */
void pdi_play_start(struct pdi_play *play);  /* everybody declares, timers are set */
void pdi_play_calm(struct pdi_play *play);   /* all faults stop */
void pdi_play_finish(struct pdi_play *play); /* from here on: quiet, audit, close */
void pdi_play_crash(struct pdi_play *play, int node);
void pdi_play_restart(struct pdi_play *play, int node, int same_port);
void pdi_play_declare_writer(struct pdi_play *play, uint32_t index);
void pdi_play_declare_reader(struct pdi_play *play, uint32_t index);
void pdi_play_forget_writer(struct pdi_play *play, uint32_t index);
void pdi_play_forget_reader(struct pdi_play *play, uint32_t index);
void pdi_play_declare_thing(struct pdi_play *play, uint32_t index);
void pdi_play_forget_thing(struct pdi_play *play, uint32_t index);
/* Between the files of the play. */
void pdi_play_write(struct pdi_play *play, uint32_t index);
void pdi_play_read(struct pdi_play *play, uint32_t index);
void pdi_play_release(struct pdi_play *play, uint32_t index, uint32_t keep);
void pdi_play_happen(struct pdi_play *play, uint32_t index);

/* A number in least .. most. */
static inline uint64_t pdi_play_between(struct pdi_rand *rand, uint64_t least, uint64_t most)
{
    return least + pdi_rand_below(rand, most - least + 1);
}

static inline bool pdi_play_ppm(struct pdi_rand *rand, uint32_t ppm)
{
    return ppm != 0 && pdi_rand_chance(rand, ppm, 1000000);
}

#endif
