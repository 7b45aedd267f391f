/* What a table is true for: the machine, as a plain value with one text form.  That text is what
 * `fingerprint` prints, what the store keeps, and what --sim reads. */
#ifndef CLUSTER_H
#define CLUSTER_H

#include "shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CLUSTER_TEXT_BYTES = 8192, CLUSTER_SEMANTICS = 1, HASH_BYTES = 32 };

/* Words are "unknown" and numbers 0 (NAN for model numbers) where nothing is known. */
struct cluster {
    /* hard: another value is another cluster */
    uint32_t semantics;                    /* version of what r, d, a mean */
    char backend[16];                      /* host, cuda, sim, virtual */
    char device[96];                       /* model name of one device (a CPU's for host ranks) */
    uint32_t device_units, device_gib;     /* cores or SMs of it, its memory */
    uint32_t nodes, ranks, ranks_per_node; /* ranks_per_node 0: nodes differ */
    char link_inside[48], link_between[48];
    char comm_library[64], compute_library[64]; /* name major.minor */
    /* soft: another value makes entries stale */
    char system[96], versions[160], environment[1024];
    /* info: never hashed, stays at home */
    char name[64], hosts[256];
    /* model: measured by probe, or invented for --sim (only then part of the hash) */
    double latency_inside_us, latency_between_us;       /* of one exchange */
    double message_inside_us, message_between_us;       /* per message */
    double bandwidth_inside_gbs, bandwidth_between_gbs; /* GB/s per rank and direction, large */
    double half_inside_kib, half_between_kib;           /* message size that reaches half of it */
    double gemm_gflops;                                 /* of one rank, large products */
    double gemm_half_rows;                              /* rows that reach half of it */
    char gemm_dtype[8];      /* of the rows that gemm_gflops multiplies; unknown: of any type */
    double memory_gbs;       /* device memory, read + written */
    double launch_us;        /* per kernel */
    double overlap_slowdown; /* share by which work is slower while the other stream is busy */
    double noise_percent, outlier_percent, drift_percent; /* of one step: log-normal sigma; share of
                                                           * steps that take 3 times as long; slow
                                                           * wander */
    double memory_gib; /* per rank; plans that need more are ruled out */
    /* How fast ranks are beside each other (rank_speeds.h): "8x100 8x50".  The
     * numbers above are the slowest one's, for whom all wait where work is equal; by shares=speed
     * the simulation models each speed (tuner/ranks/modelled_ranks.h).  It stays at home. */
    char rank_speeds_percent[1024];
    /* Blocks of a GPU's threads that carry exchanges: what one can, and how many the library takes
     * unless it is told.  Unknown: their number changes nothing.  overlap_slowdown is that beside
     * so many; beside others it follows their number. */
    double cta_gbs, library_ctas;
    /* What came later; unknown: as if it were not there.  comm/wire_sim.h says what each does. */
    double chunk_us;             /* of each exchange of tokens, besides its latency */
    double message_peer_us;      /* per message between nodes, for each peer beyond the node */
    double peer_between_gbs;     /* the most that goes to one peer on another node */
    double crowd_between_peers;  /* so many peers beyond the node halve its port's bandwidth */
    double overlap_slowdown_2dh; /* overlap_slowdown beside the exchanges of 2dh */
    double ring_step_us; /* the library gathers and sums in rings, each step of which takes this; */
    double ring_step_between_us;                /* or of those to other nodes */
    double ll_rate_percent, ll_latency_percent; /* NCCL's protocols, beside Simple */
    double ll128_rate_percent, ll128_latency_percent;
    double latency_racks_us, message_racks_us, bandwidth_racks_gbs; /* as _between_, but of nodes
                                                                     * in different racks */
    uint32_t ranks_per_rack; /* hard, where it is known; 0: nodes are all as near */
    /* Deviation of the logarithm of a launch's luck: all steps of a plan at a capacity take so much
     * longer or less long while the ranks live.  Unknown: every launch is as the others. */
    double launch_noise_percent;
};

enum cluster_class { CLUSTER_HARD, CLUSTER_SOFT, CLUSTER_INFO, CLUSTER_MODEL };

/* The one list of fields; everything walks it. */
struct cluster_field {
    const char *name;
    enum cluster_class class;
    enum { FIELD_COUNT_OF, FIELD_WORD, FIELD_NUMBER } kind;
    size_t offset, bytes;
    double least, most;       /* legal range of numbers and counts */
    const char *const *words; /* that a word may be: those of types; NULL: any */
};
extern const struct cluster_field cluster_fields[];
extern const size_t cluster_field_count;
extern const char *const cluster_class_words[];

