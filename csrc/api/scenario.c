/* scenario.c - the front door's scenarios: worlds that play by themselves. */
#include <stdlib.h>
#include <string.h>

#include "api/sim.h"
#include "sim/scenario.h"

int pyddsi_scenario_count(void)
{
    int count = 0;
    while (pdi_scenario(count) != NULL) {
        count++;
    }
    return count;
}

const char *pyddsi_scenario_name(int scenario)
{
    const struct pdi_scenario *one = pdi_scenario(scenario);
    return one != NULL ? one->name : NULL;
}

const char *pyddsi_scenario_text(int scenario)
{
    const struct pdi_scenario *one = pdi_scenario(scenario);
    return one != NULL ? one->text : NULL;
}

/* What each check is called, and what it says. */
static const struct {
    const char *name, *text;
} checks[PYDDSI_CHECK_COUNT] = {
    [PYDDSI_CHECK_PAYLOAD] = {"payload",
                              "what is taken was put, for this subscriber, and is intact"},
    [PYDDSI_CHECK_ONCE] = {"once", "nothing is taken twice"},
    [PYDDSI_CHECK_ORDER] = {"order", "nothing is taken out of order"},
    [PYDDSI_CHECK_COMPLETE] = {"complete", "nothing is missing without an entry"},
    [PYDDSI_CHECK_BOOKS] = {"books", "owed = acknowledged + forgiven + in flight"},
    [PYDDSI_CHECK_BOUNDS] = {"bounds", "windows, rings and tables are within their limits"},
    [PYDDSI_CHECK_SETTLED] = {"settled", "declarations are settled, and matches are right"},
    [PYDDSI_CHECK_LIVENESS] = {"liveness", "once the faults stop, everything arrives"},
    [PYDDSI_CHECK_MEMORY] = {"memory", "slots and rings are back at their start"},
    [PYDDSI_CHECK_THEME] = {"theme", "what the scenario is about"},
};

const char *pyddsi_check_name(int check)
{
    return check >= 0 && check < PYDDSI_CHECK_COUNT ? checks[check].name : NULL;
}

const char *pyddsi_check_text(int check)
{
    return check >= 0 && check < PYDDSI_CHECK_COUNT ? checks[check].text : NULL;
}

/* The run is over: tell of it, and keep the world if somebody wants to look at it. */
static int conclude(struct pyddsi_sim *one, int status, int scenario, pyddsi_report *report,
                    pyddsi_sim **sim)
{
    memset(report, 0, sizeof(*report));
    if (status == PYDDSI_OK) {
        pdi_play_report(&one->play, report);
        report->scenario = (uint32_t)scenario;
    }
    if (status == PYDDSI_OK && sim != NULL) {
        pyddsi_sim_detach(one);
        *sim = one;
    } else {
        pyddsi_sim_free(one);
    }
    return status;
}

int pyddsi_scenario_run(int scenario, uint64_t seed, pyddsi_report *report, pyddsi_sim **sim)
{
    if (sim != NULL)
        *sim = NULL;
    if (pdi_scenario(scenario) == NULL)
        return PYDDSI_BAD_ARGUMENT;
    struct pyddsi_sim *one = calloc(1, sizeof(*one));
    if (one == NULL)
        return PYDDSI_NO_SPACE;
    int status = pdi_scenario_run(&one->play, scenario, seed, sim != NULL);
    return conclude(one, status, scenario, report, sim);
}

int pyddsi_script_run(const uint8_t *script, size_t size, pyddsi_report *report, pyddsi_sim **sim)
{
    if (sim != NULL)
        *sim = NULL;
    struct pyddsi_sim *one = calloc(1, sizeof(*one));
    if (one == NULL)
        return PYDDSI_NO_SPACE;
    int status = pdi_script_run(&one->play, script, size, sim != NULL);
    return conclude(one, status, pdi_scenario_find("script"), report, sim);
}

const char *pyddsi_sim_violation(const pyddsi_sim *sim, uint32_t index)
{
    const struct pdi_audit *audit = &sim->play.audit;
    return index < audit->texts_count ? audit->texts[index] : NULL;
}

int pyddsi_sim_repair(const pyddsi_repair_options *options, pyddsi_repair *repair)
{
    return pdi_repair_run(options, repair);
}
