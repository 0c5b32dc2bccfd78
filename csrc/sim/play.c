/* play.c - setting up a play, and the course of a run. */
#include "sim/play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static void on_step(void *context, int node)
{
    struct pdi_play *play = context;
    pdi_audit_step(&play->audit, node);
    if (node >= PDI_AUDIT_NODES_MAX ||
        play->audit.nodes[node].stats.delivered == play->delivered[node])
        return;
    play->delivered[node] = play->audit.nodes[node].stats.delivered;
    for (uint32_t i = 0; i < play->readers_count; i++) {
        struct pdi_listener *reader = &play->readers[i];
        uint32_t timer = PDI_PLAY_TIMER_READER + i;
        pdi_time delay = 0;
        if (reader->node != node || !reader->declared || reader->stopped)
            continue;
        if (reader->delay_max != 0)
            delay = pdi_rand_below(&reader->rand, reader->delay_max + 1);
        pdi_time at = play->world.now + delay;
        pdi_time set = pdi_world_timer_get(&play->world, timer);
        if (set == PDI_TIME_NEVER || (reader->pull_every != 0 && at < set))
            pdi_world_timer(&play->world, timer, at);
    }
}

static void on_timer(void *context, uint32_t timer)
{
    struct pdi_play *play = context;
    if (timer >= PDI_PLAY_TIMER_THEME) {
        if (play->on_timer != NULL)
            play->on_timer(play, timer - PDI_PLAY_TIMER_THEME);
    } else if (timer >= PDI_PLAY_TIMER_FAULT) {
        pdi_play_happen(play, timer - PDI_PLAY_TIMER_FAULT);
    } else if (timer >= PDI_PLAY_TIMER_READER) {
        pdi_play_read(play, timer - PDI_PLAY_TIMER_READER);
    } else {
        pdi_play_write(play, timer - PDI_PLAY_TIMER_WRITER);
    }
}

static void on_take(void *context, uint32_t audience, const pyddsi_received *sample,
                    uint32_t author, uint32_t number)
{
    struct pdi_play *play = context;
    for (uint32_t i = 0; i < play->readers_count && play->on_take != NULL; i++) {
        if (play->readers[i].declared && play->readers[i].audience == audience)
            play->on_take(play, i, sample, author, number);
    }
}

static void on_event(void *context, int node, const pyddsi_event *event)
{
    struct pdi_play *play = context;
    if (play->on_event != NULL)
        play->on_event(play, node, event);
}

int pdi_play_init(struct pdi_play *play, uint64_t seed)
{
    struct pdi_rand rand;
    memset(play, 0, sizeof(*play));
    pdi_rand_init(&rand, seed);
    play->rand = pdi_rand_fork(&rand, 2);
    play->half = 2 * PDI_TIME_S;
    play->stop = 3 * PDI_TIME_S;
    play->patience = 30 * PDI_TIME_S;
    play->payload = malloc(PDI_PLAY_SIZE_MAX);
    int status = pdi_world_init(&play->world, seed);
    int audit_status = pdi_audit_init(&play->audit, &play->world);
    play->world.context = play;
    play->world.on_step = on_step;
    play->world.on_timer = on_timer;
    play->audit.context = play;
    play->audit.on_take = on_take;
    play->audit.on_event = on_event;
    if (status != PYDDSI_OK || audit_status != PYDDSI_OK || play->payload == NULL)
        return PYDDSI_NO_SPACE;
    return PYDDSI_OK;
}

void pdi_play_fini(struct pdi_play *play)
{
    for (uint32_t i = 0; i < play->writers_count; i++) {
        free(play->writers[i].large);
    }
    free(play->payload);
    free(play->extra);
    pdi_audit_fini(&play->audit);
    pdi_world_fini(&play->world);
}

/* ---- building ---- */

int pdi_play_node(struct pdi_play *play, const pyddsi_config *config)
{
    const char *text = "";
    int node = pdi_world_add(&play->world, config, &text);
    if (node < 0 || node >= PDI_AUDIT_NODES_MAX) {
        pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, false, node, "no node: %s", text);
        return node < 0 ? node : PYDDSI_NO_SPACE;
    }
    pdi_audit_started(&play->audit, node);
    return node;
}

void pdi_play_absent(struct pdi_play *play, int node)
{
    (void)pdi_world_crash(&play->world, node);
}

struct pdi_play_thing *pdi_play_thing(struct pdi_play *play, int node, uint8_t kind, uint64_t id,
                                      const char *text)
{
    PDI_CHECK(play->things_count < PDI_PLAY_THINGS_MAX);
    struct pdi_play_thing *thing = &play->things[play->things_count++];
    *thing = (struct pdi_play_thing){.node = node, .kind = kind, .id = id};
    (void)snprintf(thing->text, sizeof(thing->text), "%s", text);
    return thing;
}

struct pdi_play_writer *pdi_play_writer(struct pdi_play *play, int node, uint64_t resource)
{
    PDI_CHECK(play->writers_count < PDI_PLAY_WRITERS_MAX);
    struct pdi_play_writer *writer = &play->writers[play->writers_count];
    *writer =
        (struct pdi_play_writer){.node = node,
                                 .author = PDI_AUDIT_NONE,
                                 .interval = 5 * PDI_TIME_MS,
                                 .size_min = PDI_AUDIT_STUB,
                                 .size_max = 100,
                                 .many_max = 1,
                                 .options = {.resource = resource,
                                             .reliability = PYDDSI_RELIABLE,
                                             .way = PYDDSI_WAY_MULTICAST},
                                 .topic = {.resource = resource, .reliable = 1},
                                 .rand = pdi_rand_fork(&play->rand, 100 + play->writers_count)};
    play->writers_count++;
    return writer;
}

