/* tcp_held.c - what waits behind holes: lists by position, and an arena for the bytes. */
#include <string.h>

#include "base/check.h"
#include "capture/tcp_state.h"

/* Stands in the arena in front of the bytes of each piece. */
struct record {
    uint32_t held;
    uint32_t bytes; /* of the record, rounded up to its alignment */
};

static uint32_t record_bytes(uint32_t bytes)
{
    return ((uint32_t)sizeof(struct record) + bytes + 7) & ~UINT32_C(7);
}

/* Moves what is still held to the bottom of the arena. */
static void compact(struct pdi_tcp *tcp)
{
    uint32_t to = 0;
    uint32_t bytes;
    for (uint32_t at = 0; at < tcp->top; at += bytes) { /* a record has eight bytes at least */
        struct record record;
        memcpy(&record, tcp->arena + at, sizeof(record));
        bytes = record.bytes;
        uint32_t data = at + (uint32_t)sizeof(record);
        if (tcp->held[record.held].at != data)
            continue;
        memmove(tcp->arena + to, tcp->arena + at, bytes);
        tcp->held[record.held].at = to + (uint32_t)sizeof(record);
        to += bytes;
    }
    tcp->top = to;
}

/* Keeps the bytes of a piece. */
static void keep(struct pdi_tcp *tcp, uint32_t held, const uint8_t *data, uint32_t bytes)
{
    struct record record = {.held = held, .bytes = record_bytes(bytes)};
    if (record.bytes > PDI_ARENA_BYTES - tcp->top)
        compact(tcp);
    PDI_CHECK(record.bytes <= PDI_ARENA_BYTES - tcp->top);
    memcpy(tcp->arena + tcp->top, &record, sizeof(record));
    memcpy(tcp->arena + tcp->top + sizeof(record), data, bytes);
    tcp->held[held].at = tcp->top + (uint32_t)sizeof(record);
    tcp->top += record.bytes;
}

void pdi_held_put(struct pdi_tcp *tcp, struct pdi_tcp_direction *direction,
                  const struct pdi_tcp_piece *piece, const uint8_t *data)
{
    uint32_t index = tcp->held_free;
    if (index == PDI_HELD_NONE)
        index = tcp->held_fresh++;
    else
        tcp->held_free = tcp->held[index].next;
    PDI_CHECK(index < PDI_HELD_MAX);
    struct pdi_held *held = &tcp->held[index];
    *held = (struct pdi_held){.piece = *piece, .at = PDI_HELD_NONE, .next = PDI_HELD_NONE};
    if (piece->bytes != 0)
        keep(tcp, index, data, piece->bytes);
    uint32_t before = direction->held_last; /* packets that are late come in order, usually */
    while (before != PDI_HELD_NONE && tcp->held[before].piece.position > piece->position)
        before = tcp->held[before].previous;
    held->previous = before;
    uint32_t *link = before == PDI_HELD_NONE ? &direction->held_first : &tcp->held[before].next;
    held->next = *link;
    *link = index;
    *(held->next == PDI_HELD_NONE ? &direction->held_last : &tcp->held[held->next].previous) =
        index;
    direction->cost += pdi_held_cost(piece);
    tcp->cost += pdi_held_cost(piece);
}

const uint8_t *pdi_held_get(struct pdi_tcp *tcp, struct pdi_tcp_direction *direction,
                            struct pdi_tcp_piece *piece)
{
    uint32_t index = direction->held_first;
    struct pdi_held *held = &tcp->held[index];
    const uint8_t *data = held->at != PDI_HELD_NONE ? tcp->arena + held->at : NULL;
    *piece = held->piece;
    direction->held_first = held->next;
    *(held->next == PDI_HELD_NONE ? &direction->held_last : &tcp->held[held->next].previous) =
        PDI_HELD_NONE;
    direction->cost -= pdi_held_cost(piece);
    tcp->cost -= pdi_held_cost(piece);
    held->at = PDI_HELD_NONE;
    held->next = tcp->held_free;
    tcp->held_free = index;
    if (tcp->cost == 0)
        tcp->top = 0;
    return data;
}
