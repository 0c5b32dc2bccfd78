/* pieces.c - IP fragments wait here: where each lies, and when its packet is whole.
 *
 * Each packet that waits has a slot with room for the largest one there can be, and its pieces are laid where they
 * belong at once. Places of pieces are multiples of eight bytes, so a bit for each eight bytes tells what is here:
 *
 *     bytes    │ 0..799          │ 800..1599 (lost) │ 1600..2007 │
 *     used     1111111 ... 11111 000000 ...   00000 1111 ... 111       filled = 151 of 251: it waits
 *
 * Pieces may overlap as long as they agree on the bytes they share. Two that do not are of two packets with the same
 * identity, and so are two that tell different ends; then the first packet is given up for the second.
 */
#include "capture/pieces.h"

#include "capture/frame.h"
#include "capture/store.h"
#include "base/bitset.h"

#define UNIT          8U
#define SLOT_BYTES    65536U
#define UNITS         (SLOT_BYTES / UNIT)
#define SLOT_NONE     PDI_PIECES_WAITING_MAX
#define SIZE_UNKNOWN  0U
#define ADDRESS_BYTES 16U

/* A packet of which not all pieces are here. */
struct waiting {
    struct pdi_piece_key key;
    int64_t time_ns; /* of the piece that came first */
    uint64_t turn;   /* the how manyth it is of all; 0: the slot is free */
    uint32_t pieces; /* that are here and not only repetitions, */
    uint32_t held;   /* what they add up to, */
    uint32_t filled; /* and how many units they fill */
    uint32_t size;   /* of the whole, once its last piece is here */
};

struct pdi_pieces {
    uint64_t turns;
    uint32_t count; /* slots in use */
    struct waiting waiting[PDI_PIECES_WAITING_MAX];
    uint64_t used[PDI_PIECES_WAITING_MAX][PDI_BITSET_WORDS(UNITS)];
    uint8_t bytes[PDI_PIECES_WAITING_MAX][SLOT_BYTES];
};

/* A piece that came, in units: [first, last). */
struct piece {
    const uint8_t *data;
    uint32_t offset;
    uint32_t size;
    uint32_t first;
    uint32_t last;
    bool more;
};

size_t pdi_pieces_size(void)
{
    return sizeof(struct pdi_pieces);
}

struct pdi_pieces *pdi_pieces_init(void *memory)
{
    struct pdi_pieces *pieces = memory;
    pieces->turns = 0;
    pieces->count = 0;
    memset(pieces->waiting, 0, sizeof(pieces->waiting));
    return pieces;
}

/* ---- slots ---- */

static bool same_key(const struct pdi_piece_key *one, const struct pdi_piece_key *two)
{
    return one->identity == two->identity && one->protocol == two->protocol && one->ip == two->ip &&
           memcmp(one->source, two->source, ADDRESS_BYTES) == 0 &&
           memcmp(one->target, two->target, ADDRESS_BYTES) == 0;
}

/* The slot of a packet, or SLOT_NONE. */
static uint32_t find(const struct pdi_pieces *pieces, const struct pdi_piece_key *key)
{
    uint32_t seen = 0;
    for (uint32_t slot = 0; slot < PDI_PIECES_WAITING_MAX && seen < pieces->count; slot++) {
        if (pieces->waiting[slot].turn == 0)
            continue;
        if (same_key(&pieces->waiting[slot].key, key))
            return slot;
        seen++;
    }
    return SLOT_NONE;
}

/* Frees a slot. Answers how many pieces waited in it. */
static uint32_t release(struct pdi_pieces *pieces, uint32_t slot)
{
    pieces->waiting[slot].turn = 0;
    pieces->count--;
    return pieces->waiting[slot].pieces;
}

/* The slot that began first of those that began after |turn|; there must be one. */
static uint32_t oldest(const struct pdi_pieces *pieces, uint64_t turn)
{
    uint32_t best = SLOT_NONE;
    for (uint32_t slot = 0; slot < PDI_PIECES_WAITING_MAX; slot++) {
        uint64_t own = pieces->waiting[slot].turn;
        if (own > turn && (best == SLOT_NONE || own < pieces->waiting[best].turn))
            best = slot;
    }
    PDI_CHECK(best != SLOT_NONE);
    return best;
}

