/* Points of time, as people read them. */
#ifndef DATE_H
#define DATE_H

#include <stdint.h>

enum { DATE_BYTES = 32 };
enum date_unit { DATE_DAY, DATE_MINUTE, DATE_SECOND };

/* "2026-11-24 21:03" in UTC, down to the unit; "?" for seconds since 1970 that no calendar has,
 * which a database from elsewhere may hold. */
const char *date_text(int64_t at_s, enum date_unit unit, char room[DATE_BYTES]);

/* The same; the result lasts as long as the block around it. */
#define DATE_TEXT(at_s, unit) date_text(at_s, unit, (char[DATE_BYTES]){ 0 })

#endif
