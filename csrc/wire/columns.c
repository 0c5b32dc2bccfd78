/* columns.c - see columns.h. */
#include "wire/columns.h"

#include "wire/decode.h"
#include "wire/table.h"

/* Which of the columns a kind fills. Made from the table, so that no kind is forgotten. */
enum { HAS_SN = 1, HAS_RID = 2, HAS_PAYLOAD = 4, HAS_KNOWN = 8 };

static unsigned columns_of(const pyddsi_spec *spec)
{
    unsigned has = HAS_KNOWN;
    for (unsigned i = 0; i < spec->field_count; i++) {
        size_t at = spec->field[i].at;
        has |= at == offsetof(pyddsi_message, sn)        ? HAS_SN
               : at == offsetof(pyddsi_message, rid)     ? HAS_RID
               : at == offsetof(pyddsi_message, payload) ? HAS_PAYLOAD
                                                         : 0U;
    }
    return has;
}

static void append(const pyddsi_columns *columns, size_t row, uint32_t number, const uint8_t *data,
                   const pyddsi_message *message)
{
    unsigned has = columns->has[message->kind];
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
    size_t count = columns->count;
    pyddsi_decoder decoder;
    pyddsi_message message;
    int status;
    if (size > UINT32_MAX)
        return PYDDSI_BAD_ARGUMENT;
    pdi_decoder_init(&decoder, reading, data, size);
    while ((status = pdi_decoder_next(&decoder, &message)) == PYDDSI_OK) { /* a byte at least */
        if (count == columns->capacity)
            return PYDDSI_NO_SPACE;
        if (columns->has[message.kind] == 0)
            columns->has[message.kind] = (uint8_t)columns_of(&pdi_messages[message.kind]);
        append(columns, count++, number, data, &message);
    }
    columns->count = count;
    *fault = decoder.fault;
    return status == PYDDSI_END ? PYDDSI_OK : status;
}
