/* trace_name.c - resources: which number means which name, in whose mouth, and since when.
 *
 * A number is meaningful for the party that has declared it. A peer that only uses a number knows it from another one, so
 * where its own declaration is not found, the last one of anybody serves; peers that disagree do not stay together
 * (status 2, conflict).
 *
 * Declarations are taken as they pass, whether or not their transaction is accepted in the end: an onlooker who waited
 * for results would name nothing where these were not captured. Names lie in runs of small units (base/pages.h); when no
 * run is long enough, or the table is full, the older half is given up (trace_sweep.c).
 */
#include "base/endpoint.h"
#include "capture/table.h"
#include "capture/trace_inside.h"

enum { TRY_AGAIN = 4 }; /* a status: its declarer does so, and a later RESULT counts */

static uint64_t key_of(uint32_t party, uint8_t space, uint64_t rid)
{
    return pdi_mix(rid, (uint64_t)party << 8 | space);
}

/* The key under which the last declaration of anybody is found. */
static uint64_t any_key(uint8_t space, uint64_t rid)
{
    return key_of(PDI_ALL_GROUPS, space, rid);
}

static pyddsi_bytes name_of(const struct pdi_trace *trace, const struct pdi_resource *resource)
{
    if (resource->name_size == 0) {
        return (pyddsi_bytes){NULL, 0};
    }
    return (pyddsi_bytes){trace->names + (size_t)resource->name_unit * PDI_NAME_UNIT,
                          resource->name_size};
}

static uint32_t units_of(size_t size)
{
    return (uint32_t)((size + PDI_NAME_UNIT - 1) / PDI_NAME_UNIT);
}

static bool same(const struct pdi_resource *resource, uint8_t space, uint64_t rid)
{
    return resource->used && resource->space == space && resource->rid == rid;
}

static uint32_t find(const struct pdi_trace *trace, const struct pdi_map *map, uint64_t key,
                     uint8_t space, uint64_t rid)
{
    uint64_t found;
    if (!pdi_map_get(map, key, &found) || !same(&trace->resources[found], space, rid)) {
        return PDI_NONE32;
    }
    return (uint32_t)found;
}

pyddsi_bytes pdi_trace_name(const struct pdi_trace *trace, uint32_t party, uint8_t space,
                            uint64_t rid)
{
    uint32_t index = find(trace, &trace->resource_of, key_of(party, space, rid), space, rid);
    if (index == PDI_NONE32 || trace->resources[index].party != party) {
        index = find(trace, &trace->rid_of, any_key(space, rid), space, rid);
    }
    return index != PDI_NONE32 ? name_of(trace, &trace->resources[index]) : (pyddsi_bytes){NULL, 0};
}

void pdi_resource_free(struct pdi_trace *trace, uint32_t index)
{
    struct pdi_resource *resource = &trace->resources[index];
    if (trace->listener.resource_goes != NULL) {
        trace->listener.resource_goes(trace->listener.context, index);
    }
    uint64_t any = any_key(resource->space, resource->rid), last;
    trace->names_gone++;
    (void)pdi_map_remove(&trace->resource_of, resource->key);
    if (pdi_map_get(&trace->rid_of, any, &last) && last == index) {
        (void)pdi_map_remove(&trace->rid_of, any);
    }
    if (resource->name_size != 0) {
        pdi_pages_put(&trace->name_pages, resource->name_unit, units_of(resource->name_size));
    }
    resource->used = 0;
    pdi_slots_put(&trace->resource_slots, index);
}

pyddsi_bytes pdi_resource_name(const struct pdi_trace *trace, uint32_t index)
{
    return name_of(trace, &trace->resources[index]);
}

bool pdi_resource_is_last(const struct pdi_trace *trace, uint32_t index)
{
    const struct pdi_resource *resource = &trace->resources[index];
    return find(trace, &trace->rid_of, any_key(resource->space, resource->rid), resource->space,
                resource->rid) == index;
}

bool pdi_resource_set(struct pdi_trace *trace, uint32_t index, const struct pdi_resource *resource,
                      pyddsi_bytes name, bool last)
{
    uint64_t key = key_of(resource->party, resource->space, resource->rid), taken;
    uint32_t unit = pdi_pages_get(&trace->name_pages, units_of(name.size));
    if ((unit == PDI_PAGES_NONE && name.size != 0) ||
        pdi_map_get(&trace->resource_of, key, &taken)) {
        return false;
    }
    trace->resources[index] = *resource;
    trace->resources[index].key = key;
    trace->resources[index].name_unit = unit;
    trace->resources[index].name_size = (uint16_t)name.size;
    if (name.size != 0) {
        memcpy(trace->names + (size_t)unit * PDI_NAME_UNIT, name.data, name.size);
    }
    (void)pdi_map_put(&trace->resource_of, key, index);
    if (last) {
        (void)pdi_map_put(&trace->rid_of, any_key(resource->space, resource->rid), index);
    }
    return true;
}

