/* A report: data files, gnuplot scripts, pictures, and a page or a text that holds them together.
 */
#ifndef REPORT_H
#define REPORT_H

#include "gnuplot.h"

enum { PICTURE_NAME_BYTES = 48 };

/* One plot of one section. */
struct picture {
    const struct plot *plot;
    char name[PICTURE_NAME_BYTES]; /* of its files, without ending */
    struct extent extent;          /* no rows: there is no picture */
};

/* One layer, or all of them together. */
struct section {
    struct scope scope;
    char name[24]; /* layer3, all */
    struct picture *pictures;
    size_t picture_count;
};

struct report {
    const struct facts *facts;
    const char *db, *folder;
    struct section *sections;
    size_t section_count;
};

enum report_format { REPORT_HTML, REPORT_SVG, REPORT_PNG, REPORT_PDF, REPORT_TXT };
extern const char *const report_words[];

/* Writes it into `folder`, which is made if need be; `db` is named in it.  `shape` as in
 * facts_read.  The text report also goes to standard output; for the others a line says what was
 * written. */
int report_write(struct store *store, const char *db, const char *shape, const char *folder,
                 enum report_format format);

#endif
