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
 * lies); without one, or when the memory is not to be had, everything goes by the sockets. Everybody hears tokens, and can show
 * another's as its own. So each writes into its own page a *bond* for each peer that may map it, a number that only the two ends
 * of that session can compute (pdi_node_bond), and uses another's page only when the bond that its owner must have written is
 * there. A page that was mapped before its owner had written it waits: the other, who finds ours, says so. A page lists the lanes that its
 * session writes; a session that wants the samples of one takes a place in its own page and asks to join.
 *
 * From the sockets to the lane. A lane's writer does not let a reader join before that peer has acknowledged everything
 * it was sent of this publisher by the sockets; until then its puts wait, which takes a round trip. (If it takes much longer,
 * since the reader has no room, everything goes on by the sockets, and is tried again later.) Acknowledged means that it lies in the rings there, and what comes by the lane is pumped into the same rings: so nothing overtakes. Best effort is
 * not acknowledged: it has left, at least, and what comes late by a socket is dropped there as overtaken. The way back
 * is the same: the puts wait until all that was shown has been brought to the rings, which each reader tells beside its
 * place (brought). It need not have been released: a lane that leads back is not written again, and its memory stays for as
 * long as somebody maps it, so views into it last however long an application looks at them.
 *
 * Nor is anybody let in while another peer, who has only just come, may hear the group without having said that he wants what he
 * hears (pdi_node_strangers): the publisher would leave the group, and he would have its first samples and then a gap. And a sample
 * that is too large for the sockets' windows waits a moment for somebody to join, since nobody can while it leaves in pieces.
 *
 * Sizes. A lane begins small, since what is small stays in the processors' caches. A sample of more than a 32nd of it
 * would have writer and readers wait for each other all the time: then the lane leads back, a larger one that holds 8 to 64
 * such samples takes its place, and the puts wait for that, not for long.
 *
 * One place for each session, however many of its subscribers want the samples: the pump hands a sample to the node, which
 * knows them. It runs when samples are taken, and in housekeeping when the writer finds its lane full; what a reader that
 * waits has no room for stays in the lane, the lane fills, and its writer waits.
 *
 * Views. A position stands at the oldest sample that is still looked at. If that is for long, and nothing else is left to
 * be read there, the lane's other readers must not wait for it: the writer begins a new lane, and the old one leads
 * back, as if a sample had been too large for it. So an application may keep samples for as long as it likes.
 *
 * Ends.
 *   - A subscriber is forgotten: its session leaves, once nothing is looked at any more. What it had not brought to its
 *     rings the writer writes down.
 *   - A publisher is forgotten, or its session closes: its readers bring and read all that was put.
 *   - A reader is stopped, or does not read, and others wait for it: it goes without samples until it is back (lanes_slow.c).
 *   - A reader writes nonsense, or another process does into its page: it leaves, and gets its samples by the sockets.
 *   - A reader's session ends: what it had not brought is written down, and it may still be there (it was stopped, perhaps),
 *     so the lane is not written again. When it comes back, it gives up what it has not brought: that is in the books as
 *     lost, and what comes by the new session must not be overtaken by it.
 *   - A writer is killed: what it had put is still brought and read. Nobody else touches the places of a dead process, so
 *     then, and only then, its reader frees them by itself.
 *
 * Who tells whom. All of it is told, nobody polls:
 *
 *     what                                      how                                         who looks
 *     a bond was found                          attention of the other set, chores rung       its housekeeping
 *     samples were put                          news of each reader rung (lightly, if that   its applications
 *                                               is enough for all of them: bell.h)
 *     somebody asks to join, joins, leaves      attention of the other set, chores rung     its housekeeping
 *     room, when a put has found none           wanted (room) set before the last look;     applications that put
 *                                               who releases takes it back, and rings news
 *                                               when that is a quarter, or a moment later
 *     brought, when the writer waits for it     wanted (brought) likewise; attention too    housekeeping
 *
 * Locks. All of this happens with the session's lock in hand, except puts: each lane has a lock of its own for its writer,
 * which is taken after the session's if both are needed. Under the lane's lock stand the writer and the marks on, others,
 * waits, closing and put; they change only with both locks in hand, so either is enough to read them, but put itself needs
 * none but the lane's.
 */
#ifndef PDI_API_LANES_H
#define PDI_API_LANES_H

#include "api/lanes_door.h"
#include "api/tap.h"
#include "host/bell.h"
#include "host/bias.h"
#include "host/spin.h"
#include "host/thread.h"
#include "node/node.h"
#include "proto/bond.h"
#include "proto/lane.h"

