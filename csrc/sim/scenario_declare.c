/* scenario_declare.c - scenarios about what is declared: conflicts, forgetting, spaces, ways, selections, guards. */
#include "sim/scenario_draw.h"

#include <stdio.h>
#include <string.h>

#define PENDING 255
#define RETRY   (150 * MS)

static void linked_nodes(struct pdi_play *play, int count)
{
    pyddsi_sim_link link = pdi_scenario_good_link(play);
    if (chance(play, 1, 3))
        link.loss_ppm = (uint32_t)between(play, 0, 50000);
    pdi_scenario_nodes(play, count);
    pdi_scenario_links(play, &link);
}

/* ---- declare: 002-2, 002-3 ---- */

/* Of those who declared one id, only users of one name have been told that all is well. */
static void declare_end(struct pdi_play *play)
{
    for (uint32_t i = 0; i < play->things_count; i++) {
        const struct pdi_play_thing *one = &play->things[i];
        if (!one->declared || !pdi_world_runs(&play->world, one->node))
            continue;
        int status = pdi_node_status(play->world.nodes[one->node].node, one->handle);
        pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, status != PENDING, one->node,
                        "the declaration of resource %llu as %s is not settled",
                        (unsigned long long)one->id, one->text);
        for (uint32_t k = i + 1; k < play->things_count && status == 0; k++) {
            const struct pdi_play_thing *two = &play->things[k];
            if (!two->declared || two->id != one->id || strcmp(one->text, two->text) == 0 ||
                two->node == one->node)
                continue;
            int other = pdi_node_status(play->world.nodes[two->node].node, two->handle);
            pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, other != 0, one->node,
                            "resource %llu is %s here and %s at node %d, and both are settled",
                            (unsigned long long)one->id, one->text, two->text, two->node);
        }
    }
}

void pdi_scenario_declare(struct pdi_play *play)
{
    int count = (int)between(play, 2, 16);
    linked_nodes(play, count);
    pdi_time at = between(play, 200, 600) * MS;
    uint64_t ids = between(play, 1, 3);
    for (uint64_t id = 1; id <= ids; id++) {
        bool contradict = chance(play, 1, 3);
        bool before = chance(play, 1, 4); /* before they know each other */
        for (int node = 0; node < count; node++) {
            char name[PDI_AUDIT_NAME_MAX];
            uint64_t which = contradict ? between(play, 0, 1) : 0;
            (void)snprintf(name, sizeof(name), "/same/%llu/%llu", (unsigned long long)id,
                           (unsigned long long)which);
            struct pdi_play_thing *thing = pdi_play_thing(play, node, PYDDSI_RESOURCE, id, name);
            thing->may_fail = contradict;
            thing->later = !before;
            if (!before)
                (void)pdi_play_fault(play, PDI_FAULT_DECLARE_THING, (int)play->things_count - 1, 0,
                                     at + (chance(play, 1, 2) ? 0 : between(play, 0, 3) * MS));
        }
    }
    (void)pdi_scenario_writer(play, 0, 30);
    (void)pdi_scenario_reader(play, 1, 30);
    play->on_end = declare_end;
}

/* ---- forget ---- */

