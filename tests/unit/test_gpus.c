/* Tests what moetune prints of GPUs, from invented conditions, so no GPU is needed. */
#include "check.h"

#include "doctor.h"
#include "machine.h"
#include "nvml.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

/* Four ranks on four sound GPUs of one host. */
static void sound(struct gpu_condition *ranks)
{
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct gpu_condition){ .seen = RANKS,
                                           .clock_mhz = 1980,
                                           .clock_max_mhz = 1980,
                                           .persistence = 1,
                                           .copies_beside = i == 0 ? 1 : -1,
                                           .links = 18,
                                           .driver = 13000,
                                           .runtime = 13000,
                                           .nccl = 22809 };
        snprintf(ranks[i].host, sizeof(ranks[i].host), "abacus");
        snprintf(ranks[i].name, sizeof(ranks[i].name), "NVIDIA H200");
        snprintf(ranks[i].bus, sizeof(ranks[i].bus), "0000:%02x:00.0", i);
    }
}

static struct findings findings_of(const struct gpu_condition *ranks)
{
    struct findings found = { .count = 0 };

    gpu_doctor_ranks(ranks, RANKS, &found);
    return found;
}

/* The one finding that is not fine; NULL: none, or several. */
static const struct finding *only_fault(const struct findings *found)
{
    const struct finding *fault = NULL;

    for (int i = 0; i < found->count; i++)
        if (found->list[i].level != FINDING_FINE) {
            if (fault)
                return NULL;
            fault = &found->list[i];
        }
    return fault;
}

static bool says(const struct findings *found, const char *what)
{
    for (int i = 0; i < found->count; i++)
        if (strstr(found->list[i].what, what))
            return true;
    return false;
}

static void sound_gpus_are_fine_and_named(void)
{
    struct gpu_condition ranks[RANKS];
    struct findings found;

    sound(ranks);
    found = findings_of(ranks);
    CHECK(findings_worst(&found) == FINDING_FINE);
    CHECK(says(&found, "CUDA 13.0, a driver for 13.0, NCCL 2.28.9"));
    CHECK(says(&found, "NVIDIA H200, one for each of 4 ranks; 4 seen on abacus"));
    CHECK(says(&found, "by NVLink") && says(&found, "1980 of 1980 MHz"));
}

static void each_fault_is_one_finding_with_effect_and_cure(void)
{
    static const struct {
        size_t offset;
        int32_t value;
        enum finding_level level;
        const char *says;
    } faults[] = {
        { offsetof(struct gpu_condition, out_of_reach), 2, FINDING_NOTE,
          "reach 2 of 4 GPUs of abacus" },
        { offsetof(struct gpu_condition, persistence), 0, FINDING_NOTE, "persistence: off" },
        { offsetof(struct gpu_condition, copies_beside), 0, FINDING_NOTE,
          "copies within the GPU: they use its multiprocessors, on abacus (rank 2)" },
        { offsetof(struct gpu_condition, mig), 1, FINDING_NOTE, "MIG: the GPU of rank 2" },
        { offsetof(struct gpu_condition, busy_percent), 40, FINDING_WRONG, "40 % on abacus" },
    };

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct gpu_condition ranks[RANKS];
        struct findings found;
        const struct finding *fault;

        sound(ranks);
        memcpy((char *)&ranks[2] + faults[i].offset, &faults[i].value, sizeof(int32_t));
        found = findings_of(ranks);
        fault = only_fault(&found);
        CHECK(fault && fault->level == faults[i].level && strstr(fault->what, faults[i].says));
        CHECK(fault && fault->effect && fault->cure);
    }
}

static void words_make_faults_too(void)
{
    struct gpu_condition ranks[RANKS];
    struct findings found;
    const struct finding *fault;

    sound(ranks);
    memcpy(ranks[3].bus, ranks[1].bus, sizeof(ranks[3].bus));
    found = findings_of(ranks);
    fault = only_fault(&found);
    CHECK(fault && fault->level == FINDING_WRONG && strstr(fault->what, "ranks 1 and 3 share"));
    snprintf(ranks[3].host, sizeof(ranks[3].host), "slate"); /* the same bus id, another host */
    found = findings_of(ranks);
    CHECK(!only_fault(&found));
    snprintf(ranks[1].throttled, sizeof(ranks[1].throttled), "heat");
    found = findings_of(ranks);
    fault = only_fault(&found);
    CHECK(fault && strstr(fault->what, "held back by heat"));
}

static void an_older_driver_is_a_note_and_an_unknown_clock_is_not(void)
{
    struct gpu_condition ranks[RANKS];
    struct findings found;
    const struct finding *fault;

    sound(ranks);
    for (int i = 0; i < RANKS; i++) {
        ranks[i].driver = 12040;
        ranks[i].clock_mhz = ranks[i].clock_max_mhz = ranks[i].persistence = -1;
        ranks[i].mig = ranks[i].busy_percent = ranks[i].links = -1;
    }
    found = findings_of(ranks);
    fault = only_fault(&found);
    CHECK(fault && strstr(fault->what, "a driver for 12.4"));
    CHECK(says(&found, "GPU clock: not known"));
}

static void without_nccl_gpus_cannot_exchange_and_that_is_wrong(void)
{
    struct gpu_condition ranks[RANKS];
    struct findings found;
    const struct finding *fault;

    sound(ranks);
    ranks[0].nccl = 0;
    found = findings_of(ranks);
    fault = only_fault(&found);
    CHECK(fault && fault->level == FINDING_WRONG && strstr(fault->what, "13.0, no NCCL"));
    CHECK(fault && fault->cure && strstr(fault->cure, "pip install nvidia-nccl-cu13"));
}

