/* pcapng.c - any bytes as a capture, in blocks of any size.
 *
 * The first byte chooses the sizes of the blocks that the file comes in, the rest is the file. fuzz/container.h says what
 * must hold.
 */
#include "container.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > INPUT_MAX)
        return 0;
    check_file(data + 1, size - 1, data[0]);
    return 0;
}
