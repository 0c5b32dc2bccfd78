/* shelf.c - samples kept by the sender: for those who pull, who have periods, or who come late.
 *
 *     put ─► shelf of the publisher ─┬─ PULL asks            ─► answer, end mark
 *            (a list, newest last)   ├─ a period is open      ─► as if pulled without limit
 *                                    └─ a late joiner          ─► what is there (transient), then it pushes (history.c)
 *
 * A shelf holds at most shelf_max samples of one publisher. Who takes from it has a cursor, the serial of the next one
 * it has not got; what is pushed out of the shelf before a cursor reached it is dropped for that one, with a line in the
 * ledger. Who gets samples pushed as well takes from the shelf only what was there before (until), so nothing comes
 * twice. A reliable publisher waits until the shelf has been taken so far, as it waits for room in a window; best effort waits for
 * nobody, and goes by the shelf as well until then. Nothing is lost for nobody: without a cursor behind it a sample may leave
 * silently, it was not owed to anyone.
 *
 * Answers go over the unicast conduit of the peer that asked, as its room allows. The end of an answer is an SDATA whose
 * sample id is 0.
 */
#include "node/state.h"

/* Whether now lies in [origin + n * period, + duration); *next is when that changes. Times of the node count as its
 * clock's. */
bool pdi_shelf_open(uint64_t origin_ms, uint64_t period_ms, uint64_t duration_ms, pdi_time now,
                    pdi_time *next)
{
    uint64_t origin = origin_ms * PDI_TIME_MS;
    uint64_t period = (period_ms != 0 ? period_ms : 1) * PDI_TIME_MS;
    uint64_t duration = duration_ms * PDI_TIME_MS;
    if (origin_ms > PDI_TIME_NEVER / PDI_TIME_MS || period_ms > PDI_TIME_NEVER / PDI_TIME_MS / 2) {
        *next = PDI_TIME_NEVER;
        return false;
    }
    if (now < origin) {
        *next = origin;
        return false;
    }
    uint64_t phase = (now - origin) % period;
    if (duration_ms >= period_ms || phase < duration) {
        *next = duration_ms >= period_ms ? PDI_TIME_NEVER : now - phase + duration;
        return true;
    }
    *next = pdi_time_add(now - phase, period);
    return false;
}

static void free_first(struct pdi_node *node, struct pdi_publisher *publisher)
{
    uint32_t index = publisher->shelf_first;
    struct pdi_shelved *shelved = &node->shelved[index];
    pdi_pages_put(&node->shelf_pages, shelved->page, shelved->pages);
    publisher->shelf_first = shelved->next;
    publisher->shelf_last = publisher->shelf_first == PDI_NONE ? PDI_NONE : publisher->shelf_last;
    publisher->shelf_count--;
    shelved->next = node->shelved_free;
    node->shelved_free = index;
}

/* The oldest goes; those who had not got it lose it. */
static void evict(struct pdi_node *node, struct pdi_publisher *publisher, enum pyddsi_reason reason,
                  pdi_time now)
{
    uint32_t index = (uint32_t)(publisher - node->publishers);
    uint64_t serial = node->shelved[publisher->shelf_first].serial;
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (puller->used && puller->publisher == index && puller->next <= serial &&
            serial < puller->until) {
            pdi_drop(node, PYDDSI_AT_SHELF, reason, publisher->space, publisher->id, 1, now);
            puller->next = serial + 1;
        }
    }
    free_first(node, publisher);
}

void pdi_shelf_forget(struct pdi_node *node, struct pdi_publisher *publisher,
                      enum pyddsi_reason reason, pdi_time now)
{
    uint32_t index = (uint32_t)(publisher - node->publishers);
    while (publisher->shelf_first != PDI_NONE) { /* at most shelf_max */
        evict(node, publisher, reason, now);
    }
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (puller->used && puller->publisher == index) {
            node->own_waiting -= puller->kind == PDI_TAKER_OWN;
            puller->used = 0;
        }
    }
}

/* The pages that its samples take. */
static uint32_t held_by(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    uint32_t pages = 0;
    uint32_t at = publisher->shelf_first;
    for (; at != PDI_NONE; at = node->shelved[at].next) { /* at most shelf_max */
        pages += node->shelved[at].pages;
    }
    return pages;
}

