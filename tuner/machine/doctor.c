/* The checks of `moetune doctor`: each examines one thing, for instance load, clocks or NCCL, and
 * adds one finding with its effect and its cure. */
#include "doctor.h"

#include "allowance.h"
#include "blas.h"
#include "disturbance.h"
#include "gpu_list.h"
#include "host.h"
#include "json.h"
#include "machine.h"
#include "nvml.h"
#include "stats.h"
#include "status.h"
#include "text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/statfs.h>
#include <unistd.h>

static const char *const finding_words[] = { "fine", "note", "WRONG", NULL };

/* How serious a finding is, what it does to measurements, and how to cure it.  A plain value. */
struct judgement {
    enum finding_level level;
    const char *effect, *cure; /* literals; NULL for FINDING_FINE */
};

static const struct judgement all_is_fine = { FINDING_FINE, NULL, NULL };

__attribute__((format(printf, 3, 4))) static void
findings_add(struct findings *out, struct judgement judgement, const char *format, ...)
{
    struct finding *f = &out->list[out->count];
    va_list args;

    if (out->count == FINDINGS_MAX)
        return;
    out->count++;
    *f = (struct finding){ .level = judgement.level,
                           .effect = judgement.effect,
                           .cure = judgement.cure };
    va_start(args, format);
    text_put_list(f->what, sizeof(f->what), format, args);
    va_end(args);
}

/* ---- where the database lies */

static const struct file_system {
    uint32_t magic;
    const char *name;
} network_file_systems[] = {
    { 0x6969, "NFS" },        { 0xff534d42, "CIFS" },    { 0xfe534d42, "SMB" },
    { 0x0bd00bd0, "Lustre" }, { 0x47504653, "GPFS" },    { 0x19830326, "BeeGFS" },
    { 0x00c36400, "Ceph" },   { 0x5346414f, "AFS" },     { 0x65735546, "FUSE" },
    { 0x01021997, "9p" },     { 0x65735543, "fusectl" }, { 0x6c6f6578, "WekaFS" },
};
enum { NETWORK_FILE_SYSTEMS = sizeof(network_file_systems) / sizeof(network_file_systems[0]) };

/* Finds the nearest folder above the file that exists. */
static void existing_folder_of(const char *path, char *folder, size_t size)
{
    char *slash;

    snprintf(folder, size, "%s", path);
    while ((slash = strrchr(folder, '/')) && slash != folder) {
        *slash = 0;
        if (!access(folder, F_OK))
            return;
    }
    snprintf(folder, size, "%s", *path == '/' ? "/" : ".");
}

void doctor_database(const char *path, struct findings *out)
{
    static const struct judgement denied = { FINDING_WRONG, "moetune cannot store what it measures",
                                             "--db in a folder where you may write" };
    static const struct judgement shared = {
        FINDING_WRONG, "locks do not work reliably there: two tuners may damage the database",
        "--db on a local disk; share the exported or published table instead of the database"
    };
    static const struct judgement full = { FINDING_WRONG, "tune stops at its first write",
                                           "free some space, or --db on another disk" };
    enum { FREE_MIB_LEAST = 64 };
    char folder[PATH_MAX];
    struct statfs fs;
    uint64_t mib;
    int i = 0;

    existing_folder_of(path, folder, sizeof(folder));
    if (access(folder, W_OK) || (!access(path, F_OK) && access(path, W_OK)))
        findings_add(out, denied, "database: %s cannot be written: %s", path, strerror(errno));
    if (statfs(folder, &fs)) {
        findings_add(out, denied, "database: %s: %s", folder, strerror(errno));
        return;
    }
    while (i < NETWORK_FILE_SYSTEMS && (uint32_t)fs.f_type != network_file_systems[i].magic)
        i++;
    if (i < NETWORK_FILE_SYSTEMS)
        findings_add(out, shared, "database: %s is on %s", folder, network_file_systems[i].name);
    else
        findings_add(out, all_is_fine, "database: %s is on a local file system", folder);
    mib = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >> 20;
    findings_add(out, mib < FREE_MIB_LEAST ? full : all_is_fine, "database: %llu MiB free in %s",
                 (unsigned long long)mib, folder);
}

/* ---- how busy a host is */

/* Reads the seconds that all cores together were busy since the machine started.  False where
 * /proc/stat does not say. */