/* A slot for a packet that begins; the oldest has to go if there is none. */
static uint32_t begin(struct pdi_pieces *pieces, const struct pdi_piece_key *key, int64_t time_ns,
                      uint32_t *given_up)
{
    if (pieces->count == PDI_PIECES_WAITING_MAX)
        *given_up += release(pieces, oldest(pieces, 0));
    uint32_t slot = 0;
    while (pieces->waiting[slot].turn != 0) /* one is free */
        slot++;
    pieces->count++;
    pieces->waiting[slot] =
        (struct waiting){.key = *key, .time_ns = time_ns, .turn = ++pieces->turns};
    memset(pieces->used[slot], 0, sizeof(pieces->used[slot]));
    return slot;
}

/* ---- pieces ---- */

/* How many bytes of a piece lie in one of its units. */
static size_t unit_bytes(const struct piece *piece, uint32_t unit)
{
    uint32_t left = piece->size - (unit - piece->first) * UNIT;
    return left < UNIT ? left : UNIT;
}

/* Whether a piece says the same as what is here, as far as both say something. */
static bool agrees(const uint64_t *used, const uint8_t *bytes, const struct piece *piece)
{
    uint32_t unit = pdi_bitset_find(used, piece->last, piece->first);
    while (unit < piece->last) { /* each turn goes on by a unit at least */
        if (memcmp(bytes + (size_t)unit * UNIT, piece->data + (size_t)(unit - piece->first) * UNIT,
                   unit_bytes(piece, unit)) != 0)
            return false;
        unit = pdi_bitset_find(used, piece->last, unit + 1);
    }
    return true;
}

/* Whether a piece can belong to the packet that waits. */
static bool belongs(const struct pdi_pieces *pieces, uint32_t slot, int64_t time_ns,
                    const struct piece *piece)
{
    const struct waiting *waiting = &pieces->waiting[slot];
    const uint64_t *used = pieces->used[slot];
    uint32_t end = piece->offset + piece->size;
    uint64_t apart = waiting->time_ns < time_ns ? (uint64_t)time_ns - (uint64_t)waiting->time_ns
                                                : (uint64_t)waiting->time_ns - (uint64_t)time_ns;
    if (waiting->time_ns != PDI_TIME_NONE && time_ns != PDI_TIME_NONE && apart > PDI_PIECES_WAIT_NS)
        return false;
    if (waiting->size != SIZE_UNKNOWN && (piece->more ? end > waiting->size : end != waiting->size))
        return false;
    if (!piece->more && waiting->size == SIZE_UNKNOWN &&
        pdi_bitset_find(used, UNITS, end / UNIT) != UNITS)
        return false; /* something lies behind its end */
    return agrees(used, pieces->bytes[slot], piece);
}

/* Lays a piece where it belongs; what lies there already says the same. Answers how many units it has filled. */
static uint32_t lay(uint64_t *used, uint8_t *bytes, const struct piece *piece)
{
    uint32_t fresh = 0;
    memcpy(bytes + piece->offset, piece->data, piece->size);
    for (uint32_t unit = piece->first, next; unit < piece->last; unit = next) { /* word by word */
        next = unit / 64 * 64 + 64 < piece->last ? unit / 64 * 64 + 64 : piece->last;
        uint64_t mask = UINT64_MAX << unit % 64 & UINT64_MAX >> (63 - (next - 1) % 64);
        fresh += (uint32_t)__builtin_popcountll(mask & ~used[unit / 64]);
        used[unit / 64] |= mask;
    }
    return fresh;
}

static uint32_t units(uint32_t bytes)
{
    return (bytes + UNIT - 1) / UNIT;
}

static bool is_whole(const struct waiting *waiting)
{
    return waiting->size != SIZE_UNKNOWN && waiting->filled == units(waiting->size);
}

