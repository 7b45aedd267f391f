/* A communicator of NCCL on a CPU, as every call sees it. */
#ifndef NCCL_COMM_H
#define NCCL_COMM_H

#include "nccl_exchange.h"

#include <string>

struct ncclComm {
    std::shared_ptr<gpu_on_cpu::core> is;
    bool blocking;
    std::function<ncclResult_t()> pending; /* asked until it is no longer in progress */
    int reluctance;
    ncclResult_t state;
    int splits;
    std::string said;
    bool finalized;
    std::string protocols = {}; /* NCCL_PROTO as it was, "-": not set */
    void *room = nullptr;       /* of the GPU: GPU_ON_CPU_COMM_MIB */
};

namespace gpu_on_cpu
{

ncclResult_t refuse(ncclComm_t comm, ncclResult_t result, const char *why);
ncclResult_t check_comm(ncclComm_t comm); /* that it may be called */

/* Once the group has ended that this thread is in; at once where there is none. */
void after_group(const std::function<void()> &what);

/* Now, if it blocks; else some questions later. */
ncclResult_t begin(ncclComm_t comm, const std::function<ncclResult_t()> &what);

} // namespace gpu_on_cpu

#endif
