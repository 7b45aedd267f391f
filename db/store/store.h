/* The database: what was measured, and the dictionary that follows from it.
 *
 * One process writes (it holds the lease); everybody else reads, best from the published snapshot.
 * X.db is the work database, X.db.published its snapshot, X.db.journal a second copy as JSON lines,
 * X.db.owner the lease.  Writes are collected and become durable at store_commit().  Of runs,
 * history and pins whole lists are given; entries, trials and samples, of which there are more, are
 * shown one by one. */
#ifndef STORE_H
#define STORE_H

#include "claim.h"
#include "cluster.h"
#include "declaration.h"
#include "moelookup.h"
#include "phase.h"
#include "row.h"
#include "shape.h"
#include "stats.h"

struct store;

/* The versions of our tables, and of tables that are exported. */
enum {
    STORE_APPLICATION = 0x6d6f6574 /* "moet" */,
    STORE_OLDEST = 13,
    STORE_VERSION = 14,
    EXPORT_VERSION = 10
};
/* What is written where nothing needs a newer one: older readers read it, and the same rows stay
 * the same bytes. */
enum { EXPORT_USUAL = 3 };

enum store_flags {
    STORE_STEAL = 1,   /* take a lease whose owner on another host went silent */
    STORE_REPAIR = 2,  /* a damaged database is set aside and rebuilt from the journal */
    STORE_RELAXED = 4, /* no fsync: for data that can be made again (--sim, tests) */
};

/* For writing: takes the lease, creates or migrates.  ERR_BUSY names the owner; ERR_CORRUPT for a
 * file that is damaged, foreign or from a newer moetune, which is left untouched. */
int store_open(const char *path, unsigned flags, struct store **out);

/* For reading; a work database or a snapshot.  UNSUPPORTED (said once) if there is none. */
int store_read(const char *path, struct store **out);

/* A copy in memory, to write to and to throw away; empty if there is no such database.  No lease,
 * no file. */
int store_dry_run(const char *path, struct store **out);
void store_close(struct store *store); /* commits; NULL is fine */

/* Which database is meant, for every verb and for the live tuner: `given` (--db), else $MOETUNE_DB,
 * else $MOELOOKUP_DB, else $XDG_DATA_HOME/moetune/moetune.db, else under $HOME. */
enum store_use {
    STORE_CONSULT,     /* it may be missing: then nothing is known */
    STORE_TO_READ,     /* ERR_IO where `given` or a variable names a file that is not there */
    STORE_TO_WRITE,    /* makes the folder */
    STORE_MODELLED = 4 /* with one of these, unless `given`: modelled.db in the same folder, since
                          what a model says does not belong into a table that was measured */
};
int store_path(const char *given, unsigned use, char *path, size_t size);

/* ERR_IO where there is neither `path` nor its snapshot; `by` is what names it. */
int store_check_named(const char *path, const char *by);

int store_commit(struct store *store);
void store_rollback(struct store *store); /* to the last commit */
int store_publish(struct store *store);   /* commits first */
int store_heartbeat(struct store *store); /* the owner is alive; at least every 20 s */

/* ---- nouns: the same value has the same id */

/* Finds or adds the cluster this runs on. */
int store_cluster_add(struct store *store, const struct cluster *cluster, int64_t *id);
/* Finds or adds one that a table speaks of, which may never be this one. */
int store_cluster_elsewhere(struct store *store, const struct cluster *cluster, int64_t *id);
int store_shape_add(struct store *store, const struct moe_shape *shape, int64_t *id);
/* False: no moetune has run on it with this database, and its entries answer nobody yet. */
int store_cluster_is_here(struct store *store, int64_t id, bool *here);
/* Replaces what is known of a cluster that is the same by its hard fields: it is here. */
int store_cluster_renew(struct store *store, int64_t id, const struct cluster *cluster);
/* What was measured of a real cluster: its model fields are replaced, or it is added whole.  Soft
 * fields of one that is there stay, so that entries made under them are still found out of date.
 * ERR_ARGUMENT for a modelled cluster, which is another one with other numbers. */