int pdi_pieces_push(struct pdi_pieces *pieces, const struct pdi_piece_key *key, int64_t time_ns,
                    uint32_t offset, const uint8_t *data, uint32_t size, int more,
                    const uint8_t **whole, uint32_t *whole_size, uint32_t *given_up)
{
    *given_up = 0;
    if (size == 0 || size > PDI_PIECES_PACKET_MAX || offset > PDI_PIECES_PACKET_MAX - size ||
        offset % UNIT != 0 || (more && size % UNIT != 0)) {
        *given_up = 1; /* no packet has such a piece */
        return PYDDSI_AGAIN;
    }
    struct piece piece = {.data = data,
                          .offset = offset,
                          .size = size,
                          .first = offset / UNIT,
                          .last = units(offset + size),
                          .more = more != 0};
    uint32_t slot = find(pieces, key);
    if (slot != SLOT_NONE && !belongs(pieces, slot, time_ns, &piece)) {
        *given_up += release(pieces, slot);
        slot = SLOT_NONE;
    }
    if (slot == SLOT_NONE)
        slot = begin(pieces, key, time_ns, given_up);
    struct waiting *waiting = &pieces->waiting[slot];
    uint32_t fresh = lay(pieces->used[slot], pieces->bytes[slot], &piece);
    if (fresh == 0 && (more || waiting->size != SIZE_UNKNOWN))
        return PYDDSI_AGAIN; /* captured twice */
    waiting->pieces++;
    waiting->held += size;
    waiting->filled += fresh;
    if (!more)
        waiting->size = offset + size;
    if (waiting->held > PDI_PIECES_PACKET_MAX) { /* nobody repeats himself so often by chance */
        *given_up += release(pieces, slot);
        return PYDDSI_AGAIN;
    }
    if (!is_whole(waiting))
        return PYDDSI_AGAIN;
    *whole = pieces->bytes[slot];
    *whole_size = waiting->size;
    release(pieces, slot);
    return PYDDSI_OK;
}

uint32_t pdi_pieces_fini(struct pdi_pieces *pieces)
{
    uint32_t given_up = 0;
    for (uint32_t slot = 0; slot < PDI_PIECES_WAITING_MAX; slot++) {
        if (pieces->waiting[slot].turn != 0)
            given_up += release(pieces, slot);
    }
    return given_up;
}

/* ---- snapshots ---- */

/* The first unit at or behind |from| that is not here; UNITS if all are. */
static uint32_t find_hole(const uint64_t *used, uint32_t from)
{
    while (from < UNITS && pdi_bitset_test(used, from))
        from++;
    return from;
}

/* How many bytes lie in the units [first, last). */
static uint32_t run_bytes(const struct waiting *waiting, uint32_t first, uint32_t last)
{
    uint32_t end = last * UNIT;
    if (waiting->size != SIZE_UNKNOWN && end > waiting->size)
        end = waiting->size;
    return end - first * UNIT;
}

/* What is here, as runs: how many units are missing before one, how many it has, and its bytes; 0 missing ends it, but
 * for the first run. */
static void store_runs(const struct waiting *waiting, const uint64_t *used, const uint8_t *bytes,
                       struct pdi_store *store)
{
    uint32_t done = 0;
    uint32_t first = pdi_bitset_find(used, UNITS, 0);
    uint32_t left = waiting->filled;
    while (left > 0) { /* each run has a unit at least */
        uint32_t last = find_hole(used, first);
        pdi_store_put(store, first - done);
        pdi_store_put(store, last - first);
        pdi_store_put_raw(store, bytes + (size_t)first * UNIT, run_bytes(waiting, first, last));
        left -= last - first;
        done = last;
        first = pdi_bitset_find(used, UNITS, last);
    }
}

