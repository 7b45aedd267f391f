/* Tests texts of declared spaces: what they mean, how they are written again, and why one is
 * refused. */
#include "declaration.h"

#include "check.h"
#include "declared.h"
#include "status.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- one space, by hand */

static const char deepep_canonical[] =
    "space deepep-v1\n"
    "axis num_sms 8 16 20 24 32 default 20 live\n"
    "axis nvl 4 8 12 16 20 24 28 32 36 40 44 default 8 live\n"
    "axis backend alltoall deepep hybridep default alltoall restart\n"
    "need backend=deepep | nvl=8\n"
    "key tokens edges 64 256 1024 4096\n"
    "class skew edges 1.25 2\n";

static void text_comes_out_canonical(void)
{
    struct declaration *d = read_space(deepep), *again;

    CHECK(!strcmp(d->text, deepep_canonical) && !strcmp(d->name, "deepep-v1"));
    CHECK(d->axes == 3 && d->combinations == 165 && d->plans == 5 * (11 + 2));
    CHECK(!d->axis[1].words && d->axis[1].values == 11 && d->axis[1].number[2] == 12);
    CHECK(d->axis[2].words && !d->axis[2].number && d->axis[2].restart && !d->axis[0].restart);
    CHECK(!strcmp(d->key, "tokens") && d->key_edges == 4 && d->key_edge[3] == 4096);
    CHECK(!strcmp(d->class_name, "skew") && d->class_edges == 2 && d->class_edge[0] == 1250);
    again = read_space(d->text);
    CHECK(!strcmp(d->text, again->text) && d->id == again->id && d->id);
    declaration_free(d);
    declaration_free(again);
    declaration_free(NULL);
}

/* A text, and what one need or axis of it becomes. */
static const struct {
    const char *line, *canonical;
} lines[] = {
    { "axis a values 3, 1, 2, default 2, live", "axis a 1 2 3 default 2 live\n" },
    { "axis a 016,-0 8..10 default 08", "axis a 0 8 9 10 16 default 8 live\n" },
    { "axis a -9..-2 step 3 5 default -3 restart", "axis a -9 -6 -3 5 default -3 restart\n" },
    { "axis a 16 auto 08 default 08", "axis a 16 auto 08 default 08 live\n" },
    { "axis a 12345678901 b default b", "axis a 12345678901 b default b live\n" },
    { "axis a A-b _ .5 default _\r", "axis a A-b _ .5 default _ live\n" },
    { "axis a off on default on threshold --a-from", "axis a off on default on live threshold "
                                                     "--a-from\n" },
    { "axis a 1 0 default 0 live, threshold A.b_c+1",
      "axis a 0 1 default 0 live threshold A.b_c+1\n" },
    { "axis a x threshold default threshold threshold threshold",
      "axis a x threshold default threshold live threshold threshold\n" },
    { "need n=2|2<=n&n!=4", "need n=2 | 2<=n & n!=4\n" },
    { "need 2*n * m*3 >4", "need n*m*6>4\n" },
    { "need 1*n >= 0*n", "need n>=n*0\n" },
    { "need n*5*1000000000 <= 4611686018427387903", "need n*5000000000<=4611686018427387903\n" },
    { "need mode != 99999999999999999999 | n=2", "need mode!=99999999999999999999 | n=2\n" },
    { "need 2 divides n*1 # even", "need 2 divides n\n" },
    { "need 2*n divides  ranks*3", "need n*2 divides ranks*3\n" },
    { "need n<=ranks", "need n<=ranks\n" },
    { "need\tmode != other", "need mode!=other\n" },
    { "need slow=mode | mode=2", "need slow=mode | mode=2\n" },
    { "need mode=n | other=mode", "need mode=n | other=mode\n" }, /* n: a word, too */
    { "key k edges 0, 1,10", "key k edges 0 1 10\n" },
    { "class c edges 0.001 0.01 1 1.50 1000000", "class c edges 0.001 0.01 1 1.5 1000000\n" },
};

static void each_line_comes_out_canonical(void)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[1024];
        struct declaration *d;

        snprintf(text, sizeof(text),
                 "space x\naxis n 2 4 default 2\naxis m 1 default 1\n"
                 "axis mode slow n other 2 99999999999999999999 default slow\naxis other slow mode "
                 "default mode\n%s%s",
                 lines[i].line, *lines[i].line == 'k' ? "" : "\nkey key edges 1");
        d = read_space(text);
        if (!strstr(d->text, lines[i].canonical))
            printf("    %s\n", d->text);
        CHECK(strstr(d->text, lines[i].canonical));
        declaration_free(d);
    }
}

