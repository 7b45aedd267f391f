/* Makes loads, and divides the choices of a rank among experts.  The choices of all experts lie one
 * after the other on a line of k T places; token t has the places t, t + T, t + 2T and so on.  No
 * expert has more than T places, so no token chooses an expert twice. */
#include "load.h"

#include "random.h"
#include "rank_speeds.h"
#include "sha256.h"
#include "stats.h"
#include "status.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_STEP = 77, KEY_START };

/* ---- orders that look random: a step that visits all numbers */

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static uint64_t coprime_step(uint64_t seed, uint64_t n)
{
    uint64_t step = n ? random_bits(seed ^ KEY_STEP, n) % n : 0;

    while (n && common_divisor(step, n) != 1)
        step = (step + 1) % n;
    return step;
}

int load_check_width(const struct moe_shape *shape)
{
    if (shape->groups) /* counts do not show groups, so choices from counts would break the limit */
        return fail(ERR_ARGUMENT,
                    "--skew and --routing need a layer without groups (G=0); this layer has G=%u, "
                    "and its experts are chosen at random",
                    shape->groups);
    if (shape->router == MOE_ROUTER_COSINE && shape->projection < shape->experts)
        return fail(ERR_ARGUMENT,
                    "--skew and --routing need P >= E with router=cosine; here are P=%u and E=%u",
                    shape->projection, shape->experts);
    return shape->model_dim >= shape->experts
               ? OK
               : fail(ERR_ARGUMENT, "--skew and --routing need D >= E; here are D=%u and E=%u",
                      shape->model_dim, shape->experts);
}

int load_new(const struct moe_shape *shape, uint64_t seed, struct load **out)
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
                           .step = coprime_step(seed, shape->tokens),
                           .first = first };
    *out = load;
    return OK;
}

int load_new_replay(const struct moe_shape *shape, uint64_t seed, struct replayed *replay,
                    struct load **out)
{
    int rc = load_new(shape, seed, out);

    if (rc) {
        replay_close(replay);
        return rc;
    }
    free((*out)->first);
    (*out)->first = NULL;
    (*out)->replay = replay;
    return OK;
}

void load_close(struct load *load)
{
    if (!load)
        return;
    free(load->first);
    free(load->speeds);
    replay_close(load->replay);
    free(load);
}

/* ---- counts */

/* Rounds the ends, not the counts, so that the sum stays k T.  The upper bound keeps each count at
 * T or less, also where a share is 1/k up to rounding; the lower bound leaves room for later
 * experts. */
void load_fill(uint64_t *first, uint32_t experts, uint64_t tokens, uint32_t top_k,
               const double *share)
{
    uint64_t choices = top_k * tokens, n = experts;
    double share_sum = 0, sum = 0;

    for (uint64_t e = 0; e < n; e++)
        share_sum += share[e];
    for (uint64_t e = 0; e < n; e++) {
        uint64_t end_most = first[e] + tokens, later_places = (n - 1 - e) * tokens, end;

        sum += share[e];
        end = (uint64_t)floor(sum / share_sum * (double)choices + 0.5);
        end = end > end_most ? end_most : end;
        first[e + 1] = end + later_places < choices ? choices - later_places : end;
    }
}

/* Finds the power at which the largest count over the mean is `skew`, where the i-th expert gets (i
 * + 1)^-power. */
static double power_for(uint32_t experts, double skew)
{
    double low = 0, high = 64; /* at 64, the second of two experts gets 2^-64 */

    for (int i = 0; i < 64; i++) {
        double middle = (low + high) / 2, sum = 0;

        for (uint32_t e = 0; e < experts; e++)
            sum += pow(e + 1, -middle);
        if (experts / sum < skew)
            low = middle;
        else
            high = middle;
    }
    return high;
}

int load_open_skew(const struct moe_shape *shape, uint64_t seed, double skew, struct load **out)
{
    double skew_most = (double)shape->experts / shape->top_k, power, *share;
    uint64_t n = shape->experts, step = coprime_step(seed, n), start = random_bits(seed, KEY_START);
    struct load *load = NULL;

    if (!(skew >= 1 && skew <= skew_most))
        return fail(ERR_ARGUMENT,
                    "--skew %g: it must be from 1 to E/k = %g, because no token chooses an expert "
                    "twice",
                    skew, skew_most);
    TRY(load_check_width(shape));
    TRY(load_new(shape, seed, &load));
    share = calloc(n, sizeof(*share));
    if (!share) {
        load_close(load);
        return fail(ERR_NOMEM, "%u shares", shape->experts);
    }
    power = power_for(shape->experts, skew);
    for (uint64_t i = 0; i < n; i++)
        share[(i * step + start % n) % n] = pow((double)i + 1, -power);
    load_fill(load->first, load->experts, load->tokens, shape->top_k, share);
    load->skew = skew;
    free(share);
    *out = load;
    return OK;
}