void pdi_scenario_forget(struct pdi_play *play)
{
    int count = (int)between(play, 2, 5);
    linked_nodes(play, count);
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 1; id <= writers; id++) {
        int from = any_node(play, count);
        struct pdi_play_writer *writer = pdi_scenario_writer(play, from, id);
        writer->interval = between(play, 3, 15) * MS;
        for (int to = 0; to < count; to++) {
            if (to != from)
                (void)pdi_scenario_reader(play, to, id);
        }
    }
    uint32_t extras = play->things_count;
    for (int node = 0; node < count; node++) { /* names that nothing depends on */
        char name[PDI_AUDIT_NAME_MAX];
        (void)snprintf(name, sizeof(name), "/extra/%d", node);
        (void)pdi_play_thing(play, node, PYDDSI_RESOURCE, 50 + (uint64_t)node, name);
    }
    uint64_t times = between(play, 1, 12);
    for (uint64_t i = 0; i < times; i++) {
        pdi_time at = moment(play);
        pdi_time back = at + (chance(play, 1, 2) ? 0 : between(play, 0, 300) * MS);
        if (chance(play, 1, 3)) {
            int which = (int)between(play, 0, play->writers_count - 1);
            (void)pdi_play_fault(play, PDI_FAULT_FORGET_WRITER, which, 0, at);
            (void)pdi_play_fault(play, PDI_FAULT_DECLARE_WRITER, which, 0, back);
        } else if (chance(play, 1, 3)) {
            int which = (int)between(play, extras, play->things_count - 1);
            (void)pdi_play_fault(play, PDI_FAULT_FORGET_THING, which, 0, at);
            (void)pdi_play_fault(play, PDI_FAULT_DECLARE_THING, which, 0, back);
        } else {
            int which = (int)between(play, 0, play->readers_count - 1);
            (void)pdi_play_fault(play, PDI_FAULT_FORGET_READER, which, 0, at);
            if (chance(play, 3, 4))
                (void)pdi_play_fault(play, PDI_FAULT_DECLARE_READER, which, 0, back);
        }
    }
}

/* ---- names: 002-18, 002-127 ---- */

/* Subscribers of patterns, by ids of their own, so that only names can bring them together. */
void pdi_scenario_names(struct pdi_play *play)
{
    static const char *const patterns[] = {"/r/*", "/r/?", "/**", "/r/1", "/r/2", "/*/1"};
    int count = (int)between(play, 2, 4);
    linked_nodes(play, count);
    uint64_t writers = between(play, 1, 3);
    for (uint64_t id = 1; id <= writers; id++) {
        char name[PDI_AUDIT_NAME_MAX];
        int from = any_node(play, count);
        struct pdi_play_writer *writer = pdi_play_writer(play, from, id);
        writer->interval = between(play, 2, 15) * MS;
        writer->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
        (void)snprintf(name, sizeof(name), "/r/%u", (unsigned)id);
        pdi_scenario_name(play, from, id, &writer->topic, name);
    }
    for (int to = 0; to < count; to++) {
        uint64_t readers = between(play, 0, 2);
        for (uint64_t i = 0; i < readers; i++) {
            uint64_t which = between(play, 0, 5), id = 40 + which;
            struct pdi_listener *reader = pdi_play_reader(play, to, id);
            pdi_scenario_name(play, to, id, &reader->topic, patterns[which]);
            if (chance(play, 1, 3)) {
                int index = (int)play->readers_count - 1;
                reader->later = 1;
                (void)pdi_play_fault(play, PDI_FAULT_DECLARE_READER, index, 0, moment(play));
            }
        }
    }
}

/* ---- spaces: 002-126 ---- */

void pdi_scenario_spaces(struct pdi_play *play)
{
    static const uint8_t spaces[] = {0, 1, 2, 4, 5, 255};
    int count = (int)between(play, 2, 4);
    linked_nodes(play, count);
    uint64_t some = between(play, 2, 4);
    for (uint64_t i = 0; i < some; i++) {
        uint8_t space = spaces[between(play, 0, 5)];
        int from = any_node(play, count);
        struct pdi_play_writer *writer = pdi_play_writer(play, from, 1);
        writer->options.space = writer->topic.space = space;
        pdi_scenario_name(play, from, 1, &writer->topic, "/same");
        for (int to = 0; to < count; to++) {
            if (to == from || chance(play, 1, 4))
                continue;
            struct pdi_listener *reader = pdi_play_reader(play, to, 1);
            reader->options.space = reader->topic.space = space;
            pdi_scenario_name(play, to, 1, &reader->topic, "/same");
        }
    }
}

