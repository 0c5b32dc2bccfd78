/* frame.c - any bytes as the frames of a capture, of any link type.
 *
 * An input is a row of frames, each with a head of four bytes: link type, seconds since the one before, and how many bytes
 * it has. They go through two dissectors, of which one is carried over in a snapshot whenever the top bit of the seconds
 * says so. Both must find the same; what they find must lie inside the frame, or inside the memory of their assembly.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "capture/dissect.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { HEAD = 4, SNAPSHOT_MAX = 1 << 23 };

static const uint16_t links[] = {1, 101, 113, 276, 0, 108, 12, 14, 228, 229, 105, 147};

static struct pdi_dissector one, two;
static uint8_t *memory[2];
static uint8_t *snapshot;

static void begin(void)
{
    for (int i = 0; i < 2; i++) {
        if (memory[i] == NULL)
            memory[i] = malloc(pdi_pieces_size());
        MUST(memory[i] != NULL);
    }
    if (snapshot == NULL)
        snapshot = malloc(SNAPSHOT_MAX);
    MUST(snapshot != NULL);
    one = (struct pdi_dissector){.pieces = pdi_pieces_init(memory[0])};
    two = (struct pdi_dissector){.pieces = pdi_pieces_init(memory[1])};
}

/* The second dissector goes on from a snapshot of itself, which is the first one's too. */
static void carry_over(void)
{
    size_t size = pdi_pieces_store(two.pieces, snapshot, SNAPSHOT_MAX);
    MUST(size <= SNAPSHOT_MAX && pdi_pieces_store(one.pieces, NULL, 0) == size);
    MUST(pdi_pieces_load(two.pieces, snapshot, size) == PYDDSI_OK);
    MUST(pdi_pieces_store(two.pieces, NULL, 0) == size);
}

static int inside(const struct pdi_carried *carried, const uint8_t *data, size_t size)
{
    return carried->data >= data && carried->size <= size &&
           carried->data + carried->size <= data + size;
}

static void check(int status, const struct pdi_frame *frame, const struct pdi_carried *carried)
{
    MUST(status == PYDDSI_OK || status == PYDDSI_AGAIN || status == PYDDSI_END);
    MUST((status == PYDDSI_END) == (carried->other != PDI_OTHER_NONE));
    MUST(carried->other < PDI_OTHER_COUNT && carried->vlan < 4096);
    MUST(status != PYDDSI_AGAIN || carried->piece == PDI_PIECE_WAITS);
    if (status != PYDDSI_OK) {
        char text[48];
        pdi_other_print(carried->other, carried->detail, text, sizeof(text));
        MUST(strlen(text) < sizeof(text) - 1 && (status == PYDDSI_AGAIN || text[0] != '\0'));
        MUST(carried->source.kind == 0 && carried->target.kind == 0);
        return;
    }
    unsigned kind = carried->source.kind;
    MUST(kind == carried->target.kind && kind % 10 == carried->ip);
    MUST(carried->protocol == (kind > 10 ? 6 : 17));
    MUST(carried->size <= carried->whole && carried->whole <= PDI_FRAME_BYTES_MAX);
    if (carried->piece == PDI_PIECE_WHOLE)
        MUST(inside(carried, memory[0], pdi_pieces_size()) && carried->size == carried->whole);
    else
        MUST(carried->piece == PDI_PIECE_NONE && inside(carried, frame->data, frame->size));
}

static void compare(const struct pdi_carried *a, const struct pdi_carried *b)
{
    MUST(a->other == b->other && a->detail == b->detail && a->piece == b->piece);
    MUST(a->size == b->size && a->whole == b->whole);
    MUST(a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
    MUST(memcmp(one.others, two.others, sizeof(one.others)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t time_ns = 0;
    begin();
    while (size >= HEAD) {
        size_t bytes = (size_t)data[2] | (size_t)data[3] << 8;
        bytes = bytes < size - HEAD ? bytes : size - HEAD;
        uint8_t *copy = malloc(bytes + 1); /* so that a read past the end is seen */
        MUST(copy != NULL);
        memcpy(copy + 1, data + HEAD, bytes);
        time_ns += (data[1] & 0x7F) * INT64_C(1000000000);
        struct pdi_frame frame = {.data = copy + 1,
                                  .size = (uint32_t)bytes,
                                  .wire_size = (uint32_t)bytes,
                                  .link = links[data[0] % (sizeof(links) / sizeof(links[0]))],
                                  .time_ns = data[1] == 0x7F ? PDI_TIME_NONE : time_ns};
        struct pdi_carried first, second;
        if (data[1] & 0x80)
            carry_over();
        int status = pdi_dissect(&one, &frame, &first);
        check(status, &frame, &first);
        MUST(pdi_dissect(&two, &frame, &second) == status);
        compare(&first, &second);
        free(copy);
        data += HEAD + bytes;
        size -= HEAD + bytes;
    }
    MUST(pdi_pieces_fini(one.pieces) == pdi_pieces_fini(two.pieces));
    return 0;
}
