/* Shares the choices of a rank out to experts.  The experts' choices lie end to end on a line of
 * k T places; token t has the places t, t + T, t + 2T and so on.  No expert has more than T of
 * them, so no token has two of one expert. */
#include "load.h"

#include "input_file.h"
#include "json.h"
#include "random.h"
#include "rank_speeds.h"
#include "sha256.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
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

/* Counts say nothing of groups, and the choices that are made of them keep no limit. */
static int check_router(const struct moe_shape *shape)
{
    return shape->groups ? fail(ERR_ARGUMENT,
                                "G=%u: experts in groups are chosen at random; --skew and "
                                "--routing go with a layer without groups",
                                shape->groups)
                         : OK;
}

static int check_width(const struct moe_shape *shape)
{
    TRY(check_router(shape));
    if (shape->router == MOE_ROUTER_COSINE && shape->projection < shape->experts)
        return fail(ERR_ARGUMENT,
                    "experts can be given a load where P >= E; here router=cosine compares in P=%u "
                    "dimensions, and there are %u experts",
                    shape->projection, shape->experts);
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
    *load = (struct load){ .experts = shape->experts,
                           .tokens = shape->tokens,
                           .seed = seed,
                           .step = step_through(seed, shape->tokens),
                           .first = first };
    *out = load;
    return OK;
}

void load_close(struct load *load)
{
    if (!load)
        return;
    free(load->first);
    free(load->speeds);
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
    load->skew = skew;
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

/* To a load, which may be NULL. */
static int add_between(double gflop, struct load **inout)
{
    if (gflop > 0 && !*inout)
        *inout = calloc(1, sizeof(**inout));
    if (gflop > 0 && !*inout)
        return fail(ERR_NOMEM, "a load");
    if (*inout)
        (*inout)->between = gflop;
    return OK;
}

int load_open(const struct moe_shape *shape, uint64_t seed, const struct load_options *o,
              struct load **out)
{
    *out = NULL;
    TRY(load_options_check(o));
    if (shape->shares == MOE_SHARES_SPEED && (o->skew != 0 || o->routing))
        return fail(ERR_ARGUMENT, "--skew and --routing go with --shares equal: they say how many "
                                  "tokens of equally many go where");
    if (shape->layers > 1 && (o->skew != 0 || o->routing))
        return fail(ERR_ARGUMENT,
                    "--layers %u: --%s says where tokens of one layer go, and no more is known of "
                    "several",
                    shape->layers, o->routing ? "routing" : "skew");
    if (o->routing)
        TRY(load_open_routing(shape, seed, o->routing, out));
    else if (o->skew != 0)
        TRY(load_open_skew(shape, seed, o->skew, out));
    return add_between(o->between, out);
}

/* ---- as text */

static const char skew_word[] = "skew ", counts_word[] = "counts", speeds_word[] = "speeds ";
static const char between_word[] = "between ";

static size_t counts_text(const struct load *load, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s", counts_word);

    for (uint32_t e = 0; e < load->experts && used < size; e++)
        used += (size_t)snprintf(text + used, size - used, " %" PRIu64, load_count(load, e));
    return used;
}

int load_text(const struct load *load, char text[LOAD_TEXT_BYTES])
{
    char all[LOAD_TEXT_BYTES] = "", runs[RANK_SPEEDS_BYTES];
    size_t used = 0;

    if (load_speeds(load)) {
        rank_speeds_format(load->speeds, load->ranks, runs, sizeof(runs));
        used = (size_t)snprintf(all, sizeof(all), "%s%s", speeds_word, runs);
    } else if (load_counts(load) && load->skew > 0) {
        used = (size_t)snprintf(all, sizeof(all), "%s%g", skew_word, load->skew);
    } else if (load_counts(load)) {
        used = counts_text(load, all, sizeof(all));
    }
    if (load_between(load) > 0 && used < sizeof(all))
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s%g", used ? "; " : "",
                                 between_word, load->between);
    if (used >= sizeof(all))
        return fail(ERR_ARGUMENT,
                    "--routing: the counts of %u experts take more than the %d characters that an "
                    "entry's load may have",
                    load->experts, LOAD_TEXT_BYTES - 1);
    memcpy(text, all, sizeof(all));
    return OK;
}

/* The numbers of a text, each of them one expert's. */
static bool read_counts(const char *text, uint32_t experts, double *count)
{
    char *end;

    for (uint32_t e = 0; e < experts; e++, text = end) {
        if (*text != ' ' || text[1] < '0' || text[1] > '9')
            return false;
        count[e] = (double)strtoull(text, &end, 10);
    }
    return !*text;
}

int load_open_speeds(const struct moe_shape *shape, const char *text, struct load **out)
{
    struct load *load = calloc(1, sizeof(*load));
    size_t ranks = 0;
    double slowest;

    if (!rank_speeds_parse(text, &ranks, &slowest) || ranks != shape->ranks) {
        free(load);
        return fail(ERR_ARGUMENT,
                    "shares=speed: the speeds of these ranks (%u) are not known: `moetune probe` "
                    "measures them",
                    shape->ranks);
    }
    if (load)
        load->speeds = calloc(ranks, sizeof(*load->speeds));
    if (!load || !load->speeds) {
        free(load);
        return fail(ERR_NOMEM, "the speeds of %zu ranks", ranks);
    }
    load->ranks = shape->ranks;
    rank_speeds_list(text, load->speeds);
    *out = load;
    return OK;
}

