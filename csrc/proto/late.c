/* late.c - names that nobody declares any more. */
#include "proto/late.h"

#include <stdbool.h>
#include <string.h>

/* Numbers made of names lie anywhere, those that people choose side by side: both spread well by this (Fibonacci). */
static uint32_t set_of(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) % PDI_LATE_SETS;
}

/* Whether the ring has not come round to its text. */
static bool holds(const struct pdi_late *late, const struct pdi_late_way *way)
{
    return way->size != 0 && late->next - way->at <= PDI_LATE_BYTES;
}

void pdi_late_init(struct pdi_late *late)
{
    memset(late->way, 0, sizeof late->way);
    late->next = 0;
}

void pdi_late_put(struct pdi_late *late, uint64_t key, pyddsi_bytes name)
{
    struct pdi_late_way *way = late->way[set_of(key)];
    struct pdi_late_way *best = way;
    if (name.size == 0 || name.size > PDI_LATE_BYTES / 16)
        return;
    for (uint32_t i = 0; i < PDI_LATE_WAYS;
         i++) { /* its own place, else an empty one, else the oldest */
        if (way[i].size != 0 && way[i].key == key) {
            best = &way[i];
            break;
        }
        if (best->size != 0 && (way[i].size == 0 || way[i].at < best->at))
            best = &way[i];
    }
    uint64_t at = late->next;
    if (at % PDI_LATE_BYTES + name.size > PDI_LATE_BYTES) /* a name lies in one piece */
        at += PDI_LATE_BYTES - at % PDI_LATE_BYTES;
    memcpy(late->text + at % PDI_LATE_BYTES, name.data, name.size);
    late->next = at + name.size;
    *best = (struct pdi_late_way){.key = key, .at = at, .size = (uint32_t)name.size};
}

pyddsi_bytes pdi_late_find(const struct pdi_late *late, uint64_t key)
{
    const struct pdi_late_way *way = late->way[set_of(key)];
    for (uint32_t i = 0; i < PDI_LATE_WAYS; i++) {
        if (way[i].key == key && holds(late, &way[i]))
            return (pyddsi_bytes){late->text + way[i].at % PDI_LATE_BYTES, way[i].size};
    }
    return (pyddsi_bytes){NULL, 0};
}
