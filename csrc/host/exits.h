/* exits.h - processes of this machine whose end is to be known at once.
 *
 *     watch(row, pid) ──► pidfd ──┐
 *     watch(row, pid) ──► pidfd ──┼─► one epoll descriptor: readable while one of them has ended ──► next: which row
 *     forget(row)  ───────────────┘
 *
 * A pidfd (Linux 5.3) stands for one process and never for a later one with the same number, and epoll tells when it is a zombie,
 * whoever its parent is. That comes after the system has closed its sockets: what it had sent is there by then.
 *
 * Why not the hang-up of a Unix socket: that would be a connection for each pair of sessions. Its merit would be that it tells of
 * exec() as well; such a process is gone when its lease is.
 *
 * Where there is no pidfd (an older system, a filter of system calls, no descriptor left) nothing is watched, and watch says so.
 *
 * Threads. Watch and forget under one lock; next from one thread at a time, which takes that lock to forget what it was told.
 */
#ifndef PDI_HOST_EXITS_H
#define PDI_HOST_EXITS_H

#include <stdbool.h>
#include <stdint.h>

struct pdi_exits {
    int epoll; /* readable while a watched process has ended */
    uint32_t rows;
    int *pidfds; /* [rows]; -1: none */
};

/* PYDDSI_OK; negative: nothing can be watched, and *exits needs no fini. */
int pdi_exits_init(struct pdi_exits *exits, uint32_t rows);
/* Closes everything. Also in a child after fork, whose parent goes on watching. */
void pdi_exits_fini(struct pdi_exits *exits);

/* Watches this process as `row`, in place of the one before. False: it cannot be watched, or has ended before. */
bool pdi_exits_watch(struct pdi_exits *exits, uint32_t row, uint32_t pid);
void pdi_exits_forget(struct pdi_exits *exits, uint32_t row);

/* A row whose process has ended, which is told until that is forgotten. False: there is none. */
bool pdi_exits_next(const struct pdi_exits *exits, uint32_t *row);

#endif
