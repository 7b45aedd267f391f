/* What recorded steps are like, in words: how uneven experts are, and ranks. */
#ifndef LOAD_WORDS_H
#define LOAD_WORDS_H

#include "load.h"

enum { LOAD_WORDS_BYTES = 200 };

/* Under what capacity c is measured: "3 recorded steps of max/mean 1.62 to 1.81 (up to 2), of ranks
 * 1.1 to 1.3 (up to 1.25)".  The class is that of the median.  "" where no step was recorded. */
void load_words_at(const struct load *load, uint64_t capacity, char text[LOAD_WORDS_BYTES]);

/* How many steps a file had of each class, and how many are replayed; "" where none was read. */
void load_words_file(const struct load *load, char text[LOAD_WORDS_BYTES]);

#endif
