/* node.h - one participant: all of the protocol behind a few calls.
 *
 * Bytes and the time go in; bytes, events and the next deadline come out.
 *
 *      application                receive                    housekeeping
 *     put loan pull            slot, input                    tick, due
 *         │                        │                              │
 *         ▼                        ▼                              ▼
 *   ┌───────────┐   window   ┌────────────┐  chores, peer   ┌──────────┐
 *   │  publish  │ ◄── word ──│  receive   │ ──── word ────► │ sessions │
 *   └───────────┘            └────────────┘                 └──────────┘
 *         │                    │        │                         │
 *         └──── output ◄───────┴────────│───── output ◄───────────┘
 *                                       ▼
 *                              take (samples), event
 *
 * Whoever drives a node (the host's threads, the simulator, a fuzzer) does this:
 *
 *     1. ask slot for memory, put a packet there, call input
 *     2. call tick when due says so
 *     3. after 1, 2 and every call of the application: call output until it says AGAIN, and send what it gives
 *
 * `now` never runs backwards within a node; a step of the system's clock is the driver's business.
 */
#ifndef PDI_NODE_NODE_H
#define PDI_NODE_NODE_H

#include "base/time.h"
#include "env.h"
#include "pyddsi.h"

struct pdi_node;

/* Good values for everything; the id, the endpoints and the seed are the caller's. */
void pdi_config_init(pyddsi_config *config);

/* How much memory a node with this configuration needs; 0 if the configuration cannot be, and *text (if given) says why. */
size_t pdi_node_size(const pyddsi_config *config, const char **text);

/* Makes a node in `memory` (aligned to PDI_CACHE_LINE, at least pdi_node_size bytes); with `zero` it holds zeros, as the system
 * gives it, and what is not used is not touched. OK, BAD_ARGUMENT, NO_SPACE. */
int pdi_node_init(struct pdi_node **made, const pyddsi_config *config, void *memory, size_t size,
                  bool zero, pdi_time now);

/* Says farewell to all peers (CLOSE leaves with the next outputs), and accepts nothing more. What subscribers have not
 * taken is recorded in the ledger. */
void pdi_node_close(struct pdi_node *node, pdi_time now);

/* ---- receive ---- */

/* Where the next packet is to be put; there is always room for one. */
uint8_t *pdi_node_slot(struct pdi_node *node, size_t *room);
/* The packet in the slot has `size` bytes and came from there. One of 0 bytes from a connection (TCP, Unix) says that this is
 * over. */
void pdi_node_input(struct pdi_node *node, const pyddsi_endpoint *from, size_t size, pdi_time now);
/* One packet in the driver's memory, for as long as the call takes; it may be larger than a slot (path.c). */
void pdi_node_input_at(struct pdi_node *node, const pyddsi_endpoint *from, const uint8_t *data,
                       size_t size, pdi_time now);

/* ---- housekeeping ---- */

pdi_time pdi_node_due(const struct pdi_node *node);
void pdi_node_tick(struct pdi_node *node, pdi_time now);
/* The part of a tick that packets may make due: what had no room tries again, if there may be some now. The thread that gave them
 * does it at once, where it would have to wake another. */
void pdi_node_retry(struct pdi_node *node, pdi_time now);

/* ---- output: OK and one packet, or AGAIN ---- */

int pdi_node_output(struct pdi_node *node, uint8_t *packet, size_t room, size_t *size,
                    pyddsi_endpoint *to, pdi_time now);
/* The same, but only what others wait for and no order binds: replies, acknowledgements, repetitions. For a thread that
 * must not wait until another has sent what it took out before. */
int pdi_node_output_urgent(struct pdi_node *node, uint8_t *packet, size_t room, size_t *size,
                           pyddsi_endpoint *to, pdi_time now);