int store_cluster_model(struct store *store, const struct cluster *cluster, int64_t *id);
/* Ids without adding anything; UNSUPPORTED, silently, if one of them is not there. */
int store_cluster_find(struct store *store, const struct cluster *cluster, int64_t *id);
int store_find(struct store *store, const struct cluster *cluster, const struct moe_shape *shape,
               int64_t *cluster_id, int64_t *shape_id);
int store_cluster_get(struct store *store, int64_t id, struct cluster *out);
int store_cluster_count(struct store *store, int64_t *count);
int store_shape_get(struct store *store, int64_t id, struct moe_shape *out);

/* ---- loads: how many tokens choose each expert, where that is not left to random numbers */

/* Of its name; "": tokens choose at random. */
enum { LOAD_NAME_BYTES = 40 };

/* Keeps the text that says all of it, see load_text(). */
int store_load(struct store *store, const char *name, const char *text);
/* UNSUPPORTED, silently, if nobody kept it: the entry came with a table from elsewhere. */
int store_load_get(struct store *store, const char *name, char *text, size_t size);

/* ---- runs */

enum run_state {
    RUN_RUNNING,
    RUN_COMPLETE,
    RUN_INTERRUPTED,
    RUN_FAILED,
    RUN_KILLED /* read of one that says it is running, though nobody writes the database for it */
};
extern const char *const run_state_words[];
extern const struct row_table run_table;

struct run_row {
    int64_t id, cluster;
    enum run_state state;
    int64_t started_s, updated_s; /* Unix time */
    uint64_t seed;
    char search[16], effort[16], command[1024], version[16];
    uint32_t buckets_planned, buckets_done;
    uint64_t samples_search, samples_default, samples_warm; /* timed steps by purpose */
    char now[160];                                          /* what it is doing */
};

int store_run_begin(struct store *store, struct run_row *run); /* sets run->id */
int store_run_update(struct store *store, const struct run_row *run);
int store_runs(struct store *store, struct row_list *out); /* newest first */

/* ---- trials: one plan at one bucket */

enum trial_state {
    TRIAL_RUNNING, /* or it was cut off: see attempts */
    TRIAL_OK,
    TRIAL_NO_MEMORY,
    TRIAL_TIMEOUT,
    TRIAL_CRASHED,
    TRIAL_WRONG,     /* its result differs from the reference */
    TRIAL_FAILED,    /* any other error */
    TRIAL_RULED_OUT, /* needs more memory than allowed; never ran */
};
extern const char *const trial_state_words[];

struct trial_key {
    int64_t cluster, shape;
    uint32_t window, bucket;
    struct moe_plan plan;
};

struct trial_row {
    int64_t id, run;
    struct trial_key key;
    uint64_t capacity; /* c it was measured at */
    enum trial_state state;
    uint32_t attempts;
    int64_t memory_bytes, sent_bytes, messages;
    int64_t node_rows;           /* a=rail: rows that a rank has for a node; else 0 */
    int64_t compute_ns, comm_ns; /* each alone; 0 = not measured */
    char message[200];           /* why it is not ok */
};

/* Starts a trial, or counts another attempt of one that was cut off: sets id and attempts. */
int store_trial_begin(struct store *store, struct trial_row *trial);
int store_trial_update(struct store *store, const struct trial_row *trial);
/* In the order they were begun.  Ids of 0 mean any; a bucket of UINT32_MAX means all. */
int store_trials(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, int (*each)(void *self, const struct trial_row *trial),
                 void *self);

/* Phases of a trial, each while nothing else runs. */
struct phase_time {
    int64_t ns, low_ns, high_ns; /* median and its interval */
};
struct phase_row {
    int64_t trial;
    enum phase phase;
    struct phase_time time;
};
int store_phases(struct store *store, int64_t trial, const struct phase_time times[PHASE_COUNT]);
int store_phases_all(struct store *store, struct row_list *out); /* struct phase_row, by trial */

