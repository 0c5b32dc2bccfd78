/* layer.h - what the layers of a frame have in common: a view that each of them shortens from the front.
 *
 *     data          at               end            stop
 *     │ passed      │ to be read     │ cut away     │ padding ...
 *
 * Each layer reads its header at `at`, moves behind it, and says what follows; OK, or END with a reason. No layer reads
 * a byte at or behind `end`.
 */
#ifndef PDI_CAPTURE_LAYER_H
#define PDI_CAPTURE_LAYER_H

#include <stdbool.h>
#include <string.h>

#include "capture/dissect.h"

enum { PDI_KIND_IPV4 = 0x0800, PDI_KIND_IPV6 = 0x86DD };
enum {
    PDI_PROTOCOL_IPV4 = 4,
    PDI_PROTOCOL_TCP = 6,
    PDI_PROTOCOL_UDP = 17,
    PDI_PROTOCOL_IPV6 = 41,
    PDI_PROTOCOL_GRE = 47
};
enum { PDI_IPV4_BYTES = 20 };

/* The field of an IPv4 header that says which piece of its packet it is. */
#define PDI_IPV4_MORE   0x2000U
#define PDI_IPV4_OFFSET 0x1FFFU /* in units of eight bytes */

struct pdi_layer {
    const uint8_t *data;
    uint32_t at;
    uint32_t end;  /* how far they were captured, */
    uint32_t stop; /* and how far the packet goes; never before `end` once IP has been passed */
};

/* Numbers in network order, at any address. */
static inline uint16_t pdi_big16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap16(value) : value;
}

static inline uint32_t pdi_big32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap32(value) : value;
}

/* Whether so many bytes follow that were captured. */
static inline bool pdi_layer_has(const struct pdi_layer *layer, uint32_t bytes)
{
    return layer->at <= layer->end && layer->end - layer->at >= bytes;
}

/* Nothing for us, and why. */
static inline int pdi_refuse(struct pdi_carried *carried, enum pdi_other reason, uint32_t detail)
{
    carried->other = (uint8_t)reason;
    carried->detail = detail;
    return PYDDSI_END;
}

/* Passes the link layer with its tags. OK: an IP header ought to follow. */
int pdi_pass_link(struct pdi_layer *layer, unsigned link, struct pdi_carried *carried);

/* Passes IP. OK: what protocol |carried| names follows, whole; AGAIN: it was a piece, which waits. */
int pdi_pass_ip(struct pdi_dissector *dissector, struct pdi_layer *layer, int64_t time_ns,
                struct pdi_carried *carried);

#endif