/* Sets the products between layers of a load; makes a load where *inout is NULL. */
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

int load_open(const struct moe_shape *shape, uint32_t window, uint64_t seed,
              const struct load_options *options, struct load **out)
{
    *out = NULL;
    TRY(load_options_check(options));
    if (shape->shares != MOE_SHARES_EQUAL && (options->skew != 0 || options->routing.count))
        return fail(ERR_ARGUMENT, "--skew and --routing need --shares equal, where all ranks have "
                                  "the same number of tokens");
    if (shape->layers > 1 && (options->skew != 0 || options->routing.count))
        return fail(ERR_ARGUMENT,
                    "--layers %u: --%s determines where the tokens of one layer go, so it needs "
                    "--layers 1",
                    shape->layers, options->routing.count ? "routing" : "skew");
    if (options->routing.count)
        TRY(load_open_routing(shape, window, seed, &options->routing, out));
    else if (options->skew != 0)
        TRY(load_open_skew(shape, seed, options->skew, out));
    return add_between(options->between, out);
}

/* ---- as text */

static const char skew_word[] = "skew ", counts_word[] = "counts", speeds_word[] = "speeds ";
static const char replay_word[] = "replay ";
static const char between_word[] = "between ";

int load_text(const struct load *load, char text[LOAD_TEXT_BYTES])
{
    char written[LOAD_TEXT_BYTES] = "", runs[RANK_SPEEDS_BYTES];
    bool fits = true;

    if (load_speeds(load)) {
        rank_speeds_format(load->speeds, load->ranks, runs, sizeof(runs));
        fits = text_put(written, sizeof(written), "%s%s", speeds_word, runs);
    } else if (load_counts(load) && load->skew > 0) {
        fits = text_put(written, sizeof(written), "%s%g", skew_word, load->skew);
    } else if (load && load->replay) {
        fits = replay_text(load->replay, written, sizeof(written)) < sizeof(written);
    } else if (load_counts(load)) {
        fits = text_put(written, sizeof(written), "%s", counts_word);
        for (uint32_t e = 0; e < load->experts && fits; e++)
            fits = text_add(written, sizeof(written), " %" PRIu64, load_count(load, 0, 0, e));
    }
    if (load_between(load) > 0 && fits)
        fits = text_add(written, sizeof(written), "%s%s%g", *written ? "; " : "", between_word,
                        load->between);
    if (!fits)
        return fail(ERR_ARGUMENT,
                    "--routing: the counts of %u experts need more than %d characters, the limit "
                    "of a load",
                    load->experts, LOAD_TEXT_BYTES - 1);
    memcpy(text, written, sizeof(written));
    return OK;
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
    double *count = calloc(shape->experts, sizeof(*count)), sum = 0, largest = 0;
    const char *fault;
    uint32_t found = 0;
    char *end;
    int rc;

    TRY_OUT(load_check_width(shape));
    TRY_OUT(count ? OK : fail(ERR_NOMEM, "%u counts", shape->experts));
    for (; found < shape->experts && *text == ' ' && text[1] >= '0' && text[1] <= '9'; found++) {
        count[found] = (double)strtoull(text, &end, 10);
        sum += count[found];
        largest = fmax(largest, count[found]);
        text = end;
    }
    fault = found < shape->experts || *text ? "has not one count for each expert"
            : !(sum > 0)                    ? "counts nothing"
                                            : load_fault(sum, largest, shape->top_k);
    TRY_OUT(!fault ? OK : fail(ERR_FORMAT, "a load of %u experts %s", shape->experts, fault));
    TRY_OUT(load_new(shape, seed, out));
    load_fill((*out)->first, shape->experts, shape->tokens, shape->top_k, count);
out:
    free(count);
    return rc;
}

static int open_replay(const struct moe_shape *shape, uint64_t seed, const char *text,
                       struct load **out)
{
    struct replayed *replay = NULL;
    int rc;

    TRY(load_check_width(shape));
    rc = replay_read(shape, text, &replay);
    if (!rc && replay->count > shape->model_dim / shape->experts)
        rc = UNSUPPORTED;
    if (rc == UNSUPPORTED)
        rc = fail(ERR_FORMAT, "\"%s\" is not a load of %u experts", TEXT_SHORT(text, 60),
                  shape->experts);
    if (!rc)
        rc = load_new_replay(shape, seed, replay, out);
    else
        replay_close(replay);
    return rc;
}

