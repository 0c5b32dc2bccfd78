/* play_fault.c - what is declared and forgotten in a play, and what goes wrong in it. */
#include "sim/play.h"

#include <stdlib.h>
#include <string.h>

static pyddsi_bytes text_bytes(const char *text)
{
    return (pyddsi_bytes){.data = (const uint8_t *)text, .size = strlen(text)};
}

/* ---- declarations ---- */

void pdi_play_declare_thing(struct pdi_play *play, uint32_t index)
{
    struct pdi_play_thing *thing = &play->things[index];
    struct pdi_node *node = pdi_world_enter(&play->world, thing->node, NULL);
    int status = 0, result;
    if (node == NULL || thing->declared)
        return;
    if (thing->kind == PYDDSI_RESOURCE) {
        result = pdi_node_resource(node, thing->space, thing->id, text_bytes(thing->text), 0,
                                   thing->reliability, thing->durability, &thing->handle, &status);
    } else if (thing->kind == PYDDSI_SELECTION) {
        result = pdi_node_selection(node, thing->space, thing->id, text_bytes(thing->text),
                                    thing->is_global, &thing->handle, &status);
    } else {
        result = pdi_node_binding(node, thing->space, thing->id, thing->new_id, thing->is_global,
                                  &thing->handle, &status);
    }
    thing->declared = result == PYDDSI_OK;
    pdi_audit_check(&play->audit, PYDDSI_CHECK_SETTLED, result == PYDDSI_OK || thing->may_fail,
                    thing->node, "declaring %s answered %d, status %d", thing->text, result,
                    status);
    if (result == PYDDSI_OK)
        pdi_world_declared(&play->world, thing->node, thing->handle);
    play->declared++;
    pdi_world_leave(&play->world, thing->node);
}

void pdi_play_declare_writer(struct pdi_play *play, uint32_t index)
{
    struct pdi_play_writer *writer = &play->writers[index];
    struct pdi_node *node = pdi_world_enter(&play->world, writer->node, NULL);
    int status = 0;
    if (node == NULL || writer->declared)
        return;
    int result = pdi_node_publisher(node, &writer->options, &writer->handle, &status);
    pdi_audit_check(&play->audit, PYDDSI_CHECK_SETTLED, result == PYDDSI_OK || writer->may_fail,
                    writer->node, "a publisher of resource %llu: %d, status %d",
                    (unsigned long long)writer->options.resource, result, status);
    if (result == PYDDSI_OK) {
        writer->author =
            pdi_audit_author(&play->audit, writer->node, writer->handle, &writer->topic);
        writer->declared = writer->author != PDI_AUDIT_NONE;
        if (writer->declared) {
            struct pdi_author *author = &play->audit.authors[writer->author];
            author->unmatched_ok = writer->may_fail;
            author->keeps =
                writer->options.durability == PYDDSI_TRANSIENT ? writer->options.shelf_samples : 0;
            author->moves = writer->options.way == PYDDSI_WAY_AUTO && !writer->topic.reliable;
        }
        if (pdi_world_shared(&play->world, writer->node) != NULL)
            pdi_shared_publisher(pdi_world_shared(&play->world, writer->node), writer->handle);
        pdi_world_declared(&play->world, writer->node, writer->handle);
    }
    play->declared++;
    pdi_world_leave(&play->world, writer->node);
}

void pdi_play_declare_reader(struct pdi_play *play, uint32_t index)
{
    struct pdi_listener *reader = &play->readers[index];
    struct pdi_node *node = pdi_world_enter(&play->world, reader->node, NULL);
    int status = 0;
    if (node == NULL || reader->declared)
        return;
    for (uint32_t i = 0; i < reader->options.guards; i++) {
        reader->options.guard_publisher[i] = play->writers[reader->guard_writers[i]].handle;
    }
    int result = pdi_node_subscriber(node, &reader->options, &reader->handle, &status);
    pdi_audit_check(&play->audit, PYDDSI_CHECK_SETTLED, result == PYDDSI_OK || reader->may_fail,
                    reader->node, "a subscriber of resource %llu: %d, status %d",
                    (unsigned long long)reader->options.resource, result, status);
    if (result == PYDDSI_OK) {
        reader->audience =
            pdi_audit_audience(&play->audit, reader->node, reader->handle, &reader->topic);
        reader->declared = reader->audience != PDI_AUDIT_NONE;
        reader->answer = 0;
        pdi_world_declared(&play->world, reader->node, reader->handle);
    }
    if (reader->declared) {
        struct pdi_audience *audience = &play->audit.audiences[reader->audience];
        audience->drops = reader->options.on_full != PYDDSI_WAIT;
        audience->partial = reader->options.mode != PYDDSI_PUSH;
    }
    play->declared++;
    pdi_world_leave(&play->world, reader->node);
}

static void forget(struct pdi_play *play, int where, uint32_t handle)
{
    pdi_time now;
    struct pdi_node *node = pdi_world_enter(&play->world, where, &now);
    if (node == NULL)
        return;
    if (pdi_world_shared(&play->world, where) != NULL)
        pdi_shared_forget(pdi_world_shared(&play->world, where), handle);
    int status = pdi_node_forget(node, handle, now);
    pdi_audit_check(&play->audit, PYDDSI_CHECK_SETTLED, status == PYDDSI_OK, where,
                    "forgetting %u answered %d", handle, status);
    pdi_world_leave(&play->world, where);
}

