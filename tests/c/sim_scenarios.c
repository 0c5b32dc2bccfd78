/* Every scenario over some seeds; what once failed; and what the simulator says of the nodes' speed of repair.
 */
#include <stdlib.h>

#include "sim/scenario.h"
#include "test.h"

#define SEEDS 8U /* of each scenario; PDI_SEEDS in the environment asks for more */

static struct pdi_play play; /* large */

/* Plays one run; prints what to do if it fails. */
static pyddsi_report run(int scenario, uint64_t seed, int poison)
{
    pyddsi_report report = {0};
    int status = poison < 0 ? pdi_scenario_run(&play, scenario, seed, false)
                            : pdi_scenario_run_poisoned(&play, scenario, seed, (uint8_t)poison);
    CHECK_EQ(status, PYDDSI_OK);
    pdi_play_report(&play, &report);
    CHECK_EQ(report.violations, 0);
    if (report.violations != 0)
        printf("    scenario %s, seed %" PRIu64 ": %s\n", pdi_scenario(scenario)->name, seed,
               report.violation);
    pdi_play_fini(&play);
    return report;
}

/* 002-2, 002-3 (declare), 002-6, 002-7 (guards), 002-13, 002-122 (pull), 002-14, 002-15 (periodic), 002-16, 002-17
 * (selections), 002-25, 002-26 (unicast), 002-27, 002-125 (auto), 002-32, 002-33, 002-34 (forget), 002-36, 002-98 (late),
 * 002-41, 002-103 (leave, crash), 002-90, 002-101 (mix), 002-109, 002-111 (slow), 002-121 (loss), 002-124 (fragments),
 * 002-126 (spaces), 002-128 (wrap): if this fails, a node breaks a promise under faults that a network may have. */
static void test_all(void)
{
    const char *more = getenv("PDI_SEEDS");
    uint64_t seeds = more != NULL ? strtoull(more, NULL, 10) : SEEDS;
    for (int i = 0; pdi_scenario(i) != NULL; i++) {
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            (void)run(i, seed, -1);
        }
    }
}

/* If this fails, the same seed is not the same run, or depends on what memory held before a node started. */
static void test_same(void)
{
    for (int i = 0; pdi_scenario(i) != NULL; i++) {
        pyddsi_report one = run(i, 1001, 0), two = run(i, 1001, 0xff), other = run(i, 1002, -1);
        CHECK(one.digest == two.digest);
        CHECK_EQ(one.events, two.events);
        CHECK(one.digest != other.digest);
    }
}

/* If this fails, a scenario no longer does what it is about, and finds nothing any more. */
static void test_themes(void)
{
    static const struct {
        const char *name;
        size_t field;
    } wanted[] = {
        {"pair", offsetof(pyddsi_report, taken)},
        {"loss", offsetof(pyddsi_report, packets_lost)},
        {"loss", offsetof(pyddsi_report, resent)},
        {"reorder", offsetof(pyddsi_report, packets_reordered)},
        {"duplicate", offsetof(pyddsi_report, packets_duplicated)},
        {"fanout", offsetof(pyddsi_report, owed)},
        {"beside", offsetof(pyddsi_report, owed)},
        {"filtered", offsetof(pyddsi_report, resent)},
        {"crossing", offsetof(pyddsi_report, resent)},
        {"lagging", offsetof(pyddsi_report, resent)},
        {"delayed", offsetof(pyddsi_report, resent)},
        {"lanes", offsetof(pyddsi_report, excused)},
        {"late", offsetof(pyddsi_report, restarts)},
        {"history", offsetof(pyddsi_report, owed)},
        {"leave", offsetof(pyddsi_report, crashes)},
        {"crash", offsetof(pyddsi_report, restarts)},
        {"declare", offsetof(pyddsi_report, declared)},
        {"fragments", offsetof(pyddsi_report, owed)},
        {"pieces", offsetof(pyddsi_report, owed)},
        {"paths", offsetof(pyddsi_report, packets_lost)},
        {"batch", offsetof(pyddsi_report, owed)},
        {"best", offsetof(pyddsi_report, taken)},
        {"pull", offsetof(pyddsi_report, taken)},
        {"periodic", offsetof(pyddsi_report, taken)},
        {"spaces", offsetof(pyddsi_report, owed)},
        {"unicast", offsetof(pyddsi_report, owed)},
        {"auto", offsetof(pyddsi_report, owed)},
        {"guards", offsetof(pyddsi_report, owed)},
        {"selections", offsetof(pyddsi_report, owed)},
        {"wrap", offsetof(pyddsi_report, owed)},
        {"rounds", offsetof(pyddsi_report, packets_reordered)},
        {"lengths", offsetof(pyddsi_report, owed)},
        {"zhe", offsetof(pyddsi_report, owed)},
        {"client", offsetof(pyddsi_report, owed)},
        {"hostile", offsetof(pyddsi_report, owed)},
        {"impostor", offsetof(pyddsi_report, owed)},
        {"calls", offsetof(pyddsi_report, owed)},
        {"moves", offsetof(pyddsi_report, resent)},
        {"corrupt", offsetof(pyddsi_report, packets_corrupted)},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        int scenario = pdi_scenario_find(wanted[i].name);
        uint64_t sum = 0;
        CHECK(scenario >= 0);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            pyddsi_report report = run(scenario, seed, -1);
            uint64_t value;
            memcpy(&value, (const uint8_t *)&report + wanted[i].field, sizeof(value));
            sum += value;
        }
        CHECK(sum > 0);
        if (sum == 0)
            printf("    scenario %s\n", wanted[i].name);
    }
    CHECK_EQ(pdi_scenario_find("none"), -1);
    CHECK_EQ(pdi_scenario_run(&play, -1, 1, false), PYDDSI_BAD_ARGUMENT);
}

