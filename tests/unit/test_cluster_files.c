/* Compares files of modelled clusters: files of the same machine with each other, and one file with
 * itself under another dtype. */
#include "check.h"

#include "modelled.h"
#include "status.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEAST = 64, APART = 1000, CAPACITIES = 4 };
/* Files of one machine come from different measurements: beyond this share they say the same. */
static const double near = .25;

static const char *const layers[] = {
    "E=8 k=2 T=4096 D=2048 H=4096 pass=train",   "E=32 k=2 T=4096 D=1024 H=4096 pass=train",
    "E=64 k=2 T=2048 D=1024 H=4096 pass=train",  "E=64 k=8 T=4096 D=2048 H=1024 pass=forward",
    "E=2 k=2 T=4096 D=2048 H=8192 pass=forward",
};
enum { LAYERS = sizeof(layers) / sizeof(layers[0]) };

struct times {
    double gathered[CAPACITIES], moved[CAPACITIES]; /* the least with r = 0, and with r > 0 */
};

static struct times times_of(const char *file, const char *layer, uint32_t dtype)
{
    struct moe_shape shape = MOE_SHAPE_INIT;
    struct modelled m;
    struct times times;

    CHECK(!shape_parse(layer, &shape));
    shape.dtype = dtype;
    CHECK(!modelled_open(file, &shape, LEAST, APART, CAPACITIES, &m));
    for (uint32_t i = 0; i < CAPACITIES; i++) {
        times.gathered[i] = times.moved[i] = INFINITY;
        for (size_t arm = 0; arm < m.arm_count; arm++) {
            double *least = m.arms[arm].r ? &times.moved[i] : &times.gathered[i];

            *least = fmin(*least, modelled_ns(&m, LEAST + i * APART, (int)arm));
        }
    }
    modelled_close(&m);
    return times;
}

static bool same_winner(const struct times *a, const struct times *b, uint32_t i)
{
    double first = log(a->gathered[i] / a->moved[i]), second = log(b->gathered[i] / b->moved[i]);

    return first * second >= 0 || fmin(fabs(first), fabs(second)) < log(1 + near);
}

static void files_of_one_machine_agree_whether_weights_or_tokens_move(void)
{
    static const char *const pairs[][2] = {
        { "tests/data/clusters/ndm-a100.txt", "tests/data/clusters/ndm-a100-8.txt" },
        { "tests/data/clusters/h200-node.txt", "tests/data/clusters/h200-node-ctas.txt" },
    };
    static const uint32_t types[] = { MOE_F32, MOE_BF16 };
    int gathered = 0, moved = 0;

    for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++)
        for (size_t k = 0; k < LAYERS * 2; k++) {
            const char *layer = layers[k / 2];
            struct times a = times_of(pairs[p][0], layer, types[k % 2]);
            struct times b = times_of(pairs[p][1], layer, types[k % 2]);

            for (uint32_t i = 0; i < CAPACITIES; i++) {
                if (!same_winner(&a, &b, i))
                    printf("%s %s, type %u, c=%u: r=0 takes %.3f and %.3f of the others\n",
                           pairs[p][0], layer, types[k % 2], LEAST + i * APART,
                           a.gathered[i] / a.moved[i], b.gathered[i] / b.moved[i]);
                CHECK(same_winner(&a, &b, i));
                gathered += a.gathered[i] < a.moved[i];
                moved += a.gathered[i] > a.moved[i];
            }
        }
    CHECK(gathered > 10 && moved > 10); /* neither wins everywhere */
}

/* Half of the bytes, and faster products. */
static void gathering_in_16_bits_takes_no_longer_than_in_32(void)
{
    glob_t files;
    size_t seen = 0;

    CHECK(!glob("tests/data/clusters/*.txt", 0, NULL, &files));
    for (size_t f = 0; f < files.gl_pathc; f++) {
        struct cluster c;

        CHECK(!cluster_read(files.gl_pathv[f], &c));
        if (strncmp(c.comm_library, "NCCL", 4) != 0 || c.ranks == 1)
            continue;
        seen++;
        CHECK(isfinite(c.ring_step_us));
        CHECK(isfinite(c.ring_step_between_us) == (c.nodes > 1));
        for (size_t k = seen % 2; k < LAYERS; k += 2) {
            struct times wide = times_of(files.gl_pathv[f], layers[k], MOE_F32);
            struct times narrow = times_of(files.gl_pathv[f], layers[k], MOE_BF16);

            for (uint32_t i = 0; i < CAPACITIES; i++)
                CHECK(narrow.gathered[i] <= wide.gathered[i]);
        }
    }
    CHECK(seen >= 13);
    globfree(&files);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(files_of_one_machine_agree_whether_weights_or_tokens_move),
        TEST(gathering_in_16_bits_takes_no_longer_than_in_32),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
