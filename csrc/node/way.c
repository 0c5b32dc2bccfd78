/* way.c - by which windows a sample goes, and whether they have room for it.
 *
 *     plan ─► usual      everybody who is matched
 *          ├► wanted     those of them whose selections this sample fits
 *          └► of a size  those who can read a message of that size: a group with one who cannot becomes single copies
 *
 * To ask for several samples at once, what each needs is promised to its windows, and each window is asked once for
 * what was promised there.
 */
#include "node/state.h"

/* ---- sizes ---- */

/* Of the leads that may stand before a message. */
static uint32_t lead_max(const struct pdi_node *node)
{
    return (node->config.features & PYDDSI_CAN_WIDE) != 0 ? PDI_LEAD_BYTES : 0;
}

/* Bytes of header that a message like the model needs at most. */
uint32_t pdi_way_overhead(const struct pdi_node *node, const struct pdi_entry *model, bool fragment)
{
    uint32_t sn = ((uint32_t)node->config.seq_bits + 6) / 7;
    uint32_t size = 3 + 1 + sn + lead_max(node) + (model->space > 4 ? 3 : model->space != 0);
    size +=
        model->kind == PYDDSI_SDATA || model->kind == PYDDSI_BDATA ? pdi_vle_size(model->id) : 0;
    size += (model->flags & PYDDSI_A) != 0 ? pdi_vle_size(model->data_id) : 0;
    size += model->kind == PYDDSI_SDATA ? 3 : 0;
    size += model->mark == PDI_MARK_MIGRATE ? PDI_MOVE_BYTES : 0;
    return size + (fragment ? 1 + sn + 5 : 0);
}

/* The size of each fragment, if the message must be cut; 0 if it fits one packet. */
uint32_t pdi_way_piece(const struct pdi_node *node, const struct pdi_entry *model, size_t size)
{
    if (size + pdi_way_overhead(node, model, false) <= node->config.packet_max) {
        return 0;
    }
    return node->config.packet_max - pdi_way_overhead(node, model, true);
}

uint32_t pdi_publish_pieces(size_t size, uint32_t piece)
{
    return piece == 0 ? 1 : (uint32_t)((size + piece - 1) / piece);
}

/* A message as it goes where a peer without features hears it: with a number that it takes, and nothing that it kills. */
struct pdi_entry pdi_way_plain(const struct pdi_node *node, const struct pdi_conduit *conduit,
                               const struct pdi_entry *model)
{
    struct pdi_entry plain = *model;
    if (model->kind != PYDDSI_SDATA || model->space != 0) {
        return plain;
    }
    if ((plain.flags & PYDDSI_A) != 0) { /* the reason may be a selection, and zhe has none */
        plain.flags &= (uint8_t)~PYDDSI_A;
        plain.id = plain.data_id;
        plain.data_id = 0;
    }
    plain.id =
        pdi_registry_told_id(node->registry, plain.space, plain.id, conduit->peer == PDI_NONE);
    return plain;
}

/* ---- destinations ---- */

/* What this message needs of its receivers beyond the basic protocol. */
static uint32_t needs(const struct pdi_entry *model, uint32_t piece)
{
    return (piece != 0 ? PYDDSI_CAN_FRAGMENT : 0U) | (model->space != 0 ? PYDDSI_CAN_SPACE : 0U) |
           (model->kind == PYDDSI_BDATA ? PYDDSI_CAN_BATCH : 0U);
}

void pdi_way_lack(const struct pdi_node *node, struct pdi_way *way, uint32_t peer)
{
    if (way->lacking++ == 0) {
        memset(way->lacking_bits, 0, PDI_BITSET_WORDS(node->config.peers_max) * sizeof(uint64_t));
    }
    pdi_bitset_set(way->lacking_bits, peer);
}

/* Only peers that can read it get it: a group with one that cannot becomes single copies, and a single one that cannot
 * goes without. */
static void fit(const struct pdi_node *node, const struct pdi_publisher *publisher,
                struct pdi_way *way, uint32_t needed, size_t bytes, bool wide)
{
    uint32_t words = PDI_BITSET_WORDS(node->config.peers_max);
    if (way->singles != way->bits) {
        memcpy(way->bits, way->singles, words * sizeof(uint64_t));
        way->singles = way->bits;
    }
    bool fits = way->group == NULL || (!wide && (way->group->features & needed) == needed &&
                                       bytes <= way->group->packet_max);
    for (uint32_t peer = 0; peer < node->peers_used; peer++) {
        bool grouped = way->group != NULL && pdi_bitset_test(publisher->pushed, peer) &&
                       pdi_node_member(node, way->group, peer)->joined;
        if (grouped && !fits) {
            pdi_bitset_set(way->bits, peer);
        }
        if (pdi_bitset_test(way->bits, peer) &&
            ((node->peers[peer].features & needed) != needed ||
             bytes > pdi_node_unicast(node, peer)->packet_max)) {
            pdi_bitset_clear(way->bits, peer);
            pdi_way_lack(node, way, peer);
        }
    }
    way->group = fits ? way->group : NULL;
    way->count = pdi_bitset_count(way->bits, node->config.peers_max);
}

/* The bytes of header where it is sent without a move. */
static uint32_t plain_overhead(const struct pdi_node *node, const struct pdi_entry *model)
{
    struct pdi_entry plain = *model;
    plain.mark = 0;
    return pdi_way_overhead(node, &plain, false);
}

bool pdi_way_wide(const struct pdi_node *node, uint8_t space, uint64_t id)
{
    return node->id_most != UINT64_MAX &&
           pdi_registry_told_id(node->registry, space, id, true) > node->id_most;
}

