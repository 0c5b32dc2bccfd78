/* host/segment.h and host/bell.h: memory and wake-ups between two processes.
 *
 * The other process is a forked child, which tells by its exit status what it found: 0, or the
 * number of the step that failed. The file is long, as each thing that a hostile owner of memory can do is a test. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/bell.h"
#include "test.h"

#define ROUNDS    2000
#define RACES     30000
#define THREADS   4
#define TEXT_ROOM 160

static char text[TEXT_ROOM];

/* How a child ended. */
static int ended(pid_t child)
{
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static int map(struct pdi_segment *segment, int fd, size_t size, bool shared)
{
    text[0] = '\0';
    return pdi_segment_map(segment, (uint32_t)getpid(), fd, size, shared, text, sizeof text);
}

/* ---- segments ---- */

/* The child's half of test_two_processes. */
static int child_maps(pid_t parent, const struct pdi_segment *page, const struct pdi_segment *lane)
{
    struct pdi_segment there;
    if (pdi_segment_map(&there, (uint32_t)parent, page->fd, page->size, true, text, sizeof text) !=
            PYDDSI_OK ||
        there.fd != -1 || there.size != page->size || there.memory == page->memory) {
        return 1;
    }
    if (there.memory[0] != 11) {
        return 2;
    }
    there.memory[1] = 22; /* the parent looks for it */
    pdi_segment_free(&there);
    pdi_segment_free(&there);
    if (there.memory != NULL) {
        return 3;
    }
    if (pdi_segment_map(&there, (uint32_t)parent, lane->fd, lane->size, true, text, sizeof text) ==
        PYDDSI_OK) {
        return 4; /* it was to be read only */
    }
    if (pdi_segment_map(&there, (uint32_t)parent, lane->fd, lane->size, false, text, sizeof text) !=
            PYDDSI_OK ||
        there.memory[5] != 55) {
        return 5;
    }
    if (mprotect(there.memory, there.size, PROT_READ | PROT_WRITE) == 0) {
        return 6; /* nor can it be made writable afterwards */
    }
    return 0;
}

/* If it failed, two processes would not see each other's memory, or one that may only read could
 * write. */
static void test_two_processes(void)
{
    struct pdi_segment page;
    struct pdi_segment lane;
    pid_t parent = getpid();
    CHECK_EQ(pdi_segment_make(&page, "page", 100, true, text, sizeof text), PYDDSI_OK);
    CHECK_EQ(pdi_segment_make(&lane, "lane", 70000, false, text, sizeof text), PYDDSI_OK);
    CHECK(page.size >= 100 && page.size % 4096 == 0 && lane.size >= 70000);
    CHECK_EQ((uintptr_t)page.memory % 4096, 0);
    for (size_t i = 0; i < lane.size; i += 64) {
        CHECK_EQ(lane.memory[i], 0);
    }
    page.memory[0] = 11;
    lane.memory[5] = 55;
    pid_t child = fork();
    if (child == 0) {
        _exit(child_maps(parent, &page, &lane));
    }
    CHECK_EQ(ended(child), 0);
    CHECK_EQ(page.memory[1], 22);
    pdi_segment_free(&page);
    pdi_segment_free(&lane);
    CHECK(page.memory == NULL && page.fd == -1);
    pdi_segment_free(&page);
}

/* If it failed, one could make memory smaller under another's feet, and who reads it then is
 * killed. */
static void test_sealed(void)
{
    struct pdi_segment segment;
    for (int shared = 0; shared < 2; shared++) {
        CHECK_EQ(pdi_segment_make(&segment, "sealed", 8192, shared, text, sizeof text), PYDDSI_OK);
        CHECK_EQ(ftruncate(segment.fd, 4096), -1);
        CHECK_EQ(ftruncate(segment.fd, 16384), -1);
        CHECK_EQ(fcntl(segment.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
        CHECK((fcntl(segment.fd, F_GETFD) & FD_CLOEXEC) != 0);
        segment.memory[8191] = 1;
        pdi_segment_free(&segment);
    }
}

/* If it failed, memory would be made of a size that nobody could map, or a refusal would not say
 * why. */
static void test_make_refuses(void)
{
    struct pdi_segment segment;
    CHECK_EQ(pdi_segment_make(&segment, "none", 0, true, text, sizeof text), PYDDSI_BAD_ARGUMENT);
    CHECK(segment.memory == NULL && segment.fd == -1);
    CHECK_EQ(pdi_segment_make(&segment, "huge", PDI_SEGMENT_BYTES_MAX + 1, true, text, sizeof text),
             PYDDSI_BAD_ARGUMENT);
    CHECK(strstr(text, "4294967297") != NULL);
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK_EQ(pdi_segment_make(&segment, name, 1, true, text, sizeof text), PYDDSI_SYSTEM);
    CHECK(strstr(text, strerror(EINVAL)) != NULL);
    CHECK(segment.memory == NULL && segment.fd == -1);
    pdi_segment_free(&segment);
}

/* A memfd of one page with these seals. */
static int memfd(unsigned flags, int seals)
{
    int fd = memfd_create("test", flags);
    CHECK_EQ(ftruncate(fd, 4096), 0);
    if (seals != 0) {
        CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    }
    return fd;
}

/* If it failed, a neighbour could lead us to a file, a pipe or a device, to memory that can become
 * smaller, or to memory of another size than it told. */
static void test_map_refuses(void)
{
    enum { SHRINK_GROW = F_SEAL_SHRINK | F_SEAL_GROW };
    struct pdi_segment mine;
    struct pdi_segment there;
    int pipes[2];
    CHECK_EQ(pdi_segment_make(&mine, "mine", 4096, true, text, sizeof text), PYDDSI_OK);
    CHECK_EQ(pipe(pipes), 0);
    const struct {
        int fd, status;
        const char *why;
        size_t size;
    } rows[] = {
        {mine.fd, PYDDSI_OK, "", 4096},
        {mine.fd, PYDDSI_BAD_INPUT, "4096 bytes, not 8192", 8192},
        {mine.fd, PYDDSI_BAD_INPUT, "4096 bytes, not 4095", 4095},
        {mine.fd, PYDDSI_BAD_INPUT, "no process", 0},
        {mine.fd, PYDDSI_BAD_INPUT, "no process", SIZE_MAX},
        {-1, PYDDSI_BAD_INPUT, "no process", 4096},
        {999, PYDDSI_SYSTEM, "No such file", 4096},
        {memfd(MFD_ALLOW_SEALING, SHRINK_GROW | F_SEAL_SEAL), PYDDSI_OK, "", 4096},
        {memfd(MFD_ALLOW_SEALING, 0), PYDDSI_BAD_INPUT, "not sealed", 4096},
        {memfd(MFD_ALLOW_SEALING, F_SEAL_GROW | F_SEAL_SEAL), PYDDSI_BAD_INPUT, "not sealed", 4096},
        {memfd(MFD_ALLOW_SEALING, SHRINK_GROW), PYDDSI_BAD_INPUT, "not sealed", 4096},
        {memfd(0, 0), PYDDSI_BAD_INPUT, "not sealed", 4096},
        {pipes[0], PYDDSI_BAD_INPUT, "not memory", 4096},
        {open("/dev/zero", O_RDWR | O_CLOEXEC), PYDDSI_BAD_INPUT, "not memory", 4096},
        {open("/proc/self/maps", O_RDONLY | O_CLOEXEC), PYDDSI_BAD_INPUT, "0 bytes", 4096},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_EQ(map(&there, rows[i].fd, rows[i].size, true), rows[i].status);
        CHECK(strstr(text, rows[i].why) != NULL);
        CHECK((there.memory != NULL) == (rows[i].status == PYDDSI_OK));
        CHECK_EQ(there.fd, -1);
        pdi_segment_free(&there);
    }
    for (size_t i = 7; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_EQ(close(rows[i].fd), 0);
    }
    CHECK_EQ(close(pipes[1]), 0);
    pdi_segment_free(&mine);
}

/* If it failed, a plain file of ours would be mapped, which anybody can cut. */
static void test_map_refuses_file(void)
{
    struct pdi_segment there;
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(ftruncate(fileno(file), 4096), 0);
    CHECK_EQ(map(&there, fileno(file), 4096, false), PYDDSI_BAD_INPUT);
    CHECK(strstr(text, "not sealed") != NULL);
    CHECK_EQ(fclose(file), 0);
}

/* If it failed, memory of another user's would be taken for a neighbour's. */
static void test_map_refuses_stranger(void)
{
    struct pdi_segment there;
    struct pdi_segment mine;
    CHECK_EQ(pdi_segment_make(&mine, "mine", 4096, true, text, sizeof text), PYDDSI_OK);
    if (fchown(mine.fd, 12345, (gid_t)-1) ==
        0) { /* who may, may do anything; the rest cannot come here */
        CHECK_EQ(map(&there, mine.fd, 4096, true), PYDDSI_BAD_INPUT);
        CHECK(strstr(text, "another user") != NULL);
    }
    pdi_segment_free(&mine);
}

/* If it failed, what a process told that has ended would be found in another, or waited for. */
static void test_map_refuses_dead(void)
{
    struct pdi_segment mine;
    struct pdi_segment there;
    CHECK_EQ(pdi_segment_make(&mine, "mine", 4096, true, text, sizeof text), PYDDSI_OK);
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    CHECK_EQ(ended(child), 0);
    CHECK_EQ(pdi_segment_map(&there, (uint32_t)child, mine.fd, 4096, true, text, sizeof text),
             PYDDSI_SYSTEM);
    CHECK(strstr(text, "No such file") != NULL);
    CHECK_EQ(pdi_segment_map(&there, 0, mine.fd, 4096, true, text, sizeof text), PYDDSI_BAD_INPUT);
    CHECK_EQ(pdi_segment_map(&there, UINT32_MAX, mine.fd, 4096, true, text, sizeof text),
             PYDDSI_SYSTEM);
    pdi_segment_free(&mine);
}

/* How many descriptors are open. */
static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) != -1;
    }
    return count;
}

