/* streams.h - the connections of one session: TCP and Unix sockets, with packets in frames.
 *
 *     send ──► [frames that wait] ──► socket ──► peer        any thread, under the lock
 *     receive ◄── whole frames ◄── [bytes] ◄── socket        one thread at a time
 *                                      │
 *     one epoll descriptor: sockets, listeners, a timer ─────┘  which the port waits for
 *
 * The core knows packets and endpoints. So a connection is an endpoint here, and a frame is a packet: what is sent to
 * tcp/10.0.0.1:7447 goes into the connection of that name, and what comes out of it came from there. Five things are
 * different from datagrams, and this is all that anybody else needs to know of them:
 *
 *     to tcp/0.0.0.0:0   all connections that are live, as zhe has it; the core looks for peers there
 *     a packet of 0 bytes   from an endpoint: its connection is over, and whatever was sent there may be lost
 *     AGAIN   of send: the peer does not read, and what waits for it has no more room; the packet is lost, as on a wire
 *     the greeting, to where no connection leads   makes one (PDI_STREAM_CALLS_MAX at one time); it is not made again
 *     a CLOSE   is the last thing that is said on a connection: behind it the connection is closed, as zhe does it
 *
 * A connection:
 *
 *     ours    WAITING ── time ──► CONNECTING ──► LIVE ──► ENDED ──► WAITING     at once, then after 0.1 s, 0.2, .. 8 s
 *     theirs                      FRESH ──────► LIVE ──► ENDED ──► free         FRESH: nothing was heard yet
 *                                               └─► CLOSING ──┘                 we said CLOSE; what comes is not read
 *
 * Who connects speaks first (the greeting, a SCOUT), and is not spoken to before. A connection that nothing was heard on
 * for 4 s at first, or for 60 s later, is closed: sessions say something twice a second, and whoever looks for one
 * every few seconds. Bytes that are no frames end their connection and no other, and so does an end in the middle of
 * a frame; what was whole before has been received. Connections that we make are made again.
 *
 * Who waits for whom. Nothing here blocks. What a peer does not read waits in a buffer of its own connection, and when
 * that is full, it is not waited for. Frames of different connections are received in turns, one each.
 *
 * Why one lock for all and not one each: it is held for one system call that does not wait, so two threads that send to
 * different peers meet for some microseconds; and who holds it may look for the connection, which can be gone. Only
 * the thread that receives makes and closes descriptors, so that none is ever used after it was given to somebody else. A
 * sender who finds a connection broken shuts it down, and who receives hears of that.
 *
 * Unix sockets. A path has no room in an endpoint. Theirs has the kind 20, and `port` says which of the session's paths
 * it is; of a peer that has connected to us, `ip` holds the number of its process (4 bytes) and at 8 a number of its own.
 * A socket file that nobody listens at any more is replaced, one that is alive is not, and neither is another kind
 * of file. A path that begins with @ is an abstract name, which vanishes with its listener.
 */
#ifndef PDI_HOST_STREAMS_H
#define PDI_HOST_STREAMS_H

#include <stdbool.h>

#include "pyddsi.h"

#define PDI_STREAMS_MAX        64U                  /* connections at one time, made and accepted */
#define PDI_STREAMS_LISTEN_MAX PYDDSI_LISTEN_MAX    /* where we listen */
#define PDI_STREAM_IN_BYTES    (UINT32_C(64) << 10) /* received, and not yet taken, of each */
#define PDI_STREAM_OUT_BYTES                                                                       \
    (UINT32_C(512) << 10) /* to be sent, of each, beside the kernel's buffer */
#define PDI_STREAM_GREETING  16U
#define PDI_STREAM_CALLS_MAX 32U /* connections to addresses that peers have told */

enum pdi_stream_kind { PDI_STREAM_TCP4 = 14, PDI_STREAM_TCP6 = 16, PDI_STREAM_UNIX = 20 };

/* Whether an endpoint is a connection's. */
static inline bool pdi_stream_is(const pyddsi_endpoint *endpoint)
{
    return endpoint->kind >= PDI_STREAM_TCP4;
}

struct pdi_streams_options {
    const pyddsi_endpoint *
        peers; /* those that are streams are connected to; without an address, once they are aimed at one, */
    uint32_t peer_count;
    pyddsi_endpoint *listen; /* and these listened at; a port of 0 becomes the one that is used */
    uint32_t listen_count;
    const char (*paths)[PYDDSI_PATH_MAX];  /* ended by a zero; what Unix endpoints' ports count */
    pyddsi_reading reading;                /* of streams without frames */
    uint8_t greeting[PDI_STREAM_GREETING]; /* the packet that we begin a connection with */
    uint32_t greeting_size;
};

struct pdi_streams;

/* Opens all listeners, and begins to connect; or nothing, and then *made is null.
 * PYDDSI_OK; negative, and a text, cut to `room` bytes and ended by a zero. */
int pdi_streams_open(struct pdi_streams **made, const struct pdi_streams_options *options,
                     char *text, size_t room);

/* Closes everything, and removes the files of Unix sockets; null is closed already. In a child after fork it leaves
 * the parent's as they are. */
void pdi_streams_close(struct pdi_streams *streams);

/* A descriptor that is readable while receive may have something to do. */
int pdi_streams_fd(const struct pdi_streams *streams);

/* Whether packets have been read from the system and not been taken; the descriptor does not tell of these. Of the thread
 * that receives. */
bool pdi_streams_waiting(const struct pdi_streams *streams);

/* Where a peer is (a place in `peers`), that was named by a name: the next attempt to connect leads there. From any
 * thread. */
void pdi_streams_aim(struct pdi_streams *streams, uint32_t peer, const pyddsi_endpoint *where);

/* What became of the attempts to connect to a peer since it was last there. */
struct pdi_streams_attempts {
    uint32_t failed;
    int code; /* the errno of the last one */
    bool live;
};
/* From any thread. */
struct pdi_streams_attempts pdi_streams_attempts(struct pdi_streams *streams, uint32_t peer);

/* Takes one packet, or the news that a connection is over (*size is 0). What is to be done besides, such as connecting, is
 * done on the way. If *size is larger than room, it was cut. PYDDSI_OK, or PYDDSI_AGAIN: there is none. */
int pdi_streams_receive(struct pdi_streams *streams, uint8_t *data, size_t room, size_t *size,
                        pyddsi_endpoint *from);

/* Sends one packet. more: another one to the same place follows at once, and this one may wait for it. From any thread.
 * PYDDSI_OK; PYDDSI_AGAIN: the peer does not read; negative: it cannot be sent (-ENOTCONN: there is no such connection;
 * -EMSGSIZE: more than a frame holds). */
int pdi_streams_send(struct pdi_streams *streams, const pyddsi_endpoint *to, const uint8_t *data,
                     size_t size, bool more);

/* What became of connections so far. */
struct pdi_streams_counts {
    uint64_t live; /* now */
    uint64_t made, accepted;
    uint64_t failed;  /* attempts to connect that came to nothing */
    uint64_t refused; /* more than there is room for, or silent for too long */
    uint64_t broken;  /* ended by bytes that are no frames, or in the middle of one */
    uint64_t full;    /* packets for which there was no room, as the peer did not read */
};

/* Reads them. From any thread. */
void pdi_streams_count(struct pdi_streams *streams, struct pdi_streams_counts *counts);

#endif
