/* Where numbers come from, and what must be known of them before they are believed. */
#ifndef ORIGIN_H
#define ORIGIN_H

#include "report.h"

enum { REMARKS_MAX = 16, REMARK_BYTES = 1500 };

/* Lines of text; parts of them are from the database, so they must be quoted. */
struct remarks {
    char lines[REMARKS_MAX][REMARK_BYTES];
    int count;
};

/* What is to be known of one section: that it is modelled, partial or cut off, or has entries that
 * are stale, pinned or failed. */
void origin_remarks(const struct facts *facts, const struct scope *scope, struct remarks *out);
/* The same of the whole report. */
void origin_overall(const struct facts *facts, struct remarks *out);

/* "14 buckets measured, 18 inferred; 117 trials, 1172 timed steps; run 1", and what heat_text()
 * says, if anything.  Of one layer also what is known of its table as a whole, "... gains over the
 * default plan 11.3 % ...", and of its traffic, "5000 look-ups, ...". */
void origin_summary(const struct scope *scope, struct remarks *out);
/* "23 values from 412 timed steps, 7 of them throttled; run 1". */
void origin_trace(const struct scope *scope, const struct picture *picture, char *text,
                  size_t size);

#endif
