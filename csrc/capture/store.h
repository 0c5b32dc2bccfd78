/* store.h - numbers, times and bytes of a snapshot, written and read.
 *
 * A machine stores itself as numbers (base/bytes.h's VLE, so that small ones cost one byte) and runs of bytes, in the same
 * order on every machine. Writing goes on counting when the room is over, so one function says how much there is and writes
 * it. Times are told as distances from the last one told: neighbours in a table are neighbours in time.
 *
 * Who reads believes nothing: each number has its limits, and only its shortest form is taken. So what was read and is stored
 * again is the same bytes. The first thing that is wrong is remembered, and all that follows is 0; so a caller need look
 * once, at the end of a record, and before he goes round a loop again.
 */
#ifndef PDI_CAPTURE_STORE_H
#define PDI_CAPTURE_STORE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "capture/frame.h"

/* ---- writing: goes on counting when the room is over ---- */

struct pdi_store {
    uint8_t *out;
    size_t room;
    size_t size;
    int64_t last_ns;
};

static inline void pdi_store_put(struct pdi_store *store, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)(value & 0x7f);
        value >>= 7;
        if (store->size < store->room) {
            store->out[store->size] = byte | (value != 0 ? 0x80 : 0);
        }
        store->size++;
    } while (value != 0); /* ten bytes at most */
}

static inline void pdi_store_put_signed(struct pdi_store *store, int64_t value)
{
    pdi_store_put(store, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

/* A time, as its distance from the last one; 0 is none. */
static inline void pdi_store_put_time(struct pdi_store *store, int64_t time_ns)
{
    if (time_ns == PDI_TIME_NONE) {
        pdi_store_put(store, 0);
        return;
    }
    uint64_t distance = (uint64_t)time_ns - (uint64_t)store->last_ns;
    uint64_t zigzag = distance << 1 ^ (distance >> 63 != 0 ? UINT64_MAX : 0);
    pdi_store_put(store, zigzag == UINT64_MAX
                             ? zigzag
                             : zigzag + 1); /* the one distance that has no room is 2^63 */
    store->last_ns = time_ns;
}

/* Bytes whose number is known to who reads them, */
static inline void pdi_store_put_raw(struct pdi_store *store, const uint8_t *data, size_t size)
{
    if (store->size <= store->room && store->room - store->size >= size && size != 0) {
        memcpy(store->out + store->size, data, size);
    }
    store->size += size;
}

/* and with their number in front. */
static inline void pdi_store_put_bytes(struct pdi_store *store, const uint8_t *data, size_t size)
{
    pdi_store_put(store, size);
    pdi_store_put_raw(store, data, size);
}

/* ---- reading: the first thing wrong is remembered, and all that follows is 0 ---- */

struct pdi_restore {
    const uint8_t *at, *end;
    int64_t last_ns;
    bool bad;
};

/* A number of min .. max. */
static inline uint64_t pdi_store_get_from(struct pdi_restore *load, uint64_t min, uint64_t max)
{
    struct pdi_reader reader = {load->at, load->end};
    uint64_t value = 0;
    if (load->bad || pdi_vle_get(&reader, max, PDI_VLE_MAX, &value) != PDI_VLE_OK || value < min) {
        load->bad = true;
        return 0;
    }
    load->at = reader.at;
    return value;
}

static inline uint64_t pdi_store_get(struct pdi_restore *load, uint64_t max)
{
    return pdi_store_get_from(load, 0, max);
}

static inline int64_t pdi_store_get_signed(struct pdi_restore *load)
{
    uint64_t zigzag = pdi_store_get(load, UINT64_MAX);
    return (int64_t)(zigzag >> 1 ^ (zigzag & 1 ? UINT64_MAX : 0));
}

static inline int64_t pdi_store_get_time(struct pdi_restore *load)
{
    uint64_t zigzag = pdi_store_get(load, UINT64_MAX);
    if (zigzag == 0) {
        return PDI_TIME_NONE;
    }
    zigzag = zigzag == UINT64_MAX ? zigzag : zigzag - 1;
    uint64_t distance = zigzag >> 1 ^ (zigzag & 1 ? UINT64_MAX : 0);
    load->last_ns = (int64_t)((uint64_t)load->last_ns + distance);
    return load->last_ns;
}

static inline uint32_t pdi_store_get_index(struct pdi_restore *load, uint32_t count)
{
    return (uint32_t)pdi_store_get(load, count - 1);
}

/* Passes over so many bytes that are read where they lie; null: there are not so many. */
static inline const uint8_t *pdi_store_get_view(struct pdi_restore *load, size_t size)
{
    if (load->bad || (size_t)(load->end - load->at) < size) {
        load->bad = true;
        return NULL;
    }
    load->at += size;
    return load->at - size;
}

static inline void pdi_store_get_raw(struct pdi_restore *load, uint8_t *out, size_t size)
{
    const uint8_t *data = pdi_store_get_view(load, size);
    if (data != NULL && size != 0) {
        memcpy(out, data, size);
    }
}

/* At most |room| bytes; answers how many. */
static inline size_t pdi_store_get_bytes(struct pdi_restore *load, uint8_t *out, size_t room)
{
    size_t size = (size_t)pdi_store_get(load, room);
    pdi_store_get_raw(load, out, size);
    return load->bad ? 0 : size;
}

#endif
