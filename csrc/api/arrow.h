/* arrow.h - batches as Arrow's C data interface hands them on.
 *
 * The two structs are those of the interface's description, which is frozen; everybody who uses it writes them down once
 * more, because that is how it is meant.
 */
#ifndef PDI_API_ARROW_H
#define PDI_API_ARROW_H

#include "api/scan.h"

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

/* The schema of a scan's batches. OK, or NO_SPACE. */
int pdi_arrow_schema(const pyddsi_scan *scan, struct ArrowSchema *schema);
/* A batch as one array; it has the batch's one user from then on. OK, or NO_SPACE, and the batch is as it was. */
int pdi_arrow_array(struct pdi_arrow_batch *batch, struct ArrowArray *array);

#endif
