/* audit.c - who puts what and who takes it; audit_end.c has what is checked at the end. */
#include "sim/audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"

#define MAGIC UINT32_C(0x5d1b0a7e)

/* The first bytes of every payload. The colour stands first, so that a predicate can ask for $byte0. */
struct stub {
    uint8_t colour;
    uint8_t zero;
    uint16_t author;
    uint32_t magic;
    uint32_t number;
    uint32_t size;
    uint32_t sum; /* of the payload with 0 here */
};
_Static_assert(sizeof(struct stub) == PDI_AUDIT_STUB, "the stub has no holes");
_Static_assert(sizeof(((pyddsi_report *)0)->checks) / sizeof(uint64_t) == PYDDSI_CHECK_COUNT,
               "the report has a place for each check");

int pdi_audit_init(struct pdi_audit *audit, struct pdi_world *world)
{
    memset(audit, 0, sizeof(*audit));
    audit->world = world;
    audit->stamp = 1;
    audit->texts = malloc(PDI_AUDIT_TEXTS_MAX * sizeof(*audit->texts));
    return audit->texts != NULL ? PYDDSI_OK : PYDDSI_NO_SPACE;
}

void pdi_audit_fini(struct pdi_audit *audit)
{
    for (uint32_t i = 0; i < audit->authors_count; i++) {
        free(audit->authors[i].puts);
    }
    for (uint32_t i = 0; i < audit->audiences_count; i++) {
        free(audit->audiences[i].last);
    }
    free(audit->authors);
    free(audit->audiences);
    free(audit->texts);
    memset(audit, 0, sizeof(*audit));
}

bool pdi_audit_check(struct pdi_audit *audit, enum pyddsi_sim_check check, bool good, int node,
                     const char *format, ...)
{
    audit->checks[check]++;
    if (good)
        return true;
    audit->violations++;
    if (audit->texts_count < PDI_AUDIT_TEXTS_MAX) {
        char *text = audit->texts[audit->texts_count++];
        int size =
            snprintf(text, PYDDSI_SIM_TEXT_MAX,
                     "%.6f s, node %d: ", (double)audit->world->now / (double)PDI_TIME_S, node);
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(text + size, PYDDSI_SIM_TEXT_MAX - (size_t)size, format, arguments);
        va_end(arguments);
    }
    return false;
}

/* ---- lives ---- */

void pdi_audit_started(struct pdi_audit *audit, int node)
{
    pyddsi_stats stats;
    audit->stamp++;
    memset(audit->sessions[node], 0, sizeof(audit->sessions[node]));
    for (int other = 0; other < PDI_AUDIT_NODES_MAX; other++) {
        audit->sessions[other][node].current = 0; /* they speak with the former life, if with any */
    }
    if (pdi_world_runs(audit->world, node)) {
        pdi_node_stats(audit->world->nodes[node].node, &stats);
        audit->nodes[node].slots = stats.allocated_slots;
        audit->nodes[node].stats = stats;
    }
}

void pdi_audit_ending(struct pdi_audit *audit, int node)
{
    audit->stamp++;
    audit->resent += audit->nodes[node].stats.resent;
    memset(&audit->nodes[node].stats, 0, sizeof(audit->nodes[node].stats));
    memset(audit->sessions[node], 0, sizeof(audit->sessions[node]));
    for (int other = 0; other < PDI_AUDIT_NODES_MAX; other++) {
        audit->sessions[other][node].current = 0;
        audit->sessions[other][node].broken = audit->stamp;
    }
}

/* ---- authors and audiences ---- */

/* Room for one more item; answers the array, or null. */
static void *grow(void *items, uint32_t count, uint32_t *room, uint32_t max, size_t size)
{
    if (count < *room)
        return items;
    if (count >= max)
        return NULL;
    uint32_t more = *room == 0 ? 8 : *room * 2;
    more = more < max ? more : max;
    void *larger = realloc(items, more * size);
    if (larger != NULL)
        *room = more;
    return larger;
}

