/* script.c - bytes that decide everything that happens in a small world.
 *
 * Any bytes are a script. The first eight choose the world (lengths, windows, latency, losses); each byte after that
 * is a step, some of which take more bytes after them, and where they are missing the script reads zeros:
 *
 *     0x00 .. 0x3f   time passes: 2^(low four bits) * 10 us, and
 *     0x40 .. 0x7f   put: publisher (low two bits), size class (next two), batch (bits 4, 5)
 *     0x80 .. 0xff   see enum step, modulo its count
 *
 * So the simulator can run random scripts, a fuzzer can look for those that reach new code, and what either finds is a
 * small file that repeats it. As long as a script only does what networks and applications may do, everything is
 * checked; once it injects, forges or corrupts, only that nobody breaks.
 */
#include <string.h>

#include "sim/scenario.h"

#define MS         PDI_TIME_MS
#define NODES      3
#define PUBLISHERS 4U
#define READERS    4U
#define STEPS_MAX  4096U
#define INJECT_MAX 255U
#define RANDOM_MAX 400U

enum step {
    STEP_TAKE_STOP,
    STEP_TAKE_START,
    STEP_FORGET_READER,
    STEP_DECLARE_READER,
    STEP_FORGET_WRITER,
    STEP_DECLARE_WRITER,
    STEP_LOSE,      /* the next packets: how many */
    STEP_DUPLICATE, /* links duplicate everything for a while, or no more */
    STEP_REORDER,
    STEP_CUT,
    STEP_HEAL,
    STEP_CRASH,
    STEP_RESTART,
    STEP_PAUSE,
    STEP_CLOCK,
    STEP_CLOSE_SESSION,
    STEP_FLUSH,
    STEP_INJECT,  /* from, to, size, bytes */
    STEP_CORRUPT, /* links turn bits over for a while, or no more */
    STEP_LARGE,
    STEP_COUNT
};

struct script {
    const uint8_t *data;
    size_t size, at;
};

static uint8_t next(struct script *script)
{
    return script->at < script->size ? script->data[script->at++] : 0;
}

static int lose(void *context, int from, int to, const uint8_t *data, size_t size)
{
    struct pdi_play *play = context;
    (void)from;
    (void)to;
    (void)data;
    (void)size;
    if (play->theme[0] == 0)
        return 0;
    play->theme[0]--;
    return 1;
}

static void build(struct pdi_play *play, struct script *script)
{
    static const uint8_t lengths[] = {7, 10, 14, 56};
    static const uint32_t latencies[] = {0, 100, 1000, 5000};
    pyddsi_config *config = &play->config;
    uint8_t one = next(script), two = next(script), three = next(script), four = next(script);
    config->seq_bits = lengths[one & 3];
    config->latency_us = latencies[one >> 2 & 3];
    config->multicasts = 1 + (one >> 4 & 1);
    config->lease_ms = 300 + 100U * (one >> 5);
    for (int i = 0; i < PYDDSI_MULTICASTS_MAX; i++) {
        config->multicast_samples[i] = UINT32_C(4) << (two & 3);
        config->multicast_bytes[i] = UINT32_C(512) << (two >> 2 & 3);
    }
    config->unicast_samples = UINT32_C(8) << (two >> 4 & 1);
    config->order_max = UINT32_C(4) << (two >> 5 & 3);
    pdi_scenario_nodes(play, NODES);
    pyddsi_sim_link link = {.delay_ns = (1 + (uint64_t)(three & 7)) * 200 * PDI_TIME_US,
                            .loss_ppm = (uint32_t)(three >> 3) * 5000};
    pdi_scenario_links(play, &link);
    for (uint32_t i = 0; i < PUBLISHERS; i++) {
        struct pdi_play_writer *writer = pdi_scenario_writer(play, (int)(i % 2), 1 + i / 2);
        writer->options.way = (uint8_t)(i == 0 ? four & 3 : PYDDSI_WAY_MULTICAST);
        writer->options.conduit = (uint8_t)(i % config->multicasts);
        writer->may_fail = writer->options.way == PYDDSI_WAY_UNICAST;
        writer->idle = 1;
        if ((four >> 2 & 3) == i + 1) {
            writer->options.reliability = PYDDSI_BEST_EFFORT;
            writer->topic.reliable = 0;
        }
    }
    for (uint32_t i = 0; i < READERS; i++) {
        struct pdi_listener *reader = pdi_scenario_reader(play, 2 - (int)(i % 2), 1 + i / 2);
        reader->options.depth = 1 + (uint32_t)(four >> 4);
        reader->may_fail = 1;
    }
    play->world.on_packet = lose;
}

