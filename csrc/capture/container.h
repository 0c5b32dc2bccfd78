/* container.h - a pcap or pcapng file becomes frames, one after the other.
 *
 *     pcap      header 24 │ 16 + bytes │ 16 + bytes │ ...           four magic numbers
 *     pcapng    section │ interface │ packet │ ... │ section │ ...  blocks with their length at both ends
 *
 * Bytes come in as blocks of any size; whoever reads the file keeps what was not used and comes again
 * with more. So a file, a pipe that never ends, a file that is being written and a range in the
 * middle of a file are all the same here.
 *
 * Time is integer nanoseconds all the way, because floating point cannot hold it; a finer resolution is
 * rounded down. In pcapng each interface has a link type, resolution and offset of its own, and each
 * section a byte order and interfaces of its own; only the numbering of frames runs through the file.
 *
 * What cannot be true ends the reading: behind a length that is wrong nobody knows where the next
 * record begins. What is odd and can be read on is counted. A file that ends inside a record is no
 * fault here: SHORT with nothing more to come is the caller's to report (`truncated_tail`), since the
 * file may still be written.
 *
 * The struct is plain data without a pointer, so a snapshot of it may be stored, and reading may begin
 * in the middle of a file with what an earlier walk had learnt of it.
 *
 * Nearly every frame there is comes out of a pcap file of our own byte order, whole, with nothing odd:
 * for these the next one is found inline, and everything else is a call.
 */
#ifndef PDI_CAPTURE_CONTAINER_H
#define PDI_CAPTURE_CONTAINER_H

#include <string.h>

#include "capture/frame.h"

/* Interfaces of one section that are kept; frames of later ones have no time and no link type. */
#define PDI_INTERFACES_MAX 256U
#define PDI_LINK_NONE      UINT16_MAX

/* A pcapng block that is looked into. A block that nobody looks into may be longer. */
#define PDI_BLOCK_BYTES_MAX (UINT32_C(1) << 20)

/* In front of each frame of a pcap file: seconds, fraction, captured and original size. */
#define PDI_RECORD_HEAD 16U

enum pdi_container_kind { PDI_CONTAINER_NEW, PDI_CONTAINER_PCAP, PDI_CONTAINER_PCAPNG };

/* What is wrong with a file. pdi_container_why has words for each. */
enum pdi_damage {
    PDI_DAMAGE_NONE,
    PDI_DAMAGE_STRANGER,  /* it does not begin as a capture does */
    PDI_DAMAGE_FRAME,     /* a frame over PDI_FRAME_BYTES_MAX */
    PDI_DAMAGE_BLOCK,     /* a block of a size that no block of its type can have */
    PDI_DAMAGE_ENDS,      /* a block whose two lengths differ */
    PDI_DAMAGE_ORDER,     /* a section whose byte order mark is none */
    PDI_DAMAGE_INTERFACE, /* a frame of an interface that was not described */
    PDI_DAMAGE_CAPTURED,  /* a frame that is longer than its block */
    PDI_DAMAGE_OPTION,    /* an option of an interface that runs out of its block */
    PDI_DAMAGE_COUNT
};

/* An interface of a pcapng section. A time in nanoseconds is ticks / divide * multiply / 2^shift + offset_s seconds, each
 * division rounded down: resolutions are powers of ten or two, so at most one of the three is at work. */
struct pdi_interface {
    int64_t offset_s;
    uint64_t divide;
    uint64_t
        dropped; /* frames that the capturing has lost: what statistics say of all, or packets of what is before them */
    uint32_t multiply;
    uint32_t snap;
    uint16_t link;
    uint8_t shift;
    uint8_t fcs; /* bytes of check sequence behind each frame */
    uint32_t unused;
};

