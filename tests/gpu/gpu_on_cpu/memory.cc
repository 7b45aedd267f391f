/* Memory of devices, pinned memory, and what other processes see of them.
 *
 * An allocation is a file of its own between pages that nobody may touch; its end lies at the last
 * of its pages, and what is left around it is watched.  Fresh memory is poison (NaN, or anything),
 * freed memory is gone. */
#include "gpu_on_cpu.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace gpu_on_cpu
{
namespace
{

const size_t page_bytes = 4096, align_bytes = 256, poisoned_bytes = 4 << 20,
             alloc_multiple_bytes = 2 << 20;
enum { PEERS = 32, WATCHED = 0xa5 };

/* The first page of an allocation's file, for all that open it. */
struct head {
    uint64_t serial;
    std::atomic<pid_t> importers[PEERS];
};

struct block {
    pages file;
    char *reserved; /* with the pages around */
    size_t reserved_bytes, bytes;
    int device, users; /* users: opens of another process's; 0: our own */
    head *shared;
    uint64_t serial;
    std::vector<std::function<int()>> mapped;
};

struct handle {
    char what[8];
    pages file;
    size_t offset, bytes;
    uint64_t serial;
    int device;
};
static_assert(sizeof(handle) <= sizeof(cudaIpcMemHandle_t), "fits");

std::mutex &lock = *new std::mutex;
std::map<const char *, block> &blocks = *new std::map<const char *, block>;
std::map<const char *, size_t> &pinned_blocks = *new std::map<const char *, size_t>;
std::map<int, size_t> &taken = *new std::map<int, size_t>; /* bytes of each device */

size_t round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

template <class T> bool holds(const T &at, size_t has, const void *memory, size_t bytes)
{
    const char *first = (const char *)memory;

    return first >= at && first - at <= (ptrdiff_t)has && bytes <= has - (size_t)(first - at);
}

std::map<const char *, block>::iterator find(const void *memory, size_t bytes)
{
    auto after = blocks.upper_bound((const char *)memory);

    if (after == blocks.begin())
        return blocks.end();
    --after;
    return holds(after->first, after->second.bytes, memory, bytes) ? after : blocks.end();
}

/* Between two pages that nobody may touch, and with such a one behind the head. */
char *map_between(int file, size_t file_bytes, char **reserved, size_t *reserved_bytes)
{
    size_t data_bytes = file_bytes - page_bytes;
    char *base;

    *reserved_bytes = file_bytes + 3 * page_bytes;
    base = (char *)mmap(nullptr, *reserved_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return nullptr;
    *reserved = base;
    base += page_bytes;
    if (mmap(base, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
            MAP_FAILED ||
        mmap(base + 2 * page_bytes, data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             file, (off_t)page_bytes) == MAP_FAILED) {
        munmap(*reserved, *reserved_bytes);
        return nullptr;
    }
    return base;
}

void poison(char *at, size_t bytes)
{
    size_t n = bytes < poisoned_bytes ? bytes : poisoned_bytes;
    uint64_t kind = dice(4);

    memset(at, kind ? 0xff : (int)dice(256), n);
    if (kind == 1)
        for (size_t i = 0; i < n && i < 65536; i++)
            at[i] = (char)dice(256);
}

/* Before and behind the memory, within its pages. */
template <class F> void each_watched(const char *at, const block &b, const F &f)
{
    char *first = (char *)b.shared + 2 * page_bytes;
    char *end = first + (b.file.bytes - page_bytes);

    for (char *c = first; c < at; c++)
        f(*c);
    for (char *c = (char *)at + b.bytes; c < end; c++)
        f(*c);
}

bool alive(pid_t process)
{
    char path[64], text[256] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    f = fopen(path, "r");
    if (!f)
        return false;
    if (!fgets(text, sizeof(text), f))
        text[0] = 0;
    fclose(f);
    return !strstr(text, ") Z") && !strstr(text, ") X");
}

int open_theirs(pid_t process, int file)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)process, file);
    return open(path, O_RDWR | O_CLOEXEC);
}

cudaError_t allocate(void **out, size_t bytes)
{
    static const size_t most = (size_t)number_from("GPU_ON_CPU_MIB", 1024) << 20;
    static std::atomic<uint64_t> serials{ 1 };
    block b = {};
    char *at, *base;
    size_t room = round_up(bytes, align_bytes),
           file_bytes = page_bytes + round_up(room, page_bytes);

    b.device = current_device();
    b.bytes = bytes;
    std::lock_guard<std::mutex> guard(lock);
    if (room > most || taken[b.device] + room > most || fault("malloc"))
        return cudaErrorMemoryAllocation;
    b.file.bytes = file_bytes;
    b.file.process = getpid();
    b.file.file = memfd_create("gpu_on_cpu", MFD_CLOEXEC);
    if (b.file.file < 0 || ftruncate(b.file.file, (off_t)file_bytes))
        return cudaErrorMemoryAllocation;
    base = map_between(b.file.file, file_bytes, &b.reserved, &b.reserved_bytes);
    if (!base) {
        close(b.file.file);
        return cudaErrorMemoryAllocation;
    }
    b.shared = (head *)base;
    b.serial = b.shared->serial = serials++;
    at = base + 2 * page_bytes + (file_bytes - page_bytes) - room;
    poison(at, bytes);
    each_watched(at, b, [](char &c) { c = (char)WATCHED; });
    taken[b.device] += room;
    blocks[at] = b;
    *out = at;
    return cudaSuccess;
}

void release(const char *at, const block &b)
{
    each_watched(at, b, [&](char &c) {
        if (c != (char)WATCHED)
            forbidden("%p was written, outside %zu bytes at %p", (void *)&c, b.bytes, (void *)at);
    });
    for (std::atomic<pid_t> &importer : b.shared->importers)
        if (importer && alive(importer))
            forbidden("%zu bytes are freed while process %d has them open", b.bytes,
                      (int)importer.load());
    for (const std::function<int()> &by : b.mapped)
        if (by() >= 0)
            forbidden("%zu bytes are freed while a graph of rank %d may have them mapped", b.bytes,
                      by());
    b.shared->serial = 0;
    taken[b.device] -= round_up(b.bytes, align_bytes);
    munmap(b.reserved, b.reserved_bytes);
    close(b.file.file);
}

cudaError_t open_block(void **out, const handle &h)
{
    block b = {};
    char *base;
    int file;

    for (auto &known : blocks)
        if (known.second.users && known.second.serial == h.serial &&
            known.second.file.process == h.file.process) {
            known.second.users++;
            *out = (void *)known.first;
            return cudaSuccess;
        }
    file = open_theirs(h.file.process, h.file.file);
    if (file < 0)
        return cudaErrorMapBufferObjectFailed;
    base = map_between(file, h.file.bytes, &b.reserved, &b.reserved_bytes);
    close(file);
    if (!base)
        return cudaErrorMapBufferObjectFailed;
    b.shared = (head *)base;
    if (b.shared->serial != h.serial) { /* it is gone, and the file is another */
        munmap(b.reserved, b.reserved_bytes);
        return cudaErrorMapBufferObjectFailed;
    }
    b.file = h.file;
    b.bytes = h.bytes;
    b.device = current_device();
    b.users = 1;
    b.serial = h.serial;
    for (std::atomic<pid_t> &importer : b.shared->importers) {
        pid_t nobody = 0;

        if (importer.compare_exchange_strong(nobody, getpid()))
            break;
    }
    blocks[base + h.offset] = b;
    *out = base + h.offset;
    return cudaSuccess;
}

} // namespace

