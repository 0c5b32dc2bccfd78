/* node/memory.c and the node as a whole: all memory is given at the start, in the sizes asked for.
 *
 * The program brings its own allocator, which counts: nodes go through everything that they can do,
 * and nobody may have asked it for a byte meanwhile. Under a sanitizer, which has an allocator of
 * its own, that one's hooks are counted instead. Either way the counter is tried out first.
 *
 * It is long because the little network that the nodes live in, the allocator and a life of everything
 * stand in it beside the tests of sizes. */
#include "base/rand.h"
#include "node/state.h"

#include <stdlib.h>

#include "test.h"

/* ---- the counter ---- */

/* Volatile, as compilers think that malloc changes nothing that they can see. */
static volatile uint64_t allocations;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#ifdef SANITIZED

int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *memory, size_t size)
{
    (void)memory;
    (void)size;
    allocations++;
}

static void on_free(const volatile void *memory)
{
    (void)memory;
    allocations++;
}

static void start_counting(void)
{
    CHECK(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0);
}

#else

/* Takes the place of the C library's for the whole program; what is freed is not used again. */
#define ARENA_BYTES (1U << 20)
#define ARENA_UNIT  16U

static _Alignas(64) uint8_t arena[ARENA_BYTES];
static size_t arena_used;

static void *arena_get(size_t alignment, size_t size)
{
    size_t at = (arena_used + ARENA_UNIT + alignment - 1) / alignment * alignment;
    allocations++;
    if (size > ARENA_BYTES || at > ARENA_BYTES - size) {
        return NULL;
    }
    memcpy(&arena[at - sizeof(size_t)], &size, sizeof size); /* for realloc */
    arena_used = at + size;
    return &arena[at];
}

void *malloc(size_t size)
{
    return arena_get(ARENA_UNIT, size);
}

void *calloc(size_t count, size_t size)
{
    return arena_get(ARENA_UNIT, count * size); /* the arena is zero, and never used twice */
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return arena_get(alignment, size);
}

void *realloc(void *memory, size_t size)
{
    size_t before = 0;
    uint8_t *fresh = arena_get(ARENA_UNIT, size);
    if (memory != NULL && fresh != NULL) {
        memcpy(&before, (uint8_t *)memory - sizeof(size_t), sizeof before);
        memcpy(fresh, memory, before < size ? before : size);
    }
    return fresh;
}

void free(void *memory)
{
    allocations += memory != NULL;
}

static void start_counting(void) {}

#endif

/* ---- a network of nodes ---- */

#define NODES_MAX   4
#define MEMORY_MAX  (UINT32_C(16) << 20)
#define CANARY      4096
#define MS          PDI_TIME_MS
#define PAYLOAD_MAX (200U << 10)
#define READ_MAX    64

static _Alignas(64) uint8_t memory[NODES_MAX][MEMORY_MAX];
static uint8_t payload[PAYLOAD_MAX];

static struct {
    struct pdi_node *node[NODES_MAX];
    pyddsi_endpoint endpoint[NODES_MAX];
    size_t size[NODES_MAX];
    uint8_t muted[NODES_MAX]; /* what it sends is lost */
    struct pdi_rand rand;
    pdi_time now;
    uint32_t loss; /* in 1000 packets */
    uint64_t packets, lost;
} net;

static const pyddsi_endpoint GROUP = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};
static const pyddsi_endpoint GROUP_2 = {.ip = {239, 255, 0, 2}, .port = 7447, .kind = 4};

static void net_init(uint64_t seed)
{
    memset(&net, 0, sizeof net);
    pdi_rand_init(&net.rand, seed);
    net.now = 1000 * MS;
}

static pyddsi_config config_of(uint32_t index)
{
    pyddsi_config config;
    pdi_config_init(&config);
    config.id_size = 2;
    config.id[0] = (uint8_t)(0xa0 + index);
    config.id[1] = 7;
    config.seed = 11 + index;
    config.incarnation = 1;
    config.multicast_to[0] = config.scout_to = GROUP;
    config.multicast_to[1] = GROUP_2;
    config.slots_max = 256;
    config.peers_max = 8;
    config.assembly_bytes = 1 << 20;
    config.keep_bytes = 1 << 20;
    return config;
}

