/* The kernels at the size of a large layer (16384 tokens of 7168 columns, bf16).  A GPU computes
 * all of it.  A CPU runs some blocks of each grid, at its begin, at its end and between: what they
 * wrote must be right, and lie where it belongs. */
#include "check.h"

#include "cuda_subject.h"
#include "host.h"
#include "moelookup.h"
#include "random.h"
#include "rows.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 16384, WIDTH = 7168, EXPERTS = 64, CHOICES = 2, CAPACITY = 512 };
enum { ROWS = EXPERTS * CAPACITY, ROW_BYTES = WIDTH * 2, PATTERN = 1 << 16 };
enum { TYPE = MOE_BF16, SAMPLED_BLOCKS = 48, NOBODY = -1 };

static uint64_t seed;
static struct device *device;
static struct stream *stream;
static uint16_t pattern[PATTERN + WIDTH]; /* every row of every input is a piece of it */
static float values[PATTERN + WIDTH];     /* the same */

/* ---- Inputs and where they lie on the subject */

enum input { TOKEN_ROWS, EXPERT_ROWS };

static uint32_t place(enum input input, uint64_t row)
{
    return (uint32_t)random_bits(seed + input, row) % PATTERN;
}

static const float *row_values(enum input input, uint64_t row)
{
    return values + place(input, row);
}

static void *on_subject(const void *from, size_t bytes)
{
    void *at = NULL;

    CHECK(!device_alloc(device, bytes, &at));
    if (from)
        CHECK(!device_upload(device, at, from, bytes));
    return at;
}

static void *input_on_subject(enum input input, uint64_t rows)
{
    char *at = on_subject(NULL, rows * ROW_BYTES);

    for (uint64_t i = 0; i < rows; i++)
        CHECK(!device_upload(device, at + i * ROW_BYTES, pattern + place(input, i), ROW_BYTES));
    return at;
}

/* NaN in every type: what no kernel wrote. */
static void poison(void *at, size_t bytes)
{
    static char nothing[ROW_BYTES];

    memset(nothing, 0xff, sizeof(nothing));
    for (size_t i = 0; i < bytes; i += ROW_BYTES)
        CHECK(!device_upload(device, (char *)at + i, nothing, ROW_BYTES));
}

/* ---- What was written */

struct found {
    uint64_t right, wrong;
};

static void compare(struct found *found, uint32_t type, const void *got, const float *want,
                    double allowed)
{
    float is[WIDTH];

    row_load(type, got, 0, is, WIDTH);
    for (int i = 0; i < WIDTH; i++) {
        bool right = fabs((double)is[i] - (double)want[i]) <= allowed * fabs((double)want[i]);

        found->right += right;
        found->wrong += !right && !isnan(is[i]);
    }
}

/* Rows 0 .. n-1 of an output: what was written is want(row). */
static void check_rows(uint32_t type, const char *at, uint64_t n, double allowed,
                       void (*want)(uint64_t row, float *to))
{
    static char got[WIDTH * 4];
    static float wanted[WIDTH];
    struct found found = { 0, 0 };
    size_t bytes = (size_t)WIDTH * (type == MOE_F32 ? 4 : 2);

    for (uint64_t i = 0; i < n; i++) {
        CHECK(!device_download(device, got, at + i * bytes, bytes));
        if (got[0] == (char)0xff && !memcmp(got, got + 1, bytes - 1))
            continue;
        want(i, wanted);
        compare(&found, type, got, wanted, allowed);
    }
    CHECK(found.wrong == 0);
    CHECK(found.right >= (uint64_t)3 * WIDTH);
}

/* At the grid's begin, its end, and somewhere between. */
static void launch_parts(enum kernel kernel, const void *args, size_t bytes)
{
    double at[] = { 0, 1, (double)random_unit(seed, 1) / 2 + 0.5 };

    for (int i = 0; i < 3; i++) {
        subject_sample(at[i], SAMPLED_BLOCKS);
        CHECK(!stream_launch(stream, kernel, args, bytes));
        CHECK(!stream_sync(stream));
    }
    subject_sample(0, 0);
}
#define LAUNCH(name, args) launch_parts(KERNEL_##name, args, sizeof(*(args)))

