/* session.c - bytes as the script of a small world of nodes.
 *
 * csrc/sim/script.c has the language: put, take, forget, lose, cut, crash, inject, and time passing. What must hold: the run
 * ends, nobody breaks, and every rule that the simulator checks is kept. What a script does that networks and applications
 * may do is checked in full; after forged or damaged bytes only that nobody breaks.
 */
#include <stdio.h>
#include <stdlib.h>

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
    if (report.violations != 0) {
        fprintf(stderr, "%s\n", report.violation);
        abort();
    }
    return 0;
}
