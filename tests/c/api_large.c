/* Samples larger than any window, from the first on by shared memory. */
#include "live.h"

/* Samples larger than any window would all go by the sockets, since while one does nobody can join the lane, and the next one follows
 * at once. */
static uint64_t large_by_the_lane(void)
{
    enum { SAMPLES = 5, SIZE = 1 << 20 };
    static uint8_t data[SIZE];
    live_next_group();
    pyddsi_session *a = live_session(true);
    pyddsi_session *b = live_session(true);
    uint32_t publisher = live_publisher(a, 7, true);
    struct live_reader reader = {
        .session = b, .subscriber = live_subscriber(b, 7, 256, PYDDSI_WAIT), .until = SAMPLES};
    (void)live_match(a, publisher, 1);
    live_read_begin(&reader);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        live_fill(data, SIZE, 0, i);
        NEED(pyddsi_session_put_large(a, publisher, data, SIZE, LIVE_PATIENCE) == PYDDSI_OK);
    }
    live_read_join(&reader);
    CHECK_EQ(reader.wrong, 0);
    CHECK_EQ(reader.total, SAMPLES);
    uint64_t by_lane = live_lane_put(a);
    pyddsi_session_free(a);
    pyddsi_session_free(b);
    return by_lane;
}

int main(void)
{
    enum { ROUNDS = 10 };
    uint64_t by_lane = 0;
    for (int round = 0; round < ROUNDS; round++) {
        by_lane += large_by_the_lane();
    }
    printf("%" PRIu64 " of the large ones went by the lane\n", by_lane);
    CHECK(by_lane >= 4 * ROUNDS); /* of five each: somebody may be late now and then */
    return test_result();
}
