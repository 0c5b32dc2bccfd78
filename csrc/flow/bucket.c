/* bucket.c - so many per second, and so many at once. */
#include "flow/bucket.h"

/* Lets in what has run in until now. Whole seconds and the rest of the time apart, because their
 * product with the rate would not fit; so many seconds as there are tokens missing fill the bucket
 * at any rate, and fewer times the rate fit. */
static void fill(struct pdi_bucket *bucket, pdi_time now)
{
    if (now <= bucket->since) {
        return;
    }
    uint64_t seconds = (now - bucket->since) / PDI_TIME_S;
    uint64_t parts = (now - bucket->since) % PDI_TIME_S * bucket->rate + bucket->rest;
    uint64_t room = bucket->burst - bucket->tokens;
    bucket->since = now;
    if (bucket->rate == 0) {
        return;
    }
    uint64_t more = seconds < room ? seconds * bucket->rate + parts / PDI_TIME_S : room;
    if (more >= room) {
        bucket->tokens = bucket->burst;
        bucket->rest = 0;
    } else {
        bucket->tokens += more;
        bucket->rest = parts % PDI_TIME_S;
    }
}

int pdi_bucket_init(struct pdi_bucket *bucket, uint64_t rate, uint64_t burst, pdi_time now)
{
    if (burst == 0 || burst > PDI_BUCKET_MAX || rate > PDI_BUCKET_MAX) {
        return PYDDSI_BAD_ARGUMENT;
    }
    *bucket = (struct pdi_bucket){.rate = rate, .burst = burst, .tokens = burst, .since = now};
    return PYDDSI_OK;
}

int pdi_bucket_take(struct pdi_bucket *bucket, uint64_t count, pdi_time now)
{
    fill(bucket, now);
    if (count > bucket->tokens) {
        return PYDDSI_AGAIN;
    }
    bucket->tokens -= count;
    return PYDDSI_OK;
}

pdi_time pdi_bucket_due(const struct pdi_bucket *bucket, uint64_t count)
{
    if (count <= bucket->tokens) {
        return bucket->since;
    }
    if (count > bucket->burst || bucket->rate == 0) {
        return PDI_TIME_NEVER;
    }
    uint64_t parts = (count - bucket->tokens) * PDI_TIME_S - bucket->rest;
    return pdi_time_add(bucket->since, (parts + bucket->rate - 1) / bucket->rate);
}
