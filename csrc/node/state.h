/* state.h - everything a node remembers, grouped by who may touch it.
 *
 * Only the files of this room include it. It is long because it holds every struct of the room and what its files offer
 * each other: one place to see who shares what. One struct per noun:
 *
 *     node ─┬─ out[]          conduits we send on: the multicast ones, then one unicast conduit per peer slot
 *           ├─ peers[]        one slot per peer: its word, where it is, what it can do
 *           ├─ orders[]       what came from each peer on each of its conduits
 *           ├─ publishers[]   with the plan: who is to get the next sample, and by which way
 *           ├─ readers[]      local subscribers with their rings
 *           └─ registry       what is declared
 *
 * A conduit's number in out[] is i for multicast conduit i and multicasts + p for the unicast conduit to peer p. On the wire
 * the multicast conduits have the ids 0 .. multicasts - 1 and every unicast conduit has the id `multicasts`.
 *
 * Threads. The node is driven by one thread at a time now (the simulator), and its parts are cut as the host's threads
 * will need them: `window.word`, `peer.word` and the heads and tails of the rings are the only words that two of
 * them change; chores go from receive to housekeeping through a ring.
 *
 *     part           receive                        housekeeping                     application
 *     out[]          member.acked, base, wanted     synch, members come and go       next, sent, draft
 *     peers[]        renew, end, accept             everything else                  reads
 *     orders[]       all                            fresh ones for a new session     -
 *     readers[]      push                           -                                take
 */
#ifndef PDI_NODE_STATE_H
#define PDI_NODE_STATE_H

#include "base/bitset.h"
#include "base/bytes.h"
#include "base/carve.h"
#include "base/chain.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/pages.h"
#include "base/rand.h"
#include "base/seq.h"
#include "base/sip.h"
#include "flow/ledger.h"
#include "node/node.h"
#include "base/endpoint.h"
#include "proto/order.h"
#include "proto/peer.h"
#include "proto/pool.h"
#include "proto/registry.h"
#include "proto/rtt.h"
#include "proto/series.h"
#include "proto/window.h"
#include "wire/decode.h"
#include "wire/name.h"

#define PDI_NONE        UINT32_MAX
#define PDI_PAGE        1024U /* the unit in which peers' windows are handed out */
#define PDI_SHELF_PAGE  64U
#define PDI_CHORES_MAX  256U
#define PDI_REPLIES_MAX 256U
#define PDI_HEARD_MAX   64U /* places of peers that others have told, and that are being tried */
#define PDI_PROBES_MAX  8U  /* of these in one look for peers */
#define PDI_PROBE_TRIES 8U  /* of one of these */
#define PDI_PLACES_MAX  8U  /* addresses of one peer that it told itself, and of our own */
#define PDI_SCRATCH_ENTRIES 2048U /* for loans, and for best effort that leaves in pieces to many */
#define PDI_LOANS_MAX       64U
#define PDI_ROUTE_CACHE     256U /* a power of two */
#define PDI_ROUTE_READERS   32U  /* of one resource, in the cache; more are looked up each time */
#define PDI_OVERRIDES_MAX   16U
#define PDI_REFUSALS_MAX    16U /* peers that one side refuses, remembered */
#define PDI_REMEMBERED_MAX                                                                         \
    16U /* ended sessions that are known again, before their slots are used for others */
#define PDI_REFUSAL_ROUNDS 4U /* so many scout_ms without a repetition, and a refusal is over */
#define PDI_LOCATOR_MAX    64U
#define PDI_REPEAT_FEW                                                                             \
    2U /* others who have just been sent the same alone; then it goes to the group */
#define PDI_UNREACHED_MIN                                                                          \
    16U /* messages in a row that came to a member alone, and none by its group */
#define PDI_UNREACHED_ASK 4U /* PINGs to the group that it does not answer then */
#define PDI_UNREACHED_RETRY_MS                                                                     \
    60000U /* after so long a group is believed to reach such a member again */
#define PDI_ASSEMBLY_LOOSE_MS                                                                      \
    1000U /* best effort in pieces that stands still for so long is given up */
#define PDI_ASSEMBLY_STUCK                                                                         \
    4U /* likewise, in slow_ms, what is reliable while others wait for its place */
#define PDI_PACKET_ZHE        1472U  /* what zhe takes as a datagram, */
#define PDI_STREAM_PACKET_ZHE 100U   /* what zhe takes through a connection, and no more */
#define PDI_URGE_BYTES        32768U /* so many bytes of packets need not wait for more */
#define PDI_LARGE_LOST        3U /* so many large packets in a row lost, and no more are sent for */
#define PDI_LARGE_MS          5000U   /* so long, at first, */
#define PDI_LARGE_SLOWEST_MS  600000U /* and at most */
#define PDI_BARRIERS_MAX      64U
#define PDI_MOVES_MAX         64U
#define PDI_PULLS_MAX         8U /* pulls of one subscription that may wait for their answer */
/* Reasons (flag A) that are no ids that could be declared (history.c). */
#define PDI_REASON_KEPT UINT64_C(1) /* from a publisher that keeps samples for late joiners, */
#define PDI_REASON_HISTORY                                                                         \
    (UINT64_C(1) << 56) /* and what it has kept, for new readers: plus their id */
#define PDI_OUTFLOWS_MAX     64U
#define PDI_MOVE_BYTES       40U  /* the most that a MIGRATE with its markers takes */
#define PDI_SYNCH_SLOWEST_MS 200U /* a silent receiver is asked less and less often, down to this */
#define PDI_AGAIN_MS         5U  /* the first pause before a contested declaration is told again, */
#define PDI_AGAIN_SLOWEST_MS 40U /* and the longest */
#define PDI_PING_MS          500U
#define PDI_PINGS_FIRST 8U /* answers until then come from pings that go sixteen times as often */
#define PDI_REST_LEASE_MS                                                                          \
    5000U /* where a peer has none: an idle one hears a PING every other lease */
#define PDI_ASKS_MAX                                                                               \
    4U /* PINGs that a peer leaves unanswered before it is gone from its address, */
#define PDI_ASK_MS       200U  /* at most so far apart, or a round trip */
#define PDI_PING_LOST_MS 2000U /* a PING without an answer for so long is lost */

/* ---- what a conduit remembers of one of its members ---- */
struct pdi_member {
    uint64_t from;     /* the next count when it joined: there it begins */
    uint64_t acked;    /* everything before this count is acknowledged */
    pdi_time progress; /* of a group: when that last moved, or when the first came that it lacks */
    pdi_time
        missing_at;    /* since when it asks for what is gone, at the count acked; 0: it does not */
    uint8_t joined;    /* counted in the window */
    uint8_t begun;     /* it has acknowledged something, or asked for it: it knows where it began */
    uint8_t detached;  /* too slow: a member that the window does not wait for */
    pdi_time reminded; /* of a group: when it was told last how far we are, since it was silent, */
    uint32_t reminders; /* and how often since it last moved */
    /* of a group: what goes to it alone (repeat.c) */
    uint8_t unreached;      /* nothing comes there by the group: it gets a copy of each packet */
    uint8_t told_unreached; /* the application knows */
    uint8_t lone_asked;     /* PINGs to the group that it has not answered, */
    pdi_time lone_asked_at; /* the last of them then */
    uint32_t
        lone_count; /* messages in a row that it has acknowledged, each sent to it alone before, */
    pdi_time lone_since; /* since then; unreached: when it was found to be */
    uint64_t lone_from, lone_wanted, lone_sent;
    pdi_time lone_at; /* when something went to it alone last */
};

/* What an order is held for (pdi_order.held). */
enum { PDI_HELD_READER = 1, PDI_HELD_CONDUIT = 2, PDI_HELD_PLACE = 3 };

enum { PDI_MARK_MIGRATE = 1, PDI_MARK_WANTED = 2, PDI_MARK_RESENT = 4, PDI_MARK_LARGE = 8 };

