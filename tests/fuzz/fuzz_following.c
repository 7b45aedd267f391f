/* Makes hostile calls of functions that a trainer calls at every step: capacities that follow the
 * experts, and known routes.  An input is a letter and then a program of calls ("c", "r"), or bytes
 * that moe_capacities_save wrote ("s", which is also tried with a corrected checksum). */
#include "fuzzer.h"
#include "moelookup.h"
#include "sha256.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EXPERTS_MOST = 16, ROWS_MOST = 8, CALLS_MOST = 4096 };

struct input {
    const uint8_t *at;
    size_t left;
};

static uint32_t next(struct input *in, int bytes)
{
    uint32_t value = 0;

    for (int i = 0; i < bytes && in->left; i++, in->at++, in->left--)
        value |= (uint32_t)*in->at << 8 * i;
    return value;
}

static void be_silent(void *self, const char *line)
{
    (void)self, (void)line;
}

static void want(bool holds, const char *what)
{
    if (!holds)
        fuzz_wrong(what);
}

/* ---- capacities */

static void *saved(const struct moe_capacities *c, size_t *size)
{
    void *bytes;

    want(!moe_capacities_save(c, NULL, size), "capacities that cannot be measured");
    bytes = malloc(*size);
    want(!moe_capacities_save(c, bytes, size), "capacities that cannot be saved");
    return bytes;
}

/* What must hold for every answer. */
static void check_state(const struct moe_capacities_options *o, const uint32_t *rows,
                        const struct moe_capacities_state *s, uint64_t step)
{
    uint32_t each = o->experts > o->ranks ? o->experts / o->ranks : 1;
    uint64_t sum = 0;

    for (uint32_t e = 0; e < o->experts; e++) {
        want(rows[e] <= o->most, "more rows than most");
        sum += rows[e];
    }
    want(s->rows == sum, "a wrong sum of rows");
    want(s->first <= step && s->pending > step, "an answer of another step");
    want((uint64_t)s->key * each >= s->fullest && s->dropped_ppm <= 1000000, "a wrong key");
}

/* Both go on alike from saved bytes, and a refused call changes no byte. */
static struct moe_capacities *resumed(struct moe_capacities *c)
{
    struct moe_capacities *again = NULL;
    size_t size, twice;
    void *bytes = saved(c, &size), *same;

    want(!moe_capacities_load(bytes, size, &again), "saved capacities that cannot be loaded");
    same = saved(again, &twice);
    want(size == twice && !memcmp(bytes, same, size),
         "capacities that change when they are loaded");
    free(bytes);
    free(same);
    moe_capacities_close(c);
    return again;
}

static void feed(struct moe_capacities *c, struct input *in, uint64_t *step, uint32_t how)
{
    uint32_t counts[EXPERTS_MOST + 1], experts = how >> 6 & 1 ? next(in, 1) % 18 : EXPERTS_MOST;
    size_t before, after;
    void *bytes = NULL, *same;

    for (uint32_t e = 0; e <= EXPERTS_MOST; e++)
        counts[e] = how >> 4 & 1 ? next(in, 4) : next(in, 1);
    *step += how >> 2 & 3;
    if (how >> 5 & 1)
        bytes = saved(c, &before);
    if (!moe_capacities_feed(c, *step, counts, experts))
        fuzz_accepted();
    else if (bytes) {
        same = saved(c, &after);
        want(before == after && !memcmp(bytes, same, before), "a refused feed changed something");
        free(same);
    }
    free(bytes);
}

static void try_capacities(struct input in)
{
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;
    struct moe_capacities *c = NULL;
    uint64_t step;

    o.experts = EXPERTS_MOST;
    o.ranks = 1u << next(&in, 1) % 7;
    o.most = next(&in, 4);
    o.start = next(&in, 4);
    o.grid = 1 + next(&in, 1);
    o.hold = next(&in, 1);
    o.gap = next(&in, 1);
    o.low = next(&in, 2);
    o.slack = next(&in, 2);
    o.drops = next(&in, 3);
    o.delta = next(&in, 1);
    step = next(&in, 1) == 255 ? UINT64_MAX - 600 : 0;
    if (moe_capacities_open(&o, &c)) {
        want(!c, "refused options that gave something");
        return;
    }
    for (int i = 0; i < CALLS_MOST && in.left; i++) {
        uint32_t how = next(&in, 1);
        uint64_t asked = step + next(&in, 1) % 8 - (how >> 4 & 1);
        struct moe_capacities_state s = MOE_CAPACITIES_STATE_INIT;
        const uint32_t *rows;

        if (how % 4 < 2)
            feed(c, &in, &step, how);
        else if (how % 4 == 2 && !moe_capacities_at(c, asked, &rows, &s))
            check_state(&o, rows, &s, asked);
        else if (how == 255)
            c = resumed(c);
    }
    moe_capacities_close(c);
}

/* Bytes from anywhere: refused, or a controller that keeps its promises. */
static void try_saved(const uint8_t *data, size_t size)
{
    struct moe_capacities *c = NULL;
    int rc = moe_capacities_load(data, size, &c);

    want(rc == MOE_OK || (rc == MOE_ERR_FORMAT && !c), "load ends neither way");
    if (rc)
        return;
    fuzz_accepted();
    c = resumed(c);
    for (uint64_t step = 0; step < 300; step += 7) {
        uint32_t counts[EXPERTS_MOST];
        const uint32_t *rows;

        for (uint32_t e = 0; e < EXPERTS_MOST; e++)
            counts[e] = (uint32_t)(step * e % 97 + 1);
        moe_capacities_feed(c, step, counts, EXPERTS_MOST);
        moe_capacities_at(c, step, &rows, NULL);
    }
    moe_capacities_close(c);
}

