/* record.c - see record.h. */
#include "wire/record.h"

#include "wire/name.h"

const pyddsi_reading pdi_reading_any = {
    .max = {[PYDDSI_TYPE_NUMBER64] = UINT64_MAX,
            [PYDDSI_TYPE_NUMBER32] = UINT64_MAX,
            [PYDDSI_TYPE_NUMBER16] = UINT64_MAX,
            [PYDDSI_TYPE_HASH] = UINT64_MAX,
            [PYDDSI_TYPE_SN] = UINT64_MAX,
            [PYDDSI_TYPE_RID] = UINT64_MAX,
            [PYDDSI_TYPE_SID] = UINT64_MAX,
            [PYDDSI_TYPE_ID] = UINT64_MAX,
            [PYDDSI_TYPE_ID_NONE] = UINT64_MAX},
    .bytes = {10, 10, 10, 10, 10, 10, 10, 10, 10},
};

static int failed(struct pdi_record *record, const pyddsi_field *field, int rule, const uint8_t *at)
{
    record->rule = rule;
    record->at = at;
    record->field = field != NULL ? field->name : NULL;
    return rule == PYDDSI_RULE_CUT ? PYDDSI_SHORT : PYDDSI_BAD_INPUT;
}

/* The rule that a number of this type breaks when it is too large. */
static int too_large(unsigned type)
{
    switch (type) {
    case PYDDSI_TYPE_SN:
        return PYDDSI_RULE_SN_RANGE;
    case PYDDSI_TYPE_RID:
    case PYDDSI_TYPE_SID:
    case PYDDSI_TYPE_ID:
    case PYDDSI_TYPE_ID_NONE:
        return PYDDSI_RULE_ID_WIDE;
    default:
        return PYDDSI_RULE_NUMBER_WIDE;
    }
}

/* The rules on ids that only the strict reading and zhe have. */
static int id_rule(const pyddsi_reading *reading, unsigned type, uint64_t id)
{
    int odd = id % 2 == 1;
    if (!reading->strict) /* zhe knows no selections but in their own declarations */
        return odd && type != PYDDSI_TYPE_SID ? PYDDSI_RULE_ID_PARITY : PYDDSI_RULE_NONE;
    if (odd ? type == PYDDSI_TYPE_RID : type == PYDDSI_TYPE_SID)
        return PYDDSI_RULE_ID_PARITY;
    if (id <= 1 && (odd || type != PYDDSI_TYPE_ID_NONE)) /* the one 0 with a meaning is even */
        return PYDDSI_RULE_ID_ZERO;
    return PYDDSI_RULE_NONE;
}

/* Reads a number with the limits given. */
static int number_read(struct pdi_record *record, const pyddsi_field *field, uint64_t max,
                       unsigned bytes_max, int wide_rule, uint64_t *value)
{
    const uint8_t *at = record->in.at;
    enum pdi_vle got = pdi_vle_get(&record->in, max, bytes_max, value);
    if (__builtin_expect(got == PDI_VLE_OK, 1))
        return PYDDSI_OK;
    if (got == PDI_VLE_CUT)
        return failed(record, field, PYDDSI_RULE_CUT, at);
    if (got == PDI_VLE_WIDE)
        return failed(record, field, wide_rule, at);
    if (record->reading->strict)
        return failed(record, field, PYDDSI_RULE_NUMBER_LONG_FORM, at);
    return PYDDSI_OK;
}

/* Reads a vector's length and the view of its bytes. */
static int vector_read(struct pdi_record *record, const pyddsi_field *field, pyddsi_bytes *bytes)
{
    const uint8_t *at = record->in.at;
    uint64_t size = 0;
    int status = number_read(record, field, PDI_VECTOR_MAX, 3, PYDDSI_RULE_LENGTH_WIDE, &size);
    if (status != PYDDSI_OK)
        return status;
    if (size > pdi_reader_left(&record->in))
        return failed(record, field, PYDDSI_RULE_CUT, at);
    bytes->data = record->in.at;
    bytes->size = (size_t)size;
    record->in.at += size;
    return PYDDSI_OK;
}

