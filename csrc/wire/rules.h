/* rules.h - what each rule says, and what zhe does when it is broken. */
#ifndef PDI_WIRE_RULES_H
#define PDI_WIRE_RULES_H

#include "pyddsi.h"

/* The rule's name in capitals, as in enum pyddsi_rule without its prefix; "?" if there is no such
 * rule. */
const char *pdi_rule_name(int rule);

/* The rule as half a sentence that can follow "byte 7: ". */
const char *pdi_rule_text(int rule);

/* What zhe does (enum pyddsi_zhe) when a message of |kind| breaks |rule|, in a datagram or in a
 * framed |stream|. */
int pdi_rule_zhe(int rule, unsigned kind, int stream);

#endif
