/* libmoelookup with MPI: one rank reads, every rank gets the same table.
 *
 *     struct moelookup *table;
 *     int status = moelookup_mpi_open(NULL, 0, MPI_COMM_WORLD, &table);
 *
 * The library itself does not know MPI: these functions are in this header only.  All are
 * collective over `comm` and return the same status on every rank, even if only one rank failed. */
#ifndef MOELOOKUP_MPI_H
#define MOELOOKUP_MPI_H

#include "moelookup.h"

#include <mpi.h>
#include <stdlib.h>

#if defined(__GNUC__)
#define MOELOOKUP_MPI_UNUSED __attribute__((unused))
#else
#define MOELOOKUP_MPI_UNUSED
#endif

/* The worst status of all ranks.  A failure inside MPI counts as MOE_ERR_IO. */
static MOELOOKUP_MPI_UNUSED int moelookup_mpi_settle(int status, MPI_Comm comm)
{
    int worst = status;

    return MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS ? worst
                                                                                    : MOE_ERR_IO;
}

/* Broadcasts in parts: a count of MPI is an int, and a table may be larger. */
static MOELOOKUP_MPI_UNUSED int moelookup_mpi_bytes(unsigned char *bytes, size_t size, int root,
                                                    MPI_Comm comm)
{
    const size_t most = (size_t)1 << 30;
    size_t at, part;

    for (at = 0; at < size; at += part) {
        part = size - at < most ? size - at : most;
        if (MPI_Bcast(bytes + at, (int)part, MPI_BYTE, root, comm) != MPI_SUCCESS)
            return MOE_ERR_IO;
    }
    return MOE_OK;
}

/* Sends root's table to all ranks.  *out is a new table on every rank, root included.  `table` is
 * read on root only; NULL there is MOE_ERR_ARGUMENT on all ranks. */
static MOELOOKUP_MPI_UNUSED int moelookup_mpi_broadcast(const struct moelookup *table, int root,
                                                        MPI_Comm comm, struct moelookup **out)
{
    unsigned char *bytes = NULL;
    uint64_t wire_size = 0;
    size_t size = 0;
    int rank, status = MOE_OK;
    struct moelookup *made = NULL;

    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return MOE_ERR_IO;
    if (rank == root)
        status = moelookup_pack(table, NULL, &size);
    wire_size = size;
    if (MPI_Bcast(&wire_size, 1, MPI_UINT64_T, root, comm) != MPI_SUCCESS)
        return MOE_ERR_IO;
    size = (size_t)wire_size;
    if (status == MOE_OK && size != 0) {
        bytes = (unsigned char *)malloc(size);
        status = bytes == NULL ? MOE_ERR_NOMEM : MOE_OK;
    }
    if (status == MOE_OK && rank == root)
        status = moelookup_pack(table, bytes, &size);
    status = moelookup_mpi_settle(status, comm);
    if (status == MOE_OK)
        status = moelookup_mpi_bytes(bytes, size, root, comm);
    if (status == MOE_OK)
        status = moelookup_unpack(bytes, size, &made);
    free(bytes);
    status = moelookup_mpi_settle(status, comm);
    if (status == MOE_OK)
        *out = made;
    else
        moelookup_close(made);
    return status;
}

/* root opens a table as moelookup_open does, and sends it to all ranks.  No other rank reads a file
 * or the environment variables of moelookup_open. */
static MOELOOKUP_MPI_UNUSED int moelookup_mpi_open(const char *path_or_null, int root,
                                                   MPI_Comm comm, struct moelookup **out)
{
    struct moelookup *mine = NULL;
    int rank, status = MOE_OK;

    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return MOE_ERR_IO;
    if (rank == root)
        status = moelookup_open(path_or_null, &mine);
    status = moelookup_mpi_settle(status, comm);
    if (status == MOE_OK)
        status = moelookup_mpi_broadcast(mine, root, comm, out);
    /* One rank records for all (MOELOOKUP_RECORD).  If that fails, a line says so, and nothing else
     * happens. */
    if (status == MOE_OK && rank == root)
        (void)moelookup_record(*out, NULL);
    moelookup_close(mine);
    return status;
}

/* MOE_OK if every rank holds the same table, else MOE_ERR_AMBIGUOUS on every rank.  With different
 * tables, ranks would run different plans and wait for each other for ever.  Call it before the
 * first step. */
static MOELOOKUP_MPI_UNUSED int moelookup_mpi_check(const struct moelookup *table, MPI_Comm comm)
{
    unsigned char mine[32] = { 0 }, least[32], most[32];
    int i, status = moelookup_mpi_settle(moelookup_digest(table, mine), comm);

    if (status != MOE_OK)
        return status;
    if (MPI_Allreduce(mine, least, 32, MPI_UNSIGNED_CHAR, MPI_MIN, comm) != MPI_SUCCESS ||
        MPI_Allreduce(mine, most, 32, MPI_UNSIGNED_CHAR, MPI_MAX, comm) != MPI_SUCCESS)
        return MOE_ERR_IO;
    for (i = 0; i < 32; i++)
        if (least[i] != most[i])
            status = MOE_ERR_AMBIGUOUS;
    return status;
}

#endif
