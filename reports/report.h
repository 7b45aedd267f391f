/* A report: data files, gnuplot scripts, pictures, and a page or a text that holds them together.
 */
#ifndef REPORT_H
#define REPORT_H

#include "plots.h"

enum { PICTURE_NAME_BYTES = 48 };

/* One plot of one section. */
struct picture {
    const struct plot *plot;
    char name[PICTURE_NAME_BYTES]; /* of its files, without ending */
    struct extent extent;
    const char *without; /* why there is no picture; NULL: there is one, or none was ever meant */
};

/* One layer, or all of them together. */
struct section {
    struct scope scope;
    char name[24]; /* layer3, all */
    struct picture pictures[PLOTS];
    size_t picture_count;
};

struct report {
    const struct facts *facts;
    const char *db, *folder;
    struct section *sections;
    size_t section_count;
    bool page; /* pictures are made for one */
};

enum report_format { REPORT_HTML, REPORT_SVG, REPORT_PNG, REPORT_PDF, REPORT_TXT };
extern const char *const report_words[];

struct report_request {
    const char *db;     /* named in it */
    const char *shape;  /* as in facts_read */
    const char *folder; /* made if need be */
    enum report_format format;
    const struct traffic *traffic; /* what trainers asked, or NULL */
    const char *counts;            /* a file of what a gate chose, or NULL */
};

/* Writes it into the folder.  The text report also goes to standard output; for the others a line
 * says what was written. */
int report_write(struct store *store, const struct report_request *request);

/* The report as one HTML page that needs nothing but itself, and as text for a terminal.  Pictures
 * are taken from its folder: NAME.svg, NAME.txt. */
void page_write(const struct report *report, FILE *to);
void sheet_write(const struct report *report, FILE *to);

/* Everything up to the first paragraph of a page in this style; the caller ends the body. */
void page_begin(const char *title, FILE *to);
/* One picture alone, FOLDER/NAME.ENDING as gnuplot drew it, in the colours of the page around it;
 * its title is read aloud.  Before the first one, once a page, the marks that all of them share,
 * taken from any one.  False: it is not there. */
bool page_marks(const char *folder, const char *name, FILE *to);
bool page_picture(const char *folder, const char *name, const char *ending, const char *title,
                  const char *class, FILE *to);

#endif
