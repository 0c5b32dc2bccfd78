/* host/exits.h: real processes, children of the test. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/exits.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pyddsi.h"
#include "test.h"

#define LONG_MS 60000 /* longer than anything here can take */

static struct pdi_exits exits;

static void begin(void)
{
    if (pdi_exits_init(&exits, 4) != PYDDSI_OK) {
        exit(1);
    }
}

/* A child that does nothing until it is killed. */
static pid_t sleeper(void)
{
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    return pid;
}

static bool told(int timeout_ms)
{
    struct pollfd one = {.fd = exits.epoll, .events = POLLIN};
    return poll(&one, 1, timeout_ms) == 1;
}

static void reap(pid_t pid)
{
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* If it failed, a reader that was killed would hold its writers up until its lease is over. */
static void test_the_end_is_told(void)
{
    uint32_t row = 9;
    begin();
    pid_t one = sleeper();
    pid_t two = sleeper();
    CHECK(pdi_exits_watch(&exits, 1, (uint32_t)one));
    CHECK(pdi_exits_watch(&exits, 3, (uint32_t)two));
    CHECK(!pdi_exits_next(&exits, &row));
    CHECK(!told(0));
    CHECK_EQ(kill(two, SIGKILL), 0);
    CHECK(told(LONG_MS)); /* before anybody has waited for it: it is a zombie */
    CHECK(pdi_exits_next(&exits, &row));
    CHECK_EQ(row, 3);
    CHECK(told(0)); /* until it is forgotten */
    pdi_exits_forget(&exits, 3);
    CHECK(!told(0));
    CHECK_EQ(kill(one, SIGKILL), 0);
    CHECK(told(LONG_MS));
    CHECK(pdi_exits_next(&exits, &row));
    CHECK_EQ(row, 1);
    pdi_exits_fini(&exits);
    pdi_exits_fini(&exits);
    reap(one);
    reap(two);
}

/* If it failed, a session whose peer has come back as another process would be told of the former one's end. */
static void test_another_process_takes_the_row(void)
{
    begin();
    pid_t former = sleeper();
    pid_t later = sleeper();
    CHECK(pdi_exits_watch(&exits, 0, (uint32_t)former));
    CHECK(pdi_exits_watch(&exits, 0, (uint32_t)later));
    pid_t child = fork(); /* it has all these descriptors, too */
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    CHECK_EQ(kill(former, SIGKILL), 0);
    reap(former);
    CHECK(!told(0));
    pdi_exits_forget(&exits, 0);
    pdi_exits_forget(&exits, 0);
    CHECK_EQ(kill(later, SIGKILL), 0);
    reap(later);
    CHECK(!told(0)); /* although the child has it open */
    CHECK(!pdi_exits_watch(&exits, 0, (uint32_t)later));
    CHECK(!pdi_exits_watch(&exits, 0, 0));
    CHECK(!pdi_exits_watch(&exits, 0, UINT32_MAX));
    CHECK_EQ(kill(child, SIGKILL), 0);
    reap(child);
    pdi_exits_fini(&exits);
}

/* Where a filter of system calls forbids it, or the system does not know it, nothing is watched, and that is all. */
static void test_without_the_call(int code)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 434, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof steps / sizeof steps[0], .filter = steps};
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool closed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
        begin();
        bool watches = pdi_exits_watch(&exits, 0, (uint32_t)getppid());
        pdi_exits_forget(&exits, 0);
        pdi_exits_fini(&exits);
        _exit(closed && !watches ? 0 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    test_the_end_is_told();
    test_another_process_takes_the_row();
    test_without_the_call(EPERM);
    test_without_the_call(ENOSYS);
    return test_result();
}
