/* sniff.h - what goes by on an interface: IP packets as the system hands them to who may look (CAP_NET_RAW).
 *
 * The kernel writes packets into a ring that it shares with us (PACKET_MMAP, version 3), a block of many at a time, each with
 * its time in nanoseconds; a block is handed over when it is full or some milliseconds old. From there they are copied once,
 * as records of a pcap file, so that everything that reads a file reads this. What finds no free block is lost, and the kernel
 * counts it.
 *
 * The socket is a cooked one: whatever kind of interface it is, packets begin with their IP header (link type 101). On the
 * loopback each packet goes by twice, out and in; only the second is taken.
 */
#ifndef PDI_HOST_SNIFF_H
#define PDI_HOST_SNIFF_H

#include "pyddsi.h"

struct pdi_sniff;

/* Begins to look. |interface|: its name, or "any". OK; negative with a text, cut to |room|. */
int pdi_sniff_open(struct pdi_sniff **made, const char *interface, char *text, size_t room);
void pdi_sniff_close(struct pdi_sniff *sniff);

/* Writes records of what has gone by since, as many as fit; waits for the first of them up to |timeout_ms|. OK, also with no
 * byte; negative: the interface is gone. |room| is 128 KiB at least. */
int pdi_sniff_take(struct pdi_sniff *sniff, uint8_t *out, size_t room, size_t *size,
                   unsigned timeout_ms);

/* Packets that went by, and that were lost for want of room, since it was opened. */
void pdi_sniff_counts(struct pdi_sniff *sniff, uint64_t *seen, uint64_t *lost);

#endif
