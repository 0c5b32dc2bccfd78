/* endpoint.c - endpoints as keys and as texts. */
#include "base/endpoint.h"

#include <stdbool.h>

#include "base/map.h"

#define GROUPS      8        /* of an IPv6 address */
#define NO_ELLIPSIS SIZE_MAX /* no "::" in it */

/* ---- the key --------------------------------------------------------------------------------- */

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) {
        word = word << 8 | bytes[i];
    }
    return word;
}

uint64_t pdi_endpoint_key(const uint64_t seed[2], const pyddsi_endpoint *endpoint)
{
    uint64_t place = (uint64_t)endpoint->port << 8 | endpoint->kind;
    uint64_t high = word_at(endpoint->ip);
    if (endpoint->kind == PDI_ENDPOINT_UDP4) { /* all of it fits one word */
        return pdi_map_hash(seed, high | place);
    }
    uint64_t hash = pdi_map_hash(seed, place);
    hash = pdi_map_hash(seed, hash ^ high);
    return pdi_map_hash(seed, hash ^ word_at(endpoint->ip + 8));
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A text under way; what does not fit is counted and not written. */
struct text {
    char *out;
    size_t room;
    size_t size;
};

static void put(struct text *text, char c)
{
    if (text->size < text->room) {
        text->out[text->size] = c;
    }
    text->size++;
}

static void put_text(struct text *text, const char *more)
{
    for (; *more != '\0'; more++) {
        put(text, *more);
    }
}

/* A number below 65536. */
static void put_number(struct text *text, unsigned number, unsigned base)
{
    unsigned unit = 1;
    while (number / unit >= base) {
        unit *= base;
    }
    for (; unit > 0; unit /= base) {
        put(text, "0123456789abcdef"[number / unit % base]);
    }
}

static unsigned group_at(const uint8_t *ip, int group)
{
    size_t at = (size_t)group * 2;
    return (unsigned)ip[at] << 8 | ip[at + 1];
}

/* The longest run of zero groups, of equals the first; how long it is, and *start. */
static int zero_run(const uint8_t *ip, int *start)
{
    int longest = 0;
    int run = 0;
    for (int group = 0; group < GROUPS; group++) {
        run = group_at(ip, group) == 0 ? run + 1 : 0;
        if (run > longest) {
            longest = run;
            *start = group + 1 - run;
        }
    }
    return longest;
}

static void put_ip6(struct text *text, const uint8_t *ip)
{
    int start = GROUPS;
    int zeros = zero_run(ip, &start);
    if (zeros < 2) {
        start = GROUPS; /* one group is not worth it, says RFC 5952 */
    }
    int group = 0;
    while (group < GROUPS) {
        if (group == start) {
            put_text(text, "::");
            group += zeros;
            continue;
        }
        if (group > 0 && group != start + zeros) {
            put(text, ':');
        }
        put_number(text, group_at(ip, group), 16);
        group++;
    }
}

size_t pdi_endpoint_print(const pyddsi_endpoint *endpoint, char *out, size_t room)
{
    struct text text = {.out = out, .room = room};
    if (endpoint->kind == PDI_ENDPOINT_UDP4) {
        put_text(&text, "udp/");
        for (int i = 0; i < 4; i++) {
            if (i > 0) {
                put(&text, '.');
            }
            put_number(&text, endpoint->ip[i], 10);
        }
    } else if (endpoint->kind == PDI_ENDPOINT_UDP6) {
        put_text(&text, "udp/[");
        put_ip6(&text, endpoint->ip);
        put(&text, ']');
    }
    if (text.size > 0) {
        put(&text, ':');
        put_number(&text, endpoint->port, 10);
    }
    if (room > 0) {
        out[text.size < room ? text.size : room - 1] = '\0';
    }
    return text.size;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What is left to read. */
struct rest {
    const char *at;
    const char *end;
};

static bool is_next(const struct rest *rest, char c)
{
    return rest->at < rest->end && *rest->at == c;
}

static bool take(struct rest *rest, char c)
{
    if (!is_next(rest, c)) {
        return false;
    }
    rest->at++;
    return true;
}

static bool take_text(struct rest *rest, const char *text)
{
    for (; *text != '\0'; text++) {
        if (!take(rest, *text)) {
            return false;
        }
    }
    return true;
}

/* A decimal number of at most `max`, which is at most 65535, without needless zeros. */
static bool take_decimal(struct rest *rest, unsigned max, unsigned *number)
{
    const char *first = rest->at;
    *number = 0;
    while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9') {
        *number = *number * 10 + (unsigned)(*rest->at++ - '0');
        if (*number > max) {
            return false;
        }
    }
    return rest->at > first && (rest->at == first + 1 || *first != '0');
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* One to four hexadecimal digits; a fifth is left, and nothing that may follow begins with one. */
static bool take_group(struct rest *rest, uint8_t bytes[2])
{
    unsigned number = 0;
    int digits = 0;
    while (digits < 4 && rest->at < rest->end && hex_value(*rest->at) >= 0) {
        number = number << 4 | (unsigned)hex_value(*rest->at++);
        digits++;
    }
    bytes[0] = (uint8_t)(number >> 8);
    bytes[1] = (uint8_t)number;
    return digits > 0;
}

static bool take_ip4(struct rest *rest, uint8_t *ip)
{
    for (int i = 0; i < 4; i++) {
        unsigned number = 0;
        if ((i > 0 && !take(rest, '.')) || !take_decimal(rest, 255, &number)) {
            return false;
        }
        ip[i] = (uint8_t)number;
    }
    return true;
}

/* The groups before a ']', which is left. Those after a "::" are read right behind those before it,
 * and moved to the end of the address when it is known how many they are. */
static bool take_ip6(struct rest *rest, uint8_t ip[16])
{
    size_t size = 0;             /* bytes read */
    size_t before = NO_ELLIPSIS; /* of these before the "::" */
    bool more = true;            /* a group must follow */
    if (take(rest, ':')) {
        if (!take(rest, ':')) {
            return false;
        }
        before = 0;
        more = !is_next(rest, ']');
    }
    while (more) {
        if (size == 16 || !take_group(rest, ip + size)) {
            return false;
        }
        size += 2;
        more = take(rest, ':');
        if (more && before == NO_ELLIPSIS && take(rest, ':')) {
            before = size;
            more = !is_next(rest, ']');
        }
    }
    if (before == NO_ELLIPSIS || size == 16) {
        return before == NO_ELLIPSIS && size == 16; /* a "::" stands for one group at least */
    }
    size_t after = size - before;
    memmove(ip + 16 - after, ip + before, after);
    memset(ip + before, 0, 16 - size);
    return true;
}

int pdi_endpoint_parse(const char *text, size_t size, pyddsi_endpoint *endpoint)
{
    if (size > PDI_ENDPOINT_TEXT_MAX) {
        return PYDDSI_BAD_INPUT;
    }
    struct rest rest = {.at = text, .end = text + size};
    pyddsi_endpoint read = {.kind = PDI_ENDPOINT_UDP4};
    unsigned port = 0;
    bool good = take_text(&rest, "udp/");
    if (good && take(&rest, '[')) {
        read.kind = PDI_ENDPOINT_UDP6;
        good = take_ip6(&rest, read.ip) && take(&rest, ']');
    } else {
        good = good && take_ip4(&rest, read.ip);
    }
    if (!good || !take(&rest, ':') || !take_decimal(&rest, 65535, &port) || rest.at != rest.end) {
        return PYDDSI_BAD_INPUT;
    }
    read.port = (uint16_t)port;
    *endpoint = read;
    return PYDDSI_OK;
}