/* A view that can be read still breaks a rule if it is no peer id. zhe looks at the ids of OPEN and
 * KEEPALIVE, whose fields alone are named "id"; a CLOSE is obeyed whatever id it holds, and
 * decode.c knows that. */
static int peer_id_read(struct pdi_record *record, const pyddsi_field *field, pyddsi_bytes *id)
{
    const uint8_t *at = record->in.at;
    int status = vector_read(record, field, id);
    if (status == PYDDSI_OK && record->reading->strict &&
        (id->size == 0 || id->size > PDI_PEER_ID_MAX))
        return failed(record, field, PYDDSI_RULE_PEER_ID_LENGTH, at);
    return status;
}

int pdi_field_present(const pyddsi_field *field, unsigned flags, const void *into)
{
    const pyddsi_declaration *declaration = into;
    switch (field->presence) {
    case PYDDSI_IF_FLAG:
        return (flags & field->flag) != 0;
    case PYDDSI_IF_PERIODIC:
        return declaration->mode == 3 || declaration->mode == 4;
    case PYDDSI_IF_FAILED:
        return declaration->status != 0;
    default:
        return 1;
    }
}

int pdi_field_read(struct pdi_record *record, const pyddsi_field *field, unsigned header,
                   void *into)
{
    const pyddsi_reading *reading = record->reading;
    void *place = (char *)into + field->at;
    if (field->type < PYDDSI_TYPE_NUMBERS) {
        const uint8_t *at = record->in.at;
        uint64_t *value = place;
        int status = number_read(record, field, reading->max[field->type],
                                 reading->bytes[field->type], too_large(field->type), value);
        if (status == PYDDSI_OK && field->type >= PYDDSI_TYPE_RID &&
            reading->options.strictness != PYDDSI_TOLERANT) {
            int rule = id_rule(reading, field->type, *value);
            if (rule != PYDDSI_RULE_NONE)
                return failed(record, field, rule, at);
        }
        return status;
    }
    switch (field->type) {
    case PYDDSI_TYPE_MARKER:
        if (header & PYDDSI_Z) {
            *(uint64_t *)place = ((header >> 5) & 3U) + 1;
            return PYDDSI_OK;
        }
        return number_read(record, field, PDI_VECTOR_MAX, 3, PYDDSI_RULE_NUMBER_WIDE, place);
    case PYDDSI_TYPE_BYTE:
        if (record->in.at == record->in.end)
            return failed(record, field, PYDDSI_RULE_CUT, record->in.at);
        *(uint64_t *)place = *record->in.at++;
        return PYDDSI_OK;
    case PYDDSI_TYPE_PEER_ID:
        return peer_id_read(record, field, place);
    default:
        PDI_CHECK(field->type == PYDDSI_TYPE_BYTES || field->type == PYDDSI_TYPE_TEXT);
        return vector_read(record, field, place);
    }
}

int pdi_item_read(struct pdi_record *record, const pyddsi_spec *spec, unsigned flags, void *into)
{
    for (unsigned i = 0; i < spec->field_count; i++) {
        const pyddsi_field *field = &spec->field[i];
        if (field->flag & ~flags)
            continue;
        int status = pdi_field_read(record, field, 0, into);
        if (status != PYDDSI_OK)
            return status;
    }
    return PYDDSI_OK;
}

/* Reads the count of a list and notes where its items begin. */
static int list_begin(struct pdi_record *record, const pyddsi_field *field, unsigned flags,
                      pyddsi_list *list)
{
    uint64_t count = 0;
    int status = number_read(record, field, PDI_VECTOR_MAX, 3, PYDDSI_RULE_LENGTH_WIDE, &count);
    list->data = record->in.at;
    list->count = (size_t)count;
    list->flags = (uint8_t)flags;
    return status;
}

/* Passes over samples as nearly all are: their length in its shortest form of one or two bytes, and all of them there. Answers
 * how many those were; the next one is looked at as any item is. */
static size_t samples_pass(struct pdi_record *record, size_t count)
{
    const uint8_t *at = record->in.at;
    const uint8_t *end = record->in.end;
    size_t passed = 0;
    while (passed < count) { /* each has a byte at least */
        size_t left = (size_t)(end - at);
        size_t size = 0;
        if (left >= 1 && at[0] < 0x80) {
            size = 1U + at[0];
        } else if (left >= 2 && at[1] - 1U < 0x7f) {
            size = 2U + ((size_t)(at[0] & 0x7f) | (size_t)at[1] << 7);
        }
        if (size == 0 || size > left) {
            break;
        }
        at += size;
        passed++;
    }
    record->in.at = at;
    return passed;
}