static bool read_busy_seconds(double *seconds)
{
    unsigned long long user, nice, system, idle, wait, irq, soft;
    FILE *file = fopen("/proc/stat", "r");
    bool known = file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice,
                                &system, &idle, &wait, &irq, &soft) == 7;

    if (known)
        *seconds = (double)(user + nice + system + irq + soft) / (double)sysconf(_SC_CLK_TCK);
    if (file)
        fclose(file);
    return known;
}

/* Above these limits a finding is a note, or is wrong. */
enum {
    LOAD_PERCENT_MOST = 25,
    GPU_BUSY_PERCENT = 5,
    CLOCK_SKEW_US = 1000000,
    COLLECTIVE_NS = 1000000
};

/* Measures the load of other programs, as a share of the cores.  The first figure of loadavg covers
 * a minute, in which moetune itself may have run.  Where it is high, only cores that work while
 * this process sleeps count. */
static double measure_load(void)
{
    enum { WATCH_US = 400000 };
    double load = 0, busy_before_s, busy_after_s;
    FILE *file = fopen("/proc/loadavg", "r");
    int64_t begin_ns;

    if (file && fscanf(file, "%lf", &load) != 1)
        load = 0;
    if (file)
        fclose(file);
    begin_ns = host_clock_ns();
    if (load * 100 > LOAD_PERCENT_MOST * allowance_cores() && read_busy_seconds(&busy_before_s)) {
        usleep(WATCH_US);
        if (read_busy_seconds(&busy_after_s))
            load = fmin(load, (busy_after_s - busy_before_s) /
                                  ((double)(host_clock_ns() - begin_ns) * 1e-9));
    }
    return load / allowance_cores();
}

void doctor_note_load(void)
{
    double load = measure_load();

    if (load * 100 > LOAD_PERCENT_MOST)
        note(
            "other programs keep %.0f %% of this machine's cores busy: measurements are noisy, and "
            "fewer plans can be proven; see `moetune doctor`",
            load * 100);
}

#if defined(__x86_64__)
static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcasecmp(*words, word) != 0) /* static builds have capitals */
        words++;
    return *words;
}

/* Does the processor have wider vectors than these kernels use?  OpenBLAS names kernels after the
 * processor for which they were written. */
static bool has_wider_kernels(const char *core)
{
    static const char *const avx512[] = { "SkylakeX", "Cooperlake", "SapphireRapids", NULL };
    static const char *const avx2[] = { "Haswell", "Zen", "Excavator", NULL };

    if (is_one_of(core, avx512))
        return false;
    return is_one_of(core, avx2) ? __builtin_cpu_supports("avx512f")
                                 : __builtin_cpu_supports("avx2");
}

static const char *wider_kernels_cure(void)
{
    return __builtin_cpu_supports("avx512f") ? "OPENBLAS_CORETYPE=SkylakeX, for trainers too"
                                             : "OPENBLAS_CORETYPE=Haswell, for trainers too";
}
#else
static bool has_wider_kernels(const char *core)
{
    (void)core;
    return false;
}

static const char *wider_kernels_cure(void)
{
    return NULL;
}
#endif

void doctor_disturbance(bool waits, bool steal, struct findings *out)
{
    static const struct judgement blind = {
        FINDING_NOTE, "moetune cannot recognise disturbed steps, so they count like all others",
        "an idle machine; or a kernel or container that shows this file"
    };

    if (waits && steal)
        findings_add(out, all_is_fine, "disturbance: the kernel reports what other processes take");
    if (!waits)
        findings_add(out, blind, "disturbance: the kernel does not report /proc/self/schedstat");
    if (!steal)
        findings_add(out, blind, "disturbance: the kernel does not report steal in /proc/stat");
}

static void host_name(char *name, size_t size)
{
    name[0] = name[size - 1] = 0;
    gethostname(name, size - 1);
}

/* What a rank sees of its host now.  A plain value, so that ranks can gather it. */
struct host_condition {
    double load; /* of other programs, as a share of `cores` */
    int32_t cores;
    char governor[32]; /* of the first core's frequency */
};

static struct host_condition host_condition_here(void)
{
    struct host_condition c = { .load = measure_load(), .cores = allowance_cores() };

    if (!read_named_value("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", c.governor,
                          sizeof(c.governor)))
        snprintf(c.governor, sizeof(c.governor), "none");
    return c;
}

