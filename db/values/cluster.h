/* The machine that a table is valid for, as a plain value with one text form. `fingerprint` prints
 * that text, the store keeps it, and --sim reads it. */
#ifndef CLUSTER_H
#define CLUSTER_H

#include "shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CLUSTER_TEXT_BYTES = 8192, CLUSTER_SEMANTICS = 1, HASH_BYTES = 32 };

/* One machine, real or modelled: a plain value. A word that is not known is "unknown", a number 0,
 * and a number of the model NAN. */
struct cluster {
    /* hard: another value is another cluster */
    uint32_t semantics;                    /* version of the meaning of r, d and a */
    char backend[16];                      /* host, cuda, sim, virtual */
    char device[96];                       /* model name of one device (a CPU's for host ranks) */
    uint32_t device_units, device_gib;     /* cores or SMs of it; its memory */
    uint32_t nodes, ranks, ranks_per_node; /* ranks_per_node 0: nodes differ */
    char link_inside[48], link_between[48];
    char comm_library[64], compute_library[64]; /* name major.minor */
    /* soft: another value makes entries stale */
    char system[96], versions[160], environment[1024];
    /* info: never hashed, never exported */
    char name[64], hosts[256];
    /* model: `probe` measured it, or a person invented it for --sim (only then part of the hash) */
    double latency_inside_us, latency_between_us;       /* of one exchange */
    double message_inside_us, message_between_us;       /* per message */
    double bandwidth_inside_gbs, bandwidth_between_gbs; /* GB/s per rank and direction, large
                                                         * messages */
    double half_inside_kib, half_between_kib;           /* message size that reaches half of that
                                                         * bandwidth */
    double gemm_gflops;                                 /* of one rank, for large products */
    double gemm_half_rows;                              /* rows that reach half of gemm_gflops */
    char gemm_dtype[8];      /* type of the rows in gemm_gflops; unknown: any type */
    double memory_gbs;       /* device memory, read + written */
    double launch_us;        /* per kernel */
    double overlap_slowdown; /* share by which work is slower while the other stream is busy */
    /* Noise of one step: sigma of a log-normal; share of steps that take 3 times as long; slow
     * drift. */
    double noise_percent, outlier_percent, drift_percent;
    double memory_gib; /* per rank; a plan that needs more is ruled out */
    /* Speeds of ranks beside each other (rank_speeds.h), as "8x100 8x50". The numbers above are the
     * slowest rank's, because all ranks wait for it where work is equal. With shares=speed the
     * simulation models each speed (tuner/ranks/modelled_ranks.h). Never exported. */
    char rank_speeds_percent[1024];
    /* cta_gbs: what one block of a GPU's threads exchanges. library_ctas: how many such blocks the
     * library uses by default, and with how many overlap_slowdown was measured. With another number
     * of blocks the slowdown follows that number. Unknown: the number changes nothing. */
    double cta_gbs, library_ctas;
    /* Later versions added the fields from here on. Unknown: the model is as before the field
     * existed. comm/wire_sim.h explains each of them. */
    double chunk_us;         /* of each exchange of tokens, besides its latency */
    double message_peer_us;  /* per message between nodes, for each peer beyond the node */
    double peer_between_gbs; /* highest rate to one peer on another node */
    double
        crowd_between_peers; /* number of peers beyond the node that halves its port's bandwidth */
    double overlap_slowdown_2dh; /* overlap_slowdown beside exchanges by 2dh */
    double ring_step_us;         /* one step of a ring, in which the library gathers and sums */
    double ring_step_between_us; /* one step of a ring between nodes */
    double ll_rate_percent, ll_latency_percent; /* NCCL's protocols, in percent of Simple */
    double ll128_rate_percent, ll128_latency_percent;
    double latency_racks_us, message_racks_us, bandwidth_racks_gbs; /* as _between_, but between
                                                                     * nodes in different racks */
    uint32_t ranks_per_rack; /* hard, where it is known; 0: all nodes are equally near */
    /* The difference between launches: standard deviation of its logarithm, in percent. All steps
     * of a plan at a capacity take that much more or less time while the ranks live. Unknown: all
     * launches are equal. */
    double launch_noise_percent;
};

enum cluster_class { CLUSTER_HARD, CLUSTER_SOFT, CLUSTER_INFO, CLUSTER_MODEL };

/* One field of a cluster. cluster_fields[] is the only list of them, and all functions here walk
 * it. */
struct cluster_field {
    const char *name;
    enum cluster_class class;
    enum { FIELD_COUNT_OF, FIELD_WORD, FIELD_NUMBER } kind;
    size_t offset, bytes;
    double least, most;       /* legal range of numbers and counts */
    const char *const *words; /* legal words, where they are types; NULL: any word */
};
extern const struct cluster_field cluster_fields[];
extern const size_t cluster_field_count;
extern const char *const cluster_class_words[];

