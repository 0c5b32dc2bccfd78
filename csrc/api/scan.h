/* scan.h - what a scan of a capture is made of, and its batches. */
#ifndef PDI_API_SCAN_H
#define PDI_API_SCAN_H

#include "base/atomic.h"
#include "capture/scan.h"
#include "host/lock.h"
#include "pyddsi.h"

/* Where the arrays of a column lie in the memory of a batch; SIZE_MAX: it has none. */
struct pdi_shape {
    const struct pdi_column *column;
    size_t valid, offsets, values, room;
};

struct pdi_pool_shape {
    uint32_t count, capacity;
    size_t bytes;
    struct pdi_shape column[PYDDSI_COLUMNS_MAX];
};

struct pdi_arrow_batch;

struct pdi_arrow_pool {
    struct pdi_lock lock;
    struct pdi_atomic32 users; /* the scan, and each batch that is in use */
    uint32_t free_count;
    uint8_t closed;
    struct pdi_arrow_batch *free[3];
    struct pdi_pool_shape shape;
};

/* One batch: its memory lies behind it. */
struct pdi_arrow_batch {
    struct pdi_arrow_pool *pool;
    uint8_t *memory;
    struct pdi_atomic32 users; /* the scan that fills it; then each array that was handed out */
    uint32_t rows;
    uint32_t nulls[PYDDSI_COLUMNS_MAX];
};

struct pyddsi_scan {
    struct pdi_scan *core;
    void *memory;
    struct pdi_arrow_pool *pool;
    struct pdi_arrow_batch *batch; /* being filled */
    uint64_t rows;
};

/* Takes the batch that was filled, with one user; null: there are no rows (END), or an error. */
struct pdi_arrow_batch *pdi_scan_take(pyddsi_scan *scan, int *status);
/* One user less. */
void pdi_batch_leave(struct pdi_arrow_batch *batch);

#endif
