/* assembly.c - places for samples that come in pieces: who gets one, who waits, and who gives one up.
 *
 * A sample in pieces needs a place (an entry and memory) from its first piece until its last reader has done with it.
 *
 *                    no place                          keeps one without going on
 *     reliable       waits: its conduit is held at     while others wait: given up after a multiple of slow_ms
 *                    the first piece                   (not while its sender waits for a reader of ours)
 *     best effort    lost, with a line                 given up at the next message of its sender that is not the
 *                                                      next piece, after PDI_ASSEMBLY_LOOSE_MS, and at once for a
 *                                                      reliable one
 *
 * What waits is not acknowledged, so nothing reliable is lost for want of a place, except what no waiting helps: the owner
 * of all places is the conduit that would wait, and its own later pieces stand behind this one. Two conduits can
 * wait for each other, too, each with a place that the other one needs; neither goes on then, and the one that has stood
 * still for longest is given up.
 *
 * A peer gets half of the memory and half of the entries at most while there are others.
 */
#include "node/state.h"

static bool is_growing(const struct pdi_series *series)
{
    return series->state == PDI_SERIES_GROWING;
}

/* Something has become free, or will not go on: who waits for a place may have it. */
static void freed(struct pdi_node *node)
{
    node->kick = node->kick || node->holding != 0;
}

static void give_up(struct pdi_node *node, uint32_t series, enum pyddsi_reason reason, pdi_time now)
{
    const struct pdi_series *gone = &node->assembler.series[series];
    pdi_drop(node, PYDDSI_AT_ASSEMBLY, reason, gone->space, gone->id, 1, now);
    pdi_assembler_drop(&node->assembler, series);
    freed(node);
}

/* Whether a reader of ours holds up a conduit of this peer: then it is not the peer that does not go on. */
static bool waits_for_readers(const struct pdi_node *node, uint32_t peer)
{
    for (uint32_t conduit = 0; conduit < node->config.conduits_in; conduit++) {
        if (pdi_node_order(node, peer, conduit)->held == PDI_HELD_READER) {
            return true;
        }
    }
    return false;
}

/* The series that has stood still for longest, best effort or reliable, or PDI_SERIES_NONE. */
static uint32_t stillest(const struct pdi_node *node, bool in_order)
{
    const struct pdi_assembler *assembler = &node->assembler;
    uint32_t found = PDI_SERIES_NONE;
    for (uint32_t i = 0; i < assembler->series_max; i++) {
        const struct pdi_series *series = &assembler->series[i];
        if (is_growing(series) && series->in_order == in_order &&
            (found == PDI_SERIES_NONE || series->moved < assembler->series[found].moved) &&
            !(in_order && waits_for_readers(node, (uint32_t)(series->owner >> 32)))) {
            found = i;
        }
    }
    return found;
}

static void watch(struct pdi_node *node, pdi_time due)
{
    if (due < pdi_heap_get(&node->timers, PDI_TIMER_ASSEMBLY)) {
        pdi_timer_set(node, PDI_TIMER_ASSEMBLY, due);
    }
}

static pdi_time patience(const struct pdi_node *node, bool in_order)
{
    uint64_t slow_ms = node->config.slow_ms != 0 ? node->config.slow_ms : PDI_ASSEMBLY_LOOSE_MS;
    return PDI_TIME_MS * (in_order ? PDI_ASSEMBLY_STUCK * slow_ms : PDI_ASSEMBLY_LOOSE_MS);
}

/* Whether a conduit waits for a place. */
static bool wanted(const struct pdi_node *node)
{
    uint32_t orders = node->peers_used * node->config.conduits_in;
    for (uint32_t i = node->holding == 0 ? orders : pdi_bitset_find(node->held, orders, 0);
         i < orders; i = pdi_bitset_find(node->held, orders, i + 1)) {
        if (node->orders[i].held == PDI_HELD_PLACE) {
            return true;
        }
    }
    return false;
}

/* Gives up what has stood still for too long; answers when to look again. */
static pdi_time sweep(struct pdi_node *node, bool in_order, enum pyddsi_reason reason, pdi_time now)
{
    uint32_t series;
    while ((series = stillest(node, in_order)) != PDI_SERIES_NONE) { /* each round frees one */
        pdi_time due = pdi_time_add(node->assembler.series[series].moved, patience(node, in_order));
        if (due > now) {
            return due;
        }
        give_up(node, series, reason, now);
    }
    return in_order ? pdi_time_add(now, patience(node, true)) : PDI_TIME_NEVER;
}

void pdi_assembly_tick(struct pdi_node *node, pdi_time now)
{
    pdi_time due =
        node->assembler.loose != 0 ? sweep(node, false, PYDDSI_BY_INCOMPLETE, now) : PDI_TIME_NEVER;
    if (wanted(node)) {
        pdi_time stuck = sweep(node, true, PYDDSI_BY_LIMIT, now);
        due = stuck < due ? stuck : due;
    }
    pdi_timer_set(node, PDI_TIMER_ASSEMBLY, due);
}

void pdi_assembly_pass(struct pdi_node *node, const struct pdi_arrival *arrival, pdi_time now)
{
    uint32_t series =
        pdi_assembler_broken(&node->assembler, pdi_arrival_owner(arrival), arrival->number);
    if (series != PDI_SERIES_NONE) { /* an owner of best effort has one growing series at most */
        give_up(node, series, PYDDSI_BY_INCOMPLETE, now);
    }
}

