/* lanes_door.h - what lanes ask of the system: memory that other processes can map, and whether a process runs.
 *
 * A session passes the system's answers (segment.h). A simulated machine has answers of its own, from its own memory
 * (sim_shared.c), so the same lanes run in a simulated world.
 */
#ifndef PDI_API_LANES_DOOR_H
#define PDI_API_LANES_DOOR_H

#include "host/segment.h"

struct pdi_lanes_door {
    void *context;
    uint64_t host; /* the same for processes that can map each other's memory */
    uint32_t pid;  /* our process */
    /* As the functions of segment.h; a map asks for memory of process `pid`. */
    int (*make)(void *context, struct pdi_segment *segment, const char *name, size_t size,
                bool shared, char *text, size_t room);
    int (*map)(void *context, struct pdi_segment *segment, uint32_t pid, int fd, size_t size,
               bool shared, char *text, size_t room);
    void (*unmap)(void *context, struct pdi_segment *segment);
    bool (*runs)(void *context, uint32_t pid);
};

/* The system's, for this process. */
struct pdi_lanes_door pdi_lanes_door_system(void);

static inline int pdi_door_make(const struct pdi_lanes_door *door, struct pdi_segment *segment,
                                const char *name, size_t size, bool shared, char *text, size_t room)
{
    return door->make(door->context, segment, name, size, shared, text, room);
}

static inline int pdi_door_map(const struct pdi_lanes_door *door, struct pdi_segment *segment,
                               uint32_t pid, int fd, size_t size, bool shared, char *text,
                               size_t room)
{
    return door->map(door->context, segment, pid, fd, size, shared, text, room);
}

/* More than once does no harm. */
static inline void pdi_door_unmap(const struct pdi_lanes_door *door, struct pdi_segment *segment)
{
    door->unmap(door->context, segment);
}

#endif
