/* session.c - how a session begins and ends. It is long because the end takes back, step by step, what the beginning has
 * made, and both are read together. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "api/session_exits.h"
#include "api/session_tap.h"
#include "api/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define WORD_PAGE 4096U
#define DOUBT     (2 * PDI_TIME_MS)
#define ORDER_MAX (1U << 14) /* the most that a node can keep of one conduit */

static const pyddsi_endpoint usual_group = {.ip = {239, 255, 0, 1}, .port = 7447, .kind = 4};

void pyddsi_session_options_init(pyddsi_session_options *options)
{
    *options = (pyddsi_session_options){
        .group = usual_group,
        .ttl = 1,
        .loopback = 1,
        .shared = 1,
        .lane_bytes = 64 << 20,
        .lane_samples = 8192,
        .receive_bytes = 2 << 20,
    };
    pyddsi_config_init(&options->node);
    options->node.lease_ms = 10000; /* so an idle session wakes up less than once a second */
}

/* ---- beginning ---- */

/* What a peer with windows like ours may have sent behind one that was lost, or that its reader has no room for, is kept;
 * it would have to be sent again otherwise, all of it. */
static void keep_enough(pyddsi_config *node)
{
    uint32_t most = node->unicast_samples;
    for (uint32_t i = 0; i < node->multicasts && i < PYDDSI_MULTICASTS_MAX; i++)
        most = node->multicast_samples[i] > most ? node->multicast_samples[i] : most;
    while (node->order_max != 0 && node->order_max < most && node->order_max < ORDER_MAX)
        node->order_max *= 2;
}

/* What the application left open, and what nobody may know. */
static int fill_in(pyddsi_session *session, uint64_t *cookie, char *text)
{
    pyddsi_config *node = &session->options.node;
    uint64_t random[5];
    if (getrandom(random, sizeof random, 0) != sizeof random) {
        (void)snprintf(text, PYDDSI_TEXT_MAX,
                       "the system gives no random numbers (getrandom), of which secrets are made");
        return PYDDSI_SYSTEM;
    }
    node->secret[0] = random[3];
    node->secret[1] = random[4];
    node->seed = node->seed != 0 ? node->seed : random[0];
    node->incarnation = node->incarnation != 0 ? node->incarnation : session->wall / PDI_TIME_MS;
    if (node->id_size == 0) {
        memcpy(node->id, &random[1], 8);
        node->id_size = 8;
    }
    if (node->scout_to.kind == 0)
        node->scout_to = session->options.group;
    for (uint32_t i = 0; i < node->multicasts && i < PYDDSI_MULTICASTS_MAX; i++) {
        if (node->multicast_to[i].kind == 0)
            node->multicast_to[i] = session->options.group;
    }
    if (session->options.group.kind == 0)
        node->multicasts = 0; /* without a group everybody gets a copy */
    keep_enough(node);
    *cookie = random[2];
    return PYDDSI_OK;
}

