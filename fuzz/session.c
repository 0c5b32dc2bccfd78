/* session.c - bytes as the script of a small world of nodes.
 *
 * csrc/sim/script.c has the language: put, take, forget, lose, cut, crash, inject, and time passing. What must hold: the run
 * ends, nobody breaks, and every rule that the simulator checks is kept. What a script does that networks and applications
 * may do is checked in full; after forged or damaged bytes only that nobody breaks. One thing is left to the scenarios:
 * whether every sample that is missing is written down somewhere. Scripts crash and close sessions at every instant, and
 * the ledgers of a node that crashed are gone with it, so the count of what is missing cannot be exact there.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pyddsi.h"

enum { SCRIPT_MAX = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pyddsi_report report;
    if (size > SCRIPT_MAX)
        return 0;
    if (pyddsi_script_run(data, size, &report, NULL) != PYDDSI_OK)
        return 0;
    bool missing = strstr(report.violation, " lacks ") != NULL ||
                   strstr(report.violation, " skipped ") != NULL;
    if (report.violations != 0 && !missing) {
        fprintf(stderr, "%s\n", report.violation);
        abort();
    }
    return 0;
}