/* An address for which the driver is to find out how large a packet it takes there, as far as its system knows; false: none. */
bool pdi_node_path_next(struct pdi_node *node, pyddsi_endpoint *to);
bool pdi_node_path_due(const struct pdi_node *node); /* whether there is one */
/* What it found: bytes of a packet, without the headers of UDP and IP. */
void pdi_node_path(struct pdi_node *node, const pyddsi_endpoint *to, uint32_t bytes);
/* How much output there is, so that a driver may let packets gather and send them together. */
enum pdi_urge {
    PDI_URGE_NONE,  /* output says AGAIN */
    PDI_URGE_SMALL, /* full packets, but few: they may wait as long as one that is not full */
    PDI_URGE_SOME,  /* it is time */
    PDI_URGE_BRIM   /* and best effort would be lost with the next put */
};
enum pdi_urge pdi_node_urge(const struct pdi_node *node);

/* ---- declarations. OK with *handle set; NO_SPACE, AGAIN, or BAD_ARGUMENT with *status as in a result ---- */

/* Numbers are not doubled. name is a wire form; is_chosen: by us, not by the application, so that zhe may be told another one;
 * reliability and durability are its definition's. */
int pdi_node_resource(struct pdi_node *node, uint8_t space, uint64_t resource, pyddsi_bytes name,
                      int is_chosen, uint8_t reliability, uint8_t durability, uint32_t *handle,
                      int *status);
int pdi_node_selection(struct pdi_node *node, uint8_t space, uint64_t selection, pyddsi_bytes query,
                       int is_global, uint32_t *handle, int *status);
int pdi_node_binding(struct pdi_node *node, uint8_t space, uint64_t old_selection,
                     uint64_t new_selection, int is_global, uint32_t *handle, int *status);
int pdi_node_publisher(struct pdi_node *node, const pyddsi_publisher_options *options,
                       uint32_t *handle, int *status);
int pdi_node_subscriber(struct pdi_node *node, const pyddsi_subscriber_options *options,
                        uint32_t *handle, int *status);
/* Forgets any of these. Reliable samples of a publisher still go out; samples a subscriber has not taken are dropped
 * with an entry. OK, or BAD_ARGUMENT: no such handle. */
int pdi_node_forget(struct pdi_node *node, uint32_t handle, pdi_time now);
/* 0 settled with all peers, 255 pending, else the worst answer; negative: no such handle. */
int pdi_node_status(const struct pdi_node *node, uint32_t handle);

/* ---- samples. OK: accepted; AGAIN: a window is full, nothing has happened; BAD_ARGUMENT: never ---- */

int pdi_node_put(struct pdi_node *node, uint32_t handle, const void *data, size_t size,
                 pdi_time now);
/* Several samples as one batch, in few messages: all or none. Sizes are small enough for one packet each. */
int pdi_node_put_many(struct pdi_node *node, uint32_t handle, const pyddsi_bytes *samples,
                      size_t count, pdi_time now);
/* To a name that nobody declared (WDATA): reliably to all peers, or as best effort. */
int pdi_node_put_name(struct pdi_node *node, pyddsi_bytes name, int reliable, const void *data,
                      size_t size, pdi_time now);
/* A sample written in place: *data has `size` bytes until commit (which sends the first of them) or abandon. */
int pdi_node_loan(struct pdi_node *node, uint32_t handle, size_t size, uint8_t **data,
                  uint32_t *loan);
int pdi_node_commit(struct pdi_node *node, uint32_t loan, size_t size, pdi_time now);
/* What an open loan is: OK, or BAD_ARGUMENT. */
int pdi_node_lent(struct pdi_node *node, uint32_t loan, uint32_t *publisher, const uint8_t **data,
                  size_t *size);
int pdi_node_abandon(struct pdi_node *node, uint32_t loan);
/* The largest sample of this publisher that can go by the sockets, in one piece or in many; whoever hands samples to readers on other ways
 * takes no larger ones, so that it does not matter where a reader is. */
