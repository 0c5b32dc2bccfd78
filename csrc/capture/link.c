/* link.c - from a frame to the IP header in it: link layers, VLAN tags. */
#include "capture/layer.h"

enum { LINK_NULL = 0, LINK_ETHERNET = 1, LINK_LOOP = 108, LINK_COOKED = 113, LINK_COOKED2 = 276 };

#define KIND_LEAST 0x0600U /* an ethertype below is a length, as 802.3 has it */

static bool is_tag(unsigned kind)
{
    return kind == 0x8100 || kind == 0x88A8 || kind == 0x9100;
}

/* MPLS, PPPoE */
static bool is_tunnel(unsigned kind)
{
    return kind == 0x8847 || kind == 0x8848 || kind == 0x8863 || kind == 0x8864;
}

/* A header of |bytes| with an ethertype at |kind_at|, and tags behind it. */
static int pass_ethertype(struct pdi_layer *layer, uint32_t kind_at, uint32_t bytes,
                          struct pdi_carried *carried)
{
    unsigned kind = 0;
    layer->at = bytes;
    for (unsigned tags = 0; tags <= PDI_TAGS_MAX; tags++) {
        if (layer->at > layer->end)
            return pdi_refuse(carried, PDI_OTHER_SHORT, 0);
        kind = pdi_big16(layer->data + kind_at);
        if (tags == 1) /* its number stands before what follows it */
            carried->vlan = pdi_big16(layer->data + kind_at - 2) & 0x0FFF;
        if (kind == PDI_KIND_IPV4 || kind == PDI_KIND_IPV6)
            return PYDDSI_OK;
        if (!is_tag(kind))
            break;
        kind_at = layer->at + 2;
        layer->at += 4;
    }
    if (is_tunnel(kind))
        return pdi_refuse(carried, PDI_OTHER_TUNNEL, kind);
    return pdi_refuse(carried, PDI_OTHER_ETHERTYPE, kind >= KIND_LEAST ? kind : 0);
}

/* Null writes the family in its host's byte order, loop in the network's. It is below 256, so it is the first or the
 * last of the four bytes in either. */
static int pass_family(struct pdi_layer *layer, struct pdi_carried *carried)
{
    if (!pdi_layer_has(layer, 4))
        return pdi_refuse(carried, PDI_OTHER_SHORT, 0);
    unsigned family = layer->data[0] | layer->data[3];
    layer->at = 4;
    switch (family) {
    case 2:  /* IPv4 everywhere; */
    case 10: /* IPv6 of Linux, */
    case 24: /* NetBSD, */
    case 28: /* FreeBSD, */
    case 30: /* Darwin */
        return PYDDSI_OK;
    default:
        return pdi_refuse(carried, PDI_OTHER_FAMILY, family);
    }
}

int pdi_pass_link(struct pdi_layer *layer, unsigned link, struct pdi_carried *carried)
{
    switch (link) {
    case LINK_ETHERNET:
        return pass_ethertype(layer, 12, 14, carried);
    case LINK_COOKED:
        return pass_ethertype(layer, 14, 16, carried);
    case LINK_COOKED2:
        return pass_ethertype(layer, 0, 20, carried);
    case LINK_NULL:
    case LINK_LOOP:
        return pass_family(layer, carried);
    case 12: /* raw IP by the numbers of several systems, */
    case 14:
    case 101: /* of all, */
    case 228: /* and IPv4 and IPv6 alone */
    case 229:
        return PYDDSI_OK;
    default:
        return pdi_refuse(carried, PDI_OTHER_LINK, link);
    }
}