/* ---- a conduit we send on ---- */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what belongs together stands together. */
struct pdi_conduit {
    struct pdi_window window;
    pyddsi_endpoint to;
    uint32_t number; /* its place in out[] */
    uint32_t peer;   /* of a unicast conduit, else PDI_NONE */
    uint16_t id;     /* on the wire */
    uint8_t open;
    uint8_t draining;   /* was full, and stays closed until there is some room (hysteresis) */
    uint8_t flush;      /* what waits may go now */
    uint8_t synch;      /* a SYNCH is to go: 1 without, 2 with S */
    uint8_t level;      /* of a group: somebody may have all there is, and owes from the next on */
    uint8_t bits;       /* length of its numbers on the wire, */
    uint8_t leads;      /* and what is above is told in front of them (lead.c) */
    struct pdi_seq seq; /* the arithmetic of that length */
    uint32_t numbers_max; /* unacknowledged at once; more could not be told apart */
    uint32_t features;    /* what every receiver of its packets can */
    uint32_t packet_max;  /* its packets have so many bytes at most, */
    uint32_t large_max;   /* and those of pieces so many (path.c), */
    uint32_t large_told;  /* as the driver has told; 0: nothing yet */
    uint32_t large_lost;  /* large packets in a row that were asked for again, */
    uint64_t large_from;  /* the last of them before this number; */
    pdi_time large_at;    /* and after too many, when they are tried again, */
    pdi_time large_pause; /* after this pause; 0: there was none */
    uint32_t members;     /* that hold the window, */
    uint32_t detached;    /* and that it does not wait for */
    uint32_t unreached;   /* members to whom nothing comes by the group */
    uint64_t
        plain_from; /* of a group: numbers before this one are not for all who hear it now (repeat.c) */

    uint64_t sent;             /* numbers before this one have been sent once */
    uint32_t waiting;          /* bytes of packet that the unsent ones need */
    uint64_t best;             /* the next number of best effort */
    pdi_time flush_at;         /* when what waits must go */
    pdi_time synch_point;      /* the last S or SYNCH, or the first message in an empty window */
    pdi_time synch_wait;       /* how long until the next SYNCH */
    uint32_t unsynched;        /* messages sent since the last S, */
    uint64_t unsynched_bytes;  /* and bytes of packets */
    uint32_t wanted;           /* entries marked as wanted again, */
    uint64_t wanted_from;      /* none before this */
    uint64_t promised;         /* while guards are looked at: bytes, */
    uint32_t promised_numbers; /* and messages that handlers may write */
    uint64_t timed;            /* the number whose S is being timed, plus one; 0: none */
    pdi_time timed_at;

    uint8_t *draft;  /* a packet of best effort being filled, */
    uint8_t *sealed; /* and one that is full and may go */
    uint32_t sealed_size, sealed_samples;
    uint32_t draft_size;
    uint32_t draft_samples; /* messages, */
    uint64_t draft_more;    /* and the samples in batches beyond one for each */
    uint64_t draft_led;     /* what its last lead says */
    uint64_t sealed_more;
    pdi_time draft_at;    /* it must go then */
    struct pdi_entry big; /* a large sample of best effort, leaving in fragments */
    struct pdi_loan big_loan;
    uint32_t big_piece, big_left;

    uint8_t skips;    /* of a unicast conduit: its peer goes without samples (skip.c), */
    uint64_t skipped; /* and without how many it has gone, which is still to be said, */
    uint64_t hole;    /* and how many it has been told of, or is being told (unsure) */
    pdi_time full;    /* since when it is draining */

    uint32_t block, block_pages; /* of a unicast conduit: its memory */
};

/* ---- a peer ---- */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): likewise. */
struct pdi_node_peer {
    struct pdi_peer_word word;
    pyddsi_endpoint endpoint;
    uint8_t id[PYDDSI_ID_MAX];
    uint8_t id_size;    /* 0 while only a HELLO was heard */
    uint8_t known;      /* a session has been announced to the application */
    uint8_t reconnects; /* a session of this id was there before: it is told as a reconnect */
    uint8_t told;       /* the length that its last OPEN told; 0: none came from its address */
    uint8_t bits;       /* length of its numbers on the wire, */
    struct pdi_seq seq; /* and of those we reckon with: PDI_WIDE_BITS where it can */
    uint32_t features;
    uint64_t incarnation;
    uint64_t session; /* what it calls this session; 0: not told */
    uint64_t mine;    /* what we call it */
    uint64_t secret;  /* what it told us alone with that number; 0: nothing */
    uint64_t proof;   /* and what we told it */
    uint64_t commit_mode;
    uint32_t lease_ms;     /* how long it may be silent */
    uint32_t reason;       /* why it ended */
    uint16_t farewell;     /* a CLOSE is to be sent when it is torn down: reason + 1, or 0 */
    uint8_t lone;          /* it told no group at all */
    uint8_t renewed;       /* its session was ended once because it is older than ours (alive.c) */
    uint64_t results;      /* bit k: a result came on its conduit k before it had begun */
    uint8_t groups;        /* bit i: it has joined the group of our multicast conduit i */
    pyddsi_endpoint group; /* the first that it has joined, whoever sends there; kind 0: none */
    uint8_t token_size;
    uint8_t token[32]; /* what it told in property 7 */
    uint64_t acks;     /* bit k: an ACKNACK for its conduit k is to go */
    uint64_t answers;  /* bit k: ... whether or not anything is missing */
    uint64_t synchs; /* bit c: a SYNCH of our conduit c is to go to it alone (the last: unicast), */
    uint64_t tells;  /* or one that asks nothing, since an ACKNACK was out of the window */
    uint64_t repeats;     /* bit i: messages of group i are to go to it alone once more */
    uint64_t unsure;      /* bit c: it has acknowledged nothing there, so it may not have begun */
    pdi_time unsure_at;   /* when it is told again where to begin, */
    pdi_time unsure_wait; /* and the pause after that */
    pdi_time again_at;    /* when a contested declaration may be told again, */
    pdi_time again_wait;  /* and the pause after that */
    pdi_time open_at;     /* when the next OPEN goes: opening, or while there are probes */
    uint8_t probes;       /* established, and in doubt (chore.c): OPENs still to go, and one */
    uint8_t asks;     /* PINGs that it has left unanswered where we know it; 0: it is not asked */
    uint8_t gone;     /* all of them */
    uint8_t path_due; /* the driver is to say what the way to it carries (path.c) */
    pdi_time ask_at;  /* when the next goes */
    pyddsi_endpoint elsewhere; /* where it goes on if it is gone; kind 0: nowhere */
    pdi_time astray;           /* when either address was last in question; 0: never */
    struct pdi_rtt rtt;
    uint16_t ping; /* the hash of the last PING; 0: none is under way */
    pdi_time ping_at;
    pdi_time ping_patience; /* how long it may take */
    pdi_time ping_next;
    uint64_t ping_traffic; /* what had been sent and delivered at the last PING */
    uint8_t rests;         /* it is measured seldom, until there is traffic */
    pdi_time heard;        /* when its last packet came */
    pdi_time since;        /* established */
    uint32_t slots;        /* packets that it keeps from being reused, waiting for earlier ones */
    pyddsi_endpoint places[PDI_PLACES_MAX]; /* of its own, as it told; kind 0: none (gossip.c) */
    uint8_t keeps;    /* samples came in this session from publishers that keep them (history.c) */
    uint32_t orphans; /* questions that it still answers, and whose readers have gone (history.c) */
};

/* ---- a publisher ---- */
enum { PDI_PUBLISHER_BITS = 8 };

struct pdi_publisher {
    uint32_t registry; /* its handle there */
    uint16_t generation;
    uint8_t used;
    uint8_t space;
    uint8_t reliable;
    uint8_t durability;
    uint8_t way;
    uint8_t conduit; /* the multicast conduit it may use */
    uint64_t id;     /* as on the wire */