/* If it failed, mapping and failing to map would use up descriptors. */
static void test_no_leak(void)
{
    struct pdi_segment mine;
    struct pdi_segment there;
    int before = descriptors();
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(pdi_segment_make(&mine, "mine", 4096, false, text, sizeof text), PYDDSI_OK);
        CHECK_EQ(map(&there, mine.fd, 4096, false), PYDDSI_OK);
        CHECK(there.memory[0] == 0);
        pdi_segment_free(&there);
        CHECK_EQ(map(&there, mine.fd, 4096, true), PYDDSI_SYSTEM);
        CHECK_EQ(map(&there, mine.fd, 8192, false), PYDDSI_BAD_INPUT);
        pdi_segment_free(&mine);
        CHECK_EQ(map(&there, 0, 1, false) == PYDDSI_OK, 0);
        CHECK(pdi_segment_host_key() != 0);
    }
    CHECK_EQ(descriptors(), before);
}

/* If it failed, two processes of one machine would not find that they could share memory. */
static void test_host_key(void)
{
    uint64_t key = pdi_segment_host_key();
    CHECK(key != 0);
    CHECK(pdi_segment_host_key() == key);
    pid_t child = fork();
    if (child == 0) {
        _exit(pdi_segment_host_key() == key ? 0 : 1);
    }
    CHECK_EQ(ended(child), 0);
}

