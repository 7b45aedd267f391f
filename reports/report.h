/* `moetune report`: a folder of data files, gnuplot scripts and pictures, with an HTML page or a
 * text that shows them. */
#ifndef REPORT_H
#define REPORT_H

#include "plots.h"

enum { PICTURE_NAME_BYTES = 48 };

/* One plot of one section: a plain value. */
struct picture {
    const struct plot *plot;
    char name[PICTURE_NAME_BYTES]; /* of its files, without ending */
    struct extent extent;
    const char
        *without; /* why there is no picture; NULL: there is one, or the plot has no script */
};

/* One layer, or all layers together: a plain value that borrows its facts. */
struct section {
    struct scope scope;
    char name[24]; /* layer3, all */
    struct picture pictures[PLOTS];
    size_t picture_count;
};

/* A report while report_write() makes it, which frees `sections`; all else is borrowed. */
struct report {
    const struct facts *facts;
    const char *db, *folder;
    struct section *sections;
    size_t section_count;
    bool page; /* the pictures are for an HTML page */
};

enum report_format { REPORT_HTML, REPORT_SVG, REPORT_PNG, REPORT_PDF, REPORT_TXT };
extern const char *const report_words[];

/* Which report is wanted: a plain value that borrows its strings. */
struct report_request {
    const char *db;     /* path of the database, as the report names it */
    const char *shape;  /* only layers with these words, see facts_read(); NULL: all */
    const char *folder; /* where the report goes; created if it does not exist */
    enum report_format format;
    const struct traffic *traffic; /* look-ups of trainers, or NULL */
    const char *counts;            /* path of a file with counts of experts, or NULL */
};

/* Writes the report into its folder.  A text report also goes to standard output; for other formats
 * one line says what was written.  UNSUPPORTED after a message if no layer fits the request;
 * ERR_IO, ERR_ARGUMENT, ERR_NOMEM. */
int report_write(struct store *store, const struct report_request *request);

/* Write the report as one HTML page without outside files, and as text for a terminal.  They read
 * the pictures, NAME.svg or NAME.txt, from the report's folder. */
void page_write(const struct report *report, FILE *to);
void sheet_write(const struct report *report, FILE *to);

/* Writes a page in this style up to its first paragraph; the caller closes body and html. */
void page_begin(const char *title, FILE *to);
/* page_marks() writes the marks that all pictures of a page share, from any picture; call it once,
 * before the first picture.  page_picture() writes one picture, FOLDER/NAME.ENDING as gnuplot drew
 * it, in the page's colours; screen readers read its title.  Both return false if the file does not
 * exist. */
bool page_marks(const char *folder, const char *name, FILE *to);
bool page_picture(const char *folder, const char *name, const char *ending, const char *title,
                  const char *class, FILE *to);

#endif
