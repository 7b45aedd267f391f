/* NCCL under its own names, loaded at the first call and not with the program: where it is not
 * there, everything that exchanges nothing between GPUs runs, and who exchanges is told why not. */
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What is called by name; all of it is in NCCL 2.22.3. */
#define NCCL_FUNCTIONS(F)                                                                          \
    F(ncclGetVersion, (int *version), (version))                                                   \
    F(ncclGetUniqueId, (ncclUniqueId * id), (id))                                                  \
    F(ncclCommInitRankConfig,                                                                      \
      (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config),             \
      (comm, ranks, id, rank, config))                                                             \
    F(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config), \
      (comm, color, key, out, config))                                                             \
    F(ncclCommFinalize, (ncclComm_t comm), (comm))                                                 \
    F(ncclCommDestroy, (ncclComm_t comm), (comm))                                                  \
    F(ncclCommAbort, (ncclComm_t comm), (comm))                                                    \
    F(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error), (comm, error))               \
    F(ncclGroupStart, (void), ())                                                                  \
    F(ncclGroupEnd, (void), ())                                                                    \
    F(ncclSend,                                                                                    \
      (const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,             \
       cudaStream_t stream),                                                                       \
      (from, count, type, peer, comm, stream))                                                     \
    F(ncclRecv,                                                                                    \
      (void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,                     \
       cudaStream_t stream),                                                                       \
      (to, count, type, peer, comm, stream))                                                       \
    F(ncclAllGather,                                                                               \
      (const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,             \
       cudaStream_t stream),                                                                       \
      (from, to, count, type, comm, stream))                                                       \
    F(ncclReduceScatter,                                                                           \
      (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,              \
       ncclComm_t comm, cudaStream_t stream),                                                      \
      (from, to, count, type, op, comm, stream))

static struct {
#define NCCL_FIELD(name, parameters, arguments) __typeof__(&name) name;
    NCCL_FUNCTIONS(NCCL_FIELD)
#undef NCCL_FIELD
    __typeof__(&ncclGetErrorString) error_text;
    __typeof__(&ncclGetLastError) last_error;
} nccl;

static char why_not[300]; /* "": it is loaded */

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    memcpy(function, &found, sizeof(found));
    if (!found)
        snprintf(why_not, sizeof(why_not), "NCCL cannot be used: its library has no %s", name);
    return found;
}

/* Its names are global then: wire_nccl.c asks for one that older versions lack. */
static void load(void)
{
    enum { LEAST = NCCL_VERSION(2, 22, 3) };
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_GLOBAL);
    int version = 0;

    if (!library) {
        snprintf(why_not, sizeof(why_not), "NCCL cannot be loaded: %s", dlerror());
        return;
    }
#define NCCL_FIND(name, parameters, arguments)                                                     \
    if (!find(library, #name, &nccl.name))                                                         \
        return;
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    if (!find(library, "ncclGetErrorString", &nccl.error_text) ||
        !find(library, "ncclGetLastError", &nccl.last_error))
        return;
    if (nccl.ncclGetVersion(&version) != ncclSuccess || version < LEAST)
        snprintf(why_not, sizeof(why_not),
                 "NCCL cannot be used: here is %d.%d.%d, and 2.22.3 is the least", version / 10000,
                 version / 100 % 100, version % 100);
}

static bool is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return !*why_not;
}

#define NCCL_CALL(name, parameters, arguments)                                                     \
    ncclResult_t name parameters                                                                   \
    {                                                                                              \
        return is_there() ? nccl.name arguments : ncclSystemError;                                 \
    }
NCCL_FUNCTIONS(NCCL_CALL)
#undef NCCL_CALL

const char *ncclGetErrorString(ncclResult_t result)
{
    return is_there() ? nccl.error_text(result) : why_not;
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return is_there() ? nccl.last_error(comm) : "";
}
