/* pcap.c - any bytes as the records of a pcap file, in blocks of any size.
 *
 * The first byte chooses the magic number, the second the check sequences and the third the blocks; the header is made of
 * these, so that every input is a capture, and the rest is what follows it. fuzz/container.h says what must hold.
 */
#include "container.h"

enum { HEADER = 24, OPTIONS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t magics[4][4] = {{0xd4, 0xc3, 0xb2, 0xa1},
                                         {0xa1, 0xb2, 0xc3, 0xd4},
                                         {0x4d, 0x3c, 0xb2, 0xa1},
                                         {0xa1, 0xb2, 0x3c, 0x4d}};
    static uint8_t file[INPUT_MAX + HEADER];
    if (size < OPTIONS || size > INPUT_MAX)
        return 0;
    memset(file, 0, HEADER);
    memcpy(file, magics[data[0] & 3], 4);
    file[data[0] & 1 ? 19 : 16] = data[0] >> 2; /* the snap length, in the file's byte order */
    file[data[0] & 1 ? 20 : 23] = data[1];
    file[data[0] & 1 ? 23 : 20] = 1;
    memcpy(file + HEADER, data + OPTIONS, size - OPTIONS);
    check_file(file, HEADER + size - OPTIONS, data[2]);
    return 0;
}
