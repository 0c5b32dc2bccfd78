/* crc32c.h - the checksum of stored records (CRC-32C, Castagnoli).
 *
 * Chosen over other checksums because processors compute it: one instruction takes eight bytes.
 * Where that instruction is missing, tables give the same result at about a quarter of the speed.
 */
#ifndef PDI_BASE_CRC32C_H
#define PDI_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what `crc` is the checksum of, followed by `size` bytes at `data`; that of
 * nothing is 0. So bytes in one piece or in many give the same result. */
uint32_t pdi_crc32c(uint32_t crc, const void *data, size_t size);

/* The same by tables, on any processor. */
uint32_t pdi_crc32c_tables(uint32_t crc, const void *data, size_t size);

#endif
