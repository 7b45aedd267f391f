/* Standard output for a person: no control characters, colours, the width of a line. */
#ifndef SCREEN_H
#define SCREEN_H

#include <stdbool.h>
#include <stdio.h>

/* Replaces stdout by a stream that turns control characters other than line feeds into question
 * marks: names from databases and files could otherwise steer a terminal.  Binary output must not
 * use it. */
void screen_guard(void);

/* When to print colours.  COLOR_AUTO: if stdout is a terminal, TERM is not dumb and NO_COLOR is
 * empty. */
enum screen_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
extern const char *const screen_color_words[];
void screen_color(enum screen_color when);

enum ink { INK_PLAIN, INK_HEAD, INK_GOOD, INK_OPEN, INK_FAINT, INK_BAD };
/* Sets the colour of what is printed from here on, if `stream` is stdout and has colours. */
void screen_ink(enum ink ink, FILE *stream);

/* Whether `stream` is a terminal whose lines can be written anew. */
bool screen_is_terminal(FILE *stream);
/* Moves the cursor of such a terminal back by `lines` lines, which are then written anew. */
void screen_back(int lines, FILE *stream);

/* The number of columns of the terminal; INT_MAX if `stream` is no terminal. */
int screen_columns(FILE *stream);
/* Cuts a line between two words, so that it has at most `columns` characters. */
void screen_cut(char *line, int columns);

#endif
