/* port_state.h - what the files of the port share: its fields, addresses of the system, texts.
 *
 *     port.c          waiting, receiving, sending: what runs for every packet
 *     port_open.c     opening and closing the whole
 *     port_socket.c   makes one socket: the unicast one, or that of a group
 *     port_path.c     which interface of this machine is the first way
 *     port_ways.c     the further ways of groups, and what happens when addresses change
 *     port_text.c     says what failed and what to do about it
 *     port_many.c     many packets out with one call, and
 *     port_inbox.c    many in
 */
#ifndef PDI_HOST_PORT_STATE_H
#define PDI_HOST_PORT_STATE_H

#include <netinet/in.h>
#include <string.h>

#include "base/atomic.h"
#include "base/rand.h"
#include "base/time.h"
#include "host/lock.h"
#include "host/port.h"

/* Linux 4.18 and 5.0 know these; the C library's headers may be older. */
#define PDI_PORT_UDP_SEGMENT 103
#define PDI_PORT_UDP_GRO     104

#define PDI_PORT_SOCKETS_MAX (1 + PDI_PORT_GROUPS_MAX)
/* What the bell is called among the sockets in an answer of epoll. */
#define PDI_PORT_BELL    31U
#define PDI_PORT_STREAMS 30U /* the connections, all together */
#define PDI_PORT_WATCHED 29U /* the descriptor of pdi_port_watch */
/* All that epoll can tell of at once. */
#define PDI_PORT_EVENTS_MAX (PDI_PORT_SOCKETS_MAX + 4)
#define PDI_PORT_NEWS       28U /* the kernel tells of addresses that have changed */
/* Room for the text of an address, as inet_ntop writes it, with a zero. */
#define PDI_PORT_ADDRESS_ROOM 46

enum pdi_port_family { PDI_PORT_IPV4 = 4, PDI_PORT_IPV6 = 6 };

union pdi_port_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Where the text about a failure goes. */
struct pdi_port_text {
    char *text;
    size_t room;
};

/* The way that multicast packets take out of this machine. */
struct pdi_port_path {
    pyddsi_endpoint address; /* of the interface; its port is 0 */
    uint32_t index;          /* of the interface; 0: there is none, and no groups either */
    bool chosen;             /* the options named it: nothing goes another way */
};

/* A further interface that packets to groups leave by. */
struct pdi_port_way {
    int fd;                  /* sends alone; open from its first use until the port closes, so that
                              * a thread that sends never meets a number that is another's now */
    uint32_t index;          /* of the interface; 0: not in use */
    pyddsi_endpoint address; /* of the interface */
};

struct pdi_port_socket {
    int fd;
    pyddsi_endpoint own;   /* a group's: where our own packets to it come from; else nowhere. With
                            * `ways_lock` */
    pyddsi_endpoint group; /* which one it hears; of kind 0: none */
};

struct pdi_port {
    /* set by open, then only read, by any thread */
    int epoll;
    int bell; /* an eventfd */
    uint8_t family;
    bool own_filter;             /* groups' sockets count our own packets as dropped */
    bool many_out;               /* one call may send many packets */
    struct pdi_atomic32 scope;   /* the interface that link-local addresses belong to */
    struct pdi_streams *streams; /* null: none */
    uint32_t count;
    struct pdi_port_socket sockets[PDI_PORT_SOCKETS_MAX]; /* the first is the unicast one */
    /* changed by the thread that waits, with `ways_lock`; read by others with it */
    struct pdi_lock ways_lock;
    struct pdi_port_path path;
    struct pdi_port_way way[PDI_PORT_WAYS_MAX];
    struct pdi_atomic32 ways; /* a bit for each that is in use; senders read it alone */
    /* of the thread that waits, fills and receives */
    struct pdi_port_options options; /* as it was opened; its interface is `interface` */
    char interface[PYDDSI_INTERFACE_MAX];
    uint16_t number; /* the port of the unicast socket */
    int news;        /* a netlink socket; negative: nothing tells what changes */
    bool moved;      /* and nobody has asked since */
    uint32_t ready;  /* a bit for each socket that may have a packet */
    uint32_t next;   /* whose turn it is */
    uint32_t came;   /* by which the last packet came that was received */
    uint32_t turn;   /* packets that may still be received before all sockets are looked at again */
    bool coarse;     /* the system can only wait for whole milliseconds */
    bool kept;       /* `spare` holds a group's packets, which are fed after the unicast socket's */
    uint32_t lead;   /* calls that the unicast socket has had since it was empty */
    pdi_time empty;  /* when it was, for the last time that we know of */
    pdi_time watched; /* since when the watched descriptor is known to be readable; 0: it is not */
    struct pdi_port_inbox *inbox; /* what one call brought; null: one packet a call */
    struct pdi_port_inbox *spare; /* changes places with it; null: nothing is kept */
    struct pdi_rand losses;
    /* of all threads */
    struct pdi_atomic32 lose;          /* of a thousand packets that come */
    struct pdi_atomic32 segment_below; /* packets of fewer bytes may leave as segments of one */
    struct pdi_atomic64 sends, receives, joined_out, joined_in; /* see port_many.h */
};

/* Whether an address is one that is good on its own link alone. */
static inline bool pdi_port_address_link(const pyddsi_endpoint *address)
{
    return address->kind == PDI_PORT_IPV6 && address->ip[0] == 0xfe &&
           (address->ip[1] & 0xc0) == 0x80;
}

/* Whether an endpoint's address is that of a group. */
static inline bool pdi_port_address_group(const pyddsi_endpoint *endpoint)
{
    return endpoint->kind == PDI_PORT_IPV4 ? (endpoint->ip[0] & 0xf0) == 0xe0
                                           : endpoint->ip[0] == 0xff;
}