/* A put of a writer whose sizes the script chooses; it must not wait for its turn. */
static void put(struct pdi_play *play, uint8_t step)
{
    static const uint32_t sizes[] = {PDI_AUDIT_STUB, 40, 200, 1000};
    uint32_t index = step & 3;
    struct pdi_play_writer *writer = &play->writers[index];
    uint32_t size = sizes[step >> 2 & 3], most = play->config.multicast_bytes[0] / 2;
    writer->size_min = writer->size_max = size < most ? size : most;
    writer->many_max = (step >> 4 & 3) == 3 ? 4 : 1;
    if (writer->many_max > 1) /* a batch fits every window */
        writer->size_min = writer->size_max = PDI_AUDIT_STUB;
    writer->idle = 0;
    pdi_play_write(play, index);
    writer->idle = 1;
    if (writer->large == NULL)
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_WRITER + index, PDI_TIME_NEVER);
}

static void inject(struct pdi_play *play, struct script *script)
{
    uint8_t bytes[INJECT_MAX];
    uint8_t from = next(script), size = next(script);
    int to = from >> 4 & 3;
    pyddsi_endpoint endpoint = {.ip = {10, 9, 0, 1}, .port = 4000, .kind = 4};
    if ((from & 3) < NODES && (from & 4) == 0)
        endpoint = play->world.nodes[from & 3].endpoint;
    for (uint8_t i = 0; i < size; i++) {
        bytes[i] = next(script);
    }
    play->audit.broken = 1;
    (void)pdi_world_inject(&play->world, to, &endpoint, bytes, size);
}

static void links(struct pdi_play *play, uint32_t duplicate, uint32_t reorder, uint32_t corrupt)
{
    for (int from = 0; from < NODES; from++) {
        for (int to = 0; to < NODES; to++) {
            pyddsi_sim_link link;
            (void)pdi_world_link_get(&play->world, from, to, &link);
            link.duplicate_ppm =
                duplicate != 0 ? duplicate - link.duplicate_ppm : link.duplicate_ppm;
            link.reorder_ppm = reorder != 0 ? reorder - link.reorder_ppm : link.reorder_ppm;
            link.corrupt_ppm = corrupt != 0 ? corrupt - link.corrupt_ppm : link.corrupt_ppm;
            (void)pdi_world_link_set(&play->world, from, to, &link);
        }
    }
}

static void fault(struct pdi_play *play, enum pdi_fault_kind kind, int a, int b)
{
    play->faults_count = 0;
    struct pdi_fault *one = pdi_play_fault(play, kind, a, b, 0);
    one->both = 1;
    one->duration = (1 + (uint64_t)b) * 30 * MS;
    one->step = (int64_t)((uint64_t)(b + 1) * 50 * MS) * (b % 2 == 0 ? 1 : -1);
    pdi_play_happen(play, 0);
    play->faults_count = 0;
}

