/* Shares the choices of a rank out to experts.  The experts' choices lie end to end on a line of
 * k T places; token t has the places t, t + T, t + 2T and so on.  No expert has more than T of
 * them, so no token has two of one expert. */
#include "load.h"

#include "input_file.h"
#include "json.h"
#include "random.h"
#include "status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_STEP = 77, KEY_START, ROUTING_BYTES_MAX = 256 << 20 };

/* ---- orders that look random: a step through all of them */

static uint64_t divisor(uint64_t a, uint64_t b)
{
    return b ? divisor(b, a % b) : a;
}

static uint64_t step_through(uint64_t seed, uint64_t n)
{
    uint64_t step = n ? random_bits(seed ^ KEY_STEP, n) % n : 0;

    while (n && divisor(step, n) != 1)
        step = (step + 1) % n;
    return step;
}

static int check_width(const struct moe_shape *shape)
{
    return shape->model_dim >= shape->experts
               ? OK
               : fail(ERR_ARGUMENT,
                      "experts can be given a load where D >= E; here are D=%u columns for %u "
                      "experts",
                      shape->model_dim, shape->experts);
}

static int load_new(const struct moe_shape *shape, uint64_t seed, struct load **out)
{
    struct load *load = calloc(1, sizeof(*load));
    uint64_t *first = calloc((size_t)shape->experts + 1, sizeof(*first));

    if (!load || !first) {
        free(load);
        free(first);
        return fail(ERR_NOMEM, "the load of %u experts", shape->experts);
    }
    *load = (struct load){ shape->experts, shape->tokens, seed, step_through(seed, shape->tokens),
                           first };
    *out = load;
    return OK;
}

void load_close(struct load *load)
{
    if (load)
        free(load->first);
    free(load);
}

/* ---- counts */

/* Rounds the ends, not the counts, so that the sum stays k T.  No count passes T, also where a
 * share is 1/k but for rounding; the bound from below keeps room for those that follow. */
static void fill(struct load *load, uint32_t top_k, const double *share)
{
    uint64_t choices = (uint64_t)top_k * load->tokens, n = load->experts;
    double all = 0, sum = 0;

    for (uint64_t e = 0; e < n; e++)
        all += share[e];
    for (uint64_t e = 0; e < n; e++) {
        uint64_t most = load->first[e] + load->tokens, after = (n - 1 - e) * load->tokens, end;

        sum += share[e];
        end = (uint64_t)floor(sum / all * (double)choices + 0.5);
        end = end > most ? most : end;
        load->first[e + 1] = end + after < choices ? choices - after : end;
    }
}

/* The largest over the mean where the i-th expert gets (i + 1)^-power. */
static double skew_of(uint32_t experts, double power)
{
    double sum = 0;

    for (uint32_t i = 0; i < experts; i++)
        sum += pow(i + 1, -power);
    return experts / sum;
}

static double power_for(uint32_t experts, double skew)
{
    double low = 0, high = 64; /* of two experts the colder gets 2^-64 */

    for (int i = 0; i < 64; i++) {
        double middle = (low + high) / 2;

        *(skew_of(experts, middle) < skew ? &low : &high) = middle;
    }
    return high;
}

int load_open_skew(const struct moe_shape *shape, uint64_t seed, double skew, struct load **out)
{
    double most = (double)shape->experts / shape->top_k, power, *share;
    uint64_t n = shape->experts, step = step_through(seed, n), start = random_bits(seed, KEY_START);
    struct load *load = NULL;

    if (!(skew >= 1 && skew <= most))
        return fail(ERR_ARGUMENT,
                    "a skew of %g: it is 1 to E/k = %g, as no token chooses an expert twice", skew,
                    most);
    TRY(check_width(shape));
    TRY(load_new(shape, seed, &load));
    share = calloc(n, sizeof(*share));
    if (!share) {
        load_close(load);
        return fail(ERR_NOMEM, "%u shares", shape->experts);
    }
    power = power_for(shape->experts, skew);
    for (uint64_t i = 0; i < n; i++)
        share[(i * step + start % n) % n] = pow((double)i + 1, -power);
    fill(load, shape->top_k, share);
    free(share);
    *out = load;
    return OK;
}

/* ---- counts from a file */

struct line {
    const struct moe_shape *shape;
    double *count; /* (E) */
    uint32_t found;
    bool inside, given, wrong;
};

static int on_value(void *self, const struct json_value *v)
{
    struct line *l = self;

    if (v->depth == 1) {
        l->inside = v->kind == JSON_ARRAY && v->key && !strcmp(v->key, "counts");
        if (l->inside) {
            l->given = true;
            l->found = 0;
        }
    } else if (v->depth == 2 && l->inside && v->kind != JSON_END) {
        double n = v->kind == JSON_NUMBER ? json_number(v) : -1;

        l->wrong |= !(n >= 0 && n <= 0x1p53);
        if (l->found < l->shape->experts)
            l->count[l->found] = n;
        l->found++;
    }
    return OK;
}