/* ---- bells ---- */

/* What two processes share: a bell for each way, and how often each has called. */
struct table {
    struct pdi_bell bells[2];
    struct pdi_atomic32 calls[2];
};

/* Waits until the other has called `wanted` times. Answers whether it had to be told by the
 * time. */
static bool hear(struct table *table, uint32_t self, uint32_t wanted)
{
    struct pdi_bell *bell = &table->bells[self];
    for (;;) {
        uint32_t heard = pdi_bell_listen(bell);
        if (pdi_atomic32_load_acquire(&table->calls[1 - self]) >= wanted) {
            pdi_bell_unlisten(bell);
            return false;
        }
        if (pdi_bell_wait(bell, heard, 20 * PDI_TIME_S) == PYDDSI_AGAIN) {
            return true; /* slept through */
        }
    }
}

static void call(struct table *table, uint32_t self, uint32_t count)
{
    pdi_atomic32_store_release(&table->calls[self], count);
    (void)pdi_bell_ring(&table->bells[1 - self]);
}

static int child_plays(pid_t parent, int fd, size_t size)
{
    struct pdi_segment there;
    if (pdi_segment_map(&there, (uint32_t)parent, fd, size, true, text, sizeof text) != PYDDSI_OK) {
        return 1;
    }
    struct table *table = (void *)there.memory; /* another address than the parent's */
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        if (hear(table, 1, round)) {
            return 2;
        }
        call(table, 1, round);
    }
    return 0;
}

/* If it failed, a process would sleep though another has rung for it. */
static void test_bell_two_processes(void)
{
    struct pdi_segment page;
    pid_t parent = getpid();
    CHECK_EQ(pdi_segment_make(&page, "page", sizeof(struct table), true, text, sizeof text),
             PYDDSI_OK);
    struct table *table = (void *)page.memory;
    pid_t child = fork();
    if (child == 0) {
        _exit(child_plays(parent, page.fd, page.size));
    }
    bool slept = false;
    for (uint32_t round = 1; round <= ROUNDS && !slept; round++) {
        call(table, 0, round);
        slept = hear(table, 0, round);
    }
    CHECK(!slept);
    CHECK_EQ(ended(child), 0);
    CHECK_EQ(pdi_atomic32_load_relaxed(&table->bells[0].asleep), 0);
    CHECK_EQ(pdi_atomic32_load_relaxed(&table->bells[1].asleep), 0);
    pdi_segment_free(&page);
}

static struct table shared;

static void *wait_for_all(void *context)
{
    uint64_t *slept = context;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        *slept += hear(&shared, 0, round);
        (void)pdi_atomic32_add(&shared.calls[0], 1);
        (void)pdi_bell_ring(&shared.bells[1]);
    }
    return NULL;
}

/* If it failed, one ring would wake only one of many, or a ring between looking and sleeping would
 * be lost. */