/* If this fails, nodes of one machine find no shared memory, and the scenarios about it show nothing. */
static void test_lanes(void)
{
    static const char *const names[] = {"crossing", "growing", "lanes", "scribbled", "stopped"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct pdi_shared_counts counts;
        uint64_t put = 0, taken = 0;
        for (uint64_t seed = 1; seed <= 8; seed++) {
            CHECK_EQ(pdi_scenario_run(&play, pdi_scenario_find(names[i]), seed, false), PYDDSI_OK);
            for (int node = 0; node < play.world.count; node++) {
                if (pdi_world_shared(&play.world, node) == NULL)
                    continue;
                pdi_shared_count(pdi_world_shared(&play.world, node), &counts);
                CHECK_EQ(counts.held, 0);
                put += counts.put;
                taken += counts.taken;
            }
            pdi_play_fini(&play);
        }
        CHECK(put > 0 && taken > put);
    }
}

/* If this fails, a fault that was found and mended once is back. */
static void test_kept(void)
{
    char name[32];
    uint64_t seed;
    int fields;
    char line[128];
    FILE *file = fopen("tests/seeds/kept.txt", "r");
    CHECK(file != NULL);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        fields = sscanf(line, "%31s %" SCNu64, name, &seed);
        CHECK_EQ(fields, 2);
        int scenario = pdi_scenario_find(name);
        CHECK(scenario >= 0);
        if (scenario >= 0)
            (void)run(scenario, seed, -1);
    }
    if (file != NULL)
        fclose(file);
}

/* If this fails, a lost sample is missed for longer than 5 ms, or its repair takes more packets than it should. */
static void test_repair(void)
{
    pyddsi_repair_options options = {.seed = 1,
                                     .loss_ppm = 50000,
                                     .rate = 1000,
                                     .samples = 5000,
                                     .size = 100,
                                     .delay_ns = PDI_TIME_MS,
                                     .subscribers = 1};
    pyddsi_repair repair;
    for (uint32_t multicast = 0; multicast < 2; multicast++) {
        options.multicast = multicast;
        CHECK_EQ(pdi_repair_run(&options, &repair), PYDDSI_OK);
        CHECK_EQ(repair.put, 5000);
        CHECK_EQ(repair.delivered, 5000);
        CHECK(repair.lost > 200 && repair.lost < 300);
        CHECK(repair.median_ns < 5 * PDI_TIME_MS);
        CHECK(repair.resent * 10 <= repair.lost * 11);
        printf("    repair, multicast %u: median %.3f ms, p99 %.3f ms, worst %.3f ms, %.3f resent "
               "for a loss\n",
               multicast, (double)repair.median_ns / 1e6, (double)repair.p99_ns / 1e6,
               (double)repair.max_ns / 1e6, (double)repair.resent / (double)repair.lost);
    }
    options.subscribers = 0;
    CHECK_EQ(pdi_repair_run(&options, &repair), PYDDSI_BAD_ARGUMENT);
}

int main(void)
{
    test_kept();
    test_all();
    test_same();
    test_themes();
    test_lanes();
    test_repair();
    return test_result();
}