size_t pdi_pieces_store(const struct pdi_pieces *pieces, uint8_t *out, size_t room)
{
    struct pdi_store stored = {.out = out, .room = room}, *store = &stored;
    pdi_store_put(store, pieces->count);
    uint64_t turn = 0;
    for (uint32_t i = 0; i < pieces->count; i++) {
        uint32_t slot = oldest(pieces, turn);
        const struct waiting *waiting = &pieces->waiting[slot];
        turn = waiting->turn;
        pdi_store_put_raw(store, waiting->key.source, ADDRESS_BYTES);
        pdi_store_put_raw(store, waiting->key.target, ADDRESS_BYTES);
        pdi_store_put(store, waiting->key.identity);
        pdi_store_put(store, waiting->key.protocol);
        pdi_store_put(store, waiting->key.ip);
        pdi_store_put(store, (uint64_t)waiting->time_ns);
        pdi_store_put(store, waiting->pieces);
        pdi_store_put(store, waiting->held);
        pdi_store_put(store, waiting->size);
        pdi_store_put(store, waiting->filled);
        store_runs(waiting, pieces->used[slot], pieces->bytes[slot], store);
    }
    return store->size;
}

static void load_runs(const struct waiting *waiting, uint64_t *used, uint8_t *bytes,
                      struct pdi_restore *load)
{
    uint32_t unit = 0;
    uint32_t left = waiting->filled;
    uint32_t end = waiting->size != SIZE_UNKNOWN ? units(waiting->size) : UNITS - 1;
    while (left > 0 && !load->bad) { /* each run has a unit at least */
        uint32_t first = unit + (uint32_t)pdi_store_get_from(load, unit != 0, end - unit);
        uint32_t count = (uint32_t)pdi_store_get_from(load, 1, left);
        if (load->bad || count > end - first) {
            load->bad = true;
            return;
        }
        unit = first + count;
        left -= count;
        pdi_store_get_raw(load, bytes + (size_t)first * UNIT, run_bytes(waiting, first, unit));
        for (uint32_t i = first; i < unit; i++)
            pdi_bitset_set(used, i);
    }
}

/* The numbers of a packet that waits. */
static void load_numbers(struct pdi_restore *load, struct waiting *waiting)
{
    pdi_store_get_raw(load, waiting->key.source, ADDRESS_BYTES);
    pdi_store_get_raw(load, waiting->key.target, ADDRESS_BYTES);
    waiting->key.identity = (uint32_t)pdi_store_get(load, UINT32_MAX);
    waiting->key.protocol = (uint8_t)pdi_store_get(load, UINT8_MAX);
    waiting->key.ip = (uint8_t)pdi_store_get_from(load, 4, 6);
    waiting->time_ns = (int64_t)pdi_store_get(load, UINT64_MAX);
    waiting->pieces = (uint32_t)pdi_store_get_from(load, 1, UNITS);
    waiting->held = (uint32_t)pdi_store_get_from(load, 1, PDI_PIECES_PACKET_MAX);
    waiting->size = (uint32_t)pdi_store_get(load, PDI_PIECES_PACKET_MAX);
    waiting->filled = (uint32_t)pdi_store_get_from(load, 1, UNITS - 1);
    load->bad |= waiting->key.ip == 5;
}

static void load_waiting(struct pdi_restore *load, struct pdi_pieces *pieces)
{
    struct waiting waiting = {0};
    uint32_t given_up = 0;
    load_numbers(load, &waiting);
    if (load->bad || is_whole(&waiting) || find(pieces, &waiting.key) != SLOT_NONE) {
        load->bad = true;
        return;
    }
    uint32_t slot = begin(pieces, &waiting.key, waiting.time_ns, &given_up);
    waiting.turn = pieces->turns;
    pieces->waiting[slot] = waiting;
    load_runs(&waiting, pieces->used[slot], pieces->bytes[slot], load);
}

int pdi_pieces_load(struct pdi_pieces *pieces, const uint8_t *data, size_t size)
{
    struct pdi_restore load = {.at = data, .end = data + size};
    pdi_pieces_init(pieces);
    uint64_t count = pdi_store_get(&load, PDI_PIECES_WAITING_MAX);
    for (uint64_t i = 0; i < count && !load.bad; i++)
        load_waiting(&load, pieces);
    if (!load.bad && load.at == load.end)
        return PYDDSI_OK;
    pdi_pieces_init(pieces);
    return PYDDSI_BAD_INPUT;
}
