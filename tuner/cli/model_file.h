/* The MoE layer of a model's config.json in Hugging Face form. */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "layer_options.h"

/* Fills in the options that were not given: experts, experts per token, model and hidden dimension,
 * type, activation, router and groups.  If the file has no type or activation the default stays,
 * and a note says so.  ERR_ARGUMENT after a message if something else is missing or unknown;
 * ERR_FORMAT if the file is no JSON. */
int model_file_read(const char *path, struct layer_options *inout);

#endif
