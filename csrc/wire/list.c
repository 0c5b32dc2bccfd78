/* list.c - see list.h. A list is the bytes of its items and their number; the decoder has been over
 * them once. */
#include "wire/list.h"

#include "wire/record.h"

static struct pdi_record begin(const pyddsi_list *list)
{
    struct pdi_record record = {.reading = &pdi_reading_any};
    record.in.at = list->data;
    record.in.end = list->data + list->size;
    return record;
}

static int end(pyddsi_list *list, const struct pdi_record *record, int status)
{
    PDI_CHECK(status == PYDDSI_OK);
    list->size -= (size_t)(record->in.at - list->data);
    list->data = record->in.at;
    list->count--;
    return status;
}

static int item(pyddsi_list *list, unsigned type, void *into)
{
    if (list->count == 0)
        return PYDDSI_END;
    struct pdi_record record = begin(list);
    return end(list, &record, pdi_item_read(&record, pdi_item_spec(type), list->flags, into));
}

int pdi_list_locator(pyddsi_list *list, pyddsi_locator *locator)
{
    *locator = (pyddsi_locator){{0}};
    return item(list, PYDDSI_TYPE_LOCATORS, locator);
}

int pdi_list_property(pyddsi_list *list, pyddsi_property *property)
{
    *property = (pyddsi_property){0};
    return item(list, PYDDSI_TYPE_PROPERTIES, property);
}

int pdi_list_sample(pyddsi_list *list, pyddsi_sample *sample)
{
    *sample = (pyddsi_sample){0};
    return item(list, PYDDSI_TYPE_SAMPLES, sample);
}

int pdi_list_declaration(pyddsi_list *list, pyddsi_declaration *declaration)
{
    *declaration = (pyddsi_declaration){0};
    if (list->count == 0)
        return PYDDSI_END;
    struct pdi_record record = begin(list);
    return end(list, &record, pdi_declaration_read(&record, declaration));
}
