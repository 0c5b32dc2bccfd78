/* tcp_store.c - the directions of TCP as bytes, and back: the one idle longest first, with what it holds. */
#include <string.h>

#include "base/bitset.h"
#include "base/check.h"
#include "capture/store.h"
#include "capture/tcp_state.h"

enum { DIRECTION_BEGUN = 1, DIRECTION_ENDED = 2, DIRECTION_LOST = 4, DIRECTION_FLAGS = 8 };

/* Positions stay below this for as long as anybody could read packets. */
#define POSITION_MAX (UINT64_C(1) << 62)

static void store_piece(struct pdi_store *store, const struct pdi_tcp *tcp,
                        const struct pdi_held *held, uint64_t before)
{
    const struct pdi_tcp_piece *piece = &held->piece;
    pdi_store_put(store, piece->position - before);
    pdi_store_put(store, piece->number);
    pdi_store_put(store, piece->offset);
    pdi_store_put(store, (uint64_t)piece->time_ns);
    pdi_store_put(store, piece->end ? 0 : piece->size);
    if (piece->end)
        return;
    pdi_store_put(store, piece->bytes);
    if (piece->bytes != 0)
        pdi_store_put_raw(store, tcp->arena + held->at, piece->bytes);
}

static void store_direction(struct pdi_store *store, const struct pdi_tcp *tcp,
                            const struct pdi_tcp_direction *direction)
{
    unsigned flags = (direction->begun ? DIRECTION_BEGUN : 0U) |
                     (direction->ended ? DIRECTION_ENDED : 0U) |
                     (direction->lost ? DIRECTION_LOST : 0U);
    uint64_t before = direction->next;
    pdi_store_put_raw(store, (const uint8_t *)direction->key.source, 16);
    pdi_store_put_raw(store, (const uint8_t *)direction->key.target, 16);
    pdi_store_put(store, direction->key.ports);
    pdi_store_put(store, flags);
    pdi_store_put(store, direction->first);
    pdi_store_put(store, direction->next);
    pdi_store_put(store, direction->missing);
    for (uint32_t i = direction->held_first; i != PDI_HELD_NONE; i = tcp->held[i].next) {
        pdi_store_put(store, 1);
        store_piece(store, tcp, &tcp->held[i], before);
        before = tcp->held[i].piece.position;
    }
    pdi_store_put(store, 0);
}

size_t pdi_tcp_store(const struct pdi_tcp *tcp, uint8_t *out, size_t room)
{
    struct pdi_store store = {.out = out, .room = room};
    PDI_CHECK(tcp->step == tcp->steps && tcp->finishing == PDI_TCP_NONE);
    pdi_store_put(&store, tcp->late);
    pdi_store_put(&store, tcp->count);
    for (uint16_t i = tcp->oldest; i != PDI_TCP_NONE; i = tcp->direction[i].newer) {
        pdi_store_put(&store, i);
        store_direction(&store, tcp, &tcp->direction[i]);
    }
    return store.size;
}

/* One piece that |direction| holds; they come in order, none at or before what was delivered. */
static void load_piece(struct pdi_restore *load, struct pdi_tcp *tcp,
                       struct pdi_tcp_direction *direction)
{
    const struct pdi_tcp_piece *last = NULL;
    if (direction->held_last != PDI_HELD_NONE)
        last = &tcp->held[direction->held_last].piece;
    uint64_t before = last != NULL ? last->position : direction->next;
    uint64_t limit = direction->next + PDI_TCP_JUMP_MAX + PDI_FRAME_BYTES_MAX;
    struct pdi_tcp_piece piece = {
        .position = before + pdi_store_get_from(load, last == NULL, limit - before),
        .number = pdi_store_get(load, UINT64_MAX)};
    piece.offset = pdi_store_get(load, UINT64_MAX);
    piece.time_ns = (int64_t)pdi_store_get(load, UINT64_MAX);
    piece.size = (uint32_t)pdi_store_get(load, PDI_FRAME_BYTES_MAX);
    piece.end = piece.size == 0;
    piece.bytes = piece.end ? 0 : (uint32_t)pdi_store_get(load, piece.size);
    piece.size += piece.end;
    uint32_t cost = pdi_held_cost(&piece);
    const uint8_t *data = pdi_store_get_view(load, piece.bytes);
    if (data == NULL || direction->cost + cost > PDI_TCP_HELD_MAX ||
        tcp->cost + cost > PDI_TCP_HELD_TOTAL_MAX) {
        load->bad = true;
        return;
    }
    pdi_held_put(tcp, direction, &piece, data);
}

static void load_direction(struct pdi_restore *load, struct pdi_tcp *tcp, uint16_t index)
{
    struct pdi_tcp_direction *direction = &tcp->direction[index];
    struct pdi_tcp_key key;
    pdi_store_get_raw(load, (uint8_t *)key.source, sizeof(key.source));
    pdi_store_get_raw(load, (uint8_t *)key.target, sizeof(key.target));
    key.ports = pdi_store_get_from(load, UINT64_C(14) << 32, (UINT64_C(17) << 32) - 1);
    if (load->bad || key.ports >> 32 == 15 || pdi_tcp_find(tcp, &key) != PDI_TCP_NONE) {
        load->bad = true;
        return;
    }
    uint64_t flags = pdi_store_get(load, DIRECTION_FLAGS - 1);
    pdi_tcp_put(tcp, index, &key, 0);
    direction->first = (uint32_t)pdi_store_get(load, UINT32_MAX);
    direction->next = pdi_store_get_from(load, PDI_TCP_ROUND, POSITION_MAX);
    direction->missing = pdi_store_get(load, POSITION_MAX);
    direction->begun = (flags & DIRECTION_BEGUN) != 0;
    direction->ended = (flags & DIRECTION_ENDED) != 0;
    direction->lost = (flags & DIRECTION_LOST) != 0;
    while (pdi_store_get(load, direction->ended ? 0 : 1) != 0) { /* what may be held is limited */
        load_piece(load, tcp, direction);
    }
}

static void load(struct pdi_restore *load, struct pdi_tcp *tcp)
{
    uint64_t used[PDI_BITSET_WORDS(PDI_TCP_DIRECTIONS_MAX)] = {0};
    uint64_t late = pdi_store_get(load, UINT64_MAX);
    uint32_t count = (uint32_t)pdi_store_get(load, PDI_TCP_DIRECTIONS_MAX);
    for (uint32_t i = 0; i < count && !load->bad; i++) {
        uint32_t index = pdi_store_get_index(load, count);
        if (load->bad || pdi_bitset_test(used, index)) {
            load->bad = true;
            return;
        }
        load_direction(load, tcp, (uint16_t)index);
        pdi_bitset_set(used, index);
    }
    tcp->late = late;
    tcp->count = count;
}

int pdi_tcp_load(struct pdi_tcp *tcp, const uint8_t *data, size_t size)
{
    struct pdi_restore from = {.at = data, .end = data + size};
    pdi_tcp_init(tcp);
    load(&from, tcp);
    if (!from.bad && from.at == from.end)
        return PYDDSI_OK;
    pdi_tcp_init(tcp);
    return PYDDSI_BAD_INPUT;
}
