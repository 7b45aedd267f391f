/* Compares experts without padding with padded ones, forward and backward, on one rank and one
 * thread.  The less even the load, the more rows of padding are left out.  "time" is ours / theirs.
 */
#include "rivals.h"

#include "expert_step.h"
#include "random.h"
#include "shape.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* Expert e has a share of the choices that falls as exp(-steepness e / E). */
static double largest_share(double steepness, uint32_t experts)
{
    double sum = 0;

    for (uint32_t e = 0; e < experts; e++)
        sum += exp(-steepness * e / experts);
    return 1 / sum;
}

/* Where the largest expert has `skew` times the mean. */
static double steepness_of(double skew, uint32_t experts)
{
    double low = 0, high = 100;

    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;

        if (largest_share(middle, experts) * experts < skew)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Choice i of all, sorted by expert, is of token i mod T, in an order of its own: no token has an
 * expert twice, as long as none has more than T. */
static void load_tokens(struct expert_step *s, double skew)
{
    double steepness = steepness_of(skew, s->E), share = largest_share(steepness, s->E), end = 0;
    uint64_t choices = (uint64_t)s->T * s->k, i = 0;
    uint32_t *order = malloc(s->T * sizeof(*order));

    for (uint32_t t = 0; t < s->T; t++) {
        uint32_t other = random_below(1, t, t + 1);

        order[t] = order[other];
        order[other] = t;
    }
    for (uint32_t e = 0; e < s->E; e++) {
        end += share * exp(-steepness * e / s->E) * (double)choices;
        for (; i < choices && ((double)i + 0.5 < end || e == s->E - 1); i++)
            s->expert[(uint64_t)order[i % s->T] * s->k + i / s->T] = (int32_t)e;
    }
    free(order);
}

/* In the order of route; the most that an expert has. */
static uint64_t give_slots(struct expert_step *s)
{
    int64_t most = 0;

    for (uint32_t j = 0; j < s->k; j++)
        for (uint64_t t = 0; t < s->T; t++) {
            int64_t *needed = &s->needed[s->expert[t * s->k + j]];

            s->slot[t * s->k + j] = (*needed)++;
            most = *needed > most ? *needed : most;
        }
    return (uint64_t)most;
}

enum {
    FUSED,
    APART,
    PADDED,
    WAYS,
    FUSED_BACKWARD = WAYS,
    APART_BACKWARD,
    TIMES,
    LOADS = 4,
    ROUNDS = 25
};

static const double skews[LOADS] = { 1.05, 1.25, 2, 4 };

/* All loads and ways by turns: a slow moment of the machine hits all of them. */
struct turns {
    struct expert_step step[LOADS];
    int64_t ns[LOADS][TIMES][ROUNDS];
};

/* Of this thread, which does all the work: others may want the core. */
static int64_t thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Of the whole step, and of its backward half where that can be told apart. */
static void run(struct expert_step *s, int way, int64_t *whole, int64_t *backward)
{
    int64_t begin = thread_ns(), middle = begin;

    if (way == PADDED) {
        expert_step_padded(s);
    } else {
        expert_step_forward(s);
        middle = thread_ns();
        expert_step_backward(s, way == FUSED);
    }
    *backward = thread_ns() - middle;
    *whole = *backward + middle - begin;
}

static void take_turns(struct turns *t)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < LOADS * WAYS; i++) {
            int turn = (i + round * 5) % (LOADS * WAYS), way = turn % WAYS;
            int64_t(*ns)[ROUNDS] = t->ns[turn / WAYS], rest;

            run(&t->step[turn / WAYS], way, &ns[way][round],
                way == PADDED ? &rest : &ns[WAYS + way][round]);
        }
}

/* Within a round each. */
static struct rivals compare(const int64_t *ours, const int64_t *theirs)
{
    int64_t ratio[ROUNDS];
    struct spread s;

    for (int i = 0; i < ROUNDS; i++)
        ratio[i] = (int64_t)(1e6 * (double)ours[i] / (double)theirs[i]);
    s = spread_of(ratio, ROUNDS);
    return (struct rivals){ .ratio = (double)s.median_ns * 1e-6,
                            .low = (double)s.low_ns * 1e-6,
                            .high = (double)s.high_ns * 1e-6 };
}

/* The largest difference, as a share of the largest value. */
static double difference(const float *a, const float *b, uint64_t n)
{
    float most = 0, largest = 0;

    for (uint64_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(a[i] - b[i]));
        largest = fmaxf(largest, fabsf(a[i]));
    }
    return (double)(most / largest);
}

static double check_against_padded(struct expert_step *s)
{
    uint64_t n = (uint64_t)s->T * s->D;
    float *dx = malloc(n * sizeof(*dx));
    double worst;

    expert_step_padded(s);
    memcpy(dx, s->dx, n * sizeof(*dx));
    expert_step_forward(s);
    expert_step_backward(s, true);
    worst = difference(dx, s->dx, n);
    free(dx);
    return worst;
}

static void open_load(struct expert_step *s, uint32_t act, double skew)
{
    *s = (struct expert_step){
        .T = 2048, .E = 32, .k = 2, .D = 256, .H = 256, .dtype = MOE_F32, .act = act
    };
    expert_step_open(s, 1, (uint64_t)(skew * s->T * s->k / s->E) + 2);
    load_tokens(s, skew);
    s->capacity = give_slots(s);
}

static void print_ratio(const char *what, struct rivals r)
{
    printf("   %s %.3f [%.3f, %.3f]", what, r.ratio, r.low, r.high);
}

static void print_load(struct turns *t, int load)
{
    struct expert_step *s = &t->step[load];

    printf("%-6s max/mean %.2f", activation_words[s->act],
           (double)s->capacity * s->E / ((double)s->T * s->k));
    print_ratio("time / padded", compare(t->ns[load][FUSED], t->ns[load][PADDED]));
    print_ratio("/ most even load", compare(t->ns[load][FUSED], t->ns[0][FUSED]));
    print_ratio("esfk / three calls",
                compare(t->ns[load][FUSED_BACKWARD], t->ns[load][APART_BACKWARD]));
    printf("   dx differs by %.0e\n", check_against_padded(s));
}

int main(void)
{
    struct turns *t = malloc(sizeof(*t));
    struct device *device;

    if (!t || device_open("host", &device)) /* products in one thread */
        return 1;
    printf("E=32 T=2048 k=2 D=H=256 f32, experts alone, forward and backward\n");
    for (uint32_t act = MOE_RELU; act <= MOE_SWIGLU; act++) {
        for (int i = 0; i < LOADS; i++)
            open_load(&t->step[i], act, skews[i]);
        for (int i = 0; i < LOADS; i++) /* both ways once before anything is timed */
            check_against_padded(&t->step[i]);
        take_turns(t);
        for (int i = 0; i < LOADS; i++)
            print_load(t, i);
        for (int i = 0; i < LOADS; i++)
            expert_step_close(&t->step[i]);
    }
    device_close(device);
    free(t);
    return 0;
}
