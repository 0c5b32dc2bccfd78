/* wire/rules.h and wire/table.h: every rule has its words, and the table keeps to what those who walk it rely on. */
#include "wire/rules.h"

#include "test.h"
#include "wire/table.h"

/* If it failed, a rule that was added would be told as "?", or two rules in the same words. */
static void test_words(void)
{
    for (int rule = 0; rule < PYDDSI_RULE_COUNT; rule++) {
        CHECK(strcmp(pdi_rule_name(rule), "?") != 0);
        CHECK(strlen(pdi_rule_text(rule)) > 8);
        for (int other = 0; other < rule; other++) {
            CHECK(strcmp(pdi_rule_name(rule), pdi_rule_name(other)) != 0);
            CHECK(strcmp(pdi_rule_text(rule), pdi_rule_text(other)) != 0);
        }
    }
    static const int none[] = {-1, PYDDSI_RULE_COUNT, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        CHECK_TEXT(pdi_rule_name(none[i]), "?");
        CHECK_TEXT(pdi_rule_text(none[i]), "no such rule");
        CHECK_EQ(pdi_rule_zhe(none[i], PYDDSI_SDATA, 0), PYDDSI_ZHE_ACCEPTS);
    }
}

/* If it failed, we would be wrong about what zhe does where that depends on more than the rule. */
static void test_zhe(void)
{
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_NONE, PYDDSI_BDATA, 0), PYDDSI_ZHE_ACCEPTS);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_CUT, PYDDSI_SDATA, 0), PYDDSI_ZHE_DROPS);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_CUT, PYDDSI_SDATA, 1), PYDDSI_ZHE_STALLS);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_PEER_ID_LENGTH, PYDDSI_OPEN, 0), PYDDSI_ZHE_REFUSES);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_PEER_ID_LENGTH, PYDDSI_KEEPALIVE, 0), PYDDSI_ZHE_DROPS);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_PEER_ID_LENGTH, PYDDSI_CLOSE, 0), PYDDSI_ZHE_ACCEPTS);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_NUMBER_WIDE, PYDDSI_PING, 1), PYDDSI_ZHE_IGNORES);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_NUMBER_WIDE, PYDDSI_OPEN, 0), PYDDSI_ZHE_DROPS);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_FLAG_UNDEFINED, PYDDSI_SCOUT, 0), PYDDSI_ZHE_ACCEPTS);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_ID_PARITY, PYDDSI_SDATA, 0), PYDDSI_ZHE_DIES);
    CHECK_EQ(pdi_rule_zhe(PYDDSI_RULE_OPEN_PROPERTIES, PYDDSI_OPEN, 0), PYDDSI_ZHE_DIES);
    /* Of a kind that it does not know zhe sees nothing but the kind. */
    static const int beyond[] = {PYDDSI_BDATA, PYDDSI_PULL,    PYDDSI_CONDUIT_CLOSE, PYDDSI_FRAG,
                                 PYDDSI_QUERY, PYDDSI_MIGRATE, PYDDSI_RSPACE,        31};
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        for (int rule = PYDDSI_RULE_NONE + 1; rule < PYDDSI_RULE_COUNT; rule++)
            CHECK_EQ(pdi_rule_zhe(rule, (unsigned)beyond[i], 1), PYDDSI_ZHE_DROPS);
    }
}

static void check_field(const pyddsi_spec *spec, unsigned index, size_t struct_size)
{
    const pyddsi_field *field = &spec->field[index];
    size_t size = field->type > PYDDSI_TYPE_LISTS  ? sizeof(pyddsi_list)
                  : field->type > PYDDSI_TYPE_BYTE ? sizeof(pyddsi_bytes)
                                                   : sizeof(uint64_t);
    CHECK(field->name != NULL && field->name[0] != 0 && field->text != NULL);
    CHECK(field->at + size <= struct_size);
    CHECK((field->presence == PYDDSI_IF_FLAG) == (field->flag != 0));
    CHECK((field->flag & ~pdi_flags_defined(spec)) == 0);
    CHECK((field->value_count != 0) == (field->values != NULL));
    CHECK(field->type != PYDDSI_TYPE_MARKER || (index == 0 && spec->field_count == 1));
    CHECK(field->type != PYDDSI_TYPE_DECLARATIONS || index + 1U == spec->field_count);
    /* The decoder clears an absent number or list; a byte vector it would leave as it was. */
    int vector = field->type > PYDDSI_TYPE_BYTE && field->type < PYDDSI_TYPE_LISTS;
    CHECK(!vector || field->presence == PYDDSI_ALWAYS);
    for (unsigned i = 0; i < index; i++) {
        CHECK(strcmp(field->name, spec->field[i].name) != 0);
        CHECK(field->at != spec->field[i].at);
    }
}

