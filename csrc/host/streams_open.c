/* streams_open.c - listening, opening and closing the whole. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/streams_state.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host/clock.h"

#define BACKLOG    64
#define ACCEPT_MAX 16 /* who are let in at one time */
#define THROWN_MAX 16
/* Room for the text of where we listen. */
#define WHERE_ROOM (PYDDSI_PATH_MAX + 16)

/* ---- listening ---- */

static const char *print(const struct pdi_streams *streams, const pyddsi_endpoint *where,
                         char out[WHERE_ROOM])
{
    char name[PDI_PORT_ADDRESS_ROOM];
    pyddsi_endpoint ip = *where;
    ip.kind = (uint8_t)(ip.kind - 10);
    if (where->kind == PDI_STREAM_UNIX) {
        snprintf(out, WHERE_ROOM, "unix/%s", streams->paths[where->port]);
    } else {
        snprintf(out, WHERE_ROOM, where->kind == PDI_STREAM_TCP4 ? "tcp/%s:%u" : "tcp/[%s]:%u",
                 pdi_port_address_print(&ip, name), (unsigned)where->port);
    }
    return out;
}

/* Says why nobody can be listened for there. */
static int refuse(const struct pdi_streams *streams, const pyddsi_endpoint *where, int code,
                  const struct pdi_port_text *text)
{
    char name[WHERE_ROOM];
    bool path = where->kind == PDI_STREAM_UNIX;
    print(streams, where, name);
    switch (code) {
    case EADDRINUSE:
        return pdi_port_text_fail(text, code,
                                  "%s is in use by another program: end that, or choose another %s",
                                  name, path ? "path" : "port");
    case EADDRNOTAVAIL:
        return pdi_port_text_fail(text, code,
                                  "%s: no interface of this machine has this address; choose one "
                                  "that has, or 0.0.0.0 or [::] for all",
                                  name);
    case EEXIST:
        return pdi_port_text_fail(text, code,
                                  "%s: a file that is no socket has this name: remove it, or "
                                  "choose another path",
                                  name);
    case ENOENT:
    case ENOTDIR:
        return pdi_port_text_fail(
            text, code, "%s: there is no such folder: make it, or choose another path", name);
    case EROFS:
    case EACCES:
    case EPERM:
        return pdi_port_text_fail(text, code, "%s: no permission: choose %s", name,
                                  path ? "a path in a folder that this user may write to"
                                       : "a port from 1024 on");
    default:
        break;
    }
    char what[WHERE_ROOM + 16];
    snprintf(what, sizeof what, "listen at %s", name);
    return pdi_port_text_refused(text, code, what);
}

