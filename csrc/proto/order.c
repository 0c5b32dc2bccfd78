/* order.c - the receiver's side of one conduit: what is not the usual message. */
#include "proto/order.h"

#include <stdbool.h>

static struct pdi_kept *entry(const struct pdi_order *order, int64_t number)
{
    return &order->kept[(uint64_t)number & (order->capacity - UINT64_C(1))];
}

/* A number that is not below `expected`. */
static bool is_kept(const struct pdi_order *order, int64_t number)
{
    return number < order->marked && entry(order, number)->slot != PDI_ORDER_EMPTY;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The entry of a number at or above `expected` that is to be written. Entries are made empty only here, when they are
 * first needed: what was in memory before, or is of numbers long past, lies at or above `marked` and is never read.
 * At most `capacity` steps, and one for each number in all. */
static struct pdi_kept *mark(struct pdi_order *order, int64_t number)
{
    int64_t first = order->marked > order->expected ? order->marked : order->expected;
    for (int64_t next = first; next <= number; next++) {
        *entry(order, next) = (struct pdi_kept){.slot = PDI_ORDER_EMPTY};
    }
    order->marked = order->marked > number ? order->marked : number + 1;
    return entry(order, number);
}

/* Expects `base`, and knows of `count` numbers from there on. */
static void begin(struct pdi_order *order, int64_t base, uint64_t count)
{
    PDI_CHECK(order->count == 0);
    order->synched = 1;
    order->behind = 0;
    order->expected = base;
    order->end = base + (int64_t)count;
    order->base = base;
    order->marked = base;
    order->asks = 0;
    order->asked_expected = INT64_MIN; /* nothing was asked for */
}

int pdi_order_init(struct pdi_order *order, const struct pdi_seq *seq, struct pdi_kept *kept,
                   uint32_t capacity)
{
    if (capacity < PDI_ORDER_CAPACITY_MIN || capacity > PDI_ORDER_CAPACITY_MAX ||
        (capacity & (capacity - 1)) != 0 || capacity > seq->half) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *order = (struct pdi_order){
        .seq = seq, .kept = kept, .capacity = capacity, .reach = PDI_ORDER_MASK_BITS + 1};
    return PYDDSI_OK;
}

void pdi_order_start(struct pdi_order *order)
{
    begin(order, 0, 0);
}

enum pdi_order_verdict pdi_order_input_other(struct pdi_order *order, uint64_t sn, int64_t *number)
{
    if (!order->synched) {
        return PDI_ORDER_UNSYNCHED;
    }
    int64_t at = pdi_seq_unwrap(order->seq, order->expected, sn);
    *number = at;
    if (at < order->expected) {
        return PDI_ORDER_REPEAT;
    }
    order->behind = 0;
    if (order->end <= at) {
        order->end = at + 1;
    }
    if (at - order->expected >= order->capacity) {
        return PDI_ORDER_FAR;
    }
    if (is_kept(order, at)) {
        return PDI_ORDER_REPEAT;
    }
    return at == order->expected ? PDI_ORDER_NEXT : PDI_ORDER_EARLY;
}

void pdi_order_keep(struct pdi_order *order, int64_t number, const struct pdi_kept *kept)
{
    PDI_CHECK(number >= order->expected && number < order->end);
    PDI_CHECK(number - order->expected < order->capacity);
    PDI_CHECK(!is_kept(order, number) && kept->slot != PDI_ORDER_EMPTY);
    *mark(order, number) = *kept;
    order->count++;
}

void pdi_order_advance_marked(struct pdi_order *order)
{
    order->count -= entry(order, order->expected)->slot != PDI_ORDER_EMPTY;
}

/* Whether a SYNCH from behind is the one too many. Once it is, it stays so until the next thing
 * that is not from behind. */
static bool is_believed(struct pdi_order *order, pdi_time now)
{
    if (order->behind_at != order->expected) {
        order->behind_at = order->expected;
        order->behind = 0;
    }
    bool apart = pdi_time_add(order->counted, PDI_ORDER_BEHIND_APART) <= now;
    if (order->behind == 0 || (order->behind < PDI_ORDER_BEHIND_MAX && apart)) {
        order->since = order->behind == 0 ? now : order->since;
        order->behind++;
        order->counted = now;
    }
    return order->behind == PDI_ORDER_BEHIND_MAX;
}

int pdi_order_synch(struct pdi_order *order, uint64_t sn, uint64_t count, pdi_time now)
{
    if (count >= order->seq->half) {
        return PYDDSI_BAD_INPUT;
    }
    int64_t next = pdi_seq_unwrap(order->seq, order->expected, sn);
    bool anew = !order->synched || next > PDI_ORDER_COUNT_MAX;
    if (!anew && next < order->expected) {
        if (!is_believed(order, now)) {
            return PYDDSI_OK;
        }
        if (order->steady) {
            return PYDDSI_END;
        }
        anew = true;
    }
    if (anew) {
        if (order->count > 0) {
            return PYDDSI_AGAIN;
        }
        if (order->synched) {
            order->best_seen = 0; /* its best effort numbers began anew as well */
        }
        begin(order, (int64_t)pdi_seq_add(order->seq, sn, -count), count);
        return PYDDSI_OK;
    }
    order->behind = 0;
    if (order->end < next) {
        order->end = next;
    }
    if (order->base < next - (int64_t)count) {
        order->base = next - (int64_t)count;
    }
    return PYDDSI_OK;
}

int pdi_order_skip(struct pdi_order *order, struct pdi_gap *gap)
{
    if (order->expected >= order->base || order->held) {
        return PYDDSI_END;
    }
    int64_t first = order->expected;
    int64_t last = earlier(order->base, order->marked);
    int64_t stop = first;
    while (stop < last && !is_kept(order, stop)) { /* at most `capacity` steps */
        stop++;
    }
    stop = stop < last ? stop : order->base;
    if (stop == first) {
        return PYDDSI_END;
    }
    order->expected = stop;
    *gap = (struct pdi_gap){.first = first, .last = stop - 1, .lost = (uint64_t)(stop - first)};
    return PYDDSI_OK;
}

int pdi_order_clear(struct pdi_order *order, struct pdi_kept *kept)
{
    if (order->count == 0) {
        return PYDDSI_END;
    }
    /* From the top, so that `marked` remembers how far it got and all calls together look at no
     * entry twice. That a missing one was asked for is forgotten; it does no harm. */
    do {
        order->marked--;
    } while (entry(order, order->marked)->slot == PDI_ORDER_EMPTY);
    *kept = *entry(order, order->marked);
    order->count--;
    return PYDDSI_OK;
}

/* Whether nothing has come since it was asked last. */
static bool is_unanswered(const struct pdi_order *order)
{
    return order->asked_expected == order->expected && order->asked_count == order->count;
}

/* How long an answer is waited for now. */
static pdi_time pause_of(const struct pdi_order *order, pdi_time wait)
{
    uint32_t doublings = order->asks > 1 && is_unanswered(order) ? order->asks - 1 : 0;
    pdi_time pause = doublings < 20 ? wait << doublings : PDI_ORDER_ASK_SLOWEST;
    pdi_time slowest = wait > PDI_ORDER_ASK_SLOWEST ? wait : PDI_ORDER_ASK_SLOWEST;
    return pause < slowest ? pause : slowest;
}

/* Whether the number of this entry is missing, and may be asked for. */
static bool is_askable(const struct pdi_kept *kept, pdi_time now, pdi_time wait)
{
    return kept->slot == PDI_ORDER_EMPTY &&
           (kept->asked == 0 || pdi_time_add(kept->asked, wait) <= now);
}

int pdi_order_ask(struct pdi_order *order, pdi_time now, pdi_time wait, uint64_t *sn,
                  uint64_t *mask)
{
    *sn = pdi_seq_wrap(order->seq, order->expected);
    *mask = 0;
    if (pdi_order_due(order, wait) > now) {
        return 0;
    }
    int64_t expected = order->expected;
    int64_t reach = order->reach;
    wait = pause_of(order, wait);
    order->asks = is_unanswered(order) ? order->asks + 1 : 0;
    order->asked_expected = expected;
    order->asked_count = order->count;
    if (order->capacity < reach) {
        reach = order->capacity; /* what lies farther could not be kept, when it comes */
    }
    int64_t last = earlier(order->end, expected + reach);
    for (int64_t number = expected; number < last; number++) {
        if (number < order->marked && !is_askable(entry(order, number), now, wait)) {
            continue;
        }
        mark(order, number)->asked = now > 0 ? now : 1;
        if (number > expected) {
            *mask |= UINT64_C(1) << (number - expected - 1);
        }
    }
    return 1;
}

pdi_time pdi_order_due(const struct pdi_order *order, pdi_time wait)
{
    int64_t expected = order->expected;
    if (!order->synched || order->held || expected >= order->end || expected < order->base ||
        is_kept(order, expected)) {
        return PDI_TIME_NEVER;
    }
    pdi_time asked = expected < order->marked ? entry(order, expected)->asked : 0;
    return asked == 0 ? 0 : pdi_time_add(asked, pause_of(order, wait));
}
