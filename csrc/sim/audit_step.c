/* audit_step.c - after every step of a node: what it told its application, and whether its books balance. */
#include "sim/audit.h"

#include <string.h>

#define WINDOWS_EVERY                                                                              \
    16U /* steps between two looks at all windows of a node, which costs more than the rest */

/* ---- events ---- */

static struct pdi_author *author_of(struct pdi_audit *audit, int node, uint32_t handle)
{
    for (uint32_t i = audit->authors_count; i > 0; i--) {
        struct pdi_author *author = &audit->authors[i - 1];
        if (author->node == node && author->handle == handle &&
            pdi_audit_alive(audit, node, author->life))
            return author;
    }
    return NULL;
}

/* Whether the session that began is with the present life of that node. */
static bool is_current(const struct pdi_audit *audit, int other, const pyddsi_event *event)
{
    const struct pdi_world_node *one = &audit->world->nodes[other];
    if (one->node == NULL)
        return false;
    return event->incarnation == 0 || event->incarnation == one->config.incarnation;
}

/* All that one node had with another is over. */
static void broken(struct pdi_audit *audit, int node, int other)
{
    audit->sessions[node][other].broken = ++audit->stamp;
    audit->sessions[node][other].connected = 0;
    audit->sessions[node][other].current = 0;
    for (uint32_t i = 0; i < audit->authors_count; i++) {
        struct pdi_author *author = &audit->authors[i];
        if (author->node == node && pdi_audit_alive(audit, node, author->life))
            author->matched &= ~(UINT32_C(1) << other);
    }
}

enum { TAKEN = 128 }; /* as a result says it: the publisher is for one, and has one */

static void rejected(struct pdi_audit *audit, int node, uint32_t handle)
{
    for (uint32_t i = 0; i < audit->audiences_count; i++) {
        struct pdi_audience *audience = &audit->audiences[i];
        if (audience->node == node && audience->handle == handle &&
            pdi_audit_alive(audit, node, audience->life))
            audience->rejected = 1;
    }
}

/* A node told of a match; a handle that its application does not know is a fault of the node. */
static void matched(struct pdi_audit *audit, int node, int other, const pyddsi_event *event)
{
    struct pdi_author *author = author_of(audit, node, event->handle);
    uint32_t bit = UINT32_C(1) << other;
    if (author == NULL)
        return; /* forgotten in the meantime, or declared at this very moment */
    author->matched =
        event->kind == PYDDSI_MATCHED ? author->matched | bit : author->matched & ~bit;
}

static void handle_event(struct pdi_audit *audit, int node, const pyddsi_event *event)
{
    int other = event->id_size == 0 ? -1 : pdi_world_find(audit->world, event->id, event->id_size);
    audit->stamp++;
    if (event->kind < 16)
        audit->nodes[node].events[event->kind]++;
    if (audit->on_event != NULL)
        audit->on_event(audit->context, node, event);
    if (event->kind == PYDDSI_REJECTED && event->status == TAKEN)
        rejected(audit, node, event->handle);
    if (other < 0 || other >= PDI_AUDIT_NODES_MAX || other == node)
        return;
    struct pdi_session *session = &audit->sessions[node][other];
    if (event->kind == PYDDSI_DISCONNECTED || event->kind == PYDDSI_DETACHED ||
        event->kind == PYDDSI_GAP)
        pdi_audit_check(audit, PYDDSI_CHECK_THEME, !audit->lossless, node,
                        "event %u about node %d, reason %u, though nothing has failed", event->kind,
                        other, event->reason);
    switch (event->kind) {
    case PYDDSI_CONNECTED:
    case PYDDSI_RECONNECTED:
        if (event->kind == PYDDSI_RECONNECTED)
            session->broken = audit->stamp;
        session->peer = event->peer;
        session->connected = 1;
        session->current = is_current(audit, other, event);
        break;
    case PYDDSI_DISCONNECTED:
        broken(audit, node, other);
        break;
    case PYDDSI_DETACHED:
        session->broken = audit->stamp;
        break;
    case PYDDSI_GAP:
        session->broken = audit->stamp;
        session->gaps += event->last - event->first + 1;
        break;
    case PYDDSI_MATCHED:
    case PYDDSI_UNMATCHED:
        matched(audit, node, other, event);
        break;
    default:
        break;
    }
}

