/* ip.c - through IP to what it carries: options, extension headers, pieces. */
#include "capture/layer.h"

#define IPV6_BYTES      40U
#define EXTENSION_BYTES 8U /* the least */
#define IPV6_MORE       0x0001U
#define IPV6_OFFSET     0xFFF8U

/* What may stand between IPv6 and its payload. */
enum {
    PROTOCOL_HOP = 0,
    PROTOCOL_ROUTING = 43,
    PROTOCOL_FRAGMENT = 44,
    PROTOCOL_AUTHENTICATION = 51,
    PROTOCOL_OPTIONS = 60,
    PROTOCOL_MOBILITY = 135,
};

/* Where in its packet a piece belongs. */
struct place {
    uint32_t identity;
    uint32_t offset;
    bool more;
};

/* A piece came: waits with the others, or they are whole and the layer is what they carried. */
static int pass_piece(struct pdi_dissector *dissector, struct pdi_layer *layer, int64_t time_ns,
                      const struct place *place, struct pdi_carried *carried)
{
    struct pdi_piece_key key = {
        .identity = place->identity, .protocol = carried->protocol, .ip = carried->ip};
    const uint8_t *whole;
    uint32_t size;
    uint32_t given_up;
    if (layer->end < layer->stop || layer->at > layer->end)
        return pdi_refuse(carried, PDI_OTHER_FRAGMENT, 0);
    memcpy(key.source, carried->source.ip, sizeof(key.source));
    memcpy(key.target, carried->target.ip, sizeof(key.target));
    int status =
        pdi_pieces_push(dissector->pieces, &key, time_ns, place->offset, layer->data + layer->at,
                        layer->end - layer->at, place->more, &whole, &size, &given_up);
    dissector->others[PDI_OTHER_FRAGMENT] += given_up;
    carried->piece = status == PYDDSI_OK ? PDI_PIECE_WHOLE : PDI_PIECE_WAITS;
    if (status == PYDDSI_OK)
        *layer = (struct pdi_layer){.data = whole, .at = 0, .end = size, .stop = size};
    return status;
}

/* How far the packet goes that begins at `at`; behind that lies padding. Without a length, which the network card was
 * to fill in when it cut a large packet up, all that was captured belongs to it. */
static void set_stop(struct pdi_layer *layer, uint32_t bytes)
{
    layer->stop = bytes != 0 ? layer->at + bytes : layer->end;
    if (layer->end > layer->stop)
        layer->end = layer->stop;
}

static int pass_ipv4(struct pdi_dissector *dissector, struct pdi_layer *layer, int64_t time_ns,
                     struct pdi_carried *carried)
{
    if (!pdi_layer_has(layer, PDI_IPV4_BYTES))
        return pdi_refuse(carried, PDI_OTHER_SHORT, 0);
    const uint8_t *header = layer->data + layer->at;
    uint32_t bytes = (header[0] & 15U) * 4;
    unsigned cut = pdi_big16(header + 6);
    carried->ip = 4;
    carried->protocol = header[9];
    carried->identity = pdi_big16(header + 4);
    memcpy(carried->source.ip, header + 12, 4);
    memcpy(carried->target.ip, header + 16, 4);
    set_stop(layer, pdi_big16(header + 2));
    layer->at += bytes;
    if (bytes < PDI_IPV4_BYTES || layer->stop < layer->at)
        return pdi_refuse(carried, PDI_OTHER_IP, 0);
    if ((cut & (PDI_IPV4_MORE | PDI_IPV4_OFFSET)) == 0)
        return PYDDSI_OK;
    struct place place = {.identity = carried->identity,
                          .offset = (cut & PDI_IPV4_OFFSET) * 8,
                          .more = (cut & PDI_IPV4_MORE) != 0};
    return pass_piece(dissector, layer, time_ns, &place, carried);
}

static bool is_extension(unsigned protocol)
{
    return protocol == PROTOCOL_HOP || protocol == PROTOCOL_ROUTING ||
           protocol == PROTOCOL_FRAGMENT || protocol == PROTOCOL_AUTHENTICATION ||
           protocol == PROTOCOL_OPTIONS || protocol == PROTOCOL_MOBILITY;
}

/* Passes what stands between IPv6 and its payload. OK: all of it; AGAIN: up to a piece, which belongs at |place|. A
 * packet that is its own only fragment is none. */
static int pass_extensions(struct pdi_layer *layer, struct place *place,
                           struct pdi_carried *carried)
{
    for (unsigned i = 0; i < PDI_EXTENSIONS_MAX && is_extension(carried->protocol); i++) {
        if (!pdi_layer_has(layer, EXTENSION_BYTES))
            return pdi_refuse(carried, PDI_OTHER_SHORT, 0);
        const uint8_t *header = layer->data + layer->at;
        unsigned protocol = carried->protocol;
        carried->protocol = header[0];
        if (protocol == PROTOCOL_FRAGMENT) {
            unsigned cut = pdi_big16(header + 2);
            layer->at += EXTENSION_BYTES;
            *place =
                (struct place){pdi_big32(header + 4), cut & IPV6_OFFSET, (cut & IPV6_MORE) != 0};
            if ((cut & (IPV6_OFFSET | IPV6_MORE)) != 0)
                return PYDDSI_AGAIN;
        } else if (protocol == PROTOCOL_AUTHENTICATION) {
            layer->at += (header[1] + 2U) * 4;
        } else {
            layer->at += (header[1] + 1U) * 8;
        }
    }
    return PYDDSI_OK;
}

static int pass_ipv6(struct pdi_dissector *dissector, struct pdi_layer *layer, int64_t time_ns,
                     struct pdi_carried *carried)
{
    if (!pdi_layer_has(layer, IPV6_BYTES))
        return pdi_refuse(carried, PDI_OTHER_SHORT, 0);
    const uint8_t *header = layer->data + layer->at;
    uint32_t bytes = pdi_big16(header + 4);
    struct place place;
    carried->ip = 6;
    carried->protocol = header[6];
    memcpy(carried->source.ip, header + 8, 16);
    memcpy(carried->target.ip, header + 24, 16);
    set_stop(layer, bytes != 0 ? IPV6_BYTES + bytes : 0);
    layer->at += IPV6_BYTES;
    int status = pass_extensions(layer, &place, carried);
    if (status != PYDDSI_AGAIN)
        return status;
    status = pass_piece(dissector, layer, time_ns, &place, carried);
    if (status != PYDDSI_OK)
        return status;
    status = pass_extensions(layer, &place, carried); /* those that were cut up with the rest */
    return status == PYDDSI_AGAIN ? pdi_refuse(carried, PDI_OTHER_IP, 0) : status;
}

int pdi_pass_ip(struct pdi_dissector *dissector, struct pdi_layer *layer, int64_t time_ns,
                struct pdi_carried *carried)
{
    if (!pdi_layer_has(layer, 1))
        return pdi_refuse(carried, PDI_OTHER_SHORT, 0);
    switch (layer->data[layer->at] >> 4) { /* more often right than what the link layer says */
    case 4:
        return pass_ipv4(dissector, layer, time_ns, carried);
    case 6:
        return pass_ipv6(dissector, layer, time_ns, carried);
    default:
        return pdi_refuse(carried, PDI_OTHER_IP, 0);
    }
}
