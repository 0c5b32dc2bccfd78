/* play_act.c - what writers and readers do: put, take, release. */
#include "sim/play.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_MIN (30 * PDI_TIME_US)
#define RETRY_MAX PDI_TIME_MS
#define LET_GO    (5 * PDI_TIME_MS)
#define TAKES_MAX 64

/* ---- writers ---- */

/* OK and the author has one sample more, or what the node answered. */
static int put_one(struct pdi_play *play, struct pdi_play_writer *writer, struct pdi_node *node,
                   pdi_time now)
{
    uint32_t size = (uint32_t)pdi_play_between(&writer->rand, writer->size_min, writer->size_max);
    uint8_t colour = (uint8_t)pdi_rand_u64(&writer->rand);
    uint32_t matched = pdi_audit_matched(&play->audit, writer->author);
    uint64_t stamp = play->audit.stamp;
    int status;
    if (pdi_play_ppm(&writer->rand, writer->loan_ppm)) {
        uint32_t extra = (uint32_t)pdi_rand_below(&writer->rand, 16), loan;
        uint8_t *data;
        status = pdi_node_loan(node, writer->handle, size + extra, &data, &loan);
        if (status != PYDDSI_OK)
            return status;
        if (pdi_rand_chance(&writer->rand, 1, 8)) {
            (void)pdi_node_abandon(node, loan);
            return PYDDSI_AGAIN;
        }
        pdi_audit_fill(&play->audit, writer->author, 0, colour, data, size);
        status = pdi_node_commit(node, loan, size, now);
    } else {
        pdi_audit_fill(&play->audit, writer->author, 0, colour, play->payload, size);
        struct pdi_shared *shared = pdi_world_shared(&play->world, writer->node);
        status = shared != NULL ? pdi_shared_put(shared, writer->handle, play->payload, size, now)
                                : pdi_node_put(node, writer->handle, play->payload, size, now);
    }
    if (status == PYDDSI_OK)
        pdi_audit_put(&play->audit, writer->author, colour, matched, stamp);
    return status;
}

static int put_many(struct pdi_play *play, struct pdi_play_writer *writer, struct pdi_node *node,
                    pdi_time now)
{
    pyddsi_bytes samples[PDI_PLAY_MANY_MAX];
    uint8_t colours[PDI_PLAY_MANY_MAX];
    uint32_t most = writer->many_max < PDI_PLAY_MANY_MAX ? writer->many_max : PDI_PLAY_MANY_MAX;
    uint32_t count = (uint32_t)pdi_play_between(&writer->rand, 1, most), at = 0;
    uint32_t matched = pdi_audit_matched(&play->audit, writer->author);
    uint64_t stamp = play->audit.stamp;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size =
            (uint32_t)pdi_play_between(&writer->rand, writer->size_min, writer->size_max);
        colours[i] = (uint8_t)pdi_rand_u64(&writer->rand);
        pdi_audit_fill(&play->audit, writer->author, i, colours[i], play->payload + at, size);
        samples[i] = (pyddsi_bytes){.data = play->payload + at, .size = size};
        at += size;
    }
    int status = pdi_node_put_many(node, writer->handle, samples, count, now);
    struct pdi_author *author = &play->audit.authors[writer->author];
    author->batch = count > author->batch ? count : author->batch;
    for (uint32_t i = 0; i < count && status == PYDDSI_OK; i++) {
        pdi_audit_put(&play->audit, writer->author, colours[i], matched, stamp);
    }
    return status;
}

/* Begins a large sample: OK, and it goes out with the next steps. */
static int begin_large(struct pdi_play *play, struct pdi_play_writer *writer, struct pdi_node *node,
                       pdi_time now)
{
    uint32_t size = (uint32_t)pdi_play_between(&writer->rand, writer->size_max, writer->large_max);
    writer->large_matched = pdi_audit_matched(&play->audit, writer->author);
    writer->large_stamp = play->audit.stamp;
    int status = pdi_node_begin(node, writer->handle, size, now);
    if (status != PYDDSI_OK)
        return status;
    writer->large = malloc(size);
    if (writer->large == NULL)
        return PYDDSI_NO_SPACE;
    writer->large_size = size;
    writer->large_done = 0;
    writer->large_dropped = pdi_play_ppm(&writer->rand, writer->drop_ppm);
    writer->large_colour = (uint8_t)pdi_rand_u64(&writer->rand);
    pdi_audit_fill(&play->audit, writer->author, 0, writer->large_colour, writer->large, size);
    return PYDDSI_OK;
}

