/* Starting ranks, here or on other hosts, by what launcher.h says; nothing passes through a shell.
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "hosts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What becomes of the signals by which a terminal or a batch system ends a job: INT, TERM, HUP and
 * USR1.  They may come to every rank: those that do not lead leave the end to the one that does. */
void launch_on_stop(void (*handler)(int number));

/* Where ranks are to run. */
struct launch_where {
    uint32_t ranks;
    uint32_t ranks_per_node;   /* as far as can be said before they run; 0: nodes differ */
    bool elsewhere;            /* perhaps not on this machine, or not only */
    const struct hosts *hosts; /* NULL: this machine, or what the launcher's allocation says */
    const char *arguments;     /* more of them for the launcher, blanks between; NULL: none */
};

/* For every verb that starts ranks: HOSTS (NULL: none given, then the allocation of a batch system
 * or this machine, with ranks_here, 0: see launch_ranks_on()) and --ranks (0: not given) become a
 * place.  The caller frees `hosts`. ERR_ARGUMENT after a message. */
int launch_place(const char *hosts_given, uint32_t ranks_given, const char *arguments,
                 uint32_t ranks_here, struct hosts *hosts, struct launch_where *out);

/* So many as cores can hold: a power of two, at least 2 (one has nothing to exchange), at most 8.
 */
uint32_t launch_ranks_on(uint32_t cores);

/* Where a process begins: takes what a launch added for libraries out of the environment, which is
 * the user's again for whoever describes or passes it on. */
void launch_restore_environment(void);

/* True when a launcher started this process as one of its ranks. */
bool launch_is_rank(void);

/* True when it is not the first of them, as far as can be said before they have met. */
bool launch_is_later_rank(void);

/* Runs this very program with the same arguments there and waits; when that fails, hosts that
 * cannot be reached are named.  EXIT_CODE_OF_RANKS + their exit code (see verb.h), or an error:
 * ERR_LAUNCH if they could not be started, or ended by a signal. */
int launch_verb(const struct launch_where *where, char **argv);

/* Starts this program with --version on each host alone, and names those on which that fails twice.
 * OK, or ERR_LAUNCH after a line for each; without hosts always OK. */
int launch_reach(const struct launch_where *where);

/* Ranks that were started and are spoken to: lines to rank 0's standard input, lines from its
 * standard output. */
struct launched {
    pid_t pid; /* of the launcher's keeper; 0: none */
    int to, from;
    char buffer[4096]; /* what was read and not yet handed out */
    size_t buffered;
};

/* Starts this program with `arguments` (argv[0] first) in a process group of its own, so that an
 * interrupt from the terminal reaches only the caller. */
int launch_start(const struct launch_where *where, char **arguments, struct launched *out);

/* The line, whatever its length, and its end; returns when they have taken all of it.  ERR_LAUNCH,
 * silently, when the ranks are gone. */
int launch_write(struct launched *ranks, const char *line);

/* One line without its end; of one that is longer than `size` - 1 or the buffer only the beginning,
 * which that many bytes give away.  Waits at most `timeout_ms`: UNSUPPORTED if nothing came;
 * ERR_LAUNCH, silently, when the ranks are gone. */
int launch_read(struct launched *ranks, int timeout_ms, char *line, size_t size);

/* What waitpid() says of a process, in a few words: "a rank" was killed, or "the ranks" ended. */
void launch_describe_end(int status, const char *one, const char *all, char *how, size_t size);

/* Ends them, politely first if `gently`; says how they ended in a few words, to `how` unless that
 * is NULL. */
void launch_end(struct launched *ranks, bool gently, char *how, size_t size);

#endif
