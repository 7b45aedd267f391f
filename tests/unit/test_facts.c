/* Tests what a host may use, read from control groups, and which cluster the facts of its ranks
 * make. */
#include "check.h"

#include "allowance.h"
#include "machine.h"
#include "rank_speeds.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GIB = 1 << 30 };

/* ---- a tree in place of "/" */

static char root[] = "/tmp/moetune-facts-XXXXXX";

static void put(const char *path, const char *text)
{
    char at[512];
    FILE *file;

    snprintf(at, sizeof(at), "%s/%s", root, path);
    for (char *slash = at + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(at, 0700);
        *slash = '/';
    }
    file = fopen(at, "w");
    CHECK(file && fputs(text, file) >= 0);
    if (file)
        fclose(file);
}

static void clear(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s/*", root);
    CHECK(!system(command));
}

static bool allows(int cores, int64_t free_bytes)
{
    struct allowance found = allowance_under(root);

    if (found.cores == cores && found.free_bytes == free_bytes)
        return true;
    printf("  %d cores, %lld bytes\n", found.cores, (long long)found.free_bytes);
    return false;
}

static const char version_2[] = "22 1 0:21 / / rw - ext4 /dev/vda rw\n"
                                "31 22 0:28 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
static const char version_1[] = "31 22 0:28 / /cg rw - tmpfs tmpfs rw\n"
                                "32 31 0:29 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
                                "33 31 0:30 / /cg/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
                                "34 31 0:31 /docker/abc /cg/memory rw - cgroup cgroup rw,memory\n";

static void without_control_groups_nothing_is_limited(void)
{
    clear();
    CHECK(allows(INT_MAX, INT64_MAX));
    put("proc/self/cgroup", "0::/\n");
    CHECK(allows(INT_MAX, INT64_MAX));
    put("proc/self/mountinfo", version_2);
    CHECK(allows(INT_MAX, INT64_MAX));
    put("cg/cpu.max", "max 100000\n");
    put("cg/memory.max", "max\n");
    put("cg/memory.current", "12345\n");
    CHECK(allows(INT_MAX, INT64_MAX));
}

static void a_container_has_what_its_root_group_allows(void)
{
    clear();
    put("proc/self/cgroup", "0::/\n");
    put("proc/self/mountinfo", version_2);
    put("cg/cpu.max", "450000 100000\n");
    put("cg/memory.max", "1000000\n");
    CHECK(allows(4, 1000000));
    put("cg/memory.current", "700000\n");
    put("cg/memory.stat", "file 500000\ninactive_file_x 1\ninactive_file 200000\n");
    CHECK(allows(4, 500000));
    put("cg/cpu.max", "50000 100000\n");
    put("cg/memory.current", "1300000\n");
    CHECK(allows(1, 0));
}

static void the_least_of_all_levels_counts(void)
{
    clear();
    put("proc/self/cgroup", "0::/job/step\n");
    put("proc/self/mountinfo", version_2);
    put("cg/job/cpu.max", "300000 100000\n");
    put("cg/job/step/cpu.max", "800000 100000\n");
    put("cg/job/memory.max", "9000\n");
    put("cg/job/memory.current", "1000\n");
    put("cg/job/step/memory.max", "5000\n");
    CHECK(allows(3, 5000));
    put("cg/job/step/memory.max", "max\n");
    CHECK(allows(3, 8000));
    put("cg/elsewhere/memory.max", "1\n");
    CHECK(allows(3, 8000));
    put("proc/self/cgroup", "0::/../elsewhere\n");
    CHECK(allows(INT_MAX, INT64_MAX));
}

static void version_1_is_understood(void)
{
    clear();
    put("proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/batch\n3:memory:/docker/abc/job\n0::/\n");
    put("proc/self/mountinfo", version_1);
    put("cg/cpu/batch/cpu.cfs_quota_us", "250000\n");
    put("cg/cpu/batch/cpu.cfs_period_us", "100000\n");
    put("cg/memory/job/memory.limit_in_bytes", "5000\n");
    put("cg/memory/job/memory.usage_in_bytes", "4000\n");
    put("cg/memory/job/memory.stat", "inactive_file 7\ntotal_inactive_file 500\n");
    put("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("cg/memory/memory.usage_in_bytes", "4000\n");
    CHECK(allows(2, 1500));
    put("cg/cpu/batch/cpu.cfs_quota_us", "-1\n");
    put("cg/memory/memory.limit_in_bytes", "4100\n");
    CHECK(allows(INT_MAX, 100));
}

static bool pauses(int64_t period_ns, int64_t throttled_ns)
{
    struct allowance found = allowance_under(root);

    return found.period_ns == period_ns && found.throttled_ns == throttled_ns;
}

static void pauses_of_quotas_are_those_of_all_levels(void)
{
    clear();
    put("proc/self/cgroup", "0::/job/step\n");
    put("proc/self/mountinfo", version_2);
    CHECK(pauses(0, 0));
    put("cg/job/cpu.max", "3000 5000\n");
    put("cg/job/cpu.stat", "usage_usec 9\nnr_throttled 7\nthrottled_usec 200\n");
    put("cg/job/step/cpu.max", "30000 100000\n");
    put("cg/job/step/cpu.stat", "throttled_usec 34\n");
    CHECK(pauses(100000000, 234000));
    put("cg/job/step/cpu.max", "max 100000\n");
    CHECK(pauses(5000000, 234000));
    put("cg/job/cpu.max", "3000 9000000000000000000\n");
    CHECK(pauses(0, 234000));
    put("proc/self/cgroup", "4:cpu,cpuacct:/batch\n0::/\n");
    put("proc/self/mountinfo", version_1);
    put("cg/cpu/batch/cpu.cfs_quota_us", "2500\n");
    put("cg/cpu/batch/cpu.cfs_period_us", "5000\n");
    put("cg/cpu/batch/cpu.stat", "nr_throttled 3\nthrottled_time 77\n");
    CHECK(pauses(5000000, 77));
}

static void damaged_files_limit_nothing(void)
{
    static const char *const bad[] = {
        "", "x", "-5 100000", "100000", "5 0", "0 0", "99999999999999999999 1"
    };

    clear();
    put("proc/self/mountinfo", "31 22\nx - \n - cgroup2\n\n");
    put("proc/self/cgroup", "0:\n::\n:::\n\n0::/\n");
    CHECK(allows(INT_MAX, INT64_MAX));
    put("proc/self/mountinfo", version_2);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put("cg/cpu.max", bad[i]);
        CHECK(allowance_under(root).cores == INT_MAX);
    }
}

static void this_machine_has_a_core_and_some_memory(void)
{
    CHECK(allowance_cores() >= 1 && allowance_cores() <= sysconf(_SC_NPROCESSORS_CONF));
    CHECK(allowance_free_bytes() > 0);
}

/* ---- GPUs */

static const char *gpus(void)
{
    static char text[192];

    gpus_describe(root, text, sizeof(text));
    return text;
}

static void put_device(const char *device, const char *class, const char *vendor, const char *speed,
                       const char *width)
{
    char path[128];

    snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/class", device);
    put(path, class);
    snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/vendor", device);
    put(path, vendor);
    snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/max_link_speed", device);
    put(path, speed);
    snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/max_link_width", device);
    put(path, width);
}

static void gpus_are_counted_by_kind_and_what_is_not_known_says_so(void)
{
    clear();
    CHECK(!strcmp(gpus(), "GPUs unknown"));
    put_device("0000:00:02.0", "0x020000\n", "0x15b3\n", "16.0 GT/s PCIe\n", "16\n");
    put_device("0000:00:03.0", "0x030000\n", "0x1234\n", "Unknown\n", "0\n");
    CHECK(!strcmp(gpus(), "no GPU"));
    put_device("0000:18:00.0", "0x030200\n", "0x10de\n", "Unknown\n", "255\n");
    CHECK(!strcmp(gpus(), "1 x NVIDIA GPU of unknown model (PCIe unknown, NVLink unknown)"));
    put_device("0000:18:00.0", "0x030200\n", "0x10de\n", "32.0 GT/s PCIe\n", "16\n");
    put("proc/driver/nvidia/gpus/0000:18:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 81\n");
    put_device("0000:2a:00.0", "0x030200\n", "0x10de\n", "32.0 GT/s PCIe\n", "16\n");
    put("proc/driver/nvidia/gpus/0000:2a:00.0/information", "Model: \t\t NVIDIA H200\n");
    CHECK(!strcmp(gpus(), "2 x NVIDIA H200 (PCIe 32 GT/s x16, NVLink unknown)"));
    put_device("0000:3b:00.0", "0x038000\n", "0x1002\n", "16.0 GT/s\n", "8\n");
    put("sys/bus/pci/devices/0000:3b:00.0/product_name", "Instinct MI210\n");
    CHECK(!strcmp(gpus(), "2 x NVIDIA H200 (PCIe 32 GT/s x16, NVLink unknown) + "
                          "1 x AMD Instinct MI210 (PCIe 16 GT/s x8, xGMI unknown)"));
}

/* ---- facts */

static struct host_facts host(const char *name, const char *device)
{
    struct host_facts f = { .cores = 8, .memory_gib = 32, .free_bytes = 10LL * GIB };

    snprintf(f.host, sizeof(f.host), "%s", name);
    snprintf(f.device, sizeof(f.device), "%s", device);
    snprintf(f.network, sizeof(f.network), "Ethernet 10 Gb/s");
    snprintf(f.comm_library, sizeof(f.comm_library), "MPI 1");
    snprintf(f.compute_library, sizeof(f.compute_library), "BLAS 1");
    return f;
}

static void the_smallest_share_of_free_memory_rules(void)
{
    struct host_facts f[5];

    for (int i = 0; i < 5; i++)
        f[i] = host(i < 4 ? "a" : "b", "cpu");
    CHECK(fabs(machine_compose(f, 5, 0).memory_gib - 2) < 2e-3); /* a quarter of 10, and 0.8 */
    f[4].free_bytes = GIB;
    CHECK(fabs(machine_compose(f, 5, 0).memory_gib - 0.8) < 2e-3);
    f[4].free_bytes = INT64_MAX;
    CHECK(fabs(machine_compose(f, 5, 0).memory_gib - 2) < 2e-3);
    /* Ranks of a host need not be neighbours, and a pretended node is no host. */
    snprintf(f[0].host, sizeof(f[0].host), "b");
    CHECK(fabs(machine_compose(f, 4, 1).memory_gib - 8. / 3) < 2e-3);
    f[0].free_bytes = INT64_MAX;
    CHECK(isnan(machine_compose(f, 1, 1).memory_gib));
}

static void unlike_hosts_are_named_in_one_order(void)
{
    struct host_facts f[3] = { host("b", "new cpu"), host("a", "old cpu"), host("c", "new cpu") },
                      g[3] = { f[1], f[2], f[0] };
    struct cluster c = machine_compose(f, 3, 1), d = machine_compose(g, 3, 1);
    uint8_t x[HASH_BYTES], y[HASH_BYTES];

    CHECK(!strcmp(c.device, "new cpu / old cpu") && !strcmp(c.hosts, "a / b / c"));
    CHECK(c.nodes == 3 && !strcmp(c.link_between, "Ethernet 10 Gb/s") &&
          !strcmp(c.link_inside, "none"));
    cluster_hash(&c, x);
    cluster_hash(&d, y);
    CHECK(!memcmp(x, y, sizeof(x)));
    f[1].cores = 4;
    f[2].memory_gib = 16;
    c = machine_compose(f, 3, 1);
    CHECK(c.device_units == 4 && c.device_gib == 16);
}

static void what_one_host_does_not_know_nobody_knows(void)
{
    struct host_facts f[2] = { host("a", "cpu"), host("b", "") };
    struct cluster c = machine_compose(f, 2, 1);

    CHECK(!strcmp(c.device, "unknown") && !cluster_answers(&c, &c));
    f[1] = host("b", "cpu");
    c = machine_compose(f, 2, 1);
    CHECK(!strcmp(c.device, "cpu") && cluster_answers(&c, &c));
    f[0].network[0] = 0;
    c = machine_compose(f, 2, 1);
    CHECK(!strcmp(c.link_between, "unknown") && !cluster_answers(&c, &c));
    f[0].cores = 0;
    CHECK(machine_compose(f, 2, 1).device_units == 0);
}

/* ---- speeds of ranks */

static const char *speeds_text(const double *speeds, size_t ranks, size_t size)
{
    static char text[1024];

    rank_speeds_format(speeds, ranks, text, size);
    return text;
}

static void speeds_are_runs_of_equal_ranks(void)
{
    const double speeds[] = { 1, 0.996, 0.63, 0.63, 0.004 }, unknown[] = { 1, NAN };
    double slowest = 7;
    size_t ranks = 7;

    CHECK(!strcmp(speeds_text(speeds, 5, 1024), "2x100 2x63 1x1"));
    CHECK(rank_speeds_parse("2x100 2x63 1x1", &ranks, &slowest) && ranks == 5 && slowest == 0.01);
    CHECK(rank_speeds_parse("1x100", &ranks, &slowest) && ranks == 1 && slowest == 1);
    CHECK(!strcmp(speeds_text(unknown, 2, 1024), "unknown"));
    CHECK(!strcmp(speeds_text(speeds, 0, 1024), "unknown"));
}

static void a_text_of_speeds_is_a_list_of_ranks(void)
{
    double speeds[6] = { 7, 7, 7, 7, 7, 7 };

    rank_speeds_list("2x100 2x63 1x1", speeds);
    CHECK(speeds[0] == 1 && speeds[1] == 1 && speeds[2] == 0.63 && speeds[3] == 0.63);
    CHECK(speeds[4] == 0.01 && speeds[5] == 7);
}

static void many_ranks_are_told_apart_as_far_as_there_is_room(void)
{
    double speeds[2048], slowest;
    size_t ranks;

    for (int i = 0; i < 2048; i++)
        speeds[i] = i % 7 ? 1 - 0.01 * (i % 5) : 0.96;
    CHECK(rank_speeds_parse(speeds_text(speeds, 2048, 1024), &ranks, &slowest));
    CHECK(ranks == 2048 && slowest == 1);
    speeds[1000] = 0.5;
    CHECK(rank_speeds_parse(speeds_text(speeds, 2048, 1024), &ranks, &slowest));
    CHECK(ranks == 2048 && slowest == 0.5);
    for (int i = 0; i < 2048; i++)
        speeds[i] = i % 2 ? 1 : 0.5;
    CHECK(!strcmp(speeds_text(speeds, 2048, 1024), "unknown"));
}

static void what_is_no_text_of_speeds_is_refused(void)
{
    static const char *const bad[] = { "",          "unknown", "2x",     "x50",       "2x0",
                                       "0x50",      "1x101",   "2x50 ,", "2x50x",     "2x50.5",
                                       "-1x5",      "2x50  z", "1x1000", "9999999x5", " 2x50",
                                       "2x50  1x5", "2x 50",   "x" };
    double slowest = 7;
    size_t ranks = 7;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (rank_speeds_parse(bad[i], &ranks, &slowest) || ranks != 7 || slowest != 7) {
            printf("  taken: \"%s\"\n", bad[i]);
            CHECK(false);
        }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(without_control_groups_nothing_is_limited),
        TEST(a_container_has_what_its_root_group_allows),
        TEST(the_least_of_all_levels_counts),
        TEST(version_1_is_understood),
        TEST(pauses_of_quotas_are_those_of_all_levels),
        TEST(damaged_files_limit_nothing),
        TEST(this_machine_has_a_core_and_some_memory),
        TEST(gpus_are_counted_by_kind_and_what_is_not_known_says_so),
        TEST(the_smallest_share_of_free_memory_rules),
        TEST(unlike_hosts_are_named_in_one_order),
        TEST(what_one_host_does_not_know_nobody_knows),
        TEST(speeds_are_runs_of_equal_ranks),
        TEST(a_text_of_speeds_is_a_list_of_ranks),
        TEST(many_ranks_are_told_apart_as_far_as_there_is_room),
        TEST(what_is_no_text_of_speeds_is_refused),
    };
    int failed;

    if (!mkdtemp(root))
        return 1;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    clear();
    rmdir(root);
    return failed;
}
