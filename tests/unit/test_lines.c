/* Tests the lines that programs of --exec write, what must hold of them, and the command lines of
 * launches. */
#include "launches.h"
#include "lines.h"

#include "check.h"
#include "plan.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct declaration *plain, *classes;

static bool reads(const char *line, const struct declaration *d, struct program_line *said)
{
    static char why[LINE_WHY_BYTES];

    *why = 0;
    if (program_line_read(line, d, said, why))
        return true;
    CHECK(*why);
    return false;
}

static void questions_are_read(void)
{
    struct program_line s;

    CHECK(reads("ask 600", NULL, &s) && s.word == LINE_ASK && s.key == 600);
    CHECK(reads("ask 4294967295", NULL, &s) && s.key == UINT32_MAX);
    CHECK(reads("ask 600", plain, &s) && s.class_thousandths == 0);
    CHECK(reads("ask 600 1.75", classes, &s) && s.class_thousandths == 1750);
    CHECK(reads("status", plain, &s) && s.word == LINE_STATUS);
    CHECK(!reads("ask", NULL, &s) && !reads("ask -1", NULL, &s) && !reads("ask 6x", NULL, &s));
    CHECK(!reads("ask 4294967296", NULL, &s) && !reads("ask 6 7", plain, &s));
    CHECK(!reads("ask 600", classes, &s) && !reads("ask 600 x", classes, &s));
    CHECK(!reads("ask 600 -1", classes, &s) && !reads("ask 600 1 2", classes, &s));
    CHECK(!reads("", plain, &s) && !reads("asks 3", plain, &s) && !reads("ASK 3", plain, &s));
}

/* An edge belongs to the class below it, and what is a little above does not. */
static void classes_end_at_their_edges(void)
{
    struct program_line s;

    CHECK(reads("ask 1 1.25", classes, &s));
    CHECK(declaration_bucket(classes, 1, s.class_thousandths) == 0);
    CHECK(reads("ask 1 1.2501", classes, &s));
    CHECK(declaration_bucket(classes, 1, s.class_thousandths) == 1);
}

static void times_are_read(void)
{
    char line[1024] = "tell 5";
    struct program_line s;

    CHECK(reads("tell 12.5", NULL, &s) && s.word == LINE_TELL && s.ns == 12500 && !s.numbers);
    CHECK(reads("tell 0.0001", NULL, &s) && s.ns == 1);
    CHECK(reads("tell 1 memory=1234", NULL, &s) && s.memory_bytes == 1234);
    CHECK(reads("tell 1 memory=512MiB loss=3.5 drops=-1e-3", plain, &s));
    CHECK(s.memory_bytes == 512 << 20 && s.numbers == 2 && s.number[0].value == 3.5);
    CHECK(!strcmp(s.number[1].name, "drops") && s.number[1].value == -1e-3);
    CHECK(reads("tell 1 memory=31GiB", plain, &s) && s.memory_bytes == 31ll << 30);
    CHECK(reads("tell 1 memory=0", plain, &s) && s.memory_bytes == 0);
    CHECK(reads("tell 1 loss=nan", plain, &s) && isnan(s.number[0].value));
    CHECK(!reads("tell", NULL, &s) && !reads("tell soon", NULL, &s) && !reads("tell 0", NULL, &s));
    CHECK(!reads("tell nan", NULL, &s) && !reads("tell 1e12", NULL, &s));
    CHECK(!reads("tell 1 loss", plain, &s) && !reads("tell 1 =3", plain, &s));
    CHECK(!reads("tell 1 memory=much", plain, &s) && !reads("tell 1 loss=1 loss=2", plain, &s));
    for (int i = 0; i <= LINE_NUMBERS_MAX; i++)
        sprintf(line + strlen(line), " n%d=1", i);
    CHECK(!reads(line, plain, &s));
    /* Of a line that fills its room there may have been more: perhaps another time. */
    strcpy(line, "tell 5");
    memset(line + strlen(line), ' ', sizeof(line) - 1 - strlen(line));
    line[sizeof(line) - 1] = 0;
    CHECK(!reads(line, plain, &s));
    line[sizeof(line) - 2] = 0;
    CHECK(reads(line, plain, &s));
}

static void failures_have_a_reason(void)
{
    struct program_line s;

    CHECK(reads("failed no room", NULL, &s) && !strcmp(s.reason, "no room"));
    CHECK(reads("failed", NULL, &s) && *s.reason);
}

static void guards_hold_or_break(void)
{
    char why[LINE_WHY_BYTES];
    struct measured_guard most, least;
    struct program_line s;

    CHECK(!guard_parse("loss<=3", &most) && !guard_parse("gain>=1.5", &least));
    CHECK(reads("tell 1 loss=3 gain=1.5", plain, &s));
    CHECK(!guard_broken(&most, &s, why) && !guard_broken(&least, &s, why));
    CHECK(reads("tell 1 loss=3.1 gain=1.4", plain, &s));
    CHECK(guard_broken(&most, &s, why) && strstr(why, "loss=3.1"));
    CHECK(guard_broken(&least, &s, why));
    CHECK(reads("tell 1 loss=nan", plain, &s));
    CHECK(guard_broken(&most, &s, why) && guard_broken(&least, &s, why) &&
          strstr(why, "does not tell"));
    for (const char *const *bad = (const char *const[]){ "loss", "loss<3", "<=3", "loss<=x",
                                                         "loss=3", "memory<=3", "3a<=1", NULL };
         *bad; bad++)
        CHECK(guard_parse(*bad, &most) == ERR_ARGUMENT);
}

