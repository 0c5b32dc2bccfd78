/* streams.c - receiving and sending, and what epoll and the time bring. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/streams_state.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host/clock.h"

#define EVENTS_MAX 32
/* So often is the system asked, or a connection looked at, in one call of receive. */
#define ROUNDS_MAX 128

/* ---- the timer ---- */

/* The timer always rings by the first due time, and now and then too early. */
void pdi_stream_arm(struct pdi_streams *streams, pdi_time due)
{
    if (due >= streams->armed) {
        return;
    }
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(due / PDI_TIME_S), .tv_nsec = (long)(due % PDI_TIME_S)}};
    streams->armed = due;
    (void)timerfd_settime(streams->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* What becomes of a link whose time is over. With the lock. */
static void time_out(struct pdi_streams *streams, struct pdi_stream_link *link, pdi_time now)
{
    switch (link->state) {
    case PDI_STREAM_WAITING:
        pdi_stream_link_connect(streams, link, now);
        return;
    case PDI_STREAM_CONNECTING:
        streams->counts.failed++;
        link->failed++;
        link->code = ETIMEDOUT;
        pdi_stream_link_end(streams, link, now);
        return;
    case PDI_STREAM_FRESH:
        streams->counts.refused++;
        streams->waiting &= ~(UINT64_C(1) << pdi_stream_index(streams, link));
        pdi_stream_link_end(streams, link, now);
        return;
    default: /* its end is told first */
        pdi_stream_link_hang_up(streams, link);
        link->state = PDI_STREAM_ENDED;
        streams->waiting |= UINT64_C(1) << pdi_stream_index(streams, link);
    }
}

static void ring(struct pdi_streams *streams, pdi_time now)
{
    uint64_t rings;
    pdi_time first = PDI_TIME_NEVER;
    (void)!read(streams->timer, &rings, sizeof rings);
    pdi_lock_take(&streams->lock);
    streams->armed = PDI_TIME_NEVER;
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        struct pdi_stream_link *link = &streams->links[i];
        bool idle = link->state == PDI_STREAM_FREE || link->state == PDI_STREAM_ENDED;
        if (!idle && link->due <= now) {
            time_out(streams, link, now);
        } else if (!idle && link->due < first) {
            first = link->due;
        }
    }
    for (uint32_t i = 0; i < streams->listeners; i++) {
        struct pdi_stream_listener *listener = &streams->listener[i];
        if (listener->shortage != 0 && listener->shortage <= now) {
            listener->shortage = 0;
            (void)pdi_stream_watch(streams, EPOLL_CTL_MOD, listener->fd, PDI_STREAMS_LISTENERS + i,
                                   EPOLLIN);
        } else if (listener->shortage != 0 && listener->shortage < first) {
            first = listener->shortage;
        }
    }
    if (first != PDI_TIME_NEVER) {
        pdi_stream_arm(streams, first);
    }
    pdi_lock_give(&streams->lock);
}

/* ---- events ---- */

int pdi_stream_watch(const struct pdi_streams *streams, int how, int fd, uint32_t number,
                     uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u32 = number};
    return epoll_ctl(streams->epoll, how, fd, &event);
}

static void link_event(struct pdi_streams *streams, struct pdi_stream_link *link, uint32_t events,
                       pdi_time now)
{
    pdi_lock_take(&streams->lock);
    uint8_t state = link->state;
    if (state == PDI_STREAM_CONNECTING) {
        pdi_stream_link_answered(streams, link, now);
    } else if ((events & EPOLLOUT) != 0 && state == PDI_STREAM_LIVE) {
        pdi_stream_link_flush(streams, link);
    }
    pdi_lock_give(&streams->lock);
    bool reads =
        state == PDI_STREAM_FRESH || state == PDI_STREAM_LIVE || state == PDI_STREAM_CLOSING;
    if (reads && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
        pdi_stream_link_read(streams, link, now);
    }
}

/* Does what the system tells of, without waiting. Whether there was something. */
static bool look(struct pdi_streams *streams)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(streams->epoll, events, EVENTS_MAX, 0);
    pdi_time now = count > 0 ? pdi_clock_now() : 0;
    for (int i = 0; i < count; i++) {
        uint32_t number = events[i].data.u32;
        if (number == PDI_STREAMS_TIMER) {
            ring(streams, now);
        } else if (number >= PDI_STREAMS_LISTENERS) {
            pdi_stream_listener_accept(streams, &streams->listener[number - PDI_STREAMS_LISTENERS],
                                       now);
        } else {
            link_event(streams, &streams->links[number], events[i].events, now);
        }
    }
    return count > 0;
}

