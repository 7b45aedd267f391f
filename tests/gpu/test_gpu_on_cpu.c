/* That the GPU which is run on a CPU refuses what a real one refuses, is as late as a real one may
 * be, and says what a real one would leave undefined. */
#include "check.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1000, BLOCK = 2 << 20 };

static cudaStream_t a, b;
static char *there, *pinned;

static void set_up(void)
{
    CHECK(!cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(!cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(!cudaMalloc((void **)&there, BYTES));
    CHECK(!cudaMallocHost((void **)&pinned, BYTES));
}

static void tear_down(void)
{
    CHECK(!cudaFree(there));
    CHECK(!cudaFreeHost(pinned));
    CHECK(!cudaStreamDestroy(a) && !cudaStreamDestroy(b));
    CHECK(!cudaGetLastError());
}

/* What ends a process that does it: a signal, or 0. */
static int signal_of(void (*act)(void))
{
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        act();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void write_beyond(void)
{
    set_up();
    there[BYTES] = 1;
    cudaFree(there);
}

static void read_freed(void)
{
    set_up();
    cudaFree(there);
    there[0]++;
}

/* These come first: a child of a process that has begun may not use the runtime. */
static void memory_ends_where_it_ends(void)
{
    CHECK(signal_of(write_beyond) == SIGABRT);
    CHECK(signal_of(read_freed) == SIGSEGV);
}

static int to_child[2], to_parent[2];

static void tell(int fd, const void *what, size_t bytes)
{
    CHECK(write(fd, what, bytes) == (ssize_t)bytes);
}

static void hear(int fd, void *what, size_t bytes)
{
    CHECK(read(fd, what, bytes) == (ssize_t)bytes);
}

/* Opens what the parent has, waits for its event, writes, and records its own. */
static int other_process(void)
{
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
    cudaEvent_t theirs, mine;
    void *at = NULL, *again = NULL;
    char word = 0;

    check_failures = 0;
    hear(to_child[0], &memory, sizeof(memory));
    hear(to_child[0], &event, sizeof(event));
    CHECK(!cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(!cudaIpcOpenMemHandle(&at, memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK(!cudaIpcOpenMemHandle(&again, memory, cudaIpcMemLazyEnablePeerAccess) && again == at);
    CHECK(!cudaIpcCloseMemHandle(again));
    CHECK(cudaFree(at) == cudaErrorInvalidValue);
    CHECK(!cudaIpcOpenEventHandle(&theirs, event));
    CHECK(!cudaEventCreateWithFlags(&mine, cudaEventInterprocess | cudaEventDisableTiming));
    CHECK(!cudaIpcGetEventHandle(&event, mine));
    CHECK(!cudaStreamWaitEvent(a, theirs, 0));
    CHECK(!cudaMemsetAsync(at, 2, 1, a));
    CHECK(!cudaEventRecord(mine, a));
    tell(to_parent[1], &event, sizeof(event));
    hear(to_child[0], &word, 1);
    CHECK(!cudaStreamSynchronize(a));
    CHECK(!cudaIpcCloseMemHandle(at));
    cudaGetLastError();
    return check_failures;
}

static void lend_a_part_of_a_block(void)
{
    cudaIpcMemHandle_t memory;

    set_up();
    cudaIpcGetMemHandle(&memory, there);
}

static void only_whole_blocks_are_lent(void)
{
    CHECK(signal_of(lend_a_part_of_a_block) == SIGABRT);
}

static void processes_share_memory_and_events(void)
{
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t handle;
    cudaEvent_t mine, theirs;
    char *lent;
    void *same;
    pid_t child;
    int status;

    CHECK(!pipe(to_child) && !pipe(to_parent));
    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(other_process());
    set_up();
    CHECK(!cudaEventCreateWithFlags(&mine, cudaEventInterprocess | cudaEventDisableTiming));
    CHECK(!cudaMalloc((void **)&lent, BLOCK));
    CHECK(cudaIpcGetMemHandle(&memory, lent + 1) == cudaErrorInvalidValue);
    CHECK(!cudaIpcGetMemHandle(&memory, lent) && !cudaIpcGetEventHandle(&handle, mine));
    CHECK(cudaIpcOpenMemHandle(&same, memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenEventHandle(&theirs, handle));
    cudaGetLastError();
    CHECK(!cudaMemsetAsync(lent, 1, BYTES, a) && !cudaEventRecord(mine, a));
    tell(to_child[1], &memory, sizeof(memory));
    tell(to_child[1], &handle, sizeof(handle));
    hear(to_parent[0], &handle, sizeof(handle));
    CHECK(!cudaIpcOpenEventHandle(&theirs, handle));
    CHECK(!cudaStreamWaitEvent(b, theirs, 0));
    CHECK(!cudaMemcpyAsync(pinned, lent, BYTES, cudaMemcpyDeviceToHost, b));
    CHECK(!cudaStreamSynchronize(b));
    CHECK(pinned[0] == 2 && pinned[1] == 1);
    tell(to_child[1], "", 1);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(!cudaEventDestroy(mine) && !cudaEventDestroy(theirs) && !cudaFree(lent));
    tear_down();
}

static void use_it_in_a_child(void)
{
    void *memory;

    if (cudaMalloc(&memory, 1) == cudaErrorInitializationError)
        abort();
}

static void a_child_of_who_has_begun_is_refused(void)
{
    CHECK(signal_of(use_it_in_a_child) == SIGABRT);
}

static void fresh_memory_is_no_zero(void)
{
    bool zero = true;

    set_up();
    CHECK(!cudaMemcpyAsync(pinned, there, BYTES, cudaMemcpyDeviceToHost, a));
    CHECK(!cudaStreamSynchronize(a));
    for (int i = 0; i < BYTES; i++)
        zero = zero && !pinned[i];
    CHECK(!zero);
    tear_down();
}

/* One stream writes, another reads: with an event always after, without one often before. */
static void only_an_event_orders_streams(void)
{
    cudaEvent_t event;
    int early = 0;

    set_up();
    CHECK(!cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < 400; i++) {
        bool ordered = i % 2;

        CHECK(!cudaMemsetAsync(there, 0, BYTES, a) && !cudaStreamSynchronize(a));
        CHECK(!cudaMemsetAsync(there, 1, BYTES, a) && !cudaEventRecord(event, a));
        if (ordered)
            CHECK(!cudaStreamWaitEvent(b, event, 0));
        CHECK(!cudaMemcpyAsync(pinned, there, BYTES, cudaMemcpyDeviceToHost, b));
        CHECK(!cudaStreamSynchronize(b));
        CHECK(!ordered || pinned[0] == 1);
        early += pinned[0] != 1;
        CHECK(!cudaStreamSynchronize(a));
    }
    CHECK(early > 20);
    CHECK(!cudaEventDestroy(event));
    tear_down();
}

static cudaEvent_t event_with(unsigned flags)
{
    cudaEvent_t event = NULL;

    CHECK(!cudaEventCreateWithFlags(&event, flags));
    return event;
}

static void date_a_dateless_event(void)
{
    cudaEvent_t event;
    float ms;

    set_up();
    event = event_with(cudaEventDisableTiming);
    CHECK(!cudaEventRecord(event, a) && !cudaStreamSynchronize(a));
    cudaEventElapsedTime(&ms, event, event);
}

static void hand_over(cudaEvent_t event)
{
    for (int i = 0; i < 100; i++)
        CHECK(!cudaEventRecord(event, a) && !cudaStreamWaitEvent(b, event, 0));
    CHECK(!cudaStreamSynchronize(b));
}

static void order_by_dated_events(void)
{
    set_up();
    hand_over(event_with(cudaEventDefault));
}

static void order_by_dateless_events(void)
{
    set_up();
    hand_over(event_with(cudaEventDisableTiming));
}

static void order_by_events_whose_dates_are_asked(void)
{
    cudaEvent_t event;
    float ms;

    set_up();
    event = event_with(cudaEventDefault);
    CHECK(!cudaEventRecord(event, a) && !cudaStreamSynchronize(a));
    CHECK(!cudaEventElapsedTime(&ms, event, event));
    hand_over(event);
}

/* In children, so before this process begins. */
static void events_have_timestamps_only_where_somebody_asks(void)
{
    CHECK(signal_of(date_a_dateless_event) == SIGABRT);
    CHECK(signal_of(order_by_dated_events) == SIGABRT);
    CHECK(!signal_of(order_by_dateless_events));
    CHECK(!signal_of(order_by_events_whose_dates_are_asked));
}

static void what_is_wrong_is_refused(void)
{
    char local[16];
    cudaEvent_t event, wrong;
    float ms;

    set_up();
    CHECK(!cudaEventCreate(&event));
    CHECK(cudaMemcpyAsync(there, local, 8, cudaMemcpyDeviceToDevice, a) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyAsync(there + BYTES - 7, there, 8, cudaMemcpyDeviceToDevice, a));
    CHECK(cudaMemsetAsync(local, 0, 8, a) == cudaErrorInvalidValue);
    CHECK(cudaMemsetAsync(there, 0, 8, NULL) == cudaErrorInvalidResourceHandle);
    CHECK(cudaFree(there + 1) == cudaErrorInvalidValue);
    CHECK(cudaFree(local) == cudaErrorInvalidValue);
    CHECK(cudaEventElapsedTime(&ms, event, event) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventCreateWithFlags(&wrong, cudaEventInterprocess) == cudaErrorInvalidValue);
    CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
    CHECK(!cudaGetLastError());
    CHECK(!cudaEventDestroy(event));
    CHECK(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventRecord(event, a) == cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    tear_down();
}

/* 2x3 times 3x2, by columns. */
static void products_are_products(void)
{
    float in[12] = { 1, 2, 3, 4, 5, 6, 1, 0, 2, 0, 1, 3 }, one = 1, zero = 0;
    const float want[4] = { 11, 14, 18, 22 };
    float *at = NULL;
    cublasHandle_t blas;

    set_up();
    CHECK(!cudaMalloc((void **)&at, 16 * sizeof(float)));
    memcpy(pinned, in, sizeof(in));
    CHECK(!cudaMemcpyAsync(at, pinned, sizeof(in), cudaMemcpyHostToDevice, a));
    CHECK(!cublasCreate(&blas) && !cublasSetStream(blas, a));
    CHECK(cublasGemmStridedBatchedEx_64(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, at,
                                        CUDA_R_32F, 1, 0, at + 6, CUDA_R_32F, 3, 0, &zero, at + 12,
                                        CUDA_R_32F, 2, 0, 1, CUBLAS_COMPUTE_32F,
                                        CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(!cublasGemmStridedBatchedEx_64(
        blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, at, CUDA_R_32F, 2, 0, at + 6, CUDA_R_32F, 3,
        0, &zero, at + 12, CUDA_R_32F, 2, 0, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    CHECK(!cudaMemcpyAsync(pinned, at + 12, sizeof(want), cudaMemcpyDeviceToHost, a));
    CHECK(!cudaStreamSynchronize(a) && !memcmp(pinned, want, sizeof(want)));
    CHECK(!cublasDestroy(blas) && !cudaFree(at));
    tear_down();
}

/* Fills on two streams and a copy of both, joined in the end where `joined`. */
static cudaError_t capture_fills(bool joined, cudaGraph_t *graph)
{
    cudaEvent_t fork, join;

    CHECK(!cudaEventCreate(&fork) && !cudaEventCreate(&join));
    CHECK(!cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    CHECK(!cudaEventRecord(fork, a) && !cudaStreamWaitEvent(b, fork, 0));
    CHECK(!cudaMemsetAsync(there, 1, BYTES / 2, a));
    CHECK(!cudaMemsetAsync(there + BYTES / 2, 2, BYTES / 2, b));
    CHECK(!cudaEventRecord(join, b));
    if (joined)
        CHECK(!cudaStreamWaitEvent(a, join, 0));
    CHECK(!cudaMemcpyAsync(there + 1, there + BYTES / 2, 1, cudaMemcpyDeviceToDevice, a));
    CHECK(!cudaEventDestroy(fork) && !cudaEventDestroy(join));
    return cudaStreamEndCapture(a, graph);
}

static void fetch_all(void)
{
    CHECK(!cudaMemcpyAsync(pinned, there, BYTES, cudaMemcpyDeviceToHost, a));
    CHECK(!cudaStreamSynchronize(a));
}

static cudaError_t copy_half(size_t bytes, enum cudaMemcpySrcAccessOrder order, unsigned flags)
{
    struct cudaMemcpyAttributes how = { .srcAccessOrder = order, .flags = flags };
    const void *from = there;
    void *to = there + BYTES / 2;
    size_t first = 0;

    return cudaMemcpyBatchAsync(&to, &from, &bytes, 1, &how, &first, 1, a);
}

static void a_batch_copies_within_memory_and_asks_for_what_there_is(void)
{
    const enum cudaMemcpySrcAccessOrder in_order = cudaMemcpySrcAccessOrderStream;
    const unsigned beside = cudaMemcpyFlagPreferOverlapWithCompute;
    cudaGraph_t graph;

    set_up();
    CHECK(!cudaMemsetAsync(there, 1, BYTES / 2, a) && !copy_half(BYTES / 2, in_order, beside));
    CHECK(!cudaMemcpyAsync(pinned, there, BYTES, cudaMemcpyDeviceToHost, a));
    CHECK(!cudaStreamSynchronize(a) && pinned[BYTES / 2] == 1 && pinned[BYTES - 1] == 1);
    CHECK(copy_half(BYTES, in_order, beside) == cudaErrorInvalidValue);
    CHECK(copy_half(0, in_order, beside) == cudaErrorInvalidValue);
    CHECK(copy_half(1, cudaMemcpySrcAccessOrderInvalid, beside) == cudaErrorInvalidValue);
    CHECK(copy_half(1, in_order, 2) == cudaErrorInvalidValue);
    CHECK(!cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    CHECK(copy_half(1, in_order, beside) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    tear_down();
}

static void what_is_captured_runs_when_it_is_launched_and_as_often(void)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t nodes = 0;

    set_up();
    CHECK(!cudaMemsetAsync(there, 9, BYTES, a));
    CHECK(!capture_fills(true, &graph) && !cudaGraphGetNodes(graph, NULL, &nodes) && nodes == 3);
    CHECK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch) ==
          cudaErrorInvalidValue);
    CHECK(!cudaGraphInstantiate(&exec, graph, 0) && !cudaGraphDestroy(graph));
    fetch_all();
    CHECK(pinned[0] == 9 && pinned[BYTES - 1] == 9);
    for (int i = 0; i < 20; i++) {
        CHECK(!cudaMemsetAsync(there, 9, BYTES, a) && !cudaGraphLaunch(exec, a));
        fetch_all();
        CHECK(pinned[0] == 1 && pinned[1] == 2 && pinned[2] == 1 && pinned[BYTES - 1] == 2);
    }
    CHECK(!cudaGraphExecDestroy(exec));
    CHECK(capture_fills(false, &graph) == cudaErrorStreamCaptureUnjoined && !graph);
    cudaGetLastError();
    tear_down();
}

/* What a capture forbids says so, and spoils it. */
static void a_capture_allows_nothing_that_waits_or_allocates(void)
{
    cudaEvent_t outside;
    cudaGraph_t graph;
    void *memory;

    set_up();
    CHECK(!cudaEventCreate(&outside) && !cudaEventRecord(outside, b));
    for (int what = 0; what < 7; what++) {
        cudaError_t code = cudaSuccess;

        CHECK(!cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
        switch (what) {
        case 0: code = cudaStreamSynchronize(a); break;
        case 1: code = cudaStreamQuery(a); break;
        case 2: code = cudaMalloc(&memory, 1); break;
        case 3: code = cudaDeviceSynchronize(); break;
        case 4: code = cudaEventSynchronize(outside); break;
        case 5:
            CHECK(cudaStreamWaitEvent(a, outside, 0) == cudaErrorStreamCaptureIsolation);
            code = cudaErrorStreamCaptureUnsupported;
            break;
        case 6: code = cudaFree(there); break;
        }
        CHECK(code == cudaErrorStreamCaptureUnsupported);
        CHECK(cudaMemsetAsync(there, 1, BYTES, a) == cudaErrorStreamCaptureInvalidated);
        CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated && !graph);
        CHECK(!cudaStreamSynchronize(a) && !cudaMemsetAsync(there, 1, BYTES, a));
    }
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorIllegalState);
    CHECK(!cudaEventDestroy(outside));
    cudaGetLastError();
    tear_down();
}

/* An event that was recorded in a capture is no event of what runs. */
static void an_event_of_a_capture_dates_nothing(void)
{
    cudaEvent_t event;
    cudaGraph_t graph;

    set_up();
    CHECK(!cudaEventCreate(&event));
    CHECK(!cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    CHECK(!cudaEventRecord(event, a) && !cudaStreamEndCapture(a, &graph));
    CHECK(cudaStreamWaitEvent(b, event, 0) == cudaErrorCapturedEvent);
    CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
    CHECK(!cudaEventRecord(event, a) && !cudaStreamWaitEvent(b, event, 0));
    CHECK(!cudaGraphDestroy(graph) && !cudaEventSynchronize(event) && !cudaEventDestroy(event));
    cudaGetLastError();
    tear_down();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(memory_ends_where_it_ends),
        TEST(events_have_timestamps_only_where_somebody_asks),
        TEST(only_whole_blocks_are_lent),
        TEST(processes_share_memory_and_events),
        TEST(a_child_of_who_has_begun_is_refused),
        TEST(fresh_memory_is_no_zero),
        TEST(only_an_event_orders_streams),
        TEST(what_is_wrong_is_refused),
        TEST(products_are_products),
        TEST(a_batch_copies_within_memory_and_asks_for_what_there_is),
        TEST(what_is_captured_runs_when_it_is_launched_and_as_often),
        TEST(a_capture_allows_nothing_that_waits_or_allocates),
        TEST(an_event_of_a_capture_dates_nothing),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
