/* cuBLAS: strided batches of products in plain loops, refused as the real one refuses them. */
#include "gpu_on_cpu.h"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdio>
#include <cstring>
#include <vector>

using namespace gpu_on_cpu;

struct cublasContext {
    int device;
    cudaStream_t stream;
    cublasMath_t math;
    char *workspace;
    size_t workspace_bytes;
};

namespace
{

/* One factor as cuBLAS reads it, by columns. */
struct matrix {
    const char *at;
    cudaDataType type;
    int64_t ld;
    long long stride;
    bool transposed;
};

struct product {
    int64_t m, n, k, batch;
    matrix a, b, c;
    float alpha, beta;
    char *workspace;
    size_t workspace_bytes;
};

size_t bytes_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

float get(const matrix &x, int64_t batch, int64_t row, int64_t column)
{
    const char *at = x.at + (size_t)(batch * x.stride + row + column * x.ld) * bytes_of(x.type);

    switch (x.type) {
    case CUDA_R_16F: return __half2float(*(const __half *)at);
    case CUDA_R_16BF: return __bfloat162float(*(const __nv_bfloat16 *)at);
    default: return *(const float *)at;
    }
}

float get_factor(const matrix &x, int64_t batch, int64_t row, int64_t column)
{
    return x.transposed ? get(x, batch, column, row) : get(x, batch, row, column);
}

void put(const matrix &x, int64_t batch, int64_t row, int64_t column, float value)
{
    char *at = (char *)x.at + (size_t)(batch * x.stride + row + column * x.ld) * bytes_of(x.type);

    switch (x.type) {
    case CUDA_R_16F: *(__half *)at = __float2half_rn(value); break;
    case CUDA_R_16BF: *(__nv_bfloat16 *)at = __float2bfloat16_rn(value); break;
    default: *(float *)at = value;
    }
}

std::vector<float> unfold(const matrix &x, int64_t batch, int64_t rows, int64_t columns)
{
    std::vector<float> out;

    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            out.push_back(get_factor(x, batch, row, column));
    return out;
}

/* Sums grow in the order of k, side by side: `probe` asks for large products. */
__attribute__((optimize("O3"), no_sanitize("alignment"))) void
add_row(const float *a, const float *b, int64_t k, int64_t n, float *sums)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t column = 0; column < n; column++)
            sums[column] += a[i] * b[i * n + column];
}

void multiply(const product &p, int64_t i)
{
    std::vector<float> a = unfold(p.a, i, p.m, p.k), b = unfold(p.b, i, p.k, p.n);

    for (int64_t row = 0; row < p.m; row++) {
        std::vector<float> sums((size_t)p.n);

        add_row(a.data() + row * p.k, b.data(), p.k, p.n, sums.data());
        for (int64_t column = 0; column < p.n; column++)
            put(p.c, i, row, column,
                p.alpha * sums[(size_t)column] +
                    (p.beta != 0 ? p.beta * get(p.c, i, row, column) : 0));
    }
}

void multiply(const product &p)
{
    for (int64_t i = 0; i < p.batch; i++)
        multiply(p, i);
}

/* Whatever the real one leaves there. */
void use_workspace(const product &p)
{
    if (p.workspace)
        memset(p.workspace, 0xff, p.workspace_bytes < 4096 ? p.workspace_bytes : 4096);
}

