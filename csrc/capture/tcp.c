/* tcp.c - TCP packets go in, each direction's bytes come out: what a packet sets going, step by step. */
#include "capture/tcp.h"

#include <string.h>

#include "base/check.h"
#include "capture/tcp_state.h"

enum { FLAG_FIN = 1, FLAG_SYN = 2, FLAG_RST = 4 };

size_t pdi_tcp_size(void)
{
    return sizeof(struct pdi_tcp);
}

struct pdi_tcp *pdi_tcp_init(void *memory)
{
    struct pdi_tcp *tcp = memory;
    memset(tcp, 0, offsetof(struct pdi_tcp, bucket)); /* the rest is set when it is used */
    memset(tcp->bucket, 0xFF, sizeof(tcp->bucket));   /* PDI_TCP_NONE */
    tcp->oldest = PDI_TCP_NONE;
    tcp->newest = PDI_TCP_NONE;
    tcp->finishing = PDI_TCP_NONE;
    tcp->held_free = PDI_HELD_NONE;
    return tcp;
}

/* ---- what comes out ---- */

static pyddsi_endpoint endpoint_of(const uint64_t ip[2], uint64_t port, uint64_t kind)
{
    pyddsi_endpoint endpoint = {.port = (uint16_t)port, .kind = (uint8_t)kind};
    memcpy(endpoint.ip, ip, sizeof(endpoint.ip));
    return endpoint;
}

/* A part without bytes, that came with |piece|. */
static void part_begin(const struct pdi_tcp *tcp, uint16_t index, const struct pdi_tcp_piece *piece,
                       struct pdi_part *part)
{
    const struct pdi_tcp_key *key = &tcp->direction[index].key;
    *part = (struct pdi_part){
        .source = endpoint_of(key->source, key->ports >> 16, key->ports >> 32),
        .target = endpoint_of(key->target, key->ports, key->ports >> 32),
        .number = piece->number,
        .offset = piece->offset,
        .time_ns = piece->time_ns,
        .direction = index,
    };
}

/* A packet that reached |after| though the direction has ended; a repetition reaches less far. */
static void count_late(struct pdi_tcp *tcp, const struct pdi_tcp_direction *direction,
                       uint64_t after)
{
    tcp->late += after > direction->next;
}

/* Moves `next` behind a piece that begins at it or before. Answers whether a part comes out. */
static bool deliver(struct pdi_tcp *tcp, uint16_t index, const struct pdi_tcp_piece *piece,
                    const uint8_t *data, struct pdi_part *part)
{
    struct pdi_tcp_direction *direction = &tcp->direction[index];
    uint64_t known = direction->next - piece->position;
    if (known >= piece->size)
        return false;
    direction->next = piece->position + piece->size;
    bool some = piece->bytes > known || piece->end;
    if (some) {
        part_begin(tcp, index, piece, part);
        if (piece->bytes > known) {
            part->data = data + known;
            part->size = piece->bytes - (uint32_t)known;
        }
        part->end = piece->end;
        part->lost = direction->lost;
        part->missing = direction->missing;
        direction->lost = false;
        direction->missing = 0;
        direction->ended = piece->end;
    }
    if (!piece->end && piece->bytes < piece->size) {
        /* the snap length took the rest; a repetition would be cut as well */
        direction->lost = true;
        direction->missing += piece->size - (piece->bytes > known ? piece->bytes : known);
    }
    return some;
}

/* ---- order ---- */

/* The pieces of the packet that are still to be laid somewhere; null if there is none. */
static const struct pdi_tcp_piece *pending(const struct pdi_tcp_segment *arrival)
{
    return arrival->at < arrival->pieces ? &arrival->piece[arrival->at] : NULL;
}

/* The nearest piece of all: of equals the one that came first, which is held. */
static const struct pdi_tcp_piece *nearest(const struct pdi_tcp *tcp,
                                           const struct pdi_tcp_direction *direction)
{
    const struct pdi_tcp_piece *came = pending(&tcp->arrival);
    if (direction->held_first == PDI_HELD_NONE)
        return came;
    const struct pdi_tcp_piece *held = &tcp->held[direction->held_first].piece;
    return came != NULL && came->position < held->position ? came : held;
}

