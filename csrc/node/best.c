/* best.c - best effort: packets being filled.
 *
 *     put ─► draft ─ full, or old enough ─► sealed ─► output
 *
 * A draft is a packet that messages are written into as they come; it goes when it is full or when the latency budget of
 * its first message is over. While a sealed one waits for the driver another can be filled, and no more: best effort
 * waits for nobody, and what finds no room is dropped with a line in the ledger.
 *
 * A sample too large for a packet lies in the scratch window, which sends nothing by itself, and leaves it fragment by
 * fragment.
 */
#include "node/state.h"

static void seal(struct pdi_node *node, struct pdi_conduit *conduit)
{
    uint8_t *other = conduit->sealed;
    conduit->sealed = conduit->draft;
    conduit->sealed_size = conduit->draft_size;
    conduit->sealed_samples = conduit->draft_samples;
    conduit->sealed_more = conduit->draft_more;
    conduit->draft = other;
    conduit->draft_size = conduit->draft_samples = 0;
    conduit->draft_more = 0;
    pdi_bitset_set(node->work, conduit->number);
}

/* One message into the draft; it goes when it is full or old enough. A draft that is full while the one before has not
 * been taken by the driver is lost: best effort waits for nobody. */
static void draft(struct pdi_node *node, struct pdi_conduit *conduit, const struct pdi_entry *model,
                  const uint8_t *bytes, pdi_time now)
{
    uint8_t *header;
    struct pdi_entry plain;
    if (conduit->features == 0) {
        plain = pdi_way_plain(node, conduit, model);
        model = &plain;
    }
    uint32_t size =
        pdi_pack_size(conduit, model, conduit->best) + (conduit->leads ? PDI_LEAD_BYTES : 0);
    if (conduit->draft_size + size > conduit->packet_max) {
        if (conduit->sealed_size != 0) {
            pdi_drop(node, PYDDSI_AT_PACKET, PYDDSI_BY_FULL, 0, 0,
                     conduit->sealed_samples + conduit->sealed_more, now);
        }
        seal(node, conduit);
    }
    uint8_t *at = conduit->draft + conduit->draft_size;
    uint64_t led = conduit->draft_size != 0 ? conduit->draft_led : PDI_LED_NONE;
    if (pdi_lead_due(conduit, conduit->best, led)) {
        conduit->draft_led = pdi_lead_of(conduit, conduit->best);
        at = pdi_lead_write(conduit, conduit->best, at);
    }
    conduit->draft_size =
        (uint32_t)(pdi_pack_entry(node, conduit, model, bytes, conduit->best, at, &header) -
                   conduit->draft);
    conduit->best++;
    conduit->draft_samples++;
    conduit->draft_more += pdi_pack_samples(model, bytes) - 1;
    if (conduit->draft_samples == 1) {
        conduit->draft_at = pdi_time_add(now, node->config.latency_us * PDI_TIME_US);
    }
    if ((node->config.latency_us == 0 || conduit->draft_size + size > conduit->packet_max) &&
        conduit->sealed_size == 0) {
        seal(node, conduit);
    } else if (conduit->draft_at <
               pdi_heap_get(&node->timers, pdi_timer_conduit(node, conduit->number))) {
        pdi_timer_set(node, pdi_timer_conduit(node, conduit->number), conduit->draft_at);
    }
}

/* Fragments of best effort leave one by one from where the sample lies, a window that sends nothing by itself. */
static void big_draft(struct pdi_node *node, struct pdi_conduit *conduit,
                      const struct pdi_entry *model, pyddsi_bytes payload, uint32_t piece,
                      pdi_time now)
{
    struct pdi_loan loan;
    if (conduit->big_left != 0 || payload.size > node->scratch.size ||
        pdi_window_reserve(&node->scratch, (uint32_t)payload.size, 1, &loan) != PYDDSI_OK) {
        pdi_drop(node, PYDDSI_AT_PACKET, PYDDSI_BY_FULL, model->space, model->id, 1, now);
        return;
    }
    if (conduit->draft_size != 0 && conduit->sealed_size == 0) {
        seal(node, conduit);
    }
    memcpy(pdi_window_data(&node->scratch, &loan), payload.data, payload.size);
    conduit->big = *model;
    conduit->big.fragment = 1;
    conduit->big.fragments = pdi_publish_pieces(payload.size, piece);
    conduit->big_loan = loan;
    conduit->big_piece = piece;
    conduit->big_left = (uint32_t)payload.size;
    pdi_bitset_set(node->work, conduit->number);
}

void pdi_best_put(struct pdi_node *node, const struct pdi_way *way, const struct pdi_entry *model,
                  pyddsi_bytes payload, uint32_t piece, pdi_time now)
{
    struct pdi_entry entry = *model;
    entry.size = (uint32_t)payload.size;
    struct pdi_conduit *conduit = way->group;
    uint32_t peer = pdi_way_next(node, way, 0);
    while (conduit != NULL || peer < node->peers_used) { /* the group, then each single */
        if (conduit == NULL) {
            conduit = pdi_node_unicast(node, peer);
            peer = pdi_way_next(node, way, peer + 1);
        }
        if (piece != 0) {
            big_draft(node, conduit, &entry, payload, piece, now);
        } else {
            draft(node, conduit, &entry, payload.data, now);
        }
        conduit = NULL;
    }
    node->stats.sent_best++;
}

/* The next fragment of a large sample into `out`; answers its size. */
size_t pdi_best_piece(struct pdi_node *node, struct pdi_conduit *conduit, uint8_t *out, size_t room)
{
    struct pdi_entry *entry = &conduit->big;
    uint8_t *header;
    uint32_t whole = conduit->big_loan.size;
    uint32_t done = whole - conduit->big_left;
    if (done == 0) {
        entry->first = conduit->best;
    }
    entry->size = conduit->big_left < conduit->big_piece ? conduit->big_left : conduit->big_piece;
    uint32_t lead = conduit->leads ? PDI_LEAD_BYTES : 0;
    if (pdi_pack_size(conduit, entry, conduit->best) + lead > room) {
        entry->size = 0;
        conduit->big_left = 0; /* the driver's memory is smaller than it said */
        pdi_drop(node, PYDDSI_AT_PACKET, PYDDSI_BY_SIZE, entry->space, entry->id, 1, node->now);
    }
    const uint8_t *bytes = pdi_window_data(&node->scratch, &conduit->big_loan) + done;
    uint8_t *end = out;
    if (entry->size != 0) {
        end = pdi_lead_write(conduit, conduit->best, out);
        end = pdi_pack_entry(node, conduit, entry, bytes, conduit->best, end, &header);
    }
    conduit->big_left -= entry->size;
    conduit->best += entry->size != 0;
    if (conduit->big_left == 0) {
        pdi_window_abandon(&node->scratch, &conduit->big_loan);
    }
    node->stats.messages_out++;
    return (size_t)(end - out);
}