/* Whether there is a place in the table, and a run for a name of this size. */
static bool room(struct pdi_trace *trace, size_t size)
{
    uint32_t unit = pdi_pages_get(&trace->name_pages, units_of(size));
    if (unit != PDI_PAGES_NONE) {
        pdi_pages_put(&trace->name_pages, unit, units_of(size));
    }
    return !pdi_slots_full(&trace->resource_slots) && (unit != PDI_PAGES_NONE || size == 0);
}

static void define(struct pdi_trace *trace, const struct pdi_trace_packet *packet, uint8_t space,
                   uint64_t rid, pyddsi_bytes name, uint8_t kind)
{
    uint64_t key = key_of(packet->source, space, rid), found;
    if (pdi_map_get(&trace->resource_of, key, &found)) {
        struct pdi_resource *old = &trace->resources[found];
        pyddsi_bytes known = name_of(trace, old);
        if (old->rid == rid && known.size == name.size &&
            (name.size == 0 || memcmp(known.data, name.data, name.size) == 0)) {
            return; /* declarations are idempotent */
        }
        old->until_ns = packet->time_ns;
        pdi_resource_free(trace, (uint32_t)found);
    }
    if (name.size <= PDI_NAME_BYTES_MAX && !room(trace, name.size)) {
        pdi_sweep_resources(trace);
    }
    if (name.size > PDI_NAME_BYTES_MAX || !room(trace, name.size)) {
        *(name.size > PDI_NAME_BYTES_MAX ? &trace->forgotten : &trace->evicted) += 1;
        return;
    }
    struct pdi_resource resource = {.rid = rid,
                                    .from_ns = packet->time_ns,
                                    .until_ns = PDI_NONE64,
                                    .party = packet->source,
                                    .used = 1,
                                    .space = space,
                                    .kind = kind};
    (void)pdi_resource_set(trace, pdi_slots_get(&trace->resource_slots), &resource, name, true);
}

static void forget(struct pdi_trace *trace, const struct pdi_trace_packet *packet, uint8_t space,
                   uint64_t rid)
{
    uint32_t index =
        find(trace, &trace->resource_of, key_of(packet->source, space, rid), space, rid);
    if (index != PDI_NONE32) {
        trace->resources[index].until_ns = packet->time_ns;
        pdi_resource_free(trace, index);
    }
}

/* Two of the same refusal: a declaration that is repeated until it is taken. */
static bool alike(const pyddsi_declined *one, const pyddsi_declined *other)
{
    return one->id == other->id && one->status == other->status &&
           pdi_endpoint_same(&one->source, &other->source) &&
           pdi_endpoint_same(&one->target, &other->target);
}

/* A RESULT: whose declaration its sender did not take, and why. */
static void refuse(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                   const pyddsi_declaration *result)
{
    static const char *const reasons[] = {
        [1] = "no space for #", [2] = "conflict about #", [3] = "too large: #",
        [5] = "invalid: #",     [6] = "unsupported: #",
    };
    if (result->status == 0 || result->status == TRY_AGAIN) {
        return;
    }
    bool known = result->status < sizeof reasons / sizeof *reasons;
    struct pdi_event *event = pdi_party_event(trace, PDI_EVENT_DECLARE_REFUSED, packet);
    pdi_event_say(event, known ? reasons[result->status] : "refused: #", result->id >> 1);
    pyddsi_declined one = {.count = 1,
                           .id = pdi_table_id(result->id),
                           .packet = packet->number,
                           .source = trace->parties[packet->source].at,
                           .target = trace->parties[packet->target].at,
                           .file = trace->file,
                           .status = (uint8_t)result->status};
    for (unsigned i = 0; i < PYDDSI_DECLINED_MAX; i++) {
        pyddsi_declined *at = &trace->declined[i];
        if (at->count == 0) {
            *at = one;
            return;
        }
        if (alike(at, &one)) {
            at->count++;
            return;
        }
    }
}

void pdi_names_message(struct pdi_trace *trace, const struct pdi_trace_packet *packet,
                       const pyddsi_message *message, bool again)
{
    pyddsi_list list = message->declarations;
    pyddsi_declaration declaration;
    uint8_t space = (uint8_t)message->space;
    for (size_t i = 0; i < message->declarations.count; i++) { /* 65535, and each has a byte */
        if (pdi_list_declaration(&list, &declaration) != PYDDSI_OK) {
            return;
        }
        switch (declaration.kind) {
        case PYDDSI_RESOURCE:
            define(trace, packet, space, declaration.id, declaration.uri, PYDDSI_RESOURCE);
            break;
        case PYDDSI_SELECTION:
            define(trace, packet, space, declaration.id, declaration.query, PYDDSI_SELECTION);
            break;
        case PYDDSI_FORGET_RESOURCE:
        case PYDDSI_FORGET_SELECTION:
            forget(trace, packet, space, declaration.id);
            break;
        case PYDDSI_COMMIT:
            trace->parties[packet->source].commit = (uint8_t)declaration.commit;
            trace->parties[packet->source].commits++;
            break;
        case PYDDSI_RESULT:
            if (!again) {
                refuse(trace, packet, &declaration);
            }
            break;
        default:
            break;
        }
    }
}
