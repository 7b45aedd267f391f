/* Lists the GPUs that this process sees, with their libraries, and decides whether to use them. */
#ifndef GPU_LIST_H
#define GPU_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPUS_MAX = 16 };

/* One GPU.  A plain value. */
struct gpu {
    char name[96], bus[24]; /* bus: its PCI bus id */
    uint32_t units;         /* multiprocessors */
    uint64_t bytes;         /* of its memory */
};

/* All GPUs of this process.  A plain value.  Versions are in the libraries' own numbers: 13000 is
 * CUDA 13.0, 22809 is NCCL 2.28.9; 0: no such library. */
struct gpus {
    int count; /* in the list; further GPUs are ignored */
    struct gpu list[GPUS_MAX];
    bool reaches[GPUS_MAX][GPUS_MAX]; /* [i][j]: GPU i addresses GPU j's memory */
    char why[200];                    /* count 0: why, in a sentence */
    int driver, runtime, nccl, blas;
    bool built; /* this moetune has the CUDA unit */
};

/* Lists the GPUs.  It opens none, so it takes no memory on them. */
struct gpus gpus_here(void);

/* The number of the GPU that the rank in this process uses, by its place on the host; -1: none. */
int gpus_own(const struct gpus *gpus);

/* Tests whether copies within this rank's GPU run beside kernels that fill it, as copies by an
 * engine do: 1 or 0; -1: not known.  Nothing else should run on the GPU during the test. */
int gpus_copies_beside(const struct gpus *gpus);

/* Resolves "auto": "cuda" where a GPU works, else "host".  Other names stay as they are. */
const char *gpus_device(const char *device);

/* The default dtype of a layer: bf16 on "cuda", f32 on other devices, because cores have no
 * products of bf16. */
uint32_t gpus_dtype(const char *device);

/* Checks --device.  ERR_ARGUMENT unless it is auto, host or cuda, and for cuda without the CUDA
 * unit. ERR_DEVICE for cuda where no GPU works, and for cores without a BLAS, unless ranks run on
 * other hosts (elsewhere). */
int gpus_check_device(const char *device, bool elsewhere);

/* Checks that a GPU is free to be measured.  ERR_DEVICE after a message if it is split into
 * instances (MIG), or is busy for some seconds.  OK where NVML does not know. */
int gpu_check_ready(const struct gpu *gpu);

struct world;

/* Decides which device all ranks use: "auto" is "cuda" where every rank has a GPU; other names are
 * checked.  Collective; the same status on every rank. */
int gpus_agree_device(struct world *world, const char *device, const char **out);

/* cuda_gpus.c defines these, in builds with the CUDA unit; gpu_list.c calls them.  -1: none, or not
 * known. */
void cuda_gpus(struct gpus *out);
int cuda_gpus_own(void);
int cuda_gpus_copies_beside(void);

#endif
