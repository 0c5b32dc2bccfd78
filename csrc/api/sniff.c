/* sniff.c - the front door to looking at an interface: host/sniff.h has the contract. */
#include "host/sniff.h"

int pyddsi_sniff_open(pyddsi_sniff **made, const char *interface, char *text)
{
    return pdi_sniff_open(made, interface, text, PYDDSI_TEXT_MAX);
}

void pyddsi_sniff_close(pyddsi_sniff *sniff)
{
    pdi_sniff_close(sniff);
}

int pyddsi_sniff_take(pyddsi_sniff *sniff, uint8_t *out, size_t room, size_t *size,
                      uint32_t timeout_ms)
{
    return pdi_sniff_take(sniff, out, room, size, timeout_ms);
}

void pyddsi_sniff_counts(pyddsi_sniff *sniff, uint64_t *seen, uint64_t *lost)
{
    pdi_sniff_counts(sniff, seen, lost);
}