/* Makes the load of a text without "between". */
static int open_load_text(const struct moe_shape *shape, uint64_t seed, const char *text,
                          struct load **out)
{
    size_t skew = strlen(skew_word), counts = strlen(counts_word), speeds = strlen(speeds_word);
    char *end = NULL;
    double value = strncmp(text, skew_word, skew) != 0 ? 0 : strtod(text + skew, &end);

    if (end && !*end)
        return load_open_skew(shape, seed, value, out);
    if (!strncmp(text, replay_word, strlen(replay_word)))
        return open_replay(shape, seed, text, out);
    if (!strncmp(text, counts_word, counts))
        return open_counts(shape, seed, text + counts, out);
    if (!strncmp(text, speeds_word, speeds))
        return load_open_speeds(shape, text + speeds, out);
    return fail(ERR_FORMAT, "\"%s\" is not a load", TEXT_SHORT(text, 60));
}

/* Returns the number of bytes before a last part "; between GFLOP"; *gflop is its number, or 0
 * without such a part. */
static size_t split_off_between(const char *text, double *gflop)
{
    static const char joint[] = "; between ";
    size_t word_length = strlen(between_word);
    const char *part = strstr(text, joint);

    *gflop = 0;
    if (!strncmp(text, between_word, word_length)) {
        *gflop = strtod(text + word_length, NULL);
        return *gflop > 0 ? 0 : strlen(text);
    }
    if (!part || part == text)
        return strlen(text);
    *gflop = strtod(part + strlen(joint), NULL);
    return *gflop > 0 ? (size_t)(part - text) : strlen(text);
}

int load_open_text(const struct moe_shape *shape, uint64_t seed, const char *text,
                   struct load **out)
{
    char without_between[LOAD_TEXT_BYTES] = "";
    double gflop;
    size_t length = split_off_between(text, &gflop);
    int rc;

    *out = NULL;
    if (length >= sizeof(without_between) || gflop > LOAD_BETWEEN_MOST)
        return fail(ERR_FORMAT, "\"%s\" is not a load", TEXT_SHORT(text, 60));
    memcpy(without_between, text, length);
    if (*without_between)
        TRY(open_load_text(shape, seed, without_between, out));
    rc = add_between(gflop, out);
    if (rc)
        load_close(*out);
    return rc;
}