struct pdi_listener *pdi_play_reader(struct pdi_play *play, int node, uint64_t resource)
{
    PDI_CHECK(play->readers_count < PDI_PLAY_READERS_MAX);
    struct pdi_listener *reader = &play->readers[play->readers_count];
    *reader = (struct pdi_listener){.node = node,
                                    .audience = PDI_AUDIT_NONE,
                                    .options = {.resource = resource,
                                                .mode = PYDDSI_PUSH,
                                                .reliability = PYDDSI_RELIABLE,
                                                .on_full = PYDDSI_WAIT,
                                                .depth = 64},
                                    .topic = {.resource = resource, .reliable = 1},
                                    .rand = pdi_rand_fork(&play->rand, 300 + play->readers_count)};
    play->readers_count++;
    return reader;
}

struct pdi_fault *pdi_play_fault(struct pdi_play *play, enum pdi_fault_kind kind, int a, int b,
                                 pdi_time at)
{
    PDI_CHECK(play->faults_count < PDI_PLAY_FAULTS_MAX);
    struct pdi_fault *fault = &play->faults[play->faults_count];
    *fault = (struct pdi_fault){.kind = kind, .a = a, .b = b, .at = at};
    play->faults_count++;
    return fault;
}

/* ---- the course ---- */

static void declare_all(struct pdi_play *play, int node)
{
    for (uint32_t i = 0; i < play->things_count; i++) {
        if (play->things[i].node == node && !play->things[i].later)
            pdi_play_declare_thing(play, i);
    }
    for (uint32_t i = 0; i < play->writers_count; i++) {
        if (play->writers[i].node == node && !play->writers[i].later)
            pdi_play_declare_writer(play, i);
    }
    for (uint32_t i = 0; i < play->readers_count; i++) {
        if (play->readers[i].node == node && !play->readers[i].later)
            pdi_play_declare_reader(play, i);
    }
}

void pdi_play_crash(struct pdi_play *play, int node)
{
    if (!pdi_world_runs(&play->world, node))
        return;
    pdi_audit_ending(&play->audit, node);
    for (uint32_t i = 0; i < play->things_count; i++) {
        play->things[i].declared &= play->things[i].node != node;
    }
    for (uint32_t i = 0; i < play->writers_count; i++) {
        struct pdi_play_writer *writer = &play->writers[i];
        if (writer->node == node) {
            writer->declared = 0;
            free(writer->large);
            writer->large = NULL;
        }
    }
    for (uint32_t i = 0; i < play->readers_count; i++) {
        if (play->readers[i].node == node) {
            play->readers[i].declared = 0;
            play->readers[i].held_count = 0;
            play->readers[i].answer = 0;
        }
    }
    (void)pdi_world_crash(&play->world, node);
    play->crashes++;
}

void pdi_play_restart(struct pdi_play *play, int node, int same_port)
{
    pdi_play_crash(play, node);
    if (pdi_world_restart(&play->world, node, same_port) != PYDDSI_OK)
        return;
    pdi_audit_started(&play->audit, node);
    play->restarts++;
    declare_all(play, node);
}

void pdi_play_start(struct pdi_play *play)
{
    for (int node = 0; node < play->world.count; node++) {
        if (pdi_world_runs(&play->world, node))
            declare_all(play, node);
    }
    for (uint32_t i = 0; i < play->writers_count; i++) {
        struct pdi_play_writer *writer = &play->writers[i];
        pdi_time first = pdi_rand_below(&writer->rand, writer->interval + 1);
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_WRITER + i, writer->from + first);
    }
    for (uint32_t i = 0; i < play->readers_count; i++) {
        if (play->readers[i].pull_every != 0)
            pdi_world_timer(&play->world, PDI_PLAY_TIMER_READER + i, play->readers[i].pull_every);
    }
    for (uint32_t i = 0; i < play->faults_count; i++) {
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_FAULT + i, play->faults[i].at);
    }
}

void pdi_play_calm(struct pdi_play *play)
{
    play->calm = 1;
    if (play->on_calm != NULL)
        play->on_calm(play);
    for (uint32_t i = 0; i < play->faults_count; i++) {
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_FAULT + i, PDI_TIME_NEVER);
    }
    for (int from = 0; from < play->world.count; from++) {
        for (int to = 0; to < play->world.count; to++) {
            pyddsi_sim_link link;
            (void)pdi_world_link_get(&play->world, from, to, &link);
            link = (pyddsi_sim_link){.delay_ns = link.delay_ns,
                                     .mtu = link.mtu, /* no fault: a path may be like this */
                                     .mtu_known = link.mtu_known,
                                     .group_loss_ppm = play->filtered ? link.group_loss_ppm : 0};
            (void)pdi_world_link_set(&play->world, from, to, &link);
        }
    }
    for (int node = 0; node < play->world.count; node++) {
        if (pdi_world_runs(&play->world, node)) {
            (void)pdi_world_pause(&play->world, node, 0);
        } else if (!play->dead[node]) {
            pdi_play_restart(play, node, 1);
        }
    }
    for (uint32_t i = 0; i < play->readers_count; i++) {
        play->readers[i].stopped = 0;
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_READER + i, play->world.now);
    }
}

void pdi_play_run(struct pdi_play *play)
{
    pdi_play_start(play);
    (void)pdi_world_run(&play->world, play->half);
    pdi_play_calm(play);
    (void)pdi_world_run(&play->world, play->stop - play->half);
    pdi_play_finish(play);
}
