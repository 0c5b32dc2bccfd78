/* tcp_table.c - the directions of TCP: found by their endpoints, ordered by use. */
#include "base/check.h"
#include "capture/tcp_state.h"

static bool equal(const struct pdi_tcp_key *one, const struct pdi_tcp_key *two)
{
    return ((one->source[0] ^ two->source[0]) | (one->source[1] ^ two->source[1]) |
            (one->target[0] ^ two->target[0]) | (one->target[1] ^ two->target[1]) |
            (one->ports ^ two->ports)) == 0;
}

/* Where a key is looked for. Somebody may choose endpoints that all meet in one bucket; a walk is no longer than there
 * are directions even then. */
static uint32_t bucket(const struct pdi_tcp_key *key)
{
    const uint64_t words[] = {key->source[0], key->source[1], key->target[0], key->target[1],
                              key->ports};
    uint64_t hash = 0;
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash % PDI_TCP_BUCKETS;
}

uint16_t pdi_tcp_find(const struct pdi_tcp *tcp, const struct pdi_tcp_key *key)
{
    uint16_t index = tcp->bucket[bucket(key)];
    while (index != PDI_TCP_NONE && !equal(&tcp->direction[index].key, key))
        index = tcp->direction[index].chain;
    return index;
}

/* Takes a direction out of its chain, in which it must be. */
static void unchain(struct pdi_tcp *tcp, uint16_t index)
{
    uint16_t *link = &tcp->bucket[bucket(&tcp->direction[index].key)];
    while (*link != index)
        link = &tcp->direction[*link].chain;
    *link = tcp->direction[index].chain;
}

/* Takes a direction out of the order of use. */
static void unlist(struct pdi_tcp *tcp, uint16_t index)
{
    uint16_t older = tcp->direction[index].older;
    uint16_t newer = tcp->direction[index].newer;
    *(older == PDI_TCP_NONE ? &tcp->oldest : &tcp->direction[older].newer) = newer;
    *(newer == PDI_TCP_NONE ? &tcp->newest : &tcp->direction[newer].older) = older;
}

/* Puts it at the newest end. */
static void list(struct pdi_tcp *tcp, uint16_t index)
{
    tcp->direction[index].older = tcp->newest;
    tcp->direction[index].newer = PDI_TCP_NONE;
    *(tcp->newest == PDI_TCP_NONE ? &tcp->oldest : &tcp->direction[tcp->newest].newer) = index;
    tcp->newest = index;
}

void pdi_tcp_touch(struct pdi_tcp *tcp, uint16_t index)
{
    if (tcp->newest == index)
        return;
    unlist(tcp, index);
    list(tcp, index);
}

void pdi_tcp_put(struct pdi_tcp *tcp, uint16_t index, const struct pdi_tcp_key *key,
                 uint32_t sequence)
{
    uint16_t *head = &tcp->bucket[bucket(key)];
    tcp->direction[index] = (struct pdi_tcp_direction){.key = *key,
                                                       .next = PDI_TCP_ROUND + sequence,
                                                       .held_first = PDI_HELD_NONE,
                                                       .held_last = PDI_HELD_NONE,
                                                       .chain = *head};
    *head = index;
    list(tcp, index);
}

void pdi_tcp_remove(struct pdi_tcp *tcp, uint16_t index)
{
    PDI_CHECK(tcp->direction[index].held_first == PDI_HELD_NONE);
    unchain(tcp, index);
    unlist(tcp, index);
}
