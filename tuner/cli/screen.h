/* Standard output as a person may look at it. */
#ifndef SCREEN_H
#define SCREEN_H

#include <stdbool.h>
#include <stdio.h>

/* From here on no control character passes that would do more than end a line, whichever database
 * or file it comes from: it becomes a question mark.  Bytes that are no text go past stdout. */
void screen_guard(void);

/* `auto`: where stdout is a terminal, TERM is not dumb and NO_COLOR is empty. */
enum screen_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
extern const char *const screen_color_words[];
void screen_color(enum screen_color when);

enum ink { INK_PLAIN, INK_HEAD, INK_GOOD, INK_OPEN, INK_FAINT, INK_BAD };
/* What is printed from here on has this colour, if `to` is stdout and has colours at all. */
void screen_ink(enum ink ink, FILE *to);

/* Whether `to` is a terminal whose lines can be written anew. */
bool screen_is_terminal(FILE *to);
/* Moves the cursor of such a terminal back by `lines` lines, which are then written anew. */
void screen_back(int lines, FILE *to);

/* How many characters a line has; a great number where that is no terminal. */
int screen_columns(FILE *to);
/* Shortens a line to so many characters, between two words. */
void screen_cut(char *line, int columns);

#endif
