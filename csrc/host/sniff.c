/* sniff.c - see sniff.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/sniff.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 1 << 20,
    BLOCKS = 16,
    FRAME_BYTES = 2048,
    HAND_OVER_MS = 20,
    RECORD_HEAD = 16,
    SNAP = 65535
};

struct pdi_sniff {
    int socket;
    uint8_t *ring;
    unsigned block;             /* the one that comes next */
    struct tpacket3_hdr *frame; /* of it, that comes next; null: the block has not been begun */
    unsigned left;              /* frames of it that have not been taken */
    uint64_t seen, lost;
};

static int failed(char *text, size_t room, int code, const char *what, const char *advice)
{
    (void)snprintf(text, room, "%s: %s%s", what, strerror(code), advice);
    return -code;
}

/* Lets IP through and nothing else, before it is copied. */
static void only_ip(int socket)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SNAP),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    (void)setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program,
                     sizeof program); /* without it more is copied */
}

static int make_ring(struct pdi_sniff *sniff)
{
    int version = TPACKET_V3;
    struct tpacket_req3 request = {.tp_block_size = BLOCK_BYTES,
                                   .tp_block_nr = BLOCKS,
                                   .tp_frame_size = FRAME_BYTES,
                                   .tp_frame_nr = BLOCK_BYTES / FRAME_BYTES * BLOCKS,
                                   .tp_retire_blk_tov = HAND_OVER_MS};
    if (setsockopt(sniff->socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
        setsockopt(sniff->socket, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0) {
        return errno;
    }
    sniff->ring = mmap(NULL, (size_t)BLOCK_BYTES * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED,
                       sniff->socket, 0);
    return sniff->ring == MAP_FAILED ? errno : 0;
}

int pdi_sniff_open(struct pdi_sniff **made, const char *interface, char *text, size_t room)
{
    unsigned index = strcmp(interface, "any") == 0 ? 0 : if_nametoindex(interface);
    *made = NULL;
    if (index == 0 && strcmp(interface, "any") != 0) {
        return failed(text, room, ENODEV, interface,
                      "; `ip link` lists the interfaces, and `any` is all of them");
    }
    int socket_ =
        socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* 0: nothing comes before it is bound */
    if (socket_ < 0) {
        return failed(text, room, errno, "looking at an interface",
                      errno == EPERM || errno == EACCES
                          ? "; it needs root, or the capability CAP_NET_RAW"
                          : "");
    }
    struct pdi_sniff *sniff = calloc(1, sizeof *sniff);
    if (sniff == NULL) {
        (void)close(socket_);
        return failed(text, room, ENOMEM, "looking at an interface", "");
    }
    sniff->socket = socket_;
    sniff->ring = MAP_FAILED;
    only_ip(socket_);
    int code = make_ring(sniff);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)index};
    if (code == 0 && bind(socket_, (struct sockaddr *)&address, sizeof address) < 0) {
        code = errno;
    }
    if (code != 0) {
        pdi_sniff_close(sniff);
        return failed(text, room, code, interface, "");
    }
    *made = sniff;
    return PYDDSI_OK;
}

void pdi_sniff_close(struct pdi_sniff *sniff)
{
    if (sniff == NULL) {
        return;
    }
    if (sniff->ring != MAP_FAILED) {
        (void)munmap(sniff->ring, (size_t)BLOCK_BYTES * BLOCKS);
    }
    (void)close(sniff->socket);
    free(sniff);
}

static struct tpacket_block_desc *block_of(const struct pdi_sniff *sniff)
{
    return (void *)(sniff->ring + (size_t)sniff->block * BLOCK_BYTES);
}

/* Whether the kernel has handed the next block over. */
static bool is_ours(const struct pdi_sniff *sniff)
{
    return (__atomic_load_n(&block_of(sniff)->hdr.bh1.block_status, __ATOMIC_ACQUIRE) &
            TP_STATUS_USER) != 0;
}

static void give_back(struct pdi_sniff *sniff)
{
    __atomic_store_n(&block_of(sniff)->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    sniff->block = (sniff->block + 1) % BLOCKS;
    sniff->frame = NULL;
}

/* Out by the loopback, where it comes in again. */
static bool comes_again(const struct tpacket3_hdr *frame)
{
    const struct sockaddr_ll *from =
        (const void *)((const uint8_t *)frame + (sizeof *frame + TPACKET_ALIGNMENT - 1) /
                                                    TPACKET_ALIGNMENT * TPACKET_ALIGNMENT);
    return from->sll_pkttype == PACKET_OUTGOING && from->sll_hatype == ARPHRD_LOOPBACK;
}

/* False: it does not fit any more. */
static bool put(struct pdi_sniff *sniff, uint8_t *out, size_t room, size_t *size)
{
    const struct tpacket3_hdr *frame = sniff->frame;
    uint32_t record[4] = {frame->tp_sec, frame->tp_nsec, frame->tp_snaplen, frame->tp_len};
    if (comes_again(frame)) {
        return true;
    }
    if (room - *size < RECORD_HEAD + (size_t)frame->tp_snaplen) {
        return false;
    }
    memcpy(out + *size, record, sizeof record);
    memcpy(out + *size + RECORD_HEAD, (const uint8_t *)frame + frame->tp_net, frame->tp_snaplen);
    *size += RECORD_HEAD + frame->tp_snaplen;
    return true;
}

int pdi_sniff_take(struct pdi_sniff *sniff, uint8_t *out, size_t room, size_t *size,
                   unsigned timeout_ms)
{
    *size = 0;
    if (sniff->frame == NULL && !is_ours(sniff)) {
        struct pollfd ready = {.fd = sniff->socket, .events = POLLIN | POLLERR};
        int got = poll(&ready, 1, (int)timeout_ms);
        if (got > 0 && (ready.revents & POLLERR) != 0) {
            int code = 0;
            socklen_t length = sizeof code;
            (void)getsockopt(sniff->socket, SOL_SOCKET, SO_ERROR, &code, &length);
            return code == ENETDOWN || code == 0
                       ? PYDDSI_OK
                       : -code; /* down is not gone: it may come up again */
        }
    }
    for (unsigned blocks = 0; blocks < BLOCKS && is_ours(sniff); blocks++) {
        if (sniff->frame == NULL) {
            sniff->left = block_of(sniff)->hdr.bh1.num_pkts;
            sniff->frame =
                (void *)((uint8_t *)block_of(sniff) + block_of(sniff)->hdr.bh1.offset_to_first_pkt);
        }
        for (; sniff->left > 0; sniff->left--) { /* what one block holds */
            if (!put(sniff, out, room, size)) {
                return PYDDSI_OK;
            }
            sniff->frame = (void *)((uint8_t *)sniff->frame + sniff->frame->tp_next_offset);
        }
        give_back(sniff);
    }
    return PYDDSI_OK;
}

void pdi_sniff_counts(struct pdi_sniff *sniff, uint64_t *seen, uint64_t *lost)
{
    struct tpacket_stats_v3 stats = {0};
    socklen_t length = sizeof stats;
    if (getsockopt(sniff->socket, SOL_PACKET, PACKET_STATISTICS, &stats, &length) ==
        0) { /* it counts from 0 again */
        sniff->seen += stats.tp_packets;
        sniff->lost += stats.tp_drops;
    }
    *seen = sniff->seen;
    *lost = sniff->lost;
}
