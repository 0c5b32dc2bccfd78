/* rtt.h - how long an answer takes.
 *
 * Two moving means, as every TCP keeps them (RFC 6298): of the round trip, and of how far the last
 * round trips were off it.
 *
 *     variation += (|took - smooth| - variation) / 4        then
 *     smooth    += (took - smooth) / 8
 *
 * The first real round trip replaces the guess of the configuration altogether, for a guess is no
 * measurement. Until then, and after, half of it is taken for the variation.
 *
 * What it is for: after pdi_rtt_wait without an answer a question was probably lost, and it is time
 * to ask again. Asking too early costs packets for nothing and, when a network is slow because it
 * is full, fills it further; asking too late costs only time. So the wait has three margins of
 * which the largest counts: four variations; an eighth of the round trip, for lines so even that
 * the variation comes near 0; 50 microseconds, since below that it is the machines that vary and
 * not the line.
 *
 * Invariants: smooth and variation are at most PDI_RTT_MAX, so no sum here overflows. Divisions
 * round towards the value at hand: a constant round trip is approached up to 7 ns and then kept.
 *
 * There is no doubling here when a question stays without an answer (Karn's second half): that is
 * for those who count the questions.
 */
#ifndef PDI_PROTO_RTT_H
#define PDI_PROTO_RTT_H

#include "base/time.h"

/* What takes longer is no round trip: a machine was stopped in between. It counts as so much. */
#define PDI_RTT_MAX (UINT64_C(60) * PDI_TIME_S)

#define PDI_RTT_MARGIN_MIN (UINT64_C(50) * PDI_TIME_US)
#define PDI_RTT_WAIT_MAX   PDI_TIME_S

struct pdi_rtt {
    pdi_time smooth;
    pdi_time variation;
    uint64_t samples; /* 0: still the first guess */
};

/* Starts with a guess. */
void pdi_rtt_init(struct pdi_rtt *rtt, pdi_time guess);

/* An answer took this long. It must be certain which question it answers: never call it for one
 * that was asked twice, or the answer to the first would pass for a quick one to the second. */
void pdi_rtt_sample(struct pdi_rtt *rtt, pdi_time took);

/* After how long without an answer it makes sense to ask again: smooth + max(4 variation, smooth /
 * 8, PDI_RTT_MARGIN_MIN), at most PDI_RTT_WAIT_MAX. */
static inline pdi_time pdi_rtt_wait(const struct pdi_rtt *rtt)
{
    pdi_time margin = 4 * rtt->variation;
    margin = margin < rtt->smooth / 8 ? rtt->smooth / 8 : margin;
    margin = margin < PDI_RTT_MARGIN_MIN ? PDI_RTT_MARGIN_MIN : margin;
    pdi_time wait = rtt->smooth + margin;
    return wait < PDI_RTT_WAIT_MAX ? wait : PDI_RTT_WAIT_MAX;
}

#endif