/* What is known of these buckets is out of date: entries become stale, trials go, and with them
 * samples, phases and what launches ran best.  Shape or window 0: any. */
int store_expire(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t first, uint32_t last, const char *why);

/* Entries that were measured under another load are out of date; what was sampled stays. */
int store_expire_loads(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, const char *load);

/* What it was taken for: the search asked for it; is the best plan slower than the default; the
 * same of a table's plan, later on; the table as a whole against the default and static plans.  All
 * of them are evidence in the bucket they were taken in. */
enum sample_kind { SAMPLE_SEARCH, SAMPLE_CONTEST, SAMPLE_VERIFY, SAMPLE_ROUNDS };

/* Whether heat, power or other processes held a step back.  Such a step says how the machine was,
 * not how fast the plan is: it is set aside, which means it counts for nothing, and taken again. */
enum sample_use {
    SAMPLE_FREE,
    SAMPLE_DISTURBED, /* and it counts: it would not end */
    SAMPLE_SET_ASIDE
};

/* GPUs right after a step, the slowest of the ranks'; clock 0: not known, or no GPU. */
struct sample_gpu {
    uint32_t clock_mhz, throttled; /* enum sample_use, whatever the cause: see heat_cause() */
};

/* One timed step. */
struct sample_row {
    enum sample_kind kind;
    uint32_t round; /* counts those of the plan; of a table's rounds: which it was */
    int64_t ns;     /* the largest time over the ranks */
    struct sample_gpu gpu;
    int64_t lost_ns;            /* of it, to other processes: the most over the ranks */
    int64_t run;                /* the one that took it; 0: not known */
    char load[LOAD_NAME_BYTES]; /* it was taken under: what was taken under another one says nothing
                                 * of this one */
    int64_t id, trial;          /* of one that is read */
};

extern const struct row_table sample_table;
int store_sample_add(struct store *store, int64_t trial, const struct sample_row *sample);
int store_next_sample(struct store *store, int64_t *number); /* that the next one will have */
/* Samples of one bucket, of the kinds from `first` to `last`, are of no use any more. */
int store_forget(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, enum sample_kind first, enum sample_kind last);

/* Lists those of one bucket, in the order they were taken. */
typedef int store_sample_visitor(void *self, const struct trial_row *trial,
                                 const struct sample_row *sample);
int store_samples(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                  uint32_t bucket, store_sample_visitor *each, void *self);
/* Lists all there are by trial, of which only the id is set; those of one trial in the order they
 * were taken. */
int store_samples_all(struct store *store, store_sample_visitor *each, void *self);

/* ---- entries: the dictionary */

/* Where an entry comes from: local knowledge, never exported. */
enum entry_tier {
    TIER_LOCAL,
    TIER_VERIFIED /* imported, and measured here since */,
    TIER_IMPORTED
};
extern const char *const entry_tier_words[];

/* How much was measured: the least first. */
extern const char *const effort_words[];
int effort_rank(const char *effort); /* from 1; 0: another word */

struct entry_row {
    int64_t id; /* of one that is read */
    int64_t cluster, shape, run;
    uint32_t window, bucket;
    uint64_t capacity;
    struct moe_plan plan, runner_up, search_winner; /* runner_up.struct_size 0: none */
    double time_us, low_us, high_us;                /* expected, 95 % interval; of the plan */
    double default_us;
    struct gain gain;   /* over the default plan */
    double bound;       /* the loss against the best is below this share with 95 % */
    uint32_t samples;   /* of the plan and the default */
    uint32_t throttled; /* of both together: taken while something held them back */
    bool inferred;      /* not measured: between buckets that were */
    bool stale;
    char effort[16], search[16], reason[24]; /* reason: why the search stopped */
    /* adopted, likely, default, incumbent, alone, static: see decision.h; inferred; refuted: see
     * verify.h; tie: an earlier rule could not tell */
    char decision[16];
    int64_t decided_s;
    enum entry_tier tier;
    char load[LOAD_NAME_BYTES]; /* it was measured under */
    /* Of the plans with r = 0, where `plan` has r >= 1, or the other way round, the best one and
     * what it takes here: where experts' capacities differ both must be known.  other.struct_size
     * 0 and other_us 0: not known.  no_other: none of them can run here, or none was to be tried.
     */
    struct moe_plan other;
    double other_us;
    bool no_other;
    /* Where the default stands for want of a proof: the plan that is likely to be better, what it
     * is expected to save, and the chance that it saves anything.  struct_size 0: there is none. */
    struct moe_plan likely;
    double likely_gain, likely_chance;
    const struct claim_fault *fault; /* of one that is read: why it is unsound; NULL: it is not */
};