/* ---- unicast: 002-25, 002-26 ---- */

/* Whoever was refused tries again now and then. */
static void unicast_timer(struct pdi_play *play, uint32_t timer)
{
    for (uint32_t i = 0; i < play->readers_count; i++) {
        struct pdi_listener *reader = &play->readers[i];
        if (reader->declared && play->audit.audiences[reader->audience].rejected) {
            pdi_play_forget_reader(play, i);
            pdi_play_declare_reader(play, i);
        }
    }
    if (play->world.now < play->stop)
        pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME + timer, play->world.now + RETRY);
}

static void unicast_end(struct pdi_play *play)
{
    const struct pdi_author *author = &play->audit.authors[play->writers[0].author];
    int matched = __builtin_popcount(author->matched);
    pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, matched == 1, author->node,
                    "a publisher for one subscriber is matched with %d nodes", matched);
    int conduit = pdi_node_conduit(play->world.nodes[0].node, play->writers[0].handle);
    pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, conduit < 0, author->node,
                    "a publisher for one subscriber sends on conduit %d", conduit);
}

void pdi_scenario_unicast(struct pdi_play *play)
{
    int count = (int)between(play, 3, 5);
    linked_nodes(play, count);
    struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, 1);
    writer->options.way = PYDDSI_WAY_UNICAST;
    writer->may_fail = 1;
    for (int to = 1; to < count; to++) {
        pdi_scenario_reader(play, to, 1)->may_fail = 1;
    }
    int first = (int)between(play, 0, play->readers_count - 1);
    pdi_time at = moment(play);
    (void)pdi_play_fault(play, PDI_FAULT_FORGET_READER, first, 0, at);
    if (chance(play, 1, 2))
        (void)pdi_play_fault(play, PDI_FAULT_DECLARE_READER, first, 0, at + 300 * MS);
    pdi_world_timer(&play->world, PDI_PLAY_TIMER_THEME, RETRY);
    play->on_timer = unicast_timer;
    play->on_end = unicast_end;
}

/* ---- auto: 002-27 ---- */

void pdi_scenario_automatic(struct pdi_play *play)
{
    int count = (int)between(play, 3, 5);
    linked_nodes(play, count);
    uint64_t writers = between(play, 1, 2);
    for (uint64_t id = 1; id <= writers; id++) {
        struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, id);
        writer->options.way = PYDDSI_WAY_AUTO;
        writer->interval = between(play, 1, 8) * MS;
        for (int to = 1; to < count; to++) {
            int which = (int)play->readers_count;
            pdi_scenario_reader(play, to, id)->later = to > 1;
            uint64_t turns = to > 1 ? between(play, 1, 3) : 0;
            pdi_time at = between(play, 50, 300) * MS;
            for (uint64_t i = 0; i < turns; i++) {
                (void)pdi_play_fault(play, PDI_FAULT_DECLARE_READER, which, 0, at);
                at += between(play, 30, 300) * MS;
                (void)pdi_play_fault(play, PDI_FAULT_FORGET_READER, which, 0, at);
                at += between(play, 30, 300) * MS;
            }
        }
    }
}

/* ---- selections: 002-16, 002-17 ---- */

