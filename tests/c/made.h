/* made.h - packets made by hand for the tests of the capture room, from the inside out.
 *
 *     made_begin(&made, "hello", 5);  made_udp(&made, -1);  made_ipv4(&made, 17, 0, 1, -1);  made_ethernet(&made, 0x0800);
 *
 * Each layer is put in front of what is there. Whatever a real writer may get wrong can be said: a length, an offset.
 * Checksums are left zero, as they are in captures taken before the network card filled them in.
 */
#ifndef PDI_MADE_H
#define PDI_MADE_H

#include <stdint.h>
#include <string.h>

enum { MADE_FRONT = 400, MADE_ROOM = 80000 };
enum { MADE_HERE = 40000, MADE_THERE = 7447 }; /* ports */

struct made {
    uint8_t room[MADE_ROOM];
    uint8_t *data;
    uint32_t size;
};

static inline void made_begin(struct made *made, const void *data, uint32_t size)
{
    made->data = made->room + MADE_FRONT;
    made->size = size;
    if (size != 0)
        memcpy(made->data, data, size);
}

static inline void made_front(struct made *made, const void *data, uint32_t size)
{
    made->data -= size;
    made->size += size;
    memcpy(made->data, data, size);
}

static inline void made_put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* UDP; a length below zero is the right one. */
static inline void made_udp(struct made *made, int length)
{
    uint8_t header[8] = {0};
    made_put16(header, MADE_HERE);
    made_put16(header + 2, MADE_THERE);
    made_put16(header + 4, length < 0 ? made->size + 8 : (unsigned)length);
    made_front(made, header, sizeof(header));
}

/* TCP; |words| is its header's length as it says. */
static inline void made_tcp(struct made *made, uint32_t sequence, unsigned flags, unsigned words)
{
    uint8_t header[20] = {0};
    made_put16(header, MADE_HERE);
    made_put16(header + 2, MADE_THERE);
    made_put16(header + 4, sequence >> 16);
    made_put16(header + 6, sequence & 0xFFFF);
    header[12] = (uint8_t)(words << 4);
    header[13] = (uint8_t)flags;
    made_front(made, header, sizeof(header));
}

/* IPv4 from 10.0.0.1 to 10.0.0.2; |place| is the field of the fragment's flags and offset. */
static inline void made_ipv4(struct made *made, unsigned protocol, unsigned place,
                             unsigned identity, int length)
{
    uint8_t header[20] = {0x45, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
    made_put16(header + 2, length < 0 ? made->size + 20 : (unsigned)length);
    made_put16(header + 4, identity);
    made_put16(header + 6, place);
    header[9] = (uint8_t)protocol;
    made_front(made, header, sizeof(header));
}

/* An extension header of IPv6, which says that |protocol| follows; |rest| is what stands behind that. */
static inline void made_extension(struct made *made, unsigned protocol, const void *rest,
                                  uint32_t size)
{
    uint8_t first = (uint8_t)protocol;
    made_front(made, rest, size);
    made_front(made, &first, 1);
}

/* IPv6 from fe80::1 to ff02::7447. */
static inline void made_ipv6(struct made *made, unsigned protocol, int length)
{
    uint8_t header[40] = {0x60};
    made_put16(header + 4, length < 0 ? made->size : (unsigned)length);
    header[6] = (uint8_t)protocol;
    header[7] = 64;
    made_put16(header + 8, 0xFE80);
    header[23] = 1;
    made_put16(header + 24, 0xFF02);
    made_put16(header + 38, 0x7447);
    made_front(made, header, sizeof(header));
}

/* A tag of VLAN |number|, or whatever else has an ethertype in front; |follows| is what comes behind it. */
static inline void made_tag(struct made *made, unsigned number, unsigned follows)
{
    uint8_t tag[4];
    made_put16(tag, number);
    made_put16(tag + 2, follows);
    made_front(made, tag, sizeof(tag));
}

/* Ethernet, padded to the 60 bytes a card sends. */
static inline void made_ethernet(struct made *made, unsigned kind)
{
    uint8_t header[14] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};
    made_put16(header + 12, kind);
    made_front(made, header, sizeof(header));
    for (; made->size < 60; made->size++)
        made->data[made->size] = 0xEE;
}

#endif
