/* segment.c - see segment.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "host/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define PATH_ROOM 64
#define FACT_ROOM 128

/* What a mapping of another's segment relies on. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int refuse(char *text, size_t room, int status, const char *what)
{
    (void)snprintf(text, room, "%s", what);
    return status;
}

static int refuse_errno(char *text, size_t room, const char *what)
{
    (void)snprintf(text, room, "%s: %s", what, strerror(errno));
    return PYDDSI_SYSTEM;
}

/* ---- our own ---- */

/* A memfd; without the right to be executed where the system knows that. */
static int make_memfd(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    return fd;
}

/* Seals it; the seal against writing alone may be missing. */
static int seal(int fd, bool shared)
{
    if (!shared && fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE) == 0) {
        return 0;
    }
    return fcntl(fd, F_ADD_SEALS, SEALS);
}

int pdi_segment_make(struct pdi_segment *segment, const char *name, size_t size, bool shared,
                     char *text, size_t room)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *segment = (struct pdi_segment){.fd = -1};
    if (size == 0 || size > PDI_SEGMENT_BYTES_MAX) {
        (void)snprintf(text, room, "shared memory of %zu bytes: 1 to %" PRIu64 " are possible",
                       size, (uint64_t)PDI_SEGMENT_BYTES_MAX);
        return PYDDSI_BAD_ARGUMENT;
    }
    segment->size = (size + page - 1) / page * page;
    segment->fd = make_memfd(name);
    if (segment->fd < 0) {
        return refuse_errno(text, room, "cannot make shared memory");
    }
    if (ftruncate(segment->fd, (off_t)segment->size) != 0) {
        (void)refuse_errno(text, room, "cannot make shared memory so large");
        pdi_segment_free(segment);
        return PYDDSI_SYSTEM;
    }
    void *memory = mmap(NULL, segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (memory == MAP_FAILED) {
        (void)refuse_errno(text, room, "cannot map shared memory");
        pdi_segment_free(segment);
        return PYDDSI_SYSTEM;
    }
    segment->memory = memory;
    if (seal(segment->fd, shared) != 0) {
        (void)refuse_errno(text, room, "cannot seal shared memory");
        pdi_segment_free(segment);
        return PYDDSI_SYSTEM;
    }
    return PYDDSI_OK;
}

/* ---- another's ---- */

/* Looks at what stands there without opening it: a path descriptor does nothing to the file, not
 * even to a pipe or a device. PYDDSI_OK and *path. */
static int look(uint32_t pid, int fd, size_t size, int *path, char *text, size_t room)
{
    char name[PATH_ROOM];
    struct stat status;
    (void)snprintf(name, sizeof name, "/proc/%" PRIu32 "/fd/%d", pid, fd);
    *path = open(name, O_PATH | O_CLOEXEC);
    if (*path < 0) {
        return refuse_errno(text, room, "cannot reach the other process's memory");
    }
    if (fstat(*path, &status) != 0) {
        return refuse_errno(text, room, "cannot look at the other process's memory");
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse(text, room, PYDDSI_BAD_INPUT, "what the other process told is not memory");
    }
    if (status.st_uid != geteuid()) {
        return refuse(text, room, PYDDSI_BAD_INPUT, "the other process's memory is another user's");
    }
    if ((uint64_t)status.st_size != size) {
        (void)snprintf(text, room, "the other process's memory has %jd bytes, not %zu as told",
                       (intmax_t)status.st_size, size);
        return PYDDSI_BAD_INPUT;
    }
    return PYDDSI_OK;
}

/* Opens and maps what was looked at. */
static int map(struct pdi_segment *segment, int path, size_t size, bool shared, char *text,
               size_t room)
{
    char name[PATH_ROOM];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", path);
    int fd = open(name, (shared ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0) {
        return refuse_errno(text, room, "cannot open the other process's memory");
    }
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) {
        (void)close(fd);
        return refuse(text, room, PYDDSI_BAD_INPUT,
                      "the other process's memory is not sealed against shrinking");
    }
    void *memory = mmap(NULL, size, PROT_READ | (shared ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    int reason = errno;
    (void)close(fd);
    if (memory == MAP_FAILED) {
        errno = reason;
        return refuse_errno(text, room, "cannot map the other process's memory");
    }
    *segment = (struct pdi_segment){.memory = memory, .size = size, .fd = -1};
    return PYDDSI_OK;
}

int pdi_segment_map(struct pdi_segment *segment, uint32_t pid, int fd, size_t size, bool shared,
                    char *text, size_t room)
{
    int path = -1;
    *segment = (struct pdi_segment){.fd = -1};
    if (pid == 0 || fd < 0 || size == 0 || size > PDI_SEGMENT_BYTES_MAX) {
        return refuse(text, room, PYDDSI_BAD_INPUT, "no process has such memory");
    }
    int status = look(pid, fd, size, &path, text, room);
    if (status == PYDDSI_OK) {
        status = map(segment, path, size, shared, text, room);
    }
    if (path >= 0) {
        (void)close(path);
    }
    return status;
}

void pdi_segment_free(struct pdi_segment *segment)
{
    if (segment->memory != NULL) {
        (void)munmap(segment->memory, segment->size);
    }
    if (segment->fd >= 0) {
        (void)close(segment->fd);
    }
    *segment = (struct pdi_segment){.fd = -1};
}

/* ---- which host ---- */

/* Takes a fact into a hash (FNV-1a); its length goes in as well. */
static uint64_t hash(uint64_t key, const void *fact, size_t size)
{
    const uint8_t *bytes = fact;
    for (size_t i = 0; i < size; i++) {
        key = (key ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return (key ^ size) * UINT64_C(0x100000001b3);
}

static ssize_t read_boot(char *fact, size_t room)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t size = read(fd, fact, room);
    (void)close(fd);
    return size;
}

uint64_t pdi_segment_host_key(void)
{
    static const char *const spaces[] = {"/proc/self/ns/pid", "/proc/self/ns/user",
                                         "/proc/self/ns/net"};
    char fact[FACT_ROOM];
    uid_t user = geteuid();
    uint64_t key = hash(UINT64_C(0xcbf29ce484222325), &user, sizeof user);
    ssize_t size = read_boot(fact, sizeof fact);
    bool told = size > 0;
    key = hash(key, fact, told ? (size_t)size : 0);
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        size = readlink(spaces[i], fact, sizeof fact);
        told = told && size > 0;
        key = hash(key, fact, size > 0 ? (size_t)size : 0);
    }
    if (!told) {
        uint64_t any = 0;
        (void)getrandom(&any, sizeof any, 0);
        key = hash(key, &any, sizeof any);
    }
    return key != 0 ? key : 1;
}