pages pages_create(size_t bytes)
{
    pages p = { nullptr, bytes, getpid(), memfd_create("gpu_on_cpu", MFD_CLOEXEC) };

    if (p.file < 0 || ftruncate(p.file, (off_t)bytes))
        return p;
    p.at = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p.file, 0);
    if (p.at == MAP_FAILED)
        p.at = nullptr;
    return p;
}

char *pages_open(const pages &theirs)
{
    int file = open_theirs(theirs.process, theirs.file);
    void *at = file < 0 ? MAP_FAILED
                        : mmap(nullptr, theirs.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (file >= 0)
        close(file);
    return at == MAP_FAILED ? nullptr : (char *)at;
}

void pages_close(const pages &p)
{
    if (p.at)
        munmap(p.at, p.bytes);
    if (p.file >= 0 && p.process == getpid())
        close(p.file);
}

bool on_device(const void *memory, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);

    return find(memory, bytes) != blocks.end();
}

bool pinned(const void *memory, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    auto after = pinned_blocks.upper_bound((const char *)memory);

    if (after == pinned_blocks.begin())
        return false;
    --after;
    return holds(after->first, after->second, memory, bytes);
}

bool find_allocation(const void *memory, void **base, size_t *bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    auto it = find(memory, 1);

    if (it == blocks.end())
        return false;
    *base = (void *)it->first;
    *bytes = it->second.bytes;
    return true;
}

