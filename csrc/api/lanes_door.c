/* lanes_door.c - see lanes_door.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "api/lanes_door.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static int make(void *context, struct pdi_segment *segment, const char *name, size_t size,
                bool shared, char *text, size_t room)
{
    (void)context;
    return pdi_segment_make(segment, name, size, shared, text, room);
}

static int map(void *context, struct pdi_segment *segment, uint32_t pid, int fd, size_t size,
               bool shared, char *text, size_t room)
{
    (void)context;
    return pdi_segment_map(segment, pid, fd, size, shared, text, room);
}

static void unmap(void *context, struct pdi_segment *segment)
{
    (void)context;
    pdi_segment_free(segment);
}

static bool runs(void *context, uint32_t pid)
{
    (void)context;
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

struct pdi_lanes_door pdi_lanes_door_system(void)
{
    return (struct pdi_lanes_door){.host = pdi_segment_host_key(),
                                   .pid = (uint32_t)getpid(),
                                   .make = make,
                                   .map = map,
                                   .unmap = unmap,
                                   .runs = runs};
}