/* ---- A routing, and what is wanted of the four kernels that use it */

static int32_t expert[TOKENS * CHOICES];
static int64_t slot[TOKENS * CHOICES], needed[EXPERTS];
static float gate[TOKENS * CHOICES];
static int32_t choice_of[ROWS]; /* NOBODY: a row that stays empty */
static struct routing routing;

static void route_all(void)
{
    for (int i = 0; i < ROWS; i++)
        choice_of[i] = NOBODY;
    for (int j = 0; j < CHOICES; j++)
        for (int t = 0; t < TOKENS; t++) {
            int at = t * CHOICES + j;

            expert[at] = (int32_t)((random_bits(seed + 2, (uint64_t)t) + (uint64_t)j) % EXPERTS);
            slot[at] = needed[expert[at]] < CAPACITY ? needed[expert[at]] : -1;
            needed[expert[at]]++;
            gate[at] = 0.25f + random_unit(seed + 3, (uint64_t)at) / 8;
            if (slot[at] >= 0)
                choice_of[expert[at] * CAPACITY + slot[at]] = at;
        }
    routing = (struct routing){ TOKENS,
                                EXPERTS,
                                CHOICES,
                                WIDTH,
                                CAPACITY,
                                CAPACITY,
                                on_subject(expert, sizeof(expert)),
                                on_subject(slot, sizeof(slot)),
                                on_subject(needed, sizeof(needed)) };
}

static void scaled_token(uint64_t row, bool by_gate, float *to)
{
    int32_t choice = choice_of[row];
    const float *x = choice == NOBODY ? NULL : row_values(TOKEN_ROWS, (uint64_t)choice / CHOICES);

    for (int i = 0; i < WIDTH; i++)
        to[i] = x ? (by_gate ? gate[choice] : 1) * x[i] : 0;
}

static void encoded(uint64_t row, float *to)
{
    scaled_token(row, false, to);
}

static void scattered(uint64_t row, float *to)
{
    scaled_token(row, true, to);
}

/* Values are of one sign, so that no sum is much smaller than its terms. */
static void decoded(uint64_t token, float *to)
{
    memset(to, 0, WIDTH * sizeof(*to));
    for (uint64_t at = token * CHOICES; at < (token + 1) * CHOICES; at++)
        for (int i = 0; i < WIDTH && slot[at] >= 0; i++)
            to[i] +=
                gate[at] * row_values(EXPERT_ROWS, (uint64_t)(expert[at] * CAPACITY + slot[at]))[i];
}

static void widened(uint64_t token, float *to)
{
    memcpy(to, row_values(TOKEN_ROWS, token), WIDTH * sizeof(*to));
}

static void *tokens, *rows, *gates, *out; /* out: as many bytes as rows have */

static void encode_takes_every_token_to_its_rows(void)
{
    struct encode args = { routing, TYPE, tokens, out };

    poison(out, (size_t)ROWS * ROW_BYTES);
    LAUNCH(encode, &args);
    check_rows(TYPE, out, ROWS, 0, encoded);
}

static void decode_adds_up_every_tokens_rows(void)
{
    struct decode args = { routing, TYPE, gates, rows, out };

    poison(out, (size_t)TOKENS * ROW_BYTES);
    LAUNCH(decode, &args);
    check_rows(TYPE, out, TOKENS, 0x1p-8, decoded);
}

