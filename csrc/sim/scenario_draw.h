/* scenario_draw.h - what the files of scenarios draw from a play's random numbers.
 *
 * Their short names stand in every other line there. Only those files include this; it is no part of the simulator for anybody
 * else. The order of the draws is part of what a scenario and a seed name: each of these draws as often as it says.
 */
#ifndef PDI_SIM_SCENARIO_DRAW_H
#define PDI_SIM_SCENARIO_DRAW_H

#include "sim/scenario.h"

#define MS PDI_TIME_MS

/* A number in least .. most. One draw, as are all but any_way. */
static inline uint64_t between(struct pdi_play *play, uint64_t least, uint64_t most)
{
    return pdi_play_between(&play->rand, least, most);
}

static inline bool chance(struct pdi_play *play, uint64_t one, uint64_t of)
{
    return pdi_rand_chance(&play->rand, one, of);
}

/* A moment before half time, with some room on both sides. */
static inline pdi_time moment(struct pdi_play *play)
{
    return between(play, 100, play->half / MS - 100) * MS;
}

static inline int any_node(struct pdi_play *play, int count)
{
    return (int)between(play, 0, (uint64_t)count - 1);
}

/* Another node than this one, of two at least. */
static inline int other_node(struct pdi_play *play, int count, int node)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there are two nodes at least */
    return (node + (int)between(play, 1, (uint64_t)count - 1)) % count;
}

/* One of the ways to many. One draw or two. */
static inline uint8_t any_way(struct pdi_play *play)
{
    if (chance(play, 1, 3))
        return PYDDSI_WAY_EACH;
    return chance(play, 1, 3) ? PYDDSI_WAY_AUTO : PYDDSI_WAY_MULTICAST;
}

#endif
