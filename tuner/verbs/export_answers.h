/* moetune export --format env, ...: the answers for one layer, as other programs read them. */
#ifndef EXPORT_ANSWERS_H
#define EXPORT_ANSWERS_H

#include "format.h"
#include "options.h"

/* What the command line says. */
struct answers_options {
    const char *space, *key, *class;
    struct option_list sets;
    bool check;
};

/* Whether any of them is given. */
bool answers_options_given(const struct answers_options *o);

/* Writes to `file`, which may be a folder, or NULL: standard output. */
int export_answers(const struct format *format, const char *table, const char *shape,
                   const char *cluster, const struct answers_options *o, const char *file);

#endif
