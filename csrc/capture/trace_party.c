/* trace_party.c - what parties tell of themselves: who they are, what they can do, where they listen.
 *
 * An id that was known elsewhere has moved: its sessions end there, and go on here if they are opened again. Another id at the
 * same place is another process, so its counters begin anew; that is counted as a life.
 */
#include "base/bytes.h"
#include "base/endpoint.h"
#include "capture/trace_inside.h"

struct pdi_event *pdi_party_event(struct pdi_trace *trace, unsigned type,
                                  const struct pdi_trace_packet *packet)
{
    struct pdi_event *event = pdi_trace_event(trace, type, packet->time_ns);
    event->peer = trace->parties[packet->source].ep;
    return event;
}

/* ---- ids ---- */

static uint64_t id_key(const struct pdi_trace *trace, const uint8_t *id, size_t size)
{
    uint64_t key = pdi_mix(trace->id_of.seed[0], size);
    for (size_t i = 0; i < size; i++) { /* 16 */
        key = pdi_mix(key, id[i]);
    }
    return key;
}

static void id_in(struct pdi_trace *trace, uint32_t index)
{
    struct pdi_party *party = &trace->parties[index];
    uint64_t key = id_key(trace, party->id, party->id_size), first;
    party->same = pdi_map_get(&trace->id_of, key, &first) ? (uint32_t)first : PDI_NONE32;
    (void)pdi_map_put(&trace->id_of, key, index);
}

static void id_out(struct pdi_trace *trace, uint32_t index)
{
    const struct pdi_party *party = &trace->parties[index];
    uint64_t key = id_key(trace, party->id, party->id_size), first;
    if (!pdi_map_get(&trace->id_of, key, &first)) {
        return;
    }
    uint32_t *at = NULL, i = (uint32_t)first;
    while (i != PDI_NONE32 && i != index) { /* those of this id */
        at = &trace->parties[i].same;
        i = *at;
    }
    if (i == index && at != NULL) {
        *at = party->same;
    } else if (i == index && party->same != PDI_NONE32) {
        (void)pdi_map_put(&trace->id_of, key, party->same);
    } else if (i == index) {
        (void)pdi_map_remove(&trace->id_of, key);
    }
}

void pdi_ids_again(struct pdi_trace *trace)
{
    memset(trace->id_of.used, 0,
           PDI_BITSET_WORDS((size_t)trace->id_of.mask + 1) * sizeof *trace->id_of.used);
    trace->id_of.count = 0;
    for (uint32_t i = 0; i < trace->party_slots.fresh; i++) {
        if (trace->parties[i].used && trace->parties[i].id_size != 0) {
            id_in(trace, i);
        }
    }
}

/* A known peer that is heard at another place has moved: its sessions go on there. */
static void moved(struct pdi_trace *trace, const struct pdi_trace_packet *packet)
{
    const struct pdi_party *party = &trace->parties[packet->source];
    for (uint32_t i = party->same; i != PDI_NONE32; i = trace->parties[i].same) { /* of this id */
        const struct pdi_party *other = &trace->parties[i];
        if (other->id_size != party->id_size || memcmp(other->id, party->id, party->id_size) != 0) {
            continue;
        }
        bool any = false;
        for (uint32_t s = other->sessions; s != PDI_NONE32;) { /* its sessions */
            uint32_t next = trace->sessions[s].next[pdi_seen_side(&trace->sessions[s], i)];
            if (trace->sessions[s].state == PDI_SESSION_OPEN) {
                pdi_seen_end(trace, s, PDI_END_MOVED, packet->time_ns);
                any = true;
            }
            s = next;
        }
        if (any) {
            struct pdi_event *event = pdi_party_event(trace, PDI_EVENT_MOVED, packet);
            pdi_event_say(event, "from port #", other->at.port);
        }
    }
}

/* Who a party says it is. */
void pdi_party_named(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                     pyddsi_bytes id)
{
    struct pdi_party *party = &trace->parties[packet->source];
    if (id.size == 0 || id.size > sizeof party->id) {
        return;
    }
    if (party->id_size == id.size && memcmp(party->id, id.data, id.size) == 0) {
        return;
    }
    if (party->id_size != 0) {
        id_out(trace, packet->source);
        party->lives++;
        for (uint32_t i = party->flows; i != PDI_NONE32; i = trace->flows[i].next) {
            trace->flows[i].synched = 0; /* a party has a few */
        }
    }
    party->id_size = (uint8_t)id.size;
    memcpy(party->id, id.data, id.size);
    id_in(trace, packet->source);
    moved(trace, packet);
}

/* How long a party's numbers are from here on. */
static void bits_are(struct pdi_trace *trace, uint32_t index, uint8_t bits)
{
    struct pdi_party *party = &trace->parties[index];
    if (trace->seq_bits != 0 || party->group) {
        return; /* whoever looks has said it */
    }
    party->seq_bits = bits;
    for (uint32_t i = party->flows; i != PDI_NONE32; i = trace->flows[i].next) {
        trace->flows[i].seq_bits = bits; /* a party has a few */
    }
}

/* The length of numbers that a property says; 0: it says nothing. */
static uint8_t bits_of(pyddsi_bytes said)
{
    struct pdi_reader reader = {said.data, said.data + said.size};
    uint64_t bits = 0;
    enum pdi_vle how = pdi_vle_get(&reader, UINT64_MAX, PDI_VLE_MAX, &bits);
    return (how == PDI_VLE_OK || how == PDI_VLE_LONG_FORM) && reader.at == reader.end &&
                   bits >= PDI_SEQ_BITS_MIN && bits <= PDI_SEQ_BITS_MAX
               ? (uint8_t)bits
               : 0;
}

/* What a party can do, and how long its numbers are: who opens says it, and who accepts agrees. */
void pdi_party_properties(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                          const pyddsi_message *message)
{
    struct pdi_party *party = &trace->parties[packet->source];
    const struct pdi_party *other = &trace->parties[packet->target];
    pyddsi_list list = message->properties;
    pyddsi_property property;
    uint8_t bits = 14;
    bool said = false;
    party->told = 1;
    party->extended = 0;
    for (size_t i = 0; (message->flags & PYDDSI_P) != 0 && i < message->properties.count; i++) {
        if (pdi_list_property(&list, &property) != PYDDSI_OK) {
            break;
        }
        if (property.id == 1) {
            party->extended = 1;
        } else if (property.id == 4 && !said) {
            bits = bits_of(property.value);
            said = true;
        }
    }
    if (message->kind == PYDDSI_OPEN && bits != 0) {
        party->bits_told = 1;
        bits_are(trace, packet->source, bits);
    } else if (message->kind == PYDDSI_ACCEPT && other->bits_told) {
        bits_are(trace, packet->source, other->seq_bits);
    }
}

/* The groups that it hears are groups of ours. */
void pdi_party_locators(struct pdi_trace *trace, const pyddsi_message *message)
{
    pyddsi_list list = message->locators;
    pyddsi_locator locator;
    for (size_t i = 0; i < message->locators.count && i < 16; i++) {
        pyddsi_endpoint at;
        if (pdi_list_locator(&list, &locator) != PYDDSI_OK) {
            return;
        }
        if (pdi_endpoint_parse((const char *)locator.text.data, locator.text.size, &at) ==
                PYDDSI_OK &&
            at.port != 0) {
            struct pdi_party *group = &trace->parties[pdi_party_get(trace, &at)];
            group->speaks |= group->group;
        }
    }
}
