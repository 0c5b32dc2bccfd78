/* walk.h - what pcap.c and pcapng.c have in common: the bytes of one call, and numbers in the file's byte order.
 *
 * A walk is one call of pdi_container_next. What is used stays used whatever the answer is, so blocks that hold no frame
 * are not met again; a record that is not whole uses nothing.
 */
#ifndef PDI_CAPTURE_WALK_H
#define PDI_CAPTURE_WALK_H

#include "capture/container.h"

struct pdi_record_walk {
    const uint8_t *data;
    size_t size;
    size_t used; /* of them, so far */
    size_t need; /* with SHORT: how many must follow those used */
};

static inline uint16_t pdi_number16(const uint8_t *at, int swapped)
{
    uint16_t number;
    memcpy(&number, at, sizeof(number));
    return swapped ? __builtin_bswap16(number) : number;
}

static inline uint32_t pdi_number32(const uint8_t *at, int swapped)
{
    uint32_t number;
    memcpy(&number, at, sizeof(number));
    return swapped ? __builtin_bswap32(number) : number;
}

static inline uint64_t pdi_number64(const uint8_t *at, int swapped)
{
    uint64_t number;
    memcpy(&number, at, sizeof(number));
    return swapped ? __builtin_bswap64(number) : number;
}

static inline int pdi_walk_short(struct pdi_record_walk *walk, size_t need)
{
    walk->need = need;
    return PYDDSI_SHORT;
}

/* Reading is over. */
int pdi_container_fail(struct pdi_container *container, enum pdi_damage damage, uint32_t wrong,
                       uint32_t beside);

/* Takes the check sequence off the end of a frame, as far as it was captured. */
void pdi_frame_trim(struct pdi_frame *frame, uint32_t fcs);

/* The header of a pcap file, which is known by its magic number. OK or SHORT. */
int pdi_pcap_begin(struct pdi_container *container, struct pdi_record_walk *walk);

/* The next frame; the answers of pdi_container_next. */
int pdi_pcap_next(struct pdi_container *container, struct pdi_record_walk *walk,
                  struct pdi_frame *frame);
int pdi_pcapng_next(struct pdi_container *container, struct pdi_record_walk *walk,
                    struct pdi_frame *frame);

#endif
