/* lanes.h - samples between sessions of one machine: past the sockets, through shared memory.
 *
 *     session A (writes)                                     session B (reads)
 *     ┌ page of A ─────────────┐  both map both, writable    ┌ page of B ─────────────┐
 *     │ bells, directory,      │◄───────────────────────────►│ bells, directory,      │
 *     │ places                 │                             │ places ── one for each │
 *     └────────────────────────┘                             │           lane it reads│
 *     ┌ lane of a publisher ───┐   B maps it, read-only      └────────────────────────┘
 *     │ next, entries, bytes   │────────────────────────────► pump ─► node ─► rings
 *     └────────────────────────┘
 *
 * The sessions find each other as all peers do. OPEN and ACCEPT carry a token (who can map whose memory, and where a page
 * lies); without one, or when the memory is not to be had, everything goes by the sockets. A page lists the lanes that its
 * session writes; a session that wants the samples of one takes a place in its own page and asks to join.
 *
 * From the sockets to the lane. A lane's writer does not let a reader join before that peer has acknowledged everything
 * it was sent by the sockets; until then its puts wait, which takes a round trip. Acknowledged means that it lies in the
 * rings there, and what comes by the lane is pumped into the same rings: so nothing overtakes. The way back is the same: the
 * puts wait until the lane is empty.
 *
 * One place for each session, however many of its subscribers want the samples: the pump hands a sample to the node, which
 * knows them. It runs when samples are taken, and in housekeeping when the writer finds its lane full; what a reader that
 * waits has no room for stays in the lane, the lane fills, and its writer waits.
 *
 * When a peer's session ends, its readers leave the lane, and what they had not released is written down. A lane outlives
 * its writer for as long as somebody reads it, so what was put before a crash is still delivered.
 *
 * All of this happens with the session's lock in hand, except puts: each lane has a lock of its own for its writer.
 */
#ifndef PDI_API_LANES_H
#define PDI_API_LANES_H

#include "host/bell.h"
#include "host/lock.h"
#include "host/segment.h"
#include "node/node.h"
#include "proto/lane.h"

#define PDI_LANES_MAX 64U /* that a session writes, and that it reads */
#define PDI_PAGE_MAGIC UINT64_C(0x6567617069646470)

/* A lane, as the directory of its writer's page lists it. */
struct pdi_offer {
    struct pdi_atomic64 stamp;    /* odd: being changed; 0: nothing here */
    struct pdi_atomic64 resource; /* as on the wire */
    struct pdi_atomic64 about;    /* space, reliable << 8 */
    struct pdi_atomic64 fd;
    struct pdi_atomic64 size;
    struct pdi_atomic64 cookie;
};

/* What sessions of one machine show each other. Whatever another wrote is read once, checked, and then used. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what different sides write stands apart. */
struct pdi_shared_page {
    struct pdi_atomic64 magic;
    struct pdi_atomic64 cookie;
    struct pdi_bell news;   /* of the session's applications */
    struct pdi_bell chores; /* of its housekeeping */
    PDI_CACHE_ALIGNED struct pdi_atomic32 attention; /* set by others: look at what has changed */
    struct pdi_atomic32 thirsty;                     /* a put waits for room in a lane */
    PDI_CACHE_ALIGNED struct pdi_offer offers[PDI_LANES_MAX];
    struct pdi_place places[PDI_LANES_MAX];
};

/* A peer on this machine. */
struct pdi_neighbour {
    struct pdi_segment segment; /* its page */
    uint64_t cookie;
    uint32_t pid;
    uint32_t epoch; /* of its session, plus one; 0: none so far */
    uint8_t used;
};

/* A lane that we write. */
struct pdi_lane_out {
    struct pdi_lock lock;
    struct pdi_lane_writer writer;
    struct pdi_segment segment;
    uint64_t *starts;
    uint32_t publisher; /* handle; PDI_LANE_NOBODY: it was forgotten, and the lane empties */
    uint8_t used;
    uint8_t on;      /* somebody has joined: puts go here, */
    uint8_t others;  /* and by the sockets too */
    uint8_t waits;   /* puts wait: for what went by the sockets, or for the lane to be empty */
    uint8_t closing; /* it leads back to the sockets; nobody joins any more */
    uint8_t space, reliable;
    uint64_t resource;
    uint64_t put;                          /* samples that went by the lane alone */
    uint64_t joined[PDI_LANE_READERS_MAX]; /* by the writer's row: the first number that reader is owed, */
    uint16_t peer[PDI_LANE_READERS_MAX];   /* and which peer it is */
};

#define PDI_LANE_NOBODY UINT32_MAX

