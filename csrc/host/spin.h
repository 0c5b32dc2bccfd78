/* spin.h - looking again for a moment before going to sleep.
 *
 * To be woken costs the sleeper some tens of microseconds, and whoever wakes him a system call. Where what is waited for comes
 * every microsecond or two, both are saved by looking a little longer. Where it comes seldom, or where the other side needs
 * our processor to make it come, to look is a waste. So a waiter measures himself: each success doubles how long he will
 * look, up to what being woken costs, each failure halves it, down to nothing, and only now and then he tries again whether times
 * have changed.
 */
#ifndef PDI_HOST_SPIN_H
#define PDI_HOST_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

struct pdi_spin {
    uint32_t ns;    /* how long it is looked; 0: not at all, */
    uint32_t skips; /* and so often since it was */
    bool trial;     /* times may have changed: as long as it pays at all */
    bool alone;     /* there is one processor for all */
};

void pdi_spin_init(struct pdi_spin *spin);
/* Until when to look again; 0: do not. */
pdi_time pdi_spin_begin(struct pdi_spin *spin);
/* Between two looks. */
void pdi_spin_pause(void);
/* Whether it was worth while; only after a begin that did not answer 0. */
void pdi_spin_end(struct pdi_spin *spin, bool found);

#endif
