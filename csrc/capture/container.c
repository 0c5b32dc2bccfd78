/* container.c - see container.h: how a file begins, how reading ends, and what the two kinds of file share. */
#include "capture/container.h"

#include <stdio.h>

#include "capture/walk.h"

/* No byte of it is padding, so equal containers are equal bytes. */
_Static_assert(sizeof(struct pdi_interface) == 40 &&
                   sizeof(struct pdi_container) == 96 + 40 * PDI_INTERFACES_MAX,
               "a container is stored as it lies in memory");

/* The first four bytes, as a number whose first byte stands highest. */
#define PCAP_US      UINT32_C(0xa1b2c3d4)
#define PCAP_NS      UINT32_C(0xa1b23c4d)
#define PCAPNG       UINT32_C(0x0a0d0d0a)
#define PCAPNG_ORDER UINT32_C(0x1a2b3c4d)

/* What gets handed over by mistake, by its first bytes. */
static const struct {
    uint32_t first;
    uint32_t mask;
    const char *what;
} strangers[] = {
    {0xa1b2cd34, UINT32_MAX, "a pcap of the modified (Kuznetzov) kind"},
    {0x34cdb2a1, UINT32_MAX, "a pcap of the modified (Kuznetzov) kind"},
    {0xa1b234cd, UINT32_MAX, "a pcap of a modified (Mesquita) kind"},
    {0xcd34b2a1, UINT32_MAX, "a pcap of a modified (Mesquita) kind"},
    {0xa12b3c4d, UINT32_MAX, "a pcap of a modified (Navtel) kind"},
    {0x4d3c2ba1, UINT32_MAX, "a pcap of a modified (Navtel) kind"},
    {0x736e6f6f, UINT32_MAX, "a snoop capture"},
    {0x1f8b0000, 0xffff0000, "compressed with gzip"},
    {0x28b52ffd, UINT32_MAX, "compressed with zstd"},
    {0x04224d18, UINT32_MAX, "compressed with lz4"},
    {0xfd377a58, UINT32_MAX, "compressed with xz"},
    {0x425a6800, 0xffffff00, "compressed with bzip2"},
    {0x504b0304, UINT32_MAX, "a zip archive"},
};

void pdi_container_init(struct pdi_container *container)
{
    memset(container, 0, sizeof(*container));
}

int pdi_container_fail(struct pdi_container *container, enum pdi_damage damage, uint32_t wrong,
                       uint32_t beside)
{
    container->damage = (uint8_t)damage;
    container->quick = 0;
    container->wrong = wrong;
    container->beside = beside;
    return PYDDSI_BAD_INPUT;
}

void pdi_frame_trim(struct pdi_frame *frame, uint32_t fcs)
{
    uint32_t whole = frame->wire_size > frame->size ? frame->wire_size : frame->size;
    uint32_t end = whole > fcs ? whole - fcs : 0;
    frame->size = frame->size < end ? frame->size : end;
}

static uint32_t first_of(const uint8_t *data)
{
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

/* The first bytes of a file tell what it is. OK, SHORT or BAD_INPUT. */
static int begin(struct pdi_container *container, struct pdi_record_walk *walk)
{
    if (walk->size < 4)
        return pdi_walk_short(walk, 4);
    uint32_t first = first_of(walk->data), magic = pdi_number32(walk->data, 0);
    uint32_t turned = __builtin_bswap32(magic);
    if (first == PCAPNG) {
        if (walk->size < 12)
            return pdi_walk_short(walk, 12);
        uint32_t order = pdi_number32(walk->data + 8, 0);
        if (order != PCAPNG_ORDER && order != __builtin_bswap32(PCAPNG_ORDER))
            return pdi_container_fail(container, PDI_DAMAGE_STRANGER, first, 0);
        container->kind = PDI_CONTAINER_PCAPNG;
        return PYDDSI_OK;
    }
    if (magic != PCAP_US && magic != PCAP_NS && turned != PCAP_US && turned != PCAP_NS)
        return pdi_container_fail(container, PDI_DAMAGE_STRANGER, first, 0);
    container->swapped = turned == PCAP_US || turned == PCAP_NS;
    container->unit_ns = magic == PCAP_US || turned == PCAP_US ? 1000 : 1;
    return pdi_pcap_begin(container, walk);
}

int pdi_container_next_any(struct pdi_container *container, const uint8_t *data, size_t size,
                           struct pdi_frame *frame, size_t *used, size_t *need)
{
    struct pdi_record_walk walk = {data, size, 0, 0};
    int status = PYDDSI_OK;
    if (container->damage != PDI_DAMAGE_NONE)
        status = PYDDSI_BAD_INPUT;
    else if (container->kind == PDI_CONTAINER_NEW)
        status = begin(container, &walk);
    if (status == PYDDSI_OK)
        status = container->kind == PDI_CONTAINER_PCAP ? pdi_pcap_next(container, &walk, frame)
                                                       : pdi_pcapng_next(container, &walk, frame);
    container->at += walk.used;
    *used = walk.used;
    *need = walk.need;
    return status;
}

static void why_stranger(uint32_t first, char *out, size_t room)
{
    for (unsigned i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        if ((first & strangers[i].mask) == strangers[i].first) {
            (void)snprintf(out, room, "%s, where a pcap or pcapng file is needed",
                           strangers[i].what);
            return;
        }
    }
    (void)snprintf(out, room,
                   "%02x %02x %02x %02x, which begins no capture; a pcap or pcapng file is needed",
                   first >> 24, first >> 16 & 0xff, first >> 8 & 0xff, first & 0xff);
}

void pdi_container_why(const struct pdi_container *container, char *out, size_t room)
{
    uint32_t wrong = container->wrong, beside = container->beside;
    switch (container->damage) {
    case PDI_DAMAGE_STRANGER:
        why_stranger(wrong, out, room);
        break;
    case PDI_DAMAGE_FRAME:
        (void)snprintf(out, room, "a frame of %u bytes, above the limit of %u", wrong,
                       PDI_FRAME_BYTES_MAX);
        break;
    case PDI_DAMAGE_BLOCK:
        (void)snprintf(out, room, "a block of type %#x with %u bytes, which it cannot have", beside,
                       wrong);
        break;
    case PDI_DAMAGE_ENDS:
        (void)snprintf(out, room, "a block whose length is %u at its beginning and %u at its end",
                       beside, wrong);
        break;
    case PDI_DAMAGE_ORDER:
        (void)snprintf(out, room, "a section whose byte order mark is %08x, not 1a2b3c4d", wrong);
        break;
    case PDI_DAMAGE_INTERFACE:
        (void)snprintf(out, room, "a frame of interface %u, and %u were described", wrong, beside);
        break;
    case PDI_DAMAGE_CAPTURED:
        (void)snprintf(out, room, "a frame of %u bytes in a block that has room for %u", wrong,
                       beside);
        break;
    case PDI_DAMAGE_OPTION:
        (void)snprintf(out, room, "option %u of an interface, which runs out of its block", wrong);
        break;
    default:
        (void)snprintf(out, room, "nothing is wrong");
        break;
    }
}