/* Returns false for backends without all of their ranks or links: a modelled cluster (sim), or one
 * rank beside paced copies (virtual). Their tables never answer for a real cluster. */
static inline bool backend_is_real(const char *backend)
{
    return strcmp(backend, "sim") != 0 && strcmp(backend, "virtual") != 0;
}

/* Returns a cluster in which nothing is known. */
struct cluster cluster_unknown(void);

/* Writes one line "name = value" per known field, in the order of the list. Returns the length as
 * snprintf does. */
int cluster_format(const struct cluster *cluster, char *text, size_t size);

/* Reads that text; '#' starts a comment. ERR_FORMAT, with the line in the message: unknown or
 * repeated names, bad numbers, values out of range, impossible counts. `origin` names the text in
 * messages. */
int cluster_parse(const char *text, const char *origin, struct cluster *out);
int cluster_read(const char *path, struct cluster *out); /* reads a file and checks its words; also
                                                          * ERR_IO */

/* ERR_FORMAT where a word is not UTF-8 or has a character that turns the order of letters; no
 * import accepts such words. cluster_parse() does accept them, because databases may hold such
 * clusters. */
int cluster_check_words(const struct cluster *cluster, const char *origin);

/* Changes the number of ranks of the same machine, and the number of nodes with it: of several
 * nodes all are full. ERR_ARGUMENT lists the legal numbers. */
int cluster_resize(struct cluster *cluster, uint32_t ranks);

/* Returns the ranks, the ranks per node and the ranks per rack. */
struct rank_layout cluster_layout(const struct cluster *cluster);

/* Removes all noise from a model: a modelled step then takes the same time in each repetition and
 * launch. */
void cluster_remove_noise(struct cluster *cluster);

/* Copies the fields of class model of `from`, known or not. */
void cluster_take_model(struct cluster *to, const struct cluster *from);

/* Returns whether the cluster can run a=nccl, which NCCL has since 2.28. A modelled cluster
 * cannot. */
bool cluster_has_library_a2a(const struct cluster *cluster);

/* NCCL's protocols that can gather weights on a cluster: bits 1 << enum moe_proto. */
struct protocols {
    uint32_t all, usual; /* usual: without LL128 where NCCL itself may avoid it */
};
struct protocols cluster_protocols(const struct cluster *cluster);

/* Returns whether --sim needs this number of the model and does not find it in the cluster. */
bool cluster_lacks(const struct cluster *cluster, const struct cluster_field *field);

/* Checks that every number of the model is known. Numbers of messages that are never sent may be
 * missing: inside nodes of one rank, or between nodes where there is one. ERR_FORMAT names the
 * missing number. */
int cluster_check_model(const struct cluster *cluster, const char *origin);

/* cluster_multiplies: returns whether gemm_gflops is known for rows of this type.
 * cluster_check_multiplies: ERR_ARGUMENT with a message where it is not. */
bool cluster_multiplies(const struct cluster *cluster, uint32_t dtype);
int cluster_check_multiplies(const struct cluster *cluster, uint32_t dtype);

/* Reads a file for --sim and checks it. `ranks` as in cluster_resize(); 0: as the file says. */
int cluster_read_model(const char *path, uint32_t ranks, struct cluster *out);

/* Writes one field's value, "unknown" where nothing is known. The macro's text lasts as long as the
 * block around it. */
enum { CLUSTER_VALUE_BYTES = 1100 };
#define CLUSTER_VALUE(cluster, field)                                                              \
    cluster_value(cluster, field, (char[CLUSTER_VALUE_BYTES]){ 0 }, CLUSTER_VALUE_BYTES)
const char *cluster_value(const struct cluster *cluster, const struct cluster_field *field,
                          char *text, size_t size);

/* Computes the SHA-256 of the hard fields' lines; for the backend sim also of the model's
 * numbers. */
void cluster_hash(const struct cluster *cluster, uint8_t hash[HASH_BYTES]);

/* Writes that hash as text, the fingerprint: the name of a cluster in tables. */
void cluster_hex(const struct cluster *cluster, char hex[2 * HASH_BYTES + 1]);

/* Returns whether `hex` begins with `beginning`; NULL: every one does. */
bool cluster_hex_agrees(const char *hex, const char *beginning);

/* How the host launches a GPU's step: kernel by kernel, as one graph, or all kernels before the
 * first one begins (as a trainer whose host is ahead). The latter two are a word in the field
 * `environment`. */
enum steps_are { STEPS_EAGER, STEPS_GRAPHS, STEPS_AHEAD };
/* Adds that word to the environment, and reads it from there. */
void cluster_add_steps(struct cluster *cluster, uint32_t steps_are);
uint32_t cluster_steps_are(const struct cluster *cluster);

/* Returns whether every soft field is equal. */
bool cluster_same_soft(const struct cluster *a, const struct cluster *b);

/* Returns whether a table from elsewhere answers here: every hard field is known and equal. */
bool cluster_answers(const struct cluster *table, const struct cluster *here);

#endif