/* Checks cores, load and frequency of one host.  ranks 0: the ranks run on other hosts. */
static void check_host(bool on_gpus, uint32_t ranks, const struct host_condition *c,
                       const char *host, struct findings *out)
{
    static const struct judgement late = {
        FINDING_WRONG, "a rank without a core queues its kernels late, and the GPU waits for it",
        "one core per rank: fewer ranks, an idle machine, or a larger allocation"
    };
    static const struct judgement shared = {
        FINDING_WRONG,
        "ranks wait for each other's time slices: the table shows the scheduler, not the layer",
        "at most one rank per core; half as many ranks let compute and communication overlap"
    };
    static const struct judgement crowded = {
        FINDING_NOTE, "communication and compute of a rank share a core, so they overlap less",
        "half as many ranks as cores, unless trainers run like this, too"
    };
    static const struct judgement busy = {
        FINDING_WRONG, "other programs slow some steps down and not others",
        "wait until the machine is idle, or tune in an allocation of your own"
    };
    static const struct judgement slow = {
        FINDING_NOTE, "the first steps of a trial run at another clock than later ones",
        "cpupower frequency-set -g performance"
    };
    const char *rank_s = ranks == 1 ? "" : "s", *core_s = c->cores == 1 ? "" : "s";
    uint32_t cores = (uint32_t)c->cores;
    double busy_cores = c->load * c->cores;
    struct judgement core_judgement = all_is_fine;
    bool is_steady = !strcmp(c->governor, "performance") || !strcmp(c->governor, "none");

    /* The core of a rank that computes on a GPU does nothing but queue kernels and wait. */
    if (on_gpus) {
        if (ranks)
            findings_add(out, ranks + busy_cores > c->cores ? late : all_is_fine,
                         "cores: %u rank%s on %u core%s of %s, %.0f of them busy", ranks, rank_s,
                         cores, core_s, host, busy_cores);
        return;
    }
    if (ranks > cores)
        core_judgement = shared;
    else if (2 * ranks > cores)
        core_judgement = crowded;
    if (ranks)
        findings_add(out, core_judgement, "cores: %u rank%s on %u core%s of %s", ranks, rank_s,
                     cores, core_s, host);
    findings_add(out, c->load * 100 > LOAD_PERCENT_MOST ? busy : all_is_fine,
                 "load: %.0f %% of the cores of %s are busy", c->load * 100, host);
    findings_add(out, is_steady ? all_is_fine : slow, "frequency: governor of %s is %s", host,
                 c->governor);
}

/* Checks what slows exchanges and products of ranks that compute on cores: an MPI that yields, slow
 * BLAS kernels, disturbances that the kernel does not report. */
static void check_environment(bool on_gpus, struct findings *out)
{
    static const struct judgement yields = {
        FINDING_WRONG, "each test for a message gives the core away, so nothing overlaps any more",
        "unset the variable; where ranks share cores, moetune itself gives way while it waits"
    };
    const struct judgement slower = { FINDING_NOTE,
                                      "products run at half or a quarter of the processor's speed",
                                      wider_kernels_cure() };
    const char *yield = getenv("OMPI_MCA_mpi_yield_when_idle"), *core = blas_core();
    char library[64];

    if (on_gpus)
        return;
    world_library(library, sizeof(library));
    if (!strncmp(library, "Open MPI", 8) && yield && strcmp(yield, "0") != 0 &&
        strcmp(yield, "false") != 0)
        findings_add(out, yields, "environment: OMPI_MCA_mpi_yield_when_idle=%s", yield);
    /* OpenBLAS chooses by name; a processor that is newer than it gets slower kernels. */
    findings_add(out, core && has_wider_kernels(core) ? slower : all_is_fine,
                 "BLAS: OpenBLAS runs its %s kernels", core ? core : "plain");
    doctor_disturbance(disturbance_waits_are_known(), disturbance_steal_is_known(), out);
}

void doctor_here(uint32_t ranks, bool on_gpus, struct findings *out)
{
    struct host_condition here = host_condition_here();
    char host[64];

    host_name(host, sizeof(host));
    check_host(on_gpus, ranks, &here, host, out);
    check_environment(on_gpus, out);
}

/* ---- GPUs: each row of gpu_checks examines one thing */