/* A socket file that is in the way: removes it if nobody listens there. 0, or the errno that says why not. */
static int clear(const union pdi_stream_address *address, socklen_t size)
{
    struct stat found;
    const char *path = address->path.sun_path;
    if (path[0] == '\0') {
        return EADDRINUSE; /* abstract: it would not be there without its listener */
    }
    if (lstat(path, &found) < 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (!S_ISSOCK(found.st_mode)) {
        return EEXIST;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return errno;
    }
    int code = connect(fd, &address->any, size) < 0 ? errno : EADDRINUSE;
    close(fd);
    if (code != ECONNREFUSED) { /* EAGAIN: many wait there, so somebody lives */
        return code == EACCES || code == EPERM ? code : EADDRINUSE;
    }
    return unlink(path) < 0 && errno != ENOENT ? errno : 0;
}

/* Binds and listens. 0, or an errno. */
static int attach(int fd, const union pdi_stream_address *address, socklen_t size, int domain)
{
    int on = 1;
    if (domain !=
        AF_UNIX) { /* what a former session has left does not hinder us; a living one does */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (domain == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    int code = bind(fd, &address->any, size) < 0 ? errno : 0;
    if (code == EADDRINUSE && domain == AF_UNIX) {
        code = clear(address, size);
        code = code == 0 && bind(fd, &address->any, size) < 0 ? errno : code;
    }
    return code == 0 && listen(fd, BACKLOG) < 0 ? errno : code;
}

/* Remembers which file is ours to remove, or which port the system has chosen. */
static void note(const struct pdi_streams *streams, struct pdi_stream_listener *listener)
{
    struct stat found;
    bool unix_one = listener->where.kind == PDI_STREAM_UNIX;
    const char *path = unix_one ? streams->paths[listener->where.port] : NULL;
    union pdi_port_address address = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    if (path != NULL && path[0] != '@' && lstat(path, &found) == 0) {
        memcpy(listener->path, path, sizeof listener->path);
        listener->device = found.st_dev;
        listener->inode = found.st_ino;
    } else if (!unix_one && listener->where.port == 0 &&
               getsockname(listener->fd, &address.any, &size) == 0) {
        pyddsi_endpoint found_at;
        pdi_port_address_get(&address, &found_at);
        listener->where.port = found_at.port;
    }
}

static int listen_at(struct pdi_streams *streams, pyddsi_endpoint *where,
                     const struct pdi_port_text *text)
{
    union pdi_stream_address address;
    int domain;
    socklen_t size = pdi_stream_address_put(streams, where, &address, &domain);
    struct pdi_stream_listener *listener = &streams->listener[streams->listeners];
    *listener = (struct pdi_stream_listener){.where = *where};
    listener->fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0) {
        return refuse(streams, where, errno, text);
    }
    int code = attach(listener->fd, &address, size, domain);
    if (code == 0) {
        note(streams, listener);
        uint32_t number = PDI_STREAMS_LISTENERS + streams->listeners;
        code =
            pdi_stream_watch(streams, EPOLL_CTL_ADD, listener->fd, number, EPOLLIN) < 0 ? errno : 0;
    }
    streams->listeners++; /* from here on it is closed with the others */
    if (code != 0) {
        return refuse(streams, where, code, text);
    }
    *where = listener->where;
    return PYDDSI_OK;
}

void pdi_stream_listener_accept(struct pdi_streams *streams, struct pdi_stream_listener *listener,
                                pdi_time now)
{
    for (int i = 0; i < ACCEPT_MAX; i++) {
        union pdi_stream_address address = {.any.sa_family = AF_UNSPEC};
        socklen_t size = sizeof address;
        int fd = accept4(listener->fd, &address.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        int code = fd < 0 ? errno : 0;
        pdi_lock_take(&streams->lock);
        if (fd >= 0) {
            pdi_stream_link_accept(streams, listener, fd, &address, now);
        } else if (code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS) {
            /* epoll would tell of the same one for ever */
            uint32_t number = PDI_STREAMS_LISTENERS + (uint32_t)(listener - streams->listener);
            listener->shortage = now + PDI_STREAM_SHORTAGE;
            streams->counts.refused++;
            (void)pdi_stream_watch(streams, EPOLL_CTL_MOD, listener->fd, number, 0);
            pdi_stream_arm(streams, listener->shortage);
        }
        pdi_lock_give(&streams->lock);
        if (fd < 0) {
            return;
        }
    }
}

/* ---- the whole ---- */

/* Begins all connections that are to be made; equal ones once. */
static void call(struct pdi_streams *streams, const struct pdi_streams_options *options)
{
    pdi_time now = pdi_clock_now();
    for (uint32_t i = 0; i < options->peer_count && streams->ours < PYDDSI_SESSION_PEERS_MAX; i++) {
        const pyddsi_endpoint *where = &options->peers[i];
        bool known = !pdi_stream_is(where);
        for (uint32_t k = 0; k < streams->ours; k++) {
            known = known ||
                    (pdi_stream_aimed(where) && pdi_stream_same(&streams->links[k].where, where));
        }
        if (!known) {
            struct pdi_stream_link *link = &streams->links[streams->ours++];
            link->ours = true;
            link->where = *where;
            link->peer = (uint8_t)i;
            link->pause_ms = PDI_STREAM_PAUSE_MS;
            pdi_lock_take(&streams->lock);
            link->state = PDI_STREAM_WAITING;
            link->due = PDI_TIME_NEVER;
            if (pdi_stream_aimed(where)) {
                pdi_stream_link_connect(streams, link, now);
            }
            pdi_lock_give(&streams->lock);
        }
    }
}

static int check(const struct pdi_streams_options *options, const struct pdi_port_text *text)
{
    if (options->listen_count > PDI_STREAMS_LISTEN_MAX) {
        return pdi_port_text_fail(text, EINVAL, "at most %u places to listen at can be named",
                                  (unsigned)PDI_STREAMS_LISTEN_MAX);
    }
    for (uint32_t i = 0; i < options->listen_count + options->peer_count; i++) {
        const pyddsi_endpoint *one = i < options->listen_count
                                         ? &options->listen[i]
                                         : &options->peers[i - options->listen_count];
        if (one->kind == PDI_STREAM_UNIX && one->port >= PYDDSI_PATHS_MAX) {
            return pdi_port_text_fail(text, EINVAL, "there is no path %u: at most %u can be named",
                                      (unsigned)one->port, (unsigned)PYDDSI_PATHS_MAX);
        }
    }
    return PYDDSI_OK;
}

static int begin(struct pdi_streams *streams, const struct pdi_streams_options *options,
                 const struct pdi_port_text *text)
{
    streams->epoll = epoll_create1(EPOLL_CLOEXEC);
    streams->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (streams->epoll < 0 || streams->timer < 0 ||
        pdi_stream_watch(streams, EPOLL_CTL_ADD, streams->timer, PDI_STREAMS_TIMER, EPOLLIN) < 0) {
        return pdi_port_text_refused(text, errno, "make an epoll descriptor and a timer");
    }
    for (uint32_t i = 0; i < options->listen_count; i++) {
        int status = pdi_stream_is(&options->listen[i])
                         ? listen_at(streams, &options->listen[i], text)
                         : PYDDSI_OK;
        if (status < 0) {
            return status;
        }
    }
    call(streams, options);
    return PYDDSI_OK;
}

int pdi_streams_open(struct pdi_streams **made, const struct pdi_streams_options *options,
                     char *text, size_t room)
{
    struct pdi_port_text words = {text, room};
    *made = NULL;
    int status = check(options, &words);
    if (status < 0) {
        return status;
    }
    struct pdi_streams *streams = calloc(1, sizeof *streams);
    if (streams == NULL) {
        return pdi_port_text_refused(&words, ENOMEM, "make room for connections");
    }
    streams->epoll = streams->timer = -1;
    streams->process = getpid();
    streams->armed = PDI_TIME_NEVER;
    streams->reading = options->reading;
    streams->greeting_size = options->greeting_size;
    memcpy(streams->greeting, options->greeting, sizeof streams->greeting);
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        streams->links[i].fd = -1;
    }
    for (uint32_t i = 0; options->paths != NULL && i < PYDDSI_PATHS_MAX; i++) {
        memcpy(streams->paths[i], options->paths[i], PYDDSI_PATH_MAX);
        streams->paths[i][PYDDSI_PATH_MAX - 1] = '\0';
    }
    status = begin(streams, options, &words);
    if (status < 0) {
        pdi_streams_close(streams);
        return status;
    }
    *made = streams;
    return PYDDSI_OK;
}

/* What a peer has said that nobody read would make the system take back what we have said last. */
static void part(const struct pdi_stream_link *link)
{
    uint8_t thrown[4096];
    ssize_t got = 1;
    (void)shutdown(link->fd, SHUT_WR);
    for (int i = 0; i < THROWN_MAX && got > 0; i++) {
        got = recv(link->fd, thrown, sizeof thrown, MSG_DONTWAIT);
    }
}

/* Removes the file of a Unix socket, if it still is the one that we made. */
static void remove_file(const struct pdi_stream_listener *listener)
{
    struct stat found;
    if (listener->path[0] != '\0' && lstat(listener->path, &found) == 0 &&
        found.st_dev == listener->device && found.st_ino == listener->inode) {
        (void)unlink(listener->path);
    }
}

void pdi_streams_close(struct pdi_streams *streams)
{
    if (streams == NULL) {
        return;
    }
    bool here = streams->process == getpid();
    for (uint32_t i = 0; i < streams->listeners; i++) {
        if (here) {
            remove_file(&streams->listener[i]);
        }
        close(streams->listener[i].fd);
    }
    for (uint32_t i = 0; i < PDI_STREAMS_MAX; i++) {
        struct pdi_stream_link *link = &streams->links[i];
        if (link->fd >= 0) {
            if (here) {
                part(link);
            }
            close(link->fd);
        }
        free(link->in);
        free(link->out);
    }
    if (streams->timer >= 0) {
        close(streams->timer);
    }
    if (streams->epoll >= 0) {
        close(streams->epoll);
    }
    free(streams);
}
