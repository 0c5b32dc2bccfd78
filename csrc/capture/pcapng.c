/* pcapng.c - a file of blocks.
 *
 *     type 4 │ length 4 │ body, padded to 4 │ length 4
 *
 * A section says the byte order of all that follows, also of its own length; interfaces, counted from 0, say what their
 * frames are and how their clocks tick; then come packets of three kinds. Every other block is passed over without being
 * held: some of them count as frames for Wireshark, and so they do here, else our numbers would not be its numbers.
 *
 *     section 0x0a0d0d0a │ interface 1 │ obsolete packet 2 │ simple packet 3 │ statistics 5 │ packet 6
 *
 * Behind what a block must have stand options: code 2 │ length 2 │ value, padded to 4. A broken one is a damage where an
 * interface is described, since all its times hang on it. Behind a packet it costs the direction of that packet.
 */
#include "base/bytes.h"
#include "capture/walk.h"

enum { SECTION = 0x0a0d0d0a, INTERFACE = 1, OBSOLETE = 2, SIMPLE = 3, STATISTICS = 5, PACKET = 6 };

enum {
    HEAD = 12,
    ENDS = 4
}; /* what must be there of a block to look at it; the length behind it */

enum {
    OPTION_END = 0,
    OPTION_FLAGS = 2,
    OPTION_DROPS = 4,
    OPTION_IF_DROP = 5,
    OPTION_OS_DROP = 7,
    OPTION_RESOLUTION = 9,
    OPTION_FCS = 13,
    OPTION_OFFSET = 14
};

/* A block that is whole. */
struct block {
    const uint8_t *data;
    uint32_t kind;
    uint32_t size;
    int swapped;
};

/* The least size of a block that is looked into; 0: it is not. */
static uint32_t least(uint32_t kind)
{
    switch (kind) {
    case INTERFACE:
        return 20;
    case OBSOLETE:
    case PACKET:
        return 32;
    case SIMPLE:
        return 16;
    case STATISTICS:
        return 24;
    default:
        return 0;
    }
}

/* Journal entries, system calls, vendors' blocks: no packets, yet Wireshark gives each a frame number. */
static int counts_as_frame(uint32_t kind)
{
    static const uint32_t kinds[] = {9,     0x204, 0x208, 0x216,     0x217,
                                     0x221, 0x222, 0xbad, 0x40000bad};
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i] == kind)
            return 1;
    return 0;
}

/* The next option of a block. OK, END, or BAD_INPUT: it runs out of the block. */
static int option_next(struct pdi_reader *in, int swapped, uint32_t *code, pyddsi_bytes *value)
{
    if (pdi_reader_left(in) < 4)
        return PYDDSI_END;
    *code = pdi_number16(in->at, swapped);
    *value = (pyddsi_bytes){in->at + 4, pdi_number16(in->at + 2, swapped)};
    if (*code == OPTION_END)
        return PYDDSI_END;
    size_t padded = (value->size + 3) & ~(size_t)3;
    if (padded > pdi_reader_left(in) - 4)
        return PYDDSI_BAD_INPUT;
    in->at += 4 + padded;
    return PYDDSI_OK;
}

/* How ticks become nanoseconds: 10^-n of a second, or with the top bit set 2^-n. A resolution so fine that no number of
 * ticks makes a nanosecond multiplies by 0. (10^9 is 5^9 2^9, so of a power of two only a shift is left.) */
static void set_resolution(struct pdi_interface *interface, uint8_t told)
{
    unsigned n = told & 0x7fU;
    interface->divide = 1;
    interface->shift = 0;
    if (told & 0x80) {
        interface->multiply = n < 9 ? UINT32_C(1953125) << (9 - n) : n <= 93 ? 1953125 : 0;
        interface->shift = n < 9 || n > 93 ? 0 : (uint8_t)(n - 9);
        return;
    }
    interface->multiply = n <= 28 ? 1 : 0;
    for (unsigned i = n; i < 9; i++)
        interface->multiply *= 10;
    for (unsigned i = 9; i < n && n <= 28; i++)
        interface->divide *= 10;
}

