/* Makes one program of many unit tests, so that they are linked once.  Each test's name is a link
 * to this program.  The name that starts the program selects the test; if it selects none, the
 * first argument does. */
#include <stdio.h>
#include <string.h>

/* Some tests take arguments and some take none, as a program's main function may. */
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#define UNIT(name, main_of_test) int main_of_test();
#include UNIT_TABLE
#undef UNIT

static const struct {
    const char *name;
    int (*main_of_test)();
} units[] = {
#define UNIT(name, main_of_test) { #name, main_of_test },
#include UNIT_TABLE
};

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return strncmp(name, "test_", 5) ? name : name + 5;
}

int main(int argc, char **argv)
{
    for (int word = 0; word < 2 && word < argc; word++)
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
            if (!strcmp(name_of(argv[word]), units[i].name))
                return units[i].main_of_test(argc - word, argv + word);
    fprintf(stderr, "unit TEST [ARGUMENT...], where TEST is one of\n");
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        fprintf(stderr, " %s", units[i].name);
    fprintf(stderr, "\n");
    return 2;
}