/* A sample for which there could be no room leaves all others where they are. */
void pdi_shelf_put(struct pdi_node *node, struct pdi_publisher *publisher, pyddsi_bytes bytes,
                   pdi_time now)
{
    uint32_t pages = (uint32_t)((bytes.size + PDI_SHELF_PAGE - 1) / PDI_SHELF_PAGE);
    uint32_t max = publisher->shelf_max != 0 ? publisher->shelf_max : node->config.shelf_samples;
    pages = pages == 0 ? 1 : pages;
    bool fits = pages <= node->shelf_pages.free ||
                pages <= node->shelf_pages.free + held_by(node, publisher);
    while (fits && publisher->shelf_count >= max && publisher->shelf_first != PDI_NONE) {
        evict(node, publisher, PYDDSI_BY_OVERWRITTEN, now);
    }
    uint32_t page = fits ? pdi_pages_get(&node->shelf_pages, pages) : PDI_PAGES_NONE;
    while (fits && (page == PDI_PAGES_NONE || node->shelved_free == PDI_NONE) &&
           publisher->shelf_first != PDI_NONE) {
        if (page != PDI_PAGES_NONE) {
            pdi_pages_put(&node->shelf_pages, page, pages);
        }
        evict(node, publisher, PYDDSI_BY_OVERWRITTEN, now); /* at most shelf_max rounds */
        page = pdi_pages_get(&node->shelf_pages, pages);
    }
    uint32_t index = (uint32_t)(publisher - node->publishers);
    uint64_t serial = publisher->shelf_next++;
    if (page == PDI_PAGES_NONE || node->shelved_free == PDI_NONE) {
        if (page != PDI_PAGES_NONE) {
            pdi_pages_put(&node->shelf_pages, page, pages);
        }
        for (uint32_t i = 0; i < node->pullers_used; i++) {
            if (node->pullers[i].used && node->pullers[i].publisher == index &&
                serial < node->pullers[i].until) {
                pdi_drop(node, PYDDSI_AT_SHELF, PYDDSI_BY_FULL, publisher->space, publisher->id, 1,
                         now);
            }
        }
        return;
    }
    uint32_t free = node->shelved_free;
    struct pdi_shelved *shelved = &node->shelved[free];
    node->shelved_free = shelved->next;
    *shelved = (struct pdi_shelved){.serial = serial,
                                    .page = page,
                                    .pages = pages,
                                    .size = (uint32_t)bytes.size,
                                    .next = PDI_NONE};
    if (bytes.size != 0) {
        memcpy(node->shelf_memory + (size_t)page * PDI_SHELF_PAGE, bytes.data, bytes.size);
    }
    if (publisher->shelf_last != PDI_NONE) {
        node->shelved[publisher->shelf_last].next = free;
    } else {
        publisher->shelf_first = free;
    }
    publisher->shelf_last = free;
    publisher->shelf_count++;
    pdi_timer_set(node, PDI_TIMER_SHELF, now);
}

/* ---- who takes ---- */

/* The cursor for this link: for all links of a peer that asks for each of its readers there is one, which takes what was kept
 * before the first. */
static struct pdi_puller *puller_of(struct pdi_node *node, uint32_t publisher,
                                    const struct pdi_remote *remote, enum pdi_taker kind)
{
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (puller->used && puller->publisher == publisher && puller->kind == kind &&
            (kind == PDI_TAKER_PEER ? puller->peer == remote->peer
                                    : puller->serial == remote->serial)) {
            return puller;
        }
    }
    return NULL;
}

struct pdi_puller *pdi_shelf_taker(struct pdi_node *node)
{
    uint32_t index = 0;
    while (index < node->config.remotes_max && node->pullers[index].used) {
        index++;
    }
    if (index == node->config.remotes_max) { /* rather one that rests than none */
        index = 0;
        while (index < node->config.remotes_max && !node->pullers[index].rests) {
            index++;
        }
    }
    if (index == node->config.remotes_max) {
        return NULL;
    }
    node->pullers_used = index >= node->pullers_used ? index + 1 : node->pullers_used;
    return &node->pullers[index];
}

static void add_puller(struct pdi_node *node, struct pdi_publisher *publisher,
                       const struct pdi_remote *remote, enum pdi_taker kind, pdi_time now)
{
    struct pdi_puller *puller = pdi_shelf_taker(node);
    if (puller == NULL) {
        pdi_drop(node, PYDDSI_AT_SHELF, PYDDSI_BY_LIMIT, publisher->space, publisher->id, 1, now);
        return;
    }
    bool late = kind != PDI_TAKER_PULL;
    uint64_t oldest = pdi_shelf_oldest(node, publisher);
    bool history = publisher->durability != PYDDSI_VOLATILE;
    *puller = (struct pdi_puller){
        .used = 1,
        .kind = (uint8_t)kind,
        .wanting = late,
        .left = late ? publisher->shelf_next - oldest : 0,
        .mode = remote->mode,
        .space = publisher->space,
        .publisher = (uint32_t)(publisher - node->publishers),
        .peer = remote->peer,
        .serial = remote->serial,
        .id = remote->id,
        .next = history ? oldest : publisher->shelf_next,
        .until = late || remote->mode == PYDDSI_PUSH_PULL ? publisher->shelf_next : UINT64_MAX,
        .origin_ms = remote->origin_ms,
        .period_ms = remote->period_ms,
        .duration_ms = remote->duration_ms,
        .predicate = kind == PDI_TAKER_PEER ? NULL : remote->predicate,
    };
    pdi_timer_set(node, PDI_TIMER_SHELF, now);
}

/* How many samples on the shelf it was still to have; for what is not there any more, or never was, it has its lines. */
uint64_t pdi_shelf_left(const struct pdi_node *node, const struct pdi_publisher *publisher,
                        const struct pdi_puller *puller)
{
    uint64_t left = 0;
    uint32_t at = publisher->shelf_first;
    for (; at != PDI_NONE; at = node->shelved[at].next) { /* at most shelf_max */
        uint64_t serial = node->shelved[at].serial;
        left += puller->next <= serial && serial < puller->until;
    }
    return left;
}

