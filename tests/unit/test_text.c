/* Tests texts in buffers of fixed size, points of time, and numbers that people write. */
#include "text.h"

#include "check.h"

#include <math.h>
#include <string.h>

static void what_has_room_is_whole(void)
{
    char room[8] = "before";

    CHECK(text_put(room, sizeof(room), "%d,%s", 12, "abc") && !strcmp(room, "12,abc"));
    CHECK(text_add(room, sizeof(room), "d") && !strcmp(room, "12,abcd"));
    CHECK(text_put(room, sizeof(room), "%s", "") && !*room);
    CHECK(!strcmp(TEXT_SHORT("1234567", 7), "1234567"));
}

static void what_has_none_says_so(void)
{
    char room[8];

    CHECK(!text_put(room, sizeof(room), "%s", "12345678") && !strcmp(room, "1234..."));
    CHECK(text_put(room, sizeof(room), "123") && !text_add(room, sizeof(room), "%d", 45678));
    CHECK(!strcmp(room, "1234..."));
    CHECK(!strcmp(TEXT_SHORT("12345678", 7), "1234..."));
    CHECK(!text_put(room, 3, "%s", "123") && !strcmp(room, ".."));
    CHECK(!text_put(room, 1, "%s", "123") && !*room);
}

static void nothing_follows_what_was_cut(void)
{
    char room[8];

    /* One byte is left behind the dots, for the whole character before them. */
    CHECK(!text_put(room, sizeof(room), "%s",
                    "123\xc3\xbc"
                    "5678") &&
          !strcmp(room, "123..."));
    CHECK(!text_add(room, sizeof(room), "x") && !strcmp(room, "123..."));
}

static void no_character_is_halved(void)
{
    static const char *const wide[] = { "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
    char all[64], room[32];

    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
        for (size_t size = 5; size < sizeof(room); size++) {
            size_t length, bytes = strlen(wide[i]);

            *all = 0;
            while (strlen(all) + bytes < sizeof(all))
                strcat(all, wide[i]);
            CHECK(!text_put(room, size, "%s", all));
            length = strlen(room);
            CHECK(length >= 3 && length < size && !strcmp(room + length - 3, "..."));
            CHECK((length - 3) % bytes == 0 && size - length <= bytes);
        }
}

static void any_time_has_a_text(void)
{
    static const int64_t odd[] = { INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1 };

    CHECK(!strcmp(DATE_TEXT(0, DATE_SECOND), "1970-01-01 00:00:00"));
    CHECK(!strcmp(DATE_TEXT(1764018180, DATE_MINUTE), "2025-11-24 21:03"));
    CHECK(!strcmp(DATE_TEXT(-1, DATE_DAY), "1969-12-31"));
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        CHECK(!strcmp(DATE_TEXT(odd[i], DATE_SECOND), "?"));
    for (int64_t at = 1; at < INT64_MAX / 3; at *= 3)
        CHECK(*DATE_TEXT(at, DATE_SECOND) && *DATE_TEXT(-at, DATE_SECOND));
}

static void numbers_are_digits_a_point_and_an_exponent(void)
{
    static const struct {
        const char *text;
        double value;
    } good[] = { { "0", 0 },  { "12", 12 },     { "-3.5", -3.5 }, { ".25", .25 },
                 { "5.", 5 }, { "1e-3", 1e-3 }, { "2E+2", 200 },  { "007", 7 } };
    static const char *const bad[] = { "",     " 5",  "+5",   "0x10", "-0x1", "5 ",
                                       "five", "nan", "inf",  "--5",  "-+5",  "1e999",
                                       ".",    "-",   "-.e1", "\t5",  "5s",   "1,5" };
    const char *rest;
    double value = 7;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK(number_read(good[i].text, NULL, &value) && value == good[i].value);
    value = 7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!number_read(bad[i], NULL, &value) && value == 7);
    CHECK(number_read("90s", &rest, &value) && value == 90 && !strcmp(rest, "s"));
}

static void an_interval_without_width_is_none(void)
{
    CHECK(!strcmp(INTERVAL_TEXT("%.1f", 8.44, 9.06), " (8.4 to 9.1)"));
    CHECK(!strcmp(INTERVAL_BARE("%.4g", -1, 12), "-1 to 12"));
    CHECK(!strcmp(INTERVAL_TEXT("%.1f", 8.41, 8.44), ""));
    CHECK(!strcmp(INTERVAL_BARE("%.1f", 46.6, 46.6), ""));
    CHECK(!strcmp(INTERVAL_TEXT("%.1f", NAN, 1), "") &&
          !strcmp(INTERVAL_TEXT("%.1f", 1, INFINITY), ""));
}

int main(void)
{
    static const struct test tests[] = {
        TEST(what_has_room_is_whole),
        TEST(what_has_none_says_so),
        TEST(nothing_follows_what_was_cut),
        TEST(no_character_is_halved),
        TEST(any_time_has_a_text),
        TEST(numbers_are_digits_a_point_and_an_exponent),
        TEST(an_interval_without_width_is_none),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
