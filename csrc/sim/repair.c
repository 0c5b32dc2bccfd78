/* repair.c - how long a lost sample is missed, and what its repair costs.
 *
 * One writer puts samples at a steady rate; the network loses packets by chance, decided here and not by the link, so that
 * for every lost packet it is known which samples were in it. Of a sample whose first packet to a subscriber was
 * lost, the time from when it would have arrived to when it is taken is one measurement. Then what is told of them is
 * the middle, the hundredth part that is slowest, and the slowest.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/scenario.h"

#define MS              PDI_TIME_MS
#define SUBSCRIBERS_MAX 16U
#define SAMPLES_MAX     1000000U
#define WARM_UP         (1500 * MS)
#define DRAIN           (10 * PDI_TIME_S)

struct measure {
    const pyddsi_repair_options *options;
    struct pdi_world *world;
    struct pdi_rand rand;
    pyddsi_reading reading;
    uint32_t publisher;
    uint32_t readers[SUBSCRIBERS_MAX];
    uint8_t *payload;
    uint64_t *
        due; /* [subscriber][sample]: when it was to arrive; 0 not sent yet; 1 first packet came through */
    uint64_t *late;
    uint64_t late_count;
    uint32_t put;
    uint32_t waiting; /* it was told "not now" for this many */
    pyddsi_repair *repair;
};

/* Which of its samples a packet takes away for the first time. */
static int on_packet(void *context, int from, int to, const uint8_t *data, size_t size)
{
    struct measure *measure = context;
    pyddsi_decoder decoder;
    pyddsi_message message;
    int lost = pdi_rand_chance(&measure->rand, measure->options->loss_ppm, 1000000);
    pyddsi_decoder_init(&decoder, &measure->reading, data, size);
    while (from == 0 && pyddsi_decoder_next(&decoder, &message) == PYDDSI_OK) {
        uint32_t number;
        if (message.kind != PYDDSI_SDATA || message.payload.size < sizeof(number))
            continue;
        memcpy(&number, message.payload.data, sizeof(number));
        if (number >= measure->options->samples)
            continue;
        uint64_t *due = &measure->due[(size_t)(to - 1) * measure->options->samples + number];
        if (*due == 0)
            *due = lost ? measure->world->now + measure->options->delay_ns : 1;
    }
    return lost;
}

static void on_step(void *context, int node)
{
    struct measure *measure = context;
    if (node > 0)
        pdi_world_timer(measure->world, (uint32_t)node, measure->world->now);
}

static void take_all(struct measure *measure, int node)
{
    pyddsi_received sample;
    pdi_time now;
    struct pdi_node *one = pdi_world_enter(measure->world, node, &now);
    bool any = false;
    while (one != NULL &&
           pdi_node_take(one, measure->readers[node - 1], &sample, now) == PYDDSI_OK) {
        uint32_t number;
        memcpy(&number, sample.data, sizeof(number));
        uint64_t due = measure->due[(size_t)(node - 1) * measure->options->samples + number];
        if (due > 1)
            measure->late[measure->late_count++] = measure->world->now - due;
        measure->repair->delivered++;
        pdi_node_release(one, &sample);
        any = true;
    }
    if (any)
        pdi_world_leave(measure->world, node);
}

static void on_timer(void *context, uint32_t timer)
{
    struct measure *measure = context;
    const pyddsi_repair_options *options = measure->options;
    pdi_time now;
    if (timer > 0) {
        take_all(measure, (int)timer);
        return;
    }
    struct pdi_node *node = pdi_world_enter(measure->world, 0, &now);
    if (node == NULL || measure->put >= options->samples)
        return;
    memcpy(measure->payload, &measure->put, sizeof(measure->put));
    int status = pdi_node_put(node, measure->publisher, measure->payload, options->size, now);
    measure->put += status == PYDDSI_OK;
    pdi_world_timer(measure->world, 0, measure->world->now + PDI_TIME_S / options->rate);
    pdi_world_leave(measure->world, 0);
}

static int compare(const void *one, const void *two)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;
    return (a > b) - (a < b);
}

