/* Blocks of fibers, scheduled in random order: see cuda_on_cpu.h. */
#include "cuda_on_cpu.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
static void __sanitizer_start_switch_fiber(void **, const void *, size_t)
{
}
static void __sanitizer_finish_switch_fiber(void *, const void **, size_t *)
{
}
#endif

/* A stack that waits: switch_to() goes on with another one, until that one comes back.
 * swapcontext() of the C library also sets the mask of signals, which is a system call for each
 * thread of each barrier: with it a test took three times as long. */
#ifdef __x86_64__
struct stacked {
    void *top;
};
extern "C" void switch_stacks(void **from, void *to);
/* What a function must leave as it was is kept on its stack. */
__asm__(".text\n"
        ".type switch_stacks, @function\n"
        "switch_stacks:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n"
        ".size switch_stacks, .-switch_stacks\n");
static void switch_to(stacked *from, stacked *to)
{
    switch_stacks(&from->top, to->top);
}
static void begin_at(stacked *s, char *stack, size_t bytes, void (*begin)())
{
    /* As if `begin` were called by nobody, whose address a debugger finds to be 0. */
    void **top =
        reinterpret_cast<void **>(reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t(15));

    *--top = nullptr;
    *--top = reinterpret_cast<void *>(begin);
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    s->top = top;
}
#else
struct stacked {
    ucontext_t context;
};
static void switch_to(stacked *from, stacked *to)
{
    swapcontext(&from->context, &to->context);
}
static void begin_at(stacked *s, char *stack, size_t bytes, void (*begin)())
{
    getcontext(&s->context);
    s->context.uc_stack.ss_sp = stack;
    s->context.uc_stack.ss_size = bytes;
    s->context.uc_link = nullptr;
    makecontext(&s->context, begin, 0);
}
#endif

dim3 gridDim, blockDim, blockIdx, threadIdx;

extern "C" {
uint64_t subject_launches; /* of cuda_subject.h */
}

namespace cuda_on_cpu
{
namespace
{

const size_t stack_bytes = 256 << 10;

enum state { READY, AT_BARRIER, AT_EXCHANGE, ENDED };

struct copy {
    uint4 *to;
    const uint4 *from; /* NULL: zeros */
    unsigned group;
};

struct fiber {
    stacked rest;
    std::unique_ptr<char[]> stack;
    void *fake_stack = nullptr; /* AddressSanitizer's */
    state is = READY;
    place at = {};
    exchange kind = SYNC;
    uint32_t mask = 0;
    uint64_t value = 0;
    lanes brought = {};
    std::vector<copy> copies;
    unsigned group = 0; /* of the copies that begin now */
};

struct allocation {
    place at;
    std::unique_ptr<char[]> memory;
    size_t bytes;
};

/* Kept: stacks are costly to make.  Never destroyed: a kernel may still run when main() returns. */
std::vector<fiber> &fibers = *new std::vector<fiber>;
std::vector<allocation> &allocations = *new std::vector<allocation>;
stacked scheduler;
void *scheduler_fake_stack;
const void *scheduler_stack;
size_t scheduler_stack_bytes;
const std::function<void()> *thread_body;
unsigned current, count;
uint64_t dice = 1;

uint64_t roll()
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    return dice ^= dice << 17;
}

bool equal(place a, place b)
{
    return a.line == b.line && !strcmp(a.file, b.file);
}

void enter(unsigned thread)
{
    current = thread;
    threadIdx = dim3(thread, 0, 0);
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, fibers[thread].stack.get(), stack_bytes);
    switch_to(&scheduler, &fibers[thread].rest);
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
}

void leave()
{
    fiber &me = fibers[current];

    __sanitizer_start_switch_fiber(me.is == ENDED ? nullptr : &me.fake_stack, scheduler_stack,
                                   scheduler_stack_bytes);
    switch_to(&me.rest, &scheduler);
    __sanitizer_finish_switch_fiber(fibers[current].fake_stack, &scheduler_stack,
                                    &scheduler_stack_bytes);
}

void begin()
{
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes);
    (*thread_body)();
    fibers[current].is = ENDED;
    leave();
}

void prepare(unsigned thread)
{
    fiber &f = fibers[thread];

    if (!f.stack)
        f.stack.reset(new char[stack_bytes]);
    begin_at(&f.rest, f.stack.get(), stack_bytes, begin);
    f.is = READY;
    f.copies.clear();
}

bool ready(unsigned thread)
{
    return fibers[thread].is == READY;
}

/* The threads of a warp that can run do, in a random order, until they wait or end. */
bool run_warp(unsigned warp)
{
    unsigned first = warp * 32, n = count - first < 32 ? count - first : 32;
    unsigned start = (unsigned)(roll() % n);
    bool up = roll() % 2, ran = false;

    for (unsigned i = 0; i < n; i++) {
        unsigned thread = first + (start + (up ? i : n - i)) % n;

        if (ready(thread)) {
            enter(thread);
            ran = true;
        }
    }
    return ran;
}

/* True when every thread that still runs waits at one barrier. */
bool release_block()
{
    const fiber *one = nullptr;

    for (unsigned i = 0; i < count; i++) {
        const fiber &f = fibers[i];

        if (f.is == ENDED)
            continue;
        if (f.is != AT_BARRIER || (one && !equal(one->at, f.at)))
            return false;
        one = &f;
    }
    for (unsigned i = 0; i < count; i++)
        if (fibers[i].is == AT_BARRIER)
            fibers[i].is = READY;
    return one != nullptr;
}