/* ---- what is refused, and why */

#define BASE "space x\naxis n 1 2 3 default 1\naxis mode fast slow default slow\n"
#define KEY "key k edges 1\n"

static const struct {
    const char *text, *why;
} refused[] = {
    { "", "line 1: there is no \"space NAME\"" },
    { "# nothing\n\n", "line 2: there is no \"space NAME\"" },
    { "axis a 1 default 1\n", "line 1: \"axis\" stands where \"space NAME\" should" },
    { "\n\nfoo\n", "line 3: \"foo\" stands where \"space NAME\" should" },
    { "space X\n", "line 1: \"X\" stands where the name of a space should: 1 to 31 letters a-z, "
                   "digits and _ or -, the first a letter" },
    { "space 9x\n", "line 1: \"9x\" stands where the name of a space should: 1 to 31 letters a-z, "
                    "digits and _ or -, the first a letter" },
    { "space x y\n", "line 1: \"y\" follows, where the line should end" },
    { "space\n", "line 1: the end of the line stands where the name of a space should: 1 to 31 "
                 "letters a-z, digits and _ or -, the first a letter" },
    { "space aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
      "line 1: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" stands where the name of a space should: 1 to "
      "31 letters a-z, digits and _ or -, the first a letter" },
    { "space x\nspace y\n", "line 2: the space has a name already: x" },
    { "space x\nkey k edges 1\n", "line 1: the space x has no axis" },
    { "space x\naxis a 1 default 1\n", "line 1: the space x has no key" },
    { BASE "frob 12\nkey k edges 1\n",
      "line 4: \"frob\" begins no line: axis, need, key and class do" },
    { BASE "axis n 1 default 1\n", "line 4: \"n\" is declared twice" },
    { BASE "axis a off on default on threshold\n",
      "line 4: the end of the line stands where the option of the threshold should: 1 to 63 "
      "letters, digits and _ . + -" },
    { BASE "axis a off on default on threshold --a=1\n",
      "line 4: \"--a=1\" stands where the option of the threshold should: 1 to 63 letters, digits "
      "and _ . + -" },
    { BASE "axis a off on auto default on threshold --a\n",
      "line 4: the axis a has 3 values: a threshold lies between two" },
    { BASE "axis a on default on threshold --a\n",
      "line 4: the axis a has 1 value: a threshold lies between two" },
    { BASE "axis a off on default on restart threshold --a\n",
      "line 4: the axis a needs a restart: a threshold is crossed between two steps" },
    { BASE "axis a off on default on threshold --a\naxis b 0 1 default 1 threshold --a\n",
      "line 5: \"--a\" is already the threshold of the axis a" },
    { BASE "axis a off on default on threshold --a live\n",
      "line 4: \"live\" follows, where the line should end" },
    { BASE KEY "axis k 1 default 1\n", "line 5: \"k\" is declared twice" },
    { BASE "key n edges 1\n", "line 4: \"n\" is declared twice" },
    { BASE KEY "class k edges 1\n", "line 5: \"k\" is declared twice" },
    { BASE "axis live 1 default 1\n",
      "line 4: \"live\" cannot be the name of an axis: the word is reserved" },
    { BASE "axis divides 1 default 1\n",
      "line 4: \"divides\" cannot be the name of an axis: the word is reserved" },
    { BASE "axis b 1 2 defualt 1 live\n",
      "line 4: \"live\" stands where a value or \"default V\" should: is \"defualt\" meant to be "
      "\"default\"?" },
    { BASE "axis A 1 default 1\n", "line 4: \"A\" stands where the name of an axis should: 1 to 31 "
                                   "letters a-z, digits and _, the first a letter" },
    { BASE "axis a-b 1 default 1\n", "line 4: \"a-b\" stands where the name of an axis should: 1 "
                                     "to 31 letters a-z, digits and _, the first a letter" },
    { BASE "axis\n", "line 4: the end of the line stands where the name of an axis should: 1 to 31 "
                     "letters a-z, digits and _, the first a letter" },
    { BASE "axis a 1 2\n",
      "line 4: the end of the line stands where a value or \"default V\" should" },
    { BASE "axis a default 1\n", "line 4: there is no value before \"default\"" },
    { BASE "axis a 1 2 default 3\n",
      "line 4: \"3\" is no value of the axis a, as its default must be" },
    { BASE "axis a 1 2 default\n",
      "line 4: the end of the line is no value of the axis a, as its default must be" },
    { BASE "axis a 1 live default 1\n",
      "line 4: \"live\" stands where a value or \"default V\" should" },
    { BASE "axis a x/y default x/y\n",
      "line 4: \"x/y\" is no value: 1 to 31 letters, digits and _ . + -" },
    { BASE "axis a wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww default x\n",
      "line 4: \"wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww\" is no value: 1 to 31 letters, digits and _ . + "
      "-" },
    { BASE "axis a 1 2 01 default 1\n", "line 4: the value 1 stands there twice" },
    { BASE "axis a x y x default x\n", "line 4: the value x stands there twice" },
    { BASE "axis a 1..4 3 default 1\n", "line 4: the value 3 stands there twice" },
    { BASE "axis a 1..4 x default 1\n",
      "line 4: a range stands beside words: ranges are for integers only" },
    { BASE "axis a 4..1 default 1\n",
      "line 4: the range \"4..1\" by 1: a range goes up, by steps of 1 or more" },
    { BASE "axis a 1..4 step 0 default 1\n",
      "line 4: the range \"1..4\" by 0: a range goes up, by steps of 1 or more" },
    { BASE "axis a 1..4 step default 1\n",
      "line 4: \"default\" is no integer from -1000000000 to 1000000000" },
    { BASE "axis a 1.. default 1\n",
      "line 4: \"1..\" is no range: LO..HI, of integers from -1000000000 to 1000000000" },
    { BASE "axis a 1..x default 1\n",
      "line 4: \"1..x\" is no range: LO..HI, of integers from -1000000000 to 1000000000" },
    { BASE "axis a 0..256 default 1\n", "line 4: more than 256 values" },
    { BASE "axis a 1 1000000001 default 1\n",
      "line 4: \"1000000001\" is no integer from -1000000000 to 1000000000" },
    { BASE "axis a 1 default 1 live restart\n",
      "line 4: \"restart\" follows, where the line should end" },
    { BASE "axis a 1 default 1 dead\n", "line 4: \"dead\" follows, where the line should end" },
    { BASE "axis a 1 step 2 default 1\n",
      "line 4: \"step\" stands where a value or \"default V\" should" },
    { BASE "need nn=1\n", "line 4: \"nn\" is no integer and no axis declared above: n, mode" },
    { BASE "need n\n",
      "line 4: the end of the line stands where =, !=, <, <=, >, >= or divides should" },
    { BASE "need\n",
      "line 4: the end of the line stands where an axis, an integer or a word should" },
    { BASE "need n=\n",
      "line 4: the end of the line stands where an axis, an integer or a word should" },
    { BASE "need n=1 |\n",
      "line 4: the end of the line stands where an axis, an integer or a word should" },
    { BASE "need n=1 | | n=2\n",
      "line 4: \"| n=2\" stands where an axis, an integer or a word should" },
    { BASE "need n=1 n=2\n", "line 4: \"n=2\" follows a comparison: & and | join two of them" },
    { BASE "need n=1 & mode<fast\n", "line 4: words are compared by = and !=, not by <" },
    { BASE "need mode=fats\n",
      "line 4: \"fats\" is no value of the axis mode, which has fast, slow" },
    { BASE "need mode=mode\n",
      "line 4: \"mode\" is no value of the axis mode, which has fast, slow" },
    { BASE "need mode=n\n", "line 4: \"n\" is no value of the axis mode, which has fast, slow" },
    { BASE "need mode*2=4\n",
      "line 4: the values of \"mode\" are words, which cannot be multiplied" },
    { BASE "need n=fast\n", "line 4: \"fast\" is no integer and no axis declared above: n, mode" },
    { BASE "need 1=1\n", "line 4: \"1\" is compared with \"1\", and neither is an axis" },
    { BASE "need (n=1)\n", "line 4: \"(n=1)\" stands where an axis, an integer or a word should" },
    { BASE "need n=2\n", "line 4: the need excludes the default plan, which has n=1" },
    { BASE "need n>1 & mode=slow | mode=fast\n",
      "line 4: the need excludes the default plan, which has n=1 mode=slow" },
    { BASE "need n=1 = 2\n", "line 4: \"= 2\" follows a comparison: & and | join two of them" },
    { BASE "need n==1\n", "line 4: \"=1\" stands where an axis, an integer or a word should" },
    { BASE "need n divide 2\n",
      "line 4: \"divide 2\" stands where =, !=, <, <=, >, >= or divides should" },
    { BASE "need n!=4611686018427387904\n",
      "line 4: the product with \"4611686018427387904\" may be 2^62 or more" },
    { BASE "need n!=99999999999999999999\n",
      "line 4: the product with \"99999999999999999999\" may be 2^62 or more" },
    { BASE "need later=1\naxis later 1 default 1\n",
      "line 4: \"later\" is no integer and no axis declared above: n, mode" },
    { BASE "need n*1000000000*1000000000*1000000000=1\n",
      "line 4: the product with \"1000000000\" may be 2^62 or more" },
    { BASE "key k\n", "line 4: the end of the line stands where \"edges\" should" },
    { BASE "key k edges\n", "line 4: there is no edge" },
    { BASE "key k 1 2\n", "line 4: \"1\" stands where \"edges\" should" },
    { BASE "key k edges 2 2\n", "line 4: the edge \"2\" is not above the one before it" },
    { BASE "key k edges -1\n", "line 4: the edge \"-1\" is no integer from 0 to 10^15" },
    { BASE KEY "class c edges -0.5\n", "line 5: the edge \"-0.5\" is no decimal above 0, with "
                                       "three digits behind the point at most, "
                                       "up to 1000000" },
    { BASE KEY "class c edges 1 2.-0\n", "line 5: the edge \"2.-0\" is no decimal above 0, with "
                                         "three digits behind the point at most, "
                                         "up to 1000000" },
    { BASE "key k edges 1 x\n", "line 4: the edge \"x\" is no integer from 0 to 10^15" },
    { BASE "key k edges 1000000000000001\n",
      "line 4: the edge \"1000000000000001\" is no integer from 0 to 10^15" },
    { BASE KEY "key j edges 1\n", "line 5: there is a key already: k" },
    { BASE KEY "class c edges 0\n", "line 5: the edge \"0\" is no decimal above 0, with three "
                                    "digits behind the point at most, up to 1000000" },
    { BASE KEY "class c edges 1.2345\n", "line 5: the edge \"1.2345\" is no decimal above 0, with "
                                         "three digits behind the point at most, up to 1000000" },
    { BASE KEY "class c edges 1 1.000\n",
      "line 5: the edge \"1.000\" is not above the one before it" },
    { BASE KEY "class c edges 1 2 3 4 5 6 7 8 9\n", "line 5: more than 8 edges" },
    { BASE KEY "class c edges 1000000.001\n",
      "line 5: the edge \"1000000.001\" is no decimal above 0, with three digits behind the point "
      "at most, up to 1000000" },
    { BASE KEY "class c edges .5\n", "line 5: the edge \".5\" is no decimal above 0, with three "
                                     "digits behind the point at most, up to 1000000" },
    { BASE KEY "class c edges 1.\n", "line 5: the edge \"1.\" is no decimal above 0, with three "
                                     "digits behind the point at most, up to 1000000" },
    { BASE KEY "class c edges 1\nclass d edges 1\n", "line 6: there is a class already: c" },
    { BASE KEY "axis b 0..255 default 0\naxis c 0..255 default 0\naxis d 0..255 default 0\n",
      "line 7: with the axis d there are more than 16777216 combinations" },
    { BASE KEY "axis b 0..40 default 0\naxis c 0..40 default 0\n",
      "line 1: of 10086 combinations at least 2001 are legal plans, and at most 2000 are "
      "allowed: leave values out, or add needs" },
};

