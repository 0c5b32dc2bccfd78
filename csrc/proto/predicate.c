/* predicate.c - from the text to the program, and running it.
 *
 * Operators wait on a stack until what stands on their right has been read (Dijkstra's shunting
 * yard). "and" and "or" leave a jump behind when they begin to wait, whose target is set when they
 * stop; comparisons and "not" become a step then.
 *
 * It is long, because who makes a program and who runs it must agree on what each step means,
 * and would otherwise share it in a header of their own.
 */
#include "proto/predicate.h"

#include <string.h>

#include "proto/json.h"

enum op {
    OP_NUMBER,
    OP_TEXT,
    OP_TRUE,
    OP_FALSE,
    OP_FIELD,
    OP_SIZE,
    OP_RESOURCE,
    OP_BYTE,
    OP_EQUAL,
    OP_UNEQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OP_NOT,
    OP_AND, /* as a step: if it is false, leave it and jump */
    OP_OR,  /* as a step: if it is true, leave it and jump */
    OP_OPEN /* never a step */
};

/* Who waits on the stack for how much: from a bracket, which takes all, to a comparison. */
enum tie { TIE_OPEN, TIE_OR, TIE_AND, TIE_NOT, TIE_COMPARE };

struct waiting {
    uint8_t op;
    uint8_t tie;
    uint16_t jump; /* of "and" and "or": the step whose target is missing */
};

struct maker {
    struct pdi_predicate *predicate;
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    struct waiting stack[PDI_PREDICATE_DEPTH_MAX];
    unsigned depth;
    bool operand; /* what was read last is an operand alone, which may be compared */
};

