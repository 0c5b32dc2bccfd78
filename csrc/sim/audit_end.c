/* audit_end.c - at the end of a run: has everything arrived, and is everything settled? */
#include "sim/audit.h"

#include <string.h>

/* Reasons that say that a sample will not come. The others count what is repeated later. */
static bool is_excuse(unsigned reason)
{
    switch (reason) {
    case PYDDSI_BY_FULL:
    case PYDDSI_BY_PEER_LOST:
    case PYDDSI_BY_CLOSE:
    case PYDDSI_BY_GAP:
    case PYDDSI_BY_SIZE:
    case PYDDSI_BY_OVERWRITTEN:
    case PYDDSI_BY_INCOMPLETE:
    case PYDDSI_BY_LIMIT:
    case PYDDSI_BY_NO_SUBSCRIBER:
    case PYDDSI_BY_UNSUPPORTED:
        return true;
    default:
        return false;
    }
}

uint64_t pdi_audit_ledger(const struct pdi_audit *audit, int node, uint8_t space, uint64_t resource)
{
    pyddsi_drop drop;
    uint64_t count = 0;
    if (!pdi_world_runs(audit->world, node))
        return 0;
    for (uint32_t i = 0; pdi_node_drop(audit->world->nodes[node].node, i, &drop) == PYDDSI_OK;
         i++) {
        bool fits = drop.resource == 0 || (drop.resource == resource && drop.space == space);
        if (fits && is_excuse(drop.reason))
            count += drop.count;
    }
    return count;
}

/* What the two sides have written down about samples of this author that this audience does not have. */
static uint64_t written(const struct pdi_audit *audit, const struct pdi_author *author,
                        const struct pdi_audience *audience)
{
    uint64_t resource = author->topic.resource * 2;
    uint64_t lines = pdi_audit_ledger(audit, author->node, author->topic.space, resource) +
                     pdi_audit_ledger(audit, audience->node, author->topic.space, resource) +
                     audit->sessions[audience->node][author->node].gaps;
    return lines * (author->batch > 1 ? author->batch : 1);
}

static bool is_owed(const struct pdi_audience *audience, const struct pdi_author *author,
                    const struct pdi_audit_put *put)
{
    return (put->matched >> audience->node & 1) != 0 && put->stamp >= audience->declared &&
           pdi_audit_wants(audience, author, put->colour);
}

/* The number with which this audience began; no later than what is kept. */
static uint32_t check_kept(struct pdi_audit *audit, uint32_t index, const struct pdi_author *author,
                           uint64_t broken)
{
    const struct pdi_audience *audience = &audit->audiences[index];
    uint32_t begin = 0;
    uint32_t latest = author->count > author->keeps ? author->count - author->keeps : 0;
    bool wants = false;
    while (begin < author->count && (author->puts[begin].taken[index / 64] >> index % 64 & 1) == 0)
        begin++;
    for (uint32_t number = latest; number < author->count && number <= begin && !wants; number++) {
        wants = number < begin && pdi_audit_wants(audience, author, author->puts[number].colour);
    }
    bool whole = author->forgotten || audience->drops || broken > audience->declared;
    pdi_audit_check(audit, PYDDSI_CHECK_COMPLETE, whole || !wants, audience->node,
                    "subscriber %u has begun with number %u of publisher %u of node %d, and %u to "
                    "%u were kept",
                    audience->handle, begin, author->handle, author->node, latest, author->count);
    return begin;
}