    /* the plan */
    uint32_t link_changes;
    uint32_t member_changes;
    uint8_t planned;
    uint8_t filters;        /* some link has a predicate */
    uint8_t multicast;      /* one copy goes to its multicast conduit */
    uint8_t keeps;          /* somebody pulls, or has periods, or may come late */
    uint32_t singles;       /* how many peers get a copy each */
    uint32_t only;          /* the one of them, if there is one */
    uint64_t via;           /* flag A: the selection for which all of them get it */
    uint32_t handle;        /* ours */
    uint8_t learning;       /* some peers have still to hear the name by which they match: */
    uint64_t *learners;     /* bits of these, */
    uint64_t *untold;       /* and of those whose match has not been told to the application */
    uint64_t *pushed;       /* bits of the peers that want samples pushed, */
    uint64_t *singles_bits; /* and of those that get a copy of their own */
    uint64_t *carried;      /* bits of those that are served another way (aside.c); */
    uint64_t *alone;     /* bits of those that have got copies since it used its group (fence.c) */
    uint8_t apart;       /* some are, or were: its group is not used */
    uint8_t leaving;     /* likewise, for the next sample, which its group cannot take */
    uint8_t some_alone;  /* there are any of those */
    uint64_t group_next; /* behind its last reliable sample there; 0: none */
    uint64_t *skips;     /* bits of those that may not be waited for (skip.c), */
    uint64_t *without;   /* and of all that go without the next sample: */
    uint32_t skipping;   /* so many */
    uint8_t
        told_large; /* the application knows that some sample was too large for some of its peers */
    uint32_t move_after;  /* the conduit to wait for before the next sample, plus one; 0: none: */
    uint64_t move_number; /* until all before this number is acknowledged there, */
    uint64_t move_life;   /* or its session is another than this */
    pdi_time move_since;  /* since when it has been waited for; 0: not yet */
    int current;          /* way AUTO: the conduit in use; INT32_MIN: none yet */

    /* a large sample going out piece by piece (stream.c) */
    uint8_t streaming;
    uint32_t stream_piece;
    uint64_t total, done;

    /* the shelf */
    uint32_t shelf_max;
    uint32_t shelf_first, shelf_last, shelf_count;
    uint64_t shelf_next; /* the serial of the next sample laid there */
};

/* ---- a local subscriber ---- */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): head and tail have a line each. */
struct pdi_subscriber {
    uint32_t registry;
    uint16_t generation;
    uint8_t used;
    uint8_t space;
    uint8_t mode;
    uint8_t on_full;
    uint32_t depth;
    uint64_t id;
    uint32_t ring;      /* its first record in node->records, */
    uint32_t ring_size; /* and how many there are, a power of two */
    uint32_t kept;      /* pages of copies that lie there */
    /* The head is the reader's, and the producer's to drop the oldest; the tail is the producer's. */
    PDI_CACHE_ALIGNED struct pdi_atomic64 head;
    PDI_CACHE_ALIGNED struct pdi_atomic64 tail;
    uint32_t guards;
    uint32_t guard_publisher[PYDDSI_GUARD_MAX];
    uint32_t guard_bytes[PYDDSI_GUARD_MAX];
    uint64_t *waits; /* bits of peers whose history comes first, */
    uint64_t *asked; /* and of them those that were asked for it */
};

/* Declarations that are neither: resources, selections, bindings. */
struct pdi_thing {
    uint32_t registry;
    uint16_t generation;
    uint8_t used;
    uint8_t named; /* a resource, with: */
    uint8_t space;
    uint64_t id;
    uint32_t next; /* of those that retire (retire.c) */
};

/* ---- from receive to housekeeping ---- */
enum pdi_chore_kind {
    PDI_CHORE_HELLO,
    PDI_CHORE_OPEN,
    PDI_CHORE_ACCEPT,
    PDI_CHORE_MOVE,
    PDI_CHORE_DOUBT,
    PDI_CHORE_BELIEVER
};

struct pdi_chore {
    uint8_t kind;
    uint8_t id_size;
    uint8_t id[PYDDSI_ID_MAX];
    uint8_t groups;
    uint8_t lone;
    uint8_t ours; /* of one who believes in a session: it is no zhe */
    pyddsi_endpoint group;
    uint8_t token_size;
    uint8_t token[32];
    uint8_t bits;    /* the length of its numbers */
    uint16_t refuse; /* reason + 1, or 0 */
    uint32_t features;
    uint64_t lease;
    uint64_t incarnation;
    uint64_t session;
    uint64_t secret;
    uint64_t answered; /* of an ACCEPT: what the OPEN called the session; 0: not told */
    uint64_t answered_secret;
    uint64_t commit_mode;
    pyddsi_endpoint from;
};

/* ---- a small packet to somebody, not kept for repetition ---- */
enum pdi_reply_kind {
    PDI_REPLY_SCOUT,
    PDI_REPLY_HELLO,
    PDI_REPLY_OPEN,
    PDI_REPLY_ACCEPT,
    PDI_REPLY_CLOSE,
    PDI_REPLY_PONG,
    PDI_REPLY_PING,
    PDI_REPLY_KEEPALIVE,
    PDI_REPLY_TELL /* where peers are: gossip.c */
};

/* ---- a peer that another has told of ---- */
struct pdi_heard {
    pyddsi_endpoint where;
    uint8_t id[PYDDSI_ID_MAX];
    uint8_t id_size; /* 0: free */
    uint8_t tries;
    uint8_t wait; /* looks for peers before the next try */
};

struct pdi_reply {
    uint8_t kind;
    uint8_t reason;
    uint16_t hash; /* TELL: of which peer first */
    uint32_t peer; /* ACCEPT, OPEN: whose; TELL: who is told */
    pyddsi_endpoint to;
};

/* ---- who wants a resource, remembered ---- */
struct pdi_route {
    uint64_t id, via;
    uint64_t changes; /* of the registry when it was looked up */
    uint8_t space;
    uint8_t valid;
    uint32_t count; /* more than PDI_ROUTE_READERS: not remembered */
    uint16_t *reader;
    const struct pdi_predicate **filter; /* null: everything */
};

struct pdi_open_loan {
    uint8_t used;
    uint16_t generation;
    uint32_t publisher; /* handle */
    uint32_t conduit;
    uint32_t size;
    struct pdi_loan loan;
};

/* Where a large sample that goes out piece by piece is, on one conduit. */
struct pdi_outflow {
    uint8_t used;
    uint8_t started;
    uint8_t torso;      /* given up: a last piece that says so waits for room */
    uint8_t space;      /* then: the space and */
    uint64_t id;        /* the id of the resource */
    uint32_t publisher; /* index */
    uint32_t conduit;
    uint64_t life;  /* of the peer's session, so that its successor is not taken for it */
    uint64_t first; /* number of the first piece */
};

/* A resource that moves to another conduit: what comes there waits for what was sent here. */
struct pdi_barrier {
    uint8_t used;
    uint8_t space;
    uint8_t whole; /* everything of the conduit moves */
    uint8_t begun; /* the conduit left has; before it has, last_reliable is as on the wire */
    uint32_t peer;
    uint16_t on, left;
    uint64_t id;
    int64_t last_reliable;
};

/* The same at the sender: the MIGRATE that goes before message `number` of conduit `on`, every time it goes out. */
struct pdi_move {
    uint8_t used;
    uint16_t left; /* the conduit left behind, as on the wire */
    uint32_t on;   /* in out[] */
    uint64_t number;
    uint64_t id;
    uint64_t last_reliable, last_best;
};

struct pdi_override {
    uint8_t id[PYDDSI_ID_MAX];
    uint8_t id_size;
    uint32_t bytes, samples;
};