uint64_t pdi_node_largest(const struct pdi_node *node, uint32_t handle);
/* A sample larger than any window, piece by piece; reliable publishers only, one at a time each. begin: total is its
 * size. more: takes as many whole pieces (about a packet each) as there is room for, *taken bytes; offer the rest again.
 * The sample is accepted, and over, when the last byte is taken. end: with drop = 1 gives it up. begin answers AGAIN while as
 * many are on their way to a receiver as it has places for. */
int pdi_node_begin(struct pdi_node *node, uint32_t handle, uint64_t total, pdi_time now);
int pdi_node_more(struct pdi_node *node, uint32_t handle, const void *data, size_t size,
                  size_t *taken, pdi_time now);
int pdi_node_end(struct pdi_node *node, uint32_t handle, int drop, pdi_time now);
/* Sends what waits for company now. */
void pdi_node_flush(struct pdi_node *node, pdi_time now);
/* Whether a publisher's samples are sent until they are acknowledged. */
bool pdi_node_reliable(const struct pdi_node *node, uint32_t handle);
/* Where packets reach us: the addresses of our UDP socket, and then those at which we listen for TCP connections. Peers that
 * cannot see them are told (gossip.c). */
void pdi_node_places(struct pdi_node *node, const pyddsi_endpoint *places, uint32_t count);
/* Whether there is a session with a peer at this address, or at one that it told as its own. */
bool pdi_node_knows(const struct pdi_node *node, const pyddsi_endpoint *where);
/* Where one of `asked` is from now on. */
void pdi_node_ask(struct pdi_node *node, uint32_t place, const pyddsi_endpoint *where);
/* Packets come from another address of ours from now on: peers hear of it at once, and not by what they cannot place. */
void pdi_node_moved(struct pdi_node *node, pdi_time now);
/* Tells every peer how far it was understood; before close, so that it need not take for lost what has come. */
void pdi_node_acknowledge(struct pdi_node *node);
/* How many peers are in doubt whether they are still in the same session with us; they cannot be acknowledged until they are
 * not. */
uint32_t pdi_node_doubts(const struct pdi_node *node);
/* The conduit of a publisher: 0 and above multicast, -1 - i unicast to peer i. */
int pdi_node_conduit(const struct pdi_node *node, uint32_t handle);

/* The next sample for this subscriber: OK, AGAIN, BAD_ARGUMENT. Must be released, by the same thread or another. */
int pdi_node_take(struct pdi_node *node, uint32_t subscriber, pyddsi_received *sample,
                  pdi_time now);
void pdi_node_release(struct pdi_node *node, const pyddsi_received *sample);
/* The same for many: as many as there are, `max` at most. */
int pdi_node_take_many(struct pdi_node *node, uint32_t subscriber, pyddsi_received *samples,
                       size_t max, size_t *count, pdi_time now);
void pdi_node_release_many(struct pdi_node *node, const pyddsi_received *samples, size_t count);
/* Records in the ledger (ring, and this reason) that these samples were taken and that the application never saw them. */
void pdi_node_unread(struct pdi_node *node, const pyddsi_received *samples, size_t count,
                     enum pyddsi_reason reason, pdi_time now);
/* Asks the publishers of a pull subscription for at most max samples each; 0: for all there are. */
int pdi_node_pull(struct pdi_node *node, uint32_t subscriber, uint32_t max, pdi_time now);

/* ---- another way, past the sockets (aside.c) ---- */

/* A publisher as such a way sees it. */
typedef struct {
    uint64_t resource; /* as on the wire */
    uint8_t space;
    uint8_t reliable;
    uint8_t others; /* some samples go by the sockets, or are kept: put is needed as well; */
    uint8_t skips;  /* and to count those that somebody goes without */
} pyddsi_aside;

/* A sample that came so. */
struct pdi_brought {
    pyddsi_bytes data; /* stays where it is while it is held: see env.h */
    pyddsi_bytes
        name; /* if it goes by name alone; when it is brought it lies right before the data */
    uint64_t resource; /* as on the wire */
    uint64_t number;
    uint64_t time_ns;
    uint32_t peer;
    uint32_t held; /* PDI_ENV_HELD and what the runner knows it by */
    uint8_t space;
    uint8_t reliable;
    uint8_t own; /* put here: that none of our readers wants it is no loss */
};

