/* capture/pieces.h: fragments in any order, twice and overlapping; against a model that knows single bytes; and carried
 * over in snapshots. (The file is long because the model stands in it.) */
#include "capture/pieces.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/rand.h"
#include "damage.h"
#include "pyddsi.h"
#include "test.h"

enum { SNAPSHOT_ROOM = 1 << 23, PACKET = 65536 };

static struct pdi_pieces *pieces, *other;
static uint8_t snapshot[SNAPSHOT_ROOM];
static uint8_t payload[PACKET];
static const uint8_t *whole;
static uint32_t whole_size, given_up;

static struct pdi_piece_key key_of(unsigned identity)
{
    return (struct pdi_piece_key){
        .source = {10, 0, 0, 1}, .target = {10, 0, 0, 2}, .identity = identity, .ip = 4};
}

static int push(unsigned identity, int64_t time_ns, uint32_t offset, const uint8_t *data,
                uint32_t size, int more)
{
    struct pdi_piece_key key = key_of(identity);
    return pdi_pieces_push(pieces, &key, time_ns, offset, data, size, more, &whole, &whole_size,
                           &given_up);
}

/* Part [start, stop) of a payload of |size| bytes. */
static int push_part(unsigned identity, uint32_t start, uint32_t stop, uint32_t size)
{
    return push(identity, 0, start, payload + start, stop - start, stop < size);
}

/* Everything that waits goes through a snapshot, into the other memory. */
static void move(void)
{
    size_t size = pdi_pieces_store(pieces, snapshot, sizeof(snapshot));
    CHECK(size <= sizeof(snapshot));
    CHECK_EQ(pdi_pieces_load(other, snapshot, size), PYDDSI_OK);
    struct pdi_pieces *swap = pieces;
    pieces = other;
    other = swap;
}

static void fill(uint64_t seed)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, seed);
    for (uint32_t i = 0; i < PACKET; i++)
        payload[i] = (uint8_t)pdi_rand_u64(&rand);
}

/* If it failed, a datagram in pieces would be lost, or put together wrongly. */
static void test_orders(void)
{
    enum { END = 2008 };
    static const uint32_t orders[][6][2] = {
        {{0, 800}, {800, 1600}, {1600, END}},
        {{1600, END}, {800, 1600}, {0, 800}},
        {{0, 800}, {0, 800}, {1600, END}, {1600, END}, {800, 1600}}, /* seen twice */
        {{0, 1000}, {800, 1600}, {1600, END}},                       /* overlapping */
        {{0, 800}, {1600, END}, {800, END}},
        /* as many bytes as the whole, and a gap */
        {{0, 800}, {8, 808}, {16, 816}, {1600, END}, {800, 1600}},
        {{0, 800}, {0, 1200}, {800, END}}, /* longer the second time */
        {{0, 1600}, {800, END}},
        {{800, END}, {0, 1600}},
        {{0, END - 8}, {8, END}},
        {{0, 1000}, {1000, 2000}, {2000, END}},
    };
    for (uint32_t size = END - 7; size <= END; size++) { /* the last unit is not full */
        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
            for (unsigned k = 0; k < 6 && orders[i][k][1] != 0; k++) {
                bool last = k == 5 || orders[i][k + 1][1] == 0;
                uint32_t stop = orders[i][k][1] < size ? orders[i][k][1] : size;
                CHECK_EQ(push_part(1, orders[i][k][0], stop, size),
                         last ? PYDDSI_OK : PYDDSI_AGAIN);
                CHECK_EQ(given_up, 0);
            }
            CHECK_EQ(whole_size, size);
            CHECK(memcmp(whole, payload, size) == 0);
            CHECK_EQ(pdi_pieces_fini(pieces), 0);
        }
    }
}

