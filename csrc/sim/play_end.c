/* play_end.c - the end of a run: wait until all is quiet, ask the audit, close, and report. */
#include "sim/play.h"

#include <string.h>

#define POLL       (2 * PDI_TIME_MS)
#define FAREWELL   (50 * PDI_TIME_MS)
#define BROKEN     (300 * PDI_TIME_MS)
#define LATECOMERS (500 * PDI_TIME_MS)

/* Writers are done with what they began, and everything has been read. */
static const char *still_busy(const struct pdi_play *play)
{
    const char *why = NULL;
    for (uint32_t i = 0; i < play->writers_count; i++) {
        if (play->writers[i].large != NULL)
            why = "a large sample is not out yet";
    }
    for (int node = 0; node < play->world.count && why == NULL; node++) {
        if (pdi_world_runs(&play->world, node) && play->audit.nodes[node].stats.rings_used != 0)
            why = "samples wait for their readers";
    }
    if (why == NULL)
        (void)pdi_world_quiet(&play->world, &why);
    return why;
}

/* How long until every clock is right again: a node whose clock was set back stands still for so long. */
static pdi_time clocks_behind(const struct pdi_world *world)
{
    int64_t most = 0;
    for (int node = 0; node < world->count; node++) {
        int64_t shown = (int64_t)world->now + world->nodes[node].offset;
        int64_t behind = (int64_t)pdi_world_clock(world, node) - shown;
        if (pdi_world_runs(world, node) && behind > most)
            most = behind;
    }
    return (pdi_time)most;
}

static bool has_detached(const struct pdi_play *play)
{
    uint64_t detached = 0;
    for (int node = 0; node < play->world.count; node++) {
        detached += play->audit.nodes[node].events[PYDDSI_DETACHED];
    }
    return detached != 0;
}

static void check_statuses(struct pdi_play *play)
{
    for (uint32_t i = 0; i < play->things_count; i++) {
        const struct pdi_play_thing *thing = &play->things[i];
        if (!thing->declared || thing->may_fail || !pdi_world_runs(&play->world, thing->node))
            continue;
        int status = pdi_node_status(play->world.nodes[thing->node].node, thing->handle);
        pdi_audit_check(&play->audit, PYDDSI_CHECK_SETTLED, status == 0, thing->node,
                        "the declaration of %s has the status %d", thing->text, status);
    }
    for (uint32_t i = 0; i < play->writers_count; i++) {
        const struct pdi_play_writer *writer = &play->writers[i];
        if (!writer->declared || writer->may_fail || !pdi_world_runs(&play->world, writer->node))
            continue;
        int status = pdi_node_status(play->world.nodes[writer->node].node, writer->handle);
        pdi_audit_check(&play->audit, PYDDSI_CHECK_SETTLED, status == 0, writer->node,
                        "publisher %u has the status %d", writer->handle, status);
    }
    for (uint32_t i = 0; i < play->readers_count; i++) {
        const struct pdi_listener *reader = &play->readers[i];
        if (!reader->declared || reader->may_fail || !pdi_world_runs(&play->world, reader->node))
            continue;
        int status = pdi_node_status(play->world.nodes[reader->node].node, reader->handle);
        pdi_audit_check(&play->audit, PYDDSI_CHECK_SETTLED, status == 0, reader->node,
                        "subscriber %u has the status %d", reader->handle, status);
    }
}

void pdi_play_finish(struct pdi_play *play)
{
    const char *why = NULL;
    if (play->audit.broken) { /* nothing can be promised but that nobody breaks */
        (void)pdi_world_run(&play->world, BROKEN);
        pdi_audit_check(&play->audit, PYDDSI_CHECK_LIVENESS, play->world.fault == NULL, -1, "%s",
                        play->world.fault != NULL ? play->world.fault : "");
        return;
    }
    (void)pdi_world_run(&play->world, clocks_behind(&play->world));
    pdi_time end = play->world.now + play->patience;
    while (play->world.fault == NULL && (why = still_busy(play)) != NULL && play->world.now < end) {
        (void)pdi_world_run(&play->world, POLL);
    }
    /* nobody waits for one who is detached, but he may still be told what he lacks */
    if (why == NULL && has_detached(play))
        (void)pdi_world_run(&play->world, LATECOMERS);
    pdi_audit_check(&play->audit, PYDDSI_CHECK_LIVENESS, play->world.fault == NULL, -1, "%s",
                    play->world.fault != NULL ? play->world.fault : "");
    if (play->world.fault != NULL)
        return;
    pdi_audit_check(&play->audit, PYDDSI_CHECK_LIVENESS, why == NULL, -1,
                    "%.0f s after the last fault: %s", (double)play->patience / (double)PDI_TIME_S,
                    why != NULL ? why : "");
    for (int node = 0; node < play->world.count; node++) {
        if (pdi_world_runs(&play->world, node))
            pdi_audit_windows(&play->audit, node, true);
    }
    pdi_audit_complete(&play->audit);
    if (why == NULL) {
        check_statuses(play);
        if (!play->no_settle)
            pdi_audit_settled(&play->audit);
    }
    if (play->on_end != NULL)
        play->on_end(play);
    for (uint32_t i = 0; i < play->readers_count; i++) {
        pdi_play_release(play, i, 0);
        pdi_play_forget_reader(play, i);
    }
    (void)pdi_world_run(&play->world, FAREWELL);
    for (int node = 0; node < play->world.count && why == NULL; node++) {
        pdi_audit_memory(&play->audit, node);
    }
}

void pdi_play_report(const struct pdi_play *play, pyddsi_report *report)
{
    const struct pdi_audit *audit = &play->audit;
    const struct pdi_world *world = &play->world;
    report->seed = world->seed;
    report->time_ns = world->now;
    report->events = world->events;
    report->nodes = (uint64_t)world->count;
    report->crashes = play->crashes;
    report->restarts = play->restarts;
    report->packets = world->sent;
    report->bytes = world->bytes;
    report->packets_lost = world->lost;
    report->packets_duplicated = world->duplicated;
    report->packets_reordered = world->reordered;
    report->packets_corrupted = world->corrupted;
    report->declared = play->declared;
    report->put = audit->put;
    report->owed = audit->owed;
    report->taken = audit->taken;
    report->excused = audit->excused;
    report->resent = audit->resent;
    for (int node = 0; node < world->count && node < PDI_AUDIT_NODES_MAX; node++) {
        report->resent += audit->nodes[node].stats.resent;
    }
    memcpy(report->checks, audit->checks, sizeof(audit->checks));
    report->violations = audit->violations;
    report->violation[0] = 0;
    if (audit->texts_count > 0)
        memcpy(report->violation, audit->texts[0], sizeof(report->violation));
    report->digest = world->digest;
}