/* Goes on with a large sample, or begins one. OK: it is out, or given up; AGAIN: it goes on later. */
static int put_large(struct pdi_play *play, struct pdi_play_writer *writer, struct pdi_node *node,
                     pdi_time now)
{
    int status = writer->large == NULL ? begin_large(play, writer, node, now) : PYDDSI_OK;
    if (status != PYDDSI_OK)
        return status;
    size_t taken = 0;
    uint32_t rest = writer->large_size - writer->large_done;
    if (writer->large_dropped && pdi_rand_chance(&writer->rand, 1, 3)) {
        status = pdi_node_end(node, writer->handle, 1, now);
        if (status == PYDDSI_AGAIN)
            return status;
    } else {
        if (writer->large_dropped) /* never its last piece, with which it would be out */
            rest = rest > 1 ? rest - 1 : 0;
        status = pdi_node_more(node, writer->handle, writer->large + writer->large_done, rest,
                               &taken, now);
        writer->large_done += (uint32_t)taken;
        if (status >= 0 && writer->large_done < writer->large_size)
            return PYDDSI_AGAIN;
        if (status == PYDDSI_OK)
            pdi_audit_put(&play->audit, writer->author, writer->large_colour,
                          pdi_audit_still(&play->audit, writer->author, writer->large_matched,
                                          writer->large_stamp),
                          writer->large_stamp);
    }
    free(writer->large);
    writer->large = NULL;
    return status;
}

void pdi_play_write(struct pdi_play *play, uint32_t index)
{
    struct pdi_play_writer *writer = &play->writers[index];
    uint32_t timer = PDI_PLAY_TIMER_WRITER + index;
    pdi_time until = writer->until != 0 ? writer->until : play->stop, now;
    bool over = writer->idle || play->world.now >= until ||
                (writer->most != 0 && writer->count >= writer->most);
    if (over && writer->large == NULL)
        return;
    pdi_time next = play->world.now + writer->interval / 2 +
                    pdi_rand_below(&writer->rand, writer->interval + 1);
    struct pdi_node *node = NULL;
    if (writer->declared && pdi_world_awake(&play->world, writer->node))
        node = pdi_world_enter(&play->world, writer->node, &now);
    if (node == NULL) {
        pdi_world_timer(&play->world, timer, next);
        return;
    }
    int status;
    if (writer->large != NULL || pdi_play_ppm(&writer->rand, writer->large_ppm)) {
        status = put_large(play, writer, node, now);
    } else if (writer->many_max > 1 && pdi_rand_chance(&writer->rand, 1, 2)) {
        status = put_many(play, writer, node, now);
    } else {
        status = put_one(play, writer, node, now);
    }
    pdi_world_leave(&play->world, writer->node);
    writer->count += status == PYDDSI_OK;
    if (status == PYDDSI_AGAIN) {
        writer->again++;
        next = play->world.now + pdi_play_between(&writer->rand, RETRY_MIN, RETRY_MAX);
    }
    pdi_audit_check(&play->audit, PYDDSI_CHECK_BOUNDS, status >= 0 || writer->may_fail,
                    writer->node, "putting with publisher %u answered %d", writer->handle, status);
    if (status == PYDDSI_OK && play->on_put != NULL)
        play->on_put(play, index);
    pdi_world_timer(&play->world, timer, next);
}

/* ---- readers ---- */

static void let_go(struct pdi_play *play, const struct pdi_listener *reader, struct pdi_node *node,
                   const pyddsi_received *sample)
{
    struct pdi_shared *shared = pdi_world_shared(&play->world, reader->node);
    if (shared != NULL)
        pdi_shared_gave_back(shared, sample);
    pdi_node_release(node, sample);
}

