/* A device whose memory is the host's and whose kernels are the CUDA ones, run on this CPU at once.
 */
#include "cuda_subject.h"

#include "cuda_kernels.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

enum { SUM_SCRATCH_BYTES = 64 << 10, SPARSE_SCRATCH_BYTES = 5 << 10 };

int cuda_check(cudaError_t code, const char *call)
{
    return code == cudaSuccess ? OK : fail(ERR_DEVICE, "%s: CUDA error %d", call, (int)code);
}

/* Products are cuBLAS's, and a fill is the runtime's: nothing of ours to test here. */
int cuda_gemm(const struct gemm *args, const struct cuda_queue *queue)
{
    (void)args, (void)queue;
    return fail(ERR_DEVICE, "no products on this subject");
}

int cuda_gemm_rows(const struct gemm_rows *args, const struct cuda_queue *queue)
{
    (void)args, (void)queue;
    return fail(ERR_DEVICE, "no products on this subject");
}

int cuda_fill(const struct fill *args, const struct cuda_queue *queue)
{
    (void)queue;
    if (args->bytes)
        memset(args->to, 0, args->bytes);
    return OK;
}

#define SUBJECT_ROW(name)                                                                          \
    static int run_##name(const void *args, const struct cuda_queue *queue)                        \
    {                                                                                              \
        return cuda_##name(args, queue);                                                           \
    }
KERNELS(SUBJECT_ROW)
#undef SUBJECT_ROW

#define SUBJECT_ENTRY(name) [KERNEL_##name] = run_##name,
static int (*const kernel_table[KERNEL_COUNT])(const void *args, const struct cuda_queue *queue) = {
    KERNELS(SUBJECT_ENTRY)
};
#undef SUBJECT_ENTRY

static size_t scratch_bytes;

void subject_scratch(struct stream *stream, size_t bytes)
{
    (void)stream;
    scratch_bytes = bytes;
}

/* Little, so that small cases already come in several ranges and batches; for routes another size
 * each time, since slots must not depend on it. */
static size_t scratch_for(enum kernel kernel, const void *args)
{
    if (scratch_bytes)
        return scratch_bytes;
    if (kernel == KERNEL_esmm || kernel == KERNEL_esfk)
        return SPARSE_SCRATCH_BYTES;
    if (kernel != KERNEL_route && kernel != KERNEL_slots)
        return SUM_SCRATCH_BYTES;
    return (kernel == KERNEL_route ? ((const struct route *)args)->experts
                                   : ((const struct slots *)args)->experts) *
           sizeof(int32_t) * (rand() % 2 ? 1 + (size_t)rand() % 9 : 600);
}

static int subject_launch(struct stream *stream, enum kernel kernel, const void *args, size_t bytes)
{
    struct cuda_queue queue = { .scratch_bytes = scratch_for(kernel, args) };
    int rc;

    (void)stream, (void)bytes;
    queue.scratch = malloc(queue.scratch_bytes);
    memset(queue.scratch, 0xff, queue.scratch_bytes);
    rc = kernel_table[kernel](args, &queue);
    free(queue.scratch);
    return rc;
}

/* Of exact size at the end, for AddressSanitizer. */
static int subject_alloc(struct device *device, size_t bytes, void **out)
{
    (void)device;
    return posix_memalign(out, 256, bytes) ? ERR_NOMEM : OK;
}

static void subject_release(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static int subject_copy(struct device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return OK;
}

static int subject_stream_open(struct device *device, bool urgent, struct stream **out)
{
    static struct stream stream;

    (void)urgent;
    stream.device = device;
    *out = &stream;
    return OK;
}

static void subject_stream_close(struct stream *stream)
{
    (void)stream;
}

static int subject_stream_sync(struct stream *stream)
{
    (void)stream;
    return OK;
}

static void subject_close(struct device *device)
{
    (void)device;
}

static const struct device_ops subject_ops = {
    .name = "cuda on a CPU",
    .close = subject_close,
    .alloc = subject_alloc,
    .release = subject_release,
    .upload = subject_copy,
    .download = subject_copy,
    .stream_open = subject_stream_open,
    .stream_close = subject_stream_close,
    .stream_sync = subject_stream_sync,
    .launch = subject_launch,
};

int subject_open(struct device **out)
{
    static struct device device = { .ops = &subject_ops };

    *out = &device;
    return OK;
}

bool subject_has(enum kernel kernel)
{
    return kernel != KERNEL_gemm && kernel != KERNEL_gemm_rows;
}