/* ---- the shelf: samples kept for those who pull, have periods or come late ---- */
struct pdi_shelved {
    uint64_t serial;
    uint32_t page, pages;
    uint32_t size;
    uint32_t next; /* the next later one of the same publisher */
};

/* Who takes from a shelf. What comes late gets what was kept before what comes. */
enum pdi_taker {
    PDI_TAKER_PULL,    /* a remote subscription that pulls, or has periods */
    PDI_TAKER_LINK,    /* one that came late; of peers without PYDDSI_CAN_HISTORY, */
    PDI_TAKER_PEER,    /* else a peer with its first one, */
    PDI_TAKER_HISTORY, /* then new readers of an id there (history.c), */
    PDI_TAKER_OWN      /* or a new reader of this session */
};

struct pdi_puller {
    uint8_t used;
    uint8_t kind;    /* enum pdi_taker */
    uint8_t wanting; /* an answer is going on */
    uint8_t asks;    /* pulls that wait behind the one being answered, */
    uint8_t ends;    /* an end mark is owed */
    uint8_t stale;   /* for a moment: not found among the links any more */
    uint8_t rests; /* PEER: none of its subscriptions matches; it goes on here if one does again */
    uint8_t mode;
    uint8_t space;
    uint32_t
        publisher; /* index; HISTORY: PDI_NONE is the question itself, whose end mark is owed */
    uint32_t peer;
    uint32_t serial; /* of the remote subscription; OWN: index of the reader */
    uint64_t id;     /* of the subscription */
    uint64_t next;   /* the first serial it has not got, */
    uint64_t until;  /* and the first that it gets another way */
    uint64_t left;   /* how many more it asked for; of a question: its number */
    /* and how many samples the waiting pulls ask for, oldest first */
    uint64_t asked[PDI_PULLS_MAX];
    uint64_t origin_ms, period_ms, duration_ms;
    const struct pdi_predicate *predicate;
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): likewise. */
struct pdi_node {
    pyddsi_config config;
    pyddsi_reading reading; /* its length of numbers is that of the peer read last */
    uint64_t hash_seed[2];
    uint64_t secret[2]; /* the key of all secrets that we tell */
    pdi_time now;
    uint8_t closing;
    uint8_t unicast_id;
    uint64_t sessions; /* counts our names for sessions */

    pyddsi_stats stats;
    struct pdi_ledger ledger;
    struct pdi_env env;

    /* peers */
    struct pdi_node_peer *peers;
    struct pdi_map endpoints; /* key of the endpoint → peer */
    uint32_t peers_used;      /* slots at and above were never used */
    uint32_t established;     /* how many are */
    uint32_t opening;
    uint32_t narrow;  /* peers that take smaller packets than the others */
    uint64_t id_most; /* wider ids go by no group: a zhe that hears it would end its session */
    uint32_t member_changes;   /* counts sessions that came or went */
    uint32_t audience_changes; /* counts matches that came or went */
    uint64_t *ended;           /* bit: this peer is EXPIRED and waits for housekeeping */

    /* sending */
    struct pdi_conduit *out;
    uint32_t conduits;          /* multicasts + peers_max */
    struct pdi_member *members; /* [multicast conduit][peer], then [peer] for the unicast ones */
    uint64_t *work;             /* bit: this conduit has something to send now */
    uint64_t *talk;             /* bit: this peer has acks or synchs to be sent */
    uint8_t *window_memory, *drafts;
    uint8_t *copy; /* a packet of a group, for the members whom that does not reach: */
    uint32_t copy_size, copy_of, copy_next; /* 0: none; the group; the next peer */
    struct pdi_pages window_pages;
    pdi_time told_all; /* when a packet last went to all */
    uint8_t resting;   /* some peer rests */
    pyddsi_refusal refusals[PDI_REFUSALS_MAX];

    struct pdi_heard heard[PDI_HEARD_MAX];
    pyddsi_endpoint places[PDI_PLACES_MAX]; /* where we can be reached */
    uint32_t places_count;
    uint32_t looks;      /* for peers, so far */
    uint8_t probes_left; /* until the next one */
    uint8_t tell_rounds; /* looks at which every peer is told of the others */
    uint8_t has_places;  /* some peer has told places of its own */
    uint8_t listens;     /* there are connections among ours */
    struct pdi_reply replies[PDI_REPLIES_MAX];
    uint32_t reply_head, reply_tail;
    struct pdi_chore chores[PDI_CHORES_MAX];
    uint32_t chore_head, chore_tail;

    /* receiving */
    struct pdi_order *orders; /* [peer][conduit] */
    struct pdi_kept *kept;
    uint64_t *held;        /* bit: this order waits for a reader, a guard or another conduit, */
    uint32_t holding;      /* how many do */
    uint8_t held_for;      /* what the message that was tried last had to wait for */
    const uint8_t *packet; /* the one that is read, if it lies in the driver's memory; else null */
    uint32_t paths_due;    /* peers of which path_due is set */
    uint32_t last_sender;  /* whose packet came last */
    uint8_t personal; /* the packet at hand has its session's mark: its SYNCH is for us alone; */
    uint8_t foreign;  /* or that of another session of its sender */
    uint8_t led_bits; /* the length that the packet's lead told; 0: there was none yet, */
    uint64_t led;     /* and the bits above */
    uint16_t *parts;  /* [order]: samples of the batch at its head that have been delivered */
    uint8_t kick;     /* something has changed for which held ones may wait */
    struct pdi_pool pool;
    uint32_t slot; /* the one offered; PDI_POOL_NONE: the spare */
    uint8_t *spare;
    struct pdi_assembler assembler;
    uint32_t *series_holds; /* readers that look at each complete series */
    uint64_t *series_via;
    uint32_t *route_handles;
    uint16_t *slot_kept; /* messages of each slot that wait for their turn */
    struct pdi_route *routes;
    struct pdi_barrier barriers[PDI_BARRIERS_MAX];
    uint32_t barriers_used;

    /* here */
    struct pdi_registry *registry;
    struct pdi_publisher *publishers;
    uint64_t *publisher_bits;               /* PDI_PUBLISHER_BITS sets of peers for each */
    uint32_t publishers_used, readers_used; /* places at and above were never used */
    struct pdi_subscriber *readers;
    struct pdi_thing *things;
    uint32_t things_max;
    struct pdi_slots publishers_free, readers_free, things_free;
    uint32_t retiring, retiring_next; /* forgotten things: the wave that waits, and the next one */
    uint64_t
        retire_marks[PYDDSI_MULTICASTS_MAX]; /* the numbers of each group that the wave needs, */
    pdi_time retire_after;                   /* and a time */
    struct pdi_map handles;                  /* handle of the registry → handle of ours */
    pyddsi_received *records;
    struct pdi_pages record_pages;
    uint8_t *keep_memory; /* what readers that drop have not taken: keep.c */
    struct pdi_pages keep_pages;
    struct pdi_move moves[PDI_MOVES_MAX];
    uint32_t moves_used;
    struct pdi_window scratch; /* loans that are copied, large best effort: it sends nothing */
    struct pdi_open_loan loans[PDI_LOANS_MAX];
    struct pdi_override overrides[PDI_OVERRIDES_MAX];
    struct pdi_outflow outflows[PDI_OUTFLOWS_MAX];

    uint8_t *shelf_memory;
    struct pdi_pages shelf_pages;
    struct pdi_shelved *shelved;
    uint32_t shelved_free;
    struct pdi_puller *pullers;
    uint32_t pullers_used;
    uint64_t *reader_bits; /* two sets of peers for each reader */
    uint32_t waiting;      /* bits in pdi_subscriber.waits */
    uint32_t own_waiting;  /* takers of this session whose ring has been full */
    uint64_t questions;    /* asked for history so far */

    pyddsi_event *events;
    uint32_t event_head, event_tail;
    uint64_t changes_lost; /* of the registry, that have been counted */

