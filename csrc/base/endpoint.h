/* endpoint.h - where packets come from and go to: comparing, hashing, reading, writing.
 *
 * An endpoint is a kind, an IP address and a port (pyddsi.h). As text it is a locator, which is how
 * peers tell each other where they can be reached:
 *
 *     udp/10.0.0.1:7447          udp/[fe80::1]:7447          (nothing, for nowhere)
 *
 * Peers compare locators byte for byte, so each endpoint has one text: no leading zeros, IPv6 in
 * lower case, its longest run of two or more zero groups (of equals the first) written "::", as
 * RFC 5952 asks, except that every address is written in groups. Reading takes every text of RFC
 * 4291 but the dotted tail (::ffff:10.0.0.1), and is strict otherwise: no white space, no zone, no
 * sign, no number with a needless zero in an IPv4 address or a port. A text that some program reads
 * as another address (octal, short forms) is refused and not guessed at.
 *
 * Comparing is done on every packet. An IPv4 address leaves the other bytes zero, so two endpoints
 * are equal when all their bytes are, and two 64-bit words and a port decide it. The bytes that the
 * compiler may leave between fields are never looked at.
 *
 * The key is for a map from endpoints to peers: addresses are chosen by strangers, so it is a keyed
 * hash, of one word for IPv4 and for IPv6 of three, each on top of the one before. Two endpoints
 * may share a key (never often, and nobody can arrange it without the seed): who finds one by its
 * key compares the endpoint too.
 */
#ifndef PDI_BASE_ENDPOINT_H
#define PDI_BASE_ENDPOINT_H

#include <string.h>

#include "pyddsi.h"

/* Bytes of the longest text, without a zero at its end: udp/[8 groups of 4]:65535 */
#define PDI_ENDPOINT_TEXT_MAX 51

enum pdi_endpoint_kind {
    PDI_ENDPOINT_NONE = 0,
    PDI_ENDPOINT_UDP4 = 4,
    PDI_ENDPOINT_UDP6 = 6,
    PDI_ENDPOINT_TCP4 = 14, /* and whatever is above: connections, which hear no groups */
};

/* Whether a connection leads there. */
static inline int pdi_endpoint_is_stream(const pyddsi_endpoint *endpoint)
{
    return endpoint->kind >= PDI_ENDPOINT_TCP4;
}

/* Whether both are the same place: 1 or 0. */
static inline int pdi_endpoint_equal(const pyddsi_endpoint *a, const pyddsi_endpoint *b)
{
    uint64_t one[2];
    uint64_t two[2];
    memcpy(one, a->ip, sizeof one);
    memcpy(two, b->ip, sizeof two);
    return ((one[0] ^ two[0]) | (one[1] ^ two[1]) | (uint64_t)(a->port ^ b->port) |
            (uint64_t)(a->kind ^ b->kind)) == 0;
}

/* The keyed hash of an endpoint; the same on every machine. */
uint64_t pdi_endpoint_key(const uint64_t seed[2], const pyddsi_endpoint *endpoint);

/* Writes the text of an endpoint, cut to `room` bytes and ended by a zero if room is not 0, as
 * pdi_print_message does. Answers how long it is in full, at most PDI_ENDPOINT_TEXT_MAX; 0 for
 * nowhere. */
size_t pdi_endpoint_print(const pyddsi_endpoint *endpoint, char *out, size_t room);

/* Reads a text of `size` bytes. PYDDSI_OK; PYDDSI_BAD_INPUT if it is not the text of an endpoint,
 * and then *endpoint has not changed. */
int pdi_endpoint_parse(const char *text, size_t size, pyddsi_endpoint *endpoint);

#endif
