/* match.c - two globs walked together, sixty-four positions at a time.
 *
 * Let (i, j) mean: some string satisfies the first i bytes of pattern a and the first j bytes of b.
 * The patterns have something in common when (|a|, |b|) holds. All that holds follows from (0, 0)
 * by four moves:
 *
 *     skip     over a star of either side, which then stands for nothing: (i+1, j) or (i, j+1)
 *     a eats   the star a[i] takes a character of b[j]:                   (i, j+1)
 *     b eats   the star b[j] takes a character of a[i]:                   (i+1, j)
 *     fit      some character is both a[i] and b[j]:                      (i+1, j+1)
 *
 * '**' eats everything and '*' everything but '/'. A position is simply a byte: a star before
 * another star counts as '**', and '**' followed by '*' is the same language as '**'. Two stars
 * that eat the same character stay where they are.
 *
 * Row j is the set of the i for which (i, j) holds, one bit each. Each row is made from the row
 * before it by a few operations on whole words:
 *
 *     b[j] is a star   the row floods over the bytes that b[j] eats and the stars of a; the
 *                      flooded row is the next row too (b eats, skip in a, skip in b)
 *     else             bits at a star that eats b[j] stay (a eats), bits at a byte that fits go
 *                      up by one (fit), then the row floods over the stars of a (skip in a)
 *
 * To flood is to let each bit climb as long as the byte at it can be passed. One addition does it
 * for all runs of passable bytes: put the bits on top of the mask of what can be passed, and a
 * carry runs from the lowest bit in each run to the first byte that stops it. Where the sum differs
 * from the mask there was a carry, or a bit to begin with.
 *
 *     pass          0 1 1 1 1 0 1 1
 *     set & pass    0 0 0 1 0 0 0 0
 *     sum           1 0 0 0 1 0 1 1
 *     flooded       1 1 1 1 0 0 0 0
 *
 * Names have up to PDI_NAME_MAX bytes, a word has 64 bits. Bits only ever climb; so one block of a
 * is walked through all of b before the next block, and all that a block must tell the next is for
 * each row whether the next block's first position is reached: one byte per row, no arithmetic over
 * many words, and the masks of one block at a time.
 *
 * Bound. Let p be the number of bytes that the patterns share in front before any wildcard. They
 * are compared once each and cut off. What is left of a has (|a|-p) / 64 + 1 blocks, for its end is
 * a position, too. A block takes one step for each of its bytes to make the masks, and one step of
 * at most two floods and no loop for each byte left of b. Together that is no more than
 *     p + (|a|-p) + ((|a|-p) / 64 + 1) x (|b|-p)  <=  |a| + (|a| / 64 + 1) x |b|
 * steps, and a block clears its masks, which is a constant. The content of the patterns can save
 * steps in front but never add one. The stack holds two arrays, 3 KB together.
 *
 * Why not backtrack, as most globs do: two patterns full of stars take exponential time. Why not
 * compile a pattern once and keep it: the masks cost less than the walk, and what is kept must be
 * owned by somebody.
 */
#include "wire/match.h"

#include <string.h>

#include "base/check.h"
#include "wire/name.h"

enum { BLOCK = 64 };

/* Sixty-four bytes of a pattern: where each byte value stands, and which stars eat '/', too. */
struct block {
    uint64_t of[256];
    uint64_t deep;
};

static bool is_wild(uint8_t c)
{
    return c == '*' || c == '?';
}

/* Whether the star at `at` counts as '**'. */
static bool is_deep(pyddsi_bytes pattern, size_t at)
{
    return at + 1 < pattern.size && pattern.data[at + 1] == '*';
}

static void block_init(struct block *block, pyddsi_bytes pattern, size_t base)
{
    memset(block, 0, sizeof *block);
    for (size_t i = base; i < pattern.size && i < base + BLOCK; i++) {
        uint64_t bit = UINT64_C(1) << (i - base);
        block->of[pattern.data[i]] |= bit;
        if (pattern.data[i] == '*' && is_deep(pattern, i))
            block->deep |= bit;
    }
}

/* The bytes that have a character in common with c, which is no star. With '?' that is all but '/':
 * to let a star fit, too, says only that it eats one character and is then skipped. */
static uint64_t block_fits(const struct block *block, uint8_t c)
{
    if (c == '?')
        return ~block->of['/'];
    return block->of[c] | (c == '/' ? 0 : block->of['?']);
}

/* The bits of set, and those that they climb to over bits of pass. */
static uint64_t flood(uint64_t set, uint64_t pass)
{
    return set | ((pass + (set & pass)) ^ pass);
}

/* The walk over the rows of b, for each block of a. */
static bool walk(pyddsi_bytes a, pyddsi_bytes b, uint64_t *steps)
{
    struct block block;
    uint8_t from_below[PDI_NAME_MAX + 1];
    uint64_t rows = 0;
    memset(from_below, 0, b.size + 1);
    from_below[0] = 1; /* (0, 0) holds */
    for (size_t base = 0;; base += BLOCK) {
        block_init(&block, a, base);
        uint64_t star = block.of['*'];
        uint64_t row = flood(from_below[0], star);
        from_below[0] = (uint8_t)((row & star) >> (BLOCK - 1));
        for (size_t j = 0; j < b.size; j++, rows++) {
            uint8_t c = b.data[j];
            uint64_t up;
            if (c == '*') {
                uint64_t pass = is_deep(b, j) ? UINT64_MAX : ~block.of['/'];
                row = flood(row | from_below[j + 1], pass);
                up = row & pass;
            } else {
                uint64_t fits = row & block_fits(&block, c);
                uint64_t stay = row & (c == '/' ? block.deep : star);
                row = flood(fits << 1 | stay | from_below[j + 1], star);
                up = fits | (row & star);
            }
            from_below[j + 1] = (uint8_t)(up >> (BLOCK - 1));
        }
        if (a.size - base < BLOCK) {
            *steps += rows + a.size;
            return row >> (a.size - base) & 1;
        }
    }
}

bool pdi_match_count(pyddsi_bytes a, pyddsi_bytes b, uint64_t *steps)
{
    PDI_CHECK(a.size <= PDI_NAME_MAX && b.size <= PDI_NAME_MAX);
    if (a.size > PDI_NAME_MAX || b.size > PDI_NAME_MAX)
        return false;
    while (a.size > 0 && b.size > 0 && !is_wild(*a.data) && !is_wild(*b.data)) {
        ++*steps;
        if (*a.data++ != *b.data++)
            return false;
        a.size--;
        b.size--;
    }
    return walk(a, b, steps);
}