/* What differs between samples that come at once. */
struct pdi_poured {
    pyddsi_bytes data;
    uint64_t number;
    uint32_t held;
};

void pdi_node_env(struct pdi_node *node, const struct pdi_env *env);
/* Differs whenever some publisher may have another audience than before. */
uint64_t pdi_node_audience_changes(const struct pdi_node *node);
/* Differs whenever other samples may be wanted here than before. */
uint64_t pdi_node_wants_changes(const struct pdi_node *node);
/* The peers that want this publisher's samples pushed: bit i of bits[] (one for each peer). OK; END: its samples cannot go
 * another way; BAD_ARGUMENT: no such publisher. */
int pdi_node_audience(struct pdi_node *node, uint32_t handle, uint64_t *bits, pyddsi_aside *aside,
                      pdi_time now);
/* How far a peer had been sent a publisher's samples when somebody began to wait for it; all zero: it begins. */
struct pdi_settle {
    uint64_t begun;                   /* the peer's session, */
    uint64_t group, single;           /* the next numbers of the two conduits, */
    uint64_t group_best, single_best; /* and those of best effort */
};

/* OK: this peer has acknowledged all that it was sent of this publisher before it began (best effort: all of that has
 * left); AGAIN: not yet, and it has been asked. */
int pdi_node_settle(struct pdi_node *node, uint32_t handle, uint32_t peer,
                    struct pdi_settle *settle);
/* Until when to wait before the first peer is carried; 0: not at all. Somebody who has only just come may hear the group, and not
 * have said yet that he wants what he hears: if it stopped before he has, he would have the first samples and then a gap. */
pdi_time pdi_node_strangers(const struct pdi_node *node, uint32_t handle, pdi_time now);
/* Samples of this publisher for this peer are carried another way, from the next put on; or not any more. */
void pdi_node_carry(struct pdi_node *node, uint32_t handle, uint32_t peer, int on, pdi_time now);
/* Others would wait for this peer, which another way has served so far: from now on it goes without this publisher's samples, and
 * it is told as of a slow one (DETACHED). `lost`: of those that it was to have by the other way. */
void pdi_node_skip(struct pdi_node *node, uint32_t handle, uint32_t peer, uint64_t lost,
                   pdi_time now);
/* It is back, and gets samples as soon as it has been told what it lacks. Also of a publisher that was forgotten. */
void pdi_node_skip_end(struct pdi_node *node, uint32_t handle, uint32_t peer, pdi_time now);
/* 1: somebody here is to get samples of this resource. */
int pdi_node_wants(struct pdi_node *node, uint8_t space, uint64_t resource);
/* Fills in whose a sample of this publisher is: resource, space, reliable. OK; BAD_ARGUMENT: no such publisher. */
int pdi_node_about(const struct pdi_node *node, uint32_t handle, struct pdi_brought *sample);
/* Whether readers here want such a sample: OK; AGAIN: one that waits for room, or for its guard, has none; END: nobody. */
int pdi_node_ready(struct pdi_node *node, const struct pdi_brought *sample);
/* To the readers here: OK; AGAIN: one that waits for room, or for its guard, has none, and nothing has happened. */
int pdi_node_bring(struct pdi_node *node, const struct pdi_brought *sample, pdi_time now);
/* The same for many at once, where that is simple: how many such samples fit now; 0: bring them one by one. */
uint32_t pdi_node_pours(struct pdi_node *node, const struct pdi_brought *model);
/* After that: no more than fit, each as *model but for its bytes, number and held. The hold that each of them needs for the
 * ring is there already, and is not asked for. */
void pdi_node_pour(struct pdi_node *node, const struct pdi_brought *model,
                   const struct pdi_poured *samples, uint32_t count);