/* If it failed, a datagram whose head was lost would get the head of a later one with the same identity. */
static void test_identity_again(void)
{
    static const uint8_t zeros[PACKET];
    CHECK_EQ(push(1, 5, 800, payload, 100, 0), PYDDSI_AGAIN);
    CHECK_EQ(push(1, 5 + PDI_PIECES_WAIT_NS, 0, payload, 400, 1), PYDDSI_AGAIN);
    CHECK_EQ(given_up, 0);
    CHECK_EQ(push(1, 6 + PDI_PIECES_WAIT_NS, 400, payload, 400, 1), PYDDSI_AGAIN); /* too late */
    CHECK_EQ(given_up, 2);
    CHECK_EQ(push(1, 0, 0, payload, 400, 1), PYDDSI_AGAIN); /* nor too early */
    CHECK_EQ(given_up, 1);
    CHECK_EQ(push(1, INT64_MIN, 400, payload, 400, 1), PYDDSI_AGAIN); /* of no time: any */
    CHECK_EQ(given_up, 0);
    CHECK_EQ(push(1, 0, 0, zeros, 400, 1), PYDDSI_AGAIN); /* other bytes in the same place */
    CHECK_EQ(given_up, 2);
    CHECK_EQ(push(1, 0, 80, payload, 400, 1), PYDDSI_AGAIN); /* in a part of it */
    CHECK_EQ(given_up, 1);
    CHECK_EQ(push(1, 0, 800, payload, 100, 0), PYDDSI_AGAIN);
    CHECK_EQ(push(1, 0, 1600, payload, 100, 0), PYDDSI_AGAIN); /* another end */
    CHECK_EQ(given_up, 2);
    CHECK_EQ(push(1, 0, 1696, payload, 8, 1), PYDDSI_AGAIN); /* something behind the end */
    CHECK_EQ(given_up, 1);
    CHECK_EQ(push(1, 0, 1600, payload, 100, 0), PYDDSI_AGAIN); /* an end before something */
    CHECK_EQ(given_up, 1);
    CHECK_EQ(push(1, 0, 1600, payload, 92, 0), PYDDSI_AGAIN); /* another end in the same unit */
    CHECK_EQ(given_up, 1);
    CHECK_EQ(push(1, 0, 0, payload, 1600, 1), PYDDSI_OK);
    CHECK(whole_size == 1692 && memcmp(whole + 1600, payload, 92) == 0);
    CHECK_EQ(pdi_pieces_fini(pieces), 0);
    CHECK_EQ(push(1, INT64_MIN, 0, payload, 8, 1), PYDDSI_AGAIN);
    CHECK_EQ(push(1, INT64_MAX, 8, payload + 8, 8, 0), PYDDSI_OK);
    CHECK_EQ(push(1, -INT64_MAX, 0, payload, 8, 1), PYDDSI_AGAIN);
    CHECK_EQ(push(1, INT64_MAX, 8, payload + 8, 8, 0), PYDDSI_AGAIN);
    CHECK(given_up == 1 && pdi_pieces_fini(pieces) == 1);
}

/* If it failed, one field of the key would not count, and pieces of different packets be mixed. */
static void test_keys(void)
{
    struct pdi_piece_key keys[6];
    for (int i = 0; i < 6; i++)
        keys[i] = key_of(1);
    keys[1].identity = 2;
    keys[2].protocol = 17;
    keys[3].ip = 6;
    keys[4].source[15] = 1;
    keys[5].target[15] = 1;
    for (uint32_t part = 0; part < 2; part++) {
        for (int i = 0; i < 6; i++) {
            uint8_t data[8] = {(uint8_t)i};
            CHECK_EQ(pdi_pieces_push(pieces, &keys[i], 0, part * 8, data, 8, part == 0, &whole,
                                     &whole_size, &given_up),
                     part == 0 ? PYDDSI_AGAIN : PYDDSI_OK);
            CHECK_EQ(given_up, 0);
            CHECK(part == 0 || (whole[0] == i && whole[8] == i && whole_size == 16));
        }
    }
    CHECK_EQ(pdi_pieces_fini(pieces), 0);
}

/* If it failed, pieces that never become whole would fill the memory, or the newest go and not the oldest. */
static void test_bounded(void)
{
    enum { MAX = PDI_PIECES_WAITING_MAX };
    uint32_t lost = 0;
    for (unsigned i = 0; i < MAX + 10; i++) {
        CHECK_EQ(push_part(i, 0, 800, 1600), PYDDSI_AGAIN);
        CHECK_EQ(given_up, i < MAX ? 0 : 1);
        lost += given_up;
    }
    CHECK_EQ(push_part(10, 800, 1600, 1600), PYDDSI_OK); /* the oldest that is left */
    CHECK_EQ(push_part(9, 800, 1600, 1600), PYDDSI_AGAIN);
    CHECK_EQ(given_up, 0);
    CHECK_EQ(pdi_pieces_fini(pieces) + lost, MAX + 10);
    CHECK_EQ(pdi_pieces_fini(pieces), 0);
}

