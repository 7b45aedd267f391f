/* The rows of SMILE's study. */
#ifndef SMILE_ROWS_H
#define SMILE_ROWS_H

#include "study.h"

const char *smile_machine(void);

#endif