/* ---- books ---- */

void pdi_audit_windows(struct pdi_audit *audit, int node, bool empty)
{
    const struct pdi_world_node *one = &audit->world->nodes[node];
    const pyddsi_stats *stats = &audit->nodes[node].stats;
    uint64_t least = 0, most = 0;
    pyddsi_window window;
    int first = -(int)one->config.peers_max, last = (int)one->config.multicasts;
    for (int conduit = first; conduit < last; conduit++) {
        if (pdi_node_window(one->node, conduit, &window) != PYDDSI_OK)
            continue;
        bool good = window.used_bytes <= window.size_bytes &&
                    window.used_samples <= window.samples_max &&
                    window.seq - window.seqbase == window.used_samples;
        pdi_audit_check(audit, PYDDSI_CHECK_BOUNDS, good, node,
                        "window %d holds %u of %u bytes, %u of %u samples, numbers %llu to %llu",
                        conduit, window.used_bytes, window.size_bytes, window.used_samples,
                        window.samples_max, (unsigned long long)window.seqbase,
                        (unsigned long long)window.seq);
        if (empty)
            pdi_audit_check(audit, PYDDSI_CHECK_LIVENESS, window.seq == window.seqbase, node,
                            "window %d still has %llu messages, of %u members", conduit,
                            (unsigned long long)(window.seq - window.seqbase), window.members);
        least += window.members == 0 ? 0 : window.seq - window.seqbase;
        most += window.members * (window.seq - window.seqbase);
    }
    uint64_t flight = stats->owed - stats->acknowledged - stats->forgiven;
    pdi_audit_check(audit, PYDDSI_CHECK_BOOKS, flight >= least && flight <= most, node,
                    "owed %llu, acknowledged %llu, forgiven %llu: %llu in flight, not %llu to %llu",
                    (unsigned long long)stats->owed, (unsigned long long)stats->acknowledged,
                    (unsigned long long)stats->forgiven, (unsigned long long)flight,
                    (unsigned long long)least, (unsigned long long)most);
}

static void check_stats(struct pdi_audit *audit, int node)
{
    const pyddsi_config *config = &audit->world->nodes[node].config;
    struct pdi_audit_node *one = &audit->nodes[node];
    pyddsi_stats *stats = &one->stats;
    pdi_node_stats(audit->world->nodes[node].node, stats);
    pdi_audit_check(audit, PYDDSI_CHECK_BOOKS, stats->acknowledged + stats->forgiven <= stats->owed,
                    node, "acknowledged %llu and forgiven %llu are more than owed %llu",
                    (unsigned long long)stats->acknowledged, (unsigned long long)stats->forgiven,
                    (unsigned long long)stats->owed);
    pdi_audit_check(audit, PYDDSI_CHECK_BOOKS, stats->taken + stats->rings_used <= stats->delivered,
                    node, "delivered %llu are less than taken %llu and waiting %llu",
                    (unsigned long long)stats->delivered, (unsigned long long)stats->taken,
                    (unsigned long long)stats->rings_used);
    bool bounded = stats->allocated_slots <= config->slots_max + 1 &&
                   stats->rings_used <= config->ring_samples &&
                   (stats->events_lost == 0 || audit->events_may_be_lost);
    pdi_audit_check(audit, PYDDSI_CHECK_BOUNDS, bounded, node,
                    "%llu slots of %u, %llu samples in rings of %u, %llu events lost",
                    (unsigned long long)stats->allocated_slots, config->slots_max,
                    (unsigned long long)stats->rings_used, config->ring_samples,
                    (unsigned long long)stats->events_lost);
}

void pdi_audit_step(struct pdi_audit *audit, int node)
{
    pyddsi_event event;
    if (!pdi_world_runs(audit->world, node) || node >= PDI_AUDIT_NODES_MAX)
        return;
    struct pdi_node *one = audit->world->nodes[node].node;
    while (pdi_node_event(one, &event) == PYDDSI_OK) {
        handle_event(audit, node, &event);
    }
    check_stats(audit, node);
    if (audit->nodes[node].steps++ % WINDOWS_EVERY == 0)
        pdi_audit_windows(audit, node, false);
}
