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
#include "wire/record.h"
#include "wire/table.h"

enum { NUMBER_BYTES_MAX = 10, NO_NUMBER = 0xff /* a number does not end with it */ };

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

/* Whether a byte of a text says something: all but the signs that give it its form, and spaces. */
static bool is_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c < 0x20 ||
           c >= 0x7f;
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

static int digit_of(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A peer id in hexadecimal digits, as a HELLO that is for nobody has it before the address. False: it is none. */
static bool hide_hex(const struct pdi_hide *hide, uint8_t *text, size_t size)
{
    uint8_t id[PDI_PEER_ID_MAX];
    if (size == 0 || size % 2 != 0 || size / 2 > sizeof id) {
        return false;
    }
    for (size_t i = 0; i < size; i += 2) {
        int high = digit_of(text[i]), low = digit_of(text[i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        id[i / 2] = (uint8_t)(high << 4 | low);
    }
    hide_id(hide, id, size / 2);
    for (size_t i = 0; i < size; i++) {
        text[i] = (uint8_t)"0123456789abcdef"[id[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    }
    return true;
}

/* [ID@]udp/ADDRESS or tcp/ADDRESS; of what has another form only the signs stay. */
static void hide_locator(const struct pdi_hide *hide, uint8_t *text, size_t size)
{
    pyddsi_endpoint at;
    size_t from = 0;
    while (from < size && text[from] != '@') {
        from++;
    }
    from = from < size && hide_hex(hide, text, from) ? from + 1 : 0;
    if (pdi_endpoint_parse((const char *)text + from, size - from, &at) == PYDDSI_OK &&
        pdi_endpoint_is_group(&at)) {
        return;
    }
    if (size - from >= 4 &&
        (memcmp(text + from, "udp/", 4) == 0 || memcmp(text + from, "tcp/", 4) == 0)) {
        from += 4;
    }
    for (size_t i = from; i < size; i++) {
        if (is_letter(text[i])) {
            text[i] = '0';
        }
    }
}

/* Keeps so many numbers at the beginning of a value; what is behind them is zeros. */
static void keep_numbers(uint8_t *value, size_t size, unsigned count)
{
    size_t at = 0;
    for (; count > 0; count--) {
        size_t end = at;
        while (end < size && value[end] >= 0x80) {
            end++;
        }
        if (end == size || end - at >= NUMBER_BYTES_MAX) {
            break;
        }
        at = end + 1;
    }
    blank(value + at, size - at);
}

/* Of a property numbers stay that say what a peer can do, and which session it is; not who it is, or what lets it in. */
static void hide_property(uint8_t *data, const pyddsi_property *property)
{
    static const uint8_t numbers[] = {[1] = 2, [2] = 1, [3] = 1, [4] = 1, [5] = 1,
                                      [6] = 1, [8] = 1, [9] = 1, [10] = 1};
    unsigned kept = property->id < sizeof numbers ? numbers[property->id] : 0;
    keep_numbers(own(data, property->value.data), property->value.size, kept);
}

/* ---- messages ---- */

static void hide_locators(const struct pdi_hide *hide, uint8_t *data, pyddsi_list list)
{
    pyddsi_locator locator;
    for (size_t count = list.count; count > 0 && pdi_list_locator(&list, &locator) == PYDDSI_OK;
         count--) {
        hide_locator(hide, own(data, locator.text.data), locator.text.size);
    }
}

static void hide_properties(uint8_t *data, pyddsi_list list)
{
    pyddsi_property property;
    for (size_t count = list.count; count > 0 && pdi_list_property(&list, &property) == PYDDSI_OK;
         count--) {
        hide_property(data, &property);
    }
}

static void hide_samples(uint8_t *data, pyddsi_list list)
{
    pyddsi_sample sample;
    for (size_t count = list.count; count > 0 && pdi_list_sample(&list, &sample) == PYDDSI_OK;
         count--) {
        blank(own(data, sample.payload.data), sample.payload.size);
    }
}

/* A field of a message or declaration, by its type: whatever row of the table it is in. Numbers stay. */
static void hide_field(const struct pdi_hide *hide, uint8_t *data, const pyddsi_field *field,
                       const void *from)
{
    const void *place = (const char *)from + field->at;
    const pyddsi_bytes *bytes = place;
    const pyddsi_list *list = place;
    switch (field->type) {
    case PYDDSI_TYPE_BYTES:
        blank(own(data, bytes->data), bytes->size);
        break;
    case PYDDSI_TYPE_PEER_ID:
        hide_id(hide, own(data, bytes->data), bytes->size);
        break;
    case PYDDSI_TYPE_TEXT:
        hide_name(hide, own(data, bytes->data), bytes->size);
        break;
    case PYDDSI_TYPE_LOCATORS:
        hide_locators(hide, data, *list);
        break;
    case PYDDSI_TYPE_PROPERTIES:
        hide_properties(data, *list);
        break;
    case PYDDSI_TYPE_SAMPLES:
        hide_samples(data, *list);
        break;
    default:
        break;
    }
}

static void hide_fields(const struct pdi_hide *hide, uint8_t *data, const pyddsi_spec *spec,
                        unsigned flags, const void *from)
{
    for (unsigned i = 0; i < spec->field_count; i++) {
        if (pdi_field_present(&spec->field[i], flags, from)) {
            hide_field(hide, data, &spec->field[i], from);
        }
    }
}

static void hide_message(const struct pdi_hide *hide, uint8_t *data, const pyddsi_message *message)
{
    pyddsi_declaration declaration = {0};
    hide_fields(hide, data, &pdi_messages[message->kind], message->flags, message);
    if (message->kind != PYDDSI_DECLARE) {
        return;
    }
    pyddsi_list list = message->declarations;
    for (size_t count = list.count;
         count > 0 && pdi_list_declaration(&list, &declaration) == PYDDSI_OK; count--) {
        hide_fields(hide, data, &pdi_declarations[declaration.kind], declaration.flags,
                    &declaration);
    }
}

size_t pdi_hide_packet(const struct pdi_hide *hide, const pyddsi_reading *reading, uint8_t *data,
                       size_t size, bool cut)
{
    pyddsi_decoder decoder;
    pyddsi_message message = {0};
    int status;
    pdi_decoder_init(&decoder, reading, data, size);
    /* a message is hidden when it has been read: what follows is read from where it ended, which does not change */
    while ((status = pdi_decoder_next(&decoder, &message)) == PYDDSI_OK) {
        hide_message(hide, data, &message);
    }
    if (status == PYDDSI_END) {
        return size;
    }
    size_t behind = decoder.at + 1; /* the kind */
    if (cut && status == PYDDSI_SHORT) {
        return behind;
    }
    memset(data + behind, NO_NUMBER, size - behind);
    return size;
}