static void wrong_texts_are_refused_with_their_line(void)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct declaration *d = NULL;
        char why[DECLARATION_FAULT_BYTES] = "";

        CHECK(declaration_read(refused[i].text, &d, why, sizeof(why)) == ERR_ARGUMENT && !d);
        if (strcmp(why, refused[i].why) != 0)
            printf("    %s\n    %s\n", why, refused[i].why);
        CHECK(!strcmp(why, refused[i].why));
    }
}

static void parsing_says_why(void)
{
    char said[DECLARATION_FAULT_BYTES] = "";
    struct declaration *d = NULL;

    log_to(take_line, said);
    CHECK(declaration_parse("space x\nspace y\n", &d) == ERR_ARGUMENT && !d);
    log_to(NULL, NULL);
    CHECK(!strcmp(said, "declared space: line 2: the space has a name already: x"));
}

/* ---- limits */

/* Axes of the values 0 to values - 1, and these other lines. */
static int parse_wide(size_t axes, unsigned values, const char *others, uint32_t *plans, char *why)
{
    char *text = calloc(1, 8 * DECLARATION_TEXT_BYTES);
    size_t used = (size_t)sprintf(text, "space wide\n");
    struct declaration *d = NULL;
    int rc;

    for (size_t i = 0; i < axes; i++)
        used += (size_t)sprintf(text + used, "axis a%zu 0..%u default 0\n", i, values - 1);
    sprintf(text + used, "%skey k edges 1\n", others);
    rc = declaration_read(text, &d, why, DECLARATION_FAULT_BYTES);
    *plans = d ? d->plans : 0;
    declaration_free(d);
    free(text);
    return rc;
}