/* A lane that we read; its place is the one of the same index in our page. */
struct pdi_lane_in {
    struct pdi_lane_reader reader;
    struct pdi_lane_sample next; /* taken, and not yet handed over */
    struct pdi_segment segment;
    uint64_t *released;
    uint16_t *holds; /* by entry: rings and readers that have it */
    uint64_t cookie;
    uint64_t resource;
    uint64_t taken;
    uint32_t peer;
    uint8_t used, active, has_next;
    uint8_t orphan; /* the session with its writer has ended: it is emptied, and then left */
    uint8_t freed;  /* something was released since its writer was last told */
    uint8_t space, reliable;
};

/* A sample that is being written in a lane. */
struct pdi_lane_open {
    struct pdi_lane_loan loan;
    uint32_t lane; /* index in out[] */
    uint16_t generation;
    uint8_t used;
};

struct pdi_lane_of {
    uint32_t publisher;
    struct pdi_atomic32 lane; /* index + 1; 0: none */
};

struct pdi_lanes {
    struct pdi_node *node;
    struct pdi_segment segment; /* our page */
    struct pdi_shared_page *page;
    struct pdi_neighbour *neighbours; /* [peers_max] */
    struct pdi_lane_of *of;           /* [publishers_max] */
    struct pdi_lane_out out[PDI_LANES_MAX];
    struct pdi_lane_in in[PDI_LANES_MAX];
    struct pdi_lane_open open[PDI_LANE_LOANS_MAX];
    uint32_t peers_max, publishers_max;
    uint32_t lane_bytes, lane_samples;
    uint32_t publishers_used, in_used, out_used; /* those at and above were never used */
    uint32_t freed;                              /* lanes in[] that are marked so */
    uint64_t audience, wants;                    /* changes that were looked at */
    uint8_t look;                                /* there is something to look at, */
    uint8_t moving;                              /* and will be until some lane has moved */
    uint64_t host, random, cookies;
    uint64_t put, owed, lost; /* of lanes and readers that are gone */
    uint64_t refused, copied;
};

/* Makes the page, and says in config what peers are told. OK, or negative: there is no shared memory; and a text. */
int pdi_lanes_init(struct pdi_lanes *lanes, pyddsi_config *config, uint32_t bytes, uint32_t samples,
                   uint64_t random, char *text, size_t room);
void pdi_lanes_begin(struct pdi_lanes *lanes, struct pdi_node *node);
/* Whoever reads what we wrote is told that nothing more comes. */
void pdi_lanes_close(struct pdi_lanes *lanes, pdi_time now);
void pdi_lanes_fini(struct pdi_lanes *lanes);

/* Brings everything into line with who is there and what is declared; with the session's lock. True: something moved that
 * sleepers may wait for. */
bool pdi_lanes_look(struct pdi_lanes *lanes, pdi_time now);

/* Whether look has something to do. */
static inline bool pdi_lanes_due(const struct pdi_lanes *lanes)
{
    return lanes->look || lanes->moving ||
           lanes->audience != pdi_node_audience_changes(lanes->node) ||
           lanes->wants != pdi_node_wants_changes(lanes->node);
}

/* The books of all lanes, added to those of the node. */
void pdi_lanes_stats(struct pdi_lanes *lanes, pyddsi_stats *stats);
uint64_t pdi_lanes_in_flight(struct pdi_lanes *lanes);
void pdi_lanes_count(const struct pdi_lanes *lanes, pyddsi_session_counts *counts);
/* Asks a neighbour's housekeeping to look. */
void pdi_lanes_nudge(struct pdi_neighbour *neighbour);

/* ---- writing (lanes_out.c) ---- */

bool pdi_lanes_look_out(struct pdi_lanes *lanes, pdi_time now);
void pdi_lanes_publisher(struct pdi_lanes *lanes, uint32_t publisher);
void pdi_lanes_forget(struct pdi_lanes *lanes, uint32_t publisher);
/* The lane that this publisher's puts may go by, or null. From any thread; what it says is certain under the lane's lock. */
struct pdi_lane_out *pdi_lanes_of(struct pdi_lanes *lanes, uint32_t publisher);
/* Wakes the readers who sleep; with the lane's lock. */
void pdi_lanes_ring(struct pdi_lanes *lanes, const struct pdi_lane_out *lane);
/* Asks the readers to take what is there; with the session's lock. */
void pdi_lanes_hurry(struct pdi_lanes *lanes, const struct pdi_lane_out *lane);

/* ---- reading (lanes_in.c) ---- */

bool pdi_lanes_look_in(struct pdi_lanes *lanes);
/* What has come, to the rings; at most so many samples of each lane. */
void pdi_lanes_pump(struct pdi_lanes *lanes, uint32_t max, pdi_time now);
/* Tells writers who wait that there is room again. */
void pdi_lanes_tell(struct pdi_lanes *lanes);
void pdi_lanes_hold(void *lanes, uint32_t held);
void pdi_lanes_release(void *lanes, uint32_t held);

#endif