static void net_node(uint32_t index, const pyddsi_config *config)
{
    const char *text = NULL;
    size_t size = pdi_node_size(config, &text);
    CHECK(size != 0 && size + CANARY <= MEMORY_MAX && text == NULL);
    memset(memory[index], 0xa5, MEMORY_MAX); /* nothing may rely on what was there */
    net.size[index] = size;
    net.endpoint[index] = (pyddsi_endpoint){
        .ip = {10, 0, 0, (uint8_t)(1 + index)}, .port = (uint16_t)(50000 + index), .kind = 4};
    CHECK_EQ(pdi_node_init(&net.node[index], config, memory[index], size, false, net.now),
             PYDDSI_OK);
}

static bool canaries_live(void)
{
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        for (uint32_t k = 0; net.node[i] != NULL && k < CANARY; k++) {
            if (memory[i][net.size[i] + k] != 0xa5) {
                return false;
            }
        }
    }
    return true;
}

static void carry(uint32_t from, const pyddsi_endpoint *to, const uint8_t *packet, size_t size)
{
    net.packets++;
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        bool meant = to->ip[0] == 239 || memcmp(to->ip, net.endpoint[i].ip, sizeof to->ip) == 0;
        if (net.node[i] == NULL || i == from || !meant) {
            continue;
        }
        if (net.muted[from] || pdi_rand_below(&net.rand, 1000) < net.loss) {
            net.lost++;
            continue;
        }
        size_t room;
        uint8_t *slot = pdi_node_slot(net.node[i], &room);
        CHECK(size <= room);
        memcpy(slot, packet, size);
        pdi_node_input(net.node[i], &net.endpoint[from], size, net.now);
    }
}

/* Everything that can happen now. */
static void net_drain(void)
{
    uint8_t packet[PYDDSI_PACKET_USUAL];
    size_t size;
    pyddsi_endpoint to;
    bool more = true;
    for (uint32_t round = 0; more && round < 1000; round++) {
        more = false;
        for (uint32_t i = 0; i < NODES_MAX; i++) {
            if (net.node[i] == NULL) {
                continue;
            }
            while (pdi_node_output(net.node[i], packet, sizeof packet, &size, &to, net.now) ==
                   PYDDSI_OK) {
                more = true;
                carry(i, &to, packet, size);
            }
            if (pdi_node_due(net.node[i]) <= net.now) {
                more = true;
                pdi_node_tick(net.node[i], net.now);
            }
        }
    }
}

static void net_run(pdi_time duration)
{
    pdi_time until = net.now + duration;
    net_drain();
    while (net.now < until) {
        pdi_time due = until;
        for (uint32_t i = 0; i < NODES_MAX; i++) {
            pdi_time mine = net.node[i] != NULL ? pdi_node_due(net.node[i]) : PDI_TIME_NEVER;
            due = mine < due ? mine : due;
        }
        net.now = due > net.now ? due : net.now + 1000;
        net_drain();
    }
}

/* ---- what applications do ---- */

static void declare_name(uint32_t node, uint64_t resource, const char *name)
{
    uint32_t handle;
    int status = 0;
    pyddsi_bytes bytes = {(const uint8_t *)name, strlen(name)};
    CHECK_EQ(pdi_node_resource(net.node[node], 0, resource, bytes, 0, PYDDSI_BY_RESOURCE, 0,
                               &handle, &status),
             PYDDSI_OK);
}

static uint32_t publish(uint32_t node, const pyddsi_publisher_options *options)
{
    uint32_t handle = 0;
    int status = 0;
    CHECK_EQ(pdi_node_publisher(net.node[node], options, &handle, &status), PYDDSI_OK);
    return handle;
}

static uint32_t subscribe(uint32_t node, const pyddsi_subscriber_options *options)
{
    uint32_t handle = 0;
    int status = 0;
    CHECK_EQ(pdi_node_subscriber(net.node[node], options, &handle, &status), PYDDSI_OK);
    return handle;
}

/* Takes and releases all there is; answers how many. *bytes, if given, sums their sizes. */
static uint64_t read_all(uint32_t node, uint32_t subscriber, uint64_t *bytes)
{
    pyddsi_received sample;
    uint64_t count = 0;
    while (pdi_node_take(net.node[node], subscriber, &sample, net.now) == PYDDSI_OK) {
        count += !sample.last;
        if (bytes != NULL) {
            *bytes += sample.size;
        }
        pdi_node_release(net.node[node], &sample);
    }
    return count;
}