/* Who asked by this subscription goes on being answered. */
static void keep_answers(struct pdi_node *node, uint32_t publisher, const struct pdi_remote *remote)
{
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        bool same = puller->kind == PDI_TAKER_HISTORY && puller->publisher == publisher &&
                    puller->peer == remote->peer && puller->id == remote->id;
        puller->stale = puller->stale && !same;
    }
}

/* A peer without a subscription has one again. In its session the samples go on where they ended: what was sent before may come
 * to a reader that is new there, if it is late. */
static void go_on(struct pdi_node *node, const struct pdi_publisher *publisher,
                  struct pdi_puller *puller, pdi_time now)
{
    if (puller->rests) {
        puller->rests = 0;
        puller->wanting = 1;
        puller->left = UINT64_MAX;
        puller->until = publisher->shelf_next;
        pdi_timer_set(node, PDI_TIMER_SHELF, now);
    }
}

/* After a change of the links: cursors for those who came, none for those who left. */
void pdi_shelf_links(struct pdi_node *node, struct pdi_publisher *publisher, pdi_time now)
{
    uint32_t index = (uint32_t)(publisher - node->publishers);
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        puller->stale = puller->used && puller->publisher == index && puller->kind != PDI_TAKER_OWN;
    }
    for (uint32_t link = pdi_registry_link_first(node->registry, publisher->registry);
         link != PDI_REGISTRY_NONE;
         link = pdi_registry_link_next(node->registry, link)) { /* at most remotes_max */
        const struct pdi_remote *remote = pdi_registry_link_remote(node->registry, link);
        bool pushed = remote->mode == PYDDSI_PUSH;
        bool late = pushed && publisher->durability != PYDDSI_VOLATILE;
        enum pdi_taker kind = !late                                 ? PDI_TAKER_PULL
                              : pdi_history_can(node, remote->peer) ? PDI_TAKER_PEER
                                                                    : PDI_TAKER_LINK;
        if ((pushed && !late) ||
            (kind == PDI_TAKER_PEER && !pdi_bitset_test(publisher->pushed, remote->peer))) {
            continue; /* nothing is kept, or the peer has still to hear the name */
        }
        struct pdi_puller *puller = puller_of(node, index, remote, kind);
        if (puller != NULL) {
            puller->stale = 0;
            go_on(node, publisher, puller, now);
        } else {
            add_puller(node, publisher, remote, kind, now);
        }
        keep_answers(node, index, remote);
    }
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (puller->stale && puller->kind == PDI_TAKER_PEER) {
            puller->next = puller->wanting ? puller->next : publisher->shelf_next;
            puller->rests = 1;
            puller->until = puller->next;
            puller->wanting = puller->stale = 0;
        } else if (puller->stale) {
            /* new readers that are not there any more are owed nothing */
            uint64_t left =
                puller->kind == PDI_TAKER_HISTORY ? 0 : pdi_shelf_left(node, publisher, puller);
            if (left != 0) {
                pdi_drop(node, PYDDSI_AT_SHELF, PYDDSI_BY_PEER_LOST, publisher->space,
                         publisher->id, left, now);
            }
            puller->used = puller->stale = 0;
        }
    }
}

/* Best effort: clears the bits of peers that have not yet got all that was before: the next sample reaches them by the shelf. */
void pdi_shelf_late(struct pdi_node *node, struct pdi_publisher *publisher, uint64_t *peers)
{
    uint32_t index = (uint32_t)(publisher - node->publishers);
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (puller->used && puller->publisher == index && puller->wanting &&
            (puller->kind == PDI_TAKER_LINK || puller->kind == PDI_TAKER_PEER)) {
            pdi_bitset_clear(peers, puller->peer);
            puller->until = publisher->shelf_next + 1;
            puller->left = UINT64_MAX;
        }
    }
}

/* Whoever is left out of the plan is not waited for. */
bool pdi_shelf_caught_up(struct pdi_node *node, const struct pdi_publisher *publisher, pdi_time now)
{
    uint32_t index = (uint32_t)(publisher - node->publishers);
    for (uint32_t i = 0; i < node->pullers_used; i++) {
        struct pdi_puller *puller = &node->pullers[i];
        if (!puller->used || puller->publisher != index || !puller->wanting ||
            puller->kind == PDI_TAKER_PULL) {
            continue;
        }
        bool own = puller->kind == PDI_TAKER_OWN;
        if (!own && !pdi_bitset_test(publisher->singles_bits, puller->peer)) {
            continue;
        }
        bool done = own ? pdi_history_serve_own(node, puller, now)
                    : puller->kind == PDI_TAKER_HISTORY
                        ? pdi_history_serve(node, puller->peer, puller->space, puller->id, now)
                        : pdi_shelf_serve(node, puller, now);
        if (!done) {
            return false;
        }
    }
    return true;
}
