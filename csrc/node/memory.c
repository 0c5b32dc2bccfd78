/* memory.c - a node's configuration, and its one block of memory.
 *
 * lay_out runs twice: once to measure, once to cut. Everything that a node will ever use is in the block, so what a
 * configuration costs is known before it starts, and there is no allocation while it runs.
 */
#include "node/state.h"

#define NEED(condition, words)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return (words);                                                                        \
        }                                                                                          \
    } while (0)

void pdi_config_init(pyddsi_config *config)
{
    *config = (pyddsi_config){
        .role = PYDDSI_PEER,
        .seq_bits = 14,
        .rid_bits = 64,
        .features = PYDDSI_CAN_ALL,
        .lease_ms = 5000,
        .scout_ms = 3000,
        .open_ms = 1000,
        .opens_max = 5,
        .synch_ms = 10,
        .rtt_us = 1000,
        .latency_us = 500,
        .slow_ms = 1000,
        .packet_max = PYDDSI_PACKET_USUAL,
        .multicasts = 1,
        .unicast_bytes = 64 * 1024,
        .unicast_samples = 256,
        .peers_max = 256,
        .conduits_in = 4,
        .order_max = 256,
        .slots_max = 1024,
        .assembly_bytes = 8 << 20,
        .assembly_max = 64,
        .sample_max = 4 << 20,
        .resources_max = 256,
        .names_bytes = 64 * 1024,
        .publishers_max = 64,
        .subscribers_max = 64,
        .remotes_max = 1024,
        .remotes_peer_max = 512,
        .transaction_bytes = 16 * 1024,
        .ring_samples = 8192,
        .keep_bytes = 8 << 20,
        .shelf_bytes = 256 * 1024,
        .shelf_samples = 1024,
        .events_max = 256,
        .ledger_max = 256,
    };
    for (uint32_t i = 0; i < PYDDSI_MULTICASTS_MAX; i++) {
        config->multicast_bytes[i] = 256 * 1024;
        config->multicast_samples[i] = 1024;
    }
}

static bool power_of_two(uint32_t number)
{
    return number >= 2 && (number & (number - 1)) == 0;
}

/* Null, or what is wrong and what would be right. */
static const char *fault_of(const pyddsi_config *config)
{
    NEED(config->id_size >= 1 && config->id_size <= PYDDSI_ID_MAX, "id_size must be 1 to 16");
    NEED(config->role <= PYDDSI_BROKER, "role must be PYDDSI_PEER, PYDDSI_CLIENT or PYDDSI_BROKER");
    NEED(config->scout_ms >= 1 && config->open_ms >= 1 && config->synch_ms >= 1 &&
             config->rtt_us >= 1,
         "scout_ms, open_ms, synch_ms and rtt_us must be at least 1");
    NEED(config->lease_ms <= UINT32_MAX - 99, "lease_ms must be at most 4294967196");
    NEED(config->seq_bits >= PDI_SEQ_BITS_MIN && config->seq_bits <= PDI_SEQ_BITS_MAX,
         "seq_bits must be 7 to 56");
    NEED(config->rid_bits == 8 || config->rid_bits == 16 || config->rid_bits == 32 ||
             config->rid_bits == 64,
         "rid_bits must be 8, 16, 32 or 64");
    NEED(config->packet_max >= 1280 && config->packet_max <= PYDDSI_PACKET_MAX,
         "packet_max must be 1280 to 65507, so that a declaration fits");
    NEED(config->asked_count <= sizeof config->asked / sizeof config->asked[0],
         "asked_count must be at most 17");
    NEED(config->multicasts <= PYDDSI_MULTICASTS_MAX, "multicasts must be at most 8");
    NEED(config->peers_max >= 1 && config->peers_max <= PYDDSI_PEERS_MAX,
         "peers_max must be 1 to 1024");
    NEED(config->conduits_in >= 1 && config->conduits_in <= 64, "conduits_in must be 1 to 64");
    NEED(power_of_two(config->order_max) && config->order_max <= 1U << 14,
         "order_max must be a power of two from 2 to 16384");
    NEED(power_of_two(config->slots_max) && config->slots_max <= 1U << 20,
         "slots_max must be a power of two from 2 to 1048576");
    NEED(config->unicast_bytes >= 2 * PDI_REGISTRY_ROOM_MIN &&
             config->unicast_bytes <= PDI_WINDOW_BYTES_MAX,
         "unicast_bytes must be 2400 to 64 MiB, since declarations take this way");
    for (uint32_t i = 0; i < config->multicasts; i++) {
        NEED(config->multicast_bytes[i] >= PDI_WINDOW_BYTES_MIN &&
                 config->multicast_bytes[i] <= PDI_WINDOW_BYTES_MAX,
             "multicast_bytes must be 64 to 64 MiB");
    }
    NEED(config->assembly_bytes >= PDI_SERIES_PAGE, "assembly_bytes must be at least 4096");
    NEED(config->assembly_max >= 1 && config->assembly_max <= PDI_SERIES_MAX,
         "assembly_max must be 1 to 65536");
    NEED(config->resources_max >= 1 && config->resources_max <= 1U << 20,
         "resources_max must be 1 to 1048576");
    NEED(config->publishers_max <= 1U << 15 && config->subscribers_max <= 1U << 15,
         "publishers_max and subscribers_max must be at most 32768");
    NEED(config->ring_samples >= 2 && config->ring_samples <= 1U << 24,
         "ring_samples must be 2 to 16777216");
    NEED(config->keep_bytes >= PDI_KEEP_PAGE, "keep_bytes must be at least 64");
    NEED(config->shelf_samples <= 1U << 24, "shelf_samples must be at most 16777216");
    NEED(config->events_max >= 1 && config->events_max <= 1U << 20,
         "events_max must be 1 to 1048576");
    NEED(config->ledger_max <= 1U << 20, "ledger_max must be at most 1048576");
    return NULL;
}

