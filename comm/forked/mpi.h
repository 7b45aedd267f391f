/* The part of MPI's interface that moetune uses, for machines without MPI.  The ranks of one host
 * are forked (forked.h) in MPI_Init_thread(). */
#ifndef FORKED_MPI_H
#define FORKED_MPI_H

#include <stddef.h>

typedef int MPI_Comm, MPI_Info, MPI_Errhandler, MPI_Status;
typedef int MPI_Datatype; /* bytes of one element */
typedef enum { MPI_MAX, MPI_MIN, MPI_SUM } MPI_Op;
typedef struct forked_request *MPI_Request;

enum {
    MPI_SUCCESS,
    MPI_ERR_OTHER,
    MPI_COMM_NULL = 0,
    MPI_COMM_WORLD = 1,
    MPI_BYTE = 1,
    MPI_INT = 4,
    MPI_INT64_T = 8,
    MPI_ANY_SOURCE = -1,
    MPI_THREAD_SERIALIZED = 2,
    MPI_COMM_TYPE_SHARED = 0,
    MPI_INFO_NULL = 0,
    MPI_ERRORS_RETURN = 0,
    MPI_MAX_ERROR_STRING = 256,
    MPI_MAX_LIBRARY_VERSION_STRING = 64,
};
#define MPI_IN_PLACE ((void *)1)
#define MPI_REQUEST_NULL ((MPI_Request)NULL)
#define MPI_STATUS_IGNORE ((MPI_Status *)NULL)
#define MPI_STATUSES_IGNORE ((MPI_Status *)NULL)

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided);
int MPI_Initialized(int *flag);
int MPI_Finalize(void);
int MPI_Get_library_version(char *text, int *length);
int MPI_Error_string(int code, char *text, int *length);

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);

/* Collectives.  All ranks call them in the same order, one at a time, over all communicators. */
int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request);
int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request *request);
int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request);
int MPI_Iallgather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                   int recv_count, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request);

/* Messages.  moetune only probes for messages of 0 bytes, and only receives others, in the order in
 * which they were sent. */
int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *there, MPI_Status *status);
int MPI_Test(MPI_Request *request, int *done, MPI_Status *status);
int MPI_Testall(int count, MPI_Request *requests, int *done, MPI_Status *statuses);
int MPI_Cancel(MPI_Request *request);
int MPI_Request_free(MPI_Request *request);

#endif