static struct gpu_condition gpu_condition_here(const struct gpus *gpus)
{
    int own = gpus_own(gpus);
    const struct gpu *gpu = &gpus->list[own < 0 ? 0 : own];
    struct nvml *nvml = own < 0 ? NULL : nvml_open(gpu->bus);
    const char *throttled = nvml_throttled(nvml);
    struct gpu_condition c = { .seen = gpus->count,
                               .clock_mhz = nvml_clock_mhz(nvml),
                               .clock_max_mhz = nvml_clock_max_mhz(nvml),
                               .persistence = nvml_persistence(nvml),
                               .mig = nvml_mig(nvml),
                               .links = nvml_links(nvml),
                               .busy_percent = nvml_busy_percent(nvml),
                               .copies_beside = -1,
                               .driver = gpus->driver,
                               .runtime = gpus->runtime,
                               .nccl = gpus->nccl };

    nvml_close(nvml);
    for (int i = 0; own >= 0 && i < gpus->count; i++)
        c.out_of_reach += !gpus->reaches[own][i];
    host_name(c.host, sizeof(c.host));
    snprintf(c.bus, sizeof(c.bus), "%s", gpu->bus);
    snprintf(c.name, sizeof(c.name), "%s", gpu->name);
    snprintf(c.throttled, sizeof(c.throttled), "%s", throttled ? throttled : "");
    return c;
}

/* Each of these functions checks one rank's GPU for one fault, and returns true if it has the
 * fault. `what` describes the fault. */

static bool cannot_reach_peers(const struct gpu_condition *c, uint32_t rank, char *what,
                               size_t size)
{
    snprintf(what, size, "peer access: rank %u cannot reach %d of %d GPUs of %s", rank,
             c->out_of_reach, c->seen, c->host);
    return c->out_of_reach > 0;
}

static bool is_mig_instance(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "MIG: the GPU of rank %u on %s is split into instances", rank, c->host);
    return c->mig == 1;
}

static bool is_not_persistent(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "persistence: off on %s (rank %u)", c->host, rank);
    return c->persistence == 0;
}

static bool gpu_is_busy(const struct gpu_condition *c, uint32_t rank, char *what, size_t size)
{
    snprintf(what, size, "GPU load: %d %% on %s (rank %u), before any rank has begun",
             c->busy_percent, c->host, rank);
    return c->busy_percent > GPU_BUSY_PERCENT;
}

static bool clock_is_held_back(const struct gpu_condition *c, uint32_t rank, char *what,
                               size_t size)
{
    snprintf(what, size, "GPU clock: %d of %d MHz on %s (rank %u), held back by %s", c->clock_mhz,
             c->clock_max_mhz, c->host, rank, c->throttled);
    return *c->throttled;
}

static bool copies_use_multiprocessors(const struct gpu_condition *c, uint32_t rank, char *what,
                                       size_t size)
{
    snprintf(what, size, "copies within the GPU: they use its multiprocessors, on %s (rank %u)",
             c->host, rank);
    return c->copies_beside == 0;
}

/* Each of these functions describes rank 0's GPU where no rank has the fault.  False: there is
 * nothing to report. */

static bool peers_are_reached(const struct gpu_condition *c, char *what, size_t size)
{
    snprintf(what, size, "peer access: every GPU reaches every other, %s",
             c->links > 0 ? "by NVLink" : "the kind of link is not known");
    return c->seen > 1;
}

static bool clock_is_not_held(const struct gpu_condition *c, char *what, size_t size)
{
    if (c->clock_mhz >= 0)
        snprintf(what, size, "GPU clock: %d of %d MHz now, not held back", c->clock_mhz,
                 c->clock_max_mhz);
    else
        snprintf(what, size,
                 "GPU clock: not known, because NVIDIA's management library (NVML) is missing");
    return true;
}

static bool copies_run_beside(const struct gpu_condition *c, char *what, size_t size)
{
    snprintf(what, size, "copies within the GPU: copy engines run them beside kernels");
    return c->copies_beside == 1;
}