void pdi_assembly_forget(struct pdi_node *node, uint64_t mask, uint64_t match,
                         enum pyddsi_reason reason, pdi_time now)
{
    uint32_t lost = pdi_assembler_forget(&node->assembler, mask, match);
    if (lost != 0) {
        pdi_drop(node, PYDDSI_AT_ASSEMBLY, reason, 0, 0, lost, now);
        freed(node);
    }
}

/* Whether a peer uses so much that others would have nothing: half of the pages, or of the entries, while there are
 * others. What is best effort does not count against what is reliable, as it goes when that has no place. *alone: all that
 * counts is of this very conduit. */
static bool greedy(const struct pdi_node *node, const struct pdi_fragment *piece, uint32_t peer,
                   bool *alone)
{
    const struct pdi_assembler *assembler = &node->assembler;
    uint64_t pages = pdi_assembler_pages(assembler, piece);
    uint32_t entries = 0;
    *alone = true;
    for (uint32_t i = 0;
         node->established > 1 && assembler->growing != 0 && i < assembler->series_max; i++) {
        const struct pdi_series *series = &assembler->series[i];
        if (is_growing(series) && series->owner >> 32 == peer &&
            (series->in_order || !piece->in_order)) {
            pages += series->pages;
            entries++;
            *alone = *alone && series->owner == piece->owner;
        }
    }
    return entries != 0 &&
           (pages > assembler->pages.pages / 2 || entries >= (assembler->series_max + 1) / 2);
}

/* Whether something else than this conduit could make room: a reader that looks at a sample, or another conduit. */
static bool others_hold(const struct pdi_node *node, uint64_t owner)
{
    const struct pdi_assembler *assembler = &node->assembler;
    bool others = assembler->used > assembler->growing;
    for (uint32_t i = 0; !others && i < assembler->series_max; i++) {
        others = is_growing(&assembler->series[i]) && assembler->series[i].owner != owner;
    }
    return others;
}

/* Sees to it that a piece of a reliable sample has its place. OK; AGAIN: it must wait; END: it will never have one. */
static int find_place(struct pdi_node *node, const struct pdi_fragment *piece, uint32_t peer,
                      pdi_time now)
{
    bool alone = false;
    bool wants = piece->number == piece->first;
    if (wants && greedy(node, piece, peer, &alone)) {
        if (alone) {
            return PYDDSI_END;
        }
    } else {
        bool room = pdi_assembler_room(&node->assembler, piece);
        while (!room && node->assembler.loose != 0) { /* each round frees one */
            give_up(node, stillest(node, false), PYDDSI_BY_FULL, now);
            room = pdi_assembler_room(&node->assembler, piece);
        }
        if (room || !others_hold(node, piece->owner)) {
            return PYDDSI_OK;
        }
    }
    bool looked_at = node->assembler.used > node->assembler.growing;
    node->held_for = looked_at ? PDI_HELD_READER : PDI_HELD_PLACE;
    watch(node, pdi_time_add(now, patience(node, true)));
    return PYDDSI_AGAIN;
}

int pdi_assembly_input(struct pdi_node *node, const struct pdi_arrival *arrival,
                       const pyddsi_message *message, uint64_t id, uint32_t *series, pdi_time now)
{
    /* the first is never after this one */
    const struct pdi_seq *seq = &node->peers[arrival->peer].seq;
    uint64_t behind = pdi_seq_distance(seq, message->first, pdi_seq_wrap(seq, arrival->number));
    struct pdi_fragment piece = {
        .owner = pdi_arrival_owner(arrival),
        .number = arrival->number,
        .first = arrival->number - (int64_t)behind,
        .fragments = message->fragments > UINT32_MAX ? UINT32_MAX : (uint32_t)message->fragments,
        .in_order = arrival->reliable,
        .id = id,
        .space = (uint8_t)message->space,
        .payload = message->payload,
        .now = now,
    };
    bool alone;
    int dropped = 0;
    int status = PYDDSI_OK;
    *series = PDI_SERIES_NONE;
    if (arrival->reliable) {
        status = find_place(node, &piece, arrival->peer, now);
    } else if (piece.number == piece.first && greedy(node, &piece, arrival->peer, &alone)) {
        status = PYDDSI_END;
    }
    if (status == PYDDSI_AGAIN) {
        return PYDDSI_AGAIN;
    }
    if (status == PYDDSI_END) {
        pdi_drop(node, PYDDSI_AT_ASSEMBLY, PYDDSI_BY_LIMIT, piece.space, id, 1, now);
        return PYDDSI_OK;
    }
    status = pdi_assembler_input(&node->assembler, &piece, series, &dropped);
    if (dropped) {
        freed(node);
    }
    if (status == PYDDSI_OK && !arrival->reliable) {
        watch(node, pdi_time_add(now, patience(node, false)));
    } else if (status == PYDDSI_NO_SPACE) {
        bool large = (uint64_t)piece.fragments * piece.payload.size > node->config.sample_max;
        pdi_drop(node, PYDDSI_AT_ASSEMBLY, large ? PYDDSI_BY_SIZE : PYDDSI_BY_FULL, piece.space, id,
                 1, now);
    } else if (status == PYDDSI_BAD_INPUT && dropped) {
        pdi_drop(node, PYDDSI_AT_ASSEMBLY, PYDDSI_BY_INCOMPLETE, piece.space, id, 1, now);
    } else if (status == PYDDSI_BAD_INPUT && piece.number == piece.first) {
        pdi_drop(node, PYDDSI_AT_ASSEMBLY, PYDDSI_BY_BAD_BYTES, piece.space, id, 1, now);
    }
    return status == PYDDSI_END ? PYDDSI_END : PYDDSI_OK;
}
