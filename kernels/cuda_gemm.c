/* Matrix products on a GPU, by cuBLAS: strided batches, and groups of products with different
 * numbers of rows.  They add in f32.  cuBLAS is column-major, so the two factors are swapped.
 *
 * cuBLAS is loaded when a GPU is opened.  If the program linked it, every start would take 65 ms
 * and every rank 30 MiB more, even on machines without a GPU. */
#include "cuda_blas.h"

#include "cuda.h"
#include "cuda_kernels.h"
#include "gemm_rows.h"
#include "moelookup.h"
#include "shape.h"
#include "status.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Rows of (member of cuda_blas, function).  The functions may be macros in cublas_v2.h. */
#define CUBLAS_FUNCTIONS(row)                                                                      \
    row(create, cublasCreate) row(destroy, cublasDestroy) row(set_math, cublasSetMathMode)         \
        row(set_stream, cublasSetStream) row(set_workspace, cublasSetWorkspace)                    \
            row(gemm, cublasGemmStridedBatchedEx_64) row(status_text, cublasGetStatusString)       \
                row(property, cublasGetProperty)
#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(name) #name

/* cublasGemmGroupedBatchedEx_64, which cuBLAS has from 12.5 on; older headers do not name it. */
typedef cublasStatus_t
grouped_product(cublasHandle_t handle, const cublasOperation_t *op_a, const cublasOperation_t *op_b,
                const int64_t *m, const int64_t *n, const int64_t *k, const void *alpha,
                const void *const *a, cudaDataType_t a_type, const int64_t *lda,
                const void *const *b, cudaDataType_t b_type, const int64_t *ldb, const void *beta,
                void *const *c, cudaDataType_t c_type, const int64_t *ldc, int64_t groups,
                const int64_t *group_size, cublasComputeType_t compute);

/* The loaded functions, and one handle; cuda_blas_close() frees it. */
struct cuda_blas {
#define CUBLAS_FIELD(field, name) __typeof__(&name) field;
    CUBLAS_FUNCTIONS(CUBLAS_FIELD)
#undef CUBLAS_FIELD
    grouped_product *grouped; /* NULL: this version has no grouped products */
    cublasHandle_t handle;
    const struct cuda_queue *bound; /* the queue that the handle uses now */
};

static int check(const struct cuda_blas *blas, cublasStatus_t code, const char *call)
{
    if (code == CUBLAS_STATUS_SUCCESS)
        return OK;
    return fail(code == CUBLAS_STATUS_ALLOC_FAILED ? ERR_NOMEM : ERR_DEVICE, "cuBLAS, %s: %s", call,
                blas->status_text(code));
}
#define CUBLAS(blas, field, ...) check(blas, (blas)->field(__VA_ARGS__), #field)

/* Loads the major version of the header that this file was compiled with; it stays loaded. */
static int load_cublas(struct cuda_blas *blas)
{
    const char *file = "libcublas.so." TEXT(CUBLAS_VER_MAJOR);
    void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL), *found;

    if (!library)
        return fail(ERR_DEVICE, "cuBLAS cannot be loaded: %s", dlerror());
#define CUBLAS_FIND(field, name)                                                                   \
    found = dlsym(library, TEXT(name));                                                            \
    if (!found)                                                                                    \
        return fail(ERR_DEVICE, "%s has no %s", file, TEXT(name));                                 \
    memcpy(&blas->field, &found, sizeof(found));
    CUBLAS_FUNCTIONS(CUBLAS_FIND)
#undef CUBLAS_FIND
    found = dlsym(library, "cublasGemmGroupedBatchedEx_64");
    memcpy(&blas->grouped, &found, sizeof(found));
    return OK;
}

int cuda_blas_version(int *major, int *minor)
{
    struct cuda_blas blas = { 0 };

    TRY(load_cublas(&blas));
    TRY(CUBLAS(&blas, property, MAJOR_VERSION, major));
    return CUBLAS(&blas, property, MINOR_VERSION, minor);
}