uint32_t pdi_memory_entries(const struct pdi_node *node, uint32_t samples)
{
    uint32_t entries = 2;
    uint64_t quarter = UINT64_C(1) << (node->config.seq_bits - 2);
    while (entries < samples && entries < PDI_WINDOW_ENTRIES_MAX && entries < quarter) {
        entries *= 2;
    }
    return entries;
}

static size_t window_block(const struct pdi_node *node)
{
    struct pdi_carve carve = {0};
    uint32_t entries = pdi_memory_entries(node, node->config.unicast_samples);
    (void)pdi_carve(&carve, node->config.unicast_bytes, 1);
    (void)pdi_carve(&carve, entries, sizeof(struct pdi_entry));
    (void)pdi_carve(&carve, (size_t)entries * 2, sizeof(struct pdi_region));
    return (carve.size + PDI_PAGE - 1) / PDI_PAGE;
}

static struct pdi_conduit *begin_conduit(struct pdi_node *node, uint32_t number, uint32_t peer)
{
    struct pdi_conduit *conduit = &node->out[number];
    conduit->number = number;
    conduit->peer = peer;
    conduit->packet_max = node->config.packet_max;
    conduit->draft = node->drafts + (size_t)number * 2 * node->config.packet_max;
    conduit->sealed = conduit->draft + node->config.packet_max;
    return conduit;
}

/* Takes the memory of one more place for a peer. Until then nothing of it is written, so places that are never used take
 * nothing from the system. */
void pdi_memory_peer(struct pdi_node *node)
{
    uint32_t peer = node->peers_used++;
    (void)begin_conduit(node, node->config.multicasts + peer, peer);
    pdi_peer_init(&node->peers[peer].word);
}

