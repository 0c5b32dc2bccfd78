/* thread.c - see thread.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static void *begin(void *argument)
{
    struct pdi_thread *thread = argument;
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    (void)pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread->context);
    return NULL;
}

int pdi_thread_start(struct pdi_thread *thread, const char *name, void (*run)(void *context),
                     void *context, char *text, size_t room)
{
    sigset_t all;
    sigset_t before;
    *thread = (struct pdi_thread){.run = run, .context = context};
    (void)snprintf(thread->name, sizeof thread->name, "%s", name);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits this */
    int status = pthread_create(&thread->thread, NULL, begin, thread);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != 0) {
        (void)snprintf(text, room,
                       "cannot start the %s thread: %s; `ulimit -u` tells how many there may be",
                       name, strerror(status));
        return PYDDSI_SYSTEM;
    }
    thread->running = 1;
    return PYDDSI_OK;
}

void pdi_thread_join(struct pdi_thread *thread)
{
    if (thread->running) {
        (void)pthread_join(thread->thread, NULL);
        thread->running = 0;
    }
}