static void check_plans(size_t axes, unsigned values, const char *others, uint32_t expected)
{
    char why[DECLARATION_FAULT_BYTES];
    uint32_t plans;

    CHECK(!parse_wide(axes, values, others, &plans, why) && plans == expected);
}

static void check_refused(size_t axes, unsigned values, const char *others, const char *expected)
{
    char why[DECLARATION_FAULT_BYTES] = "";
    uint32_t plans;

    CHECK(parse_wide(axes, values, others, &plans, why) == ERR_ARGUMENT);
    CHECK(!strcmp(why, expected));
    if (strcmp(why, expected) != 0)
        printf("    %s\n", why);
}

/* `one` so many times between two others. */
static char *repeat(const char *before, const char *one, size_t times, const char *after)
{
    char *text = calloc(1, strlen(before) + strlen(one) * times + strlen(after) + 1);

    strcpy(text, before);
    while (times--)
        strcat(text, one);
    return strcat(text, after);
}

static void check_repeated(const char *before, const char *one, size_t times, const char *after,
                           const char *why)
{
    char *most = repeat(before, one, times, after), *more = repeat(before, one, times + 1, after);

    check_plans(1, 3, most, 3);
    check_refused(1, 3, more, why);
    free(most);
    free(more);
}

static void limits_are_what_they_say(void)
{
    check_plans(2, 44, "", 1936);
    check_refused(
        2, 45, "",
        "line 1: of 2025 combinations at least 2001 are legal plans, and at most 2000 are "
        "allowed: leave values out, or add needs");
    check_plans(2, 50, "need a0<40\n", 2000);
    check_plans(1, 256, "", 256);
    check_refused(1, 257, "", "line 2: more than 256 values");
    check_plans(16, 1, "", 1);
    check_refused(17, 1, "", "line 18: more than 16 axes");
    check_plans(3, 256, "need a0=a1 & a2*a1=0\n", 511);
    check_repeated("", "need a0<=9\n", DECLARATION_NEEDS_MAX, "", "line 67: more than 64 needs");
    check_repeated("need a0=1", "|0<=a0", DECLARATION_COMPARISONS_MAX - 1, "\n",
                   "line 3: more than 256 comparisons in all needs");
    check_repeated("need 1", "*1000000000", 2, ">=a0\n",
                   "line 3: the product with \"1000000000\" may be 2^62 or more");
    check_repeated("need 0<=a0", "*a0", DECLARATION_AXES_MAX - 1, "\n",
                   "line 3: a product of more than 16 axes");
    check_repeated("# ", "x", DECLARATION_TEXT_BYTES - 51, "\n",
                   "line 1: the text has 16385 bytes: at most 16384 are allowed");
}

