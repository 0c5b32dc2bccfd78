/* atomic.h - the words that threads share.
 *
 * Each such word is a struct, so that `word + 1` or `word = 1` does not compile and every access
 * says its memory order by its name. There are few operations, because there are few ways in which
 * our threads share a word:
 *
 *     load_relaxed     the thread that alone writes the word reads it back; a first guess for cas
 *     load_acquire     see all that the writer did before its store_release
 *     store_relaxed    before anyone else knows the word
 *     store_release    show all that was done before
 *     cas              compare and swap: write `desired` if the word still holds *expected, else
 *                      bring *expected up to date; answers whether it wrote, and does not fail
 *                      without a reason (strong)
 *     add or and       change the word in one step; answer what it held before
 *
 * Those that change a word (cas, add, or, and) acquire and release at once. Nothing stronger is
 * offered: a protocol that needs one order over several words is put into one word here.
 *
 * The yield point. In a build for the simulator (PDI_SIM) each operation first calls the hook
 * pdi_yield, in which the simulator may let another thread go ahead, so that a seed chooses the
 * interleaving. Plain memory that the words guard (the slot of a ring) is shared too: whoever
 * touches it calls pdi_atomic_yield() before, so that guarding it in the wrong order can be found
 * as well. Without PDI_SIM nothing of this is left in the program.
 *
 * An interleaving of whole operations cannot show a memory order that is too weak; the thread
 * sanitizer can, and the tests run under both at once.
 *
 * Why not bare C11 atomics: `x = 1` on an _Atomic compiles, hides a full barrier and has no place
 * for a hook.
 */
#ifndef PDI_BASE_ATOMIC_H
#define PDI_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words that different threads write stand on different cache lines, or each write costs the others
 * a miss. */
#define PDI_CACHE_LINE    64
#define PDI_CACHE_ALIGNED _Alignas(PDI_CACHE_LINE)

/* A word in memory shared by two processes cannot hide a lock. */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "needs lock-free words");

#ifdef PDI_SIM

/* The hook. The simulator sets it before the first thread runs; no function means no yield. It is a
 * weak definition so that however many files are linked, they share one hook and no file has to be
 * its owner. */
struct pdi_yield {
    void (*call)(void *context);
    void *context;
};
__attribute__((weak)) struct pdi_yield pdi_yield;

/* The yield point. */
static inline void pdi_atomic_yield(void)
{
    if (pdi_yield.call != NULL) {
        pdi_yield.call(pdi_yield.context);
    }
}

#else

/* The yield point: in a build without a simulator, nothing. */
static inline void pdi_atomic_yield(void) {}

#endif

/* One word and its operations, for either width. */
#define PDI_ATOMIC_DEFINE(bits)                                                                    \
    struct pdi_atomic##bits {                                                                      \
        _Atomic uint##bits##_t only_in_atomic_h;                                                   \
    };                                                                                             \
                                                                                                   \
    static inline uint##bits##_t pdi_atomic##bits##_load_relaxed(                                  \
        const struct pdi_atomic##bits *word)                                                       \
    {                                                                                              \
        pdi_atomic_yield();                                                                        \
        return atomic_load_explicit(&word->only_in_atomic_h, memory_order_relaxed);                \
    }                                                                                              \
                                                                                                   \
    static inline uint##bits##_t pdi_atomic##bits##_load_acquire(                                  \
        const struct pdi_atomic##bits *word)                                                       \
    {                                                                                              \
        pdi_atomic_yield();                                                                        \
        return atomic_load_explicit(&word->only_in_atomic_h, memory_order_acquire);                \
    }                                                                                              \
                                                                                                   \
    static inline void pdi_atomic##bits##_store_relaxed(struct pdi_atomic##bits *word,             \
                                                        uint##bits##_t value)                      \
    {                                                                                              \
        pdi_atomic_yield();                                                                        \
        atomic_store_explicit(&word->only_in_atomic_h, value, memory_order_relaxed);               \
    }                                                                                              \
                                                                                                   \
    static inline void pdi_atomic##bits##_store_release(struct pdi_atomic##bits *word,             \
                                                        uint##bits##_t value)                      \
    {                                                                                              \
        pdi_atomic_yield();                                                                        \
        atomic_store_explicit(&word->only_in_atomic_h, value, memory_order_release);               \
    }                                                                                              \
                                                                                                   \
    static inline bool pdi_atomic##bits##_cas(struct pdi_atomic##bits *word,                       \
                                              uint##bits##_t *expected, uint##bits##_t desired)    \
    {                                                                                              \
        pdi_atomic_yield();                                                                        \
        return atomic_compare_exchange_strong_explicit(&word->only_in_atomic_h, expected, desired, \
                                                       memory_order_acq_rel,                       \
                                                       memory_order_acquire);                      \
    }                                                                                              \
                                                                                                   \
    static inline uint##bits##_t pdi_atomic##bits##_add(struct pdi_atomic##bits *word,             \
                                                        uint##bits##_t value)                      \
    {                                                                                              \
        pdi_atomic_yield();                                                                        \
        return atomic_fetch_add_explicit(&word->only_in_atomic_h, value, memory_order_acq_rel);    \
    }                                                                                              \
                                                                                                   \
    static inline uint##bits##_t pdi_atomic##bits##_or(struct pdi_atomic##bits *word,              \
                                                       uint##bits##_t mask)                        \
    {                                                                                              \
        pdi_atomic_yield();                                                                        \
        return atomic_fetch_or_explicit(&word->only_in_atomic_h, mask, memory_order_acq_rel);      \
    }                                                                                              \
                                                                                                   \
    static inline uint##bits##_t pdi_atomic##bits##_and(struct pdi_atomic##bits *word,             \
                                                        uint##bits##_t mask)                       \
    {                                                                                              \
        pdi_atomic_yield();                                                                        \
        return atomic_fetch_and_explicit(&word->only_in_atomic_h, mask, memory_order_acq_rel);     \
    }

PDI_ATOMIC_DEFINE(32)
PDI_ATOMIC_DEFINE(64)

#endif
