/* scan_store.c - a scan's state between two frames as bytes, and back.
 *
 *     layout │ container │ pieces │ TCP │ streams that are read │ copies │ times │ trace
 *
 * Each part that is written by somebody else has its size in front. As in trace_store.c, reading believes nothing; a state
 * that is refused leaves a scan that must be closed.
 */
#include <string.h>

#include "capture/scan.h"
#include "capture/store.h"
#include "wire/stream.h"

static void store_container(struct pdi_store *store, const struct pdi_container *container)
{
    pdi_store_put(store, container->kind);
    pdi_store_put(store, container->swapped);
    pdi_store_put(store, container->quick);
    pdi_store_put(store, container->fcs);
    pdi_store_put(store, container->framed);
    pdi_store_put(store, container->link);
    pdi_store_put(store, container->unit_ns);
    pdi_store_put(store, container->snap);
    pdi_store_put(store, container->sections);
    pdi_store_put(store, container->late);
    pdi_store_put(store, container->at);
    pdi_store_put(store, container->skip);
    pdi_store_put(store, container->frames);
    pdi_store_put(store, container->dropped);
    pdi_store_put(store, container->interfaces);
    for (uint32_t i = 0; i < container->interfaces && i < PDI_INTERFACES_MAX; i++) {
        const struct pdi_interface *interface = &container->interface[i];
        pdi_store_put_signed(store, interface->offset_s);
        pdi_store_put(store, interface->multiply);
        pdi_store_put(store, interface->divide);
        pdi_store_put(store, interface->shift);
        pdi_store_put(store, interface->snap);
        pdi_store_put(store, interface->link);
        pdi_store_put(store, interface->fcs);
        pdi_store_put(store, interface->dropped);
    }
}

static void load_container(struct pdi_restore *load, struct pdi_container *container)
{
    container->kind = (uint8_t)pdi_store_get(load, PDI_CONTAINER_PCAPNG);
    container->swapped = (uint8_t)pdi_store_get(load, 1);
    container->quick = (uint8_t)pdi_store_get(load, 1);
    container->fcs = (uint8_t)pdi_store_get(load, 255);
    container->framed = (uint8_t)pdi_store_get(load, 1);
    container->link = (uint16_t)pdi_store_get(load, UINT16_MAX);
    container->unit_ns = (uint32_t)pdi_store_get(load, 1000);
    container->snap = (uint32_t)pdi_store_get(load, UINT32_MAX);
    container->sections = (uint32_t)pdi_store_get(load, UINT32_MAX);
    container->late = (uint32_t)pdi_store_get(load, UINT32_MAX);
    container->at = pdi_store_get(load, UINT64_MAX);
    container->skip = pdi_store_get(load, UINT64_MAX);
    container->frames = pdi_store_get(load, UINT64_MAX);
    container->dropped = pdi_store_get(load, UINT64_MAX);
    container->interfaces = (uint32_t)pdi_store_get(load, UINT32_MAX);
    load->bad |= container->quick && (container->kind != PDI_CONTAINER_PCAP || container->swapped);
    for (uint32_t i = 0; i < container->interfaces && i < PDI_INTERFACES_MAX; i++) {
        struct pdi_interface *interface = &container->interface[i];
        interface->offset_s = pdi_store_get_signed(load);
        interface->multiply = (uint32_t)pdi_store_get(load, UINT32_MAX);
        interface->divide = pdi_store_get(load, UINT64_MAX);
        interface->shift = (uint8_t)pdi_store_get(load, 63);
        interface->snap = (uint32_t)pdi_store_get(load, UINT32_MAX);
        interface->link = (uint16_t)pdi_store_get(load, UINT16_MAX);
        interface->fcs = (uint8_t)pdi_store_get(load, UINT8_MAX);
        interface->dropped = pdi_store_get(load, UINT64_MAX);
        load->bad |= interface->divide == 0;
    }
}

/* A part that somebody else writes: its size, which is known when it is written, and its bytes. */
typedef size_t store_function(const void *part, uint8_t *out, size_t room);

static void store_part(struct pdi_store *store, const void *part, store_function *write)
{
    size_t size = write(part, NULL, 0);
    pdi_store_put(store, size);
    if (store->size <= store->room && store->room - store->size >= size) {
        (void)write(part, store->out + store->size, size);
    }
    store->size += size;
}

static size_t store_pieces(const void *part, uint8_t *out, size_t room)
{
    return pdi_pieces_store(part, out, room);
}

