/* pace.h - packets leave at their deadlines, from a thread of their own.
 *
 *     who fills                     ring                      the pacing thread
 *     push ── batch ──► │ batch │ batch │ batch │ ──► sleep until the deadline ─► send ─► how late?
 *        ▲                                                          │
 *        └──────────────── bell: batches that are done ◄────────────┘
 *
 * Why a thread. Whoever fills the ring reads files and has an interpreter; both stop for milliseconds
 * now and then. The thread does nothing but wait and send, and what it needs has been laid ready long
 * before.
 *
 * Why absolute deadlines. Each sleep ends some microseconds late. Who sleeps for the distance to the
 * next packet adds that up; who sleeps until a time on the clock does not, however long it goes on. So
 * every deadline is a distance from the one moment when the thread began.
 *
 * How it waits. Far from a deadline by a bell, which a stop can ring; nearer by clock_nanosleep until
 * `spin_ns` before it, with the least timer slack (thread.h); the rest by looking at the clock, where
 * there is a second processor to do that on. No packet leaves before its deadline.
 *
 * Batches belong to who pushed them and stay where they are until `done` has passed them: nothing is
 * copied. What has come due for one socket leaves with one call of the system (port_many.h), so a
 * stream that is faster than the calls, or that is not to wait at all, travels in batches by itself.
 *
 * Threads. One fills, waits and counts. Lateness is read when the pacing thread has ended.
 */
#ifndef PDI_HOST_PACE_H
#define PDI_HOST_PACE_H

#include <stdbool.h>

#include "base/histogram.h"
#include "base/time.h"
#include "pyddsi.h"

#define PDI_PACE_BATCHES_MAX 4096U /* in the ring; a power of two */

struct pdi_pace;

/* Makes one that has not begun. spin_ns: how long before a deadline it begins to look at the clock; flat_out: deadlines
 * are not waited for, nor is anything late. OK, or NO_SPACE with a text of at most `room` bytes. */
int pdi_pace_open(struct pdi_pace **pace, uint64_t spin_ns, bool flat_out, char *text, size_t room);

/* A socket to send from: it stays the caller's, who closes it after pdi_pace_close. family 4 or 6; scope: the interface
 * that addresses of one link belong to, 0 for none. Its number, or NO_SPACE. */
int pdi_pace_socket(struct pdi_pace *pace, int fd, uint8_t family, uint32_t scope);

/* Where packets go: from this socket to this address. Its number, BAD_ARGUMENT for an address of another family, or
 * NO_SPACE. Numbers given out so far may be used in what is pushed next. */
int pdi_pace_way(struct pdi_pace *pace, uint32_t socket, const pyddsi_endpoint *to);

/* Packets in the order of their deadlines, which count from `base_ns` after the beginning; their bytes are somewhere in
 * `data`. OK; AGAIN: the ring is full; BAD_ARGUMENT: a way that there is not, or bytes beyond `size`. */
int pdi_pace_push(struct pdi_pace *pace, const pyddsi_replay_packet *packets, uint64_t count,
                  const uint8_t *data, size_t size, uint64_t base_ns);

/* The time begins, a millisecond from now if anything is to wait. OK, or SYSTEM with a text. */
int pdi_pace_begin(struct pdi_pace *pace, char *text, size_t room);

/* Nothing more is pushed: the thread ends when all has left. */
void pdi_pace_finish(struct pdi_pace *pace);

/* The thread ends now; what has not left stays. */
void pdi_pace_stop(struct pdi_pace *pace);

/* Waits until so many batches are done, or the thread has ended: OK; AGAIN: the time is over; END: a signal came. */
int pdi_pace_wait(struct pdi_pace *pace, uint64_t done, uint64_t timeout_ns);

void pdi_pace_count(struct pdi_pace *pace, pyddsi_replay_counts *counts);

/* How late packets left, one count for each slot of histogram.h, once the thread has ended. */
void pdi_pace_late(struct pdi_pace *pace, uint64_t late[PDI_HISTOGRAM_SLOTS]);

/* Stops the thread and gives back the memory; null is closed already. */
void pdi_pace_close(struct pdi_pace *pace);

#endif
