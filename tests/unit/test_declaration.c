/* Declared spaces: text in, canonical text and legal plans out. */
#include "declaration.h"

#include "check.h"
#include "status.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char deepep[] = "# what deepep's dispatch can be told\n"
                             "\n"
                             "space deepep-v1\n"
                             "axis num_sms 8 16 20 24 32 default 20 live\n"
                             "axis nvl     4..44 step 4  default 8  live\n"
                             "axis backend alltoall deepep hybridep default alltoall restart\n"
                             "need backend=deepep | nvl=8          # canonical where meaningless\n"
                             "key  tokens edges 64 256 1024 4096\n"
                             "class skew edges 1.25 2\n";
static const char deepep_canonical[] =
    "space deepep-v1\n"
    "axis num_sms 8 16 20 24 32 default 20 live\n"
    "axis nvl 4 8 12 16 20 24 28 32 36 40 44 default 8 live\n"
    "axis backend alltoall deepep hybridep default alltoall restart\n"
    "need backend=deepep | nvl=8\n"
    "key tokens edges 64 256 1024 4096\n"
    "class skew edges 1.25 2\n";

static struct declaration *read_space(const char *text)
{
    struct declaration *d = NULL;

    CHECK(!declaration_parse(text, &d));
    return d;
}

static void text_comes_out_canonical(void)
{
    struct declaration *d = read_space(deepep), *again;
    char plan[DECLARATION_PLAN_BYTES];

    CHECK(!strcmp(d->text, deepep_canonical));
    CHECK(d->axes == 3 && d->combinations == 165 && d->plans == 5 * (11 + 2));
    declaration_format(d, d->usual, plan, sizeof(plan));
    CHECK(!strcmp(plan, "num_sms=20 nvl=8 backend=alltoall"));
    again = read_space(d->text);
    CHECK(!strcmp(d->text, again->text) && d->id == again->id && d->id);
    declaration_free(d);
    declaration_free(again);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(text_comes_out_canonical),
    };

    return check_all(tests, sizeof(tests) / sizeof(tests[0]));
}
