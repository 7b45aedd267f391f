/* Starts ranks, here or on other hosts, through the launcher of launcher.h, talks to them, and ends
 * them.  Nothing passes through a shell. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "hosts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Sets the handler of the signals by which a terminal or a batch system ends a job: INT, TERM, HUP
 * and USR1.  Such a signal may reach every rank.  Rank 0 acts on it; the others ignore it. */
void launch_on_stop(void (*handler)(int number));

/* Where ranks shall run.  A plain value; hosts and arguments are borrowed. */
struct launch_where {
    uint32_t ranks;
    uint32_t ranks_per_node;   /* as far as known before they run; 0: nodes differ */
    bool elsewhere;            /* ranks may run on other machines than this one */
    const struct hosts *hosts; /* NULL: this machine, or the allocation of a batch system */
    const char *arguments;     /* more words for the launcher, separated by blanks; NULL: none */
};

/* Decides where the ranks of a verb run, from HOSTS (NULL: not given) and --ranks (0: not given).
 * Without HOSTS they run in the allocation of a batch system, or on this machine.  ranks_here: how
 * many on this machine; 0: see launch_ranks_on().  The caller frees `hosts` after success.
 * ERR_ARGUMENT after a message. */
int launch_place(const char *hosts_given, uint32_t ranks_given, const char *arguments,
                 uint32_t ranks_here, struct hosts *hosts, struct launch_where *out);

/* The default number of ranks on so many cores: a power of two, at most one per core, at most 8,
 * and at least 2, because a single rank exchanges nothing. */
uint32_t launch_ranks_on(uint32_t cores);

/* Called first in every process: removes the variables that a launch added for libraries, so that
 * the environment is the user's again when moetune describes it or passes it on. */
void launch_restore_environment(void);

/* True when a launcher started this process as one of its ranks. */
bool launch_is_rank(void);

/* True when a launcher started this process as another rank than 0, as far as known before the
 * ranks meet. */
bool launch_is_later_rank(void);

/* Runs this program with the same arguments on ranks at `where`, and waits for them.  If that
 * fails, it names the hosts that cannot be reached.  Returns EXIT_CODE_OF_RANKS + their exit code
 * (see verb.h), or an error: ERR_LAUNCH if they could not be started, or ended by a signal. */
int launch_verb(const struct launch_where *where, char **argv);

/* Checks each host alone by starting this program with --version there.  ERR_LAUNCH after one line
 * for each host that cannot be reached; OK without hosts. */
int launch_reach(const struct launch_where *where);

/* Running ranks that the caller talks to: it writes lines to rank 0's standard input, and reads
 * lines of its standard output.  launch_start() makes it whole; launch_end() ends it. */
struct launched {
    pid_t pid;         /* of the launcher's keeper (keeper.h); 0: no ranks run */
    int to, from;      /* pipes to their standard input, and from their output; owned */
    char buffer[4096]; /* bytes that were read, but are no whole line yet */
    size_t buffered;
};

/* Starts ranks that run this program with `arguments` (argv[0] first).  They get a process group of
 * their own, so that an interrupt from the terminal reaches only the caller.  ERR_LAUNCH or
 * ERR_NOMEM after a message. */
int launch_start(const struct launch_where *where, char **arguments, struct launched *out);

/* Writes a line of any length and its line end; returns when all of it is in the pipe.  ERR_LAUNCH,
 * silently, when the ranks are gone. */
int launch_write(struct launched *ranks, const char *line);

/* Reads one line, without its line end.  A line that does not fit into `size` or the buffer is cut;
 * its length then shows that.  Waits at most `timeout_ms`.  UNSUPPORTED: no whole line came yet,
 * which is no failure.  ERR_LAUNCH, silently: the ranks have ended. */
int launch_read(struct launched *ranks, int timeout_ms, char *line, size_t size);

/* Describes in a few words how a process ended, from waitpid()'s status: `one` ("a rank") was
 * killed by a signal, or `all` ("the ranks") ended with an exit code. */
void launch_describe_end(int status, const char *one, const char *all, char *how, size_t size);

/* Ends the ranks.  `gently`: first waits for them to end by themselves.  `how` (unless NULL) gets
 * in a few words how they ended. */
void launch_end(struct launched *ranks, bool gently, char *how, size_t size);

#endif
