/* The GPU itself. */
#include "cuda_subject.h"

#include "cuda.h"

uint64_t subject_launches;

int subject_open(struct device **out)
{
    return device_open("cuda", out);
}

void subject_scratch(struct stream *stream, size_t bytes)
{
    cuda_scratch_limit(stream, bytes);
}

bool subject_has(enum kernel kernel)
{
    (void)kernel;
    return true;
}

void subject_sample(double at, uint64_t blocks)
{
    (void)at, (void)blocks;
}
