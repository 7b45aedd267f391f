/* Tests how the look-up library explains its answers. */
#include "lookup_plain.h"

static bool explains(const struct moelookup_view *view, uint32_t capacity)
{
    struct moe_plan plan = ask(view, capacity);
    char text[512], words[PLAN_TEXT_BYTES];
    int length = moelookup_explain(view, capacity, text, sizeof(text));

    moe_plan_format(&plan, words, sizeof(words));
    if (length > 0 && length < (int)sizeof(text) && length == (int)strlen(text) &&
        !strchr(text, '\n') && strstr(text, words))
        return true;
    printf("    c=%u, %s: %s\n", capacity, words, text);
    return false;
}

static void an_explanation_names_the_plan_that_get_gives(void)
{
    static struct plain plains[LAYERS];
    struct moelookup *table;

    for (int i = 0; i < LAYERS; i++) {
        draw_plain(&plains[i], (uint32_t)i);
        fill_plain(&plains[i], 0);
    }
    write_plains(place("explain.db"), plains, LAYERS, 0, false);
    table = open_table(place("explain.db"));
    for (int i = 0; i < LAYERS; i++) {
        struct moelookup_view *view = bind_layer(table, plains[i].shape);
        uint32_t c[6 * ENTRIES_MAX];
        size_t count = 0;

        for (int k = 0; k < plains[i].entry_count; k++)
            count += edges(plains[i].window, plains[i].entries[k].bucket, c + count);
        for (size_t k = 0; k < count; k++)
            CHECK(explains(view, c[k]));
        CHECK(explains(view, 0) && explains(view, UINT32_MAX));
        moelookup_view_free(view);
    }
    moelookup_close(table);
}

static void an_explanation_knows_any_time(void)
{
    struct moelookup *table =
        open_table(altered("ages.db", "UPDATE entry SET time_us=9e29, default_us=1e-30"));
    struct moelookup_view *view = bind_layer(table, layer(96));

    CHECK(explains(view, 256));
    moelookup_view_free(view);
    moelookup_close(table);
}

static void an_explanation_speaks_milliseconds_as_tables_do(void)
{
    static const double us[] = { 0.1,   1,    10.5,  42,    999.94, 999.96,  1000,    1234.6,
                                 12345, 9999, 99994, 99996, 123450, 1234567, 5000000, 9999000 };

    for (size_t i = 0; i < sizeof(us) / sizeof(us[0]); i++) {
        char sql[96], wanted[40], text[512];
        struct moelookup *table;
        struct moelookup_view *view;

        snprintf(sql, sizeof(sql), "UPDATE entry SET time_us=%.17g, default_us=%.17g", us[i],
                 us[i]);
        snprintf(wanted, sizeof(wanted), "; %.4g ms against", (double)(float)us[i] * 1e-3);
        table = open_table(altered("ms.db", sql));
        view = bind_layer(table, layer(96));
        CHECK(moelookup_explain(view, 256, text, sizeof(text)) > 0 && strstr(text, wanted));
        moelookup_view_free(view);
        moelookup_close(table);
    }
}

static void an_explanation_names_the_switch_that_decided(void)
{
    static const char *const names[] = { "MOELOOKUP_FORCE", "MOELOOKUP_DISABLE" };
    char text[512];

    write_small(place("switch.db"), "abacus", 96);
    for (int i = 0; i < 2; i++) {
        struct moelookup *table;
        struct moelookup_view *view;

        setenv(names[i], i ? "1" : "r=4 d=2", 1);
        table = open_table(place("switch.db"));
        no_environment();
        view = bind_layer(table, layer(96));
        CHECK(explains(view, 256) && moelookup_explain(view, 256, text, sizeof(text)) > 0);
        CHECK(strstr(text, names[i]));
        moelookup_view_free(view);
        moelookup_close(table);
    }
}

static void an_explanation_fits_any_buffer(void)
{
    struct moelookup *table;
    struct moelookup_view *view;
    char whole[512], text[513];
    int length;

    write_small(place("buffer.db"), "abacus", 96);
    table = open_table(place("buffer.db"));
    view = bind_layer(table, layer(96));
    length = moelookup_explain(view, 300, whole, sizeof(whole));
    CHECK(length > 0 && length < (int)sizeof(whole));
    CHECK(moelookup_explain(view, 300, NULL, 0) == length);
    for (size_t room = 0; room < sizeof(whole); room++) {
        memset(text, '#', sizeof(text));
        CHECK(moelookup_explain(view, 300, text, room) == length && text[room] == '#');
        if (room)
            CHECK(!strncmp(text, whole, room - 1) &&
                  strlen(text) == ((size_t)length < room ? (size_t)length : room - 1));
    }
    moelookup_view_free(view);
    moelookup_close(table);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(an_explanation_names_the_plan_that_get_gives),
        TEST(an_explanation_knows_any_time),
        TEST(an_explanation_speaks_milliseconds_as_tables_do),
        TEST(an_explanation_names_the_switch_that_decided),
        TEST(an_explanation_fits_any_buffer),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