/* One fault that a GPU may have: how to find it, and what it means. */
static const struct gpu_check {
    bool (*wrong)(const struct gpu_condition *c, uint32_t rank, char *what, size_t size);
    bool (*fine)(const struct gpu_condition *c, char *what, size_t size); /* NULL: never reported */
    struct judgement judgement;
} gpu_checks[] = {
    { cannot_reach_peers,
      peers_are_reached,
      { FINDING_NOTE, "exchanges inside the node go through the host's memory",
        "nvidia-smi topo -p2p rw shows why; often IOMMU or ACS settings, or limits of a "
        "container" } },
    { is_mig_instance,
      NULL,
      { FINDING_NOTE,
        "an instance has only a part of the multiprocessors, memory and cache; NCCL cannot join "
        "two instances of one GPU",
        "tune on whole GPUs, unless trainers run in instances too" } },
    { is_not_persistent,
      NULL,
      { FINDING_NOTE,
        "the driver unloads while no program runs: each launch then takes seconds, and clocks "
        "reset",
        "nvidia-smi -pm 1, or nvidia-persistenced" } },
    { gpu_is_busy,
      NULL,
      { FINDING_WRONG, "another program's kernels slow some steps down and not others",
        "wait until the GPU is idle (nvidia-smi names the program)" } },
    { copies_use_multiprocessors,
      copies_run_beside,
      { FINDING_NOTE,
        "exchanges of ranks that share this GPU slow products down, and so do virtual ranks' "
        "copies by a copy engine; exchanges between GPUs do not",
        "one GPU per rank; for virtual ranks --copy-ctas N, which fixes how much copies take" } },
    { clock_is_held_back,
      clock_is_not_held,
      { FINDING_NOTE,
        "the clock follows heat and power, so the same plan is sometimes faster, sometimes slower",
        "better cooling, or a fixed clock that the GPU can hold: nvidia-smi -lgc MHZ" } },
};

/* Checks CUDA, its driver and NCCL, as rank 0 sees them. */
static void check_gpu_libraries(const struct gpu_condition *c, uint32_t ranks, struct findings *out)
{
    static const struct judgement older = {
        FINDING_NOTE, "features of the newer runtime may be missing or slower",
        "a driver that is at least as new as the runtime"
    };
    static const struct judgement lacking = {
        FINDING_WRONG, "without NCCL, only ranks that share a GPU can exchange (--wire ce)",
        "pip install nvidia-nccl-cu13 (CUDA 12: -cu12), or a package of the system; 2.22.3 or newer"
    };
    static const struct judgement alone = {
        FINDING_NOTE, "one rank needs no NCCL; several ranks could only share a GPU",
        "pip install nvidia-nccl-cu13 (CUDA 12: -cu12), or a package of the system; 2.22.3 or newer"
    };
    struct judgement judgement = all_is_fine;
    char nccl[40] = "no NCCL that can be used";

    if (c->nccl)
        snprintf(nccl, sizeof(nccl), "NCCL %d.%d.%d", c->nccl / 10000, c->nccl / 100 % 100,
                 c->nccl % 100);
    if (!c->nccl)
        judgement = ranks > 1 ? lacking : alone;
    else if (c->driver < c->runtime)
        judgement = older;
    findings_add(out, judgement, "GPU libraries: CUDA %d.%d, a driver for %d.%d, %s",
                 c->runtime / 1000, c->runtime / 10 % 100, c->driver / 1000, c->driver / 10 % 100,
                 nccl);
}

/* Checks that no two ranks share a GPU; names the first pair that does. */
static void check_gpu_sharing(const struct gpu_condition *ranks, uint32_t count,
                              struct findings *out)
{
    static const struct judgement shared = {
        FINDING_WRONG,
        "kernels of different ranks take turns, and their exchanges are copies in one memory: the "
        "times are not those of a cluster",
        "one rank per GPU: --ranks, or the launcher's slots"
    };
    bool sharing = false;

    for (uint32_t i = 1; i < count && !sharing; i++)
        for (uint32_t j = 0; j < i && !sharing; j++) {
            sharing = !strcmp(ranks[i].host, ranks[j].host) && !strcmp(ranks[i].bus, ranks[j].bus);
            if (sharing)
                findings_add(out, shared, "GPUs: ranks %u and %u share %s (%s) of %s", j, i,
                             ranks[i].name, ranks[i].bus, ranks[i].host);
        }
    if (!sharing)
        findings_add(out, all_is_fine, "GPUs: %s, one for each of %u rank%s; %d seen on %s",
                     ranks->name, count, count > 1 ? "s" : "", ranks->seen, ranks->host);
}

