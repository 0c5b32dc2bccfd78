/* frame.h - one packet as a capture file has it.
 *
 * The words on the way from a file to the protocol:
 *
 *     file ──► frame ──► carried ──► packet ──► message
 *              one record  what UDP    bytes of    wire/decode.h
 *              of the file or TCP      one peer
 *                          carries     of ours
 *
 * All of them are views: the bytes stay in the block that the caller read, until the next call.
 */
#ifndef PDI_CAPTURE_FRAME_H
#define PDI_CAPTURE_FRAME_H

#include <stdint.h>

#include "pyddsi.h"

/* A frame without a time, as in pcapng's simple packet blocks. */
#define PDI_TIME_NONE INT64_MIN

/* The longest frame that is believed, which is tcpdump's own limit. */
#define PDI_FRAME_BYTES_MAX (UINT32_C(256) << 10)

enum pdi_direction { PDI_WAY_UNKNOWN, PDI_WAY_IN, PDI_WAY_OUT };

struct pdi_frame {
    uint64_t number; /* from 1 through the whole file, as Wireshark counts */
    uint64_t offset; /* of its record or block in the file, unpacked */
    int64_t time_ns; /* since 1970, or PDI_TIME_NONE */
    const uint8_t *data;
    uint32_t size;        /* bytes that were captured, without the check sequence at the end */
    uint32_t wire_size;   /* bytes that it had on the wire, as the file tells; may be anything */
    uint16_t link;        /* LINKTYPE_... */
    uint16_t interface;   /* of its section; 0 in a pcap file */
    uint8_t direction;    /* enum pdi_direction, from pcapng's flags */
    uint8_t stranger;     /* 1: a block that counts as a frame and holds no packet (size is 0) */
    uint32_t block_kind;  /* of a stranger */
    pyddsi_bytes options; /* pcapng: the options of its block, else empty */
};

#endif
