/* hide.c - see hide.h.
 *
 * Addresses. Bit i of the new address is bit i of the old one, turned round if a keyed hash of the bits before it says so.
 * So a prefix decides what becomes of the next bit and nothing else does: networks stay networks. (This is how Crypto-PAn
 * does it; the hash here is the maps' SipHash.) Where the first byte of an IPv4 address would become one of a group or of
 * loopback, it is turned again until it does not, so no two addresses become one.
 */
#include "capture/hide.h"

#include <string.h>

#include "base/endpoint.h"
#include "base/map.h"
#include "capture/hash.h"
#include "wire/decode.h"
#include "wire/list.h"

static uint64_t hash_of(const struct pdi_hide *hide, uint64_t a, uint64_t b)
{
    return pdi_map_hash(hide->key, pdi_map_hash(hide->key, a) ^ b);
}

/* ---- addresses ---- */

/* The first bits of an address that stay as they are: what kind of address it is. */
static unsigned kept_bits(const pyddsi_endpoint *at, bool four)
{
    if (four) {
        return at->ip[0] == 127 || at->ip[0] == 0     ? 32
               : at->ip[0] == 169 && at->ip[1] == 254 ? 16
                                                      : 0;
    }
    static const uint8_t loopback[16] = {[15] = 1};
    bool none = true;
    for (unsigned i = 0; i < 16; i++) {
        none = none && at->ip[i] == 0;
    }
    return none || memcmp(at->ip, loopback, 16) == 0         ? 128
           : at->ip[0] == 0xfe && (at->ip[1] & 0xc0) == 0x80 ? 64
                                                             : 0;
}

/* Turns the bits |from| .. |until| of an address, each as those before it say. */
static void turn_bits(const struct pdi_hide *hide, uint64_t state, const uint8_t *old, uint8_t *out,
                      unsigned from, unsigned until)
{
    for (unsigned i = 0; i < until; i++) {
        unsigned bit = (unsigned)old[i / 8] >> (7 - i % 8) & 1U;
        unsigned turn = i >= from ? (unsigned)hash_of(hide, state, i) & 1U : 0;
        out[i / 8] ^= (uint8_t)(turn << (7 - i % 8));
        state = hash_of(hide, state, 1000 + bit);
    }
}

/* Whether an IPv4 address that begins so means something of its own. */
static bool is_special(uint8_t first)
{
    return (first & 0xf0) == 0xe0 || first == 127 || first == 0;
}

void pdi_hide_endpoint(const struct pdi_hide *hide, pyddsi_endpoint *endpoint)
{
    bool four = endpoint->kind == 4 || endpoint->kind == 14;
    bool group = four ? (endpoint->ip[0] & 0xf0) == 0xe0 : endpoint->ip[0] == 0xff;
    if (group || endpoint->kind == 0) {
        return;
    }
    uint8_t old[16];
    memcpy(old, endpoint->ip, sizeof old);
    unsigned kept = kept_bits(endpoint, four);
    turn_bits(hide, four ? 4 : 6, old, endpoint->ip, kept, four ? 32 : 128);
    /* no address becomes one of another kind: what comes round to itself comes past an ordinary one before */
    for (unsigned round = 0; four && kept == 0 && is_special(endpoint->ip[0]) && round < 256;
         round++) {
        uint8_t first = endpoint->ip[0];
        turn_bits(hide, 4, &first, endpoint->ip, 0, 8);
    }
}

/* ---- texts and ids ---- */

static void blank(uint8_t *data, size_t size)
{
    if (size != 0) {
        memset(data, 0, size);
    }
}

/* Where a view into the packet can be written to. */
static uint8_t *own(uint8_t *data, const uint8_t *view)
{
    return data + (view - data);
}

static void hide_id(const struct pdi_hide *hide, uint8_t *id, size_t size)
{
    uint64_t state = size;
    for (size_t i = 0; i < size; i++) {
        state = hash_of(hide, state, id[i]);
    }
    for (size_t i = 0; i < size; i++) {
        state = i % 8 == 0 ? hash_of(hide, state, i) : state >> 8;
        id[i] = (uint8_t)state;
    }
}

static bool is_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* One part of a name, between slashes. */
static void hide_part(const struct pdi_hide *hide, uint8_t *part, size_t size)
{
    uint64_t state = 7;
    for (size_t i = 0; i < size; i++) {
        state = hash_of(hide, state, part[i]);
    }
    for (size_t i = 0; i < size; i++) {
        if (is_letter(part[i])) {
            part[i] = (uint8_t)('a' + state % 26);
        }
        state = hash_of(hide, state, i);
    }
}

static void hide_name(const struct pdi_hide *hide, uint8_t *name, size_t size)
{
    size_t from = 0;
    if (!hide->names) {
        return;
    }
    for (size_t i = 0; i <= size; i++) {
        if (i == size || name[i] == '/') {
            hide_part(hide, name + from, i - from);
            from = i + 1;
        }
    }
}