/* Takes the nearest piece off, which must be there. */
static const uint8_t *take(struct pdi_tcp *tcp, struct pdi_tcp_direction *direction,
                           struct pdi_tcp_piece *piece)
{
    struct pdi_tcp_segment *arrival = &tcp->arrival;
    const struct pdi_tcp_piece *came = pending(arrival);
    if (came == NULL || nearest(tcp, direction) != came)
        return pdi_held_get(tcp, direction, piece);
    *piece = *came;
    arrival->at++;
    return arrival->data;
}

/* Holds what is left of the packet; answers whether there is room. */
static bool hold(struct pdi_tcp *tcp, struct pdi_tcp_direction *direction)
{
    struct pdi_tcp_segment *arrival = &tcp->arrival;
    uint32_t cost = 0;
    for (uint8_t i = arrival->at; i < arrival->pieces; i++)
        cost += pdi_held_cost(&arrival->piece[i]);
    if (direction->cost + cost > PDI_TCP_HELD_MAX || tcp->cost + cost > PDI_TCP_HELD_TOTAL_MAX)
        return false;
    for (; arrival->at < arrival->pieces; arrival->at++)
        pdi_held_put(tcp, direction, &arrival->piece[arrival->at], arrival->data);
    return true;
}

/* Behind the end nothing comes out. */
static void drop(struct pdi_tcp *tcp, struct pdi_tcp_direction *direction)
{
    while (nearest(tcp, direction) != NULL) {
        struct pdi_tcp_piece piece;
        take(tcp, direction, &piece);
        count_late(tcp, direction, piece.position + piece.size);
    }
}

/* Whether the nearest that is held has waited as long as it may when the packet at hand comes. */
static bool waited_long(const struct pdi_tcp *tcp, const struct pdi_tcp_direction *direction)
{
    int64_t since;
    return direction->held_first != PDI_HELD_NONE &&
           !__builtin_sub_overflow(tcp->arrival.piece[0].time_ns,
                                   tcp->held[direction->held_first].piece.time_ns, &since) &&
           since > PDI_TCP_WAIT_NS;
}

/* The next part of what is in order. A hole is given up if all has to come out, or if there is no room or time to wait for it
 * to close. Each turn takes a piece off or gives up the hole before one, so there are twice as many as pieces. */
static bool drain(struct pdi_tcp *tcp, uint16_t index, bool all, struct pdi_part *part)
{
    struct pdi_tcp_direction *direction = &tcp->direction[index];
    for (;;) {
        if (direction->ended)
            drop(tcp, direction);
        const struct pdi_tcp_piece *first = nearest(tcp, direction);
        if (first == NULL)
            return false;
        if (first->position > direction->next) {
            if (!all && !waited_long(tcp, direction) &&
                (pending(&tcp->arrival) == NULL || hold(tcp, direction)))
                return false;
            direction->missing += first->position - direction->next;
            direction->next = first->position;
            direction->lost = true;
        }
        struct pdi_tcp_piece piece;
        const uint8_t *data = take(tcp, direction, &piece);
        if (deliver(tcp, index, &piece, data, part))
            return true;
    }
}

/* ---- steps ---- */

/* The end of a direction that did not say it itself. */
static bool end(struct pdi_tcp *tcp, const struct pdi_tcp_step *step, struct pdi_part *part)
{
    struct pdi_tcp_direction *direction = &tcp->direction[step->direction];
    if (drain(tcp, step->direction, true, part))
        return true;
    if (direction->ended)
        return false;
    part_begin(tcp, step->direction, &tcp->arrival.piece[0], part);
    part->end = 1;
    part->lost = direction->lost || step->lost;
    part->missing = direction->missing;
    direction->ended = true;
    return true;
}

