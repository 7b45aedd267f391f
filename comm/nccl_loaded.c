/* NCCL's functions under their own names, loaded at the first call and not at program start.
 * Without NCCL, all that needs no exchange between GPUs still runs; an exchange fails with a
 * message that says why NCCL could not be loaded. */
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The functions that wire_nccl.c calls; NCCL 2.22.3 has all of them. */
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

static char load_error[300]; /* "": NCCL is loaded */

static bool find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    memcpy(function, &found, sizeof(found));
    if (!found)
        snprintf(load_error, sizeof(load_error), "NCCL cannot be used: its library has no %s",
                 name);
    return found;
}

/* RTLD_GLOBAL, because wire_nccl.c looks up ncclAlltoAll, which older versions lack. */
static void load_nccl(void)
{
    enum { LEAST = NCCL_VERSION(2, 22, 3) };
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_GLOBAL);
    int version = 0;

    if (!library) {
        snprintf(load_error, sizeof(load_error), "NCCL cannot be loaded: %s", dlerror());
        return;
    }
#define NCCL_FIND(name, parameters, arguments)                                                     \
    if (!find_function(library, #name, &nccl.name))                                                \
        return;
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    if (!find_function(library, "ncclGetErrorString", &nccl.error_text) ||
        !find_function(library, "ncclGetLastError", &nccl.last_error))
        return;
    if (nccl.ncclGetVersion(&version) != ncclSuccess || version < LEAST)
        snprintf(load_error, sizeof(load_error),
                 "NCCL cannot be used: version %d.%d.%d is installed, and moetune needs 2.22.3 or "
                 "newer",
                 version / 10000, version / 100 % 100, version % 100);
}

static bool is_loaded(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load_nccl);
    return !*load_error;
}

#define NCCL_CALL(name, parameters, arguments)                                                     \
    ncclResult_t name parameters                                                                   \
    {                                                                                              \
        return is_loaded() ? nccl.name arguments : ncclSystemError;                                \
    }
NCCL_FUNCTIONS(NCCL_CALL)
#undef NCCL_CALL

const char *ncclGetErrorString(ncclResult_t result)
{
    return is_loaded() ? nccl.error_text(result) : load_error;
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return is_loaded() ? nccl.last_error(comm) : "";
}