uint32_t pdi_audit_author(struct pdi_audit *audit, int node, uint32_t handle,
                          const struct pdi_audit_topic *topic)
{
    void *authors = grow(audit->authors, audit->authors_count, &audit->authors_room,
                         PDI_AUDIT_AUTHORS_MAX, sizeof(*audit->authors));
    if (authors == NULL)
        return PDI_AUDIT_NONE;
    audit->authors = authors;
    audit->authors[audit->authors_count] = (struct pdi_author){
        .node = node, .life = audit->world->nodes[node].lives, .handle = handle, .topic = *topic};
    audit->stamp++;
    return audit->authors_count++;
}

static bool follows(const struct pdi_audit *audit, int node, const struct pdi_audit_topic *topic)
{
    bool found = false;
    for (uint32_t i = 0; i < audit->audiences_count && !found; i++) {
        const struct pdi_audience *one = &audit->audiences[i];
        found = one->node == node && one->forgotten && one->topic.resource == topic->resource &&
                pdi_audit_alive(audit, node, one->life);
    }
    return found && pdi_world_shared(audit->world, node) != NULL;
}

uint32_t pdi_audit_audience(struct pdi_audit *audit, int node, uint32_t handle,
                            const struct pdi_audit_topic *topic)
{
    void *audiences = grow(audit->audiences, audit->audiences_count, &audit->audiences_room,
                           PDI_AUDIT_AUDIENCES_MAX, sizeof(*audit->audiences));
    if (audiences == NULL)
        return PDI_AUDIT_NONE;
    audit->audiences = audiences;
    audit->audiences[audit->audiences_count] =
        (struct pdi_audience){.node = node,
                              .life = audit->world->nodes[node].lives,
                              .handle = handle,
                              .topic = *topic,
                              .declared = ++audit->stamp};
    audit->audiences[audit->audiences_count].follows = follows(audit, node, topic);
    return audit->audiences_count++;
}

bool pdi_audit_wants(const struct pdi_audience *audience, const struct pdi_author *author,
                     uint8_t colour)
{
    const struct pdi_audit_topic *one = &audience->topic, *two = &author->topic;
    if (audience->node == author->node || one->space != two->space)
        return false;
    if (one->colour_limit != 0 && colour >= one->colour_limit)
        return false;
    if (!one->is_selection && one->resource == two->resource && one->resource != 0)
        return true;
    return one->name_size != 0 && two->name_size != 0 &&
           pyddsi_intersect(one->name, one->name_size, two->name, two->name_size) == 1;
}

/* ---- put ---- */

void pdi_audit_fill(const struct pdi_audit *audit, uint32_t author, uint32_t ahead, uint8_t colour,
                    uint8_t *payload, uint32_t size)
{
    uint32_t number = audit->authors[author].count + ahead;
    struct stub stub = {.colour = colour,
                        .author = (uint16_t)author,
                        .magic = MAGIC,
                        .number = number,
                        .size = size};
    uint64_t state = (uint64_t)author << 32 | number;
    memcpy(payload, &stub, sizeof(stub));
    for (uint32_t at = sizeof(stub); at < size; at += 8) {
        uint64_t word = pdi_rand_splitmix(&state);
        memcpy(payload + at, &word, size - at < 8 ? size - at : 8);
    }
    stub.sum = pdi_crc32c(0, payload, size);
    memcpy(payload, &stub, sizeof(stub));
}

uint32_t pdi_audit_matched(const struct pdi_audit *audit, uint32_t author)
{
    const struct pdi_author *one = &audit->authors[author];
    uint32_t matched = 0;
    for (int node = 0; node < PDI_AUDIT_NODES_MAX; node++) {
        if ((one->matched >> node & 1) != 0 && audit->sessions[one->node][node].current)
            matched |= UINT32_C(1) << node;
    }
    return matched;
}

uint32_t pdi_audit_still(const struct pdi_audit *audit, uint32_t author, uint32_t matched,
                         uint64_t stamp)
{
    const struct pdi_session *sessions = audit->sessions[audit->authors[author].node];
    matched &= pdi_audit_matched(audit, author);
    for (int node = 0; node < PDI_AUDIT_NODES_MAX; node++) {
        if (sessions[node].broken > stamp)
            matched &= ~(UINT32_C(1) << node);
    }
    return matched;
}