/* The place becomes the new direction's, with its SYN or in the middle. */
static bool begin(struct pdi_tcp *tcp, const struct pdi_tcp_step *step, struct pdi_part *part)
{
    struct pdi_tcp_direction *direction = &tcp->direction[step->direction];
    const struct pdi_tcp_segment *arrival = &tcp->arrival;
    bool lost = step->lost && !direction->ended;
    if (step->direction < tcp->count)
        pdi_tcp_remove(tcp, step->direction);
    else
        tcp->count++;
    pdi_tcp_put(tcp, step->direction, &arrival->key, arrival->sequence);
    direction->lost = lost;
    if (!arrival->start)
        return false;
    direction->begun = true;
    direction->first = arrival->syn;
    part_begin(tcp, step->direction, &arrival->piece[0], part);
    part->start = 1;
    return true;
}

/* Lays the packet on the line of its direction. */
static void lay(struct pdi_tcp *tcp, uint16_t index)
{
    struct pdi_tcp_direction *direction = &tcp->direction[index];
    struct pdi_tcp_segment *arrival = &tcp->arrival;
    struct pdi_tcp_piece *bytes = &arrival->piece[0];
    struct pdi_tcp_piece *end = &arrival->piece[1];
    bytes->position = direction->next;
    bytes->position += (uint64_t)(int64_t)(int32_t)(arrival->sequence - (uint32_t)direction->next);
    *end = *bytes;
    end->position += bytes->size;
    end->size = 1;
    end->bytes = 0;
    end->end = true;
    if (direction->ended) {
        count_late(tcp, direction, end->position);
        return;
    }
    arrival->at = bytes->size == 0; /* then there is the end alone, or nothing */
    arrival->pieces = arrival->fin ? 2 : 1;
}

/* Does a step, or the next part of it. Answers whether a part comes out; otherwise the step is done. */
static bool run(struct pdi_tcp *tcp, const struct pdi_tcp_step *step, struct pdi_part *part)
{
    switch (step->kind) {
    case PDI_STEP_LAY:
        lay(tcp, step->direction);
        return false;
    case PDI_STEP_BEGIN:
        return begin(tcp, step, part);
    case PDI_STEP_END:
        return end(tcp, step, part);
    default:
        return drain(tcp, step->direction, step->kind == PDI_STEP_FLUSH, part);
    }
}

int pdi_tcp_pop(struct pdi_tcp *tcp, struct pdi_part *part)
{
    while (tcp->step < tcp->steps) {
        const struct pdi_tcp_step *step = &tcp->todo[tcp->step];
        bool once = step->kind == PDI_STEP_BEGIN || step->kind == PDI_STEP_LAY;
        bool some = run(tcp, step, part);
        if (once || !some)
            tcp->step++;
        if (some)
            return PYDDSI_OK;
    }
    while (tcp->finishing != PDI_TCP_NONE) {
        if (drain(tcp, tcp->finishing, true, part))
            return PYDDSI_OK;
        tcp->finishing = tcp->direction[tcp->finishing].newer;
    }
    return PYDDSI_END;
}

static void add(struct pdi_tcp *tcp, enum pdi_tcp_step_kind kind, uint16_t direction, bool lost)
{
    PDI_CHECK(tcp->steps < PDI_TCP_STEPS_MAX);
    tcp->todo[tcp->steps++] =
        (struct pdi_tcp_step){.kind = (uint8_t)kind, .lost = lost, .direction = direction};
}

/* ---- packets ---- */

static struct pdi_tcp_segment arrival_of(const struct pdi_frame *frame,
                                         const struct pdi_carried *carried)
{
    bool syn = (carried->tcp_flags & FLAG_SYN) != 0;
    struct pdi_tcp_segment arrival = {
        .key.ports = (uint64_t)carried->source.kind << 32 | (uint64_t)carried->source.port << 16 |
                     carried->target.port,
        .piece[0] = {.number = frame->number,
                     .offset = frame->offset,
                     .time_ns = frame->time_ns,
                     .size = carried->whole,
                     .bytes = carried->size},
        .data = carried->data,
        .sequence = carried->sequence + syn,
        .syn = carried->sequence,
        .fin = (carried->tcp_flags & FLAG_FIN) != 0,
    };
    memcpy(arrival.key.source, carried->source.ip, sizeof(arrival.key.source));
    memcpy(arrival.key.target, carried->target.ip, sizeof(arrival.key.target));
    return arrival;
}

