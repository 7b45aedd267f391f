#include "policy_thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Passes counts and answers between the trainer and the policy thread in rings; no step is more
 * than delta steps ahead of another. */
struct handed {
    uint64_t step;
    uint32_t *counts;
    int64_t at_ns;
};

struct kept {
    struct policy_answer answer;
    uint32_t *rows;
};

struct policy {
    struct policy_setup setup;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool ends, started;
    uint64_t handed, worked, answered; /* the first step that is not yet */
    struct handed *counts;             /* (delta + 2) */
    struct kept *answers;
    uint32_t room;
    int64_t free_ns; /* on the virtual clock: when the thread has done all it was given */
};

static void answer_step(struct policy *p, uint64_t step, int64_t ready_ns)
{
    struct kept *kept = &p->answers[step % p->room];
    struct policy_answer *a = &kept->answer;
    const uint32_t *rows;

    a->state = (struct moe_capacities_state)MOE_CAPACITIES_STATE_INIT;
    a->plan = (struct moe_plan)MOE_PLAN_INIT;
    a->ready_ns = ready_ns;
    a->rows = kept->rows;
    a->status = moe_capacities_at(p->setup.capacities, step, &rows, &a->state);
    if (!a->status)
        memcpy(kept->rows, rows, p->setup.experts * sizeof(*rows));
    if (!a->status && p->setup.view)
        a->status = moelookup_get_uneven(p->setup.view, a->state.key, a->state.key_r0, &a->plan);
}

static void work_on(struct policy *p, const struct handed *h)
{
    int64_t takes_ns = p->setup.work_ns ? p->setup.work_ns(p->setup.self, h->step) : 0;
    int64_t begins_ns = h->at_ns > p->free_ns ? h->at_ns : p->free_ns;
    int fed;

    p->free_ns = begins_ns + takes_ns;
    fed = moe_capacities_feed(p->setup.capacities, h->step, h->counts, p->setup.experts);
    answer_step(p, h->step + p->setup.delta, p->free_ns);
    if (fed)
        p->answers[(h->step + p->setup.delta) % p->room].answer.status = fed;
}

/* The library is called without the lock: the trainer does not wait for it unless it must. */
static void *work(void *self)
{
    struct policy *p = self;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->ends && p->worked == p->handed)
            pthread_cond_wait(&p->change, &p->lock);
        if (p->worked == p->handed)
            break;
        pthread_mutex_unlock(&p->lock);
        work_on(p, &p->counts[p->worked % p->room]);
        pthread_mutex_lock(&p->lock);
        p->worked++;
        p->answered++;
        pthread_cond_broadcast(&p->change);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void policy_counts(struct policy *p, uint64_t step, const uint32_t *counts, int64_t now_ns)
{
    struct handed *place = &p->counts[step % p->room];

    place->step = step;
    place->at_ns = now_ns;
    memcpy(place->counts, counts, p->setup.experts * sizeof(*counts));
    pthread_mutex_lock(&p->lock);
    p->handed = step + 1;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
}

void policy_answer(struct policy *p, uint64_t step, struct policy_answer *out)
{
    pthread_mutex_lock(&p->lock);
    while (p->answered <= step)
        pthread_cond_wait(&p->change, &p->lock);
    pthread_mutex_unlock(&p->lock);
    *out = p->answers[step % p->room].answer;
}

void policy_close(struct policy *p)
{
    if (!p)
        return;
    if (p->started) {
        pthread_mutex_lock(&p->lock);
        p->ends = true;
        pthread_cond_broadcast(&p->change);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    for (uint32_t i = 0; i < p->room && p->counts; i++)
        free(p->counts[i].counts);
    for (uint32_t i = 0; i < p->room && p->answers; i++)
        free(p->answers[i].rows);
    free(p->counts);
    free(p->answers);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->change);
    free(p);
}

static bool make_room(struct policy *p)
{
    size_t bytes = p->setup.experts * sizeof(uint32_t);
    bool all;

    p->counts = calloc(p->room, sizeof(*p->counts));
    p->answers = calloc(p->room, sizeof(*p->answers));
    all = p->counts && p->answers;
    for (uint32_t i = 0; i < p->room && all; i++) {
        p->counts[i].counts = malloc(bytes);
        p->answers[i].rows = malloc(bytes);
        all = p->counts[i].counts && p->answers[i].rows;
    }
    return all;
}

int policy_open(const struct policy_setup *setup, struct policy **out)
{
    struct policy *p = calloc(1, sizeof(*p));

    if (!p)
        return MOE_ERR_NOMEM;
    p->setup = *setup;
    /* Steps t to t + delta + 1: an answer stays while the next one is being written. */
    p->room = setup->delta + 2;
    p->handed = p->worked = setup->first;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->change, NULL);
    if (!make_room(p)) {
        policy_close(p);
        return MOE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < setup->delta; i++) /* before any counts act */
        answer_step(p, setup->first + i, 0);
    p->answered = setup->first + setup->delta;
    if (pthread_create(&p->thread, NULL, work, p)) {
        policy_close(p);
        return MOE_ERR_NOMEM;
    }
    p->started = true;
    *out = p;
    return MOE_OK;
}