/* ---- nothing is allocated ---- */

static void test_counter_sees(void)
{
    /* The counter is blind, and so every life looks free of allocations. */
    uint64_t before = allocations;
    void *volatile piece = malloc(10);
    CHECK(allocations > before);
    before = allocations;
    free(piece);
    CHECK(allocations > before);
}

/* The parts of a node that a life uses: one application per node. */
struct life {
    uint32_t plain, wide, best, kept, each;       /* publishers of node 0 */
    uint32_t reader[NODES_MAX], where[NODES_MAX]; /* on the others: plain, with a predicate, */
    uint32_t large[NODES_MAX], lossy[NODES_MAX];  /* fragments, best effort, */
    uint32_t puller[NODES_MAX], other[NODES_MAX]; /* pull, unicast */
    uint64_t put, put_large, put_kept;
    uint64_t got, got_where, got_large, got_lossy, got_pulled, got_other;
};

static void life_declare(struct life *life)
{
    static const char *const names[] = {"/life/plain", "/life/wide", "/life/best", "/life/kept",
                                        "/life/each"};
    for (uint64_t i = 0; i < 5; i++) {
        declare_name(0, i + 1, names[i]);
    }
    life->plain = publish(0, &(pyddsi_publisher_options){.resource = 1, .reliability = 1});
    life->wide = publish(0, &(pyddsi_publisher_options){.resource = 2, .reliability = 1});
    life->best = publish(0, &(pyddsi_publisher_options){.resource = 3, .reliability = 2});
    life->kept = publish(
        0, &(pyddsi_publisher_options){.resource = 4, .reliability = 1, .shelf_samples = 8});
    life->each = publish(
        0, &(pyddsi_publisher_options){.resource = 5, .reliability = 1, .way = PYDDSI_WAY_EACH});
}

static void life_join(struct life *life, uint32_t node)
{
    uint32_t handle;
    int status = 0;
    static const char query[] = "/life/plain?{$size < 20}";
    pyddsi_bytes bytes = {(const uint8_t *)query, sizeof query - 1};
    pyddsi_subscriber_options options = {.mode = PYDDSI_PUSH, .depth = 64};
    declare_name(node, 90 + node, "/life/any/**");
    status = pdi_node_selection(net.node[node], 0, 70 + node, bytes, 0, &handle, &status);
    CHECK_EQ(status, PYDDSI_OK);
    options.resource = 1;
    life->reader[node] = subscribe(node, &options);
    options.resource = 2;
    life->large[node] = subscribe(node, &options);
    options.resource = 3;
    options.reliability = PYDDSI_BEST_EFFORT;
    life->lossy[node] = subscribe(node, &options);
    options.resource = 5;
    options.reliability = PYDDSI_RELIABLE;
    life->other[node] = subscribe(node, &options);
    options.resource = 4;
    options.mode = PYDDSI_PULL_MODE;
    life->puller[node] = subscribe(node, &options);
    options.mode = PYDDSI_PUSH;
    options.resource = 70 + node;
    options.is_selection = 1;
    life->where[node] = subscribe(node, &options);
}

static void life_leave(const struct life *life, uint32_t node)
{
    const uint32_t all[] = {life->reader[node], life->large[node],  life->lossy[node],
                            life->other[node],  life->puller[node], life->where[node]};
    for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK_EQ(pdi_node_forget(net.node[node], all[i], net.now), PYDDSI_OK);
    }
}

static void life_read(struct life *life)
{
    for (uint32_t node = 1; node < 3; node++) {
        life->got += read_all(node, life->reader[node], NULL);
        life->got_where += read_all(node, life->where[node], NULL);
        life->got_large += read_all(node, life->large[node], NULL);
        life->got_lossy += read_all(node, life->lossy[node], NULL);
        life->got_pulled += read_all(node, life->puller[node], NULL);
        life->got_other += read_all(node, life->other[node], NULL);
    }
}