void pdi_play_forget_thing(struct pdi_play *play, uint32_t index)
{
    struct pdi_play_thing *thing = &play->things[index];
    if (!thing->declared)
        return;
    thing->declared = 0;
    forget(play, thing->node, thing->handle);
}

void pdi_play_forget_writer(struct pdi_play *play, uint32_t index)
{
    struct pdi_play_writer *writer = &play->writers[index];
    if (!writer->declared)
        return;
    writer->declared = 0;
    free(writer->large); /* what was begun is never finished, and so nobody may get it */
    writer->large = NULL;
    play->audit.authors[writer->author].forgotten = 1;
    forget(play, writer->node, writer->handle);
}

void pdi_play_forget_reader(struct pdi_play *play, uint32_t index)
{
    struct pdi_listener *reader = &play->readers[index];
    if (!reader->declared)
        return;
    pdi_play_release(play, index, 0);
    reader->declared = 0;
    play->audit.audiences[reader->audience].forgotten = 1;
    forget(play, reader->node, reader->handle);
}

/* ---- faults ---- */

static void end_session(struct pdi_play *play, int at, int with)
{
    pdi_time now;
    struct pdi_node *node = pdi_world_enter(&play->world, at, &now);
    if (node == NULL)
        return;
    (void)pdi_node_close_session(node, &play->world.nodes[with].endpoint, 0, now);
    pdi_world_leave(&play->world, at);
}

static void say_farewell(struct pdi_play *play, int at)
{
    pdi_time now;
    struct pdi_node *node = pdi_world_enter(&play->world, at, &now);
    if (node == NULL)
        return;
    pyddsi_stats stats;
    if (pdi_world_shared(&play->world, at) != NULL) {
        pdi_shared_close(pdi_world_shared(&play->world, at), now);
        pdi_node_acknowledge(node);
        pdi_world_leave(&play->world, at);
        node = pdi_world_enter(&play->world, at, &now);
        if (node == NULL)
            return;
    }
    pdi_node_close(node, now);
    pdi_node_stats(node, &stats);
    pdi_audit_check(&play->audit, PYDDSI_CHECK_BOOKS, stats.rings_used == 0, at,
                    "it has closed, and %llu samples in rings have no line",
                    (unsigned long long)stats.rings_used);
    pdi_world_leave(&play->world, at);
    pdi_play_crash(play, at);
}

void pdi_play_happen(struct pdi_play *play, uint32_t index)
{
    const struct pdi_fault *fault = &play->faults[index];
    struct pdi_world *world = &play->world;
    uint32_t which = (uint32_t)fault->a;
    switch (fault->kind) {
    case PDI_FAULT_CRASH:
        pdi_play_crash(play, fault->a);
        break;
    case PDI_FAULT_RESTART:
        pdi_play_restart(play, fault->a, fault->b);
        break;
    case PDI_FAULT_CUT:
    case PDI_FAULT_HEAL:
        (void)pdi_world_cut(world, fault->a, fault->b, fault->kind == PDI_FAULT_CUT);
        if (fault->both)
            (void)pdi_world_cut(world, fault->b, fault->a, fault->kind == PDI_FAULT_CUT);
        break;
    case PDI_FAULT_MOVE:
        (void)pdi_world_move(world, fault->a, fault->b);
        break;
    case PDI_FAULT_PAUSE:
        (void)pdi_world_pause(world, fault->a, fault->duration);
        break;
    case PDI_FAULT_CLOCK:
        (void)pdi_world_clock_step(world, fault->a, fault->step);
        break;
    case PDI_FAULT_STOP_READER:
    case PDI_FAULT_START_READER:
        play->readers[which].stopped = fault->kind == PDI_FAULT_STOP_READER;
        pdi_world_timer(world, PDI_PLAY_TIMER_READER + which, world->now);
        break;
    case PDI_FAULT_FORGET_READER:
        play->readers[which].later = 1;
        pdi_play_forget_reader(play, which);
        break;
    case PDI_FAULT_DECLARE_READER:
        play->readers[which].later = 0;
        pdi_play_declare_reader(play, which);
        break;
    case PDI_FAULT_FORGET_WRITER:
        play->writers[which].later = 1;
        pdi_play_forget_writer(play, which);
        break;
    case PDI_FAULT_DECLARE_WRITER:
        play->writers[which].later = 0;
        pdi_play_declare_writer(play, which);
        break;
    case PDI_FAULT_FORGET_THING:
        play->things[which].later = 1;
        pdi_play_forget_thing(play, which);
        break;
    case PDI_FAULT_DECLARE_THING:
        play->things[which].later = 0;
        pdi_play_declare_thing(play, which);
        break;
    case PDI_FAULT_CLOSE_SESSION:
        end_session(play, fault->a, fault->b);
        break;
    case PDI_FAULT_CLOSE:
        say_farewell(play, fault->a);
        break;
    case PDI_FAULT_SCRIBBLE:
        if (pdi_world_shared(world, fault->a) != NULL)
            pdi_shared_scribble(pdi_world_shared(world, fault->a), &play->rand, (uint32_t)fault->b,
                                fault->both != 0);
        break;
    }
}
