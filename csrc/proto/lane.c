/* lane.c - the writer's half of a lane, but for the usual put, which is in the header.
 *
 * Walks over readers and rows end after 64; a search for how much must be pushed out halves at most
 * 65536 entries.
 */
#include "proto/lane.h"

static bool power_of_two(uint32_t count, uint32_t min, uint32_t max)
{
    return count >= min && count <= max && (count & (count - 1)) == 0;
}

size_t pdi_lane_size(uint32_t entries, uint32_t bytes)
{
    if (!power_of_two(entries, PDI_LANE_ENTRIES_MIN, PDI_LANE_ENTRIES_MAX) ||
        !power_of_two(bytes, PDI_LANE_BYTES_MIN, PDI_LANE_BYTES_MAX)) {
        return 0;
    }
    return sizeof(struct pdi_lane) + (size_t)entries * sizeof(struct pdi_lane_entry) + bytes;
}

int pdi_lane_init(struct pdi_lane_writer *writer, uint8_t *memory, size_t size, uint64_t *starts,
                  uint32_t entries, uint32_t bytes, uint64_t cookie)
{
    size_t need = pdi_lane_size(entries, bytes);
    if (need == 0) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (size < need) {
        return PYDDSI_NO_SPACE;
    }
    struct pdi_lane *lane = (void *)memory;
    *writer = (struct pdi_lane_writer){.lane = lane,
                                       .entries = (void *)(lane + 1),
                                       .starts = starts,
                                       .entries_max = entries,
                                       .bytes_max = bytes,
                                       .brim = bytes,
                                       .until = entries,
                                       .limit = UINT64_MAX,
                                       .cookie = cookie};
    writer->bytes = (void *)(writer->entries + entries);
    pdi_atomic32_store_relaxed(&lane->version, PDI_LANE_VERSION);
    pdi_atomic32_store_relaxed(&lane->entries, entries);
    pdi_atomic32_store_relaxed(&lane->bytes, bytes);
    pdi_atomic64_store_relaxed(&lane->cookie, cookie);
    pdi_atomic64_store_relaxed(&lane->next, 0);
    pdi_atomic32_store_release(&lane->magic, PDI_LANE_MAGIC);
    return PYDDSI_OK;
}

/* ---- readers ---- */

unsigned pdi_lane_find(const struct pdi_lane_writer *writer, const struct pdi_place *place)
{
    for (uint64_t left = writer->readers; left != 0; left &= left - 1) {
        unsigned reader = (unsigned)__builtin_ctzll(left);
        if (writer->places[reader] == place) {
            return reader;
        }
    }
    return PDI_LANE_READERS_MAX;
}

/* Sets how far numbers may go. */
static void bound(struct pdi_lane_writer *writer)
{
    uint64_t until = writer->floor + writer->entries_max - writer->open;
    writer->until = until < writer->limit ? until : writer->limit;
}

int pdi_lane_join(struct pdi_lane_writer *writer, struct pdi_place *place)
{
    uint64_t state = pdi_atomic64_load_acquire(&place->state);
    if ((state & PDI_PLACE_STATE) != PDI_PLACE_WANTED ||
        pdi_atomic64_load_relaxed(&place->cookie) != writer->cookie ||
        pdi_lane_find(writer, place) != PDI_LANE_READERS_MAX) {
        return PYDDSI_BAD_INPUT;
    }
    if (writer->readers == UINT64_MAX) {
        return PYDDSI_NO_SPACE;
    }
    pdi_lane_flush(writer);
    uint64_t ahead = pdi_atomic64_load_relaxed(&place->until);
    pdi_atomic64_store_relaxed(&place->position, writer->next);
    if (ahead != 0) {
        pdi_atomic64_store_relaxed(&place->until, writer->next + ahead);
    }
    uint64_t active = (state & ~PDI_PLACE_STATE) | PDI_PLACE_ACTIVE;
    if (!pdi_atomic64_cas(&place->state, &state, active)) {
        return PYDDSI_AGAIN;
    }
    unsigned reader = (unsigned)__builtin_ctzll(~writer->readers);
    uint64_t bit = UINT64_C(1) << reader;
    writer->places[reader] = place;
    writer->seen[reader] = writer->next;
    writer->limits[reader] = ahead != 0 ? writer->next + ahead : UINT64_MAX;
    writer->limit = writer->limits[reader] < writer->limit ? writer->limits[reader] : writer->limit;
    bound(writer);
    writer->readers |= bit;
    writer->drops |= (state & PDI_PLACE_DROPS) != 0 ? bit : 0;
    return PYDDSI_OK;
}

/* Looks at a reader's position. If it cannot be, the reader is broken from now on, and not looked
 * at again. */
static void look(struct pdi_lane_writer *writer, unsigned reader)
{
    uint64_t word = pdi_atomic64_load_acquire(&writer->places[reader]->position);
    uint64_t position = word & ~PDI_PLACE_HELD;
    uint64_t bit = UINT64_C(1) << reader;
    if ((writer->broken & bit) != 0) {
        return;
    }
    if (position - writer->seen[reader] > writer->shown - writer->seen[reader]) {
        writer->broken |= bit;
        return;
    }
    if (writer->limits[reader] != UINT64_MAX) {
        writer->limits[reader] = pdi_atomic64_load_acquire(&writer->places[reader]->until);
    }
    writer->seen[reader] = position;
    writer->held = word != position ? writer->held | bit : writer->held & ~bit;
}

