/* tcp_store.c - the directions of TCP as bytes, and back: the one idle longest first, with what it holds. */
#include <string.h>

#include "base/bitset.h"
#include "base/check.h"
#include "capture/snapshot.h"
#include "capture/tcp_state.h"

enum { DIRECTION_BEGUN = 1, DIRECTION_ENDED = 2, DIRECTION_LOST = 4, DIRECTION_FLAGS = 8 };

/* Positions stay below this for as long as anybody could read packets. */
#define POSITION_MAX (UINT64_C(1) << 62)

static void store_piece(struct pdi_snapshot *snapshot, const struct pdi_tcp *tcp,
                        const struct pdi_held *held, uint64_t before)
{
    const struct pdi_tcp_piece *piece = &held->piece;
    pdi_snapshot_number(snapshot, piece->position - before);
    pdi_snapshot_number(snapshot, piece->number);
    pdi_snapshot_number(snapshot, piece->offset);
    pdi_snapshot_number(snapshot, (uint64_t)piece->time_ns);
    pdi_snapshot_number(snapshot, piece->end ? 0 : piece->size);
    if (piece->end)
        return;
    pdi_snapshot_number(snapshot, piece->bytes);
    if (piece->bytes != 0)
        pdi_snapshot_bytes(snapshot, tcp->arena + held->at, piece->bytes);
}

static void store_direction(struct pdi_snapshot *snapshot, const struct pdi_tcp *tcp,
                            const struct pdi_tcp_direction *direction)
{
    unsigned flags = (direction->begun ? DIRECTION_BEGUN : 0U) |
                     (direction->ended ? DIRECTION_ENDED : 0U) |
                     (direction->lost ? DIRECTION_LOST : 0U);
    uint64_t before = direction->next;
    pdi_snapshot_bytes(snapshot, (const uint8_t *)direction->key.source, 16);
    pdi_snapshot_bytes(snapshot, (const uint8_t *)direction->key.target, 16);
    pdi_snapshot_number(snapshot, direction->key.ports);
    pdi_snapshot_number(snapshot, flags);
    pdi_snapshot_number(snapshot, direction->first);
    pdi_snapshot_number(snapshot, direction->next);
    for (uint32_t i = direction->held_first; i != PDI_HELD_NONE; i = tcp->held[i].next) {
        pdi_snapshot_number(snapshot, 1);
        store_piece(snapshot, tcp, &tcp->held[i], before);
        before = tcp->held[i].piece.position;
    }
    pdi_snapshot_number(snapshot, 0);
}

static void store(struct pdi_snapshot *snapshot, const struct pdi_tcp *tcp)
{
    pdi_snapshot_number(snapshot, tcp->late);
    pdi_snapshot_number(snapshot, tcp->count);
    for (uint16_t i = tcp->oldest; i != PDI_TCP_NONE; i = tcp->direction[i].newer) {
        pdi_snapshot_number(snapshot, i);
        store_direction(snapshot, tcp, &tcp->direction[i]);
    }
}

size_t pdi_tcp_store(const struct pdi_tcp *tcp, uint8_t *out, size_t room)
{
    struct pdi_snapshot snapshot = {0};
    PDI_CHECK(tcp->step == tcp->steps && tcp->finishing == PDI_TCP_NONE);
    store(&snapshot, tcp);
    if (snapshot.size <= room) {
        snapshot = (struct pdi_snapshot){.out = out};
        store(&snapshot, tcp);
    }
    return snapshot.size;
}