void pdi_play_release(struct pdi_play *play, uint32_t index, uint32_t keep)
{
    struct pdi_listener *reader = &play->readers[index];
    if (reader->held_count <= keep)
        return;
    struct pdi_node *node = pdi_world_enter(&play->world, reader->node, NULL);
    while (reader->held_count > keep && node != NULL) {
        uint32_t which = (uint32_t)pdi_rand_below(&reader->rand, reader->held_count);
        let_go(play, reader, node, &reader->held[which]);
        reader->held[which] = reader->held[--reader->held_count];
    }
    if (node != NULL)
        pdi_world_leave(&play->world, reader->node);
}

/* Takes what there is, up to a limit. Answers whether there may be more. */
static bool take(struct pdi_play *play, struct pdi_listener *reader, struct pdi_node *node,
                 pdi_time now)
{
    int most = reader->takes_one ? 1 : TAKES_MAX;
    struct pdi_shared *shared = pdi_world_shared(&play->world, reader->node);
    if (shared != NULL)
        pdi_shared_pump(shared, now);
    for (int takes = 0; takes < most; takes++) {
        pyddsi_received sample;
        int status = pdi_node_take(node, reader->handle, &sample, now);
        if (status != PYDDSI_OK) {
            pdi_audit_check(&play->audit, PYDDSI_CHECK_BOUNDS,
                            status == PYDDSI_AGAIN || reader->may_fail, reader->node,
                            "taking with subscriber %u answered %d", reader->handle, status);
            return shared != NULL && takes != 0; /* there was no room for the rest of a lane */
        }
        if (shared != NULL)
            pdi_shared_took(shared, &sample);
        if (sample.last) {
            reader->ends++;
            reader->answer = 0;
            play->marks++;
            pdi_node_release(node, &sample);
            continue;
        }
        reader->answer++;
        pdi_audit_take(&play->audit, reader->audience, &sample);
        if (reader->hold_max == 0) {
            let_go(play, reader, node, &sample);
            continue;
        }
        while (reader->held_count > 0 && reader->held_count >= reader->hold_max) {
            uint32_t which = (uint32_t)pdi_rand_below(&reader->rand, reader->held_count);
            let_go(play, reader, node, &reader->held[which]);
            reader->held[which] = reader->held[--reader->held_count];
        }
        reader->held[reader->held_count++] = sample;
    }
    return true;
}

void pdi_play_read(struct pdi_play *play, uint32_t index)
{
    struct pdi_listener *reader = &play->readers[index];
    uint32_t timer = PDI_PLAY_TIMER_READER + index;
    pdi_time now, next = PDI_TIME_NEVER;
    if (reader->pull_every != 0)
        next = pdi_time_add(play->world.now, reader->pull_every);
    if (!pdi_world_awake(&play->world, reader->node)) {
        if (pdi_world_runs(&play->world, reader->node))
            next = play->world.nodes[reader->node].paused_until;
        pdi_world_timer(&play->world, timer, next);
        return;
    }
    if (!reader->declared || reader->stopped) {
        pdi_world_timer(&play->world, timer, next);
        return;
    }
    struct pdi_node *node = pdi_world_enter(&play->world, reader->node, &now);
    if (node == NULL)
        return;
    uint64_t before = play->audit.taken + play->audit.foreign + play->marks;
    bool more = take(play, reader, node, now);
    if (pdi_world_shared(&play->world, reader->node) != NULL)
        pdi_shared_allow(pdi_world_shared(&play->world, reader->node));
    if (before == play->audit.taken + play->audit.foreign + play->marks && reader->held_count > 0) {
        /* What is held may be what all others wait for. */
        let_go(play, reader, node, &reader->held[--reader->held_count]);
    }
    if (reader->held_count > 0)
        next = next < play->world.now + LET_GO ? next : play->world.now + LET_GO;
    if (more)
        next = play->world.now +
               (reader->delay_max == 0 ? 0 : pdi_rand_below(&reader->rand, reader->delay_max + 1));
    if (reader->pull_every != 0 && play->world.now >= reader->pull_at &&
        play->world.now < play->stop) {
        reader->pull_at = play->world.now + reader->pull_every;
        (void)pdi_node_pull(node, reader->handle, reader->pull_max, now);
        play->pulls++;
    }
    pdi_world_timer(&play->world, timer, next);
    pdi_world_leave(&play->world, reader->node);
}