void pdi_place_dismiss(struct pdi_place *place)
{
    uint64_t word = pdi_atomic64_load_acquire(&place->state);
    for (unsigned tries = 0; tries < PDI_LANE_TRIES_MAX; tries++) {
        uint64_t state = word & PDI_PLACE_STATE;
        bool ended = state == PDI_PLACE_ENDED;
        if ((!ended && state != PDI_PLACE_WANTED && state != PDI_PLACE_ACTIVE) ||
            pdi_atomic64_cas(&place->state, &word, ended ? PDI_PLACE_FREE : PDI_PLACE_LOST)) {
            return;
        }
    }
}

uint64_t pdi_lane_leave(struct pdi_lane_writer *writer, struct pdi_place *place)
{
    unsigned reader = pdi_lane_find(writer, place);
    uint64_t owed = 0;
    if (reader != PDI_LANE_READERS_MAX) {
        uint64_t bit = UINT64_C(1) << reader;
        look(writer, reader);
        owed = writer->next - writer->seen[reader];
        writer->readers &= ~bit;
        writer->drops &= ~bit;
        writer->broken &= ~bit;
    }
    pdi_place_dismiss(place);
    return owed;
}

uint64_t pdi_lane_in_flight(struct pdi_lane_writer *writer)
{
    uint64_t sum = 0;
    for (uint64_t left = writer->readers; left != 0; left &= left - 1) {
        unsigned reader = (unsigned)__builtin_ctzll(left);
        look(writer, reader);
        sum += writer->next - writer->seen[reader];
    }
    return sum;
}

/* The least position of these readers. */
static uint64_t least(const struct pdi_lane_writer *writer, uint64_t readers)
{
    uint64_t floor = writer->next;
    for (uint64_t left = readers; left != 0; left &= left - 1) {
        uint64_t seen = writer->seen[__builtin_ctzll(left)];
        floor = seen < floor ? seen : floor;
    }
    return floor;
}

/* ---- room ---- */

/* Where the bytes begin that are in use if all before entry `floor` is free. */
static uint64_t tail_of(const struct pdi_lane_writer *writer, uint64_t floor)
{
    uint64_t tail =
        floor == writer->next ? writer->head : writer->starts[floor & (writer->entries_max - 1)];
    for (uint64_t left = writer->rows_open | writer->rows_late; left != 0; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);
        const struct pdi_lane_row *row = &writer->rows[index];
        bool open = (writer->rows_open >> index & 1) != 0;
        if ((open || row->number >= floor) && row->at < tail) {
            tail = row->at;
        }
    }
    return tail;
}

/* The end of the ring's lap in which `at` lies. */
static uint64_t lap(const struct pdi_lane_writer *writer, uint64_t at)
{
    return (at & ~(uint64_t)(writer->bytes_max - 1)) + writer->bytes_max;
}

/* Whether a unit of bytes and one number fit if the least position were `floor` and the bytes in
 * use began at `tail`; *at is where it would lie. */
static bool fits(const struct pdi_lane_writer *writer, uint64_t floor, uint64_t tail, uint64_t unit,
                 uint64_t *at)
{
    uint64_t end = lap(writer, writer->head);
    if (writer->next + writer->open - floor >= writer->entries_max ||
        writer->next >= writer->limit) {
        return false;
    }
    *at = writer->head + unit <= end ? writer->head : end;
    return tail == writer->head || *at + unit <= tail + writer->bytes_max;
}

/* Frees what is before `floor`. */
static void advance(struct pdi_lane_writer *writer, uint64_t floor)
{
    writer->floor = floor;
    writer->tail = tail_of(writer, floor);
    bound(writer);
    for (uint64_t left = writer->rows_late; left != 0; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);
        if (writer->rows[index].number < floor) {
            writer->rows_late &= ~(UINT64_C(1) << index);
        }
    }
}

/* Bytes go on at `head`. An empty ring begins there, too. */
static void settle(struct pdi_lane_writer *writer, uint64_t head)
{
    if (writer->tail == writer->head) {
        writer->tail = head;
    }
    writer->head = head;
    uint64_t end = lap(writer, head);
    uint64_t full = writer->tail + writer->bytes_max;
    writer->brim = end < full ? end : full;
}

/* Takes samples from those who would rather lose the oldest, no more than are needed for `unit`
 * bytes, and none if that would not be enough. */
