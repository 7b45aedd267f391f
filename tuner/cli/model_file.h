/* The MoE layer of a model's config.json in Hugging Face form. */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "layer_options.h"

/* Replaces what the file says: experts, experts per token, hidden and intermediate size, type,
 * activation.  ERR_ARGUMENT names what is missing; ERR_FORMAT for what is not JSON. */
int model_file_read(const char *path, struct layer_options *inout);

#endif