void keep_mapped(const void *memory, const std::function<int()> &by)
{
    std::lock_guard<std::mutex> guard(lock);
    auto it = find(memory, 1);

    if (it != blocks.end())
        it->second.mapped.push_back(by);
}

} // namespace gpu_on_cpu

using namespace gpu_on_cpu;

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    cudaError_t code = usable_uncaptured();

    if (!code && !bytes) {
        *out = nullptr;
        return cudaSuccess;
    }
    return keep(code ? code : allocate(out, bytes));
}

/* Waits for the device, as the real one does. */
cudaError_t cudaFree(void *memory)
{
    cudaError_t code = usable_uncaptured();
    int device;

    if (code || !memory)
        return keep(code);
    {
        std::lock_guard<std::mutex> guard(lock);
        auto it = blocks.find((const char *)memory);

        if (it == blocks.end() || it->second.users)
            return keep(cudaErrorInvalidValue);
        device = it->second.device;
    }
    drain(device);
    std::lock_guard<std::mutex> guard(lock);
    auto it = blocks.find((const char *)memory);
    release(it->first, it->second);
    blocks.erase(it);
    return keep(broken());
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    cudaError_t code = usable_uncaptured();
    void *at;

    if (code)
        return keep(code);
    at = mmap(nullptr, round_up(bytes, page_bytes), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || fault("malloc"))
        return keep(cudaErrorMemoryAllocation);
    poison((char *)at, bytes);
    std::lock_guard<std::mutex> guard(lock);
    pinned_blocks[(char *)at] = bytes;
    *out = at;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    cudaError_t code = usable_uncaptured();

    if (code || !memory)
        return keep(code);
    for (int i = 0; i < device_count(); i++)
        drain(i);
    std::lock_guard<std::mutex> guard(lock);
    auto it = pinned_blocks.find((const char *)memory);
    if (it == pinned_blocks.end())
        return keep(cudaErrorInvalidValue);
    munmap(memory, round_up(it->second, page_bytes));
    pinned_blocks.erase(it);
    return keep(broken());
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    cudaError_t code = usable();
    std::lock_guard<std::mutex> guard(lock);

    *total = (size_t)number_from("GPU_ON_CPU_MIB", 1024) << 20;
    *left = *total - taken[current_device()];
    return keep(code);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *memory)
{
    cudaError_t code = usable();
    std::lock_guard<std::mutex> guard(lock);
    auto it = blocks.find((const char *)memory);
    handle h = {};

    if (code || it == blocks.end() || it->second.users)
        return keep(code ? code : cudaErrorInvalidValue);
    if (it->second.bytes % alloc_multiple_bytes)
        forbidden("%zu bytes are opened to others, and what else the driver put into their block",
                  it->second.bytes);
    memcpy(h.what, "memory", 7);
    h.file = it->second.file;
    h.file.at = nullptr;
    h.offset = (size_t)(it->first - (char *)it->second.shared);
    h.bytes = it->second.bytes;
    h.serial = it->second.serial;
    h.device = it->second.device;
    memset(out, 0, sizeof(*out));
    memcpy((void *)out, &h, sizeof(h));
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t given, unsigned flags)
{
    cudaError_t code = usable();
    std::lock_guard<std::mutex> guard(lock);
    handle h;

    memcpy(&h, &given, sizeof(h));
    if (code)
        return keep(code);
    if (flags != cudaIpcMemLazyEnablePeerAccess)
        return keep(cudaErrorInvalidValue);
    if (strcmp(h.what, "memory"))
        return keep(cudaErrorInvalidResourceHandle);
    if (h.file.process == getpid())
        return keep(cudaErrorDeviceUninitialized); /* what the real one says then */
    return keep(open_block(out, h));
}

/* Waits for nothing: what still copies there meets no memory. */
cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    cudaError_t code = usable();
    std::lock_guard<std::mutex> guard(lock);
    auto it = blocks.find((const char *)memory);

    if (code || it == blocks.end() || !it->second.users)
        return keep(code ? code : cudaErrorInvalidValue);
    if (--it->second.users)
        return cudaSuccess;
    for (std::atomic<pid_t> &importer : it->second.shared->importers) {
        pid_t self = getpid();

        if (importer.compare_exchange_strong(self, 0))
            break;
    }
    munmap(it->second.reserved, it->second.reserved_bytes);
    blocks.erase(it);
    return cudaSuccess;
}