static bool push_out(struct pdi_lane_writer *writer, uint64_t unit)
{
    uint64_t readers = writer->readers & ~writer->broken;
    uint64_t movable = writer->drops & ~writer->held & readers;
    uint64_t at;
    uint64_t low = writer->floor;
    uint64_t high = least(writer, readers & ~movable);
    if (movable == 0 || !fits(writer, high, tail_of(writer, high), unit, &at)) {
        return false;
    }
    while (high - low > 1) { /* does not fit at low, fits at high */
        uint64_t middle = low + (high - low) / 2;
        if (fits(writer, middle, tail_of(writer, middle), unit, &at)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    for (uint64_t left = movable; left != 0; left &= left - 1) {
        unsigned reader = (unsigned)__builtin_ctzll(left);
        uint64_t seen = writer->seen[reader];
        if (seen < high && pdi_atomic64_cas(&writer->places[reader]->position, &seen, high)) {
            writer->pushed_out += high - writer->seen[reader];
            writer->seen[reader] = high;
        }
    }
    return true;
}

/* Looks at all readers, and frees what none of them needs. */
static void scan(struct pdi_lane_writer *writer)
{
    writer->limit = UINT64_MAX;
    for (uint64_t left = writer->readers; left != 0; left &= left - 1) {
        unsigned reader = (unsigned)__builtin_ctzll(left);
        look(writer, reader);
        if ((writer->broken >> reader & 1) == 0 && writer->limits[reader] < writer->limit) {
            writer->limit = writer->limits[reader];
        }
    }
    advance(writer, least(writer, writer->readers & ~writer->broken));
}

/* Finds room and where it is. */
static int find_room(struct pdi_lane_writer *writer, uint64_t size, uint64_t *at)
{
    uint64_t unit = pdi_lane_unit(size);
    if (size > writer->bytes_max) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (fits(writer, writer->floor, writer->tail, unit, at)) {
        return PYDDSI_OK;
    }
    pdi_lane_flush(writer);
    scan(writer);
    for (unsigned tries = 0; tries < PDI_LANE_TRIES_MAX; tries++) {
        if (fits(writer, writer->floor, writer->tail, unit, at)) {
            return PYDDSI_OK;
        }
        if (!push_out(writer, unit)) {
            return PYDDSI_AGAIN;
        }
        scan(writer); /* one of them may have moved, or set its mark, while we tried */
    }
    return PYDDSI_AGAIN;
}

int pdi_lane_room(struct pdi_lane_writer *writer, uint64_t size)
{
    uint64_t at;
    return find_room(writer, size, &at);
}

int pdi_lane_make_room(struct pdi_lane_writer *writer, uint64_t size)
{
    uint64_t at;
    int status = find_room(writer, size, &at);
    if (status == PYDDSI_OK) {
        settle(writer, at);
    }
    return status;
}

/* ---- loans ---- */

bool pdi_lane_has_row(struct pdi_lane_writer *writer)
{
    if ((writer->rows_open | writer->rows_late) == UINT64_MAX) {
        scan(writer);
    }
    return (writer->rows_open | writer->rows_late) != UINT64_MAX;
}

int pdi_lane_reserve(struct pdi_lane_writer *writer, uint32_t size, struct pdi_lane_loan *loan)
{
    uint64_t from = writer->head;
    if (!pdi_lane_has_row(writer)) {
        return PYDDSI_AGAIN;
    }
    int status = pdi_lane_make_room(writer, size);
    if (status != PYDDSI_OK) {
        return status;
    }
    unsigned index = (unsigned)__builtin_ctzll(~(writer->rows_open | writer->rows_late));
    struct pdi_lane_row *row = &writer->rows[index];
    row->from = from;
    row->at = writer->head;
    row->size = pdi_lane_unit(size);
    writer->rows_open |= UINT64_C(1) << index;
    writer->open++;
    bound(writer);
    writer->head += row->size;
    loan->data = writer->bytes + (row->at & (writer->bytes_max - 1));
    loan->size = size;
    loan->row = index;
    return PYDDSI_OK;
}

/* Closes an open row. */
static struct pdi_lane_row *close_row(struct pdi_lane_writer *writer,
                                      const struct pdi_lane_loan *loan)
{
    PDI_CHECK(loan->row < PDI_LANE_LOANS_MAX && (writer->rows_open >> loan->row & 1) != 0);
    writer->rows_open &= ~(UINT64_C(1) << loan->row);
    writer->open--;
    bound(writer);
    return &writer->rows[loan->row];
}

void pdi_lane_commit(struct pdi_lane_writer *writer, const struct pdi_lane_loan *loan,
                     uint32_t size, uint64_t time, bool more)
{
    PDI_CHECK(size <= loan->size);
    struct pdi_lane_row *row = close_row(writer, loan);
    if (row->at + row->size == writer->head) { /* the newest bytes: the rest is free at once */
        settle(writer, row->at + pdi_lane_unit(size));
    }
    if (row->at >= writer->start) {
        writer->start = row->at;
    } else {
        row->number = writer->next;
        writer->rows_late |= UINT64_C(1) << loan->row;
    }
    pdi_lane_push(writer, row->at, size, time, more);
}

void pdi_lane_abandon(struct pdi_lane_writer *writer, const struct pdi_lane_loan *loan)
{
    struct pdi_lane_row *row = close_row(writer, loan);
    if (row->at + row->size == writer->head) {
        settle(writer, row->from > writer->tail ? row->from : writer->tail);
    }
}