static void a_driver_that_is_too_old_is_told_even_where_the_bus_shows_no_gpu(void)
{
    struct gpus none = { .why = "no GPU answers: the NVIDIA driver knows CUDA 12.4",
                         .built = true,
                         .driver = 12040,
                         .runtime = 13000 };
    struct findings found = { .count = 0 };

    gpu_doctor_without_gpus(&none, false, &found);
    CHECK(found.count == 1 && found.list[0].level == FINDING_NOTE);
    CHECK(found.count == 1 && strstr(found.list[0].cure, "a newer driver, or moetune built with"));
}

static void without_an_answering_gpu_there_is_one_plain_line(void)
{
    struct gpus none = { .why = "no GPU answers: there is no NVIDIA driver" };

    for (int on_the_bus = 0; on_the_bus < 2; on_the_bus++)
        for (int built = 0; built < 2; built++) {
            struct findings found = { .count = 0 };
            const char *cure;

            none.built = built;
            gpu_doctor_without_gpus(&none, on_the_bus, &found);
            CHECK(found.count == 1 && strstr(found.list[0].what, "no NVIDIA driver"));
            CHECK(found.list[0].level == (on_the_bus ? FINDING_NOTE : FINDING_FINE));
            cure = found.list[0].cure ? found.list[0].cure : "";
            CHECK(!on_the_bus || (strstr(cure, "toolkit") == NULL) == built);
        }
}

/* Products run elsewhere and messages go another way: what is said of cores is that there be one.
 */
static void of_their_host_ranks_on_gpus_hear_of_cores_alone(void)
{
    struct findings on_gpus = { .count = 0 }, crowd = { .count = 0 }, elsewhere = { .count = 0 };
    struct findings on_cores = { .count = 0 };

    doctor_here(1, true, &on_gpus);
    CHECK(on_gpus.count == 1 && says(&on_gpus, "cores: 1 rank on"));
    doctor_here(100000, true, &crowd);
    CHECK(only_fault(&crowd) && only_fault(&crowd)->level == FINDING_WRONG);
    doctor_here(0, true, &elsewhere);
    CHECK(!elsewhere.count);
    doctor_here(1, false, &on_cores);
    CHECK(says(&on_cores, "cores: 1 rank ") && says(&on_cores, "BLAS") && says(&on_cores, "load"));
}

static struct host_facts facts(const char *bus)
{
    struct host_facts f = { .multiprocessors = 132, .memory_gib = 141, .free_bytes = 100LL << 30 };

    snprintf(f.host, sizeof(f.host), "abacus");
    snprintf(f.backend, sizeof(f.backend), "cuda");
    snprintf(f.device, sizeof(f.device), "NVIDIA H200");
    snprintf(f.link, sizeof(f.link), "NVLink");
    snprintf(f.comm_library, sizeof(f.comm_library), "NCCL 2.28");
    snprintf(f.bus, sizeof(f.bus), "%s", bus);
    return f;
}

static void ranks_that_share_a_gpu_are_another_cluster(void)
{
    struct host_facts apart[2] = { facts("0000:01:00.0"), facts("0000:02:00.0") };
    struct host_facts together[2] = { facts("0000:01:00.0"), facts("0000:01:00.0") };
    struct cluster a = machine_compose(apart, 2, 2), b = machine_compose(together, 2, 2);
    uint8_t x[HASH_BYTES], y[HASH_BYTES];

    CHECK(!strcmp(a.backend, "cuda") && a.device_units == 132 && a.device_gib == 141);
    CHECK(!strcmp(a.link_inside, "NVLink") && !strcmp(a.comm_library, "NCCL 2.28"));
    CHECK(a.memory_gib > 79.9 && a.memory_gib <= 80 && b.memory_gib > 39.9 && b.memory_gib <= 40);
    CHECK(strstr(b.link_inside, "shared") && !strstr(b.comm_library, "NCCL"));
    cluster_hash(&a, x);
    cluster_hash(&b, y);
    CHECK(memcmp(x, y, sizeof(x)) != 0);
}

/* For tests/program/test_devices, which brings a library: everything that is asked of it. */
static int print_nvml(const char *bus)
{
    struct nvml *nvml = nvml_open(bus);
    const char *why = nvml_throttled(nvml);

    printf("%s %d %d %d %d %d %d %s\n", nvml ? "there" : "absent", nvml_clock_mhz(nvml),
           nvml_clock_max_mhz(nvml), nvml_persistence(nvml), nvml_mig(nvml), nvml_links(nvml),
           nvml_busy_percent(nvml), why ? why : "-");
    nvml_close(nvml);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(sound_gpus_are_fine_and_named),
        TEST(each_fault_is_one_finding_with_effect_and_cure),
        TEST(words_make_faults_too),
        TEST(an_older_driver_is_a_note_and_an_unknown_clock_is_not),
        TEST(without_nccl_gpus_cannot_exchange_and_that_is_wrong),
        TEST(a_driver_that_is_too_old_is_told_even_where_the_bus_shows_no_gpu),
        TEST(without_an_answering_gpu_there_is_one_plain_line),
        TEST(of_their_host_ranks_on_gpus_hear_of_cores_alone),
        TEST(ranks_that_share_a_gpu_are_another_cluster),
    };

    return argc == 3 && !strcmp(argv[1], "--nvml")
               ? print_nvml(argv[2])
               : check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
