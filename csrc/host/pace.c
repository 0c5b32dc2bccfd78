/* pace.c - see pace.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/pace.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ring_spsc.h"
#include "host/bell.h"
#include "host/clock.h"
#include "host/port_many.h"
#include "host/port_state.h"
#include "host/thread.h"

#define FAR  (20 * PDI_TIME_MS) /* so far from a deadline a stop must be able to wake the thread */
#define IDLE PDI_TIME_S         /* nobody sleeps for ever by a bell that others ring */
#define PATIENCE PDI_TIME_S     /* how long room in the system's buffer is waited for */
#define LEAD     PDI_TIME_MS    /* until the thread is there */

struct batch {
    const pyddsi_replay_packet *packets;
    const uint8_t *data;
    uint64_t count;
    uint64_t base_ns;
};

struct way {
    struct pdi_port *port;
    pyddsi_endpoint to;
};

/* The padding is wanted. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pdi_pace {
    /* of who fills */
    uint32_t sockets;
    uint32_t ways;
    bool alone; /* one processor: to look at the clock would keep others from it */
    bool flat_out;
    uint64_t spin_ns;
    pdi_time begun; /* before there is a thread */
    struct pdi_thread thread;
    struct pdi_port *port[PYDDSI_REPLAY_SOCKETS_MAX];
    struct way way[PYDDSI_REPLAY_WAYS_MAX]; /* shown by what is pushed behind */
    struct batch slots[PDI_PACE_BATCHES_MAX];
    /* of both */
    struct pdi_ring_spsc ring;
    struct pdi_bell work; /* something was pushed, or it is over */
    struct pdi_bell news; /* a batch is done, or all of them */
    struct pdi_atomic32 finishing, stopping, ended;
    /* of the thread, read by all */
    struct pdi_atomic64 last, sent, bytes, full, failed, starved, done, late_max, drift;
    uint64_t late[PDI_HISTOGRAM_SLOTS]; /* read when it has ended */
};

int pdi_pace_open(struct pdi_pace **pace, uint64_t spin_ns, bool flat_out, char *text, size_t room)
{
    cpu_set_t processors;
    struct pdi_pace *fresh = aligned_alloc(64, (sizeof(*fresh) + 63) / 64 * 64);
    *pace = NULL;
    if (fresh == NULL) {
        (void)snprintf(text, room, "no memory is left to replay with (%zu KiB)",
                       sizeof(*fresh) >> 10);
        return PYDDSI_NO_SPACE;
    }
    memset(fresh, 0, sizeof(*fresh));
    pdi_bell_init(&fresh->work);
    pdi_bell_init(&fresh->news);
    (void)pdi_ring_spsc_init(&fresh->ring, fresh->slots, sizeof fresh->slots, PDI_PACE_BATCHES_MAX,
                             sizeof(struct batch)); /* its arguments are constants that fit */
    fresh->spin_ns = spin_ns;
    fresh->flat_out = flat_out;
    fresh->alone =
        sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) < 2;
    *pace = fresh;
    return PYDDSI_OK;
}

int pdi_pace_socket(struct pdi_pace *pace, int fd, uint8_t family, uint32_t scope)
{
    if (family != PDI_PORT_IPV4 && family != PDI_PORT_IPV6) {
        return PYDDSI_BAD_ARGUMENT;
    }
    struct pdi_port *port = pace->sockets < PYDDSI_REPLAY_SOCKETS_MAX ? malloc(sizeof *port) : NULL;
    if (port == NULL) {
        return PYDDSI_NO_SPACE;
    }
    pdi_port_lend(port, fd, family, scope);
    pace->port[pace->sockets] = port;
    return (int)pace->sockets++;
}

int pdi_pace_way(struct pdi_pace *pace, uint32_t socket, const pyddsi_endpoint *to)
{
    if (socket >= pace->sockets || to->kind != pace->port[socket]->family) {
        return PYDDSI_BAD_ARGUMENT;
    }
    if (pace->ways == PYDDSI_REPLAY_WAYS_MAX) {
        return PYDDSI_NO_SPACE;
    }
    pace->way[pace->ways] = (struct way){.port = pace->port[socket], .to = *to};
    return (int)pace->ways++;
}

