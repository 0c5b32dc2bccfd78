/* registry_width.c - how wide a number may be for a peer without features, which is to say for a zhe.
 *
 * A zhe is built for ids of 8, 16, 32 or 64 bits and tells nobody which. A wider one ends its session without a word, so that it
 * begins anew, is told the same, and so on for ever. What it can read shows in what becomes of its sessions:
 *
 *     it accepted 260, or wrote 260 itself ─────────────────────────► more than 8 bits: what was suspected before is forgotten
 *     it began anew while it owed an answer about 260,
 *     and it had accepted nothing above 255 ──► counted for 8 bits;
 *                                               twice in a row ─────► 8 bits: what is wider is refused on its behalf
 *
 * (Numbers as on the wire: 260 is resource 130.) Peers begin anew for other reasons, too, hence twice. The counts outlive the session,
 * in the slot of the peer, until another peer needs the slot; so a wrong guess holds no longer than that, nor than the first wide
 * number of the peer's own. Wide numbers are told as they are until then: a zhe of 16 bits or more goes without nothing.
 */
#include "proto/registry_state.h"

enum { ENDS_MAX = 2 };

static const uint64_t WIDTHS[PDI_REGISTRY_WIDTHS] = {UINT8_MAX, UINT16_MAX, UINT32_MAX};

uint64_t pdi_registry_id_most(const struct pdi_registry *registry, uint32_t peer)
{
    for (uint32_t i = 0; i < PDI_REGISTRY_WIDTHS; i++) {
        if (registry->peers[peer].widths.ends[i] >= ENDS_MAX)
            return WIDTHS[i];
    }
    return UINT64_MAX;
}

void pdi_width_read(struct pdi_registry *registry, uint32_t peer, uint64_t id)
{
    for (uint32_t i = 0; i < PDI_REGISTRY_WIDTHS && id > WIDTHS[i]; i++)
        registry->peers[peer].widths.ends[i] = 0;
}

struct pdi_widths pdi_width_recall(struct pdi_registry *registry, pyddsi_bytes id)
{
    for (uint32_t i = 0; i < registry->peers_max && id.size > 0; i++) {
        struct pdi_registry_peer *old = &registry->peers[i];
        if (old->joined || old->id_size != id.size || memcmp(old->id, id.data, id.size) != 0)
            continue;
        old->id_size = 0; /* the slot that it has now goes on counting */
        return old->widths;
    }
    return (struct pdi_widths){{0}};
}

void pdi_registry_broke(struct pdi_registry *registry, uint32_t peer)
{
    struct pdi_registry_peer *ends = &registry->peers[peer];
    uint64_t read = 0, asked = 0;
    if (!ends->joined || ends->features != 0)
        return;
    for (uint32_t at = registry->all.first; at != PDI_CHAIN_END;
         at = pdi_chain_next(&registry->lane_all, at)) {
        uint8_t said = *pdi_said(registry, peer, at);
        uint64_t id = registry->locals[at].id;
        if (said == PDI_SAID_OK)
            read = id > read ? id : read;
        else if (said == PDI_SAID_SENT || said == PDI_SAID_DYING)
            asked = id > asked ? id : asked;
    }
    uint32_t i = PDI_REGISTRY_WIDTHS; /* the widest one that this can have been too much for */
    while (i > 0 && WIDTHS[i - 1] >= asked)
        i--;
    if (i > 0 && WIDTHS[i - 1] >= read && ends->widths.ends[i - 1] < ENDS_MAX)
        ends->widths.ends[i - 1]++;
}