/* Whether it is that of a group that the further ways carry as well: all but those of one link of IPv6 (ff01::, ff02::). */
static inline bool pdi_port_address_wide(const pyddsi_endpoint *endpoint)
{
    return pdi_port_address_group(endpoint) &&
           (endpoint->kind == PDI_PORT_IPV4 || (endpoint->ip[1] & 0x0f) > 2);
}

/* The system's form of an endpoint; answers its size. An IPv6 address of the link takes `scope`. */
static inline socklen_t pdi_port_address_put(union pdi_port_address *address,
                                             const pyddsi_endpoint *endpoint, uint32_t scope)
{
    memset(address, 0, sizeof(*address));
    if (endpoint->kind == PDI_PORT_IPV4) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons(endpoint->port);
        memcpy(&address->v4.sin_addr, endpoint->ip, 4);
        return sizeof(address->v4);
    }
    address->v6.sin6_family = AF_INET6;
    address->v6.sin6_port = htons(endpoint->port);
    memcpy(&address->v6.sin6_addr, endpoint->ip, 16);
    bool group = pdi_port_address_group(endpoint) && !pdi_port_address_wide(endpoint);
    address->v6.sin6_scope_id = group || pdi_port_address_link(endpoint) ? scope : 0;
    return sizeof(address->v6);
}

/* The endpoint that an address of the system is. */
static inline void pdi_port_address_get(const union pdi_port_address *address,
                                        pyddsi_endpoint *endpoint)
{
    memset(endpoint, 0, sizeof(*endpoint));
    if (address->any.sa_family == AF_INET) {
        endpoint->kind = PDI_PORT_IPV4;
        endpoint->port = ntohs(address->v4.sin_port);
        memcpy(endpoint->ip, &address->v4.sin_addr, 4);
    } else if (address->any.sa_family == AF_INET6) {
        endpoint->kind = PDI_PORT_IPV6;
        endpoint->port = ntohs(address->v6.sin6_port);
        memcpy(endpoint->ip, &address->v6.sin6_addr, 16);
    }
}

/* Whether two endpoints have the same address, whatever their ports. */
static inline bool pdi_port_address_same(const pyddsi_endpoint *a, const pyddsi_endpoint *b)
{
    return a->kind == b->kind && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

/* Writes the address of an endpoint, without its port; answers `out`. */
const char *pdi_port_address_print(const pyddsi_endpoint *endpoint,
                                   char out[PDI_PORT_ADDRESS_ROOM]);

/* Finds the path for the options, and tries it with each of their groups: own[i] is where packets
 * to group i are going to come from, without the port. OK, or negative and a text. */
int pdi_port_path_find(struct pdi_port_path *path, const struct pdi_port_options *options,
                       pyddsi_endpoint *own, const struct pdi_port_text *text);

/* Where a packet to `group` would come from, sent along the path, or as the system routes it if
 * the path has no interface yet; *refused is 0, or the errno that says why it would not be sent.
 * OK, or negative and a text if there is not even a socket. */
int pdi_port_path_probe(const struct pdi_port_path *path, const pyddsi_endpoint *group,
                        pyddsi_endpoint *own, int *refused, const struct pdi_port_text *text);

/* The socket that everything is sent from, bound; *local gets its port. A descriptor, or negative
 * and a text. */
int pdi_port_socket_open(const struct pdi_port_options *options, const struct pdi_port_path *path,
                         uint16_t *local, const struct pdi_port_text *text);

/* The socket that hears a group, and nothing else. A descriptor, or negative and a text. */
int pdi_port_socket_join(const struct pdi_port_options *options, const struct pdi_port_path *path,
                         const pyddsi_endpoint *group, const struct pdi_port_text *text);

/* Makes the system leave out what a group brings from `own`, and from the IPv4 addresses of these ways: never queued, nobody
 * woken. It may refuse; then pdi_port_receive does the same alone, as it does for IPv6 addresses of ways. */
void pdi_port_socket_mute(int fd, const pyddsi_endpoint *own,
                          const struct pdi_port_way way[PDI_PORT_WAYS_MAX]);

/* Joins the group on an interface, or leaves it. Answers as setsockopt. */
int pdi_port_socket_member(int fd, uint32_t index, const pyddsi_endpoint *group, bool joins);

/* A socket that sends from the port of `unicast` to groups such as this one, which is wide, and that nothing comes to;
 * unsteered. A descriptor, or negative. */
int pdi_port_socket_further(const struct pdi_port_options *options, int unicast, uint16_t local,
                            const pyddsi_endpoint *group);

/* Opens the socket that tells of changes, and begins with the further ways that there are. Nothing of it can fail: without
 * it groups stay on the first way. */
void pdi_port_ways_open(struct pdi_port *port);
void pdi_port_ways_close(struct pdi_port *port);
/* Something has changed, as `news` tells. */
void pdi_port_ways_follow(struct pdi_port *port);

/* Makes a socket send groups' packets along the path. Answers as setsockopt. */
int pdi_port_socket_steer(int fd, const struct pdi_port_path *path);

/* Makes a UDP socket of the family. A descriptor, or negative and a text. */
int pdi_port_socket_make(uint8_t family, const struct pdi_port_text *text);

/* A port that only sends, by a socket of somebody else's, for pdi_port_send_many. It has nothing to close. */
void pdi_port_lend(struct pdi_port *port, int fd, uint8_t family, uint32_t scope);

/* Writes a text as printf does; answers -code, so that one line can say it and give up. */
int pdi_port_text_fail(const struct pdi_port_text *text, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for what the system refused with the errno `code`: says what was being done, why it
 * failed, and, where that is known, what to do. */
int pdi_port_text_refused(const struct pdi_port_text *text, int code, const char *what);

#endif