void pdi_scenario_selections(struct pdi_play *play)
{
    int count = (int)between(play, 2, 5);
    linked_nodes(play, count);
    bool bound = chance(play, 1, 2);
    struct pdi_play_writer *writer = pdi_scenario_writer(play, 0, 1);
    writer->interval = between(play, 2, 10) * MS;
    writer->options.way = chance(play, 1, 2) ? PYDDSI_WAY_EACH : PYDDSI_WAY_MULTICAST;
    uint8_t limit = (uint8_t)between(play, 1, 255);
    for (int to = 1; to < count; to++) {
        char query[96];
        struct pdi_listener *reader = pdi_play_reader(play, to, bound ? 7 : 10 + (uint64_t)to);
        if (!bound)
            limit = (uint8_t)between(play, 1, 255);
        reader->options.is_selection = reader->topic.is_selection = 1;
        reader->topic.colour_limit = limit;
        const char *name = chance(play, 1, 2) ? "/r/1" : "/r/*";
        if (bound)
            name = "/r/1";
        reader->topic.name_size = (uint8_t)strlen(name);
        memcpy(reader->topic.name, name, reader->topic.name_size);
        (void)snprintf(query, sizeof(query), "%s?{$byte0 < %u}", name, limit);
        (void)pdi_play_thing(play, to, PYDDSI_SELECTION, reader->options.resource, query);
        if (bound) {
            struct pdi_play_thing *binding =
                pdi_play_thing(play, to, PYDDSI_BINDING, reader->options.resource, "a binding");
            binding->new_id = 99;
            binding->is_global = 1;
        }
        if (chance(play, 1, 3)) /* and one that takes all */
            (void)pdi_scenario_reader(play, to, 1);
    }
}

/* ---- guards: 002-6, 002-7 ---- */

/* Whoever gets a sample has room for his answer. */
static void guards_take(struct pdi_play *play, uint32_t index, const pyddsi_received *sample,
                        uint32_t author, uint32_t number)
{
    const struct pdi_listener *reader = &play->readers[index];
    (void)sample;
    (void)author;
    (void)number;
    for (uint32_t i = 0; i < reader->options.guards; i++) {
        struct pdi_play_writer *answer = &play->writers[reader->guard_writers[i]];
        uint32_t size = reader->options.guard_bytes[i];
        uint32_t matched = pdi_audit_matched(&play->audit, answer->author);
        uint64_t stamp = play->audit.stamp;
        pdi_time now;
        struct pdi_node *node = pdi_world_enter(&play->world, reader->node, &now);
        if (node == NULL || !answer->declared)
            continue;
        pdi_audit_fill(&play->audit, answer->author, 0, 0, play->payload, size);
        int status = pdi_node_put(node, answer->handle, play->payload, size, now);
        pdi_audit_check(&play->audit, PYDDSI_CHECK_THEME, status == PYDDSI_OK, reader->node,
                        "a guarded subscriber cannot put its answer: %d", status);
        if (status == PYDDSI_OK)
            pdi_audit_put(&play->audit, answer->author, 0, matched, stamp);
    }
}

void pdi_scenario_guards(struct pdi_play *play)
{
    for (int i = 0; i < PYDDSI_MULTICASTS_MAX; i++) {
        play->config.multicast_bytes[i] = 512;
        play->config.multicast_samples[i] = 4;
    }
    play->config.slow_ms = 60000; /* a reader that waits for its own window is not slow */
    linked_nodes(play, (int)between(play, 2, 3));
    struct pdi_play_writer *question = pdi_scenario_writer(play, 0, 1);
    question->interval = between(play, 2, 10) * MS;
    question->options.way = PYDDSI_WAY_EACH;
    uint64_t answers = between(play, 1, 2);
    for (uint64_t i = 0; i < answers; i++) {
        pdi_scenario_writer(play, 1, 11 + i)->idle = 1;
        pdi_scenario_reader(play, 0, 11 + i)->delay_max = between(play, 0, 10) * MS;
    }
    uint64_t readers = between(play, 1, 2);
    for (uint64_t k = 0; k < readers; k++) {
        struct pdi_listener *reader = pdi_scenario_reader(play, 1, 1);
        reader->options.depth = 1;
        reader->options.guards = (uint32_t)answers;
        for (uint32_t i = 0; i < answers; i++) {
            reader->guard_writers[i] = 1 + i;
            /* all fit the window */
            reader->options.guard_bytes[i] = (uint32_t)between(play, PDI_AUDIT_STUB, 110);
        }
    }
    play->on_take = guards_take;
}