void pdi_audit_put(struct pdi_audit *audit, uint32_t author, uint8_t colour, uint32_t matched,
                   uint64_t stamp)
{
    struct pdi_author *one = &audit->authors[author];
    struct pdi_audit_put *puts = grow(one->puts, one->count, &one->room, UINT32_MAX, sizeof(*puts));
    if (puts == NULL)
        return; /* its sample will be reported as nobody's */
    one->puts = puts;
    bool alone =
        one->moves && pdi_node_conduit(audit->world->nodes[one->node].node, one->handle) < 0;
    puts[one->count++] = (struct pdi_audit_put){.stamp = stamp,
                                                .time = audit->world->now,
                                                .matched = matched,
                                                .colour = colour,
                                                .alone = alone};
    audit->stamp++;
    audit->put++;
}

/* ---- take ---- */

/* The stub, if this is a whole payload of ours. */
static bool open_payload(const struct pdi_audit *audit, const pyddsi_received *sample,
                         struct stub *stub)
{
    uint8_t zeros[4] = {0};
    size_t body = offsetof(struct stub, sum);
    if (sample->size < sizeof(*stub))
        return false;
    memcpy(stub, sample->data, sizeof(*stub));
    if (stub->magic != MAGIC || stub->size != sample->size ||
        stub->author >= audit->authors_count || stub->number >= audit->authors[stub->author].count)
        return false;
    uint32_t sum = pdi_crc32c(0, sample->data, body);
    sum = pdi_crc32c(sum, zeros, sizeof(zeros));
    return pdi_crc32c(sum, sample->data + body + 4, sample->size - body - 4) == stub->sum;
}

/* The number after the last one that this audience took of an author. Best effort that goes another way waits for nothing
 * that is still on the old one, so there each way has its own. */
static uint32_t *last_taken(struct pdi_audience *audience, uint32_t author, bool alone)
{
    uint32_t line = 2 * author + alone;
    if (line >= audience->last_room) {
        uint32_t room = (line / 16 + 1) * 16;
        uint32_t *last = realloc(audience->last, room * sizeof(*last));
        if (last == NULL)
            return NULL;
        memset(last + audience->last_room, 0, (room - audience->last_room) * sizeof(*last));
        audience->last = last;
        audience->last_room = room;
    }
    return &audience->last[line];
}

/* Between the last one and this one nothing that is owed may be missing, unless something excuses it. */
static void check_hole(struct pdi_audit *audit, struct pdi_audience *audience,
                       const struct pdi_author *author, uint32_t from, uint32_t to)
{
    const struct pdi_session *there = &audit->sessions[author->node][audience->node];
    const struct pdi_session *here = &audit->sessions[audience->node][author->node];
    if (audience->drops || audience->partial || audience->follows || audit->lines_suffice ||
        audit->broken || !author->topic.reliable || !audience->topic.reliable)
        return;
    for (uint32_t number = from; number < to; number++) {
        const struct pdi_audit_put *put = &author->puts[number];
        if ((put->matched >> audience->node & 1) == 0 || put->stamp < audience->declared ||
            put->stamp < there->broken || put->stamp < here->broken ||
            !pdi_audit_wants(audience, author, put->colour))
            continue;
        pdi_audit_check(audit, PYDDSI_CHECK_COMPLETE, false, audience->node,
                        "subscriber %u skipped number %u of publisher %u of node %d, put at %.6f s",
                        audience->handle, number, author->handle, author->node,
                        (double)put->time / (double)PDI_TIME_S);
        return; /* one line for one hole */
    }
}

/* Nobody holds back a writer of best effort. So a sample can be late by half of all numbers there are, and then its number
 * says that it is the newest; and what was newer before can come once more. Late by what was heard, not by what was taken:
 * where something found no room in a ring, that may be all that was put. */
