/* What is wrong with the GPUs of the ranks. */
#ifndef GPU_DOCTOR_H
#define GPU_DOCTOR_H

#include "doctor.h"
#include "gpu_list.h"

/* What a rank sees of its GPU; of fixed size, so that ranks can gather it.  -1: not known. */
struct gpu_condition {
    char host[64], bus[24], name[96], throttled[16]; /* throttled: by what, or "" */
    int32_t seen;                                    /* GPUs */
    int32_t out_of_reach; /* of those, whose memory this one's kernels cannot address */
    int32_t clock_mhz, clock_max_mhz, persistence, mig, links, busy_percent;
    int32_t copies_beside;         /* gpus_copies_beside(), of rank 0: who looks must be alone */
    int32_t driver, runtime, nccl; /* as struct gpus has them */
};

struct gpu_condition gpu_condition_here(const struct gpus *gpus, const char *host);

/* Checks of ranks that compute on GPUs. */
void gpu_doctor_ranks(const struct gpu_condition *ranks, uint32_t count, struct findings *out);

/* Says why ranks do not compute on GPUs although their host has NVIDIA GPUs on its bus. */
void gpu_doctor_none(const struct gpus *gpus, bool on_the_bus, struct findings *out);

#endif