/* Nodes 0 (the publisher) and 1 .. n; OK or why not. */
static int build(struct measure *measure)
{
    const pyddsi_repair_options *options = measure->options;
    pyddsi_config config;
    pyddsi_sim_link link = {.delay_ns = options->delay_ns};
    pyddsi_publisher_options publisher = {.resource = 1,
                                          .reliability = PYDDSI_RELIABLE,
                                          .way = options->multicast ? PYDDSI_WAY_MULTICAST
                                                                    : PYDDSI_WAY_EACH};
    pyddsi_subscriber_options subscriber = {
        .resource = 1, .reliability = PYDDSI_RELIABLE, .mode = PYDDSI_PUSH, .depth = 1024};
    int wrong;
    pdi_config_init(&config);
    config.id_size = 0;
    config.scout_ms = 50;
    config.multicasts = 1;
    config.incarnation = 1;
    config.peers_max = SUBSCRIBERS_MAX + 1;
    for (uint32_t i = 0; i <= options->subscribers; i++) {
        int status = pdi_world_add(measure->world, &config, NULL);
        if (status < 0)
            return status;
    }
    (void)pdi_world_link_set(measure->world, -1, -1, &link);
    pyddsi_options reading = {.seq_bits = config.seq_bits};
    (void)pyddsi_reading_init(&measure->reading, &reading);
    int status = pdi_node_publisher(pdi_world_enter(measure->world, 0, NULL), &publisher,
                                    &measure->publisher, &wrong);
    pdi_world_leave(measure->world, 0);
    for (uint32_t i = 0; i < options->subscribers && status == PYDDSI_OK; i++) {
        int node = (int)i + 1;
        status = pdi_node_subscriber(pdi_world_enter(measure->world, node, NULL), &subscriber,
                                     &measure->readers[i], &wrong);
        pdi_world_leave(measure->world, node);
    }
    return status;
}

static void run(struct measure *measure)
{
    struct pdi_world *world = measure->world;
    pyddsi_stats before, after;
    (void)pdi_world_run(world, WARM_UP);
    pdi_node_stats(world->nodes[0].node, &before);
    world->context = measure;
    world->on_packet = on_packet;
    world->on_step = on_step;
    world->on_timer = on_timer;
    pdi_world_timer(world, 0, world->now);
    pdi_time length = measure->options->samples * (PDI_TIME_S / measure->options->rate);
    (void)pdi_world_run(world, length + DRAIN);
    pdi_node_stats(world->nodes[0].node, &after);
    pyddsi_repair *repair = measure->repair;
    repair->put = measure->put;
    repair->resent = after.resent - before.resent;
    repair->lost = measure->late_count;
    qsort(measure->late, (size_t)measure->late_count, sizeof(*measure->late), compare);
    if (measure->late_count > 0) {
        repair->median_ns = measure->late[measure->late_count / 2];
        repair->p99_ns = measure->late[measure->late_count * 99 / 100];
        repair->max_ns = measure->late[measure->late_count - 1];
    }
}

int pdi_repair_run(const pyddsi_repair_options *options, pyddsi_repair *repair)
{
    struct pdi_world world;
    struct measure measure = {.options = options, .world = &world, .repair = repair};
    memset(repair, 0, sizeof(*repair));
    if (options->subscribers == 0 || options->subscribers > SUBSCRIBERS_MAX || options->rate == 0 ||
        options->samples == 0 || options->samples > SAMPLES_MAX || options->size < 4 ||
        options->size > 1400 || options->loss_ppm > 900000)
        return PYDDSI_BAD_ARGUMENT;
    size_t cells = (size_t)options->subscribers * options->samples;
    int status = pdi_world_init(&world, options->seed);
    pdi_rand_init(&measure.rand, options->seed);
    measure.rand = pdi_rand_fork(&measure.rand, 7);
    measure.payload = calloc(1, options->size);
    measure.due = calloc(cells, sizeof(*measure.due));
    measure.late = calloc(cells, sizeof(*measure.late));
    if (status == PYDDSI_OK &&
        (measure.payload == NULL || measure.due == NULL || measure.late == NULL))
        status = PYDDSI_NO_SPACE;
    if (status == PYDDSI_OK)
        status = build(&measure);
    if (status == PYDDSI_OK)
        run(&measure);
    free(measure.payload);
    free(measure.due);
    free(measure.late);
    pdi_world_fini(&world);
    return status;
}