static void lay_out_sending(struct pdi_node *node, struct pdi_carve *carve, bool real)
{
    const pyddsi_config *config = &node->config;
    uint32_t conduits = config->multicasts + config->peers_max;
    uint32_t pages = (uint32_t)window_block(node) * config->peers_max;
    node->conduits = conduits;
    node->out = pdi_carve(carve, conduits, sizeof *node->out);
    node->members = pdi_carve(carve, (size_t)(config->multicasts + 1) * config->peers_max,
                              sizeof *node->members);
    node->work = pdi_carve_bits(carve, conduits);
    node->talk = pdi_carve_bits(carve, config->peers_max);
    node->ended = pdi_carve_bits(carve, config->peers_max);
    uint64_t *used = pdi_carve_bits(carve, pages);
    node->window_memory = pdi_carve(carve, pages, PDI_PAGE);
    node->drafts = pdi_carve(carve, (size_t)conduits * 2, config->packet_max);
    node->copy = pdi_carve(carve, 1, config->packet_max);
    uint64_t most =
        config->sample_max > config->unicast_bytes ? config->sample_max : config->unicast_bytes;
    uint32_t scratch_bytes = most < PDI_WINDOW_BYTES_MAX ? (uint32_t)most : PDI_WINDOW_BYTES_MAX;
    uint8_t *scratch = pdi_carve(carve, scratch_bytes, 1);
    struct pdi_entry *scratch_entries =
        pdi_carve(carve, PDI_SCRATCH_ENTRIES, sizeof *scratch_entries);
    struct pdi_region *scratch_regions =
        pdi_carve(carve, (size_t)PDI_SCRATCH_ENTRIES * 2, sizeof *scratch_regions);
    if (real) {
        pdi_carve_clear(carve, node->out, (size_t)conduits * sizeof *node->out);
        pdi_carve_clear(carve, node->members,
                        (size_t)(config->multicasts + 1) * config->peers_max *
                            sizeof *node->members);
        (void)pdi_pages_init(&node->window_pages, used, pages);
        (void)pdi_window_init(&node->scratch, scratch, scratch_bytes, scratch_entries,
                              PDI_SCRATCH_ENTRIES, scratch_regions, PDI_SCRATCH_ENTRIES * 2);
    }
    for (uint32_t i = 0; i < config->multicasts; i++) {
        uint32_t entries = pdi_memory_entries(node, config->multicast_samples[i]);
        uint32_t bytes = config->multicast_bytes[i];
        uint8_t *memory = pdi_carve(carve, bytes, 1);
        struct pdi_entry *entry = pdi_carve(carve, entries, sizeof *entry);
        struct pdi_region *regions = pdi_carve(carve, (size_t)entries * 2, sizeof *regions);
        if (!real) {
            continue;
        }
        struct pdi_conduit *conduit = begin_conduit(node, i, PDI_NONE);
        conduit->id = (uint16_t)i;
        conduit->to = config->multicast_to[i];
        conduit->open = 1;
        conduit->features = PYDDSI_CAN_ALL;
        conduit->flush_at = PDI_TIME_NEVER;
        conduit->synch_wait = config->synch_ms * PDI_TIME_MS;
        (void)pdi_window_init(&conduit->window, memory, bytes, entry, entries, regions,
                              entries * 2);
    }
}

static void lay_out_receiving(struct pdi_node *node, struct pdi_carve *carve, bool real)
{
    const pyddsi_config *config = &node->config;
    uint32_t orders = config->peers_max * config->conduits_in;
    uint32_t pages = config->assembly_bytes / PDI_SERIES_PAGE;
    uint32_t endpoints = PDI_MAP_CAPACITY_MIN;
    while (PDI_MAP_LIMIT(endpoints) < config->peers_max) {
        endpoints *= 2;
    }
    node->peers = pdi_carve(carve, config->peers_max, sizeof *node->peers);
    struct pdi_map_slot *map = pdi_carve(carve, endpoints, sizeof *map);
    uint64_t *map_used = pdi_carve_bits(carve, endpoints);
    node->orders = pdi_carve(carve, orders, sizeof *node->orders);
    node->kept = pdi_carve(carve, (size_t)orders * config->order_max, sizeof *node->kept);
    node->held = pdi_carve_bits(carve, orders);
    node->parts = pdi_carve(carve, orders, sizeof *node->parts);
    uint8_t *slots = pdi_carve(carve, config->slots_max, config->packet_max);
    struct pdi_atomic32 *holds = pdi_carve(carve, config->slots_max, sizeof *holds);
    void *free_ring = pdi_carve(carve, PDI_RING_MPSC_BYTES(config->slots_max, 4), 1);
    node->spare = pdi_carve(carve, config->packet_max, 1);
    uint8_t *assembly = pdi_carve(carve, pages, PDI_SERIES_PAGE);
    uint64_t *assembly_used = pdi_carve(carve, PDI_BITSET_WORDS(pages), 8);
    struct pdi_series *series = pdi_carve(carve, config->assembly_max, sizeof *series);
    node->series_holds = pdi_carve(carve, config->assembly_max, sizeof *node->series_holds);
    node->series_via = pdi_carve(carve, config->assembly_max, sizeof *node->series_via);
    node->routes = pdi_carve(carve, PDI_ROUTE_CACHE + 2, sizeof *node->routes);
    size_t whole = config->subscribers_max;
    size_t remembered = (size_t)PDI_ROUTE_CACHE * PDI_ROUTE_READERS + 2 * whole;
    uint16_t *route_readers = pdi_carve(carve, remembered, sizeof *route_readers);
    const struct pdi_predicate **filters =
        (const struct pdi_predicate **)pdi_carve(carve, remembered, sizeof(void *));
    node->route_handles =
        pdi_carve(carve, (size_t)config->subscribers_max + 1, sizeof *node->route_handles);
    node->slot_kept = pdi_carve(carve, config->slots_max, sizeof *node->slot_kept);
    if (!real) {
        return;
    }
    pdi_carve_clear(carve, node->peers, config->peers_max * sizeof *node->peers);
    (void)pdi_map_init(&node->endpoints, map, map_used, endpoints, node->hash_seed);
    pdi_carve_clear(carve, node->orders, orders * sizeof *node->orders);
    pdi_carve_clear(carve, node->parts, orders * sizeof *node->parts);
    (void)pdi_pool_init(&node->pool, slots, config->packet_max, config->slots_max, holds,
                        free_ring);
    (void)pdi_assembler_init(&node->assembler, assembly, assembly_used, pages, series,
                             config->assembly_max, config->sample_max);
    pdi_carve_clear(carve, node->series_holds, config->assembly_max * sizeof *node->series_holds);
    pdi_carve_clear(carve, node->series_via, config->assembly_max * sizeof *node->series_via);
    pdi_carve_clear(carve, node->routes, (PDI_ROUTE_CACHE + 2) * sizeof *node->routes);
    for (uint32_t i = 0; i < PDI_ROUTE_CACHE + 2; i++) { /* the last two have room for all */
        size_t first = (size_t)i * PDI_ROUTE_READERS;
        first += i > PDI_ROUTE_CACHE ? whole - PDI_ROUTE_READERS : 0;
        node->routes[i].reader = route_readers + first;
        node->routes[i].filter = filters + first;
    }
    pdi_carve_clear(carve, node->slot_kept, config->slots_max * sizeof *node->slot_kept);
    node->slot = PDI_POOL_NONE;
}

