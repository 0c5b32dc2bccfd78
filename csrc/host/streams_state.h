/* streams_state.h - what the files of the streams share.
 *
 *     streams.c        receiving and sending, and what epoll and the time bring
 *     streams_link.c   one connection: its beginning and its end
 *     streams_bytes.c  what goes through it
 *     streams_open.c   listening, opening and closing the whole
 */
#ifndef PDI_HOST_STREAMS_STATE_H
#define PDI_HOST_STREAMS_STATE_H

#include <sys/socket.h>
#include <sys/un.h>

#include "base/time.h"
#include "host/lock.h"
#include "host/port_state.h"
#include "host/streams.h"
#include "wire/stream.h"

/* What descriptors are called in answers of epoll: a connection by its place, and these. */
#define PDI_STREAMS_LISTENERS 1000U
#define PDI_STREAMS_TIMER     2000U

#define PDI_STREAM_PATIENCE                                                                        \
    (4 * PDI_TIME_S) /* until something is heard of who connected; and ours had a use by then */
#define PDI_STREAM_IDLE         (60 * PDI_TIME_S) /* and from then on */
#define PDI_STREAM_CONNECT      (5 * PDI_TIME_S)  /* for an answer to our call */
#define PDI_STREAM_LINGER       PDI_TIME_S        /* for the other side to close, after a CLOSE */
#define PDI_STREAM_PAUSE_MS     100U              /* before a connection is made again, */
#define PDI_STREAM_PAUSE_MAX_MS 8000U             /* and at most, after many attempts */
#define PDI_STREAM_SHORTAGE     PDI_TIME_S        /* nobody is let in after descriptors ran out */

enum pdi_stream_state {
    PDI_STREAM_FREE,
    PDI_STREAM_WAITING,    /* ours, called: until the pause is over */
    PDI_STREAM_CONNECTING, /* ours, called */
    PDI_STREAM_FRESH,      /* theirs: nothing was heard yet */
    PDI_STREAM_LIVE,
    PDI_STREAM_CLOSING, /* CLOSE was said: what comes is thrown away */
    PDI_STREAM_ENDED    /* that is still to be told */
};

struct pdi_stream_link {
    /* changed by the receive thread under the lock; read by senders under it */
    int fd;
    uint8_t state;
    bool ours;       /* to a peer that was named: made again and again */
    bool called;     /* made by us, to an address that another peer has told */
    uint8_t peer;    /* ours: its place among those that were named */
    uint32_t failed; /* attempts since it was there, and */
    int code;        /* why the last one did */
    bool writable;   /* epoll is to tell when it can be written to */
    bool
        farewell; /* a CLOSE waits in `out`: closing begins when that is empty, and nothing follows */
    pyddsi_endpoint where;
    pyddsi_endpoint aim; /* ours: where it is from the next attempt on; kind 0: it stays */
    pdi_time due;        /* when this state is over by itself */
    pdi_time since;      /* when it was made; 0: it is not there */
    uint32_t pause_ms;   /* ours: before the next attempt */
    uint8_t *out;        /* frames from out_at to out_end wait; null until something has to wait */
    size_t out_at, out_end;

    /* of the receive thread alone */
    pyddsi_stream framing;
    uint8_t *in; /* bytes from in_at to in_end have not been taken */
    size_t in_at, in_end;
    bool heard; /* a packet has come */
    bool over;  /* nothing more comes */
};

struct pdi_stream_listener {
    int fd;
    pyddsi_endpoint where;
    char path[PYDDSI_PATH_MAX]; /* of a socket file that is ours to remove; else empty */
    uint64_t device, inode;     /* which file that is */
    pdi_time shortage;          /* it is not asked before this; 0: it is */
};

