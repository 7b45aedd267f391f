/* What is random, what fails on demand, and what must never be. */
#include "gpu_on_cpu.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace gpu_on_cpu
{
namespace
{

struct planned {
    char point[16] = "";
    int at = 0, rank = -1;

    planned()
    {
        const char *text = getenv("GPU_ON_CPU_FAULT");

        if (!text || !*text)
            return;
        if (sscanf(text, "%15[a-z]:%d@%d", point, &at, &rank) < 2) {
            fprintf(stderr, "GPU_ON_CPU_FAULT: \"%s\" is not point:n[@rank]\n", text);
            abort();
        }
    }
};

} // namespace

long number_from(const char *variable, long otherwise)
{
    const char *text = getenv(variable);

    return text && *text ? strtol(text, nullptr, 10) : otherwise;
}

uint64_t dice(uint64_t sides)
{
    static std::atomic<uint64_t> turn{ 0 };
    static const uint64_t seed =
        (uint64_t)number_from("GPU_ON_CPU_SEED", 1) * 64 + (uint64_t)number_from("LOCAL_RANK", 0);
    uint64_t x = (seed << 32) + turn++;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % sides;
}

bool fault(const char *point)
{
    static const planned plan;
    static std::atomic<int> passed{ 0 };

    return !strcmp(plan.point, point) &&
           (plan.rank < 0 || plan.rank == number_from("LOCAL_RANK", 0)) && ++passed == plan.at;
}

int64_t now_ns()
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void forbidden(const char *format, ...)
{
    va_list args;

    fflush(nullptr);
    fprintf(stderr, "GPU on a CPU, undefined on a real one: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}

} // namespace gpu_on_cpu
