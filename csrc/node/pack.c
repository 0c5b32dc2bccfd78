/* pack.c - one entry of a window as it stands in a packet.
 *
 * The window holds payloads, its index says what they are; headers are written here, each time the message goes out. So
 * a repetition is the same bytes as the first time (but for S), and the memory of the window holds nothing twice.
 *
 *     [CONDUIT] [MIGRATE [CONDUIT]] [FRAG] [RSPACE]  header  sn  [id [data id]]  [length]  bytes
 *
 * Written by hand and not through the table of the wire room, because every sample passes here; tests hold the bytes
 * against the decoder.
 */
#include "node/state.h"

static uint8_t *put(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static bool has_id(const struct pdi_entry *entry)
{
    return entry->kind == PYDDSI_SDATA || entry->kind == PYDDSI_BDATA;
}

uint8_t *pdi_pack_conduit(uint8_t *at, uint32_t id)
{
    if (id == 0) {
        return at;
    }
    if (id <= 4) {
        *at++ = (uint8_t)(PYDDSI_CONDUIT | PYDDSI_Z | (id - 1) << 5);
        return at;
    }
    *at++ = PYDDSI_CONDUIT;
    return put(at, id);
}

/* How many samples a message carries: a batch begins with its count. */
uint64_t pdi_pack_samples(const struct pdi_entry *entry, const uint8_t *bytes)
{
    struct pdi_reader reader = {bytes, bytes + entry->size};
    uint64_t count = 1;
    if (entry->kind == PYDDSI_BDATA) {
        (void)pdi_vle_get(&reader, UINT16_MAX, PDI_VLE_MAX, &count);
    }
    return count;
}

/* The bytes of the packet that an entry needs. */
uint32_t pdi_pack_size(const struct pdi_conduit *conduit, const struct pdi_entry *entry,
                       uint64_t number)
{
    uint32_t size = 1 + pdi_vle_size(number & conduit->seq.mask) + entry->size;
    if (conduit->id != 0) {
        size += conduit->id <= 4 ? 1 : 1 + pdi_vle_size(conduit->id);
    }
    if (has_id(entry)) {
        size += pdi_vle_size(entry->id);
        size += (entry->flags & PYDDSI_A) != 0 ? pdi_vle_size(entry->data_id) : 0;
    }
    if (entry->kind == PYDDSI_SDATA) {
        size += pdi_vle_size(entry->size);
    }
    if (entry->fragment) {
        size += 1 + pdi_vle_size(entry->first & conduit->seq.mask);
        size += entry->fragments != 0 ? pdi_vle_size(entry->fragments) : 0;
    }
    if (entry->space != 0) {
        size += entry->space <= 4 ? 1 : 1 + pdi_vle_size(entry->space);
    }
    if ((entry->mark & PDI_MARK_MIGRATE) != 0) {
        size += PDI_MOVE_BYTES;
    }
    return size;
}

/* The move that goes before this entry. */
static const struct pdi_move *move_of(const struct pdi_node *node,
                                      const struct pdi_conduit *conduit, uint64_t number)
{
    for (uint32_t i = 0; i < PDI_MOVES_MAX; i++) {
        const struct pdi_move *move = &node->moves[i];
        if (move->used && move->on == conduit->number && move->number == number) {
            return move;
        }
    }
    return NULL;
}

static uint8_t *put_space(uint8_t *at, unsigned space)
{
    if (space == 0) {
        return at;
    }
    if (space <= 4) {
        *at++ = (uint8_t)(PYDDSI_RSPACE | PYDDSI_Z | (space - 1) << 5);
        return at;
    }
    *at++ = PYDDSI_RSPACE;
    return put(at, space);
}

static uint8_t *put_move(const struct pdi_conduit *conduit, const struct pdi_move *move,
                         unsigned space, uint8_t *at)
{
    uint64_t mask = conduit->leads ? (UINT64_C(1) << PDI_WIDE_BITS) - 1 : conduit->seq.mask;
    at = put_space(pdi_pack_conduit(at, conduit->id), space);
    *at++ = PYDDSI_MIGRATE | PYDDSI_I;
    at = put(at, move->left);
    at = put(at, move->id);
    at = put(at, move->last_reliable & mask);
    return put(at, move->last_best & mask);
}

/* Writes an entry at `at`, where pdi_pack_size bytes must be; answers where it ends. *header is the byte for the flag S. */
uint8_t *pdi_pack_entry(const struct pdi_node *node, const struct pdi_conduit *conduit,
                        const struct pdi_entry *entry, const uint8_t *bytes, uint64_t number,
                        uint8_t *at, uint8_t **header)
{
    if ((entry->mark & PDI_MARK_MIGRATE) != 0) {
        const struct pdi_move *move = move_of(node, conduit, number);
        at = move != NULL ? put_move(conduit, move, entry->space, at) : at;
    }
    at = pdi_pack_conduit(at, conduit->id);
    if (entry->fragment) {
        *at++ = (uint8_t)(PYDDSI_FRAG | (entry->fragments != 0 ? PYDDSI_N : 0));
        at = put(at, entry->first & conduit->seq.mask);
        if (entry->fragments != 0) {
            at = put(at, entry->fragments);
        }
    }
    at = put_space(at, entry->space);
    *header = at;
    *at++ = (uint8_t)(entry->kind | entry->flags);
    at = put(at, number & conduit->seq.mask);
    if (has_id(entry)) {
        at = put(at, entry->id);
        if ((entry->flags & PYDDSI_A) != 0) {
            at = put(at, entry->data_id);
        }
    }
    if (entry->kind == PYDDSI_SDATA) {
        at = put(at, entry->size);
    }
    if (entry->size != 0) {
        memcpy(at, bytes, entry->size);
    }
    return at + entry->size;
}