struct pdi_container {
    uint8_t kind;        /* enum pdi_container_kind */
    uint8_t swapped;     /* numbers are in the byte order that is not ours */
    uint8_t damage;      /* enum pdi_damage: reading is over */
    uint8_t quick;       /* 1: a pcap file whose records are taken inline */
    uint8_t fcs;         /* pcap: bytes of check sequence behind each frame */
    uint8_t framed;      /* pcapng: this section has had a frame */
    uint16_t link;       /* pcap */
    uint32_t unit_ns;    /* pcap: 1000 or 1 */
    uint32_t snap;       /* pcap: what its header says; a hint and nothing more */
    uint32_t interfaces; /* pcapng: described so far in this section; the first ones are kept */
    uint32_t sections;   /* pcapng */
    uint32_t late;       /* pcapng: interfaces described behind the first frame of their section */
    uint32_t wrong;      /* with a damage: the number that cannot be, */
    uint32_t beside;     /* and the one that it is at odds with */
    uint32_t unused;
    uint64_t at;        /* where in the file the next byte to be given is */
    uint64_t skip;      /* bytes of a block nobody looks into that are still to be passed over */
    uint64_t frames;    /* so far: the number of the last one */
    uint64_t over_snap; /* frames longer than their snap length says, and frames of which more */
    uint64_t over_wire; /* was captured than had been on the wire: both are taken as they are */
    uint64_t dropped;   /* by the capturing, over all interfaces and sections, */
    uint64_t lost;      /* and of these, those that the last call was the first to see */
    struct pdi_interface interface[PDI_INTERFACES_MAX];
};

void pdi_container_init(struct pdi_container *container);

/* The general case of pdi_container_next. */
int pdi_container_next_any(struct pdi_container *container, const uint8_t *data, size_t size,
                           struct pdi_frame *frame, size_t *used, size_t *need);

/* What is wrong, as the end of a sentence about byte |container|->at of a file, ended by a zero; |room| of 160 is enough. */
void pdi_container_why(const struct pdi_container *container, char *out, size_t room);

/* A record of a pcap file, whose bytes are all there, becomes a frame. |head|: the four numbers in front of it, |data|: its
 * first byte behind them. What is odd about it is counted and changes nothing. */
static inline void pdi_container_record(struct pdi_container *container, const uint32_t *head,
                                        const uint8_t *data, uint64_t offset,
                                        struct pdi_frame *frame)
{
    uint32_t size = head[2], snap = container->snap;
    container->over_wire += size > head[3];
    container->over_snap += (size > snap) & (snap != 0);
    *frame = (struct pdi_frame){
        .number = ++container->frames,
        .offset = offset,
        .time_ns = (int64_t)head[0] * 1000000000 + (int64_t)head[1] * container->unit_ns,
        .data = data,
        .size = size,
        .wire_size = head[3],
        .link = container->link,
    };
}

/* Takes the next frame from the |size| bytes at |data|, of which the first was not used before.
 * OK: |frame| is the next one, and |used| bytes are to be taken off the front when it has been looked at. SHORT: at least
 * |need| bytes must be there after |used| have been taken off. AGAIN: behind the last frame |container|->lost frames were
 * lost by the capturing; go on as after OK. (Where they were lost right before a frame, that one comes with it.) At the end of a file what is left is its tail; if that is
 * nothing, the file is whole unless |container|->skip is not 0. BAD_INPUT: it is over, and pdi_container_why says what is
 * wrong at |container|->at, which is always the place of the first byte that was not used. */
static inline int pdi_container_next(struct pdi_container *container, const uint8_t *data,
                                     size_t size, struct pdi_frame *frame, size_t *used,
                                     size_t *need)
{
    uint32_t head[4];
    if (container->quick && size >= PDI_RECORD_HEAD) {
        memcpy(head, data, sizeof(head));
        if (head[2] <= PDI_FRAME_BYTES_MAX && head[2] <= size - PDI_RECORD_HEAD) {
            uint64_t offset = container->at;
            pdi_container_record(container, head, data + PDI_RECORD_HEAD, offset, frame);
            *used = PDI_RECORD_HEAD + head[2];
            *need = 0;
            container->at = offset + *used;
            return PYDDSI_OK;
        }
    }
    return pdi_container_next_any(container, data, size, frame, used, need);
}

#endif
