/* pieces.h - IP fragments wait here until the packet they were cut from is whole.
 *
 * One lost fragment leaves the rest waiting for ever, and the sender will use the same identity again
 * for another packet. So three things end a wait: too many others began, too long ago, or a different
 * fragment came for a place already taken. What is given up is counted, each fragment once; one that is captured twice
 * is not.
 *
 * Everything lies in the one block of memory that the caller gave, by positions and not by pointers, so
 * that the waiting may be stored in a snapshot and gone on with elsewhere.
 */
#ifndef PDI_CAPTURE_PIECES_H
#define PDI_CAPTURE_PIECES_H

#include <stddef.h>
#include <stdint.h>

#define PDI_PIECES_WAITING_MAX 64U    /* packets in pieces at one time; the oldest is given up */
#define PDI_PIECES_PACKET_MAX  65535U /* what an IP packet can hold */
#define PDI_PIECES_WAIT_NS     INT64_C(30000000000) /* as receivers do */

struct pdi_pieces; /* pieces.c */

struct pdi_piece_key {
    uint8_t source[16], target[16];
    uint32_t identity;
    uint8_t protocol;
    uint8_t ip;
    uint8_t unused[2];
};

/* Bytes of memory that the waiting takes; aligned to 8. */
size_t pdi_pieces_size(void);
struct pdi_pieces *pdi_pieces_init(void *memory);

/* A piece came: |size| bytes at |offset|, which is a multiple of eight, and |more| behind them. OK: it was the last one
 * missing, and |whole| is the packet's payload, good until the next call; AGAIN: it waits (or was there already).
 * |given_up| counts the pieces that this one has ended the wait of, itself among them if no packet can have it.
 * A time that is not known (PDI_TIME_NONE) ends no wait. */
int pdi_pieces_push(struct pdi_pieces *pieces, const struct pdi_piece_key *key, int64_t time_ns,
                    uint32_t offset, const uint8_t *data, uint32_t size, int more,
                    const uint8_t **whole, uint32_t *whole_size, uint32_t *given_up);

/* Nothing more comes: gives up all. Answers how many pieces waited. */
uint32_t pdi_pieces_fini(struct pdi_pieces *pieces);

/* The waiting as bytes, for a snapshot, and back. Writing answers the bytes it takes, written only as far as there is |room|.
 * Reading: OK, or BAD_INPUT for bytes that cannot be what was written (it is empty then). */
size_t pdi_pieces_store(const struct pdi_pieces *pieces, uint8_t *out, size_t room);
int pdi_pieces_load(struct pdi_pieces *pieces, const uint8_t *data, size_t size);

#endif
