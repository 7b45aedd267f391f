/* Tests kernels on rows that differ from expert to expert, each against the plainest loop that
 * computes the same, on random inputs; and the text and sums of capacities. */
#include "check.h"

#include "capacities.h"
#include "host.h"
#include "random.h"
#include "rows.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed, drawn;

static uint32_t below(uint32_t n)
{
    return random_below(seed, drawn++, n);
}

static float *floats(uint64_t n)
{
    float *f = malloc((n + 1) * sizeof(*f));

    for (uint64_t i = 0; i < n; i++)
        f[i] = random_unit(seed, drawn++);
    return f;
}

/* By chance: 1e-6: in 151 seeds f32 sums came to .03 of this, other types to .67, half a step. */
static bool near(double got, double want, double allowed)
{
    return fabs(got - want) <= allowed * (1 + fabs(want));
}

enum { OWNERS = 9 };

/* Where the rows of each begin, some of which have none. */
static uint64_t some_owners(uint64_t first[OWNERS + 1], uint64_t count)
{
    first[0] = 0;
    for (uint64_t i = 0; i < count; i++)
        first[i + 1] = first[i] + (below(3) ? below(9) : 0);
    return first[count];
}

static uint64_t owner_of(const uint64_t *first, uint64_t row)
{
    uint64_t i = 0;

    while (first[i + 1] <= row)
        i++;
    return i;
}

/* ---- */

/* One element of an expert's product; `row` and `column` are of its c. */
static double product_at(const struct gemm_rows *g, uint64_t i, uint64_t row, uint64_t column)
{
    const float *a = g->a, *b = g->b;
    double sum = 0;

    if (g->sums)
        for (uint64_t r = g->first[i]; r < g->first[i + 1]; r++)
            sum += (double)a[r * g->k + row] * (double)b[r * g->n + column];
    for (uint64_t l = 0; l < g->k && !g->sums; l++)
        sum +=
            (double)a[(g->first[i] + row) * g->k + l] *
            (double)b[i * g->n * g->k + (g->transpose_b ? column * g->k + l : l * g->n + column)];
    return sum;
}

static void gemm_rows_multiplies_each_experts_own_rows(void)
{
    for (int round = 0; round < 80; round++) {
        uint64_t experts = 1 + below(OWNERS), first[OWNERS + 1], n = 1 + below(12);
        uint64_t k = 1 + below(12), rows = some_owners(first, experts), at = 0;
        bool sums = below(2);
        float *a = floats(rows * k), *b = floats(sums ? rows * n : experts * n * k);
        uint64_t of_c = sums ? experts * n * k : rows * n;
        float *c = floats(of_c), *before = malloc((of_c + 1) * sizeof(*before));
        struct gemm_rows g = { .dtype = MOE_F32,
                               .sums = sums,
                               .transpose_b = !sums && below(2),
                               .keep = below(2),
                               .experts = (uint32_t)experts,
                               .n = n,
                               .k = k,
                               .first = first,
                               .a = a,
                               .b = b,
                               .c = c };

        memcpy(before, c, of_c * sizeof(*c));
        host_gemm_rows(&g);
        for (uint64_t i = 0; i < experts; i++)
            for (uint64_t row = 0; row < (sums ? k : first[i + 1] - first[i]); row++)
                for (uint64_t column = 0; column < n; column++, at++)
                    CHECK(near((double)c[at],
                               product_at(&g, i, row, column) + (g.keep ? (double)before[at] : 0),
                               1e-5));
        CHECK(at == of_c);
        free(a), free(b), free(c), free(before);
    }
}

/* Blocks whose places on the other side are in an order of their own. */
static uint64_t some_blocks(struct row_block *blocks, uint64_t count, uint64_t terms, uint64_t *all)
{
    uint64_t rows = 0;

    *all = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length = below(3) ? below(5) : 0;

        blocks[i] = (struct row_block){ rows, 0, rows, length + below(2) };
        rows += length;
    }
    for (uint64_t i = count; i-- > 0;) {
        blocks[i].from = *all;
        *all += terms * blocks[i].step;
    }
    return rows;
}

static void move_rows_follows_its_table(void)
{
    for (int round = 0; round < 200; round++) {
        uint32_t from_type = below(3), to_type = below(3);
        uint64_t count = 1 + below(6), terms = 1 + below(3), all;
        uint64_t width = 1 + below(below(4) ? 9 : 2500);
        struct row_block blocks[6];
        uint64_t rows = some_blocks(blocks, count, terms, &all), block = 0;
        float *values = floats(all * width), *got = malloc((rows * width + 1) * sizeof(*got));
        void *from = malloc(all * width * 4 + 4), *to = malloc(rows * width * 4 + 4);

        row_store(from_type, from, 0, values, all * width);
        row_load(from_type, from, 0, values, all * width);
        host_move_rows(
            &(struct move_rows){ from_type, to_type, width, rows, terms, count, blocks, from, to });
        row_load(to_type, to, 0, got, rows * width);
        for (uint64_t row = 0; row < rows; row++) {
            while (block + 1 < count && blocks[block + 1].first <= row)
                block++;
            for (uint64_t i = 0; i < width; i += 1 + width / 7) {
                uint64_t at = blocks[block].from + row - blocks[block].first;
                double want = 0;

                for (uint64_t t = 0; t < terms; t++)
                    want += (double)values[(at + t * blocks[block].step) * width + i];
                CHECK(near((double)got[row * width + i], want,
                           to_type == MOE_F32 ? 1e-5 : (to_type == MOE_BF16 ? 0x1p-8 : 0x1p-10)));
            }
        }
        free(values), free(got), free(from), free(to);
    }
}

