/* Finds what would make measurements wrong, before they are made: for `moetune doctor`, and for
 * verbs that measure. */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "discover.h"
#include "gpu_list.h"

#include <stdio.h>

enum finding_level { FINDING_FINE, FINDING_NOTE, FINDING_WRONG }; /* WRONG: would spoil a table */

/* What one check found.  A plain value; its literals live as long as the program. */
struct finding {
    enum finding_level level;
    char what[240];
    const char *effect, *cure; /* NULL for FINDING_FINE */
};

enum { FINDINGS_MAX = 48 };

/* All findings, in the order of the checks.  A plain value that begins empty (count = 0); findings
 * beyond FINDINGS_MAX are dropped. */
struct findings {
    struct finding list[FINDINGS_MAX];
    int count;
};

/* Adds findings about the place of the database: can it be written, is its disk local, is it full?
 */
void doctor_database(const char *path, struct findings *out);

/* Adds findings about this host that need no ranks: cores for `ranks` ranks (0: the ranks run on
 * other hosts).  Where ranks compute on cores (not on_gpus), also load, frequency and environment.
 */
void doctor_here(uint32_t ranks, bool on_gpus, struct findings *out);

/* Prints one line if other programs keep this machine busy. */
void doctor_note_load(void);

/* Adds whether moetune can recognise disturbed steps.  waits, steal: what disturbance.h says of
 * them. */
void doctor_disturbance(bool waits, bool steal, struct findings *out);

/* Compares the ranks: programs, cores and load of their hosts, clocks, network, GPUs, an empty
 * collective.  Collective.  Replaces *out, with the same findings on every rank.  Returns an error
 * only where a collective fails or memory is short. */
int doctor_ranks(struct world *world, const struct discovery *discovery, struct findings *out);

/* What a rank sees of its GPU.  A plain value of fixed size, so that ranks can gather it.  -1: not
 * known. */
struct gpu_condition {
    char host[64], bus[24], name[96], throttled[16]; /* throttled: "heat", "power", ... or "" */
    int32_t seen;                                    /* GPUs that the process sees */
    int32_t out_of_reach; /* seen GPUs whose memory this GPU's kernels cannot address */
    int32_t clock_mhz, clock_max_mhz, persistence, mig, links, busy_percent;
    int32_t copies_beside; /* gpus_copies_beside(), on rank 0 only: that test wants an idle GPU */
    int32_t driver, runtime, nccl; /* numbers as in struct gpus */
};

/* Adds findings about the GPUs of all ranks; ranks[i] is rank i's. */
void gpu_doctor_ranks(const struct gpu_condition *ranks, uint32_t count, struct findings *out);

/* Adds why ranks do not compute on GPUs.  on_the_bus: the host has NVIDIA GPUs, so that is a note.
 */
void gpu_doctor_without_gpus(const struct gpus *gpus, bool on_the_bus, struct findings *out);

/* The level of the most serious finding. */
enum finding_level findings_worst(const struct findings *findings);

/* Prints each finding of at least this level, with its effect and cure. */
void findings_print(const struct findings *findings, enum finding_level least, FILE *to);

/* Prints all findings as a JSON array. */
void findings_print_json(const struct findings *findings, FILE *to);

#endif