static void lay_out_here(struct pdi_node *node, struct pdi_carve *carve, bool real)
{
    const pyddsi_config *config = &node->config;
    uint32_t words = PDI_BITSET_WORDS(config->peers_max);
    node->things_max = config->resources_max < UINT16_MAX ? config->resources_max : UINT16_MAX;
    uint32_t handles = PDI_MAP_CAPACITY_MIN;
    while (PDI_MAP_LIMIT(handles) <
           node->things_max + config->publishers_max + config->subscribers_max) {
        handles *= 2;
    }
    node->publishers = pdi_carve(carve, config->publishers_max, sizeof *node->publishers);
    node->publisher_bits =
        pdi_carve(carve, (size_t)config->publishers_max * words * PDI_PUBLISHER_BITS, 8);
    node->readers = pdi_carve(carve, config->subscribers_max, sizeof *node->readers);
    node->reader_bits = pdi_carve(carve, (size_t)config->subscribers_max * words * 2, 8);
    node->things = pdi_carve(carve, node->things_max, sizeof *node->things);
    uint32_t *publishers_next = pdi_carve(carve, config->publishers_max, sizeof *publishers_next);
    uint32_t *readers_next = pdi_carve(carve, config->subscribers_max, sizeof *readers_next);
    uint32_t *things_next = pdi_carve(carve, node->things_max, sizeof *things_next);
    struct pdi_map_slot *map = pdi_carve(carve, handles, sizeof *map);
    uint64_t *map_used = pdi_carve_bits(carve, handles);
    node->records = pdi_carve(carve, config->ring_samples, sizeof *node->records);
    uint64_t *record_used = pdi_carve_bits(carve, config->ring_samples);
    uint32_t keep_pages = config->keep_bytes / PDI_KEEP_PAGE;
    node->keep_memory = pdi_carve(carve, keep_pages, PDI_KEEP_PAGE);
    uint64_t *keep_used = pdi_carve_bits(carve, keep_pages);
    uint32_t shelf_pages = config->shelf_bytes / PDI_SHELF_PAGE + 1;
    node->shelf_memory = pdi_carve(carve, shelf_pages, PDI_SHELF_PAGE);
    uint64_t *shelf_used = pdi_carve_bits(carve, shelf_pages);
    node->shelved = pdi_carve(carve, config->shelf_samples, sizeof *node->shelved);
    node->pullers = pdi_carve(carve, config->remotes_max, sizeof *node->pullers);
    node->events = pdi_carve(carve, config->events_max + 1, sizeof *node->events);
    uint32_t lines = config->ledger_max + PDI_LEDGER_LINES_MIN;
    pyddsi_drop *drops = pdi_carve(carve, lines, sizeof *drops);
    uint32_t timers = PDI_TIMER_FIXED + config->peers_max + node->conduits +
                      config->peers_max * config->conduits_in;
    struct pdi_heap_entry *entries = pdi_carve(carve, timers, sizeof *entries);
    uint32_t *places = pdi_carve(carve, timers, sizeof *places);
    if (!real) {
        return;
    }
    pdi_carve_clear(carve, places, timers * sizeof *places);
    pdi_carve_clear(carve, node->publishers, config->publishers_max * sizeof *node->publishers);
    pdi_carve_clear(carve, node->readers, config->subscribers_max * sizeof *node->readers);
    pdi_carve_clear(carve, node->things, node->things_max * sizeof *node->things);
    pdi_slots_init(&node->publishers_free, publishers_next, config->publishers_max);
    pdi_slots_init(&node->readers_free, readers_next, config->subscribers_max);
    pdi_slots_init(&node->things_free, things_next, node->things_max);
    node->retiring = node->retiring_next = PDI_NONE;
    (void)pdi_map_init(&node->handles, map, map_used, handles, node->hash_seed);
    (void)pdi_pages_init(&node->record_pages, record_used, config->ring_samples);
    (void)pdi_pages_init(&node->keep_pages, keep_used, keep_pages);
    (void)pdi_pages_init(&node->shelf_pages, shelf_used, shelf_pages);
    pdi_carve_clear(carve, node->pullers, config->remotes_max * sizeof *node->pullers);
    for (uint32_t i = 0; i < config->shelf_samples; i++) {
        node->shelved[i].next = i + 1 < config->shelf_samples ? i + 1 : PDI_NONE;
    }
    node->shelved_free = config->shelf_samples != 0 ? 0 : PDI_NONE;
    (void)pdi_ledger_init(&node->ledger, drops, lines);
    (void)pdi_heap_init(&node->timers, entries, timers, places, timers);
}