void gpu_doctor_ranks(const struct gpu_condition *ranks, uint32_t count, struct findings *out)
{
    const struct gpu_condition *c = &ranks[0];

    check_gpu_libraries(c, count, out);
    check_gpu_sharing(ranks, count, out);
    findings_add(
        out, all_is_fine,
        "kernel launches: timed as if the GPU waits for the host; use --graphs ahead if the "
        "trainer's host runs ahead, --graphs on if the trainer replays graphs");
    for (size_t k = 0; k < sizeof(gpu_checks) / sizeof(gpu_checks[0]); k++) {
        const struct gpu_check *check = &gpu_checks[k];
        char what[sizeof(out->list[0].what)];
        uint32_t rank = 0; /* the first rank with the fault */

        while (rank < count && !check->wrong(&ranks[rank], rank, what, sizeof(what)))
            rank++;
        if (rank < count)
            findings_add(out, check->judgement, "%s", what);
        else if (check->fine && check->fine(c, what, sizeof(what)))
            findings_add(out, all_is_fine, "%s", what);
    }
}

void gpu_doctor_without_gpus(const struct gpus *gpus, bool on_the_bus, struct findings *out)
{
    bool too_old = gpus->driver && gpus->driver / 1000 < gpus->runtime / 1000;
    struct judgement unused = {
        FINDING_NOTE,
        "ranks compute on CPU cores although there is a GPU: the table is one for CPUs",
        "load the NVIDIA driver; give the container its GPUs; CUDA_VISIBLE_DEVICES may hide them"
    };

    if (!gpus->built)
        unused.cure = "build where a CUDA toolkit with NCCL is (make GPU=1 says what is missing)";
    else if (too_old)
        unused.cure = "a newer driver, or moetune built with a CUDA that this driver knows "
                      "(CUDA_HOME)";
    if (gpus->count)
        findings_add(out, all_is_fine,
                     "GPU: %s works, but ranks compute on CPU cores: not every rank has a GPU, or "
                     "--device host",
                     gpus->list[0].name);
    else
        findings_add(out, on_the_bus || too_old ? unused : all_is_fine, "GPU: %s", gpus->why);
}

/* ---- checks that compare ranks */

static bool ranks_use_gpus(const struct discovery *d)
{
    return !strcmp(d->cluster.backend, "cuda");
}

static void check_network(const struct discovery *d, struct findings *out)
{
    /* Which library chooses the network, and the variable by which a user overrules it. */
    static const struct chooser {
        const char *name, *variable;
        struct judgement unknown;
    } mpi_and_nccl[] = {
        { "MPI",
          "OMPI_MCA_btl_tcp_if_include",
          { FINDING_NOTE, "messages may take a slow network, or the one for management",
            "if they do: --launcher-args \"--mca btl_tcp_if_include NET/BITS\"" } },
        { "NCCL",
          "NCCL_SOCKET_IFNAME",
          { FINDING_NOTE, "exchanges may take a slow network, or the one for management",
            "NCCL_DEBUG=INFO shows which; NCCL_SOCKET_IFNAME or NCCL_IB_HCA choose another" } },
    };
    const struct chooser *c = ranks_use_gpus(d) ? &mpi_and_nccl[1] : &mpi_and_nccl[0];
    const char *chosen = getenv(c->variable);

    if (d->cluster.nodes < 2)
        findings_add(out, all_is_fine, "network: not used, all ranks are on one node");
    else if (chosen)
        findings_add(out, all_is_fine, "network: %s (%s)", chosen, d->cluster.link_between);
    else
        findings_add(out, strstr(d->cluster.link_between, "InfiniBand") ? all_is_fine : c->unknown,
                     "network: %s chooses it; the default route is %s", c->name,
                     d->cluster.link_between);
}

static int check_collective(struct world *world, struct findings *out)
{
    enum { TIMES = 101 };
    static const struct judgement slow = {
        FINDING_NOTE, "moetune cannot tell steps apart that are shorter than this",
        "check cores and load first, then the network"
    };
    int64_t times[TIMES], median;

    for (int i = 0; i < TIMES; i++) {
        int64_t begin = host_clock_ns();

        TRY(world_barrier(world));
        times[i] = host_clock_ns() - begin;
    }
    median = spread_of(times, TIMES).median_ns;
    TRY(world_max(world, &median, 1));
    findings_add(out, median > COLLECTIVE_NS ? slow : all_is_fine,
                 "collective: an empty one takes %.1f us (median of %d)", (double)median * 1e-3,
                 TIMES);
    return OK;
}