/* The command that becomes of another one; "": it is refused. */
static const char *filled(const char *command)
{
    static char text[512];
    uint32_t choice = declaration_with_value(plain, plain->default_choice, 0, 1);
    char *out;

    *text = 0;
    if (!launch_command(command, plain, choice, &out)) {
        snprintf(text, sizeof(text), "%s", out);
        free(out);
    }
    return text;
}

static void placeholders_are_replaced(void)
{
    CHECK(!strcmp(filled("run --way {way} --ep={ep}{way}"), "run --way b --ep=4b"));
    CHECK(!strcmp(filled("a ${way} {a,b} {} { way } {1..3} {{way}} {{{way}}}"),
                  "a ${way} {a,b} {} { way } {1..3} {way} {{way}}"));
    CHECK(!strcmp(filled("--cfg '{\"a\":{\"b\":1}}' awk '{print $1}'"),
                  "--cfg '{\"a\":{\"b\":1}}' awk '{print $1}'"));
    CHECK(!*filled("run {wy}") && !*filled("run {chunks}"));
}

static void launches_have_words(void)
{
    char text[DECLARATION_PLAN_BYTES];

    CHECK(!strcmp(declaration_launch_words(plain, plain->default_choice, text), "way=a ep=4"));
    CHECK(!*declaration_launch_words(classes, classes->default_choice, text));
}

static void plans_are_sorted_by_launch(void)
{
    struct moe_plan plans[DECLARATION_PLANS_MAX];
    size_t count = declared_plan_list(plain->id, 0, plans, DECLARATION_PLANS_MAX), ways_count = 0;
    uint32_t way_of[DECLARATION_PLANS_MAX];
    struct launch_values *ways = NULL;

    CHECK(!launch_values_list(plain, plans, count, way_of, &ways, &ways_count));
    CHECK(ways_count == 6);
    for (size_t i = 0; i < count; i++) {
        const struct launch_values *way = &ways[way_of[i]];

        CHECK(declaration_same_launch(plain, plans[i].choice, plans[way->arm].choice));
        CHECK(declaration_same_launch(plain, plans[i].choice, plans[way->nearest_arm].choice));
        CHECK(declaration_value(plain, plans[way->nearest_arm].choice, 1) ==
              plain->axis[1].fallback);
        for (size_t j = 0; j < i; j++)
            CHECK((way_of[i] == way_of[j]) ==
                  declaration_same_launch(plain, plans[i].choice, plans[j].choice));
    }
    free(ways);
}

static void launches_take_turns(void)
{
    struct launch_values ways[3] = { { .votes = 0 } };

    CHECK(launch_values_next(ways, 3, 0) == -1);
    ways[1].votes = 2;
    ways[2].votes = 3;
    CHECK(launch_values_next(ways, 3, 0) == 2);
    ways[2].last = 1;
    CHECK(launch_values_next(ways, 3, 1) == 1);
    ways[1].votes = 0;
    CHECK(launch_values_next(ways, 3, 1) == 2); /* again, for nothing else is wanted */
    ways[0].votes = 1;
    ways[2].last = 5;
    CHECK(launch_values_next(ways, 3, 6) == 0); /* it waits the longest */
}

static void steps_become_samples(void)
{
    const struct launch_watch watch = { .least = 3 };
    struct watched_bucket watched = { .last_ask = 1 };
    int64_t sample = 0;

    CHECK(!watched_add_step(&watched, 30, 3, &sample) &&
          !watched_add_step(&watched, 10, 3, &sample));
    CHECK(watched_add_step(&watched, 20, 3, &sample) && sample == 20 && watched.samples == 1);
    CHECK(!watched_count_miss(&watched) && watch_awaits(&watch, &watched, 1, true, 2));
    CHECK(watch_awaits(&watch, &watched, 1, false, 20) &&
          !watch_awaits(&watch, &watched, 1, true, 20) &&
          !watch_awaits(&watch, &watched, 1, false, 1000) && !watch_explores(&watch, 1));
    /* One of four buckets is waited for longer, if the program has ever asked for it. */
    CHECK(!watch_awaits(&watch, &watched, 4, false, 200));
    watched.seen = true;
    CHECK(watch_awaits(&watch, &watched, 4, false, 200));
    for (int launch = 0; launch < LAUNCH_PATIENCE; launch++) {
        watched_begin(&watched);
        CHECK(watched_count_miss(&watched) == (launch == LAUNCH_PATIENCE - 1));
    }
}

static void spaces_are_known(void)
{
    CHECK(!declaration_register("space plain\naxis way a b c default a restart\n"
                                "axis chunks 1 2 4 default 2 live\naxis ep 2 4 default 4 restart\n"
                                "key tokens edges 64 256\n",
                                &plain));
    CHECK(!declaration_register("space classes\naxis chunks 1 2 default 1 live\n"
                                "key tokens edges 64\nclass skew edges 1.25 2\n",
                                &classes));
}

int main(void)
{
    static const struct test tests[] = {
        TEST(spaces_are_known),           TEST(questions_are_read),
        TEST(classes_end_at_their_edges), TEST(times_are_read),
        TEST(failures_have_a_reason),     TEST(guards_hold_or_break),
        TEST(placeholders_are_replaced),  TEST(launches_have_words),
        TEST(plans_are_sorted_by_launch), TEST(launches_take_turns),
        TEST(steps_become_samples),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
