/* The verbs of the command line.  Each returns a status; only main turns it into an exit code. */
#ifndef VERBS_H
#define VERBS_H

#include "verb.h"

extern const struct verb tune_verb, plan_verb, status_verb, show_verb, report_verb, lookup_verb,
    verify_verb, doctor_verb, fingerprint_verb, diff_verb, export_verb, import_verb, merge_verb,
    log_verb, prune_verb, override_verb, probe_verb, shares_verb, capacities_verb, run_verb,
    study_verb, init_verb;
extern const struct verb serve_verb; /* for moetune itself */

#endif
