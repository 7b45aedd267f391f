/* Plays a training that asks for plans and reports times, of a small layer with one clearly best
 * plan. */
#ifndef LIVE_TRAINING_H
#define LIVE_TRAINING_H

#include "folder.h"

#include "live.h"
#include "plan.h"
#include "status.h"
#include "surface.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char said[4096]; /* all failures and remarks since it was cleared */

static inline void hear(void *self, const char *line)
{
    size_t used = strlen(said);

    (void)self;
    if (used < sizeof(said) - 2) {
        snprintf(said + used, sizeof(said) - used - 1, "%s", line);
        strcat(said, "\n");
    }
}

static inline const char *fresh_path(const char *name)
{
    static const char *const endings[] = { "", ".published", ".journal", ".owner" };
    static char path[PATH_MAX + 32];

    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%.4000s/%.60s.db%s", folder, name, endings[i]);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%.4000s/%.60s.db", folder, name);
    return path;
}

static inline void prepare(void)
{
    unsetenv("MOELOOKUP_FORCE");
    unsetenv("MOELOOKUP_DISABLE");
    unsetenv("MOELOOKUP_DB");
    setenv("XDG_DATA_HOME", folder, 1);
    log_to(hear, NULL);
}

/* ---- a small layer with a plan that is clearly the best */

static inline double no_time(void *self)
{
    (void)self;
    return 0;
}

static inline struct moe_shape small_shape(void)
{
    return (struct moe_shape){ .struct_size = sizeof(struct moe_shape),
                               .experts = 2,
                               .top_k = 2,
                               .model_dim = 64,
                               .hidden_dim = 128,
                               .ranks = 4,
                               .ranks_per_node = 4,
                               .pass = MOE_TRAIN,
                               .tokens = 256 };
}

static inline struct moetune_options options_with(double share)
{
    struct moetune_options o = MOETUNE_OPTIONS_INIT;

    o.share = share;
    o.window = 128;
    o.now_us = no_time; /* what this library takes would make tests depend on the machine */
    return o;
}

static const char best_text[] = "r=2 d=2 a=linear", second_text[] = "r=2 d=1 a=linear";

static inline bool plan_is(const struct moe_plan *plan, const char *text)
{
    struct moe_plan other = MOE_PLAN_INIT;

    return !moe_plan_parse(text, &other) && plan_equal(plan, &other);
}

static inline double factor_of(const struct moe_plan *plan)
{
    if (plan_is(plan, best_text))
        return 0.75;
    if (plan_is(plan, second_text))
        return 0.85;
    return plan->r == 1 ? 0.94 + 0.06 * plan->d : 1.1 + 0.05 * plan->r + 0.02 * plan->d;
}

struct training {
    struct moetune *tuner;
    struct noise noise;
    double slow; /* the best plan takes so many times as long as it should */
    double mine_us, default_us;
    struct moe_plan plan; /* of the last step */
};

static inline struct training training_of(struct moetune *tuner, uint64_t seed, double sigma)
{
    return (struct training){ .tuner = tuner,
                              .noise = noise_make(seed, sigma, sigma > 0 ? 0.01 : 0, false),
                              .slow = 1,
                              .plan = MOE_PLAN_INIT };
}

static inline double step_us(const struct training *t, const struct moe_plan *plan,
                             uint32_t capacity)
{
    return (500 + 2.0 * capacity) * factor_of(plan) * (plan_is(plan, best_text) ? t->slow : 1);
}

static inline void train(struct training *t, uint32_t capacity, uint32_t steps)
{
    struct moe_plan default_plan = plan_default(NULL);

    for (uint32_t i = 0; i < steps; i++) {
        double us;

        t->plan = (struct moe_plan)MOE_PLAN_INIT;
        CHECK(moetune_ask(t->tuner, capacity, &t->plan) == MOE_OK);
        us = step_us(t, &t->plan, capacity);
        t->mine_us += us;
        t->default_us += step_us(t, &default_plan, capacity);
        CHECK(moetune_tell(t->tuner, (double)noise_sample(&t->noise, us * 1e3) * 1e-3) == MOE_OK);
    }
}

static inline struct moetune_status status_of(const struct moetune *tuner)
{
    struct moetune_status s = MOETUNE_STATUS_INIT;

    CHECK(moetune_status(tuner, &s) == MOE_OK);
    return s;
}

static inline struct moetune *open_with(const char *path, struct moetune_options options)
{
    struct moe_shape shape = small_shape();
    struct moetune *tuner = NULL;

    CHECK(moetune_open(path, &shape, &options, &tuner) == MOE_OK);
    return tuner;
}

struct finding {
    uint32_t bucket;
    struct entry_row *out;
    bool found;
};

static inline int find_entry(void *self, const struct entry_row *entry)
{
    struct finding *f = self;

    if (entry->bucket == f->bucket) {
        *f->out = *entry;
        f->found = true;
    }
    return OK;
}

/* The entry as a reader of the database finds it. */
static inline bool read_entry(const char *path, uint32_t bucket, struct entry_row *out)
{
    struct finding f = { bucket, out, false };
    struct store *store;

    if (store_read(path, &store))
        return false;
    store_entries(store, 0, 0, find_entry, &f);
    store_close(store);
    return f.found;
}

#endif
