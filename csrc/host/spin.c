/* spin.c - see spin.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/spin.h"

#include <sched.h>

#include "host/clock.h"

#define LEAST_NS 1000U
#define MOST_NS  32000U /* about what being woken costs */
#define SKIPS    64U    /* sleeps between two trials */
#define PAUSES   8

void pdi_spin_init(struct pdi_spin *spin)
{
    cpu_set_t processors;
    *spin = (struct pdi_spin){.ns = LEAST_NS};
    spin->alone =
        sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) < 2;
}

pdi_time pdi_spin_begin(struct pdi_spin *spin)
{
    if (spin->alone) {
        return 0;
    }
    if (spin->ns == 0) {
        if (++spin->skips < SKIPS) {
            return 0;
        }
        spin->skips = 0;
        spin->trial = true;
        spin->ns = MOST_NS;
    }
    return pdi_time_add(pdi_clock_now(), spin->ns);
}

void pdi_spin_pause(void)
{
    for (int i = 0; i < PAUSES; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

void pdi_spin_end(struct pdi_spin *spin, bool found)
{
    spin->ns = found ? 2 * spin->ns : spin->trial ? 0 : spin->ns / 2;
    spin->ns = spin->ns > MOST_NS ? MOST_NS : spin->ns < LEAST_NS ? 0 : spin->ns;
    spin->trial = false;
}