/* Each combination of the last two axes would have to be compared 244 times. */
static void what_takes_too_long_is_refused(void)
{
    char *needs = repeat("need a0=0&a1=0&a2=0&a3=0&a4=0&a5=0&a6=0&a7=0&a8=0&a9=0&a10=0&a11=0",
                         "|a10*a11=7", 244, "\n");

    check_refused(12, 4, needs,
                  "line 1: it takes more than 134217728 comparisons to find the legal plans of "
                  "16777216 combinations: declare the axes that exclude most first");
    free(needs);
}

/* 256 values of 10 characters on each of three axes, from a few words. */
static void ranges_that_are_written_out_have_room(void)
{
    static const char axes[] = "axis b -1000000000..-999999745 default -1000000000\n"
                               "axis c -1000000000..-999999745 default -1000000000\n"
                               "axis d -1000000000..-999999745 default -1000000000\n"
                               "axis abcdefghijklmnopqrstuvwxyzabcde 1 default 1\nneed a0=0";
    char *text = repeat(axes, "&abcdefghijklmnopqrstuvwxyzabcde=1", 225, "\n");

    CHECK(strlen(text) < DECLARATION_TEXT_BYTES / 2);
    check_refused(
        1, 1, text,
        "line 1: with its ranges written out the text has 16761 bytes: at most 16384 are allowed");
    free(text);
}

