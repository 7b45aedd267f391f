/* The main loop of every fuzzer: seeds, mutations, and what it writes when something went wrong. */
#include "fuzzer.h"

#include "random.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct fuzz_target *target;

/* What is being tried, for whoever reports that it went wrong. */
static struct {
    const uint8_t *data;
    size_t size;
    unsigned long count, accepted, failed;
} now;

static void save(void)
{
    char name[80];
    int fd;

    snprintf(name, sizeof(name), "%s.failed", target ? target->name : "fuzz");
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, now.data, now.size) != (ssize_t)now.size)
        return;
    close(fd);
    fprintf(stderr, "  input %lu is in %s\n", now.count, name);
}

void fuzz_wrong(const char *what)
{
    now.failed++;
    fprintf(stderr, "  FAILED %s\n", what);
    save();
#ifdef FUZZ_LIBFUZZER
    abort();
#endif
}

void fuzz_accepted(void)
{
    now.accepted++;
}

void fuzz_write_file(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        perror(path);
        exit(1);
    }
    close(fd);
}

const char *fuzz_folder(void)
{
    static char name[] = "/tmp/moetune-fuzz-XXXXXX";
    static bool made;

    if (!made && !mkdtemp(name)) {
        perror(name);
        exit(1);
    }
    made = true;
    return name;
}

/* ---- seeds */

enum { SEEDS_MAX = 256 };

struct seed {
    char name[32];
    uint8_t *bytes;
    size_t size;
};

static struct seed seeds[SEEDS_MAX];
static uint32_t seed_count;

static void set_seed(struct seed *s, const char *name, const void *bytes, size_t size)
{
    snprintf(s->name, sizeof(s->name), "%s", name);
    s->bytes = malloc(size + 1);
    memcpy(s->bytes, bytes, size);
    s->size = size;
}

void fuzz_seed(const char *name, const void *bytes, size_t size)
{
    set_seed(&seeds[seed_count++], name, bytes, size);
}

/* ---- mutation */

static uint64_t key, drawn;

uint32_t fuzz_draw(uint32_t below)
{
    return below ? random_below(key, drawn++, below) : 0;
}

static size_t draw_place(const struct fuzz_input *in)
{
    /* Headers decide more than what follows. */
    return fuzz_draw(in->size > 300 && fuzz_draw(3) == 0 ? 300 : (uint32_t)in->size);
}

static void flip_bit(struct fuzz_input *in)
{
    in->bytes[draw_place(in)] ^= (uint8_t)(1u << fuzz_draw(8));
}

static void set_byte(struct fuzz_input *in)
{
    in->bytes[draw_place(in)] = (uint8_t)(fuzz_draw(2) ? fuzz_draw(256) : fuzz_draw(3) - 1);
}

/* A number as counts, sizes and offsets are written, in either order of bytes. */
static void set_number(struct fuzz_input *in)
{
    static const uint32_t edges[] = { 0,   1,          2,          0x7f,       0xff,  0xffff,
                                      192, 0x7fffffff, 0x80000000, 0xffffffff, 65536, 4096 };
    uint32_t value = fuzz_draw(2) ? edges[fuzz_draw(12)] : (uint32_t)in->size + fuzz_draw(9) - 4;
    size_t at = draw_place(in) & ~(size_t)3;
    bool big = fuzz_draw(2);

    for (size_t i = 0; i < 4 && at + i < in->size; i++)
        in->bytes[at + i] = (uint8_t)(value >> 8 * (big ? 3 - i : i));
}

static void copy_block(struct fuzz_input *in)
{
    size_t from = draw_place(in), to = draw_place(in), most = in->size - (from > to ? from : to);

    memmove(in->bytes + to, in->bytes + from, fuzz_draw((uint32_t)(most < 64 ? most : 64)));
}

static void delete_block(struct fuzz_input *in)
{
    size_t at = draw_place(in), left = in->size - at,
           n = fuzz_draw((uint32_t)(left < 64 ? left : 64));

    memmove(in->bytes + at, in->bytes + at + n, left - n);
    in->size -= n;
}

static void insert_block(struct fuzz_input *in)
{
    size_t at = draw_place(in), n = fuzz_draw(2) ? 20 : fuzz_draw(64);

    if (in->size + n > FUZZ_INPUT_MAX)
        return;
    memmove(in->bytes + at + n, in->bytes + at, in->size - at);
    in->size += n;
}

static void truncate_input(struct fuzz_input *in)
{
    in->size = draw_place(in);
}

