/* One status for every function: 0 is OK, negative is an error, UNSUPPORTED means "does not apply
 * here". The function that first finds an error calls fail(), which prints one message; its callers
 * only pass the status on. */
#ifndef STATUS_H
#define STATUS_H

#include <stdbool.h>
#include <stdio.h>

enum status {
    OK = 0,
    UNSUPPORTED = 1, /* legal in itself, but has no meaning on this machine or shape */
    /* -1 to -5 are the public enum moe_status, number for number. */
    ERR_ARGUMENT = -1,
    ERR_IO = -2,
    ERR_FORMAT = -3,
    ERR_AMBIGUOUS = -4,
    ERR_NOMEM = -5,
    ERR_DEVICE = -6,
    ERR_WIRE = -7,
    ERR_WRONG = -8,    /* a result differs from its reference */
    ERR_LAUNCH = -9,   /* the ranks could not be started, or ended early */
    ERR_BUSY = -10,    /* another process owns the database */
    ERR_CORRUPT = -11, /* the database is damaged, foreign, or from a newer version */
    ERR_CUT = -12,     /* interrupted or out of budget; can be resumed */
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_ = (call);                                                                         \
        if (try_)                                                                                  \
            return try_;                                                                           \
    } while (0)

/* For functions that own something and have an `out:` label and an `rc`. */
#define TRY_OUT(call)                                                                              \
    do {                                                                                           \
        rc = (call);                                                                               \
        if (rc)                                                                                    \
            goto out;                                                                              \
    } while (0)

/* Returns the words for a status: "out of memory". */
const char *status_word(int status);

/* Prints one message and returns `status`. */
int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a remark that is no error. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Records that a terminal's last line holds this many columns of progress. The next fail() or
 * note() overwrites them. Returns the number before. */
int log_progress_columns(int columns);
/* Clears that line of progress. */
void log_progress_clear(void);

/* Wraps messages to the width that `width_of` returns for standard error. Lines end between words,
 * but not inside a command or a quotation, which people paste. NULL, the default: each message is
 * one line. */
void log_columns(int (*width_of)(FILE *stream));

/* Sends fail() and note() to a hook, one line each without control characters; NULL restores
 * standard error. Call it before threads start. */
typedef void log_hook(void *self, const char *line);
void log_to(log_hook *hook, void *self);

/* Enables or silences the messages of this process: often another process prints the same. Returns
 * the setting before. */
bool log_enable(bool enabled);

/* Silences errors of the command line until log_rank(): another process with the same command line
 * prints them. */
void log_mute_usage(void);

/* Marks every line "[rank N]" from here on, because several ranks share one terminal. */
void log_rank(int rank);

#endif
