/* filter.h - which rows are wanted: a small program of steps (pyddsi_where) over the columns of a row.
 *
 *     kind == SDATA and rid == 7         COLUMN kind, NUMBER 7, EQ, COLUMN rid, NUMBER 7, EQ, AND
 *
 * The program is checked once: it never reads beyond its columns and texts, its stack never runs over or empty, and it
 * ends. A value that is not there makes every comparison false, as in SQL, but for the step that asks whether it is there.
 */
#ifndef PDI_CAPTURE_FILTER_H
#define PDI_CAPTURE_FILTER_H

#include "capture/table.h"

#define PDI_FILTER_TEXTS_MAX 2048U

struct pdi_filter {
    const struct pdi_table *table;
    uint32_t count;
    pyddsi_where steps[PYDDSI_WHERE_MAX];
    uint8_t texts[PDI_FILTER_TEXTS_MAX];
};

/* OK, or BAD_ARGUMENT for a program that cannot be. */
int pdi_filter_init(struct pdi_filter *filter, const struct pdi_table *table,
                    const pyddsi_where *steps, uint32_t count, const uint8_t *texts,
                    size_t texts_size);
bool pdi_filter_test(const struct pdi_filter *filter, const void *row,
                     const struct pdi_row_packet *packet);

/* The value of a number's column; false: there is none. */
bool pdi_column_number(const struct pdi_column *column, const void *row,
                       const struct pdi_row_packet *packet, int64_t *value);
/* The value of a text's column, printed into |room| bytes if need be; its data is null if there is none. */
pyddsi_bytes pdi_column_text(const struct pdi_column *column, const void *row,
                             const struct pdi_row_packet *packet, char *room, size_t size);

#endif
