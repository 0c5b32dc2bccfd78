/* token.c - see token.h. */
#include "api/token.h"

#include <string.h>

#define TOKEN_SIZE 28U

void pdi_token_put(const struct pdi_token *token, pyddsi_config *config)
{
    uint8_t *at = config->token;
    memcpy(at, &token->host, 8);
    memcpy(at + 8, &token->cookie, 8);
    memcpy(at + 16, &token->pid, 4);
    memcpy(at + 20, &token->fd, 4);
    memcpy(at + 24, &token->size, 4);
    config->token_size = TOKEN_SIZE;
}

bool pdi_token_get(const pyddsi_peer *peer, struct pdi_token *token)
{
    const uint8_t *at = peer->token;
    if (peer->token_size != TOKEN_SIZE) {
        return false;
    }
    memcpy(&token->host, at, 8);
    memcpy(&token->cookie, at + 8, 8);
    memcpy(&token->pid, at + 16, 4);
    memcpy(&token->fd, at + 20, 4);
    memcpy(&token->size, at + 24, 4);
    return true;
}
