/* segment.h - memory that other processes of the same user on this machine can map.
 *
 *     owner:    memfd ─► size ─► map ─► seal      (tells pid, fd and size)
 *
 *     another:  /proc/<pid>/fd/<fd> ─► look ─► open ─► look ─► map
 *                                       │               └ seals: it cannot shrink under our feet
 *                                       └ a plain file, ours, of that size; anything else is never
 *                                         opened, as opening can block or do something
 *
 * A memfd has no name in any folder: however its owner ends, the memory goes with its last mapping.
 * Sealed against shrinking, growing and further seals, so a mapping can never fault. A segment that
 * others may only read is sealed against writing, too, once its owner has mapped it: then no other
 * process can write to it, whatever it does (a system older than Linux 5.1 does not know this seal;
 * there only the mapping is read-only, by agreement).
 *
 * What is mapped is only memory: whose it is, the reader must see from a cookie at its beginning,
 * since between telling and mapping a process may have ended and its number been given to another.
 *
 * Why not names (shm_open): they outlive a process that is killed, and need a place, rights and
 * somebody who cleans up. Why not descriptors over a Unix socket: that would be a connection with a
 * life of its own for each pair of sessions.
 */
#ifndef PDI_HOST_SEGMENT_H
#define PDI_HOST_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pyddsi.h"

#define PDI_SEGMENT_BYTES_MAX (UINT64_C(1) << 32)

struct pdi_segment {
    uint8_t *memory; /* page aligned; null: there is none */
    size_t size;     /* in whole pages: what others are told */
    int fd;          /* ours: the memfd, to be told as well; another's: -1 */
};

/* Makes one of at least `size` bytes, all zero; `name` is for people who look into /proc. Others
 * may write to it if `shared`, else only read.
 * PYDDSI_OK; PYDDSI_BAD_ARGUMENT: no such size; PYDDSI_SYSTEM; with a text. */
int pdi_segment_make(struct pdi_segment *segment, const char *name, size_t size, bool shared,
                     char *text, size_t room);

/* Maps another process's segment, whose size must be `size` exactly, read-only unless `shared`.
 * PYDDSI_OK; PYDDSI_BAD_INPUT: what is there is not what was told; PYDDSI_SYSTEM: it is not to be
 * had; with a text. */
int pdi_segment_map(struct pdi_segment *segment, uint32_t pid, int fd, size_t size, bool shared,
                    char *text, size_t room);

/* Unmaps it, and gives back the descriptor if it is ours. More than once does no harm. */
void pdi_segment_free(struct pdi_segment *segment);

/* A number that two processes have in common if they can map each other's segments: the same boot,
 * user, and namespaces of processes, users and networks. Never 0. Where the system tells nothing, a
 * new one each time, so nobody tries. */
uint64_t pdi_segment_host_key(void);

#endif