/* None if it does not fit 63 bits: those 292 years from 1970 are all that a time can be. */
static int64_t time_of(const struct pdi_interface *interface, uint64_t ticks)
{
    int64_t time_ns, offset_ns;
    unsigned shift = interface->shift;
    if (interface->divide != 1)
        ticks /= interface->divide;
    /* the product in two parts, the upper one 2^32 times its number: together they may have 96 bits */
    uint64_t upper = (ticks >> 32) * interface->multiply;
    uint64_t lower = (ticks & UINT32_MAX) * interface->multiply;
    if (shift >= 32) {
        time_ns = (int64_t)((upper + (lower >> 32)) >> (shift - 32));
    } else {
        upper += lower >> 32;
        if (upper >> (31 + shift) != 0)
            return PDI_TIME_NONE;
        time_ns = (int64_t)(upper << (32 - shift) | (lower & UINT32_MAX) >> shift);
    }
    if (__builtin_mul_overflow(interface->offset_s, INT64_C(1000000000), &offset_ns) ||
        __builtin_add_overflow(time_ns, offset_ns, &time_ns))
        return PDI_TIME_NONE;
    return time_ns;
}

static void section_begin(struct pdi_container *container, int swapped)
{
    container->swapped = (uint8_t)swapped;
    container->interfaces = 0;
    container->framed = 0;
    container->sections++;
}

/* The number of check bytes. The specification says bits and its example bytes; so do those who write it. No check
 * sequence has fewer than 16 bits or more than 15 bytes. */
static uint8_t fcs_bytes(uint8_t told)
{
    return told < 16 ? told : told / 8;
}

/* OK, or BAD_INPUT: an option runs out of the block. */
static int interface_add(struct pdi_container *container, const struct block *block)
{
    struct pdi_interface interface = {.link = pdi_number16(block->data + 8, block->swapped),
                                      .snap = pdi_number32(block->data + 12, block->swapped)};
    struct pdi_reader in = {block->data + 16, block->data + block->size - ENDS};
    uint32_t code = 0;
    pyddsi_bytes value;
    int status;
    set_resolution(&interface, 6);
    while ((status = option_next(&in, block->swapped, &code, &value)) == PYDDSI_OK) { /* 4 bytes */
        if (code == OPTION_RESOLUTION && value.size == 1)
            set_resolution(&interface, value.data[0]);
        else if (code == OPTION_OFFSET && value.size == 8)
            interface.offset_s = (int64_t)pdi_number64(value.data, block->swapped);
        else if (code == OPTION_FCS && value.size == 1)
            interface.fcs = fcs_bytes(value.data[0]);
    }
    if (status == PYDDSI_BAD_INPUT)
        return pdi_container_fail(container, PDI_DAMAGE_OPTION, code, 0);
    if (container->interfaces < PDI_INTERFACES_MAX)
        container->interface[container->interfaces] = interface;
    container->interfaces++;
    container->late += container->framed;
    return PYDDSI_OK;
}

/* So many frames of an interface are known to be lost. What packets say one by one is in what statistics say of all. */
static void drop(struct pdi_container *container, uint32_t index, uint64_t dropped)
{
    struct pdi_interface *interface = &container->interface[index];
    if (dropped > interface->dropped) {
        container->lost = dropped - interface->dropped;
        container->dropped += container->lost;
        interface->dropped = dropped;
    }
}

/* A statistics block tells how many were lost since the capture began. */
static void statistics(struct pdi_container *container, const struct block *block)
{
    uint32_t index = pdi_number32(block->data + 8, block->swapped), code;
    struct pdi_reader in = {block->data + 20, block->data + block->size - ENDS};
    pyddsi_bytes value;
    uint64_t dropped = 0;
    if (index >= container->interfaces || index >= PDI_INTERFACES_MAX)
        return;
    while (option_next(&in, block->swapped, &code, &value) == PYDDSI_OK) { /* 4 bytes at least */
        if ((code == OPTION_IF_DROP || code == OPTION_OS_DROP) && value.size == 8)
            dropped += pdi_number64(value.data, block->swapped);
    }
    drop(container, index, dropped);
}

