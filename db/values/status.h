/* One status for every function: 0 is OK, negative is an error, UNSUPPORTED means "does not apply
 * here".  Whoever first knows calls fail(), which says it once; everybody else passes it on. */
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
    ERR_BUSY = -10,    /* somebody else owns the database */
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

const char *status_word(int status);

/* Says why, once, and returns `status`. */
int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A remark that is no error. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A terminal's last line holds this many columns of progress: what fail() or note() say next takes
 * their place.  Returns how many it held before. */
int log_line_stands(int columns);
/* Clears that line. */
void log_line_clear(void);

/* Asked how wide standard error is, so that lines end between words there, but not inside of a
 * command or of what stands in quotes: that is there to be pasted.  NULL, as it is at first: each
 * is one line, however long. */
void log_columns(int (*columns)(FILE *to));

/* Where fail() and note() go, as one line without control characters; NULL restores standard error.
 * Set before threads start. */
typedef void log_hook(void *self, const char *line);
void log_to(log_hook *hook, void *self);

/* False: this process stays silent, because another says the same.  Returns what it was. */
bool log_only(bool here);

/* Until log_rank(): what is wrong with the command line, another process that has the same says. */
void log_usage_elsewhere(void);

/* Every line is marked "[rank N]" from here on: several ranks share one terminal. */
void log_rank(int rank);

#endif
