/* keep.c - the memory in which samples wait for readers that drop.
 *
 * A reader that waits holds what it has not taken where it came: the slot of its packet, the assembler, a lane. That holds
 * up whoever needs the memory next, which is what such a reader wants. A reader that drops (on_full) must never do so, however
 * long it does not read: so what is put into its ring is copied first, into memory that belongs to such readers alone.
 *
 *     run of pages:  │ pages of the run │ name, if it has one │ bytes │      held = both bits | first page
 *
 * A copy has one owner: the ring, then the application that took it. When memory is short, a ring gives its oldest for the new
 * one, or drops that, as it does when it is full.
 *
 * How much one may have. A ring takes no more than is left free, but for its first sample: so one alone takes half of the memory,
 * two a third each, and there is room for a newcomer however large the others are.
 *
 * Bounds: for one sample a ring gives up at most all it has.
 */
#include "node/state.h"

#define HEAD 8U /* so samples begin at multiples of 8 */
#define KEPT (PDI_SERIES_BIT | PDI_ENV_HELD)

static uint32_t *head_of(const struct pdi_node *node, uint32_t held)
{
    return (void *)(node->keep_memory + (size_t)(held & ~KEPT) * PDI_KEEP_PAGE);
}

bool pdi_keep_has(uint32_t held)
{
    return (held & KEPT) == KEPT;
}

uint32_t pdi_keep_pages(const struct pdi_node *node, uint32_t held)
{
    return pdi_keep_has(held) ? *head_of(node, held) : 0;
}

void pdi_keep_release(struct pdi_node *node, uint32_t held)
{
    pdi_pages_put(&node->keep_pages, held & ~KEPT, *head_of(node, held));
}

/* Pages for this ring, which may give up its oldest samples for them; PDI_PAGES_NONE: it may not have so many. */
static uint32_t find(struct pdi_node *node, struct pdi_subscriber *reader, uint32_t pages,
                     pdi_time now)
{
    for (;;) { /* each round frees some of what the ring has, or is the last */
        bool fair = reader->kept == 0 || reader->kept + pages <= node->keep_pages.free;
        uint32_t first = fair ? pdi_pages_get(&node->keep_pages, pages) : PDI_PAGES_NONE;
        if (first != PDI_PAGES_NONE || reader->kept == 0 || reader->on_full != PYDDSI_DROP_OLDEST) {
            return first;
        }
        if (!pdi_ring_shed(node, reader, now)) {
            return PDI_PAGES_NONE;
        }
    }
}

bool pdi_keep(struct pdi_node *node, struct pdi_subscriber *reader, pyddsi_received *record,
              pdi_time now)
{
    size_t name = record->name_size;
    size_t front = HEAD + (name + 7) / 8 * 8;
    size_t pages = (front + record->size + PDI_KEEP_PAGE - 1) / PDI_KEEP_PAGE;
    uint32_t first =
        pages <= node->keep_pages.pages ? find(node, reader, (uint32_t)pages, now) : PDI_PAGES_NONE;
    if (first == PDI_PAGES_NONE) {
        return false;
    }
    uint8_t *run = node->keep_memory + (size_t)first * PDI_KEEP_PAGE;
    if (name != 0) {
        memcpy(run + front - name, record->data - record->name_gap - name, name);
    }
    if (record->size != 0) {
        memcpy(run + front, record->data, record->size);
    }
    record->data = run + front;
    record->name_gap = 0;
    record->held = KEPT | first;
    *head_of(node, record->held) = (uint32_t)pages;
    reader->kept += (uint32_t)pages;
    return true;
}
