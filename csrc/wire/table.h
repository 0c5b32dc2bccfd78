/* table.h - the protocol as data.
 *
 * One row per message, marker, declaration and list item: its flags, its fields in wire order, when
 * each field is there, and where it stands in the decoded struct. Decoder, encoder, printer, the
 * Python classes, the scapy layers and the reference page all walk these rows, so they cannot
 * disagree; a message is added by adding a row (and its fields to the struct in pyddsi.h). What a
 * row cannot say, because it spans several messages, is in decode.c.
 */
#ifndef PDI_WIRE_TABLE_H
#define PDI_WIRE_TABLE_H

#include "pyddsi.h"

#define PDI_KIND_MASK        0x1fU /* the kind in a message's header byte */
#define PDI_DECLARATION_MASK 0x0fU /* the kind in a declaration's header byte */
#define PDI_FLAG_MASK        0xe0U
#define PDI_VECTOR_MAX       65535U /* bytes of a byte vector, items of a list */
#define PDI_PEER_ID_MAX      16U
#define PDI_LEASE_MAX 21474836U /* zhe's limit, so that the lease fits 31 bits in milliseconds */

extern const pyddsi_spec pdi_messages[PYDDSI_KIND_COUNT];
extern const pyddsi_spec pdi_declarations[PYDDSI_DECLARATION_COUNT];

/* The row of the items of a list; |type| is PYDDSI_TYPE_LOCATORS or a later one but DECLARATIONS.
 */
const pyddsi_spec *pdi_item_spec(unsigned type);

/* The flag bits that mean something in a record of this row. */
unsigned pdi_flags_defined(const pyddsi_spec *spec);

#endif
