/* What would make the numbers wrong, found before they are taken. */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "discover.h"
#include "gpu_list.h"

#include <stdio.h>

enum finding_level { FINDING_FINE, FINDING_NOTE, FINDING_WRONG }; /* WRONG: would spoil a table */

struct finding {
    enum finding_level level;
    char what[240];
    const char *effect, *cure; /* of what is not fine */
};

enum { FINDINGS_MAX = 48 };

struct findings {
    struct finding list[FINDINGS_MAX];
    int count;
};

/* Adds what there is to say of the database's place. */
void doctor_database(const char *path, struct findings *out);

/* Adds what else can be seen without ranks, in a moment: cores for `ranks` of them on this host (0:
 * they are elsewhere); where they compute on those, load, frequency and environment too. */
void doctor_here(uint32_t ranks, bool on_gpus, struct findings *out);

/* Says in a line that other programs keep this machine busy, if they do. */
void doctor_note_load(void);

/* Adds whether steps that other processes disturb can be told: what disturbance.h says is known. */
void doctor_account(bool waits, bool steal, struct findings *out);

/* Collective; on every rank the same, into empty findings: what hosts say of themselves, clocks, an
 * empty collective. */
int doctor_ranks(struct world *world, const struct discovery *discovery, struct findings *out);

/* What a rank sees of its GPU; of fixed size, so that ranks can gather it.  -1: not known. */
struct gpu_condition {
    char host[64], bus[24], name[96], throttled[16]; /* throttled: by what, or "" */
    int32_t seen;                                    /* GPUs */
    int32_t out_of_reach; /* of those, whose memory this one's kernels cannot address */
    int32_t clock_mhz, clock_max_mhz, persistence, mig, links, busy_percent;
    int32_t copies_beside;         /* gpus_copies_beside(), of rank 0: who looks must be alone */
    int32_t driver, runtime, nccl; /* as struct gpus has them */
};

/* Checks of ranks that compute on GPUs. */
void gpu_doctor_ranks(const struct gpu_condition *ranks, uint32_t count, struct findings *out);

/* Says why ranks do not compute on GPUs although their host has NVIDIA GPUs on its bus. */
void gpu_doctor_none(const struct gpus *gpus, bool on_the_bus, struct findings *out);

enum finding_level findings_worst(const struct findings *findings);

/* One line each, with effect and cure; those below `least` are left out. */
void findings_print(const struct findings *findings, enum finding_level least, FILE *to);
void findings_print_json(const struct findings *findings, FILE *to);

#endif