void load_name(const struct load *load, char name[LOAD_NAME_BYTES])
{
    char text[LOAD_TEXT_BYTES] = "", hex[SHA256_HEX_BYTES], between[LOAD_NAME_BYTES] = "";

    if (load_text(load, text))
        *text = 0;
    if (load && load->replay) {
        /* The digest covers the whole text, even where "between" does not fit into the name. */
        sha256_text(text, strlen(text), hex);
        text_put(name, LOAD_NAME_BYTES, "max/mean %.3g of %u %.8s", load_skew(load),
                 load->replay->count, hex);
        if (load->between > 0)
            snprintf(between, sizeof(between), "; %s%g", between_word, load->between);
        if (strlen(name) + strlen(between) < LOAD_NAME_BYTES)
            strcat(name, between);
        return;
    }
    if (!load_counts(load) || load->skew > 0) {
        if (text_put(name, LOAD_NAME_BYTES, "%s", text))
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

/* ---- counts and steps of a load */

const struct load *load_counts(const struct load *load)
{
    return load && (load->first || load->replay) ? load : NULL;
}

const double *load_speeds(const struct load *load)
{
    return load ? load->speeds : NULL;
}

double load_between(const struct load *load)
{
    return load ? load->between : 0;
}

struct replay_steps load_steps(const struct load *load, uint64_t capacity)
{
    return load && load->replay ? replay_at(load->replay, capacity)
                                : (struct replay_steps){ .count = 1 };
}

uint32_t load_step_count(const struct load *load)
{
    return load && load->replay ? load->replay->count : 1;
}

static uint64_t first_choice_of(const struct load *load, uint32_t step, uint32_t rank,
                                uint32_t expert)
{
    return load->replay ? replay_first(load->replay, step, rank, expert) : load->first[expert];
}

uint64_t load_count(const struct load *load, uint32_t step, uint32_t rank, uint32_t expert)
{
    return first_choice_of(load, step, rank, expert + 1) -
           first_choice_of(load, step, rank, expert);
}

double load_skew(const struct load *load)
{
    uint64_t largest = 0, choices = load->first ? load->first[load->experts] : 0;

    if (load->replay)
        return replay_median_skew(load->replay);
    for (uint32_t e = 0; e < load->experts; e++)
        largest = load_count(load, 0, 0, e) > largest ? load_count(load, 0, 0, e) : largest;
    return choices ? (double)largest * load->experts / (double)choices : 0;
}

uint64_t load_most(const struct load *load)
{
    uint32_t ranks = load->replay ? load->replay->ranks : 1;
    uint64_t largest = 0;

    for (uint32_t i = 0; i < load_step_count(load); i++)
        for (uint32_t q = 0; q < ranks; q++)
            for (uint32_t e = 0; e < load->experts; e++) {
                uint64_t count = load_count(load, i, q, e);

                largest = count > largest ? count : largest;
            }
    return largest;
}

uint64_t load_kept(const void *self, uint64_t capacity, uint32_t experts)
{
    const struct load *load = self;
    uint64_t kept = 0, largest = 0;

    if (load->replay)
        return replay_kept(load->replay, replay_at(load->replay, capacity), capacity, experts);
    for (uint32_t e = 0; e < load->experts; e++) {
        uint64_t count = load_count(load, 0, 0, e);

        kept = e % experts ? kept : 0;
        kept += count < capacity ? count : capacity;
        largest = kept > largest ? kept : largest;
    }
    return largest;
}

uint64_t load_kept_of(const struct load *load, uint64_t capacity, uint32_t rank, uint32_t expert)
{
    struct replay_steps steps = load_steps(load, capacity);
    uint64_t kept = 0;

    for (uint32_t i = 0; i < steps.count; i++) {
        uint64_t count = load_count(load, steps.first + i, rank, expert);

        kept += count < capacity ? count : capacity;
    }
    return (kept + steps.count / 2) / steps.count;
}

bool load_chooses(const struct load *load, uint32_t step, uint32_t rank, uint64_t token,
                  uint32_t expert)
{
    uint64_t tokens = load->tokens, place;

    if (!tokens)
        return false;
    place =
        (token % tokens * load->step + random_bits(load->seed ^ KEY_START, rank) % tokens) % tokens;
    return (place + tokens - first_choice_of(load, step, rank, expert) % tokens) % tokens <
           load_count(load, step, rank, expert);
}

/* ---- descriptions */

/* The smallest, the median and the largest skew of some steps. */
struct count_range {
    double least, median, most;
};

static struct count_range range_of(const struct replayed *r, struct replay_steps steps,
                                   double (*skew)(const struct replayed *, uint32_t))
{
    double skews[REPLAY_STEPS_MOST] = { 0 };

    for (uint32_t i = 0; i < steps.count; i++)
        skews[i] = skew(r, steps.first + i);
    sort_doubles(skews, steps.count);
    return (struct count_range){ skews[0], skews[steps.count / 2], skews[steps.count - 1] };
}

void load_words_at(const struct load *load, uint64_t capacity, char text[LOAD_WORDS_BYTES])
{
    struct replay_steps steps;
    struct count_range experts, ranks;

    *text = 0;
    if (!load || !load->replay)
        return;
    steps = replay_at(load->replay, capacity);
    experts = range_of(load->replay, steps, replay_skew);
    ranks = range_of(load->replay, steps, replay_rank_skew);
    snprintf(text, LOAD_WORDS_BYTES,
             "%u recorded step%s of max/mean %.3g to %.3g (%s), of ranks %.3g to %.3g (%s)",
             steps.count, steps.count == 1 ? "" : "s", experts.least, experts.most,
             replay_class_words[replay_class(experts.median)], ranks.least, ranks.most,
             replay_class_words[replay_class(ranks.median)]);
}

void load_words_file(const struct load *load, char text[LOAD_WORDS_BYTES])
{
    size_t used = 0;
    uint64_t step_count = 0;

    *text = 0;
    for (int i = 0; load && i < REPLAY_CLASSES; i++)
        step_count += load->file.steps[i];
    if (!step_count)
        return;
    used = (size_t)snprintf(text, LOAD_WORDS_BYTES, "%" PRIu64 " recorded step%s, max/mean",
                            step_count, step_count == 1 ? "" : "s");
    for (int i = 0; i < REPLAY_CLASSES; i++)
        used += (size_t)snprintf(text + used, LOAD_WORDS_BYTES - used, "%s %s of %" PRIu64,
                                 i ? "," : "", replay_class_words[i], load->file.steps[i]);
    snprintf(text + used, LOAD_WORDS_BYTES - used, "; %u replayed", load_step_count(load));
}
