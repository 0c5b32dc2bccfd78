/* replay.c - the front door's replay: the pacing thread of host/pace.h, and the words for its histogram. */
#include "host/pace.h"

_Static_assert(PYDDSI_LATE_SLOTS == PDI_HISTOGRAM_SLOTS, "the door says how many slots there are");

static struct pdi_pace *pace_of(pyddsi_replay *replay)
{
    return (struct pdi_pace *)replay;
}

int pyddsi_replay_open(pyddsi_replay **made, uint64_t spin_ns, int flat_out, char *text)
{
    struct pdi_pace *pace;
    int status = pdi_pace_open(&pace, spin_ns, flat_out != 0, text, PYDDSI_TEXT_MAX);
    *made = (pyddsi_replay *)pace;
    return status;
}

int pyddsi_replay_socket(pyddsi_replay *replay, int fd, uint8_t family, uint32_t scope)
{
    return pdi_pace_socket(pace_of(replay), fd, family, scope);
}

int pyddsi_replay_way(pyddsi_replay *replay, uint32_t socket, const pyddsi_endpoint *to)
{
    return pdi_pace_way(pace_of(replay), socket, to);
}

int pyddsi_replay_push(pyddsi_replay *replay, const pyddsi_replay_packet *packets, uint64_t count,
                       const uint8_t *data, size_t size, uint64_t base_ns)
{
    return pdi_pace_push(pace_of(replay), packets, count, data, size, base_ns);
}

int pyddsi_replay_begin(pyddsi_replay *replay, char *text)
{
    return pdi_pace_begin(pace_of(replay), text, PYDDSI_TEXT_MAX);
}

void pyddsi_replay_finish(pyddsi_replay *replay)
{
    pdi_pace_finish(pace_of(replay));
}

void pyddsi_replay_stop(pyddsi_replay *replay)
{
    pdi_pace_stop(pace_of(replay));
}

int pyddsi_replay_wait(pyddsi_replay *replay, uint64_t done, uint64_t timeout_ns)
{
    return pdi_pace_wait(pace_of(replay), done, timeout_ns);
}

void pyddsi_replay_count(pyddsi_replay *replay, pyddsi_replay_counts *counts)
{
    pdi_pace_count(pace_of(replay), counts);
}

void pyddsi_replay_late(pyddsi_replay *replay, uint64_t *late)
{
    pdi_pace_late(pace_of(replay), late);
}

void pyddsi_replay_close(pyddsi_replay *replay)
{
    pdi_pace_close(pace_of(replay));
}

unsigned pyddsi_late_slot(uint64_t ns)
{
    return pdi_histogram_slot(ns);
}

uint64_t pyddsi_late_least(unsigned slot)
{
    return pdi_histogram_least(slot);
}
