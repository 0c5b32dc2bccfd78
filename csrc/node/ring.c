/* ring.c - where samples wait for their reader.
 *
 * A ring has one producer, the receive side, and one consumer, the reader. Its head is moved by compare-and-swap by both: by the
 * reader when it takes, and by the producer when the reader asked to lose the oldest. Whoever moved the head owns the record
 * that it stood on.
 *
 * A record is a view: the bytes stay in the slot of their packet, or in the assembler, which is held until the reader
 * releases the sample. Those for a reader that drops are copies (keep.c).
 */
#include "node/state.h"

uint32_t pdi_ring_used(const struct pdi_subscriber *reader)
{
    return (uint32_t)(pdi_atomic64_load_relaxed(&reader->tail) -
                      pdi_atomic64_load_acquire(&reader->head));
}

void pdi_ring_release(struct pdi_node *node, uint32_t held)
{
    if ((held & (PDI_SERIES_BIT | PDI_ENV_HELD)) == PDI_ENV_HELD) {
        node->env.release(node->env.context, held);
        return;
    }
    if ((held & PDI_SERIES_BIT) == 0) {
        pdi_pool_drop(&node->pool, held);
        return;
    }
    if (pdi_keep_has(held)) {
        pdi_keep_release(node, held);
        return;
    }
    uint32_t series = held & ~PDI_SERIES_BIT;
    if (--node->series_holds[series] == 0) {
        pdi_assembler_free(&node->assembler, series);
        node->kick = node->kick || node->holding != 0;
    }
}

static void hold(struct pdi_node *node, uint32_t held)
{
    if ((held & (PDI_SERIES_BIT | PDI_ENV_HELD)) == PDI_ENV_HELD) {
        node->env.hold(node->env.context, held);
    } else if ((held & PDI_SERIES_BIT) == 0) {
        pdi_pool_hold(&node->pool, held);
    } else {
        node->series_holds[held & ~PDI_SERIES_BIT]++;
    }
}

static pyddsi_received *record_at(const struct pdi_node *node, const struct pdi_subscriber *reader,
                                  uint64_t count)
{
    return &node->records[reader->ring + (uint32_t)(count & (reader->ring_size - 1))];
}

/* Takes the oldest out, if it is still there. */
static bool pop(struct pdi_node *node, struct pdi_subscriber *reader, pyddsi_received *record)
{
    uint64_t head = pdi_atomic64_load_acquire(&reader->head);
    /* each failure of the swap is a step of somebody else */
    while (head != pdi_atomic64_load_acquire(&reader->tail)) {
        *record = *record_at(node, reader, head);
        if (pdi_atomic64_cas(&reader->head, &head, head + 1)) {
            reader->kept -= pdi_keep_pages(node, record->held);
            return true;
        }
    }
    return false;
}

static void append(struct pdi_node *node, struct pdi_subscriber *reader,
                   const pyddsi_received *record)
{
    uint64_t tail = pdi_atomic64_load_relaxed(&reader->tail);
    *record_at(node, reader, tail) = *record;
    pdi_atomic64_store_release(&reader->tail, tail + 1);
}

/* Ends of answers that are older stay, at the end now: a reader may wait for nothing else. */
bool pdi_ring_shed(struct pdi_node *node, struct pdi_subscriber *reader, pdi_time now)
{
    pyddsi_received oldest;
    for (uint32_t i = 0; i < reader->depth && pop(node, reader, &oldest); i++) {
        if (!oldest.last) {
            pdi_ring_release(node, oldest.held);
            pdi_drop(node, PYDDSI_AT_RING, PYDDSI_BY_OVERWRITTEN, oldest.space, oldest.resource, 1,
                     now);
            return true;
        }
        append(node, reader, &oldest);
    }
    return false;
}

void pdi_ring_push(struct pdi_node *node, struct pdi_subscriber *reader,
                   const pyddsi_received *record, pdi_time now)
{
    bool gives_way = reader->on_full == PYDDSI_DROP_OLDEST || record->last;
    bool copies = reader->on_full != PYDDSI_WAIT && !record->last;
    bool room =
        pdi_ring_used(reader) < reader->depth || (gives_way && pdi_ring_shed(node, reader, now));
    pyddsi_received ours = *record;
    if (!room || (copies && !pdi_keep(node, reader, &ours, now))) {
        if (!record->last) { /* else the ring is full of ends, and one more says nothing new */
            pdi_drop(node, PYDDSI_AT_RING, PYDDSI_BY_FULL, record->space, record->resource, 1, now);
        }
        return;
    }
    if (!copies) {
        hold(node, record->held);
    }
    append(node, reader, &ours);
    node->stats.delivered++;
}