/* Which way the packet went, its check sequence where it differs from its interface's, and how many frames were lost
 * between it and the one before. */
static void options_get(const struct block *block, struct pdi_frame *frame, uint32_t *fcs,
                        uint64_t *dropped)
{
    struct pdi_reader in = {frame->options.data, frame->options.data + frame->options.size};
    uint32_t code;
    int flagged = 0;
    pyddsi_bytes value;
    while (option_next(&in, block->swapped, &code, &value) == PYDDSI_OK) { /* 4 bytes at least */
        if (code == OPTION_FLAGS && value.size == 4 && !flagged) {
            flagged = 1;
            uint32_t flags = pdi_number32(value.data, block->swapped);
            frame->direction = (flags & 3) == 1   ? PDI_WAY_IN
                               : (flags & 3) == 2 ? PDI_WAY_OUT
                                                  : PDI_WAY_UNKNOWN;
            *fcs = flags >> 5 & 15 ? flags >> 5 & 15 : *fcs;
        } else if (code == OPTION_DROPS && value.size == 8) {
            *dropped = pdi_number64(value.data, block->swapped);
        }
    }
}

/* What the three kinds of packets have in common. |ticks| are those of its interface's clock, if it |ticked|. */
static int packet(struct pdi_container *container, const struct block *block, uint32_t index,
                  uint64_t ticks, int ticked, struct pdi_frame *frame)
{
    static const struct pdi_interface unknown = {.link = PDI_LINK_NONE};
    const struct pdi_interface *interface = &unknown;
    uint32_t room = (uint32_t)(block->data + block->size - ENDS - frame->data);
    if (index >= container->interfaces)
        return pdi_container_fail(container, PDI_DAMAGE_INTERFACE, index, container->interfaces);
    if (index < PDI_INTERFACES_MAX)
        interface = &container->interface[index];
    else
        ticked = 0;
    if (block->kind == SIMPLE) { /* it tells the original length only: no more can be there */
        uint32_t most = interface->snap != 0 && interface->snap < room ? interface->snap : room;
        frame->size = frame->wire_size < most ? frame->wire_size : most;
    }
    if (frame->size > PDI_FRAME_BYTES_MAX)
        return pdi_container_fail(container, PDI_DAMAGE_FRAME, frame->size, 0);
    if (frame->size > room)
        return pdi_container_fail(container, PDI_DAMAGE_CAPTURED, frame->size, room);
    uint32_t padded = (frame->size + 3) & ~UINT32_C(3), fcs = interface->fcs;
    uint64_t dropped = 0;
    container->over_wire += frame->size > frame->wire_size;
    container->over_snap += (frame->size > interface->snap) & (interface->snap != 0);
    container->framed = 1;
    frame->number = ++container->frames;
    frame->time_ns = ticked ? time_of(interface, ticks) : PDI_TIME_NONE;
    frame->link = interface->link;
    frame->interface = index < UINT16_MAX ? (uint16_t)index : UINT16_MAX;
    if (block->kind != SIMPLE && room > padded) {
        frame->options = (pyddsi_bytes){frame->data + padded, room - padded};
        options_get(block, frame, &fcs, &dropped);
        if (index < PDI_INTERFACES_MAX && dropped <= UINT64_MAX - interface->dropped)
            drop(container, index, interface->dropped + dropped);
    }
    if (fcs != 0)
        pdi_frame_trim(frame, fcs);
    return PYDDSI_OK;
}

