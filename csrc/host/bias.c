/* bias.c - the slow half of the lock: stopping the owner, and who becomes it. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/bias.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/spin.h"

#define LOOKS_MAX 16
#define SLEEP_NS  1000000 /* at most; the owner ends it when he leaves */

static void wait_for_owner(struct pdi_bias_seat *seat)
{
    const struct timespec time = {.tv_nsec = SLEEP_NS};
    for (int i = 0; pdi_atomic32_load_acquire(&seat->busy) != 0; i++) { /* he is not long inside */
        if (i < LOOKS_MAX) {
            pdi_spin_pause();
        } else {
            (void)syscall(SYS_futex, &seat->busy, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, &time, NULL,
                          0);
        }
    }
}

void pdi_bias_wake(struct pdi_bias_seat *seat)
{
    (void)syscall(SYS_futex, &seat->busy, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

/* The seat of this thread, which is a free one if it had none; 0 if all are taken. */
static uint32_t seat_of(struct pdi_bias *bias, uint64_t self)
{
    for (uint32_t i = 1; i < PDI_BIAS_SEATS; i++) {
        uint64_t owner = pdi_atomic64_load_relaxed(&bias->seats[i].owner);
        if (owner == self || owner == 0) {
            pdi_atomic64_store_relaxed(&bias->seats[i].owner, self);
            return i;
        }
    }
    return 0;
}

static void open_seat(struct pdi_bias *bias, uint32_t index)
{
    pdi_atomic32_store_relaxed(&bias->open, index);
    bias->stops = 0;
}

/* One more turn by the lock, after which another may be the owner. */
static void count(struct pdi_bias *bias, uint32_t uses, uint64_t self)
{
    if (bias->turns == 0 || uses != bias->seen) {
        bias->turns = 0;
        bias->mixed = 0;
        bias->seen = uses;
    } else {
        bias->mixed |= bias->last != self;
    }
    bias->last = self;
    if (++bias->turns == PDI_BIAS_TURNS) {
        bias->turns = 0;
        open_seat(bias, bias->mixed ? 0 : seat_of(bias, self));
    }
}

/* The owner has been stopped once more. If that was for few uses, his seat costs more than it saves. */
static void weigh(struct pdi_bias *bias, uint32_t uses)
{
    if (bias->stops == 0) {
        bias->since = uses;
    }
    if (++bias->stops > PDI_BIAS_TURNS) {
        uint32_t worth = PDI_BIAS_TURNS * PDI_BIAS_WORTH;
        open_seat(bias, uses - bias->since < worth ? 0 : pdi_atomic32_load_relaxed(&bias->open));
    }
}

void pdi_bias_take_slowly(struct pdi_bias *bias, uint64_t self)
{
    pdi_lock_take(&bias->lock);
    struct pdi_bias_seat *seat = &bias->seats[pdi_atomic32_load_relaxed(&bias->open)];
    uint64_t owner = pdi_atomic64_load_relaxed(&seat->owner);
    if (owner == self) {
        return;
    }
    if (owner != 0) {
        pdi_atomic32_store_relaxed(&seat->stop, 1);
        pdi_barrier_heavy();
        wait_for_owner(seat);
        weigh(bias, seat->uses);
    }
    if (bias->allowed) {
        count(bias, seat->uses, self);
    }
}

void pdi_bias_give_slowly(struct pdi_bias *bias)
{
    pdi_atomic32_store_release(&bias->seats[pdi_atomic32_load_relaxed(&bias->open)].stop, 0);
    pdi_lock_give(&bias->lock);
}