#define PDI_LANES_MAX 64U /* that a session writes, and that it reads */
/* Readers that go without samples: of all lanes together. For one more than that, its lane's readers wait. */
#define PDI_LANES_ABSENT_MAX 64U
#define PDI_PAGE_MAGIC       UINT64_C(0x6567617069646470)

/* A lane, as the directory of its writer's page lists it. */
struct pdi_offer {
    struct pdi_atomic64 stamp;    /* odd: being changed; 0: nothing here */
    struct pdi_atomic64 resource; /* as on the wire */
    struct pdi_atomic64 about;    /* space, reliable << 8 */
    struct pdi_atomic64 fd;
    struct pdi_atomic64 size;
    struct pdi_atomic64 cookie;
};

/* All before this number has been brought to the rings of the session whose place it is. `held`: and taken from there, and
 * some of it is being looked at; so nothing but the application's own will moves the position. */
struct pdi_brought_mark {
    PDI_CACHE_ALIGNED struct pdi_atomic64 number;
    struct pdi_atomic32 held;
};

#define PDI_BROUGHT_NOTHING UINT64_MAX /* it has not begun */

/* What sessions of one machine show each other. Whatever another wrote is read once, checked, and then used. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what different sides write stands apart. */
struct pdi_shared_page {
    struct pdi_atomic64 magic;
    struct pdi_atomic64 cookie;
    struct pdi_bell news;                            /* of the session's applications */
    struct pdi_bell chores;                          /* of its housekeeping */
    PDI_CACHE_ALIGNED struct pdi_atomic32 attention; /* set by others: look at what has changed */
    struct pdi_atomic32 wanted; /* PDI_TELL_..: set by the session, taken back by who tells it */
    struct pdi_atomic32
        heavy; /* 1: who waits in it for us passes a heavy barrier before it looks */
    PDI_CACHE_ALIGNED struct pdi_offer offers[PDI_LANES_MAX];
    struct pdi_place places[PDI_LANES_MAX];
    struct pdi_brought_mark brought[PDI_LANES_MAX]; /* of the same places */
    struct pdi_bonds bonds;                         /* what its peers know it by */
};

enum {
    PDI_TELL_ROOM = 1,    /* ring news when something has been released */
    PDI_TELL_BROUGHT = 2, /* ring news and chores when something has been brought */
};

/* A peer on this machine. */
struct pdi_neighbour {
    struct pdi_segment segment; /* its page */
    uint64_t cookie;
    uint32_t pid;
    uint32_t epoch; /* of its session, plus one; 0: none so far */
    uint8_t used;
    uint8_t unproven; /* mapped; but its owner has not written our bond, and perhaps never will */
    uint8_t shut;     /* what stood in its page made no sense: it reads no lane of ours any more */
};

/* A reader that others would have waited for, until it is back (lanes_slow.c). */
struct pdi_lane_absent {
    struct pdi_place *place; /* in its neighbour's page; null: a free row */
    uint32_t publisher, peer;
};

/* What is known of a reader of a lane that we write; by the writer's row. */
struct pdi_lane_row_out {
    uint64_t joined;  /* the first number that it is owed, */
    uint64_t brought; /* and how far it last said that it had brought them */
    uint64_t seen;    /* the sum of what it said, when we began to wait for it */
    pdi_time since;   /* which was then; 0: we do not */
    uint16_t peer;
    uint8_t asked; /* it was asked to say all of it again */
};

/* A sample that is being written in a lane: a row of its writer's. */
struct pdi_lane_open {
    struct pdi_lane_loan loan;
    uint16_t generation;
    uint8_t used;
};

