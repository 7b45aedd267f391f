/* Devices, errors, copies and fills; and the driver's one call that is asked of it. */
#include "gpu_on_cpu.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace gpu_on_cpu
{
namespace
{

const struct {
    cudaError_t code;
    const char *name, *text;
} errors[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
      "invalid configuration argument" },
    { cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
      "invalid copy direction for memcpy" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context" },
    { cudaErrorMapBufferObjectFailed, "cudaErrorMapBufferObjectFailed",
      "mapping of buffer object failed" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorIllegalState, "cudaErrorIllegalState",
      "the operation cannot be performed in the present state" },
    { cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
      "operation not permitted when stream is capturing" },
    { cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
      "operation failed due to a previous error during capture" },
    { cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
      "capture was not initiated in this stream" },
    { cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
      "capturing stream has unjoined work" },
    { cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
      "dependency created on uncaptured work in another stream" },
    { cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
      "operation not permitted on an event last recorded in a capturing stream" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
      "an illegal memory access was encountered" },
    { cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
};

const int compute_major = 9;
std::atomic<pid_t> began_in;
std::atomic<int> broken_code;
thread_local cudaError_t last;
thread_local int device;

size_t row_of(cudaError_t code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code)
            return i;
    return 1;
}

/* The newest CUDA that it knows. */
int driver()
{
    return (int)number_from("GPU_ON_CPU_DRIVER", CUDART_VERSION);
}

bool copies_are(const char *what)
{
    static const char *const said = getenv("GPU_ON_CPU_COPIES");

    return said && !strcmp(said, what);
}

/* Which kinds of copy these two ends allow. */
cudaError_t check_copy(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    bool to_device = on_device(to, bytes), from_device = on_device(from, bytes);

    switch (kind) {
    case cudaMemcpyHostToDevice: return to_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDeviceToHost: return from_device ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device ? cudaSuccess : cudaErrorInvalidValue;
    default: return cudaErrorInvalidMemcpyDirection;
    }
}

} // namespace

cudaError_t keep(cudaError_t code)
{
    if (code)
        last = code;
    return code;
}

cudaError_t broken()
{
    return (cudaError_t)broken_code.load();
}

void break_device(cudaError_t code)
{
    int none = 0;

    broken_code.compare_exchange_strong(none, code);
}

cudaError_t usable()
{
    pid_t nobody = 0;

    if (!began_in.compare_exchange_strong(nobody, getpid()) && nobody != getpid())
        return cudaErrorInitializationError;
    if (device >= device_count())
        return cudaErrorNoDevice;
    return broken();
}

int current_device()
{
    return device;
}

int device_count()
{
    static const int count = (int)number_from("GPU_ON_CPU_DEVICES", 1);

    return count;
}

} // namespace gpu_on_cpu

using namespace gpu_on_cpu;

/* ---- errors */

cudaError_t cudaGetLastError()
{
    cudaError_t code = broken() ? broken() : last;

    last = cudaSuccess;
    return code;
}

cudaError_t cudaPeekAtLastError()
{
    return broken() ? broken() : last;
}

const char *cudaGetErrorName(cudaError_t code)
{
    return errors[row_of(code)].name;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return errors[row_of(code)].text;
}

/* ---- devices */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = driver() / 1000 < CUDART_VERSION / 1000 ? 0 : device_count();
    if (driver() / 1000 < CUDART_VERSION / 1000)
        return keep(cudaErrorInsufficientDriver);
    return keep(*count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int ordinal)
{
    cudaError_t code =
        ordinal >= 0 && ordinal < device_count() ? cudaSuccess : cudaErrorInvalidDevice;

    if (!code)
        device = ordinal;
    return keep(code ? code : usable());
}

