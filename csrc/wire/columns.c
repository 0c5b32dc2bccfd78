/* columns.c - see columns.h. */
#include "wire/columns.h"

#include "wire/decode.h"
#include "wire/table.h"

/* Which of the columns a kind fills. Made from the table, so that no kind is forgotten. */
enum { HAS_SN = 1, HAS_RID = 2, HAS_PAYLOAD = 4 };

static unsigned columns_of(const pyddsi_spec *spec)
{
    unsigned has = 0;
    for (unsigned i = 0; i < spec->field_count; i++) {
        size_t at = spec->field[i].at;
        has |= at == offsetof(pyddsi_message, sn)        ? HAS_SN
               : at == offsetof(pyddsi_message, rid)     ? HAS_RID
               : at == offsetof(pyddsi_message, payload) ? HAS_PAYLOAD
                                                         : 0U;
    }
    return has;
}

static void append(pyddsi_columns *columns, uint32_t number, const uint8_t *data, unsigned has,
                   const pyddsi_message *message)
{
    size_t row = columns->count++;
    int payload = (has & HAS_PAYLOAD) != 0;
    columns->packet[row] = number;
    columns->at[row] = (uint32_t)message->at;
    columns->size[row] = (uint32_t)message->size;
    columns->kind[row] = message->kind;
    columns->flags[row] = message->flags;
    columns->conduit[row] = (uint16_t)message->conduit;
    columns->sn[row] = has & HAS_SN ? message->sn : 0;
    columns->rid[row] = has & HAS_RID ? message->rid : 0;
    columns->payload_at[row] = payload ? (uint32_t)(message->payload.data - data) : 0;
    columns->payload_size[row] = payload ? (uint32_t)message->payload.size : 0;
}

int pdi_columns_packet(pyddsi_columns *columns, const pyddsi_reading *reading, uint32_t number,
                       const uint8_t *data, size_t size, pyddsi_fault *fault)
{
    size_t before = columns->count;
    unsigned kind = PYDDSI_KIND_COUNT, has = 0;
    pyddsi_decoder decoder;
    pyddsi_message message;
    if (size > UINT32_MAX)
        return PYDDSI_BAD_ARGUMENT;
    pdi_decoder_init(&decoder, reading, data, size);
    for (;;) { /* each turn takes a byte at least */
        int status = pdi_decoder_next(&decoder, &message);
        if (status != PYDDSI_OK) {
            *fault = decoder.fault;
            return status == PYDDSI_END ? PYDDSI_OK : status;
        }
        if (columns->count == columns->capacity) {
            columns->count = before;
            return PYDDSI_NO_SPACE;
        }
        if (message.kind != kind) {
            kind = message.kind;
            has = columns_of(&pdi_messages[kind]);
        }
        append(columns, number, data, has, &message);
    }
}