int pdi_pace_push(struct pdi_pace *pace, const pyddsi_replay_packet *packets, uint64_t count,
                  const uint8_t *data, size_t size, uint64_t base_ns)
{
    struct batch batch = {.packets = packets, .data = data, .count = count, .base_ns = base_ns};
    for (uint64_t i = 0; i < count; i++) {
        const pyddsi_replay_packet *one = &packets[i];
        if (one->way >= pace->ways || one->at > size || one->size > size - one->at) {
            return PYDDSI_BAD_ARGUMENT;
        }
    }
    if (pdi_ring_spsc_push(&pace->ring, &batch) != PYDDSI_OK) {
        return PYDDSI_AGAIN;
    }
    pdi_ring_spsc_publish(&pace->ring);
    (void)pdi_bell_ring(&pace->work);
    return PYDDSI_OK;
}

/* ---- the thread ---- */

static bool stopped(struct pdi_pace *pace)
{
    return pdi_atomic32_load_acquire(&pace->stopping) != 0;
}

/* Waits for a deadline; false: it was stopped. */
static bool wait_until(struct pdi_pace *pace, pdi_time due)
{
    uint64_t spin = pace->alone ? 0 : pace->spin_ns;
    for (;;) { /* each round sleeps, or ends it */
        pdi_time now = pdi_clock_now();
        if (now >= due) {
            return !stopped(pace);
        }
        if (due - now > FAR) {
            uint32_t heard = pdi_bell_listen(&pace->work);
            if (stopped(pace)) {
                pdi_bell_unlisten(&pace->work);
                return false;
            }
            (void)pdi_bell_wait(&pace->work, heard, due - now - FAR / 2);
        } else if (due - now > spin) {
            pdi_time until = due - spin;
            struct timespec time = {.tv_sec = (time_t)(until / PDI_TIME_S),
                                    .tv_nsec = (long)(until % PDI_TIME_S)};
            (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
        }
    }
}

/* The next batch; false: there is none any more. */
static bool next(struct pdi_pace *pace, struct batch *batch)
{
    bool starving = false;
    while (!stopped(pace)) { /* each round sleeps, or ends it */
        uint32_t heard = pdi_bell_listen(&pace->work);
        bool last = pdi_atomic32_load_acquire(&pace->finishing) != 0;
        bool found = pdi_ring_spsc_pop(&pace->ring, batch) == PYDDSI_OK;
        if (found || last || stopped(pace)) {
            pdi_bell_unlisten(&pace->work);
            return found;
        }
        if (!starving) {
            (void)pdi_atomic64_add(&pace->starved, 1);
            starving = true;
        }
        (void)pdi_bell_wait(&pace->work, heard, IDLE);
    }
    return false;
}

/* So late was a packet. */
static void note(struct pdi_pace *pace, uint64_t late)
{
    pace->late[pdi_histogram_slot(late)]++;
    if (late > pdi_atomic64_load_relaxed(&pace->late_max)) {
        pdi_atomic64_store_relaxed(&pace->late_max, late);
    }
    pdi_atomic64_store_relaxed(&pace->drift, late);
}

/* Sends what has come due from packet `at` on and leaves by one socket. Answers how many packets that were. */
static uint64_t send_some(struct pdi_pace *pace, const struct batch *batch, uint64_t at)
{
    struct pdi_port_packet packets[PDI_PORT_MANY_MAX];
    struct pdi_port *port = pace->way[batch->packets[at].way].port;
    pdi_time now = pace->flat_out ? PDI_TIME_NEVER : pdi_clock_now();
    uint64_t bytes = 0;
    uint32_t count = 0;
    while (count < PDI_PORT_MANY_MAX && at + count < batch->count) {
        const pyddsi_replay_packet *one = &batch->packets[at + count];
        const struct way *way = &pace->way[one->way];
        pdi_time due = pdi_time_add(pace->begun, pdi_time_add(batch->base_ns, one->due_ns));
        if (way->port != port || due > now) {
            break;
        }
        if (!pace->flat_out) {
            note(pace, now - due);
        }
        packets[count++] = (struct pdi_port_packet){batch->data + one->at, one->size, way->to};
        bytes += one->size;
    }
    struct pdi_port_result result = pdi_port_send_many(port, packets, count, PATIENCE);
    pdi_atomic64_store_relaxed(&pace->last, pdi_clock_now());
    (void)pdi_atomic64_add(&pace->sent, count - result.full - result.failed);
    (void)pdi_atomic64_add(&pace->bytes, bytes);
    (void)pdi_atomic64_add(&pace->full, result.full);
    (void)pdi_atomic64_add(&pace->failed, result.failed);
    return count;
}

static void run(void *context)
{
    struct pdi_pace *pace = context;
    struct batch batch;
    while (next(pace, &batch)) {
        for (uint64_t at = 0;
             at < batch.count;) { /* each round sends one packet or more, or ends */
            pdi_time after = pdi_time_add(batch.base_ns, batch.packets[at].due_ns);
            if (pace->flat_out ? stopped(pace)
                               : !wait_until(pace, pdi_time_add(pace->begun, after))) {
                break;
            }
            at += send_some(pace, &batch, at);
        }
        pdi_ring_spsc_release(&pace->ring);
        (void)pdi_atomic64_add(&pace->done, 1);
        (void)pdi_bell_ring(&pace->news);
    }
    pdi_atomic32_store_release(&pace->ended, 1);
    (void)pdi_bell_ring(&pace->news);
}

/* ---- from outside ---- */

int pdi_pace_begin(struct pdi_pace *pace, char *text, size_t room)
{
    pace->begun = pdi_time_add(pdi_clock_now(), pace->flat_out ? 0 : LEAD);
    return pdi_thread_start(&pace->thread, "pyddsi pace", run, pace, text, room);
}

void pdi_pace_finish(struct pdi_pace *pace)
{
    pdi_atomic32_store_release(&pace->finishing, 1);
    (void)pdi_bell_ring(&pace->work);
}

void pdi_pace_stop(struct pdi_pace *pace)
{
    pdi_atomic32_store_release(&pace->stopping, 1);
    (void)pdi_bell_ring(&pace->work);
}

int pdi_pace_wait(struct pdi_pace *pace, uint64_t done, uint64_t timeout_ns)
{
    pdi_time until = pdi_time_add(pdi_clock_now(), timeout_ns);
    for (;;) { /* each round sleeps, or ends it */
        uint32_t heard = pdi_bell_listen(&pace->news);
        pdi_time now = pdi_clock_now();
        bool over = pdi_atomic64_load_acquire(&pace->done) >= done ||
                    pdi_atomic32_load_acquire(&pace->ended) != 0;
        if (over || now >= until) {
            pdi_bell_unlisten(&pace->news);
            return over ? PYDDSI_OK : PYDDSI_AGAIN;
        }
        uint64_t left = pdi_time_until(now, until);
        if (pdi_bell_wait(&pace->news, heard, left < IDLE ? left : IDLE) == PYDDSI_END) {
            return PYDDSI_END;
        }
    }
}

void pdi_pace_count(struct pdi_pace *pace, pyddsi_replay_counts *counts)
{
    *counts = (pyddsi_replay_counts){
        .begun_ns = pace->begun,
        .last_ns = pdi_atomic64_load_relaxed(&pace->last),
        .sent = pdi_atomic64_load_relaxed(&pace->sent),
        .bytes = pdi_atomic64_load_relaxed(&pace->bytes),
        .full = pdi_atomic64_load_relaxed(&pace->full),
        .failed = pdi_atomic64_load_relaxed(&pace->failed),
        .starved = pdi_atomic64_load_relaxed(&pace->starved),
        .done = pdi_atomic64_load_acquire(&pace->done),
        .late_max_ns = pdi_atomic64_load_relaxed(&pace->late_max),
        .drift_ns = pdi_atomic64_load_relaxed(&pace->drift),
        .ended = pdi_atomic32_load_acquire(&pace->ended) != 0,
    };
    for (uint32_t i = 0; i < pace->sockets; i++) {
        struct pdi_port_calls calls;
        pdi_port_calls(pace->port[i], &calls);
        counts->calls += calls.sends;
    }
}

void pdi_pace_late(struct pdi_pace *pace, uint64_t late[PDI_HISTOGRAM_SLOTS])
{
    memcpy(late, pace->late, sizeof pace->late);
}

void pdi_pace_close(struct pdi_pace *pace)
{
    if (pace == NULL) {
        return;
    }
    pdi_pace_stop(pace);
    pdi_thread_join(&pace->thread);
    for (uint32_t i = 0; i < pace->sockets; i++) {
        free(pace->port[i]);
    }
    free(pace);
}
