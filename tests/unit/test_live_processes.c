/* Tests tuning while training: several trainers use one database, and trainers are killed. */
#include "live_training.h"
#include "text.h"

#include <signal.h>
#include <sys/wait.h>

static void a_second_trainer_only_looks_up(void)
{
    const char *path = fresh_path("two");
    struct moetune *tuner = open_with(path, options_with(0)), *second;
    struct training t = training_of(tuner, 1, 0.03), u;
    struct moetune_status s;

    train(&t, 300, 5000);
    said[0] = 0;
    second = open_with(path, options_with(0));
    CHECK(strstr(said, "this process has the database open already") &&
          strstr(said, "only looks up"));
    u = training_of(second, 2, 0.03);
    train(&u, 300, 2000);
    s = status_of(second);
    CHECK(s.looking_up == 1 && s.tried == 0);
    CHECK(plan_is(&u.plan, best_text) && u.plan.source == MOE_EXACT);
    train(&u, 5000, 10);
    CHECK(u.plan.source == MOE_CLAMPED);
    train(&t, 300, 100); /* the first one is none the worse */
    moetune_close(tuner);
    moetune_close(second);
    tuner = open_with(path, options_with(0));
    CHECK(!status_of(tuner).looking_up);
    moetune_close(tuner);
}

/* Trains until it is killed. */
static void train_for_ever(const char *path, uint64_t seed)
{
    struct moetune *tuner;
    struct training t;

    struct moetune_options options = options_with(1);

    log_enable(false);
    options.now_us = NULL;
    tuner = open_with(path, options);
    t = training_of(tuner, seed, 0.03);
    for (uint32_t i = 0;; i++) {
        train(&t, 100 + 128 * (i / 50 % 8), 1);
        if (i % 10 == 0)
            usleep(50);
    }
}

static void who_is_killed_leaves_a_valid_database(void)
{
    char path[PATH_MAX + 32];
    struct moetune *tuner;
    struct training t;
    struct store *store;
    uint32_t decided = 0;

    text_put(path, sizeof(path), "%s", fresh_path("killed"));
    /* The last ones may learn something, and as many more as that takes on a busy machine. */
    for (uint64_t run = 0; run < 25 || (!decided && run < 60); run++) {
        pid_t child = fork();

        if (!child)
            train_for_ever(path, run);
        usleep((run < 23 ? 2000 : 2000000) + random_below(run, 9, 60000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        said[0] = 0;
        CHECK(store_open(path, 0, &store) == OK); /* checks the whole file */
        store_close(store);
        CHECK(!strstr(said, "damaged"));
        if (run < 24)
            continue;
        tuner = open_with(path, options_with(1));
        decided = status_of(tuner).decided;
        moetune_close(tuner);
    }
    /* And the work of those who were killed is not lost. */
    CHECK(decided > 0);
    tuner = open_with(path, options_with(1));
    t = training_of(tuner, 99, 0.03);
    train(&t, 100, 200);
    moetune_close(tuner);
}

static void a_plan_that_kills_the_process_is_given_up(void)
{
    char path[PATH_MAX + 32];
    struct moetune *tuner;
    struct training t;
    int deaths = 0;

    text_put(path, sizeof(path), "%s", fresh_path("deadly"));
    for (int run = 0; run < 12; run++) {
        pid_t child = fork();
        int how = 0;

        if (!child) {
            log_enable(false);
            tuner = open_with(path, options_with(0.2));
            t = training_of(tuner, 1, 0.03);
            for (int i = 0; i < 4000; i++) {
                struct moe_plan plan = MOE_PLAN_INIT;

                moetune_ask(tuner, 300, &plan);
                if (plan_is(&plan, best_text))
                    raise(SIGKILL);
                moetune_tell(tuner, step_us(&t, &plan, 300));
            }
            moetune_close(tuner);
            _exit(0);
        }
        waitpid(child, &how, 0);
        deaths += WIFSIGNALED(how);
    }
    CHECK(deaths == 3);
    tuner = open_with(path, options_with(0.2));
    t = training_of(tuner, 1, 0.03);
    train(&t, 300, 10);
    CHECK(plan_is(&t.plan, second_text));
    moetune_close(tuner);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_second_trainer_only_looks_up),
        TEST(who_is_killed_leaves_a_valid_database),
        TEST(a_plan_that_kills_the_process_is_given_up),
    };

    return check_in_folder(tests, sizeof(tests) / sizeof(tests[0]), prepare);
}