static int open_counts(const struct moe_shape *shape, uint64_t seed, const char *text,
                       struct load **out)
{
    struct line line = { .shape = shape, .found = shape->experts, .given = true };
    double sum = 0, most = 0;
    struct load *load = NULL;
    int rc;

    TRY(check_width(shape));
    TRY(load_new(shape, seed, &load));
    line.count = calloc(shape->experts, sizeof(*line.count));
    TRY_OUT(line.count ? OK : fail(ERR_NOMEM, "%u counts", shape->experts));
    line.wrong = !read_counts(text, shape->experts, line.count);
    for (uint32_t e = 0; e < shape->experts; e++) {
        sum += line.count[e];
        most = fmax(most, line.count[e]);
    }
    TRY_OUT(!fault_of(&line, sum, most) ? OK
                                        : fail(ERR_FORMAT, "a load of %u experts %s",
                                               shape->experts, fault_of(&line, sum, most)));
    fill(load, shape->top_k, line.count);
    *out = load;
    load = NULL;
out:
    load_close(load);
    free(line.count);
    return rc;
}

/* What experts or ranks are given. */
static int open_first(const struct moe_shape *shape, uint64_t seed, const char *text,
                      struct load **out)
{
    size_t skew = strlen(skew_word), counts = strlen(counts_word), speeds = strlen(speeds_word);
    char *end = NULL;
    double value = strncmp(text, skew_word, skew) != 0 ? 0 : strtod(text + skew, &end);

    if (end && !*end)
        return load_open_skew(shape, seed, value, out);
    if (!strncmp(text, counts_word, counts))
        return open_counts(shape, seed, text + counts, out);
    if (!strncmp(text, speeds_word, speeds))
        return load_open_speeds(shape, text + speeds, out);
    return fail(ERR_FORMAT, "\"%.60s\" is no load", text);
}

/* Bytes before the last part and what stands between them; *gflop is that part's number, 0 where
 * there is none. */
static size_t split_off_between(const char *text, double *gflop)
{
    static const char joint[] = "; between ";
    size_t word = strlen(between_word);
    const char *at = strstr(text, joint);

    *gflop = 0;
    if (!strncmp(text, between_word, word)) {
        *gflop = strtod(text + word, NULL);
        return *gflop > 0 ? 0 : strlen(text);
    }
    if (!at || at == text)
        return strlen(text);
    *gflop = strtod(at + strlen(joint), NULL);
    return *gflop > 0 ? (size_t)(at - text) : strlen(text);
}

int load_open_text(const struct moe_shape *shape, uint64_t seed, const char *text,
                   struct load **out)
{
    char first[LOAD_TEXT_BYTES] = "";
    double gflop;
    size_t length = split_off_between(text, &gflop);
    int rc;

    *out = NULL;
    if (length >= sizeof(first) || gflop > LOAD_BETWEEN_MOST)
        return fail(ERR_FORMAT, "\"%.60s\" is no load", text);
    memcpy(first, text, length);
    if (*first)
        TRY(open_first(shape, seed, first, out));
    rc = add_between(gflop, out);
    if (rc)
        load_close(*out);
    return rc;
}

void load_name(const struct load *load, char name[LOAD_NAME_BYTES])
{
    char text[LOAD_TEXT_BYTES] = "", hex[SHA256_HEX_BYTES];

    if (load_text(load, text))
        *text = 0;
    if (!load_counts(load) || load->skew > 0) {
        if ((size_t)snprintf(name, LOAD_NAME_BYTES, "%s", text) < LOAD_NAME_BYTES)
            return;
        sha256_text(text, strlen(text), hex);
        snprintf(name, LOAD_NAME_BYTES, "%.20s... %.8s", text, hex);
        return;
    }
    sha256_text((const char *)load->first, (load->experts + 1) * sizeof(*load->first), hex);
    snprintf(name, LOAD_NAME_BYTES, "max/mean %.3g %.8s", load_skew(load), hex);
    if (load->between > 0)
        snprintf(name + strlen(name), LOAD_NAME_BYTES - strlen(name), "; %s%g", between_word,
                 load->between);
}

/* ---- what it says */

const struct load *load_counts(const struct load *load)
{
    return load && load->first ? load : NULL;
}

const double *load_speeds(const struct load *load)
{
    return load ? load->speeds : NULL;
}

double load_between(const struct load *load)
{
    return load ? load->between : 0;
}

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

uint64_t load_kept(const void *of, uint64_t capacity)
{
    const struct load *load = of;
    uint64_t kept = 0;

    for (uint32_t e = 0; e < load->experts; e++)
        kept += load_count(load, e) < capacity ? load_count(load, e) : capacity;
    return kept;
}

bool load_chooses(const struct load *load, uint32_t rank, uint64_t token, uint32_t expert)
{
    uint64_t n = load->tokens, at;

    if (!n)
        return false;
    at = (token % n * load->step + random_bits(load->seed ^ KEY_START, rank) % n) % n;
    return (at + n - load->first[expert] % n) % n < load_count(load, expert);
}
