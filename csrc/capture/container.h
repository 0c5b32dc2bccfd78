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
 * record begins. A file that ends inside a record is no fault here: SHORT with nothing more to come is
 * the caller's to report (`truncated_tail`), since the file may still be written.
 *
 * The struct is plain data without a pointer, so a snapshot of it may be stored, and reading may begin
 * in the middle of a file with what an earlier walk had learnt of it (pdi_container_seek).
 */
#ifndef PDI_CAPTURE_CONTAINER_H
#define PDI_CAPTURE_CONTAINER_H

#include "capture/frame.h"

#define PDI_INTERFACES_MAX                                                                         \
    256U /* of one section; frames of later ones have no time and no link type */
#define PDI_BLOCK_BYTES_MAX                                                                        \
    (UINT32_C(1) << 20) /* a pcapng block that is looked into; others may be longer */

enum pdi_container_kind { PDI_CONTAINER_NEW, PDI_CONTAINER_PCAP, PDI_CONTAINER_PCAPNG };

/* What is wrong with a file. pdi_container_why has words for each. */
enum pdi_damage {
    PDI_DAMAGE_NONE,
    PDI_DAMAGE_STRANGER,  /* it does not begin as a capture does */
    PDI_DAMAGE_FRAME,     /* a frame over PDI_FRAME_BYTES_MAX */
    PDI_DAMAGE_BLOCK,     /* a block of a size that no block can have */
    PDI_DAMAGE_ENDS,      /* a block whose two lengths differ */
    PDI_DAMAGE_ORDER,     /* a section whose byte order mark is none */
    PDI_DAMAGE_INTERFACE, /* a frame of an interface that was not described */
    PDI_DAMAGE_CAPTURED,  /* a frame that is longer than its block */
    PDI_DAMAGE_OPTION,    /* an option that runs out of its block */
    PDI_DAMAGE_COUNT
};

struct pdi_interface {
    int64_t offset_s; /* time = ticks * multiply / divide + offset_s seconds */
    uint64_t multiply;
    uint64_t divide;
    uint32_t snap;
    uint16_t link;
    uint8_t fcs; /* bytes of check sequence behind each frame */
    uint8_t unused;
    uint64_t
        dropped; /* frames that the capturing itself has lost, as the last statistics block says */
};

struct pdi_container {
    uint8_t kind;    /* enum pdi_container_kind */
    uint8_t swapped; /* numbers are in the byte order that is not ours */
    uint8_t damage;  /* enum pdi_damage: reading is over */
    uint8_t fcs;
    uint16_t link; /* pcap */
    uint16_t unused;
    uint32_t unit_ns;    /* pcap: 1000 or 1 */
    uint32_t snap;       /* pcap: what its header says; a hint and nothing more */
    uint32_t interfaces; /* pcapng: described so far in this section; the first ones are kept */
    uint32_t sections;   /* pcapng */
    uint32_t
        late; /* pcapng: interfaces that were described behind the first frame of their section */
    uint64_t at;        /* where in the file the next byte to be given is */
    uint64_t skip;      /* bytes of a block nobody looks into that are still to be passed over */
    uint64_t frames;    /* so far: the number of the last one */
    uint64_t over_snap; /* frames longer than their snap length says, and frames */
    uint64_t
        over_wire; /* of which more was captured than had been on the wire: both are taken as they are */
    struct pdi_interface interface[PDI_INTERFACES_MAX];
};

void pdi_container_init(struct pdi_container *container);

/* Goes on at another place: the next byte given is byte |offset| of the file, the next frame has number |frames| + 1. */
void pdi_container_seek(struct pdi_container *container, uint64_t offset, uint64_t frames);

/* Takes the next frame from the |size| bytes at |data|, of which the first was not used before.
 * OK: |frame| is the next one, and |used| bytes are to be taken off the front when it has been looked at. SHORT: at least
 * |need| bytes must be there after |used| have been taken off (at the end of a file: what is left is its tail).
 * BAD_INPUT: |container|->damage says why, and container->at + |used| where; it is over. */
int pdi_container_next(struct pdi_container *container, const uint8_t *data, size_t size,
                       struct pdi_frame *frame, size_t *used, size_t *need);

/* What a damage means, as the end of a sentence about a byte of a file; never null. */
const char *pdi_container_why(unsigned damage);

#endif