/* True when the lanes that thread `i` waits for all wait as it does. */
bool release_lanes(unsigned i)
{
    unsigned first = i / 32 * 32;
    const fiber &f = fibers[i];
    lanes all = {};

    all.mask = f.mask;
    for (unsigned lane = 0; lane < 32; lane++) {
        const fiber *other = first + lane < count ? &fibers[first + lane] : nullptr;

        if (!(f.mask >> lane & 1))
            continue;
        if (!other || other->is != AT_EXCHANGE || other->kind != f.kind || other->mask != f.mask ||
            !equal(other->at, f.at))
            return false;
        all.value[lane] = other->value;
    }
    for (unsigned lane = 0; lane < 32; lane++)
        if (all.mask >> lane & 1) {
            fibers[first + lane].brought = all;
            fibers[first + lane].is = READY;
        }
    return true;
}

void release_warp(unsigned warp)
{
    for (unsigned i = warp * 32; i < count && i < warp * 32 + 32; i++)
        if (fibers[i].is == AT_EXCHANGE)
            release_lanes(i);
}

/* Warps take turns at random, so that one may be far ahead of another; false when all wait. */
bool run_some()
{
    unsigned warps = (count + 31) / 32, first = (unsigned)(roll() % warps);

    for (unsigned i = 0; i < warps; i++)
        if (run_warp((first + i) % warps)) {
            release_warp((first + i) % warps);
            return true;
        }
    return release_block();
}

/* What is left waits for ever. */
bool complain()
{
    const fiber *one = nullptr;

    for (unsigned i = 0; i < count; i++)
        if (fibers[i].is != ENDED) {
            const fiber &f = fibers[i];

            if (!one || !equal(one->at, f.at))
                fprintf(stderr,
                        "block %u: thread %u waits at %s:%d for threads that are not there\n",
                        blockIdx.x, i, f.at.file, f.at.line);
            one = &f;
        }
    return one != nullptr;
}

bool run_block()
{
    allocations.clear();
    for (unsigned i = 0; i < count; i++)
        prepare(i);
    while (run_some())
        ;
    return !complain();
}

} // namespace

uint32_t lane()
{
    return current % 32;
}

void block_barrier(place at)
{
    fibers[current].is = AT_BARRIER;
    fibers[current].at = at;
    leave();
}

const lanes &warp_exchange(exchange kind, uint32_t mask, uint64_t value, place at)
{
    fiber &f = fibers[current];

    f.is = AT_EXCHANGE;
    f.kind = kind;
    f.mask = mask;
    f.value = value;
    f.at = at;
    leave();
    return fibers[current].brought;
}

void copy_later(uint4 *to, const uint4 *from)
{
    fibers[current].copies.push_back({ to, from, fibers[current].group });
}

void copies_end_group()
{
    fibers[current].group++;
}

void copies_done_but(unsigned groups)
{
    fiber &f = fibers[current];
    size_t done = 0;

    for (; done < f.copies.size() && f.group - f.copies[done].group > groups; done++)
        *f.copies[done].to = f.copies[done].from ? *f.copies[done].from : uint4();
    f.copies.erase(f.copies.begin(), f.copies.begin() + (long)done);
}

void *shared(place at, size_t bytes)
{
    for (const allocation &a : allocations)
        if (equal(a.at, at) && a.bytes == bytes)
            return a.memory.get();
    allocations.push_back({ at, std::unique_ptr<char[]>(new char[bytes]), bytes });
    memset(allocations.back().memory.get(), 0xff, bytes);
    return allocations.back().memory.get();
}

void (*meanwhile)();
cudaError_t (*queue)(cudaStream_t stream, const start &what);
double part_at;
uint64_t part_blocks;

bool fits(const start &what)
{
    return what.blocks && what.blocks <= 0x7fffffff && what.threads && what.threads <= 1024;
}

cudaError_t run(const start &what)
{
    uint64_t first, stride, part = what.blocks;

    subject_launches++;
    if (!fits(what))
        return cudaErrorInvalidConfiguration;
    if (fibers.size() < what.threads)
        fibers.resize(what.threads);
    thread_body = &what.thread;
    count = what.threads;
    gridDim = dim3((unsigned)what.blocks);
    blockDim = dim3(what.threads);
    first = roll() % what.blocks;
    stride = roll() % 2 ? 1 : what.blocks - 1; /* up or down */
    if (part_blocks && part_blocks < what.blocks) {
        part = part_blocks;
        first = (uint64_t)(part_at * (double)(what.blocks - part));
        stride = 1;
    }
    for (uint64_t i = 0; i < part; i++) {
        blockIdx = dim3((unsigned)((first + i * stride) % what.blocks), 0, 0);
        if (!run_block())
            return cudaErrorLaunchFailure;
    }
    return cudaSuccess;
}

} // namespace cuda_on_cpu

extern "C" void subject_sample(double at, uint64_t blocks)
{
    cuda_on_cpu::part_at = at;
    cuda_on_cpu::part_blocks = blocks;
}
