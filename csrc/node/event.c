/* event.c - what the application is told beside its samples.
 *
 * A ring; when it is full the newest is lost and counted (the state can always be asked for). push never fails, so that
 * nobody has to ask: without room it answers a place that nobody reads.
 */
#include "node/state.h"

pyddsi_event *pdi_event_push(struct pdi_node *node, enum pyddsi_event_kind kind, pdi_time now)
{
    uint32_t max = node->config.events_max;
    bool full = node->event_head - node->event_tail == max;
    pyddsi_event *event = full ? &node->events[max] : &node->events[node->event_head % max];
    node->stats.events_lost += full;
    node->event_head += !full;
    *event =
        (pyddsi_event){.kind = (uint8_t)kind, .time_ns = now, .peer = PDI_NONE, .handle = PDI_NONE};
    return event;
}

void pdi_event_peer(const struct pdi_node *node, pyddsi_event *event, uint32_t peer)
{
    if (peer >= node->peers_used) {
        return;
    }
    const struct pdi_node_peer *who = &node->peers[peer];
    event->peer = peer;
    event->endpoint = who->endpoint;
    event->incarnation = who->incarnation;
    event->id_size = who->id_size;
    memcpy(event->id, who->id, who->id_size);
}

uint32_t pdi_node_events(const struct pdi_node *node)
{
    return node->event_head;
}

int pdi_node_event(struct pdi_node *node, pyddsi_event *event)
{
    if (node->event_head == node->event_tail) {
        return PYDDSI_END;
    }
    *event = node->events[node->event_tail++ % node->config.events_max];
    return PYDDSI_OK;
}
