/* resync.h - where in the middle of a pcap file a record begins, found by convergence.
 *
 * Every byte of a window could begin a record. All chains that begin there are followed at once, in a ring of bits: two
 * chains that meet are one from then on, and one that comes to a header that no writer can have written ends. The true
 * chain is always among them, so when the window is behind us and exactly one chain is left, its next position is a true
 * boundary. If more than one is left when the bytes given end, nobody can tell, and the answer says so.
 *
 * The answer depends on the bytes and the position alone, so two readers that ask for the same position agree: with more
 * bytes an undecided answer may become a boundary, and a boundary stays the same one.
 *
 * A boundary that was found lies some 256 KiB ahead, so it makes no sense to look for one nearer than that to the end of a
 * file, and none is found there: a file may have been cut anywhere, and then every byte of its end may begin its last
 * record.
 */
#ifndef PDI_CAPTURE_RESYNC_H
#define PDI_CAPTURE_RESYNC_H

#include "capture/container.h"

/* Bytes of memory for the ring of bits; aligned to 8. */
size_t pdi_resync_memory(void);

/* The first boundary at or behind data[0] that is certain; |container| has the file's byte order. Give at least
 * 2 x PDI_FRAME_BYTES_MAX and better some megabytes; |last|: the file ends with these bytes.
 * OK: data[*at] begins a record (or *at is |size| and the file ends before another one begins). AGAIN: undecided within
 * these bytes, more of them might help. END: undecided for good, the file ends. BAD_INPUT: no chain is left, or it is no
 * pcap file. */
int pdi_resync_find(const struct pdi_container *container, const uint8_t *data, size_t size,
                    int last, void *memory, size_t *at);

#endif