bool is_type(cudaDataType type)
{
    return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

/* `rows` x `columns` as it lies in memory, all of the batch. */
bool lies_on_device(const matrix &x, int64_t rows, int64_t columns, int64_t batch)
{
    int64_t last = (batch - 1) * x.stride + (columns - 1) * x.ld + rows;

    return on_device(x.at, (size_t)last * bytes_of(x.type));
}

/* Kernels of several 16-bit products read 16 bytes at once, of each row. */
bool is_misaligned(const matrix &x, int64_t batch)
{
    return x.type != CUDA_R_32F &&
           ((uintptr_t)x.at % 16 || x.ld * 2 % 16 || (batch > 1 && x.stride * 2 % 16));
}

void forbid_misaligned(const product &p)
{
    if (is_misaligned(p.a, p.batch) || is_misaligned(p.b, p.batch) || is_misaligned(p.c, p.batch))
        forbidden("a misaligned address: several 16-bit products whose rows do not begin at "
                  "multiples of 16 bytes");
}

cublasStatus_t check(const product &p)
{
    int64_t a_rows = p.a.transposed ? p.k : p.m, a_columns = p.a.transposed ? p.m : p.k;
    int64_t b_rows = p.b.transposed ? p.n : p.k, b_columns = p.b.transposed ? p.k : p.n;

    if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0 || p.a.ld < a_rows || p.b.ld < b_rows ||
        p.c.ld < p.m || p.a.ld < 1 || p.b.ld < 1 || p.c.ld < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_type(p.a.type) || p.a.type != p.b.type ||
        (p.c.type != p.a.type && p.c.type != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.batch > 1 && p.m && p.n && p.k)
        forbid_misaligned(p);
    if (p.batch > 1 && p.c.stride < p.c.ld * (p.n - 1) + p.m)
        forbidden("products of a batch that overlap");
    if (p.m && p.n && p.k && p.batch &&
        (!lies_on_device(p.a, a_rows, a_columns, p.batch) ||
         !lies_on_device(p.b, b_rows, b_columns, p.batch) ||
         !lies_on_device(p.c, p.m, p.n, p.batch)))
        forbidden("a product %lld x %lld x %lld whose factors are not all on the device",
                  (long long)p.m, (long long)p.n, (long long)p.k);
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    if (usable())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (fault("blas"))
        return CUBLAS_STATUS_ALLOC_FAILED;
    *out = new cublasContext{ current_device(), nullptr, CUBLAS_DEFAULT_MATH, nullptr, 0 };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    drain(handle->device);
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->math = mode;
    return CUBLAS_STATUS_SUCCESS;
}

/* It also takes the workspace away. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    handle->workspace = nullptr;
    handle->workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!on_device(workspace, bytes) || (uintptr_t)workspace % 256)
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = (char *)workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* alpha and beta are read at once, as from the host. */
cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
    int64_t k, const void *alpha, const void *a, cudaDataType a_type, int64_t lda,
    long long stride_a, const void *b, cudaDataType b_type, int64_t ldb, long long stride_b,
    const void *beta, void *c, cudaDataType c_type, int64_t ldc, long long stride_c, int64_t batch,
    cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    product p = { m,
                  n,
                  k,
                  batch,
                  { (const char *)a, a_type, lda, stride_a, op_a != CUBLAS_OP_N },
                  { (const char *)b, b_type, ldb, stride_b, op_b != CUBLAS_OP_N },
                  { (const char *)c, c_type, ldc, stride_c, false },
                  0,
                  0,
                  nullptr,
                  0 };
    cublasStatus_t status;

    (void)algo;
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (compute != CUBLAS_COMPUTE_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    status = check(p);
    if (status || !m || !n || !batch)
        return status;
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    p.workspace = handle->workspace;
    p.workspace_bytes = handle->workspace_bytes;
    if (!is_stream(handle->stream) || device_of(handle->stream) != current_device() ||
        enqueue(handle->stream, [=] {
            use_workspace(p);
            multiply(p);
            return DONE;
        }))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return CUBLAS_STATUS_SUCCESS;
}

/* Sizes are read at once, addresses by the stream. */
cublasStatus_t
cublasGemmGroupedBatchedEx_64(cublasHandle_t handle, const cublasOperation_t op_a[],
                              const cublasOperation_t op_b[], const int64_t m[], const int64_t n[],
                              const int64_t k[], const void *alpha, const void *const a[],
                              cudaDataType_t a_type, const int64_t lda[], const void *const b[],
                              cudaDataType_t b_type, const int64_t ldb[], const void *beta,
                              void *const c[], cudaDataType_t c_type, const int64_t ldc[],
                              int64_t groups, const int64_t sizes[], cublasComputeType_t compute)
{
    std::vector<product> all;

    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || groups < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    /* An older one may have none of 16-bit types. */
    if (compute != CUBLAS_COMPUTE_32F || !is_type(a_type) || a_type != b_type || c_type != a_type ||
        (a_type != CUDA_R_32F && number_from("GPU_ON_CPU_OLD_BLAS", 0)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int64_t i = 0; i < groups; i++) {
        if (sizes[i] != 1 || m[i] < 1 || n[i] < 1 || k[i] < 1)
            forbidden("a group of products that none of ours is");
        all.push_back({ m[i],
                        n[i],
                        k[i],
                        1,
                        { nullptr, a_type, lda[i], 0, op_a[i] != CUBLAS_OP_N },
                        { nullptr, b_type, ldb[i], 0, op_b[i] != CUBLAS_OP_N },
                        { nullptr, c_type, ldc[i], 0, false },
                        ((const float *)alpha)[i],
                        ((const float *)beta)[i],
                        handle->workspace,
                        handle->workspace_bytes });
    }
    if (!on_device(a, (size_t)groups * sizeof(*a)) || !on_device(b, (size_t)groups * sizeof(*b)) ||
        !on_device(c, (size_t)groups * sizeof(*c)))
        forbidden("addresses of a group's factors that are not on the device");
    if (!is_stream(handle->stream) || device_of(handle->stream) != current_device() ||
        enqueue(handle->stream, [=]() mutable {
            for (int64_t i = 0; i < groups; i++) {
                product &p = all[(size_t)i];

                p.a.at = (const char *)a[i];
                p.b.at = (const char *)b[i];
                p.c.at = (const char *)c[i];
                forbid_misaligned(p);
                use_workspace(p);
                if (check(p) == CUBLAS_STATUS_SUCCESS)
                    multiply(p);
            }
            return DONE;
        }))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "the operation completed successfully";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an invalid value was passed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality is not supported";
    default: return "the function failed to launch on the GPU";
    }
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    *value = type == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
             : type == MINOR_VERSION ? CUBLAS_VER_MINOR
                                     : CUBLAS_VER_PATCH;
    return CUBLAS_STATUS_SUCCESS;
}