static void join_seed(struct fuzz_input *in)
{
    const struct seed *s = &seeds[fuzz_draw(seed_count)];
    size_t at = draw_place(in), from = fuzz_draw((uint32_t)s->size), n = s->size - from;

    n = n < FUZZ_INPUT_MAX - at ? n : FUZZ_INPUT_MAX - at;
    memcpy(in->bytes + at, s->bytes + from, n);
    in->size = at + n > in->size || fuzz_draw(2) ? at + n : in->size;
}

/* A target's own ways come twice as often: they know what its bytes mean. */
static void mutate(struct fuzz_input *in)
{
    static fuzz_way *const ways[] = { flip_bit,       flip_bit,   set_byte,     set_number,
                                      set_number,     copy_block, delete_block, insert_block,
                                      truncate_input, join_seed };
    const struct seed *s = &seeds[fuzz_draw(seed_count)];

    memcpy(in->bytes, s->bytes, s->size);
    in->size = s->size;
    for (uint32_t i = 1 + fuzz_draw(fuzz_draw(4) ? 3 : 12); i > 0 && in->size; i--)
        if (target->way_count && fuzz_draw(3))
            target->ways[fuzz_draw((uint32_t)target->way_count)](in);
        else
            ways[fuzz_draw(sizeof(ways) / sizeof(ways[0]))](in);
    if (fuzz_draw(4))
        target->mend(in);
}

/* What was accepted after all is worth going on from; the first seeds stay. */
static void keep(const struct fuzz_input *in, uint32_t first)
{
    struct seed *old;

    if (seed_count < SEEDS_MAX) {
        fuzz_seed("found", in->bytes, in->size);
        return;
    }
    old = &seeds[first + fuzz_draw(SEEDS_MAX - first)];
    free(old->bytes);
    set_seed(old, "found", in->bytes, in->size);
}

static void try_exactly(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1); /* so that a read past the end is seen */

    memcpy(exact, bytes, size);
    now.data = exact;
    now.size = size;
    now.count++;
    alarm(60); /* stuck */
    target->one(exact, size);
    alarm(0);
    free(exact);
}

static void fuzz(long seconds)
{
    static struct fuzz_input in;
    time_t end = time(NULL) + seconds;
    uint32_t first = seed_count;

    do {
        unsigned long accepted = now.accepted;

        mutate(&in);
        try_exactly(in.bytes, in.size);
        if (now.accepted > accepted && target->is_worth_keeping(&in))
            keep(&in, first);
    } while (time(NULL) < end && now.failed < 10);
}

/* ---- main */

static void replay(const char *path)
{
    static uint8_t bytes[1 << 22];
    FILE *file = fopen(path, "r");
    size_t size;

    if (!file) {
        perror(path);
        now.failed++;
        return;
    }
    size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    try_exactly(bytes, size);
    if (size <= FUZZ_INPUT_MAX / 2 && seed_count < SEEDS_MAX / 2)
        fuzz_seed("given", bytes, size);
}

static void write_seeds(const char *to)
{
    char path[PATH_MAX];

    for (uint32_t i = 0; i < seed_count; i++) {
        snprintf(path, sizeof(path), "%.4000s/%.31s", to, seeds[i].name);
        fuzz_write_file(path, seeds[i].bytes, seeds[i].size);
    }
}

/* There in a sanitized build only. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void save_on_signal(int number)
{
    save();
    signal(number, SIG_DFL);
    raise(number);
}

static void save_whatever_ends_us(void)
{
    static const int signals[] = { SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE };

    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(save);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (!__sanitizer_set_death_callback || signals[i] == SIGALRM)
            signal(signals[i], save_on_signal);
}

static int finish(void)
{
    for (uint32_t i = 0; i < seed_count; i++)
        free(seeds[i].bytes);
    rmdir(fuzz_folder());
    printf("  seed %llu, %lu inputs, %lu tables accepted\n", (unsigned long long)key, now.count,
           now.accepted);
    printf("%d passed, %d failed\n", !now.failed, now.failed != 0);
    return now.failed ? 1 : 0;
}

int fuzz_main(int argc, char **argv, const struct fuzz_target *what)
{
    long seconds = argc > 1 ? 0 : 10;

    target = what;
    key = (uint64_t)time(NULL);
    save_whatever_ends_us();
    if (target->make_seeds)
        target->make_seeds();
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;

        if (more && !strcmp(argv[i], "--seconds"))
            seconds = atol(argv[++i]);
        else if (more && !strcmp(argv[i], "--seed"))
            key = strtoull(argv[++i], NULL, 10);
        else if (more && !strcmp(argv[i], "--write"))
            write_seeds(argv[++i]);
        else
            replay(argv[i]);
    }
    if (seconds && !seed_count) {
        fprintf(stderr, "  FAILED: no FILE to start from\n");
        now.failed++;
    } else if (seconds) {
        fuzz(seconds);
    }
    return finish();
}
