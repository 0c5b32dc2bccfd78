/* dissect.c - from a frame to what UDP or TCP carries: the straight path first, then layer by layer.
 *
 * Nearly every frame of a capture of ours is Ethernet, IPv4 without options and whole, UDP. `straight` takes exactly
 * these, with a handful of loads and no loop; it leaves everything that has the least thing special about it to the
 * general path, which finds the same for a usual frame, only slower.
 */
#include <inttypes.h>
#include <stdio.h>

#include "capture/layer.h"

#define ETHERNET       1U
#define ETHERNET_BYTES 14U
#define UDP_BYTES      8U
#define TCP_BYTES      20U
#define STRAIGHT_BYTES (ETHERNET_BYTES + PDI_IPV4_BYTES + UDP_BYTES)
#define PORT_VXLAN     4789U

/* ---- UDP and TCP ---- */

/* The payload lies from `at` on. */
static int payload(const struct pdi_layer *layer, unsigned kind, struct pdi_carried *carried)
{
    uint32_t end = layer->end < layer->stop ? layer->end : layer->stop;
    carried->source.kind = (uint8_t)kind;
    carried->target.kind = (uint8_t)kind;
    carried->size = layer->at < end ? end - layer->at : 0;
    carried->data = layer->data + (layer->at < end ? layer->at : end);
    carried->whole = layer->stop - layer->at;
    return PYDDSI_OK;
}

static int pass_udp(struct pdi_layer *layer, struct pdi_carried *carried)
{
    const uint8_t *header = layer->data + layer->at;
    uint32_t bytes = pdi_big16(header + 4);
    if (pdi_big16(header + 2) == PORT_VXLAN)
        return pdi_refuse(carried, PDI_OTHER_TUNNEL, PORT_VXLAN);
    carried->source.port = pdi_big16(header);
    carried->target.port = pdi_big16(header + 2);
    if (bytes >= UDP_BYTES && bytes <= layer->stop - layer->at)
        layer->stop = layer->at + bytes;
    layer->at += UDP_BYTES;
    return payload(layer, carried->ip, carried);
}

static int pass_tcp(struct pdi_layer *layer, struct pdi_carried *carried)
{
    const uint8_t *header = layer->data + layer->at;
    uint32_t bytes = (header[12] >> 4) * 4U;
    if (bytes < TCP_BYTES || bytes > layer->stop - layer->at)
        return pdi_refuse(carried, PDI_OTHER_TCP, 0);
    carried->source.port = pdi_big16(header);
    carried->target.port = pdi_big16(header + 2);
    carried->sequence = pdi_big32(header + 4);
    carried->tcp_flags = header[13];
    layer->at += bytes;
    return payload(layer, carried->ip + 10U, carried);
}

static int pass_transport(struct pdi_layer *layer, struct pdi_carried *carried)
{
    unsigned protocol = carried->protocol;
    if (protocol == PDI_PROTOCOL_GRE || protocol == PDI_PROTOCOL_IPV4 ||
        protocol == PDI_PROTOCOL_IPV6)
        return pdi_refuse(carried, PDI_OTHER_TUNNEL, protocol);
    if (protocol != PDI_PROTOCOL_UDP && protocol != PDI_PROTOCOL_TCP)
        return pdi_refuse(carried, PDI_OTHER_PROTOCOL, protocol);
    if (!pdi_layer_has(layer, protocol == PDI_PROTOCOL_UDP ? UDP_BYTES : TCP_BYTES))
        return pdi_refuse(carried, PDI_OTHER_SHORT, 0);
    return protocol == PDI_PROTOCOL_UDP ? pass_udp(layer, carried) : pass_tcp(layer, carried);
}

/* ---- the whole way ---- */

static int pass_all(struct pdi_dissector *dissector, const struct pdi_frame *frame,
                    struct pdi_carried *carried)
{
    struct pdi_layer layer = {.data = frame->data, .end = frame->size, .stop = frame->size};
    *carried = (struct pdi_carried){0};
    if (frame->stranger)
        return pdi_refuse(carried, PDI_OTHER_BLOCK, frame->block_kind);
    int status = pdi_pass_link(&layer, frame->link, carried);
    if (status == PYDDSI_OK)
        status = pdi_pass_ip(dissector, &layer, frame->time_ns, carried);
    if (status == PYDDSI_OK)
        status = pass_transport(&layer, carried);
    return status;
}

