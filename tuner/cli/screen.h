/* Standard output as a person may look at it. */
#ifndef SCREEN_H
#define SCREEN_H

/* From here on no control character passes that would do more than end a line, whichever database
 * or file it comes from: it becomes a question mark.  Bytes that are no text go past stdout. */
void screen_guard(void);

#endif