    struct pdi_heap timers;
};

/* Items of the timers. */
enum {
    PDI_TIMER_SCOUT = 0,
    PDI_TIMER_KEEPALIVE = 1,
    PDI_TIMER_SHELF = 2,
    PDI_TIMER_ASSEMBLY = 3,
    PDI_TIMER_RETIRE = 4,
    PDI_TIMER_FIXED = 5
};

static inline uint32_t pdi_timer_peer(uint32_t peer)
{
    return PDI_TIMER_FIXED + peer;
}

static inline uint32_t pdi_timer_conduit(const struct pdi_node *node, uint32_t conduit)
{
    return PDI_TIMER_FIXED + node->config.peers_max + conduit;
}

static inline uint32_t pdi_timer_order(const struct pdi_node *node, uint32_t order)
{
    return PDI_TIMER_FIXED + node->config.peers_max + node->conduits + order;
}

static inline void pdi_timer_set(struct pdi_node *node, uint32_t item, pdi_time at)
{
    (void)pdi_heap_put(&node->timers, item, at); /* there is room for every item */
}

static inline uint32_t pdi_node_ms(pdi_time now)
{
    return (uint32_t)(now / PDI_TIME_MS);
}

static inline struct pdi_order *pdi_node_order(const struct pdi_node *node, uint32_t peer,
                                               uint32_t conduit)
{
    return &node->orders[peer * node->config.conduits_in + conduit];
}

static inline struct pdi_member *pdi_node_member(const struct pdi_node *node,
                                                 const struct pdi_conduit *conduit, uint32_t peer)
{
    uint32_t row = conduit->peer == PDI_NONE ? conduit->number : node->config.multicasts;
    return &node->members[row * node->config.peers_max + peer];
}

/* Whether a group of ours does not reach this peer (repeat.c). */
static inline bool pdi_node_unreached(const struct pdi_node *node, uint32_t peer)
{
    bool unreached = false;
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        unreached = unreached || (node->out[i].unreached != 0 &&
                                  pdi_node_member(node, &node->out[i], peer)->unreached);
    }
    return unreached;
}

/* The conduit's bit in the masks of a peer, which is its id on the wire. */
static inline uint32_t pdi_conduit_bit(const struct pdi_node *node,
                                       const struct pdi_conduit *conduit)
{
    return conduit->peer == PDI_NONE ? conduit->number : node->config.multicasts;
}

static inline struct pdi_conduit *pdi_node_unicast(const struct pdi_node *node, uint32_t peer)
{
    return &node->out[node->config.multicasts + peer];
}

/* What a SYNCH for one peer is led by, so that one of an earlier session, or for others, is not taken for it. Where there
 * are leads, the top bit tells the two apart. */
#define PDI_MARK_BIT UINT16_C(0x8000)
static inline uint16_t pdi_session_mark(uint64_t session, uint64_t secret, uint32_t features)
{
    uint16_t mark = (uint16_t)((session ^ secret) * UINT64_C(0x9e3779b97f4a7c15) >> 48);
    return (features & PYDDSI_CAN_WIDE) != 0 ? mark | PDI_MARK_BIT : mark;
}

/* lead.c: the bits of a number above those in the message */
#define PDI_WIDE_BITS  28
#define PDI_LEAD_BITS  14 /* of what one lead says */
#define PDI_LEAD_BYTES 7U /* that leads take before one message, at most */
#define PDI_LED_NONE   UINT64_MAX
uint8_t *pdi_lead_write(const struct pdi_conduit *conduit, uint64_t number, uint8_t *at);
void pdi_lead_read(struct pdi_node *node, uint64_t hash);
bool pdi_lead_widen(const struct pdi_node *node, const struct pdi_node_peer *who,
                    pyddsi_message *message);
int pdi_lead_fits(struct pdi_node *node, const struct pdi_chore *chore);
bool pdi_lead_answered(const struct pdi_node *node, uint32_t peer, uint64_t reason);
void pdi_lead_claim(const struct pdi_node *node, struct pdi_node_peer *who,
                    const pyddsi_endpoint *from);
void pdi_lead_unicast(const struct pdi_node *node, struct pdi_conduit *conduit);
void pdi_lead_adopt(const struct pdi_node *node, struct pdi_node_peer *who,
                    const struct pdi_chore *chore);
void pdi_lead_order(const struct pdi_node *node, const struct pdi_node_peer *who,
                    struct pdi_kept *kept, struct pdi_order *order);
void pdi_lead_groups(struct pdi_node *node);
void pdi_lead_reading(struct pdi_node *node, const struct pdi_node_peer *who);

/* Of a packet's room, what the receivers of a conduit take. */
static inline size_t pdi_room_on(const struct pdi_conduit *conduit, size_t room)
{
    return room < conduit->packet_max ? room : conduit->packet_max;
}

/* Whether a message still has room in a packet. One that was written before somebody came who takes less goes alone. */
static inline bool pdi_has_room(const struct pdi_conduit *conduit, size_t packed, size_t size,
                                size_t most)
{
    return packed + size <= pdi_room_on(conduit, most) || (packed == 0 && size <= most);
}

/* What a lead says of this number. */
static inline uint64_t pdi_lead_of(const struct pdi_conduit *conduit, uint64_t number)
{
    uint64_t low = conduit->bits < PDI_LEAD_BITS ? conduit->seq.mask : (1U << PDI_LEAD_BITS) - 1;
    return number & ~low & ((UINT64_C(1) << PDI_WIDE_BITS) - 1);
}

/* Whether a message of this number must be led, in a packet whose last lead said `led`. */
static inline bool pdi_lead_due(const struct pdi_conduit *conduit, uint64_t number, uint64_t led)
{
    return conduit->leads && pdi_lead_of(conduit, number) != led;
}

/* path.c */
void pdi_path_begin(struct pdi_node *node, uint32_t peer);
uint32_t pdi_path_room(struct pdi_conduit *conduit, pdi_time now);
void pdi_path_lost(struct pdi_conduit *conduit, uint64_t number, pdi_time now);
void pdi_path_arrived(struct pdi_conduit *conduit, uint64_t number);

/* memory.c */
void pdi_memory_peer(struct pdi_node *node);
uint32_t pdi_memory_entries(const struct pdi_node *node, uint32_t samples);

/* chore.c: what was heard of sessions, and those that have ended */
void pdi_session_tick(struct pdi_node *node, pdi_time now);

/* alive.c: the timers of sessions, and sessions that are older than they seem */
void pdi_session_early(struct pdi_node *node, uint32_t peer, uint32_t conduit,
                       const pyddsi_message *message);
bool pdi_session_outdated(struct pdi_node *node, uint32_t peer, uint32_t conduit,
                          const pyddsi_message *message);
void pdi_session_timer(struct pdi_node *node, uint32_t peer, pdi_time now);
/* Whether a peer no longer answers at the address that we know; if that is not known, it is asked. */
bool pdi_session_gone(struct pdi_node *node, uint32_t peer, pdi_time now);
/* How long others wait for a peer that does not acknowledge: twice slow_ms while its address, or ours, is in question. */
pdi_time pdi_session_patience(const struct pdi_node *node, uint32_t peer, pdi_time now);
void pdi_session_scout(struct pdi_node *node, pdi_time now);
void pdi_session_keepalive(struct pdi_node *node, pdi_time now);
/* There is traffic again: peers that rest are measured from now on. */
void pdi_session_rouse(struct pdi_node *node, pdi_time now);

/* session.c: beginnings and ends */
uint32_t pdi_session_find(const struct pdi_node *node, const pyddsi_endpoint *endpoint);
void pdi_session_end(struct pdi_node *node, uint32_t peer, uint32_t reason, unsigned farewell,
                     pdi_time now);