/* A lane that we write. */
struct pdi_lane_out {
    struct pdi_bias lock;
    struct pdi_lane_writer writer;
    struct pdi_segment segment;
    uint64_t *starts;
    uint32_t publisher; /* handle; PDI_LANE_NOBODY: it was forgotten, and the lane empties */
    uint8_t used;
    uint8_t on;      /* somebody has joined: puts go here, */
    uint8_t others;  /* and by the sockets too, */
    uint8_t company; /* to somebody there, */
    uint8_t here;    /* and to subscribers of our own (echo.h) */
    uint8_t waits;   /* puts wait: for what went by the sockets, or for the lane to be empty */
    uint8_t light;   /* all who read it pass a heavy barrier before they sleep */
    uint8_t closing; /* it leads back to the sockets; nobody joins any more */
    uint8_t space, reliable;
    uint32_t ample; /* for a larger sample there should be a larger lane */
    uint64_t resource;
    uint64_t put;                    /* samples that went by the lane alone */
    uint64_t asked_next, asked_head; /* where it was when readers that only drop were last asked */
    struct pdi_lane_row_out rows[PDI_LANE_READERS_MAX];
    uint64_t invited[PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)]; /* peers that were told of it */
    size_t short_of;      /* the size of a sample that found no room; 0: none */
    uint8_t short_rows;   /* it was a loan, and there are too many of them */
    struct pdi_spin spin; /* of puts that find none */
    struct pdi_lane_open open[PDI_LANE_LOANS_MAX];
    pdi_time stuck;           /* since when readers only look at what they have; 0: they do not */
    pdi_time back;            /* since when it leads back; 0: it does not */
    struct pdi_settle settle; /* what the one must have acknowledged who joins next: */
    uint32_t joiner;          /* this peer, plus one; the last one, while none is waited for */
    pdi_time asked;           /* when we began to wait for that; 0: we do not, */
    pdi_time retry;           /* but will again then, */
    pdi_time pause;           /* and after that so much later */
};

#define PDI_LANE_NOBODY UINT32_MAX

/* The lane's lock. */
static inline void pdi_lanes_enter(struct pdi_lane_out *lane)
{
    pdi_bias_take(&lane->lock, pdi_thread_self());
}

static inline void pdi_lanes_exit(struct pdi_lane_out *lane)
{
    pdi_bias_give(&lane->lock, pdi_thread_self());
}

/* Whether what this publisher puts goes by the lane and nowhere else; with the lane's lock. */
static inline bool pdi_lanes_alone(const struct pdi_lane_out *lane, uint32_t publisher)
{
    return lane->publisher == publisher && publisher != PDI_LANE_NOBODY && lane->on &&
           !lane->others && !lane->here && !lane->waits && !lane->closing &&
           lane->writer.broken == 0;
}

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
    uint64_t first;     /* number: where we joined */
    uint32_t ringed;    /* records in rings, */
    uint32_t taken_out; /* and samples with the application */
    uint8_t held;       /* what brought[] says */
    uint32_t peer;
    uint32_t pid; /* of its writer */
    uint8_t used, active, has_next;
    uint8_t tight;    /* how far it may go depends on what readers take */
    uint8_t orphan;   /* the session with its writer has ended: it is emptied, and then left */
    uint8_t farewell; /* its writer had closed before: nobody gives up what is in it */
    uint8_t broken;   /* its writer wrote nonsense: it is left */
    uint8_t leaving;  /* nobody wants its samples any more */
    uint8_t tell;     /* PDI_TELL_..: what has happened since its writer was last told */
    uint64_t told;    /* where our position was then, */
    uint64_t until, told_until; /* how far it may go, and might then, */
    pdi_time tell_by;           /* and when it is told of room that it waits for; 0: it does not */
    uint8_t space, reliable;
};

struct pdi_lane_of {
    uint32_t publisher;
    uint32_t bytes;   /* of its next lane; 0: as all begin */
    pdi_time growing; /* its puts wait for a larger lane, until then at most; 0: they do not */
    pdi_time again;   /* a sample was too large for its lane: no other one before this time */
    /* one that is too large for the sockets has waited for somebody to join: none waits again before this time */
    pdi_time vain;
    struct pdi_atomic32 lane; /* index + 1; 0: none */
};

struct pdi_lanes {
    struct pdi_node *node;
    struct pdi_tap *tap; /* the session's */
    struct pdi_lanes_door door;
    struct pdi_segment segment; /* our page */
    struct pdi_shared_page *page;
    struct pdi_neighbour *neighbours; /* [peers_max] */
    struct pdi_lane_of *of;           /* [publishers_max] */
    struct pdi_lane_out out[PDI_LANES_MAX];
    struct pdi_lane_in in[PDI_LANES_MAX];
    uint32_t peers_max, publishers_max;
    uint32_t lane_bytes, lane_samples; /* of one lane at most, */
    uint32_t lane_first;               /* and at first */
    uint32_t owners[PDI_LANES_MAX];    /* by place: the process whose lane it was last for */
    uint32_t publishers_used, in_used, out_used; /* those at and above were never used */
    uint32_t best_in;                            /* active lanes in[] of best effort */
    uint32_t tell; /* lanes in[] whose writers are to be told something */
    struct pdi_lane_absent absent[PDI_LANES_ABSENT_MAX];
    uint32_t absents;
    pdi_time slow;            /* so long others wait for one that does not read; 0: for ever */
    pdi_time due;             /* when to look again */
    uint64_t audience, wants; /* changes that were looked at, */
    uint32_t peers, raised;   /* and these */
    uint8_t barrier;          /* the system has one: barrier.h */
    uint8_t look;             /* there is something to look at, */
    uint8_t grows;            /* some publisher's puts may wait for a larger lane, */
    uint8_t moving; /* lanes wait for acknowledgements, or for readers to bring what was put */
    uint64_t random, cookies;
    uint64_t put, taken, owed, lost; /* of lanes and readers that are gone */
    uint64_t refused, copied;
};

