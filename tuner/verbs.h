/* The verbs of the command line.  Each returns a status; only main turns it into an exit code. */
#ifndef VERBS_H
#define VERBS_H

int run_main(int argc, char **argv); /* argv[0] is the verb */

/* A verb that only passes on what its ranks ended with returns this + their exit code. */
enum { EXIT_CODE_OF_RANKS = 1000 };

#endif
