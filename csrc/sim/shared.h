/* shared.h - shared memory of the nodes of one simulated machine.
 *
 * Nodes with the same machine number (not 0) hand samples over past the network, as sessions of one machine do. What decides there
 * is the session's own (api/lanes.h), so it is not the simulator that has it but who links the simulator: api/sim_shared.c. Here
 * stand the machine's memory, the time, and who is woken when.
 *
 *     put ─► lane ─► (wakes) ─► a moment later: attend ─► rings of the readers there
 *
 * A node that crashes is killed: what it wrote stays for those who have mapped it. A paused one is stopped: others go on
 * writing into its page, and it reads that when it goes on.
 */
#ifndef PDI_SIM_SHARED_H
#define PDI_SIM_SHARED_H

#include <stdbool.h>

#include "base/rand.h"
#include "base/time.h"
#include "node/node.h"

/* Of the nodes that are added next. */
struct pdi_sharing {
    uint32_t machine;      /* 0: it shares no memory */
    uint32_t bytes_first;  /* of its lanes, at first, */
    uint32_t bytes_max;    /* and when samples are large */
    uint32_t samples_max;  /* in one lane */
    pdi_time wake_max;     /* how long the system takes at most to wake it */
    uint32_t unmapped_ppm; /* of memory that others show cannot be had */
};

struct pdi_machines; /* the memory of all machines of a world */
struct pdi_shared;   /* what a node has of it in one life */

struct pdi_machines *pdi_machines_new(uint64_t seed);
void pdi_machines_free(struct pdi_machines *machines); /* null does nothing */

/* Says in config what peers are told of it; null: there is no memory. */
struct pdi_shared *pdi_shared_new(struct pdi_machines *machines, const struct pdi_sharing *sharing,
                                  pyddsi_config *config);
void pdi_shared_begin(struct pdi_shared *shared, struct pdi_node *node);
/* The process is gone. */
void pdi_shared_free(struct pdi_shared *shared);
/* It says farewell first. */
void pdi_shared_close(struct pdi_shared *shared, pdi_time now);

/* Whether others have put something, or want something of it, since it attended last. */
bool pdi_shared_asked(const struct pdi_shared *shared);
void pdi_shared_attend(struct pdi_shared *shared, pdi_time now);
/* After whatever was done with the node. True: it has to attend soon. */
bool pdi_shared_leave(struct pdi_shared *shared, pdi_time now);
/* When it has to attend, whoever asks. */
pdi_time pdi_shared_due(const struct pdi_shared *shared);
/* All that was put has been brought to the rings of those who read it. */
bool pdi_shared_quiet(struct pdi_shared *shared);

/* What an application does. */
void pdi_shared_publisher(struct pdi_shared *shared, uint32_t publisher);
void pdi_shared_forget(struct pdi_shared *shared, uint32_t handle);
int pdi_shared_put(struct pdi_shared *shared, uint32_t publisher, const void *data, size_t size,
                   pdi_time now);
void pdi_shared_pump(struct pdi_shared *shared, pdi_time now); /* before it takes samples, */
void pdi_shared_took(struct pdi_shared *shared, const pyddsi_received *sample); /* for each, */
void pdi_shared_allow(struct pdi_shared *shared);                               /* after it */
void pdi_shared_gave_back(struct pdi_shared *shared, const pyddsi_received *sample);

/* Somebody writes so many words over its page: what cannot be, or with `likely` what might be true. */
void pdi_shared_scribble(struct pdi_shared *shared, struct pdi_rand *rand, uint32_t words,
                         bool likely);

struct pdi_shared_counts {
    uint64_t put, taken;   /* samples into lanes, and out of them */
    uint64_t refused;      /* memory or readers that made no sense, or were not to be had */
    uint64_t held;         /* samples of lanes in rings, or with the application */
    uint64_t lost, owed;   /* by its own lanes: to readers that had not brought them */
    uint32_t lanes, reads; /* that it writes, and reads */
};
void pdi_shared_count(struct pdi_shared *shared, struct pdi_shared_counts *counts);

#endif
