/* port_inbox.c - many packets in with one call; they are handed out one by one. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/port_inbox.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "host/port_many.h"

/* Memory that is not touched until it is needed: small packets touch a page of
 * each buffer. Null: there is none. */
static struct pdi_port_inbox *inbox_make(void)
{
    void *memory = mmap(NULL, sizeof(struct pdi_port_inbox), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

void pdi_port_inbox_open(struct pdi_port *port)
{
    const int one = 1;
    if (recvmmsg(port->sockets[0].fd, NULL, 0, MSG_DONTWAIT, NULL) != 0) {
        return; /* not known, or a filter of system calls forbids it */
    }
    port->inbox = inbox_make();
    port->spare = port->inbox != NULL ? inbox_make() : NULL;
    for (uint32_t i = 0; i < port->count && port->inbox != NULL; i++) {
        /* where this is not known, packets come one by one, but still many with one call */
        (void)setsockopt(port->sockets[i].fd, SOL_UDP, PDI_PORT_UDP_GRO, &one, sizeof one);
    }
}

void pdi_port_inbox_close(struct pdi_port *port)
{
    if (port->inbox != NULL) {
        (void)munmap(port->inbox, sizeof *port->inbox);
    }
    if (port->spare != NULL) {
        (void)munmap(port->spare, sizeof *port->spare);
    }
}

bool pdi_port_has_inbox(const struct pdi_port *port)
{
    return port->inbox != NULL;
}

/* The size of each packet of a datagram; its own size, if it is but one. */
static uint32_t size_of_each(struct msghdr *header, uint32_t whole)
{
    for (struct cmsghdr *words = CMSG_FIRSTHDR(header); words != NULL;
         words = CMSG_NXTHDR(header, words)) {
        if (words->cmsg_level == SOL_UDP && words->cmsg_type == PDI_PORT_UDP_GRO) {
            int each;
            memcpy(&each, CMSG_DATA(words), sizeof each);
            return each > 0 && (uint32_t)each < whole ? (uint32_t)each : whole;
        }
    }
    return whole;
}

_Static_assert(sizeof(struct in6_pktinfo) == 20, "it fits");

uint32_t pdi_port_inbox_index(struct msghdr *header)
{
    for (struct cmsghdr *words = CMSG_FIRSTHDR(header); words != NULL;
         words = CMSG_NXTHDR(header, words)) {
        if (words->cmsg_level == IPPROTO_IPV6 && words->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(words), sizeof info);
            return info.ipi6_ifindex;
        }
    }
    return 0;
}

int pdi_port_inbox_fill(struct pdi_port *port, struct pdi_port_inbox *inbox, uint32_t socket)
{
    struct mmsghdr messages[PDI_PORT_INBOX_MAX];
    struct iovec vectors[PDI_PORT_INBOX_MAX];
    union pdi_port_address addresses[PDI_PORT_INBOX_MAX];
    union pdi_port_control control[PDI_PORT_INBOX_MAX];
    for (unsigned i = 0; i < PDI_PORT_INBOX_MAX; i++) {
        vectors[i] = (struct iovec){inbox->data[i], sizeof inbox->data[i]};
        addresses[i].any.sa_family = AF_UNSPEC;
        messages[i].msg_len = 0;
        messages[i].msg_hdr = (struct msghdr){
            .msg_name = &addresses[i],
            .msg_namelen = sizeof addresses[i],
            .msg_iov = &vectors[i],
            .msg_iovlen = 1,
            .msg_control = control[i].bytes,
            .msg_controllen = sizeof control[i].bytes,
        };
    }
    int got = recvmmsg(port->sockets[socket].fd, messages, PDI_PORT_INBOX_MAX, MSG_DONTWAIT, NULL);
    (void)pdi_atomic64_add(&port->receives, 1);
    inbox->socket = socket;
    inbox->at = inbox->offset = inbox->packets = 0;
    inbox->count = got > 0 ? (uint32_t)got : 0;
    for (int i = 0; i < got; i++) {
        struct pdi_port_letter *letter = &inbox->letters[i];
        pdi_port_address_get(&addresses[i], &letter->from);
        letter->index = pdi_port_inbox_index(&messages[i].msg_hdr);
        letter->size = messages[i].msg_len;
        letter->each = size_of_each(&messages[i].msg_hdr, letter->size);
        uint32_t packets = 1;
        if (letter->each < letter->size) {
            packets = (letter->size + letter->each - 1) / letter->each;
            (void)pdi_atomic64_add(&port->joined_in, packets);
        }
        inbox->packets += packets;
    }
    return got;
}

bool pdi_port_inbox_pop(struct pdi_port_inbox *inbox, const uint8_t **data, size_t *size,
                        pyddsi_endpoint *from, uint32_t *index)
{
    if (inbox->at >= inbox->count) {
        return false;
    }
    const struct pdi_port_letter *letter = &inbox->letters[inbox->at];
    uint32_t left = letter->size - inbox->offset;
    uint32_t some = left < letter->each ? left : letter->each;
    *data = inbox->data[inbox->at] + inbox->offset;
    *size = some;
    *from = letter->from;
    *index = letter->index;
    inbox->offset += some;
    if (inbox->offset >= letter->size) { /* also for one without a byte */
        inbox->at++;
        inbox->offset = 0;
    }
    return true;
}

void pdi_port_lose(struct pdi_port *port, uint32_t of_thousand)
{
    pdi_atomic32_store_relaxed(&port->lose, of_thousand);
}