int cuda_blas_open(struct cuda_blas **out)
{
    struct cuda_blas *blas = calloc(1, sizeof(*blas));
    int rc;

    if (!blas)
        return fail(ERR_NOMEM, "a cuBLAS handle");
    TRY_OUT(load_cublas(blas));
    TRY_OUT(CUBLAS(blas, create, &blas->handle));
    /* f32 products use f32 (TF32 only with cuBLAS's own NVIDIA_TF32_OVERRIDE=1), and a product that
     * is split along k adds its parts in f32, not in f16. */
    TRY_OUT(CUBLAS(
        blas, set_math, blas->handle,
        (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    *out = blas;
    return OK;
out:
    cuda_blas_close(blas);
    return rc;
}

void cuda_blas_close(struct cuda_blas *blas)
{
    if (blas && blas->handle)
        blas->destroy(blas->handle);
    free(blas);
}

void cuda_blas_forget(struct cuda_blas *blas, const struct cuda_queue *queue)
{
    if (blas->bound == queue)
        blas->bound = NULL;
}

/* Sets the handle's stream and workspace, only when they change.  Setting the stream resets the
 * workspace. */
static int bind_queue(struct cuda_blas *blas, const struct cuda_queue *queue)
{
    if (blas->bound == queue)
        return OK;
    blas->bound = NULL;
    TRY(CUBLAS(blas, set_stream, blas->handle, queue->stream));
    TRY(CUBLAS(blas, set_workspace, blas->handle, queue->blas_workspace,
               CUDA_BLAS_WORKSPACE_BYTES));
    blas->bound = queue;
    return OK;
}

/* The product for k = 0: zeroes c, unless it keeps its contents. */
static int fill_empty_sum(const struct gemm *g, cudaStream_t stream)
{
    size_t width = dtype_bytes(gemm_result_type(g)), bytes = g->m * g->n * width;

    if (g->keep)
        return OK;
    if (g->batch == 1 || g->stride_c == g->m * g->n)
        return CUDA(cudaMemsetAsync(g->c, 0, bytes * g->batch, stream));
    return CUDA(cudaMemset2DAsync(g->c, g->stride_c * width, 0, bytes, g->batch, stream));
}

static cudaDataType_t cuda_type(uint32_t dtype)
{
    return dtype == MOE_F32 ? CUDA_R_32F : (dtype == MOE_F16 ? CUDA_R_16F : CUDA_R_16BF);
}

/* True where all rows of a matrix, and of a batch, begin at multiples of 16 bytes. */
static bool begins_at_16(const void *matrix, int64_t row, uint64_t stride, uint32_t dtype)
{
    size_t bytes = dtype_bytes(dtype);

    return !((uintptr_t)matrix % 16 || (uint64_t)row * bytes % 16 || stride * bytes % 16);
}

/* Elements from a row to the next, for each matrix. */
struct rows_of_gemm {
    int64_t a, b, c;
};

static struct rows_of_gemm rows_of(const struct gemm *g)
{
    return (struct rows_of_gemm){ (int64_t)(g->transpose_a ? g->m : g->k),
                                  (int64_t)(g->row_b         ? g->row_b
                                            : g->transpose_b ? g->k
                                                             : g->n),
                                  (int64_t)(g->row_c ? g->row_c : g->n) };
}

/* True where one call may do several products.  For 16-bit types the library then reads 16 bytes at
 * once, and a row that begins elsewhere ends the CUDA context with an error. */
static bool can_batch(const struct gemm *g)
{
    struct rows_of_gemm row = rows_of(g);

    return g->dtype == MOE_F32 ||
           (begins_at_16(g->a, row.a, g->batch > 1 ? g->stride_a : 0, g->dtype) &&
            begins_at_16(g->b, row.b, g->batch > 1 ? g->stride_b : 0, g->dtype) &&
            begins_at_16(g->c, row.c, g->batch > 1 ? g->stride_c : 0, gemm_result_type(g)));
}

static int multiply_one_by_one(const struct gemm *g, const struct cuda_queue *queue)
{
    size_t bytes = dtype_bytes(g->dtype), c_bytes = dtype_bytes(gemm_result_type(g));
    struct gemm product = *g;

    product.batch = 1;
    for (uint64_t i = 0; i < g->batch; i++) {
        product.a = (const char *)g->a + i * g->stride_a * bytes;
        product.b = (const char *)g->b + i * g->stride_b * bytes;
        product.c = (char *)g->c + i * g->stride_c * c_bytes;
        TRY(cuda_gemm(&product, queue));
    }
    return OK;
}

int cuda_gemm(const struct gemm *g, const struct cuda_queue *queue)
{
    const float alpha = 1, beta = g->keep ? 1 : 0;
    cudaDataType_t type = cuda_type(g->dtype), c_type = cuda_type(gemm_result_type(g));
    int64_t m = (int64_t)g->m, n = (int64_t)g->n, k = (int64_t)g->k;
    struct rows_of_gemm row = rows_of(g);

    if (!m || !n || !g->batch)
        return OK;
    if (!k)
        return fill_empty_sum(g, queue->stream);
    if (g->batch > 1 && !can_batch(g))
        return multiply_one_by_one(g, queue);
    TRY(bind_queue(queue->blas, queue));
    /* In column-major order our c is its transpose: c' (n,m) = op(b)' op(a)'. */
    return CUBLAS(
        queue->blas, gemm, queue->blas->handle, g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
        g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &alpha, g->b, type, row.b,
        (long long)g->stride_b, g->a, type, row.a, (long long)g->stride_a, &beta, g->c, c_type,
        row.c, (long long)g->stride_c, g->batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/* ---- Products with different numbers of rows */

/* Up to CUDA_GROUPS products, each a group of one, in the arguments of grouped_product. */
struct product_list {
    cublasOperation_t op_a[CUDA_GROUPS], op_b[CUDA_GROUPS];
    int64_t m[CUDA_GROUPS], n[CUDA_GROUPS], k[CUDA_GROUPS], one[CUDA_GROUPS];
    int64_t lda[CUDA_GROUPS], ldb[CUDA_GROUPS], ldc[CUDA_GROUPS];
    float alpha[CUDA_GROUPS], beta[CUDA_GROUPS];
    struct cuda_pointers pointers;   /* all a, then all b, then all c */
    struct gemm single[CUDA_GROUPS]; /* the same products */
    int64_t count;
};

static void add_product(struct product_list *list, const struct gemm *g)
{
    struct rows_of_gemm row = rows_of(g);
    int64_t i = list->count++;

    list->single[i] = *g;
    list->op_a[i] = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    list->op_b[i] = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    list->m[i] = (int64_t)g->n;
    list->n[i] = (int64_t)g->m;
    list->k[i] = (int64_t)g->k;
    list->one[i] = 1;
    list->lda[i] = row.b;
    list->ldb[i] = row.a;
    list->ldc[i] = row.c;
    list->alpha[i] = 1;
    list->beta[i] = g->keep ? 1 : 0;
    list->pointers.at[i] = g->b;
    list->pointers.at[CUDA_GROUPS + i] = g->a;
    list->pointers.at[2 * CUDA_GROUPS + i] = g->c;
}

/* Computes all products in one call; one after the other, where the library refuses this type. */
static int multiply_groups(struct product_list *list, uint32_t dtype,
                           const struct cuda_queue *queue)
{
    const struct cuda_blas *blas = queue->blas;
    const void **pointers = queue->scratch;
    cudaDataType_t type = cuda_type(dtype);
    int64_t count = list->count;
    cublasStatus_t code;

    list->count = 0;
    if (!count)
        return OK;
    TRY(cuda_put_pointers(&list->pointers, pointers, queue->stream));
    TRY(bind_queue(queue->blas, queue));
    code = blas->grouped(blas->handle, list->op_a, list->op_b, list->m, list->n, list->k,
                         list->alpha, pointers, type, list->lda, pointers + CUDA_GROUPS, type,
                         list->ldb, list->beta, (void *const *)(pointers + 2 * CUDA_GROUPS), type,
                         list->ldc, count, list->one, CUBLAS_COMPUTE_32F);
    if (code != CUBLAS_STATUS_NOT_SUPPORTED)
        return check(blas, code, "grouped");
    for (int64_t i = 0; i < count; i++)
        TRY(cuda_gemm(&list->single[i], queue));
    return OK;
}

/* True inside a graph.  cuBLAS does not say whether it reads the host's sizes after the call; in a
 * graph it must not. */
static bool is_captured(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    return cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

int cuda_gemm_rows(const struct gemm_rows *g, const struct cuda_queue *queue)
{
    bool one_at_a_time = !queue->blas->grouped || is_captured(queue->stream);
    struct product_list list = { .count = 0 };

    for (uint32_t i = 0; i < g->experts; i++) {
        struct gemm product = gemm_of_rows(g, i);

        if (one_at_a_time || !product.k || !can_batch(&product)) {
            TRY(cuda_gemm(&product, queue));
            continue;
        }
        if (product.m && product.n)
            add_product(&list, &product);
        if (list.count == CUDA_GROUPS)
            TRY(multiply_groups(&list, g->dtype, queue));
    }
    return multiply_groups(&list, g->dtype, queue);
}