/* Why no load can follow these counts; NULL: one can. */
static const char *fault_of(const struct line *l, double sum, double most)
{
    if (!l->given)
        return "has no \"counts\"";
    if (l->wrong)
        return "has a count that is no number from 0 on";
    if (l->found != l->shape->experts)
        return "has not one count for each expert";
    if (!(sum > 0))
        return "counts nothing";
    if (most * l->shape->top_k > sum)
        return "has an expert with more than a k-th of the choices, so a token chose it twice";
    return NULL;
}

/* One step: its skew, or which line is wrong. */
static int read_line(struct line *l, const char *text, size_t length, const char *path,
                     uint32_t number, double *skew)
{
    double sum = 0, most = 0;
    const char *fault;

    *l = (struct line){ .shape = l->shape, .count = l->count };
    if (json_read(text, length, NULL, on_value, l))
        return fail(ERR_FORMAT,
                    "%s:%u is no JSON: a line {\"counts\": [12, 7, ...]} is wanted for each step",
                    path, number);
    for (uint32_t e = 0; e < l->shape->experts && e < l->found; e++) {
        sum += l->count[e];
        most = fmax(most, l->count[e]);
    }
    fault = fault_of(l, sum, most);
    if (fault)
        return fail(ERR_FORMAT, "%s:%u %s (%u counts; E=%u, k=%u)", path, number, fault, l->found,
                    l->shape->experts, l->shape->top_k);
    *skew = most * l->shape->experts / sum;
    return OK;
}

struct step {
    double skew;
    const char *text;
    size_t length;
};

static int by_skew(const void *a, const void *b)
{
    double x = ((const struct step *)a)->skew, y = ((const struct step *)b)->skew;

    return (x > y) - (x < y);
}

static bool is_blank(const char *text, size_t length)
{
    return strspn(text, " \t\r") >= length;
}

/* Reads every line, and the one with the median skew again: l->count is that step's. */
static int pick_step(struct line *l, const char *path, const char *text, struct step *steps)
{
    uint32_t count = 0, number = 0;
    double skew;

    for (const char *at = text; *at; at += *at == '\n') {
        size_t length = strcspn(at, "\n");

        number++;
        if (!is_blank(at, length)) {
            steps[count] = (struct step){ .text = at, .length = length };
            TRY(read_line(l, at, length, path, number, &steps[count].skew));
            count++;
        }
        at += length;
    }
    if (!count)
        return fail(ERR_FORMAT, "%s holds no step", path);
    qsort(steps, count, sizeof(*steps), by_skew);
    return read_line(l, steps[count / 2].text, steps[count / 2].length, path, 0, &skew);
}

static size_t lines_of(const char *text)
{
    size_t lines = 1;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

int load_open_routing(const struct moe_shape *shape, uint64_t seed, const char *path,
                      struct load **out)
{
    struct line line = { .shape = shape };
    struct step *steps = NULL;
    struct load *load = NULL;
    char *text = NULL;
    size_t length;
    int rc;

    TRY(check_width(shape));
    TRY(load_new(shape, seed, &load));
    line.count = calloc((size_t)shape->experts + 1, sizeof(*line.count));
    TRY_OUT(line.count ? OK : fail(ERR_NOMEM, "%u counts", shape->experts));
    TRY_OUT(input_read(path, ROUTING_BYTES_MAX, &text, &length));
    TRY_OUT(strlen(text) == length ? OK : fail(ERR_FORMAT, "%s is no text", path));
    steps = calloc(lines_of(text), sizeof(*steps));
    TRY_OUT(steps ? OK : fail(ERR_NOMEM, "the steps of %s", path));
    TRY_OUT(pick_step(&line, path, text, steps));
    fill(load, shape->top_k, line.count);
    *out = load;
    load = NULL;
out:
    load_close(load);
    free(line.count);
    free(text);
    free(steps);
    return rc;
}

int load_open(const struct moe_shape *shape, uint64_t seed, double skew, const char *routing,
              struct load **out)
{
    *out = NULL;
    if (skew != 0 && routing)
        return fail(ERR_ARGUMENT, "--skew and --routing both say what experts get: give one");
    if (routing)
        return load_open_routing(shape, seed, routing, out);
    return skew != 0 ? load_open_skew(shape, seed, skew, out) : OK;
}

/* ---- what it says */

uint64_t load_count(const struct load *load, uint32_t expert)
{
    return load->first[expert + 1] - load->first[expert];
}

double load_skew(const struct load *load)
{
    uint64_t most = 0, all = load->first[load->experts];

    for (uint32_t e = 0; e < load->experts; e++)
        most = load_count(load, e) > most ? load_count(load, e) : most;
    return all ? (double)most * load->experts / (double)all : 0;
}

bool load_chooses(const struct load *load, uint32_t rank, uint64_t token, uint32_t expert)
{
    uint64_t n = load->tokens, at;

    if (!n)
        return false;
    at = (token % n * load->step + random_bits(load->seed ^ KEY_START, rank) % n) % n;
    return (at + n - load->first[expert] % n) % n < load_count(load, expert);
}