static int make_node(pyddsi_session *session, char *text)
{
    const char *why = "";
    session->memory_size = pdi_node_size(&session->options.node, &why);
    if (session->memory_size == 0) {
        (void)snprintf(text, PYDDSI_TEXT_MAX, "%s", why);
        return PYDDSI_BAD_ARGUMENT;
    }
    session->memory = mmap(NULL, session->memory_size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (session->memory == MAP_FAILED) {
        session->memory = NULL;
        (void)snprintf(text, PYDDSI_TEXT_MAX,
                       "%zu MiB of memory are not to be had; smaller windows need less",
                       session->memory_size >> 20);
        return PYDDSI_NO_SPACE;
    }
    return pdi_node_init(&session->node, &session->options.node, session->memory,
                         session->memory_size, true, pdi_session_now(session));
}

/* The word that a forked child finds wiped. */
static int make_word(pyddsi_session *session, char *text)
{
    void *page = mmap(NULL, WORD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        (void)snprintf(text, PYDDSI_TEXT_MAX, "no memory is left for this process (ulimit -v)");
        return PYDDSI_NO_SPACE;
    }
    if (madvise(page, WORD_PAGE, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, WORD_PAGE);
        (void)snprintf(
            text, PYDDSI_TEXT_MAX,
            "the system gives no memory that a fork wipes; Linux 4.14 or later is needed");
        return PYDDSI_SYSTEM;
    }
    session->here = page;
    pdi_atomic32_store_relaxed(session->here, 1);
    return PYDDSI_OK;
}

static void free_lanes(pyddsi_session *session)
{
    if (session->lanes != NULL) {
        pdi_lanes_fini(session->lanes);
        (void)munmap(session->lanes, sizeof *session->lanes);
        session->lanes = NULL;
    }
}

/* Without shared memory the sockets carry everything. */
static void make_lanes(pyddsi_session *session, uint64_t cookie)
{
    char text[PYDDSI_TEXT_MAX];
    const pyddsi_session_options *options = &session->options;
    if (!options->shared)
        return;
    /* zeros that cost nothing until they are used */
    void *memory = mmap(NULL, sizeof *session->lanes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return;
    session->lanes = memory;
    struct pdi_lanes_door door = pdi_lanes_door_system();
    if (pdi_lanes_init(session->lanes, &session->options.node, &door, options->lane_bytes,
                       options->lane_samples, cookie, session->barrier, text,
                       sizeof text) != PYDDSI_OK) {
        free_lanes(session);
        return;
    }
    session->bell = &session->lanes->page->news;
    session->chores = &session->lanes->page->chores;
}

/* What peers on this machine have of us besides the sockets: our memory, and the number of our process. To speak as zhe does is to
 * say nothing of it. */
static void make_local(pyddsi_session *session, uint64_t cookie)
{
    pyddsi_config *node = &session->options.node;
    if (node->features == 0)
        return;
    session->watched.host = pdi_segment_host_key();
    make_lanes(session, cookie);
    if (session->lanes == NULL)
        pdi_token_put(&(struct pdi_token){.host = session->watched.host, .pid = (uint32_t)getpid()},
                      node);
    pdi_session_exits_begin(session);
}

static int begin(pyddsi_session *session, char *text)
{
    uint64_t cookie = 0;
    int status = fill_in(session, &cookie, text);
    status = status == PYDDSI_OK ? make_word(session, text) : status;
    status = status == PYDDSI_OK ? pdi_session_open_port(session, text) : status;
    if (status == PYDDSI_OK)
        make_local(session, cookie);
    session->parcel = status == PYDDSI_OK ? malloc(PDI_PARCEL_BYTES) : NULL;
    if (status == PYDDSI_OK && session->parcel == NULL) {
        (void)snprintf(text, PYDDSI_TEXT_MAX, "no memory is left for packets");
        return PYDDSI_NO_SPACE;
    }
    session->barrier = session->barrier && session->lanes != NULL; /* sockets gain nothing by it */
    status = status == PYDDSI_OK ? make_node(session, text) : status;
    if (status != PYDDSI_OK)
        return status;
    pdi_session_places(session);
    if (session->lanes != NULL) {
        session->lanes->tap = &session->tap;
        pdi_lanes_begin(session->lanes, session->node);
    }
    pdi_session_env(session);
    if (session->options.record_bytes != 0) {
        status = pdi_session_tap_begin(session, session->options.record_bytes);
        if (status != PYDDSI_OK) {
            (void)snprintf(text, PYDDSI_TEXT_MAX, "no memory is left for a recording");
            return status;
        }
    }
    session->echo.bytes_max = session->options.node.sample_max;
    session->planned = session->later = PDI_TIME_NEVER;
    status = pdi_thread_start(&session->housekeeping, "pyddsi-house", pdi_session_housekeep,
                              session, text, PYDDSI_TEXT_MAX);
    return status == PYDDSI_OK
               ? pdi_thread_start(&session->receiving, "pyddsi-receive", pdi_session_receive,
                                  session, text, PYDDSI_TEXT_MAX)
               : status;
}

static void stop(pyddsi_session *session)
{
    pdi_atomic32_store_release(&session->stopping, 1);
    if (session->port != NULL)
        pdi_port_wake(session->port);
    (void)pdi_bell_ring(session->chores);
    (void)pdi_bell_ring(session->bell);
    (void)pdi_bell_ring(&session->told);
    pdi_thread_join(&session->receiving);
    pdi_thread_join(&session->housekeeping);
    pdi_thread_join(&session->relay);
}

static void destroy(pyddsi_session *session)
{
    if (session->port != NULL)
        pdi_port_close(session->port);
    free_lanes(session);
    pdi_session_exits_end(session);
    pdi_echo_fini(&session->echo);
    pdi_tap_fini(&session->tap);
    if (session->memory != NULL)
        (void)munmap(session->memory, session->memory_size);
    if (session->here != NULL)
        (void)munmap(session->here, WORD_PAGE);
    if (session->relay_fd >= 0)
        (void)close(session->relay_fd);
    free(session->parcel);
    free(session);
}

/* What would not fit our arrays. */
static bool check(const pyddsi_session_options *options, char *text)
{
    if (options->peer_count > PYDDSI_SESSION_PEERS_MAX ||
        options->listen_count > PYDDSI_LISTEN_MAX) {
        (void)snprintf(text, PYDDSI_TEXT_MAX, "at most 16 peers and 8 listeners can be named");
        return false;
    }
    return true;
}

int pyddsi_session_open(pyddsi_session **made, const pyddsi_session_options *options, char *text)
{
    pyddsi_session *session = aligned_alloc(PDI_CACHE_LINE, sizeof *session);
    *made = NULL;
    text[0] = '\0';
    if (session == NULL) {
        (void)snprintf(text, PYDDSI_TEXT_MAX, "no memory is left");
        return PYDDSI_NO_SPACE;
    }
    memset(session, 0, sizeof *session);
    session->options = *options;
    session->options.interface[PYDDSI_INTERFACE_MAX - 1] = '\0';
    session->barrier = pdi_barrier_begin();
    session->begun = pdi_clock_now();
    session->wall = pdi_clock_wall();
    session->relay_fd = -1;
    session->bell = &session->bells[0];
    session->chores = &session->bells[1];
    pdi_bell_init(session->bell);
    pdi_bell_init(session->chores);
    pdi_bell_init(&session->told);
    pdi_atomic32_store_relaxed(&session->holders, 1);
    if (!check(options, text)) {
        destroy(session);
        return PYDDSI_BAD_ARGUMENT;
    }
    int status = begin(session, text);
    if (status != PYDDSI_OK) {
        stop(session);
        destroy(session);
        return status;
    }
    *made = session;
    return PYDDSI_OK;
}

/* ---- end ---- */

/* Lets what was accepted be acknowledged, for so long at most, and us acknowledge what has come: that is not possible while
 * a peer is in doubt whether it is still the same session, which takes a round trip and rings no bell. */
static void drain(pyddsi_session *session, pdi_time until)
{
    pyddsi_stats stats;
    while (pdi_session_enter(session)) { /* ends with the time */
        uint32_t heard = pdi_session_listen(session);
        pdi_node_flush(session->node, pdi_session_now(session));
        pdi_session_send(session, PDI_APPLICATION);
        if (session->lanes != NULL) {
            pdi_lanes_want(session->lanes, PDI_TELL_BROUGHT);
            pdi_lanes_hurry_all(session->lanes);
        }
        pdi_node_stats(session->node, &stats);
        if (session->lanes != NULL) {
            pdi_lanes_stats(session->lanes, &stats);
        }
        bool doubt = pdi_node_doubts(session->node) != 0;
        pdi_session_leave(session);
        pdi_time left = pdi_time_until(pdi_session_now(session), until);
        if ((stats.owed == stats.acknowledged + stats.forgiven && !doubt) || left == 0) {
            pdi_bell_unlisten(session->bell);
            return;
        }
        (void)pdi_bell_wait(session->bell, heard, doubt && left > DOUBT ? DOUBT : left);
    }
}

static void let_go(pyddsi_session *session, uint32_t count)
{
    if (pdi_atomic32_add(&session->holders, 0 - count) == count) {
        destroy(session);
    }
}

static void end(pyddsi_session *session)
{
    pdi_time now = pdi_session_now(session);
    if (session->lanes != NULL) {
        pdi_lanes_close(session->lanes, now);
    }
    session->closed = 1;
    pdi_node_acknowledge(session->node);
    pdi_session_send_last(session);
    pdi_node_close(session->node, now);
    pdi_session_send_last(session);
    pdi_lock_give(&session->lock);
    stop(session);
    pdi_lock_take(&session->wire); /* an application's thread may still be sending */
    struct pdi_port *port = session->port;
    session->port = NULL; /* its address is free for another, whoever still looks at the books */
    pdi_lock_give(&session->wire);
    pdi_port_close(port);
    pdi_tap_stop(&session->tap);
}

void pyddsi_session_close(pyddsi_session *session, uint64_t timeout_ns)
{
    if (!pdi_session_here(session)) {
        return; /* in a child the threads and the peers are its parent's */
    }
    (void)pdi_atomic32_add(&session->holders, 1); /* it may be freed meanwhile */
    drain(session, pdi_time_add(pdi_session_now(session), timeout_ns));
    if (pdi_session_enter(session)) {
        end(session);
    }
    let_go(session, 1);
}

void pyddsi_session_free(pyddsi_session *session)
{
    if (session == NULL) {
        return;
    }
    pyddsi_session_close(session, 0);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the application's own hold is still there. */
    let_go(session, 1);
}

void pyddsi_session_release(pyddsi_session *session, const pyddsi_received *samples, size_t count)
{
    if (pdi_session_here(session)) {
        pdi_lock_take(&session->lock);
        for (size_t i = 0; session->lanes != NULL && i < count; i++) {
            if (pdi_lanes_have(samples[i].held)) {
                pdi_lanes_gave_back(session->lanes, samples[i].held);
            }
        }
        pdi_node_release_many(session->node, samples, count);
        pdi_session_made_room(session);
        if (session->closed) {
            pdi_lock_give(&session->lock);
        } else {
            pdi_session_leave(session);
        }
    }
    let_go(session, (uint32_t)count);
}

/* ---- looks and waits ---- */

void pyddsi_session_look(pyddsi_session *session, pyddsi_session_options *options,
                         pyddsi_endpoint *local)
{
    *options = session->options;
    *local = pdi_session_local(session);
}

uint64_t pyddsi_session_now(const pyddsi_session *session)
{
    return pdi_session_now(session);
}

uint64_t pyddsi_session_wall(const pyddsi_session *session)
{
    return session->wall;
}

/* The bell may be in memory that a child shares with its parent. */
uint32_t pyddsi_session_listen(pyddsi_session *session)
{
    return pdi_session_here(session) ? pdi_session_listen(session) : 0;
}

void pyddsi_session_unlisten(pyddsi_session *session)
{
    if (pdi_session_here(session)) {
        pdi_bell_unlisten(session->bell);
    }
}

int pyddsi_session_wait(pyddsi_session *session, uint32_t heard, uint64_t timeout_ns)
{
    if (!pdi_session_here(session)) {
        return PYDDSI_CLOSED;
    }
    if (pdi_atomic32_load_acquire(&session->stopping) != 0) {
        pdi_bell_unlisten(session->bell);
        return PYDDSI_CLOSED;
    }
    int status = pdi_bell_wait(session->bell, heard, timeout_ns);
    return pdi_atomic32_load_acquire(&session->stopping) != 0 ? PYDDSI_CLOSED : status;
}

int pyddsi_session_wait_event(pyddsi_session *session, uint32_t *heard)
{
    if (!pdi_session_here(session))
        return PYDDSI_CLOSED;
    uint32_t rings = pdi_bell_listen(&session->told);
    pdi_lock_take(&session->lock);
    uint32_t events = pdi_node_events(session->node);
    pdi_lock_give(&session->lock);
    if (*heard != events || pdi_atomic32_load_acquire(&session->stopping) != 0)
        pdi_bell_unlisten(&session->told);
    else
        (void)pdi_bell_wait(&session->told, rings, PDI_TIME_NEVER);
    *heard = events;
    return pdi_atomic32_load_acquire(&session->stopping) != 0 ? PYDDSI_CLOSED : PYDDSI_OK;
}

int pyddsi_session_fd(pyddsi_session *session)
{
    char text[PYDDSI_TEXT_MAX];
    if (!pdi_session_enter(session))
        return PYDDSI_CLOSED;
    if (session->relay_fd < 0) {
        session->relay_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (session->relay_fd >= 0 &&
            pdi_thread_start(&session->relay, "pyddsi-relay", pdi_session_relay, session, text,
                             sizeof text) != PYDDSI_OK) {
            (void)close(session->relay_fd);
            session->relay_fd = -1;
        }
    }
    int fd = session->relay_fd >= 0 ? session->relay_fd : PYDDSI_SYSTEM;
    pdi_session_leave(session);
    return fd;
}
