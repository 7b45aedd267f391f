/* Products by cuBLAS: strided batches, f32 accumulation, row-major by swapping the factors. */
#include "cuda_blas.h"

#include "cuda.h"
#include "cuda_kernels.h"
#include "moelookup.h"
#include "shape.h"
#include "status.h"

#include <cublas_v2.h>
#include <stdlib.h>

struct cuda_blas {
    cublasHandle_t handle;
    const struct cuda_queue *bound; /* where the handle points now */
};

static int check(cublasStatus_t code, const char *call)
{
    if (code == CUBLAS_STATUS_SUCCESS)
        return OK;
    return fail(code == CUBLAS_STATUS_ALLOC_FAILED ? ERR_NOMEM : ERR_DEVICE, "%s: %s", call,
                cublasGetStatusString(code));
}
#define CUBLAS(call) check(call, #call)

int cuda_blas_open(struct cuda_blas **out)
{
    struct cuda_blas *blas = calloc(1, sizeof(*blas));
    int rc;

    if (!blas)
        return fail(ERR_NOMEM, "a cuBLAS handle");
    TRY_OUT(CUBLAS(cublasCreate(&blas->handle)));
    /* f32 stays f32 (TF32 only by cuBLAS's own NVIDIA_TF32_OVERRIDE=1), and a product that is cut
     * along k is summed in f32, not in f16. */
    TRY_OUT(CUBLAS(cublasSetMathMode(
        blas->handle,
        (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION))));
    *out = blas;
    return OK;
out:
    cuda_blas_close(blas);
    return rc;
}

void cuda_blas_close(struct cuda_blas *blas)
{
    if (blas && blas->handle)
        cublasDestroy(blas->handle);
    free(blas);
}

void cuda_blas_forget(struct cuda_blas *blas, const struct cuda_queue *queue)
{
    if (blas->bound == queue)
        blas->bound = NULL;
}

/* Setting a stream also takes the workspace away, so both are set, and only when they change. */
static int bind(struct cuda_blas *blas, const struct cuda_queue *queue)
{
    if (blas->bound == queue)
        return OK;
    blas->bound = NULL;
    TRY(CUBLAS(cublasSetStream(blas->handle, queue->stream)));
    TRY(CUBLAS(cublasSetWorkspace(blas->handle, queue->blas_workspace, CUDA_BLAS_WORKSPACE_BYTES)));
    blas->bound = queue;
    return OK;
}

/* An empty sum, which cuBLAS need not be asked about. */
static int clear(const struct gemm *g, cudaStream_t stream)
{
    size_t width = dtype_bytes(g->dtype), bytes = g->m * g->n * width;

    if (g->keep)
        return OK;
    if (g->batch == 1 || g->stride_c == g->m * g->n)
        return CUDA(cudaMemsetAsync(g->c, 0, bytes * g->batch, stream));
    return CUDA(cudaMemset2DAsync(g->c, g->stride_c * width, 0, bytes, g->batch, stream));
}

static cudaDataType_t element(uint32_t dtype)
{
    return dtype == MOE_F32 ? CUDA_R_32F : (dtype == MOE_F16 ? CUDA_R_16F : CUDA_R_16BF);
}

int cuda_gemm(const struct gemm *g, const struct cuda_queue *queue)
{
    const float one = 1, beta = g->keep ? 1 : 0;
    cudaDataType_t type = element(g->dtype);
    int64_t m = (int64_t)g->m, n = (int64_t)g->n, k = (int64_t)g->k;

    if (!m || !n || !g->batch)
        return OK;
    if (!k)
        return clear(g, queue->stream);
    TRY(bind(queue->blas, queue));
    /* Read by columns, our c is its transpose: c' (n,m) = op(b)' op(a)'. */
    return CUBLAS(cublasGemmStridedBatchedEx_64(
        queue->blas->handle, g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
        g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, g->b, type,
        g->transpose_b ? k : n, (long long)g->stride_b, g->a, type, g->transpose_a ? m : k,
        (long long)g->stride_a, &beta, g->c, type, n, (long long)g->stride_c, g->batch,
        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}