static void test_bell_many(void)
{
    pthread_t threads[THREADS];
    uint64_t slept[THREADS + 1] = {0};
    memset(&shared, 0, sizeof shared);
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, wait_for_all, &slept[i]), 0);
    }
    for (uint32_t round = 1; round <= ROUNDS && slept[THREADS] == 0; round++) {
        call(&shared, 1, round);
        slept[THREADS] += hear(&shared, 1, round * THREADS);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(slept[i], 0);
    }
    CHECK_EQ(slept[THREADS], 0);
}

/* Two threads that do the same round at the same time, as nearly as can be. */
static struct {
    struct pdi_bell bell;
    PDI_CACHE_ALIGNED struct pdi_atomic32 at[2];
    PDI_CACHE_ALIGNED struct pdi_atomic32 change;
    uint8_t rung[RACES + 1], seen[RACES + 1];
} race;

static void meet(uint32_t self, uint32_t step)
{
    pdi_atomic32_store_release(&race.at[self], step);
    for (uint32_t looks = 1; pdi_atomic32_load_acquire(&race.at[1 - self]) < step; looks++) {
        if (looks % 10000 == 0) {
            sched_yield();
        }
    }
}

static void *listen_and_look(void *context)
{
    for (uint32_t round = 1; round <= RACES; round++) {
        meet(0, 2 * round);
        (void)pdi_bell_listen(&race.bell);
        race.seen[round] = pdi_atomic32_load_acquire(&race.change) == round;
        meet(0, 2 * round + 1);
        pdi_bell_unlisten(&race.bell);
    }
    return context;
}

/* If it failed, a processor that lets a load go before a store could make both sides miss each
 * other: the one has not seen the change, the other not that somebody listens. */
static void test_bell_race(void)
{
    pthread_t thread;
    uint32_t missed = 0;
    CHECK_EQ(pthread_create(&thread, NULL, listen_and_look, NULL), 0);
    for (uint32_t round = 1; round <= RACES; round++) {
        meet(1, 2 * round);
        pdi_atomic32_store_release(&race.change, round);
        race.rung[round] = pdi_bell_ring(&race.bell);
        meet(1, 2 * round + 1);
    }
    pthread_join(thread, NULL);
    for (uint32_t round = 1; round <= RACES; round++) {
        missed += !race.rung[round] && !race.seen[round];
    }
    CHECK_EQ(missed, 0);
}

/* If it failed, ringing would cost a system call though nobody listens, or a wait would not end
 * when it should. */
static void test_bell_alone(void)
{
    static struct pdi_bell bell;
    pdi_bell_init(&bell);
    CHECK(!pdi_bell_ring(&bell));
    CHECK_EQ(pdi_atomic32_load_relaxed(&bell.rings), 0);
    uint32_t heard = pdi_bell_listen(&bell);
    CHECK(pdi_bell_ring(&bell));
    CHECK_EQ(pdi_bell_wait(&bell, heard, PDI_TIME_NEVER), PYDDSI_OK); /* was rung since */
    CHECK(!pdi_bell_ring(&bell));
    heard = pdi_bell_listen(&bell);
    CHECK_EQ(pdi_bell_wait(&bell, heard, PDI_TIME_MS), PYDDSI_AGAIN);
    CHECK(!pdi_bell_ring(&bell));
    heard = pdi_bell_listen(&bell);
    CHECK_EQ(pdi_bell_wait(&bell, heard, 0), PYDDSI_AGAIN);
    (void)pdi_bell_listen(&bell);
    pdi_bell_unlisten(&bell);
    CHECK(!pdi_bell_ring(&bell));
    CHECK_EQ(sizeof bell, PDI_CACHE_LINE);
}

static void nothing(int signal)
{
    (void)signal;
}

/* If it failed, a signal could not end a wait, and a program that sleeps could not be stopped. */
static void test_bell_signal(void)
{
    static struct pdi_bell bell;
    struct sigaction action = {.sa_handler = nothing};
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    int status = PYDDSI_OK;
    for (int i = 0; i < 20 && status != PYDDSI_END; i++) { /* it may come before the wait */
        uint32_t heard = pdi_bell_listen(&bell);
        (void)ualarm(20000, 0);
        status = pdi_bell_wait(&bell, heard, PDI_TIME_S);
    }
    CHECK_EQ(status, PYDDSI_END);
    CHECK_EQ(pdi_atomic32_load_relaxed(&bell.asleep), 0);
}

int main(void)
{
    test_two_processes();
    test_sealed();
    test_make_refuses();
    test_map_refuses();
    test_map_refuses_file();
    test_map_refuses_stranger();
    test_map_refuses_dead();
    test_no_leak();
    test_host_key();
    test_bell_two_processes();
    test_bell_many();
    test_bell_race();
    test_bell_alone();
    test_bell_signal();
    return test_result();
}
