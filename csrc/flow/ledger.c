/* ledger.c - where everything that was dropped is written down: finding the line, and the words.
 *
 * The place and the reason of a line without resource give its index; it is filled in when the
 * first drop comes, as the others are. For the others the key is hashed to a home, and the first
 * line from there on that is free or has the key is taken, going round at the end.
 */
#include "flow/ledger.h"

#include <stdbool.h>
#include <string.h>

/* Where the search for a key begins, of `homes`. Two rounds of multiplying and folding: ids that
 * follow each other must not lie together, or a run of them would use up the probes. */
static uint32_t home(const pyddsi_drop *key, uint32_t homes)
{
    uint64_t small = (uint64_t)key->place << 16 | (uint64_t)key->reason << 8 | key->space;
    uint64_t hash = (key->resource ^ small << 40) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)((hash >> 32) * homes >> 32);
}

static bool same_key(const pyddsi_drop *a, const pyddsi_drop *b)
{
    return a->resource == b->resource && a->place == b->place && a->reason == b->reason &&
           a->space == b->space;
}

/* The line of a key with a resource, or a free one for it; null if there is neither. */
static pyddsi_drop *find_own(const struct pdi_ledger *ledger, const pyddsi_drop *key)
{
    pyddsi_drop *own = ledger->lines + (size_t)PDI_LEDGER_LINES_MIN;
    uint32_t homes = ledger->capacity - PDI_LEDGER_LINES_MIN;
    uint32_t probes = homes < PDI_LEDGER_PROBES_MAX ? homes : PDI_LEDGER_PROBES_MAX;
    uint32_t at = home(key, homes);
    for (uint32_t probe = 0; probe < probes; probe++) {
        if (own[at].count == 0 || same_key(&own[at], key)) {
            return &own[at];
        }
        at = at + 1 == homes ? 0 : at + 1;
    }
    return NULL;
}

int pdi_ledger_init(struct pdi_ledger *ledger, pyddsi_drop *lines, uint32_t capacity)
{
    if (capacity < PDI_LEDGER_LINES_MIN || capacity > PDI_LEDGER_LINES_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *ledger = (struct pdi_ledger){.lines = lines, .last = lines, .capacity = capacity};
    memset(lines, 0, capacity * sizeof *lines);
    return PYDDSI_OK;
}

void pdi_ledger_find(struct pdi_ledger *ledger, enum pyddsi_place place, enum pyddsi_reason reason,
                     uint8_t space, uint64_t resource, pdi_time now)
{
    pyddsi_drop key = {.place = (uint8_t)place,
                       .reason = (uint8_t)reason,
                       .space = space,
                       .resource = resource,
                       .first_ns = now};
    pyddsi_drop *line = NULL;
    if (resource != 0 || space != 0) {
        line = find_own(ledger, &key);
    }
    if (line == NULL) {
        line = &ledger->lines[(uint32_t)place * PYDDSI_REASON_COUNT + (uint32_t)reason];
        key.space = 0;
        key.resource = 0;
    }
    if (line->count == 0) {
        *line = key;
        ledger->count++;
    }
    ledger->last = line;
}

int pdi_ledger_next(const struct pdi_ledger *ledger, uint32_t *cursor, pyddsi_drop *drop)
{
    while (*cursor < ledger->capacity) {
        const pyddsi_drop *line = &ledger->lines[(*cursor)++];
        if (line->count != 0) {
            *drop = *line;
            return PYDDSI_OK;
        }
    }
    return PYDDSI_END;
}

int pdi_ledger_get(const struct pdi_ledger *ledger, uint32_t index, pyddsi_drop *drop)
{
    if (index >= ledger->count) {
        return PYDDSI_END;
    }
    uint32_t cursor = 0;
    for (uint32_t before = 0; before < index; before++) {
        (void)pdi_ledger_next(ledger, &cursor, drop);
    }
    return pdi_ledger_next(ledger, &cursor, drop);
}

static const struct words {
    const char *name;
    const char *text;
} places[PYDDSI_PLACE_COUNT] = {
    [PYDDSI_AT_PUT] = {"put", "before it entered the window"},
    [PYDDSI_AT_WINDOW] = {"window", "while it waited to be acknowledged"},
    [PYDDSI_AT_PACKET] = {"packet", "on its way into a packet"},
    [PYDDSI_AT_SHELF] = {"shelf", "while it was kept for those who pull or come late"},
    [PYDDSI_AT_INPUT] = {"input", "as a packet that came in"},
    [PYDDSI_AT_ORDER] = {"order", "while it waited for an earlier one"},
    [PYDDSI_AT_ASSEMBLY] = {"assembly", "while its fragments were put together"},
    [PYDDSI_AT_RING] = {"ring", "between the protocol and the reader"},
    [PYDDSI_AT_DECLARE] = {"declare", "as a declaration"},
};

static const struct words reasons[PYDDSI_REASON_COUNT] = {
    [PYDDSI_BY_FULL] = {"full", "there was no room, and nobody wanted to wait"},
    [PYDDSI_BY_PEER_LOST] = {"peer_lost", "the peer left before it acknowledged"},
    [PYDDSI_BY_CLOSE] = {"close", "this side closed before it was acknowledged or read"},
    [PYDDSI_BY_GAP] = {"gap", "the sender gave it up"},
    [PYDDSI_BY_LOSS] = {"loss", "it was lost on the way, and best effort asks for no repetition"},
    [PYDDSI_BY_SIZE] = {"size", "it is larger than the receiver's limit"},
    [PYDDSI_BY_BAD_BYTES] = {"bad_bytes", "its bytes break a rule"},
    [PYDDSI_BY_UNKNOWN_PEER] = {"unknown_peer", "it came from an address without a session"},
    [PYDDSI_BY_EXPIRED_PEER] = {"expired_peer", "it came from a peer whose session has ended"},
    [PYDDSI_BY_NOT_SYNCHED] = {"not_synched", "it came before the first SYNCH of its conduit"},
    [PYDDSI_BY_REPEAT] = {"repeat", "it had been received before"},
    [PYDDSI_BY_OLD] = {"old", "a later one had overtaken it"},
    [PYDDSI_BY_OVERWRITTEN] = {"overwritten", "a newer one took its place"},
    [PYDDSI_BY_INCOMPLETE] = {"incomplete", "a piece of it is missing for ever"},
    [PYDDSI_BY_LIMIT] = {"limit", "its peer had used up its share"},
    [PYDDSI_BY_UNSUPPORTED] = {"unsupported", "one side does not know its kind"},
    [PYDDSI_BY_NO_SUBSCRIBER] = {"no_subscriber", "nobody here wanted it"},
    [PYDDSI_BY_PEERS_MAX] = {"peers_max", "this side has as many peers as its peers_max allows"},
    [PYDDSI_BY_REFUSED] = {"refused", "the peer refuses a session with this side"},
};

const char *pdi_place_name(int place)
{
    return place >= 0 && place < PYDDSI_PLACE_COUNT ? places[place].name : "?";
}

const char *pdi_place_text(int place)
{
    return place >= 0 && place < PYDDSI_PLACE_COUNT ? places[place].text : "at no such place";
}

const char *pdi_reason_name(int reason)
{
    return reason >= 0 && reason < PYDDSI_REASON_COUNT ? reasons[reason].name : "?";
}

const char *pdi_reason_text(int reason)
{
    return reason >= 0 && reason < PYDDSI_REASON_COUNT ? reasons[reason].text : "of no such reason";
}