static void decode_backward_scatters_and_takes_dot_products(void)
{
    static float got[TOKENS * CHOICES];
    void *dots = on_subject(NULL, sizeof(got));
    struct decode_backward args = { routing, TYPE, gates, tokens, rows, out, dots };
    int right = 0, wrong = 0;

    memset(got, 0xff, sizeof(got));
    CHECK(!device_upload(device, dots, got, sizeof(got)));
    poison(out, (size_t)ROWS * ROW_BYTES);
    LAUNCH(decode_backward, &args);
    check_rows(TYPE, out, ROWS, 0x1p-8, scattered);
    CHECK(!device_download(device, got, dots, sizeof(got)));
    for (int at = 0; at < TOKENS * CHOICES; at++) {
        const float *x = row_values(TOKEN_ROWS, (uint64_t)at / CHOICES);
        const float *y = row_values(EXPERT_ROWS, (uint64_t)(expert[at] * CAPACITY + slot[at]));
        double dot = 0;

        if (isnan(got[at]))
            continue;
        for (int i = 0; i < WIDTH && slot[at] >= 0; i++)
            dot += (double)x[i] * (double)y[i];
        right += fabs((double)got[at] - dot) <= 1e-5 * dot;
        wrong += fabs((double)got[at] - dot) > 1e-5 * dot;
    }
    CHECK(wrong == 0 && right >= SAMPLED_BLOCKS);
    device_release(device, dots);
}

static void move_widens_every_token(void)
{
    struct move args = { .from_type = TYPE,
                         .to_type = MOE_F32,
                         .block = WIDTH,
                         .dims = { TOKENS, 1, 1 },
                         .from_stride = { 1, 0, 0 },
                         .to_stride = { 1, 0, 0 },
                         .terms = 1,
                         .from = tokens,
                         .to = out };

    poison(out, (size_t)TOKENS * WIDTH * 4);
    LAUNCH(move, &args);
    check_rows(MOE_F32, out, TOKENS, 0, widened);
}

static void activated(uint64_t row, float *to)
{
    const float *x = row_values(EXPERT_ROWS, row);

    for (int i = 0; i < WIDTH; i++)
        to[i] = x[i] * values[i] / (1 + expf(-x[i]));
}

/* Without a bias; up is the same row everywhere, in which every unit has another value. */
static void activate_goes_through_every_row(void)
{
    static const uint16_t none[WIDTH];
    void *bias = on_subject(NULL, (size_t)EXPERTS * ROW_BYTES),
         *up = on_subject(NULL, (size_t)ROWS * ROW_BYTES);
    struct activate args = { TYPE, MOE_SWIGLU, EXPERTS, CAPACITY, WIDTH, bias, rows, up, out };

    for (int i = 0; i < EXPERTS; i++)
        CHECK(!device_upload(device, (char *)bias + (size_t)i * ROW_BYTES, none, ROW_BYTES));
    for (size_t i = 0; i < ROWS; i++)
        CHECK(!device_upload(device, (char *)up + i * ROW_BYTES, pattern, ROW_BYTES));
    poison(out, (size_t)ROWS * ROW_BYTES);
    LAUNCH(activate, &args);
    check_rows(TYPE, out, ROWS, 0x1p-8, activated);
    device_release(device, bias);
    device_release(device, up);
}

/* Between 0.5 and 2, in bf16. */
static void draw_pattern(void)
{
    for (uint32_t i = 0; i < PATTERN + WIDTH; i++)
        pattern[i] = (uint16_t)(0x3f00 + random_below(seed + 4, i, 0x100));
    row_load(TYPE, pattern, 0, values, PATTERN + WIDTH);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(encode_takes_every_token_to_its_rows),
        TEST(decode_adds_up_every_tokens_rows),
        TEST(decode_backward_scatters_and_takes_dot_products),
        TEST(move_widens_every_token),
        TEST(activate_goes_through_every_row),
    };
    int failed;

    seed = test_seed();
    if (subject_open(&device) || stream_open(device, &stream))
        return 2;
    printf("  %s\n", device->ops->name);
    draw_pattern();
    route_all();
    tokens = input_on_subject(TOKEN_ROWS, TOKENS);
    rows = input_on_subject(EXPERT_ROWS, ROWS);
    gates = on_subject(gate, sizeof(gate));
    out = on_subject(NULL, (size_t)ROWS * ROW_BYTES);
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    for (void **at = (void *[]){ tokens, rows, gates, out, NULL }; *at; at++)
        device_release(device, *at);
    stream_close(stream);
    device_close(device);
    return failed;
}
