/* Dates in a stream, after each kernel and exchange: where its time goes.  Nothing is marked, and
 * nothing costs anything, unless somebody asks. */
#ifndef MARKS_H
#define MARKS_H

#include "device.h"

/* What a piece of work is: a kernel, or an exchange by whom it reaches. */
enum { MARK_INSIDE = KERNEL_COUNT, MARK_BETWEEN, MARK_WORKS };

struct mark {
    struct event *event;
    uint32_t work, purpose; /* of the stream when the work was enqueued */
};

/* list[0] is the beginning, list[1] to list[count] end pieces of work. */
struct marks {
    struct mark *list;
    size_t count, room;
};

/* From here to marks_end() the stream's work is marked; what was marked before is forgotten.  The
 * events stay, so that a second time allocates nothing. */
int marks_begin(struct marks *marks, struct stream *stream);
void marks_end(struct stream *stream);
void marks_close(struct marks *marks); /* a zeroed one is fine */

/* Behind what was just enqueued, if the stream is marked. */
int marks_add(struct stream *stream, uint32_t work);

/* How long the piece of work list[i] took, i > 0, and what it waited for.  After a sync. */
int64_t marks_ns(const struct marks *marks, size_t i);

#endif