/* Both directions end. */
static void reset(struct pdi_tcp *tcp)
{
    const struct pdi_tcp_key *key = &tcp->arrival.key;
    struct pdi_tcp_key back = {
        .ports = key->ports >> 32 << 32 | (key->ports & 0xFFFF) << 16 | (key->ports >> 16 & 0xFFFF),
    };
    memcpy(back.source, key->target, sizeof(back.source));
    memcpy(back.target, key->source, sizeof(back.target));
    const uint16_t sides[] = {pdi_tcp_find(tcp, key), pdi_tcp_find(tcp, &back)};
    for (unsigned i = 0; i < 2; i++) {
        if (sides[i] != PDI_TCP_NONE)
            add(tcp, PDI_STEP_END, sides[i], false);
    }
}

/* Whether a SYN begins a direction, and is no repetition of the one that has. */
static bool starts(const struct pdi_tcp *tcp, uint16_t index)
{
    return index == PDI_TCP_NONE || !tcp->direction[index].begun ||
           tcp->direction[index].first != tcp->arrival.syn;
}

/* Whether a sequence number is too far from where its direction stands to be of the same connection. */
static bool jumps(const struct pdi_tcp_direction *direction, uint32_t sequence)
{
    int64_t ahead = (int32_t)(sequence - (uint32_t)direction->next);
    return ahead > (int64_t)PDI_TCP_JUMP_MAX || ahead < -(int64_t)PDI_TCP_JUMP_MAX;
}

/* A place for a direction that is not known yet. */
static uint16_t make_room(struct pdi_tcp *tcp)
{
    if (tcp->count < PDI_TCP_DIRECTIONS_MAX)
        return (uint16_t)tcp->count;
    add(tcp, PDI_STEP_END, tcp->oldest, true);
    return tcp->oldest;
}

void pdi_tcp_push(struct pdi_tcp *tcp, const struct pdi_frame *frame,
                  const struct pdi_carried *carried)
{
    struct pdi_tcp_segment *arrival = &tcp->arrival;
    unsigned flags = carried->tcp_flags;
    PDI_CHECK(tcp->step == tcp->steps && tcp->finishing == PDI_TCP_NONE);
    PDI_CHECK(carried->size <= carried->whole && carried->whole <= PDI_FRAME_BYTES_MAX);
    tcp->step = 0;
    tcp->steps = 0;
    if (carried->whole == 0 && (flags & (FLAG_SYN | FLAG_FIN | FLAG_RST)) == 0)
        return; /* an acknowledgement */
    *arrival = arrival_of(frame, carried);
    if ((flags & FLAG_RST) != 0) {
        reset(tcp);
        return;
    }
    uint16_t index = pdi_tcp_find(tcp, &arrival->key);
    bool known = index != PDI_TCP_NONE;
    arrival->start = (flags & FLAG_SYN) != 0 && starts(tcp, index);
    if (!known && !arrival->start && carried->whole == 0)
        return; /* the end of what we never saw */
    bool jump = known && !arrival->start && jumps(&tcp->direction[index], arrival->sequence);
    if (!known)
        index = make_room(tcp);
    else if (arrival->start || jump)
        add(tcp, PDI_STEP_FLUSH, index, false);
    else
        pdi_tcp_touch(tcp, index);
    if (!known || arrival->start || jump)
        add(tcp, PDI_STEP_BEGIN, index, jump);
    add(tcp, PDI_STEP_LAY, index, false);
    add(tcp, PDI_STEP_DRAIN, index, false);
}

void pdi_tcp_finish(struct pdi_tcp *tcp)
{
    PDI_CHECK(tcp->step == tcp->steps);
    tcp->finishing = tcp->oldest;
}

uint64_t pdi_tcp_late(const struct pdi_tcp *tcp)
{
    return tcp->late;
}
