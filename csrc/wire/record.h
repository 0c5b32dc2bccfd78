/* record.h - reading the fields of one row of the table.
 *
 * A message holds fields and lists, a declaration holds fields and a list of properties, an item of
 * a list holds fields alone: three levels, each with its own function that calls only the level
 * below, so nothing recurses and the depth is bounded by the table.
 */
#ifndef PDI_WIRE_RECORD_H
#define PDI_WIRE_RECORD_H

#include "base/bytes.h"
#include "wire/table.h"

/* What reading goes on in, and how it failed. */
struct pdi_record {
    const pyddsi_reading *reading;
    struct pdi_reader in;
    int rule;          /* the broken rule, after a function answered other than OK */
    const uint8_t *at; /* where the broken field begins */
    const char *field; /* its name */
};

/* The reading that takes whatever the table allows; for lists that have been read once already. */
extern const pyddsi_reading pdi_reading_any;

/* Whether a field is there, given the flags of its record and, for declarations, what was read
 * before it. */
int pdi_field_present(const pyddsi_field *field, unsigned flags, const void *into);

/* Reads one plain field (no list) into its place in |into|. |header| is the record's header byte,
 * where the short form of a marker hides. OK, SHORT or BAD_INPUT. */
int pdi_field_read(struct pdi_record *record, const pyddsi_field *field, unsigned header,
                   void *into);

/* Reads the fields of a list item; its flags are those of the message. OK, SHORT or BAD_INPUT. */
int pdi_item_read(struct pdi_record *record, const pyddsi_spec *spec, unsigned flags, void *into);

/* Reads a list of items without lists inside: the count, then the items, which are looked at but
 * not kept. */
int pdi_items_read(struct pdi_record *record, const pyddsi_field *field, unsigned flags,
                   void *into);

/* Reads one declaration with its header byte. OK, SHORT or BAD_INPUT. */
int pdi_declaration_read(struct pdi_record *record, pyddsi_declaration *declaration);

/* Reads a list of declarations. */
int pdi_declarations_read(struct pdi_record *record, const pyddsi_field *field, void *into);

#endif