/* One piece that |direction| holds; they come in order, none at or before what was delivered. */
static bool load_piece(struct pdi_reader *reader, struct pdi_tcp *tcp,
                       struct pdi_tcp_direction *direction)
{
    const struct pdi_tcp_piece *last = NULL;
    if (direction->held_last != PDI_HELD_NONE)
        last = &tcp->held[direction->held_last].piece;
    uint64_t before = last != NULL ? last->position : direction->next;
    uint64_t limit = direction->next + PDI_TCP_JUMP_MAX + PDI_FRAME_BYTES_MAX;
    uint64_t gap, number, offset, time, size, bytes = 0;
    if (!pdi_snapshot_get(reader, last == NULL, limit - before, &gap) ||
        !pdi_snapshot_get(reader, 0, UINT64_MAX, &number) ||
        !pdi_snapshot_get(reader, 0, UINT64_MAX, &offset) ||
        !pdi_snapshot_get(reader, 0, UINT64_MAX, &time) ||
        !pdi_snapshot_get(reader, 0, PDI_FRAME_BYTES_MAX, &size))
        return false;
    if (size != 0 && !pdi_snapshot_get(reader, 0, size, &bytes))
        return false;
    struct pdi_tcp_piece piece = {.position = before + gap,
                                  .number = number,
                                  .offset = offset,
                                  .time_ns = (int64_t)time,
                                  .size = size != 0 ? (uint32_t)size : 1,
                                  .bytes = (uint32_t)bytes,
                                  .end = size == 0};
    uint32_t cost = pdi_held_cost(&piece);
    if (pdi_reader_left(reader) < bytes || direction->cost + cost > PDI_TCP_HELD_MAX ||
        tcp->cost + cost > PDI_TCP_HELD_TOTAL_MAX)
        return false;
    pdi_held_put(tcp, direction, &piece, reader->at);
    reader->at += bytes;
    return true;
}

static bool load_direction(struct pdi_reader *reader, struct pdi_tcp *tcp, uint16_t index)
{
    struct pdi_tcp_direction *direction = &tcp->direction[index];
    struct pdi_tcp_key key;
    uint64_t flags, first, next, more;
    if (!pdi_snapshot_take(reader, (uint8_t *)key.source, sizeof(key.source)) ||
        !pdi_snapshot_take(reader, (uint8_t *)key.target, sizeof(key.target)) ||
        !pdi_snapshot_get(reader, UINT64_C(14) << 32, (UINT64_C(17) << 32) - 1, &key.ports) ||
        key.ports >> 32 == 15 || pdi_tcp_find(tcp, &key) != PDI_TCP_NONE ||
        !pdi_snapshot_get(reader, 0, DIRECTION_FLAGS - 1, &flags) ||
        !pdi_snapshot_get(reader, 0, UINT32_MAX, &first) ||
        !pdi_snapshot_get(reader, PDI_TCP_ROUND, POSITION_MAX, &next))
        return false;
    pdi_tcp_put(tcp, index, &key, 0);
    direction->next = next;
    direction->first = (uint32_t)first;
    direction->begun = (flags & DIRECTION_BEGUN) != 0;
    direction->ended = (flags & DIRECTION_ENDED) != 0;
    direction->lost = (flags & DIRECTION_LOST) != 0;
    uint64_t more_max = direction->ended ? 0 : 1;
    for (;;) { /* what may be held is limited */
        if (!pdi_snapshot_get(reader, 0, more_max, &more))
            return false;
        if (more == 0)
            return true;
        if (!load_piece(reader, tcp, direction))
            return false;
    }
}

static bool load(struct pdi_reader *reader, struct pdi_tcp *tcp)
{
    uint64_t used[PDI_BITSET_WORDS(PDI_TCP_DIRECTIONS_MAX)] = {0};
    uint64_t count, index;
    if (!pdi_snapshot_get(reader, 0, UINT64_MAX, &tcp->late) ||
        !pdi_snapshot_get(reader, 0, PDI_TCP_DIRECTIONS_MAX, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!pdi_snapshot_get(reader, 0, count - 1, &index) ||
            pdi_bitset_test(used, (uint32_t)index) || !load_direction(reader, tcp, (uint16_t)index))
            return false;
        pdi_bitset_set(used, (uint32_t)index);
    }
    tcp->count = (uint32_t)count;
    return pdi_reader_left(reader) == 0;
}

int pdi_tcp_load(struct pdi_tcp *tcp, const uint8_t *data, size_t size)
{
    struct pdi_reader reader = {data, data + size};
    pdi_tcp_init(tcp);
    if (load(&reader, tcp))
        return PYDDSI_OK;
    pdi_tcp_init(tcp);
    return PYDDSI_BAD_INPUT;
}
