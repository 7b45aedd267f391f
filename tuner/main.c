/* The program moetune: finds the verb of the command line and runs it, and turns its status into
 * an exit code. */
#include "launch.h"
#include "screen.h"
#include "status.h"
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Verbs stand in the order of `moetune --help`. */
static const struct verb *const verbs[] = {
    &tune_verb,       &plan_verb,   &status_verb,      &show_verb,     &report_verb, &lookup_verb,
    &verify_verb,     &doctor_verb, &fingerprint_verb, &diff_verb,     &export_verb, &import_verb,
    &merge_verb,      &log_verb,    &prune_verb,       &override_verb, &probe_verb,  &shares_verb,
    &capacities_verb, &run_verb,    &study_verb,       &init_verb,     &serve_verb,  NULL,
};

static int print_help(const char *name, const char *extra_word)
{
    const struct verb *verb = name ? verb_find(verbs, name) : NULL;

    if (extra_word)
        return fail(ERR_ARGUMENT, "help takes one VERB: leave out \"%s\"", extra_word);
    if (name && !verb)
        return verb_unknown(verbs, name);
    if (verb)
        verb_help(verb, stdout);
    else
        verb_overview(verbs, stdout);
    return OK;
}

/* Runs the command line: a verb, or an option that stands instead of one. */
static int run_command(char **argv)
{
    const char *word = argv[1];
    const struct verb *verb = verb_find(verbs, word);

    if (verb)
        return verb_main(verb, argv, 1);
    if (!strcmp(word, "--cluster"))
        return verb_main(&tune_verb, argv, 0); /* `moetune --cluster` is `moetune tune` */
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
        return print_help(argv[2], argv[2] ? argv[3] : NULL);
    if (!strcmp(word, "--completion")) {
        if (!argv[2] || strcmp(argv[2], "bash") != 0)
            return fail(ERR_ARGUMENT, "--completion \"%s\": the only shell is bash",
                        argv[2] ? argv[2] : "");
        completion_print(verbs, stdout);
    } else if (!strcmp(word, "--man")) {
        manual_print(verbs, stdout);
    } else if (!strcmp(word, "--version") || !strcmp(word, "version")) {
        printf("moetune %s\n", MOETUNE_VERSION);
    } else {
        return verb_unknown(verbs, word);
    }
    return OK;
}

enum { FIRST_RANK_PRINTS_S = 10 };

int main(int argc, char **argv)
{
    int rc = ERR_ARGUMENT;

    verb_set_all(verbs);
    launch_restore_environment();
    if (launch_is_later_rank()) /* the first rank alone prints how to use the program */
        log_mute_usage();
    screen_guard();
    log_columns(screen_columns);
    if (argc >= 2)
        rc = run_command(argv);
    else if (!launch_is_later_rank())
        verb_overview(verbs, stderr);
    /* Output to a full disk must not count as success. */
    if ((fflush(stdout) || ferror(stdout)) && !rc)
        rc = fail(ERR_IO, "standard output: %s", strerror(errno));
    /* The launcher ends all ranks as soon as one fails, so the first rank must print why before. */
    if (rc == ERR_ARGUMENT && launch_is_later_rank())
        sleep(FIRST_RANK_PRINTS_S);
    return verb_exit_code(rc);
}