/* What such a row is made of, and what of it is seen by whom: see row.h. */
extern const struct row_table entry_table;
extern const char entry_in_show[], entry_in_csv[];

/* Of two rows that name a cluster, a layer and a width: whether they are of one table. */
#define SAME_TABLE(a, b)                                                                           \
    ((a)->cluster == (b)->cluster && (a)->shape == (b)->shape && (a)->window == (b)->window)

/* How far an entry is believed.  Several may hold at once; who has to know asks here. */
enum entry_state {
    ENTRY_INFERRED = 1, /* nobody measured there */
    ENTRY_STALE = 2,    /* the machine has changed since, or the plan is refuted */
    ENTRY_IMPORTED = 4, /* and not measured here */
    ENTRY_TIE = 8,      /* an earlier rule could not tell: nobody chose the plan */
    ENTRY_REFUTED = 16, /* its plan is what is left after `moetune verify` */
    ENTRY_CUT = 32,     /* what was known when the time was up: no decision */
    ENTRY_UNSOUND = 64, /* by its own numbers its plan does not gain: nobody is told it */
    /* Of these `moetune tune` measures the bucket again. */
    ENTRY_OPEN = ENTRY_INFERRED | ENTRY_STALE | ENTRY_IMPORTED | ENTRY_TIE | ENTRY_REFUTED |
                 ENTRY_CUT | ENTRY_UNSOUND,
    /* Stale and not refuted: trainers are told it only where nothing better is known.  The plan of
     * a refuted entry has just been measured. */
    ENTRY_OUTDATED = 128,
};
enum { ENTRY_STATE_COUNT = 7 };
extern const char *const entry_state_words[ENTRY_STATE_COUNT]; /* by bit, without the last one */
bool entry_is(const struct entry_row *entry, unsigned states); /* any of these */

/* Why an entry of another plan than its layer's default one is unsound (claim.h); NULL: it is not.
 * `standing`: of the table that it is in; NULL: there is none.  Of a static plan it says what the
 * table gains. */
struct standing_row;
const struct claim_fault *entry_fault(const struct entry_row *entry, const struct moe_shape *shape,
                                      const struct standing_row *standing);

/* Measured, and no plan is proven faster than the default, but one may be. */
bool entry_is_undecided(const struct entry_row *entry);

/* Of two that are undecided: whether the first one's likely plan saves more, or more may be left.
 */
bool entry_leaves_more(const struct entry_row *a, const struct entry_row *b);

/* "probably r=0 d=1 a=linear, 11 % faster (chance 86 %)"; "" where no plan is likely to be better.
 * The result lasts as long as the block around it. */
enum { LIKELY_TEXT_BYTES = PLAN_TEXT_BYTES + 64 };
const char *entry_likely_text(const struct entry_row *entry, char room[LIKELY_TEXT_BYTES]);
#define LIKELY_TEXT(entry) entry_likely_text(entry, (char[LIKELY_TEXT_BYTES]){ 0 })

/* "at most 5.4 % is left": what the best plan may save of the entry's step, by its bound.  "" where
 * it has none.  Of more than nine tenths: what is left is not known, for so large a bound only says
 * that too few steps were taken.  The result lasts as long as the block around it. */
