/* moetune: the table of verbs, and the one place where a status becomes an exit code. */
#include "status.h"
#include "verbs.h"

#include <stdio.h>
#include <string.h>

static const struct verb {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *summary;
} verbs[] = {
    { "tune", tune_main,
      "measure, search, remember: write the dictionary (also: moetune --cluster)" },
    { "plan", plan_main, "what tune would try, how long, how much memory; measures nothing" },
    { "status", status_main, "a sweep that is running, from another terminal" },
    { "show", show_main, "the dictionary, as text or JSON" },
    { "report", report_main, "plots of the dictionary, and of what it was decided from" },
    { "lookup", lookup_main, "which plan a trainer is told for a capacity, and why" },
    { "verify", verify_main, "measure winners against the default plan again, in minutes" },
    { "doctor", doctor_main, "what would make the numbers wrong here, and how to cure it" },
    { "fingerprint", fingerprint_main, "what this cluster is: hosts, links, libraries" },
    { "diff", diff_main, "where two tables say something else" },
    { "export", export_main, "tables for other sites: JSON lines, CSV, C, packed" },
    { "import", import_main, "tables of other sites" },
    { "merge", import_main, "the same, for databases of one's own" },
    { "log", log_main, "what the dictionary said before, and why it changed" },
    { "prune", prune_main, "take out what is stale or came from elsewhere" },
    { "override", override_main, "pin a plan for a range of buckets, with a reason" },
    { "probe", probe_main,
      "what this machine is like: links, products, noise; a file for tune --sim" },
    { "run", run_main, "run one layer under given plans: where the time of a step goes" },
    { "serve", serve_main, NULL }, /* what the ranks of tune run */
};
enum { VERB_COUNT = sizeof(verbs) / sizeof(verbs[0]) };

static void print_usage(FILE *to)
{
    fprintf(to, "usage: moetune VERB [options]\n\n"
                "The autotuner for Mixture-of-Experts layers.\n\n");
    for (int i = 0; i < VERB_COUNT; i++)
        if (verbs[i].summary)
            fprintf(to, "  %-12s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(to, "\n\"moetune VERB --help\" explains one.  Exit codes: 0 done, 1 error, 2 usage,\n"
                "3 a check failed, 4 nothing found or a plan that does not apply here,\n"
                "6 database busy or unusable, 75 cut off: the same command goes on.\n");
}

static int exit_code(int status)
{
    if (status >= EXIT_CODE_OF_RANKS)
        return status - EXIT_CODE_OF_RANKS;
    switch (status) {
    case OK: return 0;
    case ERR_ARGUMENT: return 2;
    case ERR_WRONG: return 3;
    case UNSUPPORTED: return 4;
    case ERR_BUSY:
    case ERR_CORRUPT: return 6;
    case ERR_CUT: return 75;
    default: return 1;
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("moetune %s\n", MOETUNE_VERSION);
        return 0;
    }
    if (!strcmp(argv[1], "--cluster"))
        return exit_code(tune_main(argc, argv)); /* argv[0] stands for the verb */
    for (int i = 0; i < VERB_COUNT; i++)
        if (!strcmp(argv[1], verbs[i].name))
            return exit_code(verbs[i].main(argc - 1, argv + 1));
    fprintf(stderr, "moetune: no verb \"%s\" (see moetune --help)\n", argv[1]);
    return 2;
}
