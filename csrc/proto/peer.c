/* peer.c - the word that says what a peer is: the rarer changes.
 *
 * All have one shape: look, refuse if the table in the header has a dash there, and compare and
 * swap; on failure look again. What comes with every packet (enter, leave, renew) is in the header.
 */
#include "proto/peer.h"

static bool opening(struct pdi_peer_view view)
{
    return view.state >= PDI_PEER_OPENING && view.state <= PDI_PEER_OPENING_LAST;
}

/* Writes the new parts if the word is still what was looked at, else brings *word up to date. */
static bool swap(struct pdi_peer_word *peer, uint64_t *word, struct pdi_peer_view view)
{
    return pdi_atomic64_cas(&peer->word, word, pdi_peer_encode(view));
}

/* UNKNOWN becomes `state`, and another incarnation begins. */
static int begin(struct pdi_peer_word *peer, enum pdi_peer_state state, uint32_t deadline_ms)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    struct pdi_peer_view view;
    do {
        view = pdi_peer_decode(word);
        if (view.state != PDI_PEER_UNKNOWN) {
            return PYDDSI_AGAIN;
        }
        view.state = (uint8_t)state;
        view.epoch++;
        view.deadline_ms = deadline_ms;
    } while (!swap(peer, &word, view));
    return PYDDSI_OK;
}

/* OPENING, of whatever count, becomes `state`. */
static int finish(struct pdi_peer_word *peer, enum pdi_peer_state state, uint32_t deadline_ms)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    struct pdi_peer_view view;
    do {
        view = pdi_peer_decode(word);
        if (!opening(view)) {
            return PYDDSI_AGAIN;
        }
        view.state = (uint8_t)state;
        view.deadline_ms = deadline_ms;
    } while (!swap(peer, &word, view));
    return PYDDSI_OK;
}

void pdi_peer_init(struct pdi_peer_word *peer)
{
    pdi_atomic64_store_relaxed(&peer->word, 0);
}

int pdi_peer_open(struct pdi_peer_word *peer)
{
    return begin(peer, PDI_PEER_OPENING, 0);
}

int pdi_peer_accept(struct pdi_peer_word *peer, uint32_t deadline_ms)
{
    return begin(peer, PDI_PEER_ESTABLISHED, deadline_ms);
}

int pdi_peer_establish(struct pdi_peer_word *peer, uint32_t deadline_ms)
{
    return finish(peer, PDI_PEER_ESTABLISHED, deadline_ms);
}

int pdi_peer_give_up(struct pdi_peer_word *peer)
{
    return finish(peer, PDI_PEER_UNKNOWN, 0);
}

int pdi_peer_retry(struct pdi_peer_word *peer, unsigned opens_max)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    struct pdi_peer_view view;
    do {
        view = pdi_peer_decode(word);
        if (!opening(view) || view.state >= opens_max || view.state == PDI_PEER_OPENING_LAST) {
            return PYDDSI_AGAIN;
        }
        view.state++;
    } while (!swap(peer, &word, view));
    return PYDDSI_OK;
}

int pdi_peer_expire(struct pdi_peer_word *peer, uint32_t now_ms)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    struct pdi_peer_view view;
    do {
        view = pdi_peer_decode(word);
        /* 1 to half a circle behind now; 0 and the opposite point have not passed */
        bool passed = now_ms - view.deadline_ms - 1 < UINT32_MAX / 2;
        if (view.state != PDI_PEER_ESTABLISHED || view.deadline_ms == 0 || !passed) {
            return PYDDSI_AGAIN;
        }
        view.state = PDI_PEER_EXPIRED;
    } while (!swap(peer, &word, view));
    return PYDDSI_OK;
}

int pdi_peer_end(struct pdi_peer_word *peer)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    struct pdi_peer_view view;
    do {
        view = pdi_peer_decode(word);
        if (view.state != PDI_PEER_ESTABLISHED) {
            return PYDDSI_AGAIN;
        }
        view.state = PDI_PEER_EXPIRED;
    } while (!swap(peer, &word, view));
    return PYDDSI_OK;
}

int pdi_peer_reset(struct pdi_peer_word *peer)
{
    uint64_t word = pdi_atomic64_load_acquire(&peer->word);
    struct pdi_peer_view view;
    do {
        view = pdi_peer_decode(word);
        if (view.state != PDI_PEER_EXPIRED || view.busy != 0) {
            return PYDDSI_AGAIN;
        }
        view.state = PDI_PEER_UNKNOWN;
        view.deadline_ms = 0;
    } while (!swap(peer, &word, view));
    return PYDDSI_OK;
}
