/* lane_reader.c - the reader's half of a lane, but for the usual take and release, which are in the
 * header. */
#include "proto/lane.h"

/* ---- the place ---- */

void pdi_place_want(struct pdi_place *place, uint64_t cookie, bool drops)
{
    PDI_CHECK(pdi_place_state(place) == PDI_PLACE_FREE);
    pdi_atomic64_store_relaxed(&place->cookie, cookie);
    pdi_atomic64_store_release(&place->state, PDI_PLACE_WANTED | (drops ? PDI_PLACE_DROPS : 0));
}

void pdi_place_end(struct pdi_place *place)
{
    uint64_t word = pdi_atomic64_load_acquire(&place->state);
    for (unsigned tries = 0; tries < PDI_LANE_TRIES_MAX; tries++) {
        uint64_t state = word & PDI_PLACE_STATE;
        if ((state != PDI_PLACE_WANTED && state != PDI_PLACE_ACTIVE) ||
            pdi_atomic64_cas(&place->state, &word, PDI_PLACE_ENDED)) {
            return;
        }
    }
}

void pdi_place_clear(struct pdi_place *place)
{
    pdi_atomic64_store_release(&place->state, PDI_PLACE_FREE);
}

/* ---- coming and going ---- */

int pdi_lane_open(struct pdi_lane_reader *reader, const uint8_t *memory, size_t size,
                  uint64_t cookie, uint64_t *released, size_t words)
{
    const struct pdi_lane *lane = (const void *)memory;
    if (size < sizeof *lane || pdi_atomic32_load_acquire(&lane->magic) != PDI_LANE_MAGIC ||
        pdi_atomic32_load_relaxed(&lane->version) != PDI_LANE_VERSION ||
        pdi_atomic64_load_relaxed(&lane->cookie) != cookie) {
        return PYDDSI_BAD_INPUT;
    }
    uint32_t entries = pdi_atomic32_load_relaxed(&lane->entries);
    uint32_t bytes = pdi_atomic32_load_relaxed(&lane->bytes);
    size_t need = pdi_lane_size(entries, bytes);
    if (need == 0 || size < need) {
        return PYDDSI_BAD_INPUT;
    }
    if (words < PDI_LANE_WORDS((size_t)entries)) {
        return PYDDSI_NO_SPACE;
    }
    *reader = (struct pdi_lane_reader){.lane = lane,
                                       .entries = (const void *)(lane + 1),
                                       .entries_max = entries,
                                       .bytes_max = bytes,
                                       .released = released};
    reader->bytes = (const void *)(reader->entries + entries);
    memset(released, 0, PDI_LANE_WORDS((size_t)entries) * sizeof *released);
    return PYDDSI_OK;
}

/* Whether a position that the writer has told can be. */
static bool plausible(const struct pdi_lane_reader *reader, uint64_t position)
{
    return pdi_lane_next(reader) - position <= reader->entries_max;
}

int pdi_lane_start(struct pdi_lane_reader *reader, struct pdi_place *place)
{
    uint64_t state = pdi_atomic64_load_acquire(&place->state);
    if ((state & PDI_PLACE_STATE) != PDI_PLACE_ACTIVE) {
        return (state & PDI_PLACE_STATE) == PDI_PLACE_WANTED ? PYDDSI_AGAIN : PYDDSI_END;
    }
    uint64_t position = pdi_atomic64_load_acquire(&place->position);
    reader->drops = (state & PDI_PLACE_DROPS) != 0;
    if (!plausible(reader, position)) {
        return PYDDSI_BAD_INPUT;
    }
    reader->place = place;
    reader->base = reader->taken = position;
    reader->span = reader->drops ? 0 : reader->entries_max;
    return PYDDSI_OK;
}

int pdi_lane_quit(struct pdi_lane_reader *reader)
{
    if (reader->base != reader->taken) {
        return PYDDSI_AGAIN;
    }
    pdi_place_end(reader->place);
    return PYDDSI_OK;
}

/* ---- taking ---- */

/* Sets the mark, at the place to which the writer has moved us meanwhile. */
static int hold(struct pdi_lane_reader *reader)
{
    uint64_t position = reader->base;
    for (unsigned tries = 0; tries < PDI_LANE_TRIES_MAX; tries++) {
        if (pdi_atomic64_cas(&reader->place->position, &position, position | PDI_PLACE_HELD)) {
            if (!plausible(reader, position)) {
                return PYDDSI_BAD_INPUT;
            }
            reader->dropped += position - reader->base;
            reader->base = reader->taken = position;
            reader->span = reader->entries_max;
            return PYDDSI_OK;
        }
        if (position < reader->base) {
            return PYDDSI_BAD_INPUT; /* nobody may lead us back */
        }
    }
    return PYDDSI_AGAIN;
}

int pdi_lane_look(struct pdi_lane_reader *reader, uint64_t until)
{
    if ((int64_t)(until - reader->taken) > 0 && reader->span == 0) {
        int status = hold(reader);
        if (status != PYDDSI_OK) {
            return status;
        }
        if ((int64_t)(until - reader->taken) <= 0) {
            pdi_lane_tell(reader); /* the writer has moved us past it */
        }
    }
    if ((int64_t)(until - reader->taken) <= 0) {
        return pdi_lane_lost(reader) ? PYDDSI_END : PYDDSI_AGAIN;
    }
    return until - reader->taken <= reader->span ? PYDDSI_OK : PYDDSI_BAD_INPUT;
}

void pdi_lane_pass(struct pdi_lane_reader *reader, uint64_t count)
{
    PDI_CHECK(reader->base == reader->taken);
    reader->base += count;
    reader->taken += count;
    pdi_lane_tell(reader);
}

/* ---- releasing ---- */

void pdi_lane_release_late(struct pdi_lane_reader *reader, uint64_t number)
{
    uint32_t mask = reader->entries_max - 1;
    PDI_CHECK(number - reader->base < reader->taken - reader->base);
    PDI_CHECK(!pdi_bitset_test(reader->released, (uint32_t)number & mask));
    pdi_bitset_set(reader->released, (uint32_t)number & mask);
    reader->ahead++;
    if (number != reader->base) {
        return;
    }
    while (reader->ahead > 0 && pdi_bitset_test(reader->released, (uint32_t)reader->base & mask)) {
        pdi_bitset_clear(reader->released, (uint32_t)reader->base & mask);
        reader->base++;
        reader->ahead--;
    }
    pdi_lane_tell(reader);
}
