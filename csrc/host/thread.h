/* thread.h - a thread that works for a session.
 *
 * It runs with every signal blocked, so that signals come to the application's threads and a system call here is not
 * interrupted; with the least timer slack, so that deadlines are kept to the microsecond; and under a name, so that `top -H` and gdb
 * say what it is for.
 */
#ifndef PDI_HOST_THREAD_H
#define PDI_HOST_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "pyddsi.h"

struct pdi_thread {
    pthread_t thread;
    void (*run)(void *context);
    void *context;
    char name[16];
    int running;
};

/* A number that no other thread has while this one runs; never 0. */
static inline uint64_t pdi_thread_self(void)
{
    return (uint64_t)(uintptr_t)pthread_self();
}

/* OK, or SYSTEM with a text. */
int pdi_thread_start(struct pdi_thread *thread, const char *name, void (*run)(void *context),
                     void *context, char *text, size_t room);
/* Waits until it has returned from run. */
void pdi_thread_join(struct pdi_thread *thread);

#endif
