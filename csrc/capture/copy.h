/* copy.h - frames of one file on their way into another: all, some, or what is ours without its secrets.
 *
 * Plain copies are the frames as they were captured, with their times, lengths, directions and comments. A copy without
 * secrets is made of the protocol's packets alone, each with headers of its own: what was around them (other protocols,
 * hardware addresses, fragments, the way TCP had cut its bytes) is not in it, and so cannot tell anything.
 */
#ifndef PDI_CAPTURE_COPY_H
#define PDI_CAPTURE_COPY_H

#include "capture/scan.h"

/* Whether the next frame, or packet, certainly fits. */
bool pdi_copy_fits(const pyddsi_copy *copy);
/* The frame at hand, if it is wanted. False: its link type is new, and the interface is to be written first. */
bool pdi_copy_frame(struct pdi_scan *scan);
/* The packet at hand, without secrets. */
void pdi_copy_packet(struct pdi_scan *scan);
/* A direction of a connection begins (its SYN). */
void pdi_copy_start(struct pdi_scan *scan);

#endif
