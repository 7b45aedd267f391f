/* A dlopen() that does not find the library that GPU_ON_CPU_ABSENT names. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *dlopen(const char *file, int flags)
{
    void *(*real)(const char *, int);
    void *found = dlsym(RTLD_NEXT, "dlopen");
    const char *absent = getenv("GPU_ON_CPU_ABSENT");

    memcpy(&real, &found, sizeof(real));
    if (file && absent && !strcmp(file, absent))
        file = "libabsent.so.1"; /* so that dlerror() says it, too */
    return real(file, flags);
}
