/* exits.c - see exits.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/exits.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pyddsi.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* on every architecture; the C library's headers may be older */
#endif

int pdi_exits_init(struct pdi_exits *exits, uint32_t rows)
{
    *exits = (struct pdi_exits){.epoll = epoll_create1(EPOLL_CLOEXEC), .rows = rows};
    if (exits->epoll < 0) {
        return -errno;
    }
    exits->pidfds = calloc(rows, sizeof *exits->pidfds);
    if (exits->pidfds == NULL) {
        (void)close(exits->epoll);
        return PYDDSI_NO_SPACE;
    }
    for (uint32_t row = 0; row < rows; row++) {
        exits->pidfds[row] = -1;
    }
    return PYDDSI_OK;
}

void pdi_exits_fini(struct pdi_exits *exits)
{
    for (uint32_t row = 0; exits->pidfds != NULL && row < exits->rows; row++) {
        if (exits->pidfds[row] >= 0) {
            (void)close(exits->pidfds[row]);
        }
    }
    if (exits->pidfds != NULL) {
        (void)close(exits->epoll);
    }
    free(exits->pidfds);
    exits->pidfds = NULL;
}

bool pdi_exits_watch(struct pdi_exits *exits, uint32_t row, uint32_t pid)
{
    pdi_exits_forget(exits, row);
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0U); /* closed on exec by itself */
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = row};
    if (fd < 0) {
        return false;
    }
    if (epoll_ctl(exits->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        (void)close(fd);
        return false;
    }
    exits->pidfds[row] = fd;
    return true;
}

/* A child after fork may have the descriptor as well, so to close it is not enough for epoll to forget it. */
void pdi_exits_forget(struct pdi_exits *exits, uint32_t row)
{
    if (exits->pidfds[row] >= 0) {
        (void)epoll_ctl(exits->epoll, EPOLL_CTL_DEL, exits->pidfds[row], NULL);
        (void)close(exits->pidfds[row]);
        exits->pidfds[row] = -1;
    }
}

bool pdi_exits_next(const struct pdi_exits *exits, uint32_t *row)
{
    struct epoll_event event;
    if (epoll_wait(exits->epoll, &event, 1, 0) != 1) {
        return false;
    }
    *row = event.data.u32;
    return true;
}