static size_t lay_out(struct pdi_node *node, uint8_t *memory, bool zero)
{
    struct pdi_carve carve = {.memory = memory, .zero = zero};
    bool real = memory != NULL;
    (void)pdi_carve(&carve, 1, sizeof *node);
    lay_out_sending(node, &carve, real);
    lay_out_receiving(node, &carve, real);
    lay_out_here(node, &carve, real);
    (void)pdi_registry_init(&node->registry, &node->config, &carve);
    return carve.size;
}

static void set_config(struct pdi_node *node, const pyddsi_config *config)
{
    node->config = *config;
    node->unicast_id = (uint8_t)config->multicasts;
    uint64_t half = UINT64_C(1) << (config->seq_bits - 1);
    while (node->config.order_max > half / 2) {
        node->config.order_max /= 2; /* numbers further apart could not be told */
    }
}

size_t pdi_node_size(const pyddsi_config *config, const char **text)
{
    const char *fault = fault_of(config);
    if (text != NULL) {
        *text = fault;
    }
    if (fault != NULL) {
        return 0;
    }
    struct pdi_node measure;
    set_config(&measure, config);
    return lay_out(&measure, NULL, false);
}

int pdi_node_init(struct pdi_node **made, const pyddsi_config *config, void *memory, size_t size,
                  bool zero, pdi_time now)
{
    size_t need = pdi_node_size(config, NULL);
    if (need == 0 || (uintptr_t)memory % PDI_CACHE_LINE != 0) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (size < need) {
        return PYDDSI_NO_SPACE;
    }
    struct pdi_node *node = memory;
    memset(node, 0, sizeof *node);
    set_config(node, config);
    uint64_t state = config->seed;
    node->hash_seed[0] = pdi_rand_splitmix(&state);
    node->hash_seed[1] = pdi_rand_splitmix(&state);
    bool told = (config->secret[0] | config->secret[1]) != 0;
    for (int i = 0; i < 2; i++) {
        uint64_t drawn = pdi_rand_splitmix(&state);
        node->secret[i] = told ? config->secret[i] : drawn;
    }
    pyddsi_options options = {.strictness = PYDDSI_TOLERANT,
                              .seq_bits = config->seq_bits,
                              .rid_bits = config->rid_bits,
                              .conduits = 0};
    (void)pdi_reading_init(&node->reading, &options);
    (void)lay_out(node, memory, zero);
    pdi_lead_groups(node);
    node->now = node->told_all = now;
    pdi_timer_set(node, PDI_TIMER_SCOUT, now);
    *made = node;
    return PYDDSI_OK;
}
