/* write.h - frames become a pcap or pcapng file.
 *
 * Each function writes one header, block or record at out[*at] and moves *at behind it. NO_SPACE: it does not fit below
 * |room|; BAD_ARGUMENT: no file can hold it. Then nothing has happened. What is written is read again by container.h as
 * it was; numbers stand with their low byte first, so a file is the same bytes wherever it is written.
 *
 * A file has nanoseconds since 1970 and no sign: a frame from before cannot be written, nor in pcap one from after 2106.
 * A frame without a time gets 1970 itself, as there is no other way to write it with its lengths.
 */
#ifndef PDI_CAPTURE_WRITE_H
#define PDI_CAPTURE_WRITE_H

#include <stdbool.h>

#include "capture/frame.h"

/* What a synthesised frame is put together from: a datagram that was never on a wire as a frame. */
struct pdi_synthetic {
    pyddsi_endpoint source; /* kind 4, 6: UDP; 14, 16: TCP, whose bytes are counted on by the */
    pyddsi_endpoint target; /* caller. Both of one kind; 4 is mapped where the other one is 6 */
    const uint8_t *data;
    uint32_t size;
    uint32_t
        absent; /* bytes behind the data that were sent, and are not there: the headers count them */
    uint32_t sequence; /* TCP */
    uint8_t tcp_flags; /* TCP; 0: those of a packet with data, ACK and PSH */
    bool unsummed;     /* UDP on IPv4: without a checksum, which may be left out there */
    pyddsi_bytes head; /* the first bytes of the payload, which lie elsewhere than the data */
};

/* The file's header in nanoseconds. */
int pdi_write_pcap_header(uint16_t link, uint32_t snap, uint8_t *out, size_t room, size_t *at);
int pdi_write_pcap_frame(const struct pdi_frame *frame, uint8_t *out, size_t room, size_t *at);

/* A section with the name of who writes it, an interface with times in nanoseconds, and a frame with its direction and,
 * if it is not empty, a comment. Statistics: frames received and dropped by the capturing. */
int pdi_write_section(const char *application, uint8_t *out, size_t room, size_t *at);
int pdi_write_interface(uint16_t link, uint32_t snap, const char *name, uint8_t *out, size_t room,
                        size_t *at);
int pdi_write_frame(const struct pdi_frame *frame, pyddsi_bytes comment, uint8_t *out, size_t room,
                    size_t *at);
/* The same without its bytes: room for frame->size of them is left at *data, for the caller to write. */
int pdi_write_frame_around(const struct pdi_frame *frame, pyddsi_bytes comment, uint8_t *out,
                           size_t room, size_t *at, uint8_t **data);
int pdi_write_statistics(uint32_t interface, int64_t time_ns, uint64_t received, uint64_t dropped,
                         uint8_t *out, size_t room, size_t *at);

/* Bytes of such a frame; 0: none can be as wanted. */
size_t pdi_synthetic_size(const struct pdi_synthetic *synthetic);
/* IP and UDP (or TCP) headers with correct checksums (absent bytes count as zeros), and the payload: a frame of link type 101
 * (raw IP). */
int pdi_write_synthetic(const struct pdi_synthetic *synthetic, uint8_t *out, size_t room,
                        size_t *at);

#endif