/* Of lanes that are all zero: makes the page, and says in config what peers are told. OK, or negative: there is no shared memory;
 * and a text. */
int pdi_lanes_init(struct pdi_lanes *lanes, pyddsi_config *config,
                   const struct pdi_lanes_door *door, uint32_t bytes, uint32_t samples,
                   uint64_t random, bool barrier, char *text, size_t room);
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
    return lanes->look || lanes->peers != pdi_node_peer_changes(lanes->node) ||
           lanes->audience != pdi_node_audience_changes(lanes->node) ||
           lanes->wants != pdi_node_wants_changes(lanes->node);
}

/* The books of all lanes, added to those of the node. */
void pdi_lanes_stats(struct pdi_lanes *lanes, pyddsi_stats *stats);
void pdi_lanes_count(struct pdi_lanes *lanes, pyddsi_session_counts *counts);
/* Asks a neighbour's housekeeping to look. */
void pdi_lanes_nudge(struct pdi_neighbour *neighbour);

/* Readers are to tell this; before the last look at what they may tell. */
static inline void pdi_lanes_want(struct pdi_lanes *lanes, uint32_t what)
{
    if ((pdi_atomic32_or(&lanes->page->wanted, what) & what) != what && lanes->barrier) {
        pdi_barrier_heavy();
    }
}

/* ---- writing: who reads (lanes_out.c) ---- */

bool pdi_lanes_look_out(struct pdi_lanes *lanes, pdi_time now);
/* Takes this reader out; what it has not brought is written down for this reason. With both locks. */
void pdi_lanes_leave(struct pdi_lanes *lanes, struct pdi_lane_out *lane, unsigned row,
                     enum pyddsi_reason reason, pdi_time now);
/* Places in a neighbour's page that wait for an answer of ours, and for nothing else any more; `gone`: all of them. */
void pdi_lanes_dismiss(struct pdi_lanes *lanes, struct pdi_neighbour *neighbour, bool gone);
/* All before this number lies in the rings of this reader; what it tells is checked, and if it cannot be, the reader is broken from
 * then on. */
uint64_t pdi_lanes_brought(const struct pdi_lanes *lanes, struct pdi_lane_out *lane, unsigned row);
/* How many samples its readers have not brought to their rings; with the lane's lock. */
uint64_t pdi_lanes_unbrought(const struct pdi_lanes *lanes, struct pdi_lane_out *lane);
/* Whether some lane has samples of this resource that its readers have not brought to their rings. */
bool pdi_lanes_linger(struct pdi_lanes *lanes, uint8_t space, uint64_t resource);
/* Whether somebody wants this publisher's samples who might read them in a lane. */
bool pdi_lanes_wanted(struct pdi_lanes *lanes, uint32_t publisher, pdi_time now);
/* Whether one of its readers only looks at what it has; with the lane's lock. */
bool pdi_lanes_looked_at(const struct pdi_lanes *lanes, const struct pdi_lane_out *lane);

/* ---- writing: readers that others would wait for (lanes_slow.c) ---- */

/* Has those go without samples that a put, or the way back, has waited for too long. True: there was one, and its lane is to be
 * written no more. With both locks. */
bool pdi_lanes_see_slow(struct pdi_lanes *lanes, struct pdi_lane_out *lane, pdi_time now);
/* Those who are back get samples again. */
void pdi_lanes_see_back(struct pdi_lanes *lanes, pdi_time now);
/* Whether this peer goes without the samples of this publisher, and may not join yet. */
bool pdi_lanes_is_absent(const struct pdi_lanes *lanes, uint32_t publisher, uint32_t peer);

/* ---- writing: lanes (lanes_make.c) ---- */

struct pdi_lane_out *pdi_lanes_make(struct pdi_lanes *lanes, struct pdi_lane_of *of,
                                    const pyddsi_aside *aside, pdi_time now);