static void rows_that_differ_get_the_biases_of_their_owners(void)
{
    for (int round = 0; round < 60; round++) {
        uint64_t batch = 1 + below(OWNERS), first[OWNERS + 1], width = 1 + below(20);
        uint64_t rows = some_owners(first, batch), n = rows * width;
        bool keep = below(2);
        float *to = floats(n), *bias = floats(batch * width), *sum = floats(batch * width);
        float *post = floats(n), *before = malloc((n + 1) * sizeof(*before));
        float *sum_before = malloc((batch * width + 1) * sizeof(*sum_before));

        memcpy(before, to, n * sizeof(*to));
        memcpy(sum_before, sum, batch * width * sizeof(*sum));
        host_sum_rows(
            &(struct sum_rows){ MOE_F32, keep, batch, rows, width, width, to, sum, first });
        host_activate(&(struct activate){ MOE_F32, MOE_RELU, batch, rows, width, bias, to, NULL,
                                          post, first });
        for (uint64_t i = 0; i < n; i++) {
            uint64_t owner = owner_of(first, i / width);
            float x = before[i] + bias[owner * width + i % width];

            CHECK(to[i] == x && post[i] == (x > 0 ? x : 0));
            sum_before[owner * width + i % width] *=
                i / width == first[owner] && !keep ? 0.0f : 1.0f;
            sum_before[owner * width + i % width] += before[i];
        }
        for (uint64_t i = 0; i < batch * width; i++) {
            bool none = first[i / width] == first[i / width + 1] && !keep;

            CHECK(near((double)sum[i], none ? 0 : (double)sum_before[i], 1e-5));
        }
        memcpy(before, to, n * sizeof(*to));
        host_add_bias(&(struct add_bias){ MOE_F32, batch, rows, width, width, bias, to, first });
        for (uint64_t i = 0; i < n; i++)
            CHECK(to[i] == before[i] + bias[owner_of(first, i / width) * width + i % width]);
        free(to), free(bias), free(sum), free(post), free(before), free(sum_before);
    }
}

/* ---- Capacities */

static void capacities_are_read_as_one_number_for_each_expert(void)
{
    static const uint64_t want[6] = { 512, 64, 64, 64, 0, 7 };
    uint64_t *rows = NULL;

    CHECK(!capacities_parse("512,64*3,0,7", 6, 512, &rows));
    CHECK(rows && !memcmp(rows, want, sizeof(want)));
    free(rows);
    CHECK(!capacities_parse("9*6", 6, 9, &rows) && rows[0] == 9 && rows[5] == 9);
    CHECK(!capacities_of(rows, 6).rows && capacities_of(rows, 6).most == 9);
    free(rows);
}

static void wrong_capacities_are_refused_and_leave_the_output_alone(void)
{
    static const char *const bad[] = {
        "",       ",",         "1,2",     "1,2,3,4",
        "1*4",    "1,2,",      "1,,2,3",  "-1,2,3",
        "1,2,x",  "1*0,2,3,4", "1*,2,3",  "1,2,99999999999999999999",
        "1 ,2,3", "101*3",     "1,2,101", "1*18446744073709551615",
    };
    uint64_t *rows = NULL;

    log_enable(false);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(capacities_parse(bad[i], 3, 100, &rows) == ERR_ARGUMENT && !rows);
    log_enable(true);
}

static void the_key_is_the_mean_of_the_fullest_rank(void)
{
    uint64_t rows[8] = { 1, 2, 30, 41, 5, 6, 7, 8 };
    struct capacities c = capacities_of(rows, 8);
    struct moe_shape s = { .struct_size = sizeof(s), .experts = 8, .ranks = 4 };

    CHECK(c.rows == rows && c.most == 41 && capacities_sum(&c, 8) == 100);
    CHECK(capacities_fullest(&c, &s) == 1 && capacities_of_rank(&c, &s, 1) == 71);
    CHECK(capacities_key(&c, &s) == 36); /* 71 / 2, rounded up */
    s.ranks = 8;
    CHECK(capacities_key(&c, &s) == 41 && capacities_fullest(&c, &s) == 3);
    s.ranks = 16; /* two for each expert */
    CHECK(capacities_key(&c, &s) == 41 && capacities_fullest(&c, &s) == 6);
    s.ranks = 1;
    CHECK(capacities_key(&c, &s) == 13);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(gemm_rows_multiplies_each_experts_own_rows),
        TEST(move_rows_follows_its_table),
        TEST(rows_that_differ_get_the_biases_of_their_owners),
        TEST(capacities_are_read_as_one_number_for_each_expert),
        TEST(wrong_capacities_are_refused_and_leave_the_output_alone),
        TEST(the_key_is_the_mean_of_the_fullest_rank),
    };

    seed = test_seed();
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