int pdi_items_read(struct pdi_record *record, const pyddsi_field *field, unsigned flags, void *into)
{
    pyddsi_list *list = (void *)((char *)into + field->at);
    union {
        pyddsi_locator locator;
        pyddsi_property property;
        pyddsi_sample sample;
    } item;
    int status = list_begin(record, field, flags, list);
    size_t passed = 0;
    if (status == PYDDSI_OK && field->type == PYDDSI_TYPE_SAMPLES && (flags & PYDDSI_A) == 0)
        passed = samples_pass(record, list->count);
    /* Each item has a byte at least, so the packet's end bounds the loop. */
    for (size_t i = passed; status == PYDDSI_OK && i < list->count; i++)
        status = pdi_item_read(record, pdi_item_spec(field->type), flags, &item);
    list->size = (size_t)(record->in.at - list->data);
    return status;
}

/* The rules that a declaration can break as a whole. */
static int declaration_rule(const pyddsi_reading *reading, unsigned header, const pyddsi_spec *spec,
                            const pyddsi_declaration *declaration)
{
    if (!reading->strict)
        return PYDDSI_RULE_NONE;
    if ((header & ~pdi_flags_defined(spec) & ~PDI_DECLARATION_MASK) != 0)
        return PYDDSI_RULE_FLAG_UNDEFINED;
    if (declaration->kind == PYDDSI_SUBSCRIPTION &&
        (declaration->mode == 3 || declaration->mode == 4) &&
        declaration->duration >= declaration->period)
        return PYDDSI_RULE_PERIOD;
    return PYDDSI_RULE_NONE;
}

int pdi_declaration_read(struct pdi_record *record, pyddsi_declaration *declaration)
{
    const uint8_t *begin = record->in.at;
    if (begin == record->in.end)
        return failed(record, NULL, PYDDSI_RULE_CUT, begin);
    unsigned header = *record->in.at++;
    const pyddsi_spec *spec = &pdi_declarations[header & PDI_DECLARATION_MASK];
    if (spec->name == NULL)
        return failed(record, NULL, PYDDSI_RULE_DECLARATION_KIND, begin);
    declaration->kind = spec->number;
    declaration->flags = header & PDI_FLAG_MASK;
    for (unsigned i = 0; i < spec->field_count; i++) {
        const pyddsi_field *field = &spec->field[i];
        if (!pdi_field_present(field, header, declaration))
            continue;
        int status = field->type == PYDDSI_TYPE_PROPERTIES
                         ? pdi_items_read(record, field, header, declaration)
                         : pdi_field_read(record, field, header, declaration);
        if (status != PYDDSI_OK)
            return status;
        if (field->type == PYDDSI_TYPE_BYTE && spec->number == PYDDSI_SUBSCRIPTION &&
            (declaration->mode < 1 || declaration->mode > 5))
            return failed(record, field, PYDDSI_RULE_MODE, record->in.at - 1);
    }
    int rule = declaration_rule(record->reading, header, spec, declaration);
    return rule == PYDDSI_RULE_NONE ? PYDDSI_OK : failed(record, NULL, rule, begin);
}

int pdi_declarations_read(struct pdi_record *record, const pyddsi_field *field, void *into)
{
    pyddsi_list *list = (void *)((char *)into + field->at);
    pyddsi_declaration declaration = {0};
    int status = list_begin(record, field, 0, list);
    for (size_t i = 0; status == PYDDSI_OK && i < list->count; i++) {
        const uint8_t *begin = record->in.at;
        status = pdi_declaration_read(record, &declaration);
        if (status == PYDDSI_OK && record->reading->strict && i + 1 < list->count &&
            declaration.kind == PYDDSI_COMMIT)
            return failed(record, NULL, PYDDSI_RULE_COMMIT_LAST, begin);
    }
    list->size = (size_t)(record->in.at - list->data);
    return status;
}