bool pdi_session_established(const struct pdi_node *node, uint32_t peer);
void pdi_session_say(struct pdi_node *node, enum pdi_reply_kind kind, uint32_t peer);
uint32_t pdi_session_find_id(const struct pdi_node *node, const uint8_t *id, size_t size);
void pdi_session_move_to(struct pdi_node *node, uint32_t peer, const pyddsi_endpoint *endpoint);
/* Its session goes on where it has been heard: who->elsewhere. */
void pdi_session_move(struct pdi_node *node, uint32_t peer, pdi_time now);
void pdi_session_adopt(struct pdi_node *node, uint32_t peer, const struct pdi_chore *chore);
bool pdi_session_establish(struct pdi_node *node, uint32_t peer, pdi_time now);
uint32_t pdi_session_claim(struct pdi_node *node, const struct pdi_chore *chore);
void pdi_session_undo(struct pdi_node *node, uint32_t peer);
bool pdi_session_reap(struct pdi_node *node, uint32_t peer, pdi_time now);
bool pdi_session_replace(struct pdi_node *node, uint32_t peer, pdi_time now);

/* hello.c: the messages of sessions, to and from bytes */
int pdi_hello_write(struct pdi_node *node, const struct pdi_reply *reply, uint8_t *out, size_t room,
                    size_t *size);
void pdi_hello_input(struct pdi_node *node, const pyddsi_message *message,
                     const pyddsi_endpoint *from, uint32_t peer, pdi_time now);
/* ---- gossip.c ---- */

/* What a peer in session tells of peers. */
void pdi_gossip_input(struct pdi_node *node, uint32_t peer, pyddsi_list locators, pdi_time now);
/* The peer that told this place as one of its own; NONE: none did. */
uint32_t pdi_gossip_find(const struct pdi_node *node, const pyddsi_endpoint *from);
/* Whether a peer of this id was told of at this address, and is looked for. */
bool pdi_gossip_seeks(const struct pdi_node *node, const uint8_t *id, size_t size,
                      const pyddsi_endpoint *where);
/* The locators of a TELL, as far as there is room. */
pyddsi_list pdi_gossip_write(const struct pdi_node *node, const struct pdi_reply *reply,
                             uint8_t *memory, size_t room);
/* Somebody has come. */
void pdi_gossip_joined(struct pdi_node *node, uint32_t peer);
/* With each look for peers. */
void pdi_gossip_tick(struct pdi_node *node);

void pdi_hello_reply(struct pdi_node *node, const struct pdi_reply *reply);
void pdi_hello_doubt(struct pdi_node *node, uint32_t peer, pdi_time now);
void pdi_hello_believer(struct pdi_node *node, const pyddsi_endpoint *from, bool ours,
                        pdi_time now);

/* turn.c: what comes on conduits, in its turn */
void pdi_receive_retry(struct pdi_node *node, pdi_time now);
void pdi_receive_order_timer(struct pdi_node *node, uint32_t order, pdi_time now);
void pdi_receive_fresh(struct pdi_node *node, uint32_t peer);
void pdi_receive_forget(struct pdi_node *node, uint32_t peer, pdi_time now);
size_t pdi_receive_write_ack(struct pdi_node *node, uint32_t peer, uint32_t conduit, int answer,
                             uint8_t *out, size_t room, pdi_time now);

static inline void pdi_held_set(struct pdi_node *node, uint32_t order, bool held)
{
    if (pdi_bitset_test(node->held, order) != held) {
        node->held[order / 64] ^= pdi_bitset_mask(order);
        node->holding = held ? node->holding + 1 : node->holding - 1;
    }
}

/* What a message came as. `slot` may also name a series (deliver.c). */
struct pdi_arrival {
    uint32_t peer;
    uint32_t conduit;
    uint32_t slot; /* PDI_POOL_NONE: its bytes are gone when the call returns */
    uint8_t reliable;
    int64_t number;
};

/* What the assembler knows a sender by. */
static inline uint64_t pdi_arrival_owner(const struct pdi_arrival *arrival)
{
    return (uint64_t)arrival->peer << 32 | arrival->conduit << 1 | arrival->reliable;
}

/* assembly.c: samples that come in pieces. END: *series is complete; OK: taken, or lost with a line; AGAIN: it must wait for
 * a place, and nothing has happened. */
int pdi_assembly_input(struct pdi_node *node, const struct pdi_arrival *arrival,
                       const pyddsi_message *message, uint64_t id, uint32_t *series, pdi_time now);
/* A message of best effort has come: of its sender's unfinished sample a piece may be missing. */
void pdi_assembly_pass(struct pdi_node *node, const struct pdi_arrival *arrival, pdi_time now);
/* What the senders with (owner & mask) == match have begun will not be completed. */
void pdi_assembly_forget(struct pdi_node *node, uint64_t mask, uint64_t match,
                         enum pyddsi_reason reason, pdi_time now);
void pdi_assembly_tick(struct pdi_node *node, pdi_time now);

/* deliver.c: to the readers. OK; AGAIN: it must wait, and nothing has happened. */
int pdi_deliver(struct pdi_node *node, const struct pdi_arrival *arrival,
                const pyddsi_message *message, pdi_time now);
/* Whether this reader of ours would get samples of a publisher of ours; and one of these for it alone. */
bool pdi_deliver_matches(struct pdi_node *node, const struct pdi_publisher *publisher,
                         uint32_t reader);
int pdi_deliver_own(struct pdi_node *node, const struct pdi_publisher *publisher, uint32_t reader,
                    pyddsi_bytes payload, pdi_time now);

/* turn.c */
void pdi_turn_reliable(struct pdi_node *node, struct pdi_arrival *arrival,
                       const pyddsi_message *message, pdi_time now);
void pdi_turn_best(struct pdi_node *node, struct pdi_arrival *arrival,
                   const pyddsi_message *message, pdi_time now);
void pdi_turn_synch(struct pdi_node *node, uint32_t peer, uint32_t conduit,
                    const pyddsi_message *message, pdi_time now);
void pdi_turn_migrate(struct pdi_node *node, uint32_t peer, uint32_t conduit,
                      const pyddsi_message *message, pdi_time now);
void pdi_turn_watch(struct pdi_node *node, uint32_t peer, uint32_t conduit);

/* member.c: those for whom a window is kept */
void pdi_member_join(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                     pdi_time now);
void pdi_member_leave(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                      enum pyddsi_reason reason, pdi_time now);
void pdi_member_release(struct pdi_node *node, struct pdi_conduit *conduit);
void pdi_member_missed(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                       uint64_t number, pdi_time now);
void pdi_member_reattach(struct pdi_conduit *conduit, struct pdi_member *member, pdi_time now);
void pdi_member_begin_owing(struct pdi_node *node, struct pdi_conduit *conduit, uint64_t first,
                            pdi_time now);
void pdi_member_detach_slow(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now);
void pdi_member_tell_where(struct pdi_node *node, const struct pdi_conduit *conduit, uint32_t peer,
                           pdi_time now);
void pdi_member_end_lost(struct pdi_node *node, const struct pdi_conduit *conduit, pdi_time now);
void pdi_member_remind(struct pdi_node *node, const struct pdi_conduit *conduit);
/* SYNCHs about these conduits (bits as in synchs) are to reach the peer; asks: it is to answer. */
void pdi_member_synch(struct pdi_node *node, uint32_t peer, uint64_t conduits, bool asks);
/* The base that a conduit's own SYNCH says. */
uint64_t pdi_member_base(const struct pdi_node *node, const struct pdi_conduit *conduit);
void pdi_member_remind_silent(struct pdi_node *node, const struct pdi_conduit *conduit,
                              pdi_time now);

/* repeat.c: what goes once more, and to whom */
/* A NACK asks for number and those of the mask. */
void pdi_repeat_wanted(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                       uint64_t number, uint64_t mask, pdi_time now);
/* A packet of what is wanted there again; answers its size. */
size_t pdi_repeat_group(struct pdi_node *node, struct pdi_conduit *conduit, uint8_t *out,
                        size_t most, pdi_time now);