enum { LEFT_TEXT_BYTES = 40 };
const char *entry_left_text(const struct entry_row *entry, char room[LEFT_TEXT_BYTES]);
#define LEFT_TEXT(entry) entry_left_text(entry, (char[LEFT_TEXT_BYTES]){ 0 })

/* Replaces the bucket's entry; the old one goes to history with `why`.  ERR_WRONG, after a message,
 * for one that is unsound and not stale.  This and the next end an imported standing, which is
 * worth what the entries were that it came with. */
int store_entry_put(struct store *store, const struct entry_row *entry, const char *why);
/* Takes the bucket's entry out of the dictionary; it goes to history with `why`. */
int store_entry_end(struct store *store, const struct entry_row *entry, const char *why);

/* What was an entry once, and why it is one no more. */
struct history_row {
    int64_t id;
    struct entry_row entry; /* of it: whose it was, plan, time, default, gain, bound, decision */
    char why[64];
    int64_t replaced_s;
};
int store_history(struct store *store, struct row_list *out); /* newest first */

/* The better one of this and what is there stays, the other goes to history; by one fixed order
 * (not unsound, tier, not stale, effort, date, samples, text), in which the time measured has no
 * say: times of two sessions cannot be compared.  *known is what was there, unless MERGE_ADDED. */
enum merge_outcome { MERGE_ADDED, MERGE_SAME, MERGE_REPLACED, MERGE_LOST };
int store_entry_merge(struct store *store, const struct entry_row *entry, const char *why,
                      struct entry_row *known, enum merge_outcome *outcome);

/* ---- launches of a declared space: what each of them runs best */

/* The best plan of one launch in one bucket; with these rows a table answers inside any launch that
 * was sampled. */
struct launch_row {
    int64_t cluster, shape;
    uint32_t window, bucket;
    char launch[DECLARATION_PLAN_BYTES]; /* as declaration_launch_words() has it; of the plan */
    struct moe_plan plan;
    double time_us, sd; /* sd: of log(time_us), 0 where one sample says nothing of it */
    uint32_t samples;   /* at least one */
};

extern const struct row_table launch_table;

/* Replaces that of the same table, launch and bucket.  The first one makes the SQL table. */
int store_launch_put(struct store *store, const struct launch_row *row);
/* What of a row makes no sense for its layer; NULL: nothing. */
const struct claim_fault *launch_fault(const struct launch_row *row, const struct moe_shape *shape);
/* One of another site: it replaces an imported one of fewer samples (of two of as many, one by a
 * fixed order), and stays away from a table of which anything was measured here. */
int store_launch_merge(struct store *store, const struct launch_row *row, bool *placed);
/* Takes away all rows of a layer's table. */
int store_launches_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window);
/* struct launch_row of a layer's table, by launch and bucket. */
int store_launches(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                   struct row_list *out);

/* ---- standings: what a layer's table as a whole is worth */

enum { STANDING_RIVALS_MAX = 3 };

struct standing_row {
    int64_t cluster, shape, run; /* run 0: imported */
    uint32_t window;
    struct gain gain, static_gain; /* over the default plan, over the best static plan */
    struct moe_plan static_plan;   /* struct_size 0: none */
    /* 0: they met a part of the table.  Their samples are numbered from the first round on. */
    uint32_t rounds, first_round;
    /* The static plans that the table meets, as text with ';' between: room for any. */
    char rivals[STANDING_RIVALS_MAX * PLAN_TEXT_BYTES];
    int64_t decided_s; /* or when entries were last confirmed; 0: not decided yet */
    uint32_t launches; /* of the ranks that this rests on, that of the search included; 0: unsaid */
    bool given_up;     /* the table as a whole was slower than the default, which took its place */
    /* By this the rounds multiplied the deviations of what they claim: see search/pairs.h.  0: said
     * by nobody. */
    double kappa;
    /* How often undecided buckets went on because somebody asked again, and about how many seconds
     * the next time is expected to take; 0: it would not decide any of them. */
    uint32_t goes;
    double more_s;
};

extern const struct row_table standing_table;
extern const char standing_in_show[];