/* False for numbers of ranks or links that are not there: a modelled cluster (sim), or one rank
 * beside paced copies (virtual).  They never answer for a real cluster. */
static inline bool backend_is_real(const char *backend)
{
    return strcmp(backend, "sim") != 0 && strcmp(backend, "virtual") != 0;
}

/* Everything unknown. */
struct cluster cluster_unknown(void);

/* One line "name = value" per known field, in the order of the list.  Returns the length as
 * snprintf does. */
int cluster_format(const struct cluster *cluster, char *text, size_t size);

/* Reads that text; '#' starts a comment.  ERR_FORMAT names the line: unknown or repeated names, bad
 * numbers, values out of range, impossible counts.  `origin` is for the message. */
int cluster_parse(const char *text, const char *origin, struct cluster *out);
int cluster_read(const char *path, struct cluster *out); /* a file; ERR_IO; checks its words */

/* ERR_FORMAT where a word has a character that no import takes: not UTF-8, or one that turns the
 * order of letters.  Databases may hold such clusters, so cluster_parse() reads them. */
int cluster_check_words(const struct cluster *cluster, const char *origin);

/* The same machine with another number of ranks, on as many nodes as that takes: on several all are
 * full.  ERR_ARGUMENT says which numbers there are. */
int cluster_resize(struct cluster *cluster, uint32_t ranks);

struct rank_layout cluster_layout(const struct cluster *cluster);

/* Modelled steps take what the model says, each time and in each launch. */
void cluster_silence(struct cluster *cluster);

/* The model fields of `from`, known or not. */
void cluster_take_model(struct cluster *to, const struct cluster *from);

/* a=nccl: NCCL 2.28 and later.  A modelled cluster says nothing of how a library does it. */
bool cluster_has_library_a2a(const struct cluster *cluster);

/* Protocols, 1 << enum moe_proto, by which its library can be told to gather weights. */
struct protocols {
    uint32_t all, usual; /* usual: without LL128 where NCCL itself may have reason not to use it */
};
struct protocols cluster_protocols(const struct cluster *cluster);

/* A model number that --sim needs for such a cluster, and that is not known. */
bool cluster_lacks(const struct cluster *cluster, const struct cluster_field *field);

/* For --sim: every model number must be there, save those of messages that are never sent: inside
 * nodes of one rank, between nodes where there is one.  ERR_FORMAT names what is missing. */
int cluster_check_model(const struct cluster *cluster, const char *origin);

/* The rate of its products is of rows of this type, or it does not say.  In check_: ERR_ARGUMENT,
 * where it is of another. */
bool cluster_multiplies(const struct cluster *cluster, uint32_t dtype);
int cluster_check_multiplies(const struct cluster *cluster, uint32_t dtype);

/* Read and checked for --sim; `ranks`: as cluster_resize(), 0: as the file says. */
int cluster_read_model(const char *path, uint32_t ranks, struct cluster *out);

/* One field's value as text, "unknown" where nothing is known.  That of the macro lasts as long as
 * the block around it. */
enum { CLUSTER_VALUE_BYTES = 1100 };
#define CLUSTER_VALUE(cluster, field)                                                              \
    cluster_value(cluster, field, (char[CLUSTER_VALUE_BYTES]){ 0 }, CLUSTER_VALUE_BYTES)
const char *cluster_value(const struct cluster *cluster, const struct cluster_field *field,
                          char *text, size_t size);

/* SHA-256 over the hard fields' lines (and the model's numbers for backend sim). */
void cluster_hash(const struct cluster *cluster, uint8_t hash[HASH_BYTES]);

/* The same as text: what a table calls its cluster. */
void cluster_hex(const struct cluster *cluster, char hex[2 * HASH_BYTES + 1]);

/* Whether that begins so; NULL: any does. */
bool cluster_hex_agrees(const char *hex, const char *beginning);

/* What the host does while a GPU runs a step: it launches kernel by kernel; it has launched a graph
 * of them; it has launched all of them before the first one began, as a trainer whose host is
 * ahead.  What is not the first is part of the environment. */
enum steps_are { STEPS_EAGER, STEPS_GRAPHS, STEPS_AHEAD };
void cluster_note_steps(struct cluster *cluster, uint32_t steps_are);
uint32_t cluster_steps_are(const struct cluster *cluster);

/* True if every soft field is equal. */
bool cluster_same_soft(const struct cluster *a, const struct cluster *b);

/* For tables that come from elsewhere: every hard field is known and equal. */
bool cluster_answers(const struct cluster *table, const struct cluster *here);

#endif
