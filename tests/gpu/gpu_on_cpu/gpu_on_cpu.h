/* A GPU's runtime, cuBLAS and NCCL on a CPU, as libraries with NVIDIA's names: what they share.
 *
 * Streams are served in an order that is random but for what orders them, so that a wait which is
 * missing shows.  What the real libraries refuse is refused here; what they leave undefined, or
 * must never be asked, ends the program with a message (forbidden()).
 *
 * From the environment: GPU_ON_CPU_DEVICES, the GPUs that are seen (1); GPU_ON_CPU_MIB, the memory
 * that a process may have on each (1024), and GPU_ON_CPU_COMM_MIB, what each communicator of NCCL
 * takes of it (0), and GPU_ON_CPU_COMM_MORE with each further GPU (0); GPU_ON_CPU_CAPABILITY (80),
 * GPU_ON_CPU_DRIVER (13000) and GPU_ON_CPU_NCCL (22809), what GPUs, driver and NCCL are;
 * GPU_ON_CPU_COPIES, whether copies within memory go on beside kernels (engine), wait for them
 * (kernels), or may not be asked for either (refused); NVML_ON_CPU, see nvml.c; GPU_ON_CPU_SEED,
 * of what is random (1); and GPU_ON_CPU_FAULT="point:n[@rank]", which lets the n-th passage of a
 * point fail: malloc, blas, kernel, die and stop (in a kernel).  The rank is that of LOCAL_RANK. */
#ifndef GPU_ON_CPU_H
#define GPU_ON_CPU_H

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>
#include <sys/types.h>

namespace gpu_on_cpu
{

/* Work of a stream is asked again until it is done. */
enum outcome { DONE, NOT_YET, BROKEN };
typedef std::function<outcome()> work;

/* Behind all that the stream has. */
cudaError_t enqueue(cudaStream_t stream, work task);
/* Waits until the device has nothing to do, as what frees memory does. */
void drain(int device);
bool is_stream(cudaStream_t stream);
int device_of(cudaStream_t stream);
int priority_of(cudaStream_t stream);
bool a_kernel_runs(); /* asked by work: the work is done while that kernel waits */

/* Graphs: a stream that is captured runs nothing.  The two about events say whether they have dealt
 * with it; both about what is forbidden say OK where it is not, and spoil the capture where it is:
 * the one of an event, and of a stream, or NULL for what the thread that captures may not call. */
bool is_captured(cudaStream_t stream);
cudaError_t capture_work(cudaStream_t stream, work task);
bool capture_record(cudaEvent_t event, cudaStream_t stream, cudaError_t *code);
bool capture_wait(cudaStream_t stream, cudaEvent_t event, cudaError_t *code);
cudaError_t capture_of_event(cudaEvent_t event);
cudaError_t capture_forbids(cudaStream_t stream);

/* What hangs on a graph ends after it, by a thread of the runtime's own: some time later, and what
 * hangs on one graph in any order. */
void end_later(const std::function<void()> &what);

/* Keeps a code as this thread's last error; what breaks the device is never forgotten. */
cudaError_t keep(cudaError_t code);
cudaError_t usable();            /* not in a child of the process that began */
cudaError_t usable_uncaptured(); /* for what a thread that captures may not call */
void break_device(cudaError_t code);
cudaError_t broken();
int current_device();
int device_count();

/* One live allocation of a device, or one that another process opened to this one, holds it all. */
bool on_device(const void *memory, size_t bytes);
bool pinned(const void *memory, size_t bytes);
bool find_allocation(const void *memory, void **base, size_t *bytes);
/* Asked when the allocation is freed: the rank that still has it mapped, or -1. */
void keep_mapped(const void *memory, const std::function<int()> &by);

/* Zeroed pages that other processes open by process and file; NULL when there is none. */
struct pages {
    char *at;
    size_t bytes;
    pid_t process;
    int file;
};
pages pages_create(size_t bytes);
char *pages_open(const pages &theirs);
void pages_close(const pages &theirs);

uint64_t dice(uint64_t sides);
bool fault(const char *point);
int64_t now_ns();
long number_from(const char *variable, long otherwise);
[[noreturn]] __attribute__((format(printf, 1, 2))) void forbidden(const char *format, ...);

} // namespace gpu_on_cpu

#endif