/* A block that is looked into. OK: it was a packet; AGAIN: it was none; BAD_INPUT. */
static int block_read(struct pdi_container *container, const struct block *block, uint64_t offset,
                      struct pdi_frame *frame)
{
    const uint8_t *data = block->data;
    int swapped = block->swapped;
    uint32_t last = pdi_number32(data + block->size - ENDS, swapped);
    if (last != block->size)
        return pdi_container_fail(container, PDI_DAMAGE_ENDS, last, block->size);
    if (block->kind == INTERFACE)
        return interface_add(container, block) == PYDDSI_OK ? PYDDSI_AGAIN : PYDDSI_BAD_INPUT;
    if (block->kind == STATISTICS) {
        statistics(container, block);
        return PYDDSI_AGAIN;
    }
    *frame = (struct pdi_frame){.offset = offset};
    if (block->kind == SIMPLE) {
        frame->data = data + 12;
        frame->wire_size = pdi_number32(data + 8, swapped);
        return packet(container, block, 0, 0, 0, frame);
    }
    uint32_t index =
        block->kind == PACKET ? pdi_number32(data + 8, swapped) : pdi_number16(data + 8, swapped);
    uint64_t ticks =
        (uint64_t)pdi_number32(data + 12, swapped) << 32 | pdi_number32(data + 16, swapped);
    frame->data = data + 28;
    frame->size = pdi_number32(data + 20, swapped);
    frame->wire_size = pdi_number32(data + 24, swapped);
    return packet(container, block, index, ticks, 1, frame);
}

/* A section's own length is in the byte order that it tells. */
static int section_order(struct pdi_container *container, const uint8_t *data)
{
    const uint32_t mark = UINT32_C(0x1a2b3c4d);
    uint32_t order = pdi_number32(data + 8, 0);
    if (order != mark && order != __builtin_bswap32(mark))
        return pdi_container_fail(container, PDI_DAMAGE_ORDER, order, 0);
    section_begin(container, order != mark);
    return PYDDSI_OK;
}

/* The next block, of which the first HEAD bytes are there. OK: |frame| is the next one; AGAIN: it was none; SHORT;
 * BAD_INPUT. */
static int block_next(struct pdi_container *container, struct pdi_record_walk *walk,
                      struct pdi_frame *frame)
{
    const uint8_t *data = walk->data + walk->used;
    uint64_t offset = container->at + walk->used;
    struct block block = {.data = data, .kind = pdi_number32(data, container->swapped)};
    if (block.kind == SECTION && section_order(container, data) != PYDDSI_OK)
        return PYDDSI_BAD_INPUT;
    block.swapped = container->swapped;
    block.size = pdi_number32(data + 4, block.swapped);
    uint32_t minimum = block.kind == SECTION ? 28 : least(block.kind);
    int looked = minimum != 0 && block.kind != SECTION;
    int broken = block.size < HEAD || block.size % 4 != 0 || block.size < minimum;
    if (broken || (looked && block.size > PDI_BLOCK_BYTES_MAX && block.kind != STATISTICS))
        return pdi_container_fail(container, PDI_DAMAGE_BLOCK, block.size, block.kind);
    if (looked && block.size <= PDI_BLOCK_BYTES_MAX) {
        if (block.size > walk->size - walk->used)
            return pdi_walk_short(walk, block.size);
        int status = block_read(container, &block, offset, frame);
        walk->used += status == PYDDSI_BAD_INPUT ? 0 : block.size;
        return status;
    }
    walk->used += HEAD;
    container->skip = block.size - HEAD;
    if (!counts_as_frame(block.kind))
        return PYDDSI_AGAIN;
    container->framed = 1;
    *frame = (struct pdi_frame){.number = ++container->frames,
                                .offset = offset,
                                .time_ns = PDI_TIME_NONE,
                                .data = data,
                                .link = PDI_LINK_NONE,
                                .stranger = 1,
                                .block_kind = block.kind};
    return PYDDSI_OK;
}

int pdi_pcapng_next(struct pdi_container *container, struct pdi_record_walk *walk,
                    struct pdi_frame *frame)
{
    int status;
    container->lost = 0;
    do { /* each turn uses up a block, or ends it */
        uint64_t left = walk->size - walk->used;
        uint64_t passed = container->skip < left ? container->skip : left;
        walk->used += (size_t)passed;
        container->skip -= passed;
        if (container->skip != 0)
            return pdi_walk_short(walk, 1);
        if (walk->size - walk->used < HEAD)
            return pdi_walk_short(walk, HEAD);
        status = block_next(container, walk, frame);
    } while (status == PYDDSI_AGAIN && container->lost == 0);
    return status;
}
