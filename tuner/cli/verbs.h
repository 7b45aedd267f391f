/* The verbs of the command line.  Each returns a status; only main turns it into an exit code. */
#ifndef VERBS_H
#define VERBS_H

int run_main(int argc, char **argv); /* argv[0] is the verb */
int probe_main(int argc, char **argv);
int tune_main(int argc, char **argv);
int plan_main(int argc, char **argv);
int show_main(int argc, char **argv);
int report_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int diff_main(int argc, char **argv);
int log_main(int argc, char **argv);
int prune_main(int argc, char **argv);
int export_main(int argc, char **argv);
int import_main(int argc, char **argv);
int fingerprint_main(int argc, char **argv);
int lookup_main(int argc, char **argv);
int override_main(int argc, char **argv);
int verify_main(int argc, char **argv);
int status_main(int argc, char **argv);
int serve_main(int argc, char **argv); /* for moetune itself */

/* A verb that only passes on what its ranks ended with returns this + their exit code. */
enum { EXIT_CODE_OF_RANKS = 1000 };

#endif