void pdi_lanes_unmake(struct pdi_lanes *lanes, struct pdi_lane_out *lane);
/* Shows in the directory what has changed of it. */
void pdi_lanes_offer(struct pdi_lanes *lanes, const struct pdi_lane_out *lane);
void pdi_lanes_publisher(struct pdi_lanes *lanes, uint32_t publisher);
void pdi_lanes_forget(struct pdi_lanes *lanes, uint32_t publisher);
/* The lane that this publisher's puts may go by, or null. From any thread; what it says is certain under the lane's lock. */
struct pdi_lane_out *pdi_lanes_of(struct pdi_lanes *lanes, uint32_t publisher);
/* A sample is too large for the lane, which leads back to the sockets. AGAIN, until it does; BAD_ARGUMENT, and nothing
 * happens: it is too large for those as well. With both locks. */
int pdi_lanes_outgrown(struct pdi_lanes *lanes, struct pdi_lane_out *lane, size_t size,
                       pdi_time now);
/* Whether there is to be a larger lane for samples of this size: this one leads back, and puts wait for the next. With both
 * locks. */
bool pdi_lanes_grow(struct pdi_lanes *lanes, struct pdi_lane_out *lane, size_t size, pdi_time now);
/* A sample is too large for the sockets' windows. Whether it is to wait, as somebody may be about to read it in a lane. With the
 * session's lock. */
bool pdi_lanes_await(struct pdi_lanes *lanes, uint32_t publisher, size_t size, pdi_time now);
/* Whether this publisher's puts wait for that. With the session's lock. */
static inline bool pdi_lanes_growing(const struct pdi_lanes *lanes, uint32_t publisher)
{
    uint32_t index = publisher & 0xffff;
    return index < lanes->publishers_max && lanes->of[index].publisher == publisher &&
           lanes->of[index].growing != 0;
}
/* A publisher without a lane puts a sample: perhaps it may have one again. */
void pdi_lanes_again(struct pdi_lanes *lanes, uint32_t publisher, pdi_time now);
/* After something was put: wakes the readers who sleep; with the lane's lock. */
void pdi_lanes_ring(struct pdi_lanes *lanes, struct pdi_lane_out *lane);
/* Whether there is room. If not, we are told when there is: it must be asked after that, and is. With both locks. */
int pdi_lanes_room(struct pdi_lanes *lanes, struct pdi_lane_out *lane, size_t size);
/* A put or a loan of this size waits for room, or with `rows` for one of the loans to be over: whoever makes it so will tell. It
 * must be looked for once more after PDI_TELL_ROOM was wanted, and was. With both locks. */
void pdi_lanes_short(struct pdi_lanes *lanes, struct pdi_lane_out *lane, size_t size, bool rows);
/* Looks for room in this lane of the publisher's a little longer, if that pays; from any thread, without a lock. Whether there
 * is. */
bool pdi_lanes_spin(struct pdi_lane_out *lane, uint32_t publisher, size_t size);
/* Asks the readers to bring what is there; with both locks. */
void pdi_lanes_hurry(struct pdi_lanes *lanes, const struct pdi_lane_out *lane);
/* The same for all lanes. */
void pdi_lanes_hurry_all(struct pdi_lanes *lanes);

/* ---- reading (lanes_in.c) ---- */

bool pdi_lanes_look_in(struct pdi_lanes *lanes, pdi_time now);
/* The session with this peer has ended. */
void pdi_lanes_orphan(struct pdi_lanes *lanes, uint32_t peer);
/* Leaves the lanes in which nothing is looked at; for the end of the session. */
void pdi_lanes_leave_all(struct pdi_lanes *lanes);
/* What has come, to the rings; at most so many samples of each lane. */
void pdi_lanes_pump(struct pdi_lanes *lanes, uint32_t max, pdi_time now);
/* Readers have taken: writers may go on. */
void pdi_lanes_allow(struct pdi_lanes *lanes);
/* Tells writers what they want to know. */
void pdi_lanes_tell(struct pdi_lanes *lanes, pdi_time now);

/* Whether a sample lies in a lane. */
static inline bool pdi_lanes_have(uint32_t held)
{
    return held >> 29 == PDI_ENV_HELD >> 29;
}

/* The application has taken a sample; answers how many bytes its lane has. And has released one. */
uint32_t pdi_lanes_took(struct pdi_lanes *lanes, uint32_t held);
void pdi_lanes_gave_back(struct pdi_lanes *lanes, uint32_t held);

/* What the node asks: env.h. */
void pdi_lanes_hold(void *context, uint32_t held);
void pdi_lanes_release(void *context, uint32_t held);
bool pdi_lanes_overtaken(void *lanes, uint32_t peer, uint8_t space, uint64_t resource);

#endif