/* If it failed, pieces that no packet can have would be laid outside of the memory. */
static void test_impossible(void)
{
    static const struct {
        uint32_t offset, size;
        int more;
    } cases[] = {{0, 0, 1},          {8, 0, 0},
                 {0, 65536, 0},      {65528, 8, 0},
                 {65528, 8, 1},      {8, 65528, 0},
                 {4, 8, 1},          {0, 9, 1},
                 {1, 8, 0},          {UINT32_MAX - 7, 8, 0},
                 {0, UINT32_MAX, 0}, {UINT32_MAX - 7, 16, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_EQ(push(1, 0, cases[i].offset, payload, cases[i].size, cases[i].more), PYDDSI_AGAIN);
        CHECK_EQ(given_up, 1);
        CHECK_EQ(pdi_pieces_fini(pieces), 0);
    }
    CHECK_EQ(push(1, 0, 65528, payload + 65528, 7, 0), PYDDSI_AGAIN);
    CHECK_EQ(push(1, 0, 65520, payload + 65520, 8, 1), PYDDSI_AGAIN);
    CHECK_EQ(push(1, 0, 0, payload, 65520, 1), PYDDSI_OK);
    CHECK(whole_size == 65535 && memcmp(whole, payload, 65535) == 0);
    CHECK_EQ(push(1, 0, 0, payload, 65535, 0), PYDDSI_OK); /* the largest there can be */
    CHECK_EQ(whole_size, 65535);
    /* more bytes than a packet can hold, though each of them may stand where it does */
    static const uint8_t zeros[PACKET];
    CHECK_EQ(push(1, 0, 0, zeros, 65000, 1), PYDDSI_AGAIN);
    CHECK_EQ(push(1, 0, 8, zeros, 65000, 0), PYDDSI_AGAIN);
    CHECK(given_up == 2 && pdi_pieces_fini(pieces) == 0);
}

/* If it failed, some order of some pieces would lose a datagram, or a snapshot between two of them change it. */
static void test_any_order(void)
{
    enum { PARTS = 200, PACKETS = 5 };
    struct part {
        uint64_t turn;
        uint32_t start, stop, identity;
    } parts[PARTS * PACKETS];
    for (uint64_t seed = 0; seed < 300 && test_failures == 0; seed++) {
        struct pdi_rand rand;
        uint32_t count = 0, done = 0;
        uint32_t sizes[PACKETS];
        bool came[PACKETS] = {false};
        pdi_rand_init(&rand, seed);
        for (uint32_t i = 0; i < PACKETS; i++) {
            sizes[i] =
                9 + (uint32_t)pdi_rand_below(&rand, pdi_rand_chance(&rand, 1, 9) ? 30000 : 900);
            uint32_t step = 1 + sizes[i] / 300;
            for (uint32_t at = 0; at < sizes[i];) {
                uint32_t back =
                    pdi_rand_chance(&rand, 1, 6) ? (uint32_t)pdi_rand_below(&rand, at / 8 + 1) : 0;
                uint32_t stop = at + 8 * (1 + (uint32_t)pdi_rand_below(&rand, 2 * step));
                stop = stop < sizes[i] ? stop : sizes[i];
                parts[count++] =
                    (struct part){pdi_rand_u64(&rand), at - (back < 10 ? back : 0) * 8, stop, i};
                at = stop;
            }
        }
        for (uint32_t i = 1; i < count; i++) { /* in the order of the turns that were drawn */
            struct part part = parts[i];
            uint32_t k = i;
            for (; k > 0 && parts[k - 1].turn > part.turn; k--)
                parts[k] = parts[k - 1];
            parts[k] = part;
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t identity = parts[i].identity;
            if (seed % 2 != 0 && pdi_rand_chance(&rand, 1, 20))
                move();
            if (came[identity])
                continue;
            for (int twice = 0; twice < 2 && !came[identity]; twice++) {
                int status = push_part(identity, parts[i].start, parts[i].stop, sizes[identity]);
                CHECK_EQ(given_up, 0);
                came[identity] = status == PYDDSI_OK;
            }
            if (came[identity]) {
                done++;
                CHECK_EQ(whole_size, sizes[identity]);
                CHECK(memcmp(whole, payload, whole_size) == 0);
            }
        }
        CHECK_EQ(done, PACKETS);
        CHECK_EQ(pdi_pieces_fini(pieces), 0);
        if (test_failures != 0)
            printf("seed %" PRIu64 "\n", seed);
    }
}

/* ---- a model, byte by byte ---- */

enum { MODEL_KEYS = 80, MODEL_BYTES = 256 };

struct model {
    bool waits;
    bool here[MODEL_BYTES];
    uint8_t bytes[MODEL_BYTES];
    int64_t time_ns;
    uint32_t began, size, count;
};

static struct model models[MODEL_KEYS];
static uint32_t model_turn, model_waiting;

static uint32_t model_drop(struct model *model)
{
    model->waits = false;
    model_waiting--;
    return model->count;
}

/* Whether a piece contradicts what waits. */
static bool model_contradicts(const struct model *model, int64_t time_ns, uint32_t offset,
                              const uint8_t *data, uint32_t size, bool more)
{
    if (llabs(time_ns - model->time_ns) > PDI_PIECES_WAIT_NS)
        return true;
    for (uint32_t i = 0; i < MODEL_BYTES; i++) {
        if (i >= offset && i < offset + size && model->here[i] &&
            model->bytes[i] != data[i - offset])
            return true;
        if (model->here[i] && !more && i >= offset + size)
            return true;
    }
    if (model->size != 0)
        return more ? offset + size > model->size : offset + size != model->size;
    return false;
}

static uint32_t model_push(uint32_t key, int64_t time_ns, uint32_t offset, const uint8_t *data,
                           uint32_t size, bool more, bool *ready)
{
    struct model *model = &models[key];
    uint32_t lost = 0, fresh = 0, have = 0;
    *ready = false;
    if (model->waits && model_contradicts(model, time_ns, offset, data, size, more))
        lost += model_drop(model);
    if (!model->waits) {
        if (model_waiting == PDI_PIECES_WAITING_MAX) {
            struct model *oldest = NULL;
            for (uint32_t i = 0; i < MODEL_KEYS; i++) {
                if (models[i].waits && (oldest == NULL || models[i].began < oldest->began))
                    oldest = &models[i];
            }
            lost += model_drop(oldest);
        }
        *model = (struct model){.waits = true, .time_ns = time_ns, .began = model_turn++};
        model_waiting++;
    }
    for (uint32_t i = 0; i < size; i++) {
        fresh += !model->here[offset + i];
        model->here[offset + i] = true;
        model->bytes[offset + i] = data[i];
    }
    if (fresh != 0 || (!more && model->size == 0))
        model->count++;
    if (!more)
        model->size = offset + size;
    for (uint32_t i = 0; i < model->size; i++)
        have += model->here[i];
    if (model->size != 0 && have == model->size) {
        model_drop(model);
        *ready = true;
    }
    return lost;
}

/* If it failed, some sequence of pieces, true or not, would be taken otherwise than described; or a snapshot of it be
 * another state than the one it was taken of. */
static void test_against_model(void)
{
    for (uint64_t seed = 0; seed < 300 && test_failures == 0; seed++) {
        struct pdi_rand rand;
        pdi_rand_init(&rand, seed);
        uint32_t keys = pdi_rand_chance(&rand, 1, 2) ? 3 : MODEL_KEYS;
        uint32_t turns = keys == 3 ? 300 : 3000;
        int64_t time_ns = 0;
        memset(models, 0, sizeof(models));
        model_waiting = 0;
        for (uint32_t turn = 0; turn < turns; turn++) {
            uint32_t key = (uint32_t)pdi_rand_below(&rand, keys);
            uint32_t offset = 8 * (uint32_t)pdi_rand_below(&rand, 6);
            uint32_t size = 8 * (1 + (uint32_t)pdi_rand_below(&rand, 4));
            bool more = pdi_rand_chance(&rand, 3, 4), ready;
            uint8_t data[40];
            memcpy(data, payload + offset, size);
            if (pdi_rand_chance(&rand, 1, 20))
                data[pdi_rand_below(&rand, size)]++;
            if (!more)
                size -= (uint32_t)pdi_rand_below(&rand, 8);
            if (pdi_rand_chance(&rand, 1, 60))
                time_ns += (int64_t)pdi_rand_below(&rand, 2 * PDI_PIECES_WAIT_NS);
            if (seed % 4 == 3 && pdi_rand_chance(&rand, 1, 10))
                move();
            uint32_t lost = model_push(key, time_ns, offset, data, size, more, &ready);
            int status = push(key, time_ns, offset, data, size, more);
            CHECK_EQ(status, ready ? PYDDSI_OK : PYDDSI_AGAIN);
            CHECK_EQ(given_up, lost);
            if (status == PYDDSI_OK)
                CHECK(whole_size == models[key].size &&
                      memcmp(whole, models[key].bytes, whole_size) == 0);
        }
        uint32_t left = 0;
        for (uint32_t i = 0; i < MODEL_KEYS; i++)
            left += models[i].waits ? models[i].count : 0;
        CHECK_EQ(pdi_pieces_fini(pieces), left);
        if (test_failures != 0)
            printf("seed %" PRIu64 "\n", seed);
    }
}

/* ---- snapshots ---- */

/* A few packets that wait, for damaging. */
static size_t store_some(void)
{
    push(7, 100, 0, payload, 16, 1);
    push(7, 100, 32, payload, 8, 1);
    push(8, INT64_MIN, 8, payload, 3, 0);
    push(9, -5, 0, payload, 8, 1);
    size_t size = pdi_pieces_store(pieces, snapshot, sizeof(snapshot));
    pdi_pieces_fini(pieces);
    return size;
}

/* Loads bytes that may be anything: they are refused and nothing waits, or they are the snapshot of what waits now. */
static void load_any(const uint8_t *data, size_t size)
{
    static uint8_t again[4096];
    int status = pdi_pieces_load(pieces, data, size);
    CHECK(status == PYDDSI_OK || status == PYDDSI_BAD_INPUT);
    size_t stored = pdi_pieces_store(pieces, again, sizeof(again));
    if (status == PYDDSI_OK) {
        CHECK(stored == size && memcmp(again, data, size) == 0);
        for (unsigned identity = 7; identity < 10; identity++)
            push(identity, 100, 16, payload, 16, 1);
    } else {
        CHECK(stored == 1 && again[0] == 0);
    }
    pdi_pieces_fini(pieces);
}

/* If it failed, a snapshot that was cut or damaged would crash the reader, or be a state that no pieces lead to. */
static void test_hostile_snapshots(void)
{
    uint8_t good[512];
    size_t size = store_some();
    CHECK(size > 100 && size < sizeof(good));
    memcpy(good, snapshot, size);
    good[size] = 0;
    CHECK_EQ(pdi_pieces_load(pieces, good, size + 1), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_pieces_load(pieces, good, size - 1), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_pieces_load(pieces, good, size), PYDDSI_OK);
    CHECK_EQ(pdi_pieces_fini(pieces), 4);
    damage_all(good, size, load_any);
}

/* If it failed, a snapshot could say of a packet what cannot be, or where its bytes lie outside of its memory. */
static void test_impossible_snapshots(void)
{
    static const struct {
        uint32_t count, held, size, filled, gap, run, gap2, run2;
        int status;
    } cases[] = {
        {1, 8, 0, 1, 0, 1, 0, 0, PYDDSI_OK},
        {0, 8, 0, 1, 0, 1, 0, 0, PYDDSI_BAD_INPUT}, /* no piece, */
        {1, 0, 0, 1, 0, 1, 0, 0, PYDDSI_BAD_INPUT}, /* nothing in it, */
        {1, 8, 0, 0, 0, 0, 0, 0, PYDDSI_BAD_INPUT}, /* nothing here */
        {8193, 8, 0, 1, 0, 1, 0, 0, PYDDSI_BAD_INPUT},
        {1, 65536, 0, 1, 0, 1, 0, 0, PYDDSI_BAD_INPUT},
        {1, 8, 65536, 1, 0, 1, 0, 0, PYDDSI_BAD_INPUT},
        {1, 8, 8, 1, 0, 1, 0, 0, PYDDSI_BAD_INPUT}, /* whole, so it would not wait */
        {1, 8, 9, 1, 0, 1, 0, 0, PYDDSI_OK},
        {1, 8, 9, 1, 1, 1, 0, 0, PYDDSI_OK},
        {1, 8, 9, 1, 2, 1, 0, 0, PYDDSI_BAD_INPUT}, /* behind its end */
        {2, 8, 24, 2, 1, 2, 0, 0, PYDDSI_OK},
        {2, 8, 24, 2, 2, 2, 0, 0, PYDDSI_BAD_INPUT},
        {2, 8, 24, 2, 0, 1, 1, 1, PYDDSI_OK},
        {2, 8, 24, 2, 0, 1, 2, 1, PYDDSI_BAD_INPUT},
        {2, 8, 24, 2, 0, 1, 3, 1, PYDDSI_BAD_INPUT},
        {2, 8, 24, 2, 0, 1, 0, 1, PYDDSI_BAD_INPUT}, /* two runs that are one */
        {2, 8, 24, 2, 0, 3, 0, 0, PYDDSI_BAD_INPUT}, /* more than it says */
        {1, 8, 0, 1, 8190, 1, 0, 0,
         PYDDSI_OK}, /* without an end there is room for one unit behind it */
        {1, 8, 0, 1, 8191, 1, 0, 0, PYDDSI_BAD_INPUT},
        {2, 8, 0, 2, 8190, 2, 0, 0, PYDDSI_BAD_INPUT},
        {2, 8, 0, 2, 8189, 1, 1, 1, PYDDSI_BAD_INPUT},
        {1, 8, 65535, 1, 8191, 1, 0, 0, PYDDSI_OK},
        {1, 8, 65535, 1, 8192, 1, 0, 0, PYDDSI_BAD_INPUT},
        {1, 8, 0, 8191, 0, 8191, 0, 0, PYDDSI_OK},
        {1, 8, 0, 8192, 0, 8192, 0, 0, PYDDSI_BAD_INPUT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t numbers[] = {
            7, 17, 4, 100, cases[i].count, cases[i].held, cases[i].size, cases[i].filled};
        size_t size = damage_number(snapshot, 0, 1);
        memset(snapshot + size, 1, 32);
        size += 32;
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
            size = damage_number(snapshot, size, numbers[k]);
        if (cases[i].run != 0) {
            size = damage_number(snapshot, size, cases[i].gap);
            size = damage_number(snapshot, size, cases[i].run);
        }
        uint32_t end = (cases[i].gap + cases[i].run) * 8;
        bool cut = cases[i].size != 0 && cases[i].run2 == 0 && end > cases[i].size;
        size += cases[i].run * 8 - (cut ? end - cases[i].size : 0);
        if (cases[i].run2 != 0) {
            size = damage_number(snapshot, size, cases[i].gap2);
            size = damage_number(snapshot, size, cases[i].run2);
            size += cases[i].run2 * 8;
        }
        CHECK_EQ(pdi_pieces_load(pieces, snapshot, size), cases[i].status);
        if (cases[i].status == PYDDSI_OK)
            CHECK_EQ(pdi_pieces_store(pieces, NULL, 0), size);
        CHECK_EQ(pdi_pieces_fini(pieces), cases[i].status == PYDDSI_OK ? cases[i].count : 0);
    }
}

/* If it failed, a snapshot would be written over what lies behind its room, or be larger than it says. */
static void test_store_room(void)
{
    uint8_t out[512];
    push(8, 5, 8, payload, 3, 0); /* 40 bytes about it, a run, and no byte that is not here */
    CHECK_EQ(pdi_pieces_store(pieces, NULL, 0), 1 + 40 + 2 + 3);
    pdi_pieces_fini(pieces);
    size_t size = store_some();
    CHECK_EQ(pdi_pieces_load(pieces, snapshot, size), PYDDSI_OK);
    memset(out, 0xA5, sizeof(out));
    CHECK_EQ(pdi_pieces_store(pieces, out, size - 1), size);
    CHECK_EQ(pdi_pieces_store(pieces, NULL, 0), size);
    CHECK(out[size - 1] == 0xA5);
    CHECK_EQ(pdi_pieces_store(pieces, out, size), size);
    CHECK(memcmp(out, snapshot, size) == 0 && out[size] == 0xA5);
    pdi_pieces_fini(pieces);
}

int main(void)
{
    void *memory = malloc(pdi_pieces_size());
    void *second = malloc(pdi_pieces_size());
    if (memory == NULL || second == NULL)
        return 1;
    memset(memory, 0x5A, pdi_pieces_size());
    memset(second, 0x5A, pdi_pieces_size());
    pieces = pdi_pieces_init(memory);
    other = pdi_pieces_init(second);
    fill(1);
    test_orders();
    test_identity_again();
    test_keys();
    test_bounded();
    test_impossible();
    test_any_order();
    test_against_model();
    test_hostile_snapshots();
    test_impossible_snapshots();
    test_store_room();
    free(memory);
    free(second);
    return test_result();
}
