/* bytes.c - the long numbers. See bytes.h. */
#include "base/bytes.h"

enum pdi_vle pdi_vle_get_long(struct pdi_reader *reader, uint64_t max, unsigned bytes_max,
                              uint64_t *value)
{
    PDI_CHECK(bytes_max >= 1 && bytes_max <= PDI_VLE_MAX);
    const uint8_t *at = reader->at;
    uint64_t sum = 0;
    for (unsigned i = 0; i < bytes_max; i++) {
        if (at == reader->end)
            return PDI_VLE_CUT;
        uint8_t byte = *at++;
        uint64_t group = byte & 0x7f;
        if (i == PDI_VLE_MAX - 1 && group > 1)
            return PDI_VLE_WIDE; /* bits 64 and up */
        sum |= group << (7 * i);
        if (sum > max)
            return PDI_VLE_WIDE; /* whatever may follow */
        if (byte & 0x80)
            continue;
        *value = sum;
        reader->at = at;
        return byte == 0 && i > 0 ? PDI_VLE_LONG_FORM : PDI_VLE_OK;
    }
    return PDI_VLE_WIDE;
}
