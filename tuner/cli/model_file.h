/* The MoE layer of a model's config.json in Hugging Face form. */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "layer_options.h"

/* Fills in what was not given: experts, experts per token, hidden and intermediate size, type,
 * activation.  What the file does not say of type and activation keeps its default, which is
 * noted.  ERR_ARGUMENT names what is missing or unknown; ERR_FORMAT for what is not JSON. */
int model_file_read(const char *path, struct layer_options *inout);

#endif