#define PDI_CREDIT_ENDLESS (UINT64_C(1) << 62) /* no reader here waits */
#define PDI_AHEAD          8U                  /* times the depth of a reader that waits */
/* How many more such samples may come, so that with those in its ring no reader that waits has more than PDI_AHEAD times its depth
 * before it. *some: a ring of those that wait is not empty. */
uint64_t pdi_node_credit(struct pdi_node *node, const struct pdi_brought *model, bool *some);
/* Whether a reader that drops wants such samples. To have the newest it is brought all there is; that holds nothing up, as it
 * has copies. */
bool pdi_node_drops(struct pdi_node *node, const struct pdi_brought *model);
/* Of so many that wait to be brought, how many of the oldest would only be pushed out again by the others. They are to be passed
 * by, and stand in the books as if they had been brought. */
uint64_t pdi_node_pass(struct pdi_node *node, const struct pdi_brought *model, uint64_t behind,
                       pdi_time now);
/* A line in the ledger, for what was dropped on such a way. */
void pdi_node_note(struct pdi_node *node, enum pyddsi_place place, enum pyddsi_reason reason,
                   uint8_t space, uint64_t resource, uint64_t count, pdi_time now);

/* ---- what the peers have declared ---- */

/* The name of a resource, as far as it is known, or what it was called when it was declared last; else empty. It holds
 * until the next call. */
pyddsi_bytes pdi_node_name(const struct pdi_node *node, uint8_t space, uint64_t id);
size_t pdi_node_known(const struct pdi_node *node, pyddsi_known *known, size_t max, uint8_t *names,
                      size_t room);

/* ---- sessions, and what happened ---- */

/* Ends the session with the peer at this address. OK, or BAD_ARGUMENT: there is none. */
int pdi_node_close_session(struct pdi_node *node, const pyddsi_endpoint *endpoint, uint8_t reason,
                           pdi_time now);
/* The process of this peer has ended, which was in the session of this epoch (pyddsi_peer); nothing, if that is over. */
void pdi_node_exited(struct pdi_node *node, uint32_t peer, uint16_t epoch, pdi_time now);
/* Differs whenever a session has begun or ended. */
uint32_t pdi_node_peer_changes(const struct pdi_node *node);

/* A number that the two ends of the session with this peer can compute, and nobody else: another one for each of them to show, as we
 * do (`ours`) or as the peer has to. 0: there is none, as with who tells no secret. */
uint64_t pdi_node_bond(const struct pdi_node *node, uint32_t peer, bool ours);
/* The unicast window of the peer with this id, from its next session on. */
int pdi_node_peer_window(struct pdi_node *node, pyddsi_bytes id, uint32_t bytes, uint32_t samples);
/* Moves whenever something has happened that an application may wait for: samples, room, events. */
uint64_t pdi_node_news(const struct pdi_node *node);
int pdi_node_event(struct pdi_node *node, pyddsi_event *event); /* OK or END */
/* How many there have been: differs whenever there is a new one. */
uint32_t pdi_node_events(const struct pdi_node *node);
int pdi_node_drop(const struct pdi_node *node, uint32_t index, pyddsi_drop *drop); /* OK or END */
/* How many were dropped so far, and the line that the last of them went to. */
uint64_t pdi_node_dropped(const struct pdi_node *node, pyddsi_drop *last);
void pdi_node_stats(const struct pdi_node *node, pyddsi_stats *stats);
int pdi_node_peer(const struct pdi_node *node, uint32_t index, pyddsi_peer *peer); /* OK or END */
/* The peers that subscribe to what this publisher publishes, as bits[PYDDSI_PEERS_MAX]. OK or BAD_ARGUMENT. */
int pdi_node_matched(struct pdi_node *node, uint32_t handle, uint64_t *bits, pdi_time now);
/* The sessions that one side refuses. OK or END. */
int pdi_node_refusal(const struct pdi_node *node, uint32_t index, pyddsi_refusal *refusal);
/* conduit as from pdi_node_conduit. OK or BAD_ARGUMENT. */
int pdi_node_window(const struct pdi_node *node, int number, pyddsi_window *window);

#endif