static void special(struct pdi_play *play, struct script *script, uint8_t step)
{
    static const enum pdi_fault_kind kinds[] = {
        [STEP_TAKE_STOP] = PDI_FAULT_STOP_READER,
        [STEP_TAKE_START] = PDI_FAULT_START_READER,
        [STEP_FORGET_READER] = PDI_FAULT_FORGET_READER,
        [STEP_DECLARE_READER] = PDI_FAULT_DECLARE_READER,
        [STEP_FORGET_WRITER] = PDI_FAULT_FORGET_WRITER,
        [STEP_DECLARE_WRITER] = PDI_FAULT_DECLARE_WRITER,
        [STEP_CUT] = PDI_FAULT_CUT,
        [STEP_HEAL] = PDI_FAULT_HEAL,
        [STEP_CRASH] = PDI_FAULT_CRASH,
        [STEP_RESTART] = PDI_FAULT_RESTART,
        [STEP_PAUSE] = PDI_FAULT_PAUSE,
        [STEP_CLOCK] = PDI_FAULT_CLOCK,
        [STEP_CLOSE_SESSION] = PDI_FAULT_CLOSE_SESSION,
    };
    uint8_t what = (uint8_t)((step - 0x80) % STEP_COUNT), argument = next(script);
    int a = argument % NODES, b = (a + 1 + (argument >> 4 & 1)) % NODES;
    switch (what) {
    case STEP_TAKE_STOP:
    case STEP_TAKE_START:
    case STEP_FORGET_READER:
    case STEP_DECLARE_READER:
    case STEP_FORGET_WRITER:
    case STEP_DECLARE_WRITER:
        fault(play, kinds[what], argument & 3, 0);
        break;
    case STEP_RESTART:
        fault(play, kinds[what], a, argument >> 4 & 1);
        break;
    case STEP_PAUSE:
    case STEP_CLOCK:
        fault(play, kinds[what], a, argument >> 4);
        break;
    case STEP_LOSE:
        play->theme[0] = argument;
        break;
    case STEP_DUPLICATE:
        links(play, 300000, 0, 0);
        break;
    case STEP_REORDER:
        links(play, 0, 300000, 0);
        break;
    case STEP_CORRUPT:
        play->audit.broken = 1;
        links(play, 0, 0, 100000);
        break;
    case STEP_FLUSH:
        if (pdi_world_enter(&play->world, a, NULL) != NULL) {
            pdi_node_flush(play->world.nodes[a].node, play->world.nodes[a].last);
            pdi_world_leave(&play->world, a);
        }
        break;
    case STEP_INJECT:
        inject(play, script);
        break;
    case STEP_LARGE:
        if (!play->writers[argument & 3].topic.reliable) /* large ones go out in pieces, reliably */
            break;
        play->writers[argument & 3].large_ppm = 1000000;
        play->writers[argument & 3].large_max = 2000 + (uint32_t)argument * 40;
        put(play, (uint8_t)((argument & 3) | 8));
        play->writers[argument & 3].large_ppm = 0;
        break;
    default:
        fault(play, kinds[what], a, b);
        break;
    }
}

static void act(struct pdi_play *play, const uint8_t *data, size_t size)
{
    struct script script = {.data = data, .size = size};
    build(play, &script);
    script.at = size < 8 ? size : 8;
    pdi_play_start(play);
    (void)pdi_world_run(&play->world, 300 * MS); /* they meet */
    play->stop = PDI_TIME_NEVER;
    for (uint32_t steps = 0; steps < STEPS_MAX && script.at < script.size; steps++) {
        uint8_t step = next(&script);
        if (play->world.fault != NULL)
            break;
        if (step < 0x40) {
            (void)pdi_world_run(&play->world, (UINT64_C(1) << (step & 15)) * 10 * PDI_TIME_US);
        } else if (step < 0x80) {
            put(play, step);
        } else {
            special(play, &script, step);
        }
    }
    play->theme[0] = 0;
    pdi_play_calm(play);
    (void)pdi_world_run(&play->world, 100 * MS);
    play->stop = play->world.now;
    pdi_play_finish(play);
}

int pdi_script_run(struct pdi_play *play, const uint8_t *script, size_t size, bool log)
{
    int status = pdi_play_init(play, 1);
    if (status != PYDDSI_OK)
        return status;
    pdi_world_log(&play->world, log, 0);
    pdi_scenario_config(play, &play->config);
    act(play, script, size);
    return PYDDSI_OK;
}

/* Nothing is planned: the bytes decide. */
void pdi_scenario_script(struct pdi_play *play)
{
    (void)play;
}

/* Random bytes, more of them harmless than not, so that most runs are checked in full. */
void pdi_scenario_script_run(struct pdi_play *play)
{
    uint8_t script[RANDOM_MAX];
    size_t size = (size_t)pdi_play_between(&play->rand, 8, RANDOM_MAX);
    bool harmless = pdi_rand_chance(&play->rand, 3, 4);
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)pdi_rand_u64(&play->rand);
        if (byte >= 0x80 && pdi_rand_chance(&play->rand, 5, 6))
            byte = 0x40 + (byte & 0x3f); /* put more than fail */
        uint8_t what = (uint8_t)((byte & 0x7f) % STEP_COUNT);
        if (harmless && byte >= 0x80 && (what == STEP_INJECT || what == STEP_CORRUPT))
            byte = 0x44;
        script[i] = byte;
    }
    act(play, script, size);
}