void pdi_way_fit(const struct pdi_node *node, const struct pdi_publisher *publisher,
                 const struct pdi_entry *model, size_t size, uint32_t piece, struct pdi_way *way)
{
    uint32_t needed = needs(model, piece);
    size_t bytes = 0;
    way->lacking = 0;
    if (node->narrow != 0) { /* somebody takes small packets alone */
        bytes = piece != 0 ? node->config.packet_max : size + plain_overhead(node, model);
    }
    bool wide = way->group != NULL && pdi_way_wide(node, publisher->space, publisher->id);
    if (needed != 0 || bytes > PDI_STREAM_PACKET_ZHE || wide) {
        fit(node, publisher, way, needed, bytes, wide);
    }
}

void pdi_way_list(struct pdi_node *node, const struct pdi_way *way, struct pdi_publisher *publisher,
                  enum pyddsi_place place, const struct pdi_entry *model, uint64_t size,
                  pdi_time now)
{
    bool by_size = model->space == 0;
    uint32_t peer = pdi_bitset_find(way->lacking_bits, node->peers_used, 0);
    pdi_drop(node, place, by_size ? PYDDSI_BY_SIZE : PYDDSI_BY_UNSUPPORTED, model->space,
             publisher != NULL ? publisher->id : 0, way->lacking, now);
    pyddsi_drop *line = node->ledger.last;
    for (; by_size && peer < node->peers_used;
         peer = pdi_bitset_find(way->lacking_bits, node->peers_used, peer + 1)) {
        const struct pdi_node_peer *who = &node->peers[peer];
        line->size = size;
        const struct pdi_conduit *conduit = pdi_node_unicast(node, peer);
        line->size_max = (conduit->features & PYDDSI_CAN_FRAGMENT) != 0
                             ? conduit->window.size
                             : conduit->packet_max - plain_overhead(node, model);
        line->id_size = who->id_size;
        memcpy(line->id, who->id, sizeof line->id);
        if (publisher != NULL && !publisher->told_large) {
            pyddsi_event *event = pdi_event_push(node, PYDDSI_TOO_LARGE, now);
            pdi_event_peer(node, event, peer);
            event->handle = publisher->handle;
            event->resource = publisher->id;
            event->first = size;
            event->last = line->size_max;
        }
    }
    if (publisher != NULL) {
        publisher->told_large = by_size;
    }
}

bool pdi_way_wanted(const struct pdi_node *node, const struct pdi_publisher *publisher,
                    pyddsi_bytes payload, struct pdi_way *way)
{
    way->group = publisher->multicast ? &node->out[publisher->conduit] : NULL;
    way->singles = publisher->singles_bits;
    way->count = publisher->singles;
    if (!publisher->filters) {
        return way->group != NULL || way->count != 0;
    }
    uint64_t wanting[PDI_BITSET_WORDS(PYDDSI_PEERS_MAX)];
    if (!pdi_plan_filter(node, publisher, payload, wanting)) {
        return false;
    }
    bool grouped = false;
    way->singles = way->bits;
    for (uint32_t i = 0; i < PDI_BITSET_WORDS(node->config.peers_max); i++) {
        way->bits[i] = publisher->singles_bits[i] & wanting[i];
        grouped = grouped || (publisher->pushed[i] & ~publisher->singles_bits[i] & wanting[i]) != 0;
    }
    way->group = grouped ? way->group : NULL;
    way->count = pdi_bitset_count(way->bits, node->config.peers_max);
    return way->group != NULL || way->count != 0;
}

uint32_t pdi_way_next(const struct pdi_node *node, const struct pdi_way *way, uint32_t from)
{
    return way->count == 0 ? node->peers_used
                           : pdi_bitset_find(way->singles, node->peers_used, from);
}

struct pdi_way pdi_way_usual(const struct pdi_node *node, const struct pdi_publisher *publisher)
{
    return (struct pdi_way){.group = publisher->multicast ? &node->out[publisher->conduit] : NULL,
                            .singles = publisher->singles_bits,
                            .count = publisher->singles};
}

/* ---- room ---- */

static void promise(struct pdi_conduit *conduit, uint64_t bytes, uint32_t numbers, uint32_t samples)
{
    conduit->promised = samples == 0 ? 0 : conduit->promised + bytes * samples;
    conduit->promised_numbers = samples == 0 ? 0 : conduit->promised_numbers + numbers * samples;
}

void pdi_way_promise(struct pdi_node *node, const struct pdi_way *way, uint64_t bytes,
                     uint32_t numbers, uint32_t samples)
{
    if (way->group != NULL) {
        promise(way->group, bytes, numbers, samples);
    }
    for (uint32_t peer = pdi_way_next(node, way, 0); peer < node->peers_used;
         peer = pdi_way_next(node, way, peer + 1)) {
        promise(pdi_node_unicast(node, peer), bytes, numbers, samples);
    }
}

static int room(struct pdi_node *node, struct pdi_conduit *conduit)
{
    return conduit->promised > conduit->window.size
               ? PYDDSI_BAD_ARGUMENT
               : pdi_reliable_room(node, conduit, (uint32_t)conduit->promised,
                                   conduit->promised_numbers);
}

int pdi_way_room(struct pdi_node *node, const struct pdi_way *way)
{
    int status = way->group != NULL ? room(node, way->group) : PYDDSI_OK;
    for (uint32_t peer = pdi_way_next(node, way, 0); peer < node->peers_used;
         peer = pdi_way_next(node, way, peer + 1)) {
        int answer = room(node, pdi_node_unicast(node, peer));
        status = status == PYDDSI_OK || answer == PYDDSI_AGAIN ? answer : status;
    }
    return status;
}
