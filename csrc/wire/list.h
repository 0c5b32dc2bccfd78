/* list.h - taking the items out of a list of a decoded message. */
#ifndef PDI_WIRE_LIST_H
#define PDI_WIRE_LIST_H

#include "pyddsi.h"

/* Takes the first item off |list|, which comes from the decoder and so is known to be whole; fields
 * that the item does not have are 0. OK, or END when the list is empty. */
int pdi_list_locator(pyddsi_list *list, pyddsi_locator *locator);
int pdi_list_property(pyddsi_list *list, pyddsi_property *property);
int pdi_list_sample(pyddsi_list *list, pyddsi_sample *sample);
int pdi_list_declaration(pyddsi_list *list, pyddsi_declaration *declaration);

#endif
