/* Keeps an event for each piece of work of a stream. */
#include "marks.h"

#include "status.h"

#include <stdlib.h>

static int grow(struct marks *marks)
{
    size_t room = marks->room ? 2 * marks->room : 64;
    struct mark *list = realloc(marks->list, room * sizeof(*list));

    if (!list)
        return fail(ERR_NOMEM, "%zu marks", room);
    for (size_t i = marks->room; i < room; i++)
        list[i] = (struct mark){ 0 };
    marks->list = list;
    marks->room = room;
    return OK;
}

static int record(struct marks *marks, struct stream *stream, size_t i)
{
    struct mark *mark;

    if (i == marks->room)
        TRY(grow(marks));
    mark = &marks->list[i];
    if (!mark->event)
        TRY(event_open(stream->device, &mark->event));
    return event_record(mark->event, stream);
}

int marks_begin(struct marks *marks, struct stream *stream)
{
    marks->count = 0;
    TRY(record(marks, stream, 0));
    stream->marks = marks;
    stream->purpose = 0;
    return OK;
}

void marks_end(struct stream *stream)
{
    stream->marks = NULL;
}

void marks_close(struct marks *marks)
{
    for (size_t i = 0; i < marks->room; i++)
        event_close(marks->list[i].event);
    free(marks->list);
    *marks = (struct marks){ 0 };
}

int marks_add(struct stream *stream, uint32_t work)
{
    struct marks *marks = stream->marks;

    if (!marks)
        return OK;
    TRY(record(marks, stream, marks->count + 1));
    marks->count++;
    marks->list[marks->count].work = work;
    marks->list[marks->count].purpose = stream->purpose;
    return OK;
}

int64_t marks_ns(const struct marks *marks, size_t i)
{
    return event_ns(marks->list[i].event) - event_ns(marks->list[i - 1].event);
}