static bool is_letter(uint8_t c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static bool in_name(uint8_t c)
{
    return is_letter(c) || c == '_' || (c >= '0' && c <= '9');
}

static void skip_spaces(struct maker *maker)
{
    while (maker->at != maker->end &&
           (*maker->at == ' ' || (*maker->at >= '\t' && *maker->at <= '\r'))) {
        maker->at++;
    }
}

/* The bytes from here on that can be in a name, and dots. */
static size_t word_size(const struct maker *maker, const uint8_t *from)
{
    const uint8_t *at = from;
    while (at != maker->end && (in_name(*at) || *at == '.')) {
        at++;
    }
    return (size_t)(at - from);
}

/* Reads this word if it comes next, and is not only the beginning of another. */
static bool read_word(struct maker *maker, const char *word)
{
    size_t size = strlen(word);
    if (word_size(maker, maker->at) != size || memcmp(maker->at, word, size) != 0) {
        return false;
    }
    maker->at += size;
    return true;
}

static int emit(struct maker *maker, struct pdi_predicate_step step)
{
    struct pdi_predicate *predicate = maker->predicate;
    if (predicate->count == PDI_PREDICATE_STEPS_MAX) {
        return PYDDSI_NO_SPACE;
    }
    predicate->steps[predicate->count++] = step;
    return PYDDSI_OK;
}

/* Puts an operator on the stack. */
static int wait(struct maker *maker, uint8_t op, uint8_t tie)
{
    if (maker->depth == PDI_PREDICATE_DEPTH_MAX) {
        return PYDDSI_NO_SPACE;
    }
    maker->stack[maker->depth++] = (struct waiting){op, tie, maker->predicate->count};
    return PYDDSI_OK;
}

/* Takes the operators from the stack that wait for no more than `tie`; the others stay. */
static int settle(struct maker *maker, uint8_t tie)
{
    while (maker->depth > 0 && maker->stack[maker->depth - 1].tie >= tie) {
        const struct waiting *top = &maker->stack[--maker->depth];
        if (top->op == OP_AND || top->op == OP_OR) {
            maker->predicate->steps[top->jump].at = maker->predicate->count;
        } else {
            int status = emit(maker, (struct pdi_predicate_step){.op = top->op});
            if (status != PYDDSI_OK) {
                return status;
            }
        }
    }
    return PYDDSI_OK;
}

/* A name with its dots. The same name once more is the same place in the text, so that a run can
 * see that it has just looked it up. */
static int read_field(struct maker *maker)
{
    const uint8_t *name = maker->at;
    size_t size = word_size(maker, name);
    struct pdi_predicate *predicate = maker->predicate;
    size_t at = (size_t)(name - maker->start);
    for (size_t i = 0; i < size; i++) {
        if (name[i] == '.' && (i + 1 == size || name[i + 1] == '.')) {
            maker->at += i;
            return PYDDSI_BAD_INPUT;
        }
    }
    for (unsigned i = 0; i < predicate->count; i++) {
        const struct pdi_predicate_step *step = &predicate->steps[i];
        if (step->op == OP_FIELD && step->size == size &&
            memcmp(maker->start + step->at, name, size) == 0) {
            at = step->at;
        }
    }
    maker->at += size;
    return emit(maker, (struct pdi_predicate_step){
                           .op = OP_FIELD, .at = (uint16_t)at, .size = (uint16_t)size});
}

/* A field that begins with '$'. */
static int read_builtin(struct maker *maker)
{
    const uint8_t *name = maker->at + 1;
    size_t size = word_size(maker, name);
    struct pdi_predicate_step step = {.op = OP_BYTE};
    if (size == 4 && memcmp(name, "size", 4) == 0) {
        step.op = OP_SIZE;
    } else if (size == 8 && memcmp(name, "resource", 8) == 0) {
        step.op = OP_RESOURCE;
    } else {
        if ((size != 5 && size != 6) || memcmp(name, "byte", 4) != 0 ||
            (size == 6 && name[4] == '0')) {
            return PYDDSI_BAD_INPUT;
        }
        for (size_t i = 4; i < size; i++) {
            if (name[i] < '0' || name[i] > '9') {
                return PYDDSI_BAD_INPUT;
            }
            step.at = (uint16_t)(step.at * 10 + (name[i] - '0'));
        }
        if (step.at > PDI_PREDICATE_BYTE_MAX) {
            return PYDDSI_BAD_INPUT;
        }
    }
    maker->at = name + size;
    return emit(maker, step);
}

static int read_text(struct maker *maker)
{
    const uint8_t *text = maker->at + 1;
    const uint8_t *quote = memchr(text, *maker->at, (size_t)(maker->end - text));
    if (quote == NULL) {
        return PYDDSI_BAD_INPUT;
    }
    maker->at = quote + 1;
    return emit(maker, (struct pdi_predicate_step){.op = OP_TEXT,
                                                   .at = (uint16_t)(text - maker->start),
                                                   .size = (uint16_t)(quote - text)});
}

/* A number must not run into a name: "3x" is neither. */
static int read_number(struct maker *maker)
{
    struct pdi_predicate_step step = {.op = OP_NUMBER};
    const uint8_t *at = maker->at;
    if (*at == '+') {
        at++;
        if (at == maker->end || *at == '-') {
            return PYDDSI_BAD_INPUT;
        }
    }
    if (!pdi_json_number(&at, maker->end, &step.number) || word_size(maker, at) != 0) {
        return PYDDSI_BAD_INPUT;
    }
    maker->at = at;
    return emit(maker, step);
}

static int read_operand(struct maker *maker)
{
    uint8_t c = *maker->at;
    maker->operand = true;
    if (c == '\'' || c == '"') {
        return read_text(maker);
    }
    if (c == '$') {
        return read_builtin(maker);
    }
    if (!is_letter(c) && c != '_') {
        return read_number(maker);
    }
    if (read_word(maker, "true")) {
        return emit(maker, (struct pdi_predicate_step){.op = OP_TRUE});
    }
    if (read_word(maker, "false")) {
        return emit(maker, (struct pdi_predicate_step){.op = OP_FALSE});
    }
    if (word_size(maker, maker->at) <= 3) {
        const uint8_t *at = maker->at;
        if (read_word(maker, "and") || read_word(maker, "or")) {
            maker->at = at;
            return PYDDSI_BAD_INPUT;
        }
    }
    return read_field(maker);
}

/* Where an operand is due: that, or what may stand before one. *found is whether it was one. */
static int read_front(struct maker *maker, bool *found)
{
    bool compared = maker->depth > 0 && maker->stack[maker->depth - 1].tie == TIE_COMPARE;
    const uint8_t *at = maker->at;
    uint8_t op = OP_NUMBER;
    *found = false;
    if (*maker->at == '(') {
        maker->at++;
        op = OP_OPEN;
    } else if (read_word(maker, "not")) {
        op = OP_NOT;
    } else {
        *found = true;
        return read_operand(maker);
    }
    if (compared) {
        maker->at = at;
        return PYDDSI_BAD_INPUT;
    }
    return wait(maker, op, op == OP_OPEN ? TIE_OPEN : TIE_NOT);
}

/* A sign of comparison; OP_OPEN if there is none. */
static uint8_t read_sign(struct maker *maker)
{
    uint8_t c = *maker->at;
    bool equal = maker->end - maker->at >= 2 && maker->at[1] == '=';
    uint8_t op = OP_OPEN;
    if (c == '=') {
        op = OP_EQUAL;
    } else if (c == '!' && equal) {
        op = OP_UNEQUAL;
    } else if (c == '<') {
        op = equal ? OP_LESS_EQUAL : OP_LESS;
    } else if (c == '>') {
        op = equal ? OP_GREATER_EQUAL : OP_GREATER;
    } else {
        return op;
    }
    maker->at += equal ? 2 : 1;
    return op;
}

/* Where an operator is due. *more is whether an operand must follow. */
static int read_back(struct maker *maker, bool *more)
{
    const uint8_t *at = maker->at;
    int status = PYDDSI_OK;
    *more = true;
    if (*at == ')') {
        status = settle(maker, TIE_OR);
        if (status == PYDDSI_OK && maker->depth == 0) {
            status = PYDDSI_BAD_INPUT;
        }
        if (status == PYDDSI_OK) {
            maker->depth--; /* the bracket */
            maker->at++;
            maker->operand = false;
            *more = false;
        }
        return status;
    }
    bool both = read_word(maker, "and");
    if (both || read_word(maker, "or")) {
        uint8_t op = both ? OP_AND : OP_OR;
        uint8_t tie = both ? TIE_AND : TIE_OR;
        status = settle(maker, tie);
        if (status == PYDDSI_OK) {
            status = wait(maker, op, tie);
        }
        return status == PYDDSI_OK ? emit(maker, (struct pdi_predicate_step){.op = op}) : status;
    }
    uint8_t sign = read_sign(maker);
    if (sign == OP_OPEN || !maker->operand ||
        (maker->depth > 0 && maker->stack[maker->depth - 1].tie == TIE_COMPARE)) {
        maker->at = at;
        return PYDDSI_BAD_INPUT;
    }
    return wait(maker, sign, TIE_COMPARE);
}

/* Reads the whole text. Each round reads a byte at least, or fails. */
static int make(struct maker *maker)
{
    bool found = false; /* whether an operand stands directly before */
    for (;;) {
        int status = PYDDSI_OK;
        skip_spaces(maker);
        if (maker->at == maker->end) {
            break;
        }
        if (!found) {
            status = read_front(maker, &found);
        } else {
            bool more = false;
            status = read_back(maker, &more);
            found = !more;
        }
        if (status != PYDDSI_OK) {
            return status;
        }
    }
    if (!found) {
        return maker->predicate->count == 0 && maker->depth == 0 ? PYDDSI_OK : PYDDSI_BAD_INPUT;
    }
    int status = settle(maker, TIE_OR);
    return status == PYDDSI_OK && maker->depth > 0 ? PYDDSI_BAD_INPUT : status;
}

int pdi_predicate_init(struct pdi_predicate *predicate, const char *text, size_t size,
                       pyddsi_fault *fault)
{
    predicate->count = 0;
    if (size > PDI_PREDICATE_TEXT_MAX) {
        *fault = (pyddsi_fault){PYDDSI_RULE_NAME_PREDICATE, PDI_PREDICATE_TEXT_MAX};
        return PYDDSI_NO_SPACE;
    }
    if (size > 0) {
        memcpy(predicate->text, text, size);
    }
    const uint8_t *start = (const uint8_t *)predicate->text;
    struct maker maker = {.predicate = predicate, .start = start, .at = start, .end = start + size};
    int status = make(&maker);
    if (status != PYDDSI_OK) {
        *fault = (pyddsi_fault){PYDDSI_RULE_NAME_PREDICATE, (size_t)(maker.at - start)};
        predicate->count = 0;
    }
    return status;
}

/* ---- running it -------------------------------------------------------------------------------- */

static bool truth(const struct pdi_json *value)
{
    return value->kind == PDI_JSON_TRUE ||
           (value->kind == PDI_JSON_NUMBER && (value->number < 0 || value->number > 0)) ||
           (value->kind == PDI_JSON_TEXT && value->text.size > 0);
}

static struct pdi_json of_number(double number)
{
    return (struct pdi_json){.kind = PDI_JSON_NUMBER, .number = number};
}

static struct pdi_json of_truth(bool truth)
{
    return (struct pdi_json){.kind = truth ? PDI_JSON_TRUE : PDI_JSON_FALSE};
}

/* Whether the order of two values, if they have one, is what the sign asks for. */
static bool compare(uint8_t op, const struct pdi_json *a, const struct pdi_json *b)
{
    int order = 0;
    if (a->kind == PDI_JSON_NUMBER && b->kind == PDI_JSON_NUMBER) {
        order = (a->number > b->number) - (a->number < b->number);
    } else if (a->kind == PDI_JSON_TEXT && b->kind == PDI_JSON_TEXT) {
        order = pdi_json_compare(a, b);
    } else if ((a->kind == PDI_JSON_TRUE || a->kind == PDI_JSON_FALSE) &&
               (b->kind == PDI_JSON_TRUE || b->kind == PDI_JSON_FALSE)) {
        order = (a->kind == PDI_JSON_TRUE) - (b->kind == PDI_JSON_TRUE);
    } else {
        return false;
    }
    switch (op) {
    case OP_EQUAL:
        return order == 0;
    case OP_UNEQUAL:
        return order != 0;
    case OP_LESS:
        return order < 0;
    case OP_LESS_EQUAL:
        return order <= 0;
    case OP_GREATER:
        return order > 0;
    default:
        return order >= 0;
    }
}

/* The sample of a run, and the field that was looked up last. */
struct sample {
    const uint8_t *text; /* of the predicate */
    uint64_t resource;
    pyddsi_bytes payload;
    struct pdi_json field;
    uint32_t field_at; /* UINT32_MAX: none yet */
};

static struct pdi_json operand(struct sample *sample, const struct pdi_predicate_step *step)
{
    pyddsi_bytes text = {sample->text + step->at, step->size};
    switch (step->op) {
    case OP_NUMBER:
        return of_number(step->number);
    case OP_TEXT:
        return (struct pdi_json){.kind = PDI_JSON_TEXT, .text = text};
    case OP_SIZE:
        return of_number((double)sample->payload.size);
    case OP_RESOURCE:
        return of_number((double)(sample->resource >> 1));
    case OP_BYTE:
        return step->at < sample->payload.size ? of_number(sample->payload.data[step->at])
                                               : (struct pdi_json){.kind = PDI_JSON_NOTHING};
    case OP_FIELD:
        if (sample->field_at != step->at) {
            sample->field_at = step->at;
            sample->field = sample->payload.size <= PDI_PREDICATE_PAYLOAD_MAX
                                ? pdi_json_find(sample->payload, text)
                                : (struct pdi_json){.kind = PDI_JSON_NOTHING};
        }
        return sample->field;
    default:
        return of_truth(step->op == OP_TRUE);
    }
}

bool pdi_predicate_holds(const struct pdi_predicate *predicate, uint64_t resource,
                         pyddsi_bytes payload)
{
    struct sample sample = {.text = (const uint8_t *)predicate->text,
                            .resource = resource,
                            .payload = payload,
                            .field_at = UINT32_MAX};
    struct pdi_json below = {.kind = PDI_JSON_NOTHING};
    struct pdi_json top = {.kind = PDI_JSON_TRUE};
    for (unsigned at = 0; at < predicate->count; at++) {
        const struct pdi_predicate_step *step = &predicate->steps[at];
        switch (step->op) {
        case OP_EQUAL:
        case OP_UNEQUAL:
        case OP_LESS:
        case OP_LESS_EQUAL:
        case OP_GREATER:
        case OP_GREATER_EQUAL:
            top = of_truth(compare(step->op, &below, &top));
            break;
        case OP_NOT:
            top = of_truth(!truth(&top));
            break;
        case OP_AND:
        case OP_OR:
            if (truth(&top) == (step->op == OP_OR)) {
                at = step->at - 1U;
            }
            break;
        default:
            below = top;
            top = operand(&sample, step);
        }
    }
    return truth(&top);
}
