/* sim.h - what stands behind the handle of a simulation. */
#ifndef PDI_API_SIM_H
#define PDI_API_SIM_H

#include "sim/play.h"

/* A world that a program builds uses the play's world alone; one that a scenario leaves behind has its audit too. */
struct pyddsi_sim {
    struct pdi_play play;
};

/* From here on nobody but the program acts in this world. */
static inline void pyddsi_sim_detach(struct pyddsi_sim *sim)
{
    sim->play.world.on_step = NULL;
    sim->play.world.on_timer = NULL;
    sim->play.world.on_packet = NULL;
}

#endif
