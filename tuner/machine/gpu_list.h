/* The GPUs that this process sees, and what drives them. */
#ifndef GPU_LIST_H
#define GPU_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPUS_MAX = 16 };

struct gpu {
    char name[96], bus[24]; /* bus: its PCI bus id */
    uint32_t units;         /* multiprocessors */
    uint64_t bytes;         /* of memory */
};

/* Versions are as their libraries count them: 13000 is CUDA 13.0, 22809 NCCL 2.28.9; 0: none. */
struct gpus {
    int count; /* in the list; more are not looked at */
    struct gpu list[GPUS_MAX];
    bool reaches[GPUS_MAX][GPUS_MAX]; /* one the other's memory, directly */
    char why[200];                    /* there are none: why, in a plain sentence */
    int driver, runtime, nccl, blas;
    bool built; /* with the CUDA unit */
};

/* Opens no GPU: whoever only looks takes none of its memory. */
struct gpus gpus_here(void);

/* The one that the rank in this process uses, by its place on the host; -1 where there is none. */
int gpus_own(const struct gpus *gpus);

/* Whether copies within that one go on beside kernels that fill it, as a copy engine's do: 1 or 0;
 * -1: not known.  It is tried, on a GPU where nothing else should run. */
int gpus_copies_beside(const struct gpus *gpus);

/* "auto" is cuda where a GPU answers, else host; other names stay. */
const char *gpus_device(const char *device);

/* How a layer is stored where nobody says it, on "cuda", "host" or another device: products of bf16
 * are what a GPU is for, and cores have none. */
uint32_t gpus_dtype(const char *device);

/* For options: ERR_ARGUMENT unless it is auto, host or cuda; ERR_DEVICE for cuda where no GPU
 * answers, and for cores without a BLAS, unless ranks run elsewhere. */
int gpus_check_device(const char *device, bool elsewhere);

/* Before it is measured, so that what is measured is its own: ERR_DEVICE after a message if it is
 * cut into instances (MIG), or is busy and stays so for some seconds.  What NVML does not know is
 * no reason. */
int gpu_check_ready(const struct gpu *gpu);

struct world;

/* What all ranks use: "auto" is cuda where every rank has a GPU; another name is checked.
 * Collective, the same status on every rank. */
int gpus_agree_device(struct world *world, const char *device, const char **out);

/* What cuda_gpus.c answers where there is a CUDA unit; -1: none, not known. */
void cuda_gpus(struct gpus *out);
int cuda_gpus_own(void);
int cuda_gpus_copies_beside(void);

#endif
