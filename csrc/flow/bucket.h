/* bucket.h - so many per second, and so many at once.
 *
 * A token bucket: tokens run in at `rate` per second until `burst` are there, and whoever wants to
 * do something takes as many as it costs or waits. After a pause a burst goes through at once; over
 * any time t never more than burst + rate * t.
 *
 *     rate ──► ┌─────────┐
 *              │ rest    │  less than one token, in parts of 10^-9
 *              │ tokens  │  0 .. burst ──► take
 *              └─────────┘
 *
 * The arithmetic is exact: in one nanosecond `rate` parts of 10^-9 tokens run in, and what does not
 * make a whole token yet is kept as the rest. So it makes no difference how often anybody looks,
 * and a day of single nanoseconds gives as many tokens as one day.
 *
 * Invariants: tokens <= burst; rest < 10^9, and 0 when the bucket is full, for what runs over is
 * lost. rate and burst are at most PDI_BUCKET_MAX, so all products fit 64 bits.
 *
 * A `now` before the last one changes nothing: time does not run back, and tokens that were given
 * are not given again.
 */
#ifndef PDI_FLOW_BUCKET_H
#define PDI_FLOW_BUCKET_H

#include "base/time.h"
#include "pyddsi.h"

#define PDI_BUCKET_MAX UINT32_MAX

struct pdi_bucket {
    uint64_t rate; /* tokens per second; 0: none ever runs in */
    uint64_t burst;
    uint64_t tokens;
    uint64_t rest;  /* of a token, in parts of 10^-9 */
    pdi_time since; /* when the two above were true */
};

/* Starts full.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT if burst is 0, or one of both over PDI_BUCKET_MAX. */
int pdi_bucket_init(struct pdi_bucket *bucket, uint64_t rate, uint64_t burst, pdi_time now);

/* Takes `count` tokens, all or none.
 * PYDDSI_OK; PYDDSI_AGAIN if not so many are there. */
int pdi_bucket_take(struct pdi_bucket *bucket, uint64_t count, pdi_time now);

/* When `count` tokens will be there if nobody takes any: a take succeeds then, and not before.
 * PDI_TIME_NEVER if the bucket does not hold so many, or none run in. In the past if they are there
 * already. */
pdi_time pdi_bucket_due(const struct pdi_bucket *bucket, uint64_t count);

#endif