/* Adds the same findings on every rank, because all ranks compare the gathered conditions. */
static int check_gpus(struct world *world, const struct discovery *d, struct findings *out)
{
    struct gpus gpus = gpus_here();
    struct gpu_condition mine, *conditions = calloc(d->ranks, sizeof(*conditions));
    int rc = world_settle(world, conditions ? OK : fail(ERR_NOMEM, "%u ranks", d->ranks));

    mine = gpu_condition_here(&gpus);
    if (world_topology(world)->rank == 0 && ranks_use_gpus(d))
        mine.copies_beside = gpus_copies_beside(&gpus);
    if (!rc)
        rc = world_gather(world, &mine, conditions, sizeof(mine));
    if (!rc && ranks_use_gpus(d))
        gpu_doctor_ranks(conditions, d->ranks, out);
    else if (!rc)
        gpu_doctor_without_gpus(&gpus, strstr(d->facts[0].gpus, "NVIDIA"), out);
    free(conditions);
    return rc;
}

int doctor_ranks(struct world *world, const struct discovery *d, struct findings *out)
{
    static const struct judgement unequal = {
        FINDING_WRONG, "ranks may hang, or measure different programs",
        "install the same moetune and libraries on every host"
    };
    static const struct judgement apart = { FINDING_NOTE,
                                            "dates of rows and files mislead; measured times stay "
                                            "right, because each rank uses its own "
                                            "clock",
                                            "run ntp or chrony on every host" };
    struct host_condition mine = host_condition_here(), *conditions;
    int rc;

    *out = (struct findings){ .count = 0 };
    conditions = calloc(d->ranks, sizeof(*conditions));
    rc = world_settle(world, conditions ? OK : fail(ERR_NOMEM, "%u ranks", d->ranks));
    if (!rc)
        rc = world_gather(world, &mine, conditions, sizeof(mine));
    if (!rc) {
        log_enable(world_topology(world)->rank == 0);
        if (discovery_check(d))
            findings_add(out, unequal, "programs: hosts differ, see the messages above");
        else
            findings_add(out, all_is_fine, "programs: the same moetune, %s and %s on every host",
                         d->cluster.comm_library, d->cluster.compute_library);
        log_enable(true);
        /* Each host is checked once, at its first rank: ranks of one host are neighbours. */
        for (uint32_t rank = 0, next_host; rank < d->ranks; rank = next_host) {
            next_host = rank + 1;
            while (next_host < d->ranks && !strcmp(d->facts[next_host].host, d->facts[rank].host))
                next_host++;
            check_host(ranks_use_gpus(d), next_host - rank, &conditions[rank], d->facts[rank].host,
                       out);
        }
        findings_add(out, d->clock_skew_us > CLOCK_SKEW_US ? apart : all_is_fine,
                     "clocks: the dates of the ranks differ by at most %.3f s",
                     (double)d->clock_skew_us * 1e-6);
        check_network(d, out);
        check_environment(ranks_use_gpus(d), out);
        rc = check_gpus(world, d, out);
    }
    if (!rc)
        rc = check_collective(world, out);
    free(conditions);
    return rc;
}

/* ---- output */

enum finding_level findings_worst(const struct findings *findings)
{
    enum finding_level worst = FINDING_FINE;

    for (int i = 0; i < findings->count; i++)
        if (findings->list[i].level > worst)
            worst = findings->list[i].level;
    return worst;
}

void findings_print(const struct findings *findings, enum finding_level least, FILE *to)
{
    for (int i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->list[i];

        if (f->level < least)
            continue;
        fprintf(to, "%-6s %s\n", finding_words[f->level], f->what);
        if (f->effect)
            fprintf(to, "       effect: %s\n       cure:   %s\n", f->effect, f->cure);
    }
}

void findings_print_json(const struct findings *findings, FILE *to)
{
    fprintf(to, "[");
    for (int i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->list[i];

        json_write(to, "%s\n {'level': '%s', 'what': '%s', 'effect': '%s', 'cure': '%s'}",
                   i ? "," : "", finding_words[f->level], f->what, f->effect ? f->effect : "",
                   f->cure ? f->cure : "");
    }
    fprintf(to, "\n]\n");
}