size_t pdi_repeat_alone(struct pdi_node *node, uint32_t peer, uint8_t *out, size_t room,
                        pdi_time now);
/* A member is about to have acknowledged all before number. */
void pdi_repeat_arrived(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t peer,
                        uint64_t number, pdi_time now);
void pdi_repeat_pong(struct pdi_node *node, uint32_t peer, uint64_t hash);
/* Peers hear this group now that can less than those for whom its window was written. */
void pdi_repeat_apart(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now);
/* The group is believed to reach it. */
void pdi_repeat_forget(struct pdi_conduit *conduit, struct pdi_member *member);
/* Keeps a packet of a group for those whom that does not reach, and gives one copy after the other; 0: that was all. */
void pdi_repeat_copies(struct pdi_node *node, const struct pdi_conduit *conduit,
                       const uint8_t *packet, size_t size);
size_t pdi_repeat_copy(struct pdi_node *node, uint8_t *out, size_t room, pyddsi_endpoint *to);

/* reliable.c: windows, acknowledgements */
uint64_t pdi_conduit_base(const struct pdi_conduit *conduit);
void pdi_reliable_acknack(struct pdi_node *node, uint32_t peer, const pyddsi_message *message,
                          pdi_time now);
void pdi_reliable_timer(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now);
int pdi_reliable_room(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t size,
                      uint32_t numbers);
int pdi_reliable_reserve(struct pdi_node *node, struct pdi_conduit *conduit, uint32_t size,
                         uint32_t numbers, struct pdi_loan *loan);
uint64_t pdi_reliable_commit(struct pdi_node *node, struct pdi_conduit *conduit,
                             const struct pdi_loan *loan, uint32_t size, uint32_t piece,
                             const struct pdi_entry *model, pdi_time now);

/* plan.c: who gets a publisher's samples */
int pdi_plan(struct pdi_node *node, struct pdi_publisher *publisher, pdi_time now);
void pdi_plan_features(struct pdi_node *node);
void pdi_plan_learn(struct pdi_node *node, pdi_time now);
bool pdi_plan_filter(const struct pdi_node *node, const struct pdi_publisher *publisher,
                     pyddsi_bytes payload, uint64_t *wanting);

/* The destinations of one sample. */
struct pdi_way {
    struct pdi_conduit *group; /* or null */
    const uint64_t *singles;   /* bits of peers, */
    uint32_t count;            /* and how many there are */
    uint64_t bits[PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)];
    uint32_t lacking; /* how many peers want the sample and cannot take it, */
    uint64_t lacking_bits[PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)]; /* and which, if there are any */
};

/* way.c: by which windows a sample goes */
/* The bytes of header that a message like the model needs at most. */
uint32_t pdi_way_overhead(const struct pdi_node *node, const struct pdi_entry *model,
                          bool fragment);
/* A message as it goes where a peer without features hears it. */
struct pdi_entry pdi_way_plain(const struct pdi_node *node, const struct pdi_conduit *conduit,
                               const struct pdi_entry *model);
/* The size of each fragment, if the message must be cut; 0 if it fits one packet. */
uint32_t pdi_way_piece(const struct pdi_node *node, const struct pdi_entry *model, size_t size);
uint32_t pdi_way_next(const struct pdi_node *node, const struct pdi_way *way, uint32_t from);
/* The way of a sample that everybody wants who is matched. */
struct pdi_way pdi_way_usual(const struct pdi_node *node, const struct pdi_publisher *publisher);
/* The same for those who want this very sample; false: nobody does. */
bool pdi_way_wanted(const struct pdi_node *node, const struct pdi_publisher *publisher,
                    pyddsi_bytes payload, struct pdi_way *way);
/* Whether samples of this id would end the session of a zhe that hears the group. */
bool pdi_way_wide(const struct pdi_node *node, uint8_t space, uint64_t id);
/* Leaves those who can read such a message, and notes who cannot (lacking). The way must stay where it is. */
void pdi_way_fit(const struct pdi_node *node, const struct pdi_publisher *publisher,
                 const struct pdi_entry *model, size_t size, uint32_t piece, struct pdi_way *way);
/* One more peer that cannot read a message. */
void pdi_way_lack(const struct pdi_node *node, struct pdi_way *way, uint32_t peer);
/* Writes down those who go without a sample of so many bytes, and tells the application of the first one of a publisher (null:
 * none) that is too large for someone, until others are there. */
void pdi_way_list(struct pdi_node *node, const struct pdi_way *way, struct pdi_publisher *publisher,
                  enum pyddsi_place place, const struct pdi_entry *model, uint64_t size,
                  pdi_time now);
/* Adds to what is promised in each window of the way; 0 samples: nothing is any more. */
void pdi_way_promise(struct pdi_node *node, const struct pdi_way *way, uint64_t bytes,
                     uint32_t numbers, uint32_t samples);
/* OK: each has room for what is promised; AGAIN: one has not now; BAD_ARGUMENT: one never has. */
int pdi_way_room(struct pdi_node *node, const struct pdi_way *way);

/* guard.c */
bool pdi_guard_keeps(struct pdi_node *node, const struct pdi_route *route);

/* best.c */
void pdi_best_put(struct pdi_node *node, const struct pdi_way *way, const struct pdi_entry *model,
                  pyddsi_bytes payload, uint32_t piece, pdi_time now);
size_t pdi_best_piece(struct pdi_node *node, struct pdi_conduit *conduit, uint8_t *out,
                      size_t room);

/* ring.c */
#define PDI_SERIES_BIT UINT32_C(0x80000000) /* in pyddsi_received.held: a series, not a slot */
uint32_t pdi_ring_used(const struct pdi_subscriber *reader);
void pdi_ring_push(struct pdi_node *node, struct pdi_subscriber *reader,
                   const pyddsi_received *record, pdi_time now);
void pdi_ring_pour(struct pdi_node *node, struct pdi_subscriber *reader,
                   const pyddsi_received *model, pyddsi_list *samples, uint32_t max);
void pdi_ring_pour_brought(struct pdi_node *node, struct pdi_subscriber *reader,
                           const pyddsi_received *model, const struct pdi_poured *samples,
                           uint32_t count);
void pdi_ring_release(struct pdi_node *node, uint32_t held);
/* Drops the oldest sample of a ring for a newer one. False: there is none. */
bool pdi_ring_shed(struct pdi_node *node, struct pdi_subscriber *reader, pdi_time now);
void pdi_ring_drop(struct pdi_node *node, struct pdi_subscriber *reader, enum pyddsi_reason reason,
                   pdi_time now);

/* keep.c */
#define PDI_KEEP_PAGE 64U
/* The sample becomes a copy for the ring of a reader that drops, which may give up older ones for it. False: there is no
 * memory, and nothing happens. */
bool pdi_keep(struct pdi_node *node, struct pdi_subscriber *reader, pyddsi_received *record,
              pdi_time now);
/* Whether this is such a copy; how many pages it has, 0 if it is none. */
bool pdi_keep_has(uint32_t held);
uint32_t pdi_keep_pages(const struct pdi_node *node, uint32_t held);
void pdi_keep_release(struct pdi_node *node, uint32_t held);

/* fence.c: a publisher leaves its group for copies to each, and comes back */
void pdi_fence_wrote(struct pdi_node *node, struct pdi_publisher *publisher,
                     const struct pdi_conduit *conduit);
bool pdi_fence_due(const struct pdi_node *node, const struct pdi_publisher *publisher);
int pdi_fence_ready(struct pdi_node *node, const struct pdi_publisher *publisher);
void pdi_fence_lead(struct pdi_node *node, const struct pdi_publisher *publisher,
                    const struct pdi_conduit *on, struct pdi_entry *entry);