static void check_pair(struct pdi_audit *audit, uint32_t index, const struct pdi_author *author)
{
    struct pdi_audience *audience = &audit->audiences[index];
    uint64_t broken = audit->sessions[author->node][audience->node].broken;
    uint64_t other = audit->sessions[audience->node][author->node].broken;
    uint64_t missing = 0, silent = 0;
    uint32_t first = 0;
    broken = broken > other ? broken : other;
    uint32_t begin = author->keeps != 0 ? check_kept(audit, index, author, broken) : 0;
    for (uint32_t number = begin; number < author->count; number++) {
        const struct pdi_audit_put *put = &author->puts[number];
        if (!is_owed(audience, author, put))
            continue;
        audit->owed++;
        if ((put->taken[index / 64] >> index % 64 & 1) != 0)
            continue;
        missing++;
        if (put->stamp >= broken && !audience->drops && !audience->follows &&
            !audit->lines_suffice && silent++ == 0)
            first = number;
    }
    pdi_audit_check(audit, PYDDSI_CHECK_COMPLETE, silent == 0, audience->node,
                    "subscriber %u lacks %llu samples of publisher %u of node %d, the first is "
                    "number %u of %u",
                    audience->handle, (unsigned long long)silent, author->handle, author->node,
                    first, author->count);
    uint64_t lines = missing == 0 ? 0 : written(audit, author, audience);
    pdi_audit_check(audit, PYDDSI_CHECK_COMPLETE, missing - silent <= lines, audience->node,
                    "subscriber %u lacks %llu samples of publisher %u of node %d, and only %llu "
                    "are written down",
                    audience->handle, (unsigned long long)missing, author->handle, author->node,
                    (unsigned long long)lines);
    audience->excused += missing;
    audit->excused += missing;
}

void pdi_audit_complete(struct pdi_audit *audit)
{
    if (audit->broken)
        return;
    for (uint32_t i = 0; i < audit->audiences_count; i++) {
        const struct pdi_audience *audience = &audit->audiences[i];
        if (audience->forgotten || audience->partial || !audience->topic.reliable ||
            !pdi_audit_alive(audit, audience->node, audience->life))
            continue;
        for (uint32_t k = 0; k < audit->authors_count; k++) {
            const struct pdi_author *author = &audit->authors[k];
            if (author->topic.reliable && pdi_audit_alive(audit, author->node, author->life))
                check_pair(audit, i, author);
        }
    }
}

/* Whether a node has a subscriber for this author. MAYBE: only such as some publisher for one has refused. */
enum has { NONE, MAYBE, SOME };

static enum has has_audience(const struct pdi_audit *audit, int node,
                             const struct pdi_author *author)
{
    enum has has = NONE;
    for (uint32_t i = 0; i < audit->audiences_count && has != SOME; i++) {
        const struct pdi_audience *audience = &audit->audiences[i];
        if (audience->node == node && !audience->forgotten &&
            pdi_audit_alive(audit, node, audience->life) && pdi_audit_wants(audience, author, 0))
            has = audience->rejected ? MAYBE : SOME;
    }
    return has;
}

void pdi_audit_settled(struct pdi_audit *audit)
{
    for (uint32_t i = 0; i < audit->authors_count && !audit->broken; i++) {
        const struct pdi_author *author = &audit->authors[i];
        if (author->forgotten || author->unmatched_ok ||
            !pdi_audit_alive(audit, author->node, author->life))
            continue;
        for (int node = 0; node < audit->world->count; node++) {
            if (node == author->node || !pdi_world_joined(audit->world, author->node, node))
                continue;
            bool have = (author->matched >> node & 1) != 0;
            enum has want = has_audience(audit, node, author);
            pdi_audit_check(
                audit, PYDDSI_CHECK_SETTLED, want == MAYBE || have == (want == SOME), author->node,
                "publisher %u is %smatched with node %d, which has %s subscriber for it",
                author->handle, have ? "" : "not ", node, want == SOME ? "a" : "no");
        }
    }
}

void pdi_audit_memory(struct pdi_audit *audit, int node)
{
    pyddsi_stats stats;
    if (!pdi_world_runs(audit->world, node))
        return;
    pdi_node_stats(audit->world->nodes[node].node, &stats);
    pdi_audit_check(audit, PYDDSI_CHECK_MEMORY, stats.rings_used == 0, node,
                    "%llu samples are still in rings", (unsigned long long)stats.rings_used);
    pdi_audit_check(audit, PYDDSI_CHECK_MEMORY, stats.kept_bytes == 0, node,
                    "%llu bytes are still kept for readers that drop",
                    (unsigned long long)stats.kept_bytes);
    pdi_audit_check(audit, PYDDSI_CHECK_MEMORY, stats.allocated_slots == audit->nodes[node].slots,
                    node, "%llu packets are still held, %llu were at the start",
                    (unsigned long long)stats.allocated_slots,
                    (unsigned long long)audit->nodes[node].slots);
}