cudaError_t cudaGetDevice(int *ordinal)
{
    *ordinal = device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int ordinal)
{
    if (ordinal < 0 || ordinal >= device_count())
        return keep(cudaErrorInvalidDevice);
    memset((void *)out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "a GPU on a CPU");
    out->major = (int)number_from("GPU_ON_CPU_CAPABILITY", 10 * compute_major) / 10;
    out->minor = (int)number_from("GPU_ON_CPU_CAPABILITY", 0) % 10;
    out->multiProcessorCount = 4;
    out->maxThreadsPerMultiProcessor = 512;
    out->l2CacheSize = 1 << 20;
    out->totalGlobalMem = (size_t)number_from("GPU_ON_CPU_MIB", 1024) << 20;
    out->pciBusID = ordinal + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int bytes, int ordinal)
{
    if (ordinal < 0 || ordinal >= device_count() || bytes < 13)
        return keep(cudaErrorInvalidDevice);
    snprintf(out, (size_t)bytes, "0000:%02X:00.0", (unsigned)(ordinal + 1) & 0xff);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *ordinal, const char *bus)
{
    unsigned number;

    if (sscanf(bus, "0000:%02X:00.0", &number) != 1 || number < 1 || (int)number > device_count())
        return keep(cudaErrorInvalidDevice);
    *ordinal = (int)number - 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int ordinal)
{
    if (ordinal < 0 || ordinal >= device_count())
        return keep(cudaErrorInvalidDevice);
    if (attribute != cudaDevAttrIpcEventSupport)
        return keep(cudaErrorInvalidValue); /* nobody has asked for others so far */
    *value = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int of, int peer)
{
    if (of < 0 || peer < 0 || of >= device_count() || peer >= device_count())
        return keep(cudaErrorInvalidDevice);
    *can = of != peer;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = driver();
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* ---- copies and fills */

/* Memory that is not pinned is read at once, and written before this returns. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t code = usable();

    if (!code && bytes)
        code = check_copy(to, from, bytes, kind);
    if (code)
        return keep(code);
    if (kind != cudaMemcpyDeviceToDevice)
        code = capture_forbids(stream);
    if (code)
        return keep(code);
    if (kind == cudaMemcpyHostToDevice && !pinned(from, bytes)) {
        std::string staged((const char *)from, bytes);

        return keep(enqueue(stream, [=] {
            memcpy(to, staged.data(), bytes);
            return DONE;
        }));
    }
    code = enqueue(stream, [=] {
        if (kind == cudaMemcpyDeviceToDevice && a_kernel_runs() && copies_are("kernels"))
            return NOT_YET;
        memmove(to, from, bytes);
        return DONE;
    });
    if (!code && kind == cudaMemcpyDeviceToHost && !pinned(to, bytes))
        code = cudaStreamSynchronize(stream);
    return keep(code);
}

/* Of those that go within a device and between devices, all alike: what is asked for here. */
cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes,
                                 size_t count, cudaMemcpyAttributes *attributes, size_t *begin,
                                 size_t attribute_count, cudaStream_t stream)
{
    cudaError_t code = usable();

    if (!code && (!count || attribute_count != 1 || begin[0] ||
                  attributes->srcAccessOrder != cudaMemcpySrcAccessOrderStream ||
                  attributes->flags & ~(unsigned)cudaMemcpyFlagPreferOverlapWithCompute))
        code = cudaErrorInvalidValue;
    if (!code)
        code = capture_forbids(stream);
    if (!code && copies_are("refused"))
        code = cudaErrorNotSupported;
    for (size_t i = 0; i < count && !code; i++)
        code = bytes[i] ? check_copy(to[i], from[i], bytes[i], cudaMemcpyDeviceToDevice)
                        : cudaErrorInvalidValue;
    for (size_t i = 0; i < count && !code; i++)
        code = cudaMemcpyAsync(to[i], from[i], bytes[i], cudaMemcpyDeviceToDevice, stream);
    return keep(code);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return cudaMemset2DAsync(to, bytes, value, bytes, 1, stream);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    cudaError_t code = usable();

    if (!code && width && height && (width > pitch || !on_device(to, pitch * (height - 1) + width)))
        code = cudaErrorInvalidValue;
    return keep(code ? code : enqueue(stream, [=] {
        for (size_t i = 0; i < height; i++)
            memset((char *)to + i * pitch, value, width);
        return DONE;
    }));
}