static void hide_locator(uint8_t *text, size_t size)
{
    pyddsi_endpoint at;
    if (pdi_endpoint_parse((const char *)text, size, &at) == PYDDSI_OK &&
        pdi_endpoint_is_group(&at)) {
        return;
    }
    bool address = false;
    for (size_t i = 0; i < size; i++) {
        address = address || text[i] == '/';
        if (address && is_letter(text[i])) {
            text[i] = '0';
        }
    }
}

/* ---- messages ---- */

static void hide_samples(uint8_t *data, pyddsi_list list)
{
    pyddsi_sample sample;
    for (size_t count = list.count; count > 0 && pdi_list_sample(&list, &sample) == PYDDSI_OK;
         count--) {
        blank(own(data, sample.payload.data), sample.payload.size);
    }
}

static void hide_locators(uint8_t *data, pyddsi_list list)
{
    pyddsi_locator locator;
    for (size_t count = list.count; count > 0 && pdi_list_locator(&list, &locator) == PYDDSI_OK;
         count--) {
        hide_locator(own(data, locator.text.data), locator.text.size);
    }
}

/* Behind the number of a session stands its secret. */
static void hide_secret(uint8_t *value, size_t size)
{
    size_t at = 0;
    while (at < size && value[at] >= 0x80) {
        at++;
    }
    if (at < size) {
        blank(value + at + 1, size - at - 1);
    }
}

/* Values of properties that say who somebody is, or let him in. */
static void hide_properties(uint8_t *data, pyddsi_list list)
{
    pyddsi_property property;
    for (size_t count = list.count; count > 0 && pdi_list_property(&list, &property) == PYDDSI_OK;
         count--) {
        if (property.id == 0 || property.id == 7 || property.id == 12 || property.id == 14 ||
            property.id > 14) {
            blank(own(data, property.value.data), property.value.size);
        } else if ((property.id == 5 || property.id == 9) && property.value.size != 0) {
            hide_secret(own(data, property.value.data), property.value.size);
        }
    }
}

static void hide_declarations(const struct pdi_hide *hide, uint8_t *data, pyddsi_list list)
{
    pyddsi_declaration declaration = {0};
    for (size_t count = list.count;
         count > 0 && pdi_list_declaration(&list, &declaration) == PYDDSI_OK; count--) {
        if (declaration.kind == PYDDSI_RESOURCE) {
            hide_name(hide, own(data, declaration.uri.data), declaration.uri.size);
        } else if (declaration.kind == PYDDSI_SELECTION) {
            hide_name(hide, own(data, declaration.query.data), declaration.query.size);
        }
    }
}

static void hide_view(const struct pdi_hide *hide, uint8_t *data, pyddsi_bytes id)
{
    hide_id(hide, own(data, id.data), id.size);
}

static void hide_message(const struct pdi_hide *hide, uint8_t *data, const pyddsi_message *message)
{
    bool properties = (message->flags & PYDDSI_P) != 0;
    switch (message->kind) {
    case PYDDSI_SDATA:
        blank(own(data, message->payload.data), message->payload.size);
        break;
    case PYDDSI_WDATA:
        hide_name(hide, own(data, message->uri.data), message->uri.size);
        blank(own(data, message->payload.data), message->payload.size);
        break;
    case PYDDSI_BDATA:
        hide_samples(data, message->samples);
        break;
    case PYDDSI_DECLARE:
        hide_declarations(hide, data, message->declarations);
        break;
    case PYDDSI_OPEN:
        hide_view(hide, data, message->id);
        hide_locators(data, message->locators);
        break;
    case PYDDSI_HELLO:
        hide_locators(data, message->locators);
        break;
    case PYDDSI_ACCEPT:
        hide_view(hide, data, message->opener);
        hide_view(hide, data, message->acceptor);
        break;
    case PYDDSI_CLOSE:
    case PYDDSI_KEEPALIVE:
        hide_view(hide, data, message->id);
        break;
    default:
        properties = false;
        break;
    }
    if (properties && (message->kind == PYDDSI_OPEN || message->kind == PYDDSI_HELLO ||
                       message->kind == PYDDSI_ACCEPT)) {
        hide_properties(data, message->properties);
    }
}

void pdi_hide_packet(const struct pdi_hide *hide, const pyddsi_reading *reading, uint8_t *data,
                     size_t size)
{
    pyddsi_decoder decoder;
    pyddsi_message message = {0};
    int status;
    pdi_decoder_init(&decoder, reading, data, size);
    /* a message is hidden when it has been read: what follows is read from where it ended, which does not change */
    while ((status = pdi_decoder_next(&decoder, &message)) == PYDDSI_OK) {
        hide_message(hide, data, &message);
    }
    if (status != PYDDSI_END && decoder.at + 1 < size) {
        blank(data + decoder.at + 1, size - decoder.at - 1);
    }
}