/* A sample that goes out piece by piece while its readers read. */
static void life_stream(struct life *life)
{
    size_t done = 0, taken = 0;
    if (pdi_node_begin(net.node[0], life->wide, PAYLOAD_MAX, net.now) != PYDDSI_OK) {
        return;
    }
    for (uint32_t i = 0; done < PAYLOAD_MAX && i < 10000; i++) {
        (void)pdi_node_more(net.node[0], life->wide, payload + done, PAYLOAD_MAX - done, &taken,
                            net.now);
        done += taken;
        net_run(MS);
        life_read(life);
    }
    CHECK_EQ(done, PAYLOAD_MAX);
    life->put_large++;
}

static void life_write(struct life *life)
{
    struct pdi_node *node = net.node[0];
    uint8_t *data;
    uint32_t loan;
    uint32_t size = 1 + (uint32_t)pdi_rand_below(&net.rand, 60);
    pyddsi_bytes some[3] = {{payload, 5}, {payload, size}, {payload, 1}};
    switch (pdi_rand_below(&net.rand, 8)) {
    case 0:
        life->put += pdi_node_put_many(node, life->plain, some, 3, net.now) == PYDDSI_OK ? 3 : 0;
        break;
    case 1:
        if (pdi_node_loan(node, life->plain, 50, &data, &loan) == PYDDSI_OK) {
            memset(data, 1, 50);
            bool keep = pdi_rand_below(&net.rand, 2) != 0;
            int status =
                keep ? pdi_node_commit(node, loan, 40, net.now) : pdi_node_abandon(node, loan);
            life->put += keep && status == PYDDSI_OK;
            if (status == PYDDSI_AGAIN) {
                CHECK_EQ(pdi_node_abandon(node, loan), PYDDSI_OK);
            }
        }
        break;
    case 2:
        life->put_large +=
            pdi_node_put(node, life->wide, payload, 20000 + 100 * size, net.now) == PYDDSI_OK;
        break;
    case 3:
        (void)pdi_node_put(node, life->best, payload, size, net.now);
        break;
    case 4:
        life->put_kept += pdi_node_put(node, life->kept, payload, size, net.now) == PYDDSI_OK;
        break;
    case 5:
        (void)pdi_node_put(node, life->each, payload, size, net.now);
        break;
    case 6:
        (void)pdi_node_put_name(node, (pyddsi_bytes){(const uint8_t *)"/life/any/x", 11}, 1,
                                payload, size, net.now);
        break;
    default:
        life->put += pdi_node_put(node, life->plain, payload, size, net.now) == PYDDSI_OK;
    }
}

static void life_look(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        pyddsi_event event;
        pyddsi_drop drop;
        pyddsi_stats stats;
        pyddsi_peer peer;
        pyddsi_window window;
        while (pdi_node_event(net.node[i], &event) == PYDDSI_OK) {
        }
        for (uint32_t k = 0; pdi_node_drop(net.node[i], k, &drop) == PYDDSI_OK; k++) {
        }
        for (uint32_t k = 0; pdi_node_peer(net.node[i], k, &peer) == PYDDSI_OK; k++) {
        }
        pdi_node_stats(net.node[i], &stats);
        CHECK_EQ(pdi_node_window(net.node[i], 0, &window), PYDDSI_OK);
    }
}