static bool came_round(const struct pdi_audit *audit, const struct pdi_audience *audience,
                       const struct pdi_author *author, uint32_t number, uint32_t last, bool had)
{
    const pyddsi_config *from = &audit->world->nodes[author->node].config;
    uint8_t bits = from->seq_bits;
    uint32_t features = from->features & audit->world->nodes[audience->node].config.features;
    if (author->topic.reliable || (features & PYDDSI_CAN_WIDE) != 0)
        return false;
    if (number >= last)
        return had;
    const struct pdi_audit_topic *topic = &author->topic;
    uint64_t dropped = pdi_audit_ledger(audit, audience->node, topic->space, topic->resource * 2);
    uint32_t heard = dropped == 0 ? last : author->count;
    return heard - number >= UINT64_C(1) << (bits - 1);
}

/* Whether a session between the two has ended since the audience was declared. */
static bool was_broken(const struct pdi_audit *audit, const struct pdi_audience *audience,
                       const struct pdi_author *author)
{
    return audit->sessions[author->node][audience->node].broken > audience->declared ||
           audit->sessions[audience->node][author->node].broken > audience->declared;
}

static void check_taken(struct pdi_audit *audit, uint32_t index, const pyddsi_received *sample,
                        const struct stub *stub)
{
    struct pdi_audience *audience = &audit->audiences[index];
    struct pdi_author *author = &audit->authors[stub->author];
    struct pdi_audit_put *put = &author->puts[stub->number];
    uint32_t *last = last_taken(audience, stub->author, put->alone);
    uint64_t bit = UINT64_C(1) << index % 64, *word = &put->taken[index / 64];
    if (last == NULL)
        return;
    bool had = (*word & bit) != 0;
    bool round = came_round(audit, audience, author, stub->number, *last, had);
    if (author->keeps != 0 && had && was_broken(audit, audience, author))
        round = true; /* what is kept comes again with a new session */
    if (round && had) {
        *last = stub->number + 1;
        audit->foreign++;
        return;
    }
    pdi_audit_check(audit, PYDDSI_CHECK_PAYLOAD, pdi_audit_wants(audience, author, stub->colour),
                    audience->node, "subscriber %u took a sample of node %d that is not for it",
                    audience->handle, author->node);
    /* what comes as best effort waits for nothing, and so not for what was kept */
    bool overtakes = author->keeps != 0 && !author->topic.reliable;
    bool once = pdi_audit_check(audit, PYDDSI_CHECK_ONCE, !had, audience->node,
                                "subscriber %u took number %u of publisher %u of node %d twice",
                                audience->handle, stub->number, author->handle, author->node);
    if (once) {
        bool in_order = pdi_audit_check(
            audit, PYDDSI_CHECK_ORDER, stub->number >= *last || round || overtakes, audience->node,
            "subscriber %u took number %u of publisher %u of node %d after %u", audience->handle,
            stub->number, author->handle, author->node, *last == 0 ? 0 : *last - 1);
        if (in_order && (author->keeps == 0 || *last != 0))
            check_hole(audit, audience, author, *last, stub->number);
        audience->taken++;
        audit->taken++;
    }
    *word |= bit;
    if (stub->number >= *last || !author->topic.reliable)
        *last = stub->number + 1;
    if (audit->on_take != NULL)
        audit->on_take(audit->context, index, sample, stub->author, stub->number);
}

void pdi_audit_take(struct pdi_audit *audit, uint32_t index, const pyddsi_received *sample)
{
    struct pdi_audience *audience = &audit->audiences[index];
    struct stub stub = {0};
    audit->stamp++;
    bool whole = open_payload(audit, sample, &stub);
    pdi_world_digest(audit->world, (uint64_t)index << 48 ^ (uint64_t)stub.author << 32 ^
                                       stub.number ^ audit->world->now << 20);
    if (audit->broken) {
        audit->foreign++;
        return;
    }
    if (audit->strangers) {
        /* Whoever replays our samples in his own name has not put them. */
        const struct pdi_session *session = NULL;
        if (whole)
            session = &audit->sessions[audience->node][audit->authors[stub.author].node];
        if (session == NULL || !session->connected || session->peer != sample->peer) {
            audit->foreign++;
            return;
        }
    }
    if (pdi_audit_check(audit, PYDDSI_CHECK_PAYLOAD, whole, audience->node,
                        "subscriber %u took %zu bytes that nobody put", audience->handle,
                        sample->size))
        check_taken(audit, index, sample, &stub);
}