static size_t store_tcp(const void *part, uint8_t *out, size_t room)
{
    return pdi_tcp_store(part, out, room);
}

static size_t store_trace(const void *part, uint8_t *out, size_t room)
{
    return pdi_trace_store(part, out, room);
}

static pyddsi_bytes load_part(struct pdi_restore *load)
{
    size_t size = (size_t)pdi_store_get(load, (uint64_t)(load->end - load->at));
    return (pyddsi_bytes){pdi_store_get_view(load, size), size};
}

static void store_streams(struct pdi_store *store, const struct pdi_scan *scan)
{
    for (uint32_t i = 0; i < PDI_TCP_DIRECTIONS_MAX; i++) {
        const struct pdi_stream_seen *stream = &scan->streams[i];
        if (stream->state != PDI_STREAM_NONE) {
            pdi_store_put(store, i + 1);
            pdi_store_put(store, stream->state);
            pdi_store_put(store, stream->found);
            pdi_store_put(store, stream->stream.unframed);
            pdi_store_put_bytes(store, stream->bytes, stream->used);
        }
    }
    pdi_store_put(store, 0);
}

static void load_streams(struct pdi_restore *load, struct pdi_scan *scan)
{
    for (uint32_t round = 0; round <= PDI_TCP_DIRECTIONS_MAX; round++) {
        uint32_t i = (uint32_t)pdi_store_get(load, PDI_TCP_DIRECTIONS_MAX);
        if (i == 0 || load->bad) {
            return;
        }
        struct pdi_stream_seen *stream = &scan->streams[i - 1];
        pdi_stream_init(&stream->stream, &scan->reading[1], 0);
        stream->state = (uint8_t)pdi_store_get(load, PDI_STREAM_OVER);
        stream->found = (uint8_t)pdi_store_get(load, 1);
        stream->stream.unframed = (uint8_t)pdi_store_get(load, 1);
        stream->used = (uint32_t)pdi_store_get_bytes(load, stream->bytes, sizeof stream->bytes);
    }
    load->bad = true;
}

size_t pdi_scan_store(const struct pdi_scan *scan, uint8_t *out, size_t room)
{
    struct pdi_store store = {.out = out, .room = room};
    pdi_store_put(&store, PYDDSI_SNAPSHOT_LAYOUT);
    store_container(&store, &scan->container);
    store_part(&store, scan->dissector.pieces, store_pieces);
    store_part(&store, scan->tcp, store_tcp);
    store_streams(&store, scan);
    for (uint32_t i = 0; i < PDI_RECENT_MAX; i++) {
        pdi_store_put(&store, scan->recent[i].hash);
        pdi_store_put(&store, scan->recent[i].hash != 0 ? scan->recent[i].way : 0);
        pdi_store_put_time(&store,
                           scan->recent[i].hash != 0 ? scan->recent[i].time_ns : PDI_NONE64);
    }
    pdi_store_put_time(&store, scan->last_ns);
    pdi_store_put_time(&store, scan->latest_ns);
    store_part(&store, scan->trace, store_trace);
    return store.size;
}

int pdi_scan_load(struct pdi_scan *scan, const uint8_t *data, size_t size)
{
    struct pdi_restore load = {.at = data, .end = data + size};
    if (pdi_store_get(&load, UINT64_MAX) != PYDDSI_SNAPSHOT_LAYOUT) {
        return PYDDSI_BAD_INPUT;
    }
    load_container(&load, &scan->container);
    pyddsi_bytes pieces = load_part(&load), tcp = load_part(&load);
    load_streams(&load, scan);
    for (uint32_t i = 0; i < PDI_RECENT_MAX; i++) {
        scan->recent[i].hash = pdi_store_get(&load, UINT64_MAX);
        scan->recent[i].way = pdi_store_get(&load, UINT64_MAX);
        scan->recent[i].time_ns = pdi_store_get_time(&load);
    }
    scan->last_ns = pdi_store_get_time(&load);
    scan->latest_ns = pdi_store_get_time(&load);
    pyddsi_bytes trace = load_part(&load);
    if (load.bad || load.at != load.end ||
        pdi_pieces_load(scan->dissector.pieces, pieces.data, pieces.size) != PYDDSI_OK ||
        pdi_tcp_load(scan->tcp, tcp.data, tcp.size) != PYDDSI_OK ||
        pdi_trace_load(scan->trace, trace.data, trace.size) != PYDDSI_OK) {
        return PYDDSI_BAD_INPUT;
    }
    return PYDDSI_OK;
}