/* A call of its own, so that the straight path has no registers to save. */
__attribute__((noinline)) static int
general(struct pdi_dissector *dissector, const struct pdi_frame *frame, struct pdi_carried *carried)
{
    int status = pass_all(dissector, frame, carried);
    if (status == PYDDSI_END)
        dissector->others[carried->other]++;
    return status;
}

/* The usual frame; answers whether it was one. */
static bool straight(const struct pdi_frame *frame, struct pdi_carried *carried)
{
    const uint8_t *data = frame->data;
    if (frame->size < STRAIGHT_BYTES || frame->link != ETHERNET)
        return false;
    uint32_t total = pdi_big16(data + 16);
    uint32_t bytes = pdi_big16(data + 38);
    if (pdi_big16(data + 12) != PDI_KIND_IPV4 || data[14] != 0x45 ||
        (pdi_big16(data + 20) & (PDI_IPV4_MORE | PDI_IPV4_OFFSET)) != 0 ||
        data[23] != PDI_PROTOCOL_UDP || total < PDI_IPV4_BYTES + UDP_BYTES ||
        pdi_big16(data + 36) == PORT_VXLAN)
        return false;
    uint32_t room = total - PDI_IPV4_BYTES;
    uint32_t whole = (bytes >= UDP_BYTES && bytes <= room ? bytes : room) - UDP_BYTES;
    uint32_t captured = frame->size - STRAIGHT_BYTES;
    *carried = (struct pdi_carried){
        .source = {.port = pdi_big16(data + 34), .kind = 4},
        .target = {.port = pdi_big16(data + 36), .kind = 4},
        .data = data + STRAIGHT_BYTES,
        .size = whole < captured ? whole : captured,
        .whole = whole,
        .identity = pdi_big16(data + 18),
        .ip = 4,
        .protocol = PDI_PROTOCOL_UDP,
    };
    memcpy(carried->source.ip, data + 26, 4);
    memcpy(carried->target.ip, data + 30, 4);
    return true;
}

int pdi_dissect(struct pdi_dissector *dissector, const struct pdi_frame *frame,
                struct pdi_carried *carried)
{
    if (straight(frame, carried))
        return PYDDSI_OK;
    return general(dissector, frame, carried);
}

/* ---- words ---- */

static const char *tunnel_name(uint32_t detail)
{
    switch (detail) {
    case 0x8847:
    case 0x8848:
        return "MPLS";
    case 0x8863:
    case 0x8864:
        return "PPPoE";
    case PDI_PROTOCOL_GRE:
        return "GRE";
    case PORT_VXLAN:
        return "VXLAN";
    default:
        return "IP-in-IP";
    }
}

void pdi_other_print(unsigned other, uint32_t detail, char *out, size_t room)
{
    static const struct {
        const char *text;
        unsigned base; /* in which the detail stands behind it; 0: it does not */
    } words[PDI_OTHER_COUNT] = {
        [PDI_OTHER_NONE] = {"", 0},
        [PDI_OTHER_BLOCK] = {"pcapng block ", 16},
        [PDI_OTHER_LINK] = {"link type ", 10},
        [PDI_OTHER_ETHERTYPE] = {"ethertype ", 16},
        [PDI_OTHER_FAMILY] = {"address family ", 10},
        [PDI_OTHER_PROTOCOL] = {"IP protocol ", 10},
        [PDI_OTHER_SHORT] = {"short packet", 0},
        [PDI_OTHER_IP] = {"bad IP header", 0},
        [PDI_OTHER_TCP] = {"bad TCP header", 0},
        [PDI_OTHER_FRAGMENT] = {"fragment", 0},
        [PDI_OTHER_TUNNEL] = {" tunnel", 0},
    };
    unsigned row = other < PDI_OTHER_COUNT ? other : PDI_OTHER_NONE;
    const char *text = words[row].text;
    if (row == PDI_OTHER_ETHERTYPE && detail == 0)
        (void)snprintf(out, room, "no ethertype (802.3)");
    else if (words[row].base == 16)
        (void)snprintf(out, room, "%s0x%0*" PRIx32, text, row == PDI_OTHER_ETHERTYPE ? 4 : 1,
                       detail);
    else if (words[row].base == 10)
        (void)snprintf(out, room, "%s%" PRIu32, text, detail);
    else
        (void)snprintf(out, room, "%s%s", row == PDI_OTHER_TUNNEL ? tunnel_name(detail) : "", text);
}
