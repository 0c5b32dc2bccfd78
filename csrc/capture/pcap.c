/* pcap.c - the classic file, where the inline way of container.h does not lead: its header, the other byte order, check
 * sequences behind the frames, and a record that is not whole or cannot be.
 *
 *     magic 4 │ version 2 + 2 │ zone 4 │ digits 4 │ snap 4 │ link 4        nothing but magic, snap and link is believed
 *
 * The link field has the link type in its lower 16 bits. Bit 26 tells that the upper four bits are the length of the check
 * sequence behind each frame, in units of two bytes.
 */
#include "capture/walk.h"

enum { HEADER = 24, AT_SNAP = 16, AT_LINK = 20 };

#define FCS_TOLD  (UINT32_C(1) << 26)
#define FCS_SHIFT 28U

int pdi_pcap_begin(struct pdi_container *container, struct pdi_record_walk *walk)
{
    const uint8_t *data = walk->data;
    if (walk->size < HEADER)
        return pdi_walk_short(walk, HEADER);
    container->kind = PDI_CONTAINER_PCAP;
    container->snap = pdi_number32(data + AT_SNAP, container->swapped);
    uint32_t link = pdi_number32(data + AT_LINK, container->swapped);
    container->link = (uint16_t)link;
    if (link & FCS_TOLD)
        container->fcs = (uint8_t)(2 * (link >> FCS_SHIFT));
    container->quick = !container->swapped && container->fcs == 0;
    walk->used = HEADER;
    return PYDDSI_OK;
}

int pdi_pcap_next(struct pdi_container *container, struct pdi_record_walk *walk,
                  struct pdi_frame *frame)
{
    const uint8_t *data = walk->data + walk->used;
    size_t left = walk->size - walk->used;
    uint32_t head[4];
    if (left < PDI_RECORD_HEAD)
        return pdi_walk_short(walk, PDI_RECORD_HEAD);
    for (unsigned i = 0; i < 4; i++)
        head[i] = pdi_number32(data + 4 * (size_t)i, container->swapped);
    if (head[2] > PDI_FRAME_BYTES_MAX)
        return pdi_container_fail(container, PDI_DAMAGE_FRAME, head[2], 0);
    if (head[2] > left - PDI_RECORD_HEAD)
        return pdi_walk_short(walk, PDI_RECORD_HEAD + (size_t)head[2]);
    pdi_container_record(container, head, data + PDI_RECORD_HEAD, container->at + walk->used,
                         frame);
    pdi_frame_trim(frame, container->fcs);
    walk->used += PDI_RECORD_HEAD + (size_t)head[2];
    return PYDDSI_OK;
}