/* The first `max` samples of a batch, each as *model but for its bytes. There is room for them, and they lie in a packet. */
void pdi_ring_pour(struct pdi_node *node, struct pdi_subscriber *reader,
                   const pyddsi_received *model, pyddsi_list *samples, uint32_t max)
{
    struct pdi_reader in = {samples->data, samples->data + samples->size};
    uint64_t tail = pdi_atomic64_load_relaxed(&reader->tail);
    pdi_pool_hold_many(&node->pool, model->held, max);
    for (uint32_t i = 0; i < max; i++) {
        uint64_t size = 0;
        enum pdi_vle status = pdi_vle_get(&in, UINT16_MAX, PDI_VLE_MAX, &size);
        PDI_CHECK((status == PDI_VLE_OK || status == PDI_VLE_LONG_FORM) &&
                  size <= pdi_reader_left(&in)); /* the decoder has been here */
        (void)status;
        pyddsi_received *record = record_at(node, reader, tail + i);
        *record = *model;
        record->data = in.at;
        record->size = (size_t)size;
        in.at += size;
    }
    samples->size -= (size_t)(in.at - samples->data);
    samples->data = in.at;
    samples->count -= max;
    pdi_atomic64_store_release(&reader->tail, tail + max);
    node->stats.delivered += max;
}

/* The same for samples that came past the sockets. */
void pdi_ring_pour_brought(struct pdi_node *node, struct pdi_subscriber *reader,
                           const pyddsi_received *model, const struct pdi_poured *samples,
                           uint32_t count)
{
    uint64_t tail = pdi_atomic64_load_relaxed(&reader->tail);
    for (uint32_t i = 0; i < count; i++) {
        pyddsi_received *record = record_at(node, reader, tail + i);
        *record = *model;
        record->data = samples[i].data.data;
        record->size = samples[i].data.size;
        record->number = samples[i].number;
        record->held = samples[i].held;
    }
    pdi_atomic64_store_release(&reader->tail, tail + count);
    node->stats.delivered += count;
}

/* Everything that a reader has not taken. */
void pdi_ring_drop(struct pdi_node *node, struct pdi_subscriber *reader, enum pyddsi_reason reason,
                   pdi_time now)
{
    pyddsi_received record;
    while (pop(node, reader, &record)) { /* at most the ring */
        pdi_ring_release(node, record.held);
        if (!record.last) {
            pdi_drop(node, PYDDSI_AT_RING, reason, record.space, record.resource, 1, now);
        }
    }
}

/* ---- the reader's side ---- */

int pdi_node_take(struct pdi_node *node, uint32_t subscriber, pyddsi_received *sample, pdi_time now)
{
    struct pdi_subscriber *reader = pdi_subscriber_get(node, subscriber);
    node->now = now > node->now ? now : node->now;
    if (reader == NULL) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (!pop(node, reader, sample)) {
        return PYDDSI_AGAIN;
    }
    if (node->holding != 0 || node->own_waiting != 0) {
        node->kick = 1; /* what is held may have waited for this place */
    }
    node->stats.taken++;
    return PYDDSI_OK;
}

int pdi_node_take_many(struct pdi_node *node, uint32_t subscriber, pyddsi_received *samples,
                       size_t max, size_t *count, pdi_time now)
{
    struct pdi_subscriber *reader = pdi_subscriber_get(node, subscriber);
    node->now = now > node->now ? now : node->now;
    *count = 0;
    if (reader == NULL) {
        return PYDDSI_BAD_ARGUMENT;
    }
    uint64_t head = pdi_atomic64_load_acquire(&reader->head);
    size_t some;
    do { /* each failure of the swap is a step of the producer, who dropped the oldest */
        size_t there = (size_t)(pdi_atomic64_load_acquire(&reader->tail) - head);
        some = there < max ? there : max;
        for (size_t i = 0; i < some; i++) {
            samples[i] = *record_at(node, reader, head + i);
        }
    } while (some != 0 && !pdi_atomic64_cas(&reader->head, &head, head + some));
    if (some == 0) {
        return PYDDSI_AGAIN;
    }
    if (node->holding != 0 || node->own_waiting != 0) {
        node->kick = 1; /* what is held may have waited for these places */
    }
    for (size_t i = 0; reader->kept != 0 && i < some; i++) {
        reader->kept -= pdi_keep_pages(node, samples[i].held);
    }
    node->stats.taken += some;
    *count = some;
    return PYDDSI_OK;
}

void pdi_node_release(struct pdi_node *node, const pyddsi_received *sample)
{
    node->kick = node->kick || node->own_waiting != 0; /* for whose history there was no memory */
    pdi_ring_release(node, sample->held);
}

void pdi_node_release_many(struct pdi_node *node, const pyddsi_received *samples, size_t count)
{
    node->kick = node->kick || node->own_waiting != 0;
    for (size_t i = 0; i < count;) { /* one round for each run of one packet */
        uint32_t held = samples[i].held;
        uint32_t run = 1;
        while (i + run < count && samples[i + run].held == held) {
            run++;
        }
        if ((held & (PDI_SERIES_BIT | PDI_ENV_HELD)) == 0) {
            pdi_pool_drop_many(&node->pool, held, run);
        } else {
            for (uint32_t k = 0; k < run; k++) {
                pdi_ring_release(node, held);
            }
        }
        i += run;
    }
}

void pdi_node_unread(struct pdi_node *node, const pyddsi_received *samples, size_t count,
                     enum pyddsi_reason reason, pdi_time now)
{
    node->stats.taken -= count;
    for (size_t i = 0; i < count; i++) {
        pdi_drop(node, PYDDSI_AT_RING, reason, samples[i].space, samples[i].resource, 1, now);
    }
}
