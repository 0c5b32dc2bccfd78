/* echo.c - blocks for what a session's own subscribers get. */
#include "api/echo.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_MIN ((size_t)256)
#define BLOCK_MAX ((size_t)2048) /* larger ones go back to the system at once */

static uint32_t index_of(uint32_t held)
{
    return held & (PDI_ECHO_MAX - 1);
}

void pdi_echo_fini(struct pdi_echo *echo)
{
    for (uint32_t i = 0; i < echo->used; i++)
        free(echo->blocks[i]);
    free((void *)echo->blocks);
    free(echo->free);
    *echo = (struct pdi_echo){0};
}

static bool make_tables(struct pdi_echo *echo)
{
    if (echo->blocks == NULL)
        echo->blocks = (struct pdi_echo_block **)calloc(PDI_ECHO_MAX, sizeof *echo->blocks);
    if (echo->free == NULL)
        echo->free = calloc(PDI_ECHO_MAX, sizeof *echo->free);
    return echo->blocks != NULL && echo->free != NULL;
}

/* A block for a sample, and its index; false: no room. */
static bool take(struct pdi_echo *echo, size_t size, uint32_t *index)
{
    if (!make_tables(echo) || size > echo->bytes_max - echo->bytes)
        return false;
    if (echo->free_count != 0)
        *index = echo->free[echo->free_count - 1];
    else if (echo->used < PDI_ECHO_MAX)
        *index = echo->used;
    else
        return false;
    struct pdi_echo_block *block = echo->blocks[*index];
    if (block == NULL || block->room < size) {
        size_t room = size < BLOCK_MIN ? BLOCK_MIN : size < BLOCK_MAX ? BLOCK_MAX : size;
        free(block);
        block = echo->blocks[*index] = malloc(sizeof *block + room);
        if (block == NULL)
            return false;
        block->room = room;
    }
    echo->free_count -= echo->free_count != 0;
    echo->used += *index == echo->used;
    echo->bytes += block->room;
    block->holds = 1;
    return true;
}

static void let_go(struct pdi_echo *echo, uint32_t index)
{
    struct pdi_echo_block *block = echo->blocks[index];
    if (--block->holds != 0)
        return;
    echo->bytes -= block->room;
    if (block->room > BLOCK_MAX) {
        free(block);
        echo->blocks[index] = NULL;
    }
    echo->free[echo->free_count++] = (uint16_t)index;
}

int pdi_echo_copy(struct pdi_echo *echo, const uint8_t *data, size_t size, uint32_t *held,
                  const uint8_t **bytes)
{
    uint32_t index = 0;
    if (size > echo->bytes_max)
        return PYDDSI_BAD_ARGUMENT;
    if (!take(echo, size, &index)) {
        echo->waits = 1;
        return PYDDSI_AGAIN;
    }
    if (size != 0)
        memcpy(echo->blocks[index]->bytes, data, size);
    *bytes = echo->blocks[index]->bytes;
    *held = PDI_ENV_HELD | PDI_ECHO_HELD | index;
    return PYDDSI_OK;
}

void pdi_echo_hold(struct pdi_echo *echo, uint32_t held)
{
    echo->blocks[index_of(held)]->holds++;
}

void pdi_echo_release(struct pdi_echo *echo, uint32_t held)
{
    let_go(echo, index_of(held));
}

/* The sample's place and reliability stand in echoed->sample, and its name, which will lie in the block before its data. */
static int ask(struct pdi_echo *echo, struct pdi_node *node, size_t size, struct pdi_echoed *echoed,
               pdi_time now)
{
    struct pdi_brought *sample = &echoed->sample;
    int status = pdi_node_ready(node, sample);
    uint32_t index = 0;
    size += sample->name.size;
    if (status == PYDDSI_END)
        return PYDDSI_OK;
    if (status == PYDDSI_OK && take(echo, size, &index)) {
        echoed->block = echo->blocks[index];
        sample->held = PDI_ENV_HELD | PDI_ECHO_HELD | index;
        return PYDDSI_OK;
    }
    if (sample->reliable && size <= echo->bytes_max) {
        echo->waits = 1;
        return PYDDSI_AGAIN;
    }
    pdi_node_note(node, PYDDSI_AT_RING, size <= echo->bytes_max ? PYDDSI_BY_FULL : PYDDSI_BY_SIZE,
                  sample->space, sample->resource, 1, now);
    return PYDDSI_OK;
}

int pdi_echo_ask(struct pdi_echo *echo, struct pdi_node *node, uint32_t publisher, size_t size,
                 struct pdi_echoed *echoed, pdi_time now)
{
    *echoed = (struct pdi_echoed){.sample = {.own = 1, .peer = PYDDSI_OWN}};
    if (pdi_node_about(node, publisher, &echoed->sample) != PYDDSI_OK)
        return PYDDSI_OK; /* whoever is asked next says what is wrong */
    return ask(echo, node, size, echoed, now);
}

int pdi_echo_ask_name(struct pdi_echo *echo, struct pdi_node *node, pyddsi_bytes name, int reliable,
                      size_t size, struct pdi_echoed *echoed, pdi_time now)
{
    *echoed = (struct pdi_echoed){
        .sample = {.own = 1, .peer = PYDDSI_OWN, .name = name, .reliable = reliable != 0}};
    return ask(echo, node, size, echoed, now);
}

int pdi_echo_end(struct pdi_echo *echo, struct pdi_node *node, struct pdi_echoed *echoed,
                 const void *data, size_t size, int status, pdi_time now)
{
    struct pdi_echo_block *block = echoed->block;
    if (block == NULL)
        return status;
    if (status == PYDDSI_OK) {
        pyddsi_bytes *name = &echoed->sample.name;
        if (name->size != 0)
            memcpy(block->bytes, name->data, name->size);
        if (size != 0)
            memcpy(block->bytes + name->size, data, size);
        echoed->sample.data = (pyddsi_bytes){block->bytes + name->size, size};
        name->data = block->bytes;
        echoed->sample.number = echo->number++;
        echoed->sample.time_ns = now;
        if (pdi_node_bring(node, &echoed->sample, now) != PYDDSI_OK) {
            /* it went out piece by piece, and others have taken the place meanwhile */
            pdi_node_note(node, PYDDSI_AT_RING, PYDDSI_BY_FULL, echoed->sample.space,
                          echoed->sample.resource, 1, now);
        }
    }
    let_go(echo, index_of(echoed->sample.held)); /* the rings have theirs */
    echoed->block = NULL;
    return status;
}
