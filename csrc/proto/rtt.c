/* rtt.c - how long an answer takes: the arithmetic, in signed whole nanoseconds. */
#include "proto/rtt.h"

static void start(struct pdi_rtt *rtt, pdi_time first, uint64_t samples)
{
    rtt->smooth = first < PDI_RTT_MAX ? first : PDI_RTT_MAX;
    rtt->variation = rtt->smooth / 2;
    rtt->samples = samples;
}

void pdi_rtt_init(struct pdi_rtt *rtt, pdi_time guess)
{
    start(rtt, guess, 0);
}

void pdi_rtt_sample(struct pdi_rtt *rtt, pdi_time took)
{
    if (rtt->samples == 0) {
        start(rtt, took, 1);
        return;
    }
    took = took < PDI_RTT_MAX ? took : PDI_RTT_MAX;
    int64_t off = (int64_t)took - (int64_t)rtt->smooth;
    int64_t variation = (int64_t)rtt->variation;
    variation += ((off < 0 ? -off : off) - variation) / 4;
    rtt->variation = (pdi_time)variation;
    rtt->smooth = (pdi_time)((int64_t)rtt->smooth + off / 8);
    rtt->samples++;
}