struct pdi_streams {
    struct pdi_lock lock;
    int epoll, timer;
    int process; /* whose files the sockets are */
    pyddsi_reading reading;
    uint8_t greeting[PDI_STREAM_GREETING];
    uint32_t greeting_size;
    uint32_t ours; /* links[] before this are those we make */
    uint32_t listeners;
    uint64_t serial; /* counts those who came by Unix sockets */
    pdi_time armed;  /* when the timer rings */
    struct pdi_streams_counts counts;
    struct pdi_stream_link links[PDI_STREAMS_MAX];
    struct pdi_stream_listener listener[PDI_STREAMS_LISTEN_MAX];
    char paths[PYDDSI_PATHS_MAX][PYDDSI_PATH_MAX];
    /* of the receive thread */
    uint64_t waiting; /* a bit for each link that has something to be taken */
    uint32_t next;    /* whose turn it is */
};

/* A socket's address. */
union pdi_stream_address {
    union pdi_port_address ip;
    struct sockaddr_un path;
    struct sockaddr any;
};

/* The system's form of an endpoint; answers its size, and *domain. */
socklen_t pdi_stream_address_put(const struct pdi_streams *streams, const pyddsi_endpoint *endpoint,
                                 union pdi_stream_address *address, int *domain);

/* The place of a link. */
static inline uint32_t pdi_stream_index(const struct pdi_streams *streams,
                                        const struct pdi_stream_link *link)
{
    return (uint32_t)(link - streams->links);
}

/* Whether it is known where a TCP endpoint is. */
static inline bool pdi_stream_aimed(const pyddsi_endpoint *where)
{
    static const pyddsi_endpoint none;
    return where->kind == PDI_STREAM_UNIX || memcmp(where->ip, none.ip, sizeof none.ip) != 0;
}

static inline bool pdi_stream_same(const pyddsi_endpoint *a, const pyddsi_endpoint *b)
{
    return a->port == b->port && pdi_port_address_same(a, b);
}

/* Makes epoll tell of a descriptor, or tell it other things of it. Answers as epoll_ctl. */
int pdi_stream_watch(const struct pdi_streams *streams, int how, int fd, uint32_t number,
                     uint32_t events);

/* Sees to it that the timer rings by then. With the lock. */
void pdi_stream_arm(struct pdi_streams *streams, pdi_time due);

/* ---- streams_link.c; all with the lock, those of the receive thread as well */

/* Begins to connect; or waits, if that fails at once. */
void pdi_stream_link_connect(struct pdi_streams *streams, struct pdi_stream_link *link,
                             pdi_time now);
/* A connection to where none was named, with what the node sends there as its greeting. False: there is one, or no room. From
 * any thread. */
bool pdi_stream_link_call(struct pdi_streams *streams, const pyddsi_endpoint *where);
/* The answer to our call is there. */
void pdi_stream_link_answered(struct pdi_streams *streams, struct pdi_stream_link *link,
                              pdi_time now);
/* Somebody has connected to us. */
void pdi_stream_link_accept(struct pdi_streams *streams, struct pdi_stream_listener *listener,
                            int fd, const union pdi_stream_address *address, pdi_time now);
/* Something was heard of it, or it has answered: packets can be sent there. */
void pdi_stream_link_live(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now);

/* Closes the descriptor, if it is open; what was received before can still be taken. */
void pdi_stream_link_hang_up(struct pdi_streams *streams, struct pdi_stream_link *link);
/* Its end was told, or there is nobody to tell: ours waits for the next attempt, theirs is free. */
void pdi_stream_link_end(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now);

/* ---- streams_bytes.c; the first two with the lock, the others of the receive thread, without it */

/* Puts a packet into the connection, or what waits for it. As pdi_streams_send. */
int pdi_stream_link_put(struct pdi_streams *streams, struct pdi_stream_link *link,
                        const uint8_t *data, size_t size, bool more);
/* Sends what waits, as far as it goes. */
void pdi_stream_link_flush(struct pdi_streams *streams, struct pdi_stream_link *link);

/* Reads what has come. */
void pdi_stream_link_read(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now);
/* The next packet of what was read. As pdi_streams_receive. */
int pdi_stream_link_take(struct pdi_streams *streams, struct pdi_stream_link *link, uint8_t *data,
                         size_t room, size_t *size, pyddsi_endpoint *from);

/* ---- streams_open.c */

/* Lets in who knocks. */
void pdi_stream_listener_accept(struct pdi_streams *streams, struct pdi_stream_listener *listener,
                                pdi_time now);

#endif
