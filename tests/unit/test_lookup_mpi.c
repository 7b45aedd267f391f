/* Tests ranks that share a table: all get the same table, or all get an error, and none hangs;
 * started by mpirun. */
#include "check.h"
#include "moelookup_mpi.h"

#include <string.h>
#include <unistd.h>

static int rank, ranks;

/* Tables that differ, without a file: a plan that the environment forces is part of the digest. */
static struct moelookup *table_with(const char *plan)
{
    struct moelookup *table = NULL;

    setenv("MOELOOKUP_FORCE", plan, 1);
    setenv("MOELOOKUP_DISABLE", "1", 1);
    CHECK(moelookup_open(NULL, &table) == MOE_OK);
    unsetenv("MOELOOKUP_FORCE");
    unsetenv("MOELOOKUP_DISABLE");
    return table;
}

static void every_rank_gets_the_roots_table(void)
{
    for (int root = 0; root < ranks; root++) {
        struct moelookup *mine = table_with(rank == root ? "r=2 d=4" : "r=1"), *got = NULL;
        struct moelookup *expected = table_with("r=2 d=4");
        unsigned char a[32], b[32];

        CHECK(moelookup_mpi_broadcast(mine, root, MPI_COMM_WORLD, &got) == MOE_OK);
        CHECK(moelookup_mpi_check(got, MPI_COMM_WORLD) == MOE_OK);
        CHECK(!moelookup_digest(got, a) && !moelookup_digest(expected, b) && !memcmp(a, b, 32));
        moelookup_close(mine);
        moelookup_close(got);
        moelookup_close(expected);
    }
}

static void an_error_on_the_root_is_everybodys(void)
{
    struct moelookup *got = NULL;

    CHECK(moelookup_mpi_open("/nowhere/moetune.db", 0, MPI_COMM_WORLD, &got) == MOE_ERR_IO);
    CHECK(moelookup_mpi_broadcast(NULL, 0, MPI_COMM_WORLD, &got) == MOE_ERR_ARGUMENT);
    CHECK(got == NULL);
}

static void a_different_table_is_found_on_every_rank(void)
{
    struct moelookup *mine = table_with(rank == ranks - 1 ? "r=2" : "r=1");

    CHECK(moelookup_mpi_check(mine, MPI_COMM_WORLD) == (ranks > 1 ? MOE_ERR_AMBIGUOUS : MOE_OK));
    CHECK(moelookup_mpi_check(rank ? mine : NULL, MPI_COMM_WORLD) == MOE_ERR_ARGUMENT);
    moelookup_close(mine);
}

/* Look-ups of the record, or -1. */
static int recorded(const char *path)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    int lines = file ? 0 : -1;

    while (file && fgets(line, sizeof(line), file))
        lines += strstr(line, "\"asked\":[[2,\"default\",1]]") != NULL;
    if (file)
        fclose(file);
    return lines;
}

static void one_rank_records_for_all(void)
{
    struct moe_shape shape = MOE_SHAPE_INIT;
    struct moe_plan plan = MOE_PLAN_INIT;
    struct moelookup *table = NULL;
    struct moelookup_view *view = NULL;
    char path[] = "/tmp/moetune-record-XXXXXX";
    int fd = rank == 0 ? mkstemp(path) : -1;

    shape.experts = shape.ranks = shape.ranks_per_node = (uint32_t)ranks;
    shape.top_k = 1;
    shape.model_dim = shape.hidden_dim = 16;
    MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
    setenv("MOELOOKUP_RECORD", path, 1);
    setenv("MOELOOKUP_DISABLE", "1", 1);
    CHECK(moelookup_mpi_open(NULL, 0, MPI_COMM_WORLD, &table) == MOE_OK);
    CHECK(moelookup_bind(table, &shape, NULL, &view) == MOE_OK);
    CHECK(moelookup_get(view, 300, &plan) == MOE_OK);
    moelookup_view_free(view);
    moelookup_close(table);
    unsetenv("MOELOOKUP_RECORD");
    unsetenv("MOELOOKUP_DISABLE");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK(fd >= 0 && recorded(path) == 1);
        close(fd);
        unlink(path);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(every_rank_gets_the_roots_table),
        TEST(an_error_on_the_root_is_everybodys),
        TEST(a_different_table_is_found_on_every_rank),
        TEST(one_rank_records_for_all),
    };
    int failed;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    setenv("MOELOOKUP_LOG", "never", 1);
    if (rank && !freopen("/dev/null", "w", stdout)) /* one count for all */
        return 1;
    failed = check_all(tests, sizeof(tests) / sizeof(tests[0]));
    failed = moelookup_mpi_settle(-failed, MPI_COMM_WORLD);
    MPI_Finalize();
    return failed != 0;
}