static void test_life_without_allocation(void)
{
    /* 002-8: something that a node does in its life asks for memory: a session, a declaration, a
     * sample, its loss and repetition, fragments, a pull, or an end. */
    static struct life life;
    net_init(5);
    for (uint32_t i = 0; i < 3; i++) {
        pyddsi_config config = config_of(i);
        net_node(i, &config);
    }
    uint64_t before = allocations;
    net_run(100 * MS);
    life_declare(&life);
    for (uint32_t round = 0; round < 6; round++) {
        net.loss = round % 2 == 0 ? 0 : 80;
        life_join(&life, 1);
        life_join(&life, 2);
        net_run(200 * MS);
        life_stream(&life);
        for (uint32_t step = 0; step < 400; step++) {
            life_write(&life);
            if (step % 40 == 0) {
                pdi_node_flush(net.node[0], net.now);
                (void)pdi_node_pull(net.node[1], life.puller[1], 4, net.now);
                life_look();
            }
            net_run(pdi_rand_below(&net.rand, 2) * MS);
            life_read(&life);
        }
        net.loss = 0;
        net_run(1000 * MS);
        life_read(&life);
        life_leave(&life, 1);
        life_leave(&life, 2);
        if (round % 3 == 1) {
            CHECK_EQ(pdi_node_close_session(net.node[1], &net.endpoint[0], 0, net.now), PYDDSI_OK);
        } else if (round % 3 == 2) {
            net.muted[2] = 1; /* its lease runs out */
            net_run(12000 * MS);
            net.muted[2] = 0;
        }
        net_run(6000 * MS);
    }
    uint64_t after = allocations;
    pyddsi_stats stats;
    pdi_node_stats(net.node[0], &stats);
    for (uint32_t i = 0; i < 3; i++) {
        pdi_node_close(net.node[i], net.now);
    }
    net_run(100 * MS);
    CHECK_EQ(after, before);
    CHECK_EQ(allocations, before);
    CHECK(canaries_live());
    /* it was a life, and all of it happened */
    CHECK(life.put > 500 && life.put_large > 100 && life.put_kept > 100);
    CHECK_EQ(life.got, 2 * life.put);
    CHECK_EQ(life.got_large, 2 * life.put_large);
    CHECK(life.got_where > 0 && life.got_where < life.got);
    CHECK(life.got_lossy > 0 && life.got_pulled > 0 && life.got_other > 0);
    CHECK(stats.resent > 100 && net.lost > 500);
}

/* ---- sizes at run time ---- */

static void test_two_sizes(void)
{
    /* 002-8: the sizes of one node are those of another, or of the build, and not what it was told. */
    net_init(1);
    pyddsi_config small = config_of(0), large = config_of(1);
    small.multicast_bytes[0] = 1024;
    small.multicast_samples[0] = 8;
    small.unicast_bytes = 4096;
    small.unicast_samples = 16;
    small.peers_max = 2;
    small.slots_max = 16;
    small.order_max = 16;
    small.ring_samples = 64;
    small.assembly_bytes = 8192;
    small.shelf_bytes = 1024;
    small.events_max = 8;
    CHECK(pdi_node_size(&small, NULL) < pdi_node_size(&large, NULL));
    net_node(0, &small);
    net_node(1, &large);
    memset(&small, 0xff, sizeof small); /* the node has its own copy */
    memset(&large, 0xff, sizeof large);
    net_run(100 * MS);
    pyddsi_window window;
    CHECK_EQ(pdi_node_window(net.node[0], 0, &window), PYDDSI_OK);
    CHECK_EQ(window.size_bytes, 1024);
    CHECK_EQ(window.samples_max, 8);
    CHECK_EQ(pdi_node_window(net.node[0], -1, &window), PYDDSI_OK);
    CHECK_EQ(window.size_bytes, 4096);
    CHECK_EQ(window.samples_max, 16);
    CHECK_EQ(pdi_node_window(net.node[1], 0, &window), PYDDSI_OK);
    CHECK_EQ(window.size_bytes, 256 * 1024);
    CHECK_EQ(window.samples_max, 1024);
    CHECK(canaries_live());
}

static void test_memory_given(void)
{
    /* 002-8: a node takes less memory than it uses, or memory that it cannot use. */
    static struct pdi_node *node;
    pyddsi_config config = config_of(0);
    size_t size = pdi_node_size(&config, NULL);
    CHECK_EQ(pdi_node_init(&node, &config, memory[0], size - 1, false, 0), PYDDSI_NO_SPACE);
    CHECK_EQ(pdi_node_init(&node, &config, memory[0] + 8, size, false, 0), PYDDSI_BAD_ARGUMENT);
    config.order_max = 3;
    const char *text = NULL;
    CHECK_EQ(pdi_node_size(&config, &text), 0);
    CHECK(text != NULL && strstr(text, "order_max") != NULL);
    CHECK_EQ(pdi_node_init(&node, &config, memory[0], MEMORY_MAX, false, 0), PYDDSI_BAD_ARGUMENT);
}