/* ---- receive ---- */

bool pdi_streams_waiting(const struct pdi_streams *streams)
{
    return streams->waiting != 0;
}

int pdi_streams_receive(struct pdi_streams *streams, uint8_t *data, size_t room, size_t *size,
                        pyddsi_endpoint *from)
{
    for (int rounds = 0; rounds < ROUNDS_MAX; rounds++) {
        if (streams->waiting == 0) {
            if (!look(streams)) {
                return PYDDSI_AGAIN;
            }
            continue;
        }
        uint64_t later = streams->waiting & (UINT64_MAX << streams->next);
        uint32_t number = (uint32_t)__builtin_ctzll(later != 0 ? later : streams->waiting);
        streams->next = (number + 1) % PDI_STREAMS_MAX;
        if (pdi_stream_link_take(streams, &streams->links[number], data, room, size, from) ==
            PYDDSI_OK) {
            return PYDDSI_OK;
        }
    }
    return PYDDSI_AGAIN;
}

/* ---- send ---- */

/* Whether a packet can be put there. */
static bool open_for(const struct pdi_stream_link *link)
{
    return link->state == PDI_STREAM_LIVE && !link->farewell;
}

/* To all who are there; as zhe takes the address that says nothing. */
static int send_all(struct pdi_streams *streams, const uint8_t *data, size_t size, bool more)
{
    int worst = PYDDSI_OK;
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        struct pdi_stream_link *link = &streams->links[i];
        if (open_for(link)) {
            int status = pdi_stream_link_put(streams, link, data, size, more);
            worst = status != PYDDSI_OK ? status : worst;
        }
    }
    return worst;
}

static int send_one(struct pdi_streams *streams, const pyddsi_endpoint *to, const uint8_t *data,
                    size_t size, bool more)
{
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        struct pdi_stream_link *link = &streams->links[i];
        if (open_for(link) && pdi_stream_same(&link->where, to)) {
            return pdi_stream_link_put(streams, link, data, size, more);
        }
    }
    return -ENOTCONN;
}

int pdi_streams_send(struct pdi_streams *streams, const pyddsi_endpoint *to, const uint8_t *data,
                     size_t size, bool more)
{
    static const pyddsi_endpoint all = {.kind = PDI_STREAM_TCP4};
    pdi_lock_take(&streams->lock);
    int status = pdi_stream_same(to, &all) ? send_all(streams, data, size, more)
                                           : send_one(streams, to, data, size, more);
    if (status == -ENOTCONN && size == streams->greeting_size &&
        memcmp(data, streams->greeting, size) == 0 && pdi_stream_aimed(to) &&
        pdi_stream_link_call(streams, to)) {
        status = PYDDSI_OK;
    }
    pdi_lock_give(&streams->lock);
    return status;
}

/* The one that we make to this peer; null: it is none of those. With the lock. */
static struct pdi_stream_link *of_peer(struct pdi_streams *streams, uint32_t peer)
{
    for (uint32_t i = 0; i < streams->ours; i++) {
        if (streams->links[i].peer == peer) {
            return &streams->links[i];
        }
    }
    return NULL;
}

void pdi_streams_aim(struct pdi_streams *streams, uint32_t peer, const pyddsi_endpoint *where)
{
    pdi_lock_take(&streams->lock);
    struct pdi_stream_link *link = of_peer(streams, peer);
    if (link != NULL && link->state == PDI_STREAM_WAITING) {
        bool first = !pdi_stream_aimed(&link->where);
        link->where = *where;
        link->due = first ? pdi_clock_now() : link->due;
        pdi_stream_arm(streams, link->due);
    } else if (link != NULL) {
        link->aim = *where;
    }
    pdi_lock_give(&streams->lock);
}

struct pdi_streams_attempts pdi_streams_attempts(struct pdi_streams *streams, uint32_t peer)
{
    struct pdi_streams_attempts found = {0};
    pdi_lock_take(&streams->lock);
    const struct pdi_stream_link *link = of_peer(streams, peer);
    if (link != NULL) {
        found =
            (struct pdi_streams_attempts){link->failed, link->code, link->state == PDI_STREAM_LIVE};
    }
    pdi_lock_give(&streams->lock);
    return found;
}

void pdi_streams_count(struct pdi_streams *streams, struct pdi_streams_counts *counts)
{
    pdi_lock_take(&streams->lock);
    *counts = streams->counts;
    pdi_lock_give(&streams->lock);
}

int pdi_streams_fd(const struct pdi_streams *streams)
{
    return streams->epoll;
}