bool pdi_fence_open(const struct pdi_node *node, const struct pdi_publisher *publisher);
void pdi_fence_forget(struct pdi_publisher *publisher, uint32_t peer);

/* publish.c */
int pdi_publish_entry(struct pdi_node *node, struct pdi_conduit *conduit,
                      const struct pdi_entry *model, pyddsi_bytes bytes, pdi_time now);
uint32_t pdi_publish_pieces(size_t size, uint32_t piece);
int pdi_publish_all(struct pdi_node *node, const struct pdi_way *way, const struct pdi_entry *model,
                    pyddsi_bytes bytes, pdi_time now);
uint32_t pdi_publish_piece(const struct pdi_node *node, const struct pdi_publisher *publisher,
                           size_t size);
void pdi_publish_way(const struct pdi_node *node, const struct pdi_publisher *publisher,
                     size_t size, struct pdi_way *way);
int pdi_publish_each(struct pdi_node *node, uint32_t handle, const pyddsi_bytes *samples,
                     size_t count, pdi_time now);

/* stream.c */
void pdi_stream_tick(struct pdi_node *node, pdi_time now);
void pdi_stream_forget(struct pdi_node *node, struct pdi_publisher *publisher, pdi_time now);

/* pack.c: entries to packets */
uint32_t pdi_pack_size(const struct pdi_conduit *conduit, const struct pdi_entry *entry,
                       uint64_t number);
uint8_t *pdi_pack_entry(const struct pdi_node *node, const struct pdi_conduit *conduit,
                        const struct pdi_entry *entry, const uint8_t *bytes, uint64_t number,
                        uint8_t *at, uint8_t **header);
uint8_t *pdi_pack_conduit(uint8_t *at, uint32_t id);
uint64_t pdi_pack_samples(const struct pdi_entry *entry, const uint8_t *bytes);

/* declare.c */
void pdi_declare_tick(struct pdi_node *node, pdi_time now);
void pdi_declare_changes(struct pdi_node *node, pdi_time now);
/* By our handles: kind (2 bits) | generation (14) | index (16). */
struct pdi_publisher *pdi_publisher_get(const struct pdi_node *node, uint32_t handle);
struct pdi_subscriber *pdi_subscriber_get(const struct pdi_node *node, uint32_t handle);

/* shelf.c, pull.c */
void pdi_shelf_put(struct pdi_node *node, struct pdi_publisher *publisher, pyddsi_bytes bytes,
                   pdi_time now);
void pdi_shelf_late(struct pdi_node *node, struct pdi_publisher *publisher, uint64_t *peers);
void pdi_shelf_links(struct pdi_node *node, struct pdi_publisher *publisher, pdi_time now);
int pdi_shelf_pull(struct pdi_node *node, uint32_t peer, const pyddsi_message *message,
                   pdi_time now);
void pdi_shelf_tick(struct pdi_node *node, pdi_time now);
void pdi_shelf_forget(struct pdi_node *node, struct pdi_publisher *publisher,
                      enum pyddsi_reason reason, pdi_time now);
bool pdi_shelf_open(uint64_t origin_ms, uint64_t period_ms, uint64_t duration_ms, pdi_time now,
                    pdi_time *next);

bool pdi_shelf_serve(struct pdi_node *node, struct pdi_puller *puller, pdi_time now);
/* Before a reliable sample: whether all who came late have had what was kept. */
bool pdi_shelf_caught_up(struct pdi_node *node, const struct pdi_publisher *publisher,
                         pdi_time now);
/* How many samples on the shelf it was still to have. */
uint64_t pdi_shelf_left(const struct pdi_node *node, const struct pdi_publisher *publisher,
                        const struct pdi_puller *puller);
/* A place for one who takes; null: there is none. */
struct pdi_puller *pdi_shelf_taker(struct pdi_node *node);
static inline uint64_t pdi_shelf_oldest(const struct pdi_node *node,
                                        const struct pdi_publisher *publisher)
{
    return publisher->shelf_first != PDI_NONE ? node->shelved[publisher->shelf_first].serial
                                              : publisher->shelf_next;
}

/* history.c: what is kept, for each new reader */
void pdi_history_reader(struct pdi_node *node, struct pdi_subscriber *reader);
void pdi_history_forget_reader(struct pdi_node *node, struct pdi_subscriber *reader);
void pdi_history_forget_peer(struct pdi_node *node, uint32_t peer, pdi_time now);
void pdi_history_tick(struct pdi_node *node, pdi_time now);
/* The end mark for readers of this id. */
void pdi_history_end(struct pdi_node *node, const struct pdi_arrival *arrival, uint8_t space,
                     uint64_t id, pyddsi_bytes payload, pdi_time now);
/* A PULL for subscribers that get samples pushed. OK; AGAIN: it must wait. */
int pdi_history_pull(struct pdi_node *node, uint32_t peer, const pyddsi_message *message,
                     pdi_time now);
/* Goes on with the answer to a question. False: the window is full. */
bool pdi_history_serve(struct pdi_node *node, uint32_t peer, uint8_t space, uint64_t id,
                       pdi_time now);
/* The same for a reader of this session; false: its ring is full. */
bool pdi_history_serve_own(struct pdi_node *node, struct pdi_puller *puller, pdi_time now);
static inline bool pdi_history_can(const struct pdi_node *node, uint32_t peer)
{
    return (node->config.features & node->peers[peer].features & PYDDSI_CAN_HISTORY) != 0;
}

/* retire.c */
void pdi_retire(struct pdi_node *node, uint32_t index, pdi_time now);
/* The answer when a table is full: AGAIN while some of what stands there only waits to be forgotten. */
int pdi_retire_full(const struct pdi_node *node);
void pdi_retire_tick(struct pdi_node *node, pdi_time now);

/* refusal.c */
void pdi_refusal_note(struct pdi_node *node, const pyddsi_endpoint *endpoint, pyddsi_bytes id,
                      uint32_t reason, pdi_time now);
bool pdi_refusal_close(struct pdi_node *node, uint32_t peer, const pyddsi_message *message,
                       pdi_time now);
void pdi_refusal_over(struct pdi_node *node, const pyddsi_endpoint *endpoint);

/* aside.c */
/* The next sample of this publisher cannot go by its group, so nothing does until it has arrived. OK; AGAIN: what went there before
 * is waited for. */
int pdi_aside_leave(struct pdi_node *node, struct pdi_publisher *publisher, pdi_time now);
bool pdi_aside_over(const struct pdi_node *node, const struct pdi_publisher *publisher);
void pdi_aside_forget(struct pdi_node *node, uint32_t peer);

/* skip.c: peers that go without samples, since others would wait for them */
/* Whether this peer gets no samples of a publisher that waits for room. */
bool pdi_skip_is(const struct pdi_node *node, const struct pdi_publisher *publisher, uint32_t peer);
/* The window of this unicast conduit has been full for too long: from now on its peer goes without, if others wait. */
void pdi_skip_slow(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now);
/* So many samples were accepted; with filters: this one. */
void pdi_skip_count(struct pdi_node *node, const struct pdi_publisher *publisher,
                    pyddsi_bytes payload, uint32_t count);
/* Its peer has acknowledged something: if that is all, it gets samples again. */
void pdi_skip_over(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now);
/* The session is over: what it went without is written down. */
void pdi_skip_end(struct pdi_node *node, struct pdi_conduit *conduit, pdi_time now);

/* event.c */
pyddsi_event *pdi_event_push(struct pdi_node *node, enum pyddsi_event_kind kind, pdi_time now);
void pdi_event_peer(const struct pdi_node *node, pyddsi_event *event, uint32_t peer);

static inline void pdi_drop(struct pdi_node *node, enum pyddsi_place place,
                            enum pyddsi_reason reason, uint8_t space, uint64_t id, uint64_t count,
                            pdi_time now)
{
    pdi_ledger_add(&node->ledger, place, reason, space, id, count, now);
}

#endif
