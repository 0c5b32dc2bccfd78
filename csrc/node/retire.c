/* retire.c - resources that the application has forgotten, and whose names samples under way still need.
 *
 * A sample carries a number. A receiver that subscribes to a pattern finds by the name of that number whom the sample is
 * for, so the number must keep its name until the last sample of it has been delivered. The declaration that takes the name
 * back goes by each peer's unicast conduit and could overtake samples of a group, best effort, and samples in shared memory.
 *
 * So a resource that is forgotten while such samples are under way retires first: its handle is gone at once, its
 * declaration when every group has acknowledged all that was sent before, best effort has had the time that it may wait for
 * company, and no lane has unread samples of it. Resources retire in waves: what is forgotten while one wave waits belongs
 * to the next one. So each wave needs one number of each group, and a wave of any size costs one look.
 */
#include "node/state.h"

/* Between two looks at samples that went past the sockets, whose end nobody tells a node. */
#define LOOK_AGAIN (20 * PDI_TIME_MS)

static bool lingers(const struct pdi_node *node, const struct pdi_thing *thing)
{
    return node->env.lingers != NULL &&
           node->env.lingers(node->env.context, thing->space, thing->id);
}

/* Best effort that has not left yet. */
static bool drafted(const struct pdi_node *node)
{
    uint32_t conduits = node->config.multicasts + node->peers_used;
    for (uint32_t i = 0; i < conduits; i++) {
        const struct pdi_conduit *one = &node->out[i];
        if (one->open &&
            (one->draft_samples != 0 || one->sealed_samples != 0 || one->big_left != 0)) {
            return true;
        }
    }
    return false;
}

/* Whether every group has acknowledged the wave's numbers. */
static bool acknowledged(const struct pdi_node *node, const uint64_t *marks)
{
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        if (pdi_conduit_base(&node->out[i]) < marks[i]) {
            return false;
        }
    }
    return true;
}

static void mark(const struct pdi_node *node, uint64_t *marks)
{
    for (uint32_t i = 0; i < node->config.multicasts; i++) {
        marks[i] = node->out[i].window.next;
    }
}

int pdi_retire_full(const struct pdi_node *node)
{
    bool retires = node->retiring != PDI_NONE || node->retiring_next != PDI_NONE;
    return retires && !node->closing ? PYDDSI_AGAIN : PYDDSI_NO_SPACE;
}

static void end(struct pdi_node *node, uint32_t index)
{
    struct pdi_thing *thing = &node->things[index];
    (void)pdi_registry_forget(node->registry, thing->registry);
    pdi_slots_put(&node->things_free, index);
    node->kick = 1;
}

void pdi_retire(struct pdi_node *node, uint32_t index, pdi_time now)
{
    struct pdi_thing *thing = &node->things[index];
    uint64_t marks[PYDDSI_MULTICASTS_MAX];
    mark(node, marks);
    if (!thing->named || (acknowledged(node, marks) && !drafted(node) && !lingers(node, thing))) {
        end(node, index);
        return;
    }
    thing->next = node->retiring_next;
    node->retiring_next = index;
    pdi_timer_set(node, PDI_TIMER_RETIRE, now);
}

/* Begins the next wave if none waits, and ends those that nothing needs any more. */
void pdi_retire_tick(struct pdi_node *node, pdi_time now)
{
    if (node->retiring == PDI_NONE && node->retiring_next != PDI_NONE) {
        node->retiring = node->retiring_next;
        node->retiring_next = PDI_NONE;
        mark(node, node->retire_marks);
        node->retire_after = pdi_time_add(now, (node->config.latency_us + 1000U) * PDI_TIME_US);
    }
    bool ready = now >= node->retire_after && acknowledged(node, node->retire_marks);
    uint32_t left = PDI_NONE, next;
    for (uint32_t at = ready ? node->retiring : PDI_NONE; at != PDI_NONE; at = next) {
        struct pdi_thing *thing = &node->things[at]; /* things_max of them at most */
        next = thing->next;
        if (lingers(node, thing)) {
            thing->next = left;
            left = at;
        } else {
            end(node, at);
        }
    }
    node->retiring = ready ? left : node->retiring;
    bool waits = node->retiring != PDI_NONE || node->retiring_next != PDI_NONE;
    pdi_timer_set(node, PDI_TIMER_RETIRE, waits ? pdi_time_add(now, LOOK_AGAIN) : PDI_TIME_NEVER);
}