/* Puts samples of `size` bytes until the window is full; the peers say nothing meanwhile. */
static uint32_t fill(uint32_t publisher, size_t size)
{
    uint32_t count = 0;
    while (pdi_node_put(net.node[0], publisher, payload, size, net.now) == PYDDSI_OK &&
           count < PDI_WINDOW_ENTRIES_MAX) {
        count++;
    }
    CHECK_EQ(pdi_node_put(net.node[0], publisher, payload, size, net.now), PYDDSI_AGAIN);
    return count;
}

static void test_window_per_conduit(void)
{
    /* 002-9: the windows of two conduits are of one size, or stats show another than writers meet. */
    net_init(2);
    pyddsi_config config = config_of(0);
    config.multicasts = 2;
    config.multicast_bytes[0] = 64 << 10;
    config.multicast_bytes[1] = 4 << 20;
    config.multicast_samples[0] = 128;
    config.multicast_samples[1] = 4096;
    net_node(0, &config);
    config = config_of(1);
    config.multicasts = 2; /* it hears both groups */
    net_node(1, &config);
    net_run(100 * MS);
    declare_name(0, 1, "/one");
    declare_name(0, 2, "/two");
    uint32_t publisher[2], reader[2];
    for (uint8_t i = 0; i < 2; i++) {
        publisher[i] = publish(
            0, &(pyddsi_publisher_options){.resource = 1U + i, .reliability = 1, .conduit = i});
        reader[i] =
            subscribe(1, &(pyddsi_subscriber_options){
                             .resource = 1U + i, .mode = 1, .depth = 4096, .reliability = 1});
    }
    net_run(100 * MS);
    for (int i = 0; i < 2; i++) {
        pyddsi_window window;
        uint32_t size = i == 0 ? 64U << 10 : 4U << 20;
        CHECK_EQ(pdi_node_conduit(net.node[0], publisher[i]), i);
        CHECK_EQ(fill(publisher[i], 1024), size / 1024);
        CHECK_EQ(pdi_node_window(net.node[0], i, &window), PYDDSI_OK);
        CHECK_EQ(window.size_bytes, size);
        CHECK_EQ(window.used_bytes, size);
        CHECK_EQ(window.used_samples, size / 1024);
        CHECK_EQ(window.samples_max, i == 0 ? 128 : 4096);
    }
    for (int i = 0; i < 100; i++) {
        net_run(20 * MS);
        (void)read_all(1, reader[0], NULL);
        (void)read_all(1, reader[1], NULL);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pdi_node_put(net.node[0], publisher[i], payload, 1024, net.now), PYDDSI_OK);
    }
    CHECK(canaries_live());
}

static void test_window_per_peer(void)
{
    /* 002-10: the window that was asked for one peer is not that peer's, or is others' as well. */
    net_init(3);
    pyddsi_config config = config_of(0);
    config.unicast_bytes = 16 << 10;
    config.unicast_samples = 64;
    net_node(0, &config);
    for (uint32_t i = 1; i < 4; i++) {
        config = config_of(i);
        pyddsi_bytes id = {config.id, config.id_size};
        if (i > 1) {
            CHECK_EQ(pdi_node_peer_window(net.node[0], id, i == 2 ? 4096 : 8192, 8), PYDDSI_OK);
        }
        net_node(i, &config);
    }
    net_run(100 * MS);
    static const uint32_t sizes[] = {0, 16 << 10, 4096, 8192};
    for (uint32_t index = 0; index < 3; index++) {
        pyddsi_peer peer;
        pyddsi_window window;
        CHECK_EQ(pdi_node_peer(net.node[0], index, &peer), PYDDSI_OK);
        uint32_t which = peer.id[0] - 0xa0U;
        CHECK(which >= 1 && which < 4);
        CHECK_EQ(pdi_node_window(net.node[0], -1 - (int)index, &window), PYDDSI_OK);
        CHECK_EQ(window.size_bytes, sizes[which]);
        CHECK_EQ(window.samples_max, which == 1 ? 64 : 8);
    }
    declare_name(0, 1, "/one");
    for (uint32_t i = 1; i < 4; i++) { /* one after the other, each alone */
        uint32_t publisher =
            publish(0, &(pyddsi_publisher_options){
                           .resource = 10U + i, .reliability = 1, .way = PYDDSI_WAY_UNICAST});
        (void)subscribe(i, &(pyddsi_subscriber_options){
                               .resource = 10U + i, .mode = 1, .depth = 64, .reliability = 1});
        net_run(100 * MS);
        /* declarations went before, so the ring may begin anywhere and lose a piece at its end */
        uint32_t count = fill(publisher, 1024);
        CHECK(count == sizes[i] / 1024 || count == sizes[i] / 1024 - 1);
    }
    CHECK(canaries_live());
}

