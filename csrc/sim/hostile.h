/* hostile.h - somebody who sends whatever he likes.
 *
 * Three kinds of packets, mixed at random: bytes without sense; packets of honest nodes that he has overheard, as they
 * were, cut, or with bytes changed; and messages that are well formed and absurd (acknowledgements of what was never
 * sent, declarations by the dozen that are never committed, fragments without end, sequence numbers from anywhere,
 * thousands of nodes that open a session and are never heard of again).
 *
 * Who speaks from addresses of his own costs the honest nodes room and time, within the limits of their configurations,
 * and no sample: they owe each other everything they always owe. That holds for a stranger, who has names of his own, and
 * for an impostor: he says OPEN, ACCEPT and KEEPALIVE with the names, the numbers and the lives of others, and repeats what
 * he has overheard of how they met, secrets and all. A forger speaks from the addresses of others as well. As the protocol
 * has no signatures, he can end sessions and acknowledge in the name of others, and all that is asked is that nobody breaks.
 */
#ifndef PDI_SIM_HOSTILE_H
#define PDI_SIM_HOSTILE_H

#include "sim/play.h"

#define PDI_HOSTILE_HEARD      16U
#define PDI_HOSTILE_PACKET_MAX 1500U
#define PDI_HOSTILE_ADDRESSES  4U /* with which he has sessions; of others he only opens some */

enum pdi_hostile_kind { PDI_HOSTILE_STRANGER, PDI_HOSTILE_IMPOSTOR, PDI_HOSTILE_FORGER };

struct pdi_overheard {
    uint8_t bytes[PDI_HOSTILE_PACKET_MAX];
    size_t size;
};

struct pdi_hostile {
    struct pdi_rand rand;
    enum pdi_hostile_kind kind;
    unsigned seq_bits;
    struct pdi_overheard heard[PDI_HOSTILE_HEARD];
    struct pdi_overheard met[PDI_HOSTILE_HEARD]; /* OPEN and ACCEPT; an impostor's */
    uint8_t out[PDI_HOSTILE_PACKET_MAX];
};

void pdi_hostile_init(struct pdi_hostile *hostile, struct pdi_rand rand, enum pdi_hostile_kind kind,
                      unsigned seq_bits);
/* He overhears a packet. A stranger has no use for one that holds somebody's name. */
void pdi_hostile_hear(struct pdi_hostile *hostile, const struct pdi_world *world,
                      const uint8_t *data, size_t size);
/* One packet of his arrives at a node. */
void pdi_hostile_act(struct pdi_hostile *hostile, struct pdi_world *world);
/* He says farewell to everybody, from all addresses at which anybody may think he is. */
void pdi_hostile_leave(struct pdi_hostile *hostile, struct pdi_world *world);

#endif