static void check_row(const pyddsi_spec *spec, unsigned number, size_t struct_size)
{
    unsigned flags = 0;
    CHECK_EQ(spec->number, number);
    CHECK(spec->text != NULL && strchr("ABR", spec->part) != NULL);
    CHECK(spec->field_count <= 8 && (spec->field_count > 0) == (spec->part != 'R'));
    for (unsigned i = 0; i < spec->field_count; i++)
        check_field(spec, i, struct_size);
    for (unsigned i = 0; i < 3; i++) {
        CHECK((spec->flag[i].letter != 0) == (spec->flag[i].text != NULL));
        CHECK(spec->flag[i].letter != 0 || spec->flag[i].name == NULL);
        flags |= spec->flag[i].letter != 0 ? (unsigned)PYDDSI_FLAG_20 << i : 0U;
    }
    int marker = spec->field_count == 1 && spec->field[0].type == PYDDSI_TYPE_MARKER;
    CHECK_EQ(pdi_flags_defined(spec), marker ? PDI_FLAG_MASK : flags);
}

/* If it failed, a row would contradict itself: a field behind a flag that is not defined, a place
 * outside the struct, a number that is not its own. */
static void test_rows(void)
{
    unsigned messages = 0, declarations = 0;
    for (unsigned i = 0; i < PYDDSI_KIND_COUNT; i++) {
        if (pdi_messages[i].name == NULL)
            continue;
        check_row(&pdi_messages[i], i, sizeof(pyddsi_message));
        messages++;
        CHECK(pdi_messages[i].marker <= 1 && pdi_messages[i].markers < 8);
        CHECK(pyddsi_spec_message(i) == &pdi_messages[i]);
    }
    for (unsigned i = 0; i < PYDDSI_DECLARATION_COUNT; i++) {
        if (pdi_declarations[i].name == NULL)
            continue;
        check_row(&pdi_declarations[i], i, sizeof(pyddsi_declaration));
        declarations++;
        CHECK(pyddsi_spec_declaration(i) == &pdi_declarations[i]);
    }
    CHECK_EQ(messages, 24);
    CHECK_EQ(declarations, 11);
    check_row(pdi_item_spec(PYDDSI_TYPE_LOCATORS), 0, sizeof(pyddsi_locator));
    check_row(pdi_item_spec(PYDDSI_TYPE_PROPERTIES), 0, sizeof(pyddsi_property));
    check_row(pdi_item_spec(PYDDSI_TYPE_SAMPLES), 0, sizeof(pyddsi_sample));
}

/* If it failed, asking for a row that does not exist would read outside the table. */
static void test_no_row(void)
{
    static const unsigned none[] = {0, 25, 31, 32, 33, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        CHECK(pyddsi_spec_message(none[i]) == NULL);
        CHECK(pyddsi_spec_declaration(none[i]) == NULL);
    }
    CHECK(pyddsi_spec_declaration(12) == NULL && pyddsi_spec_declaration(16) == NULL);
    CHECK(pyddsi_spec_item(PYDDSI_TYPE_LISTS) == NULL);
    CHECK(pyddsi_spec_item(PYDDSI_TYPE_DECLARATIONS) == NULL);
    CHECK(pyddsi_spec_item(PYDDSI_TYPE_DECLARATIONS + 1) == NULL);
    CHECK(pyddsi_spec_item(0) == NULL && pyddsi_spec_item(UINT32_MAX) == NULL);
    CHECK(pyddsi_spec_item(PYDDSI_TYPE_SAMPLES) != NULL);
}

int main(void)
{
    test_words();
    test_zhe();
    test_rows();
    test_no_row();
    return test_result();
}