static void test_window_per_peer_limits(void)
{
    /* 002-10: an override that cannot be is taken, or one more of them overwrites another. */
    net_init(4);
    pyddsi_config config = config_of(0);
    uint8_t id[2] = {1, 0};
    net_node(0, &config);
    CHECK_EQ(pdi_node_peer_window(net.node[0], (pyddsi_bytes){id, 0}, 8192, 8),
             PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(pdi_node_peer_window(net.node[0], (pyddsi_bytes){id, 2}, 100, 8), PYDDSI_BAD_ARGUMENT);
    for (uint32_t i = 0; i < PDI_OVERRIDES_MAX; i++) {
        id[1] = (uint8_t)i;
        CHECK_EQ(pdi_node_peer_window(net.node[0], (pyddsi_bytes){id, 2}, 8192, 8), PYDDSI_OK);
    }
    CHECK_EQ(pdi_node_peer_window(net.node[0], (pyddsi_bytes){id, 2}, 9000, 8), PYDDSI_OK);
    id[0] = 2;
    CHECK_EQ(pdi_node_peer_window(net.node[0], (pyddsi_bytes){id, 2}, 8192, 8), PYDDSI_NO_SPACE);
}

/* ---- layout ---- */

static uintptr_t line_of(const void *place)
{
    return (uintptr_t)place / PDI_CACHE_LINE;
}

static void test_lines(void)
{
    /* 002-44: what the sender writes shares a cache line with what the receiver writes, and each
     * write of one makes the other wait. */
    net_init(6);
    pyddsi_config config = config_of(0);
    config.multicasts = 2;
    config.peers_max = 3;
    config.conduits_in = 3;
    net_node(0, &config);
    const struct pdi_node *node = net.node[0];
    uint32_t orders = config.peers_max * config.conduits_in;
    for (uint32_t i = 0; i < node->conduits; i++) {
        const struct pdi_conduit *out = &node->out[i];
        uintptr_t first = line_of(out), last = line_of((const uint8_t *)(out + 1) - 1);
        CHECK_EQ((uintptr_t)out % PDI_CACHE_LINE, 0);
        for (uint32_t k = 0; k < orders;
             k++) { /* incoming and outgoing conduits have no line in common */
            const struct pdi_order *in = &node->orders[k];
            CHECK(line_of(in) > last || line_of((const uint8_t *)(in + 1) - 1) < first);
        }
        /* the shared word of a window is alone between what is constant and what the sender writes */
        CHECK(line_of(&out->window.word) > line_of(&out->window.regions_max));
        CHECK(line_of(&out->window.next) > line_of(&out->window.word));
        CHECK(line_of(&out->to) >= line_of(&out->window.region_tail));
        if (i > 0) {
            CHECK(first > line_of((const uint8_t *)&node->out[i - 1].window.region_tail));
        }
    }
    const void *pieces[] = {node->out,   node->members, node->orders, node->kept,
                            node->peers, node->readers, node->work,   node->pool.holds};
    for (uint32_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        CHECK_EQ((uintptr_t)pieces[i] % PDI_CACHE_LINE, 0);
    }
    uintptr_t last = line_of((const uint8_t *)(node + 1) - 1);
    CHECK(line_of(node->out) > last && line_of(node->orders) > last && line_of(node->peers) > last);
    CHECK(line_of(node->members) > line_of((const uint8_t *)(node->out + node->conduits) - 1));
    CHECK(line_of(node->pool.holds) != line_of(node->orders + orders - 1));
}

int main(void)
{
    static char line[4096]; /* stdout must not ask for memory at its first word */
    (void)setvbuf(stdout, line, _IOFBF, sizeof line);
    start_counting();
    test_counter_sees();
    test_memory_given();
    test_two_sizes();
    test_life_without_allocation();
    test_window_per_conduit();
    test_window_per_peer();
    test_window_per_peer_limits();
    test_lines();
    return test_result();
}