/* Replaces that of the same cluster, shape and window. */
int store_standing(struct store *store, const struct standing_row *row);
/* UNSUPPORTED, silently, if there is none. */
int store_standing_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       struct standing_row *out);
/* Takes an imported one away; one that was measured here stays. */
int store_standing_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window);
/* An imported one: it replaces an older imported one (of two of one date, one by a fixed order) and
 * never what was measured here, not even what is undecided yet. */
int store_standing_merge(struct store *store, const struct standing_row *row, bool *placed);

/* ---- tables for trainers that cannot switch all axes at a step */

enum { FIXED_AXES_BYTES = 64, FIXED_PLANS_MAX = 64 };

/* Which axes are the same in all entries of a layer's table, and what that costs. */
struct fixed_row {
    int64_t cluster, shape;
    uint32_t window;
    char axes[FIXED_AXES_BYTES];  /* "r,d"; "": none, as in a table without such a row */
    char asked[24];               /* by which look-ups buckets were weighed; "": by none */
    char launch[PLAN_TEXT_BYTES]; /* the values of these axes: "r=2 d=4" */
    /* While rounds hold them against the default: its plans, bucket by bucket, with ';' between. */
    char plans[FIXED_PLANS_MAX * PLAN_TEXT_BYTES];
    bool whole; /* it is proven, and not the default's: entries hold no plan of another launch */
    struct gain price; /* what trainers would save beside it that could switch these axes, too */
};

extern const struct row_table fixed_table;
extern const char fixed_in_show[];

/* All axes of a plan are: it is one plan. */
bool fixed_is_all(const struct fixed_row *row);

/* Replaces that of the same table.  The first one makes the SQL table. */
int store_fixed_put(struct store *store, const struct fixed_row *row);
/* UNSUPPORTED, silently: trainers of this table switch all axes. */
int store_fixed_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                    struct fixed_row *out);

/* ---- verifications: what became of claims */

/* What the rounds of a table claimed a plan to save over the default, and what it was found to save
 * when both were measured again: both with intervals of 95 %. */
struct verification_row {
    int64_t cluster, shape, run; /* the run that measured again */
    uint32_t window, bucket;
    struct gain claim, found;
    double kappa; /* the standing's, with which it was claimed */
    int64_t decided_s;
};

extern const struct row_table verification_table;

/* Replaces that of the same bucket. */
int store_verification(struct store *store, const struct verification_row *row);
int store_verifications(struct store *store, int64_t cluster, struct row_list *out);

/* ---- imports */

struct import_row {
    const char *sha256, *file; /* of the lines below the header */
    uint32_t added, same, conflicts;
};

int store_import_add(struct store *store, const struct import_row *row);
int store_import_known(struct store *store, const char *sha256, bool *known);

/* Clusters of other sites, until one of them is found to be this one (see store_cluster). */
int store_clusters_elsewhere(struct store *store,
                             int (*each)(void *self, const struct cluster *cluster), void *self);

/* UNSUPPORTED, silently, if there is none. */
int store_entry_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                    uint32_t bucket, struct entry_row *out);
/* Sorted by cluster, shape, window, bucket; ids of 0 mean any. */
int store_entries(struct store *store, int64_t cluster, int64_t shape,
                  int (*each)(void *self, const struct entry_row *entry), void *self);

/* ---- overrides: plans that a person has pinned */

struct override_row {
    int64_t id, cluster, shape;
    uint32_t window, first, last; /* buckets, both included */
    struct moe_plan plan;
    char why[200];
    int64_t since_s;
};

extern const struct row_table override_table;

/* Replaces what is pinned in those buckets; sets id. */
int store_override_add(struct store *store, struct override_row *row);
/* Takes away what is pinned in the range; *count is of how many pins.  Their other buckets stay
 * pinned. */
int store_override_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, uint32_t *count);
int store_overrides(struct store *store, struct row_list *out);
/* That of them which holds for the bucket; NULL: none. */
const struct override_row *override_of(struct row_list pins, const struct bucket_key *key);

#endif
