/* interleave.h - many threads played by one, switched where a seed says.
 *
 * Actors are coroutines. At every yield point of base/atomic.h the running actor goes back to the
 * stage, which draws who goes on; so one seed is one interleaving, and it can be played again.
 *
 *     interleave_run ──► actor 0 ── yield point ─┐
 *          ▲  draws who goes on                  │
 *          └─────────────────────────────────────┘
 *
 * Under the thread sanitizer each actor is a thread of its own to it (a fiber), and going from an
 * actor to the stage counts as no meeting at all: what one actor wrote and another reads without a
 * release and an acquire between them is then reported as a race, in an interleaving that the seed
 * repeats. So one test finds both a wrong order of operations and a memory order that is too weak.
 *
 * Whoever includes this is compiled with PDI_SIM. Actors must not check anything themselves, since
 * the counters of test.h are shared; they leave their findings where the test looks afterwards.
 */
#ifndef PDI_TEST_INTERLEAVE_H
#define PDI_TEST_INTERLEAVE_H

#ifndef PDI_SIM
#error "yield points exist only with PDI_SIM"
#endif

#include <stdbool.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/rand.h"

#define INTERLEAVE_ACTORS_MAX  4
#define INTERLEAVE_STACK_BYTES (256 * 1024)

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define INTERLEAVE_TSAN
#endif
#elif defined(__SANITIZE_THREAD__)
#define INTERLEAVE_TSAN
#endif

/* What the thread sanitizer is told: which fiber runs from here on, and whether the two meet. The
 * sanitizer notes each function's entry and end with the fiber that runs; therefore the change must
 * be inlined, or the function would end on another fiber than it began. */
#ifdef INTERLEAVE_TSAN
#include <sanitizer/tsan_interface.h>
static void *interleave_fiber_here(void)
{
    return __tsan_get_current_fiber();
}
static void *interleave_fiber_new(void)
{
    return __tsan_create_fiber(0);
}
__attribute__((always_inline)) static inline void interleave_fiber_go(void *fiber, bool meet)
{
    __tsan_switch_to_fiber(fiber, meet ? 0 : __tsan_switch_to_fiber_no_sync);
}
#else
static void *interleave_fiber_here(void)
{
    return NULL;
}
static void *interleave_fiber_new(void)
{
    return NULL;
}
static inline void interleave_fiber_go(void *fiber, bool meet)
{
    (void)fiber, (void)meet;
}
#endif

/* What an actor does. */
struct interleave_actor {
    void (*body)(void *context);
    void *context;
};

static struct {
    ucontext_t at;
    void *fiber;
    _Atomic unsigned current;
    struct {
        struct interleave_actor actor;
        ucontext_t at;
        void *fiber;
        bool ready; /* has a coroutine that waits for a body */
        bool done;
        _Alignas(64) char stack[INTERLEAVE_STACK_BYTES];
    } cast[INTERLEAVE_ACTORS_MAX];
} interleave_stage;

static unsigned interleave_current(void)
{
    return atomic_load_explicit(&interleave_stage.current, memory_order_relaxed);
}

/* Actor: back to the stage; returns when the actor's turn comes again. */
static void interleave_leave(bool meet)
{
    unsigned self = interleave_current();
    interleave_fiber_go(interleave_stage.fiber, meet);
    swapcontext(&interleave_stage.cast[self].at, &interleave_stage.at);
}

static void interleave_yield(void *context)
{
    (void)context;
    interleave_leave(false);
}

/* A coroutine plays one body after the other and never returns; the end of a body is a meeting. */
static void interleave_play(void)
{
    for (;;) {
        unsigned self = interleave_current();
        interleave_stage.cast[self].actor.body(interleave_stage.cast[self].actor.context);
        interleave_stage.cast[self].done = true;
        interleave_leave(true);
    }
}

/* Stage: lets one actor go on until its next yield point or its end. */
static void interleave_step(unsigned self)
{
    atomic_store_explicit(&interleave_stage.current, self, memory_order_relaxed);
    interleave_fiber_go(interleave_stage.cast[self].fiber, true);
    swapcontext(&interleave_stage.at, &interleave_stage.cast[self].at);
}

/* Draws one of the actors that are not done, of which there is at least one. */
static unsigned interleave_draw(struct pdi_rand *rand, unsigned count)
{
    unsigned waiting[INTERLEAVE_ACTORS_MAX] = {0};
    unsigned found = 0;
    for (unsigned self = 0; self < count; self++) {
        if (!interleave_stage.cast[self].done) {
            waiting[found++] = self;
        }
    }
    return waiting[pdi_rand_below(rand, found)];
}

/* Makes the coroutine of one actor. On its own and not inlined, since getcontext may return twice
 * in the eyes of the compiler, which then distrusts every variable near it. */
__attribute__((noinline)) static void interleave_prepare(unsigned self)
{
    getcontext(&interleave_stage.cast[self].at);
    interleave_stage.cast[self].at.uc_stack.ss_sp = interleave_stage.cast[self].stack;
    interleave_stage.cast[self].at.uc_stack.ss_size = INTERLEAVE_STACK_BYTES;
    makecontext(&interleave_stage.cast[self].at, interleave_play, 0);
    interleave_stage.cast[self].fiber = interleave_fiber_new();
    interleave_stage.cast[self].ready = true;
}

/* Plays `count` actors to their ends, or for `steps_max` steps if that is shorter; answers whether
 * all came to their ends. How long an actor usually stays on is drawn too, because some mistakes
 * show in quick changes and some only when one actor runs far ahead. */
static bool interleave_run(struct pdi_rand *rand, const struct interleave_actor *actors,
                           unsigned count, unsigned steps_max)
{
    uint64_t stay = pdi_rand_below(rand, 16);
    unsigned self = 0;
    unsigned left = count;
    interleave_stage.fiber = interleave_fiber_here();
    for (unsigned i = 0; i < count; i++) {
        interleave_stage.cast[i].actor = actors[i];
        interleave_stage.cast[i].done = false;
        if (!interleave_stage.cast[i].ready) {
            interleave_prepare(i);
        }
    }
    pdi_yield = (struct pdi_yield){interleave_yield, NULL};
    for (unsigned step = 0; step < steps_max && left > 0; step++) {
        if (interleave_stage.cast[self].done || !pdi_rand_chance(rand, stay, 16)) {
            self = interleave_draw(rand, count);
        }
        interleave_step(self);
        left -= interleave_stage.cast[self].done;
    }
    pdi_yield = (struct pdi_yield){NULL, NULL};
    for (unsigned i = 0; i < count; i++) {
        interleave_stage.cast[i].ready = interleave_stage.cast[i].done;
    }
    return left == 0;
}

#endif
