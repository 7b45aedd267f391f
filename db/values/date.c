/* Writes points of time. */
#include "date.h"

#include <string.h>
#include <time.h>

const char *date_text(int64_t at_s, enum date_unit unit, char room[DATE_BYTES])
{
    static const char *const formats[] = { [DATE_DAY] = "%Y-%m-%d",
                                           [DATE_MINUTE] = "%Y-%m-%d %H:%M",
                                           [DATE_SECOND] = "%Y-%m-%d %H:%M:%S" };
    time_t at = (time_t)at_s;
    struct tm tm;

    if (!gmtime_r(&at, &tm) || !strftime(room, DATE_BYTES, formats[unit], &tm))
        strcpy(room, "?");
    return room;
}