static void texts_and_plans_have_room(void)
{
    char *names = calloc(1, 4096), *needs = repeat("need ", "a0=a0 & ", 255, "a0=a0\n");

    for (int i = 0; i < 8; i++)
        sprintf(names + strlen(names), "axis %.*s%c 1 default 1\n", i < 7 ? 29 : 9,
                "abcdefghijklmnopqrstuvwxyzabcd", 'a' + i);
    check_plans(1, 1, names, 1); /* 4 + 7 * 33 + 13 = 248 characters */
    strcat(names, "axis lastly 1 default 1\n");
    check_refused(1, 1, names,
                  "line 11: with the axis lastly a plan has up to 257 characters, more than 256");
    check_plans(1, 3, needs, 3);
    free(needs);
    free(names);
}

/* ---- the manual: <!-- SPACE COMBINATIONS PLANS --> before each space of it */

static char *read_page(void)
{
    FILE *file = fopen("tuner/cli/moetune-spaces.7.md", "r");
    char *page = calloc(1, 1 << 16);
    size_t size = file ? fread(page, 1, (1 << 16) - 1, file) : 0;

    CHECK(size > 1000);
    if (file)
        fclose(file);
    return page;
}

static void spaces_of_the_manual_are_what_it_says(void)
{
    static const char mark[] = "<!-- SPACE ", begin[] = "```text\n";
    char *page = read_page(), *at = page, tag[DECLARATION_TAG_BYTES];
    int spaces = 0;

    for (; (at = strstr(at, mark)); spaces++) {
        unsigned combinations = 0, plans = 0;
        char *text = strstr(at, begin), *end = text ? strstr(text, "\n```\n") : NULL;
        struct declaration *d;

        CHECK(end && sscanf(at, "<!-- SPACE %u %u -->\n", &combinations, &plans) == 2);
        if (!end)
            break;
        *++end = 0;
        d = read_space(text + strlen(begin));
        *end = '`';
        CHECK(d->combinations == combinations && d->plans == plans);
        CHECK(spaces || strstr(page, declaration_tag(d, tag)));
        declaration_free(d);
        at = end;
    }
    CHECK(spaces == 3);
    free(page);
}

static void the_wrong_line_of_the_manual_is_refused_as_it_says(void)
{
    char *page = read_page(), *word = strstr(page, "=deepep |"), why[DECLARATION_FAULT_BYTES] = "";
    char *text = strstr(page, "space deepep"), *end = text ? strstr(text, "\n```\n") : NULL;
    struct declaration *d = NULL;

    CHECK(word && end);
    if (word && end) {
        memcpy(word, "=deepp  |", 9);
        *++end = 0;
        CHECK(declaration_read(text, &d, why, sizeof(why)) == ERR_ARGUMENT);
        CHECK(strlen(why) > 20 && strstr(end + 1, why));
    }
    free(page);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(text_comes_out_canonical),
        TEST(each_line_comes_out_canonical),
        TEST(wrong_texts_are_refused_with_their_line),
        TEST(parsing_says_why),
        TEST(limits_are_what_they_say),
        TEST(what_takes_too_long_is_refused),
        TEST(ranges_that_are_written_out_have_room),
        TEST(texts_and_plans_have_room),
        TEST(spaces_of_the_manual_are_what_it_says),
        TEST(the_wrong_line_of_the_manual_is_refused_as_it_says),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