static void try_sealed(const uint8_t *data, size_t size)
{
    uint8_t *sealed = malloc(size);
    struct sha256 s;

    memcpy(sealed, data, size);
    sha256_init(&s);
    sha256_add(&s, sealed, size - SHA256_BYTES);
    sha256_end(&s, sealed + size - SHA256_BYTES);
    try_saved(sealed, size);
    free(sealed);
}

/* ---- routes */

static void try_routes(struct input in)
{
    struct moe_routes_options o = MOE_ROUTES_OPTIONS_INIT;
    struct moe_routes *r = NULL;

    o.experts = next(&in, 1);
    o.top_k = next(&in, 1) % 8;
    o.rooms = next(&in, 1) % 6;
    o.rows = next(&in, 1) % (ROWS_MOST + 1);
    o.on = next(&in, 2);
    o.off = next(&in, 2);
    o.first_pass = next(&in, 1);
    if (moe_routes_open(&o, &r))
        return;
    for (int i = 0; i < CALLS_MOST && in.left; i++) {
        uint32_t how = next(&in, 1), rows = next(&in, 1) % (ROWS_MOST + 2), on = 9, got = 99;
        int32_t ids[(ROWS_MOST + 1) * 8], back[(ROWS_MOST + 1) * 8];
        uint64_t key = next(&in, 1) % 9, same = 0, compared = 0;

        for (uint32_t j = 0; j < rows * o.top_k; j++)
            ids[j] = (int32_t)(how >> 2 & 1 ? next(&in, 4) : next(&in, 1));
        if (how % 4 == 3) {
            if (!moe_routes_decide(r, key, next(&in, 2), next(&in, 2), &on))
                want(on <= 1, "routes that are neither on nor off");
        } else if (!moe_routes_put(r, key, ids, rows, how >> 3 & 1 ? 3 : o.top_k, &same,
                                   &compared)) {
            fuzz_accepted();
            want(same <= compared && compared <= rows, "more tokens than there are");
            want(!moe_routes_get(r, key, back, sizeof(back) / sizeof(*back), &got) && got == rows &&
                     !memcmp(ids, back, rows * o.top_k * sizeof(*ids)),
                 "other routes than were put");
        }
    }
    moe_routes_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { data + 1, size - 1 };

    if (!size)
        return 0;
    log_to(be_silent, NULL);
    if (*data == 'c')
        try_capacities(in);
    else if (*data == 'r')
        try_routes(in);
    else if (*data == 's') {
        try_saved(in.at, in.left);
        if (in.left > SHA256_BYTES)
            try_sealed(in.at, in.left);
    }
    log_to(NULL, NULL);
    return 0;
}

#ifndef FUZZ_LIBFUZZER

static void add_saved(const char *name, uint32_t steps)
{
    struct moe_capacities_options o = MOE_CAPACITIES_OPTIONS_INIT;
    static uint8_t bytes[FUZZ_INPUT_MAX];
    size_t size = sizeof(bytes) - 1;
    struct moe_capacities *c;
    uint32_t counts[EXPERTS_MOST];

    o.experts = EXPERTS_MOST;
    o.ranks = 4;
    o.most = 200;
    o.start = 50;
    o.hold = 10;
    o.gap = 5;
    o.delta = 3;
    if (moe_capacities_open(&o, &c))
        exit(1);
    for (uint64_t step = 0; step < steps; step++) {
        for (uint32_t e = 0; e < EXPERTS_MOST; e++)
            counts[e] = (uint32_t)(20 + (step * 7 + e * 13) % 60);
        moe_capacities_feed(c, step, counts, EXPERTS_MOST);
    }
    bytes[0] = 's';
    if (moe_capacities_save(c, bytes + 1, &size))
        exit(1);
    fuzz_seed(name, bytes, size + 1);
    moe_capacities_close(c);
}

static void add_program(const char *name, char letter, const char *options, size_t count)
{
    uint8_t bytes[2048];

    bytes[0] = (uint8_t)letter;
    memcpy(bytes + 1, options, count);
    for (size_t i = count + 1; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 % 61 + (i % 19 == 0) * 4);
    fuzz_seed(name, bytes, sizeof(bytes));
}

static void make_seeds(void)
{
    static const char options[] = "\2\200\0\0\0\60\0\0\0\3\12\5\40\3\0\0\364\1\0\2";
    static const char routes[] = "\10\2\3\6\300\3\204\3\1";

    add_saved("saved-new", 0);
    add_saved("saved", 23);
    add_program("capacities", 'c', options, sizeof(options));
    add_program("routes", 'r', routes, sizeof(routes) - 1);
}

static void mend_letter(struct fuzz_input *in)
{
    if (in->size && !strchr("crs", in->bytes[0]))
        in->bytes[0] = (uint8_t) "crs"[fuzz_draw(3)];
}

static bool is_worth_keeping(const struct fuzz_input *in)
{
    (void)in;
    return !fuzz_draw(8);
}

static void try_one(const uint8_t *data, size_t size)
{
    LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    const struct fuzz_target target = { .name = "fuzz_following",
                                        .one = try_one,
                                        .make_seeds = make_seeds,
                                        .mend = mend_letter,
                                        .is_worth_keeping = is_worth_keeping };

    return fuzz_main(argc, argv, &target);
}

#endif
