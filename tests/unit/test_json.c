/* Tests that JSON is read strictly, and that its numbers stay exact. */
#include "check.h"
#include "heard.h"

#include "json.h"
#include "random.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int count_value(void *self, const struct json_value *value)
{
    (void)value;
    ++*(int *)self;
    return OK;
}

static void json_is_read_strictly(void)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        { "{}", true },
        { " [1, -2.5e3, \"a\\u00e9\\n\", null, true] ", true },
        { "{\"a\":{\"b\":[]}}", true },
        { "\"\\ud83d\\ude00\"", true },
        { "", false },
        { "{", false },
        { "{\"a\":1,}", false },
        { "[1 2]", false },
        { "01", false },
        { "1.", false },
        { "nul", false },
        { "\"\\x\"", false },
        { "\"\\ud800\"", false },
        { "{} {}", false },
        { "{a:1}", false },
        { "+1", false },
        { "\"a\nb\"", false },
        { "NaN", false },
    };
    char deep[200];
    int seen = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool valid =
            json_read(cases[i].text, strlen(cases[i].text), "case", count_value, &seen) == OK;

        if (valid != cases[i].valid)
            printf("    %s\n", cases[i].text);
        CHECK(valid == cases[i].valid);
    }
    memset(deep, '[', sizeof(deep));
    CHECK(json_read(deep, sizeof(deep), "deep", count_value, &seen) == ERR_FORMAT);
}

static int take_number(void *self, const struct json_value *v)
{
    *(double *)self = json_number(v);
    return OK;
}

static void reads_back(double value)
{
    char text[64] = "";
    double again = 0, by_libc;
    FILE *memory = fmemopen(text, sizeof(text), "w");

    json_write(memory, "%g", value);
    fclose(memory);
    CHECK(!json_read(text, strlen(text), "number", take_number, &again));
    by_libc = strtod(text, NULL);
    CHECK(!memcmp(&value, &again, sizeof(value)) && !memcmp(&value, &by_libc, sizeof(value)));
}

static void numbers_read_back_as_they_were(void)
{
    static const double odd[] = { 0,
                                  -0.0,
                                  1e-4,
                                  9.9e-5,
                                  1. / 3,
                                  1e9,
                                  999999999.999999,
                                  1e15,
                                  0.1,
                                  -0.5,
                                  5e-324,
                                  1.7976931348623e308,
                                  1e-7,
                                  123456.7890625 };

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        reads_back(odd[i]);
    for (uint64_t i = 0; i < 20000; i++) {
        double n = (double)random_below(7, i, UINT32_MAX);

        reads_back(n / 1000);
        reads_back(-n / 1e6);
        reads_back(n / 7);
    }
}

static void a_pattern_is_written_as_json(void)
{
    char text[400] = "";
    FILE *memory = fmemopen(text, sizeof(text), "w");

    json_write(memory,
               "{'%s': '%s|%s', 'raw': %s, 'd': %d, 'u': %u, 'most': %" PRIu64 ", 'least': %" PRId64
               ", 'z': %zu, 'exact': %g, 'rounded': %.3f, 'six': %.6g, 'unknown': [%g, %.2f], "
               "'hash': '%016" PRIx64 "'}\n%s",
               "a key", "\"it's\"\n", "", "[true, null]", -3, UINT32_MAX, UINT64_MAX, INT64_MIN,
               (size_t)7, 0.1, 1.5, 1. / 3, NAN, INFINITY, (uint64_t)255, "");
    fclose(memory);
    CHECK(!strcmp(text, "{\"a key\": \"\\\"it's\\\"\\u000a|\", \"raw\": [true, null], "
                        "\"d\": -3, \"u\": 4294967295, \"most\": 18446744073709551615, "
                        "\"least\": -9223372036854775808, \"z\": 7, \"exact\": 0.1, "
                        "\"rounded\": 1.500, \"six\": 0.333333, \"unknown\": [null, null], "
                        "\"hash\": \"00000000000000ff\"}\n"));
}

static void no_bytes_make_the_json_reader_fall(void)
{
    static const char good[] = "{\"a\":[1,2.5e-3,\"x\\u00e9\\\"\"],\"b\":{\"c\":null,\"d\":true}}";
    char bytes[sizeof(good)];
    int seen = 0;

    for (size_t i = 0; i < sizeof(good) - 1; i++) {
        CHECK(json_read(good, i, "cut", count_value, &seen) != OK);
        for (int flip = 1; flip < 256; flip++) {
            memcpy(bytes, good, sizeof(good));
            bytes[i] = (char)(bytes[i] ^ flip);
            json_read(bytes, sizeof(good) - 1, "flip", count_value, &seen);
        }
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(json_is_read_strictly),
        TEST(numbers_read_back_as_they_were),
        TEST(a_pattern_is_written_as_json),
        TEST(no_bytes_make_the_json_reader_fall),
    };

    log_to(listen, NULL);
    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
