/* The database: everything that was measured, and the dictionary that follows from it.
 *
 * One process writes, the holder of the lease. All others read, best from the published snapshot.
 * X.db is the work database, X.db.published its snapshot, X.db.journal a second copy as JSON lines,
 * X.db.owner the lease. Writes are collected and become durable at store_commit(). Runs, history
 * and pins come as whole lists. Entries, trials and samples are many, so a callback gets them one
 * by one. */
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

/* The mark and the versions of the database's tables, and of exported tables. */
enum {
    STORE_APPLICATION = 0x6d6f6574 /* "moet" */,
    STORE_OLDEST = 13,
    STORE_VERSION = 14,
    EXPORT_VERSION = 10
};
/* The version of an export that contains nothing newer: older readers then read it, and the same
 * rows stay the same bytes. */
enum { EXPORT_LOWEST = 3 };

enum store_flags {
    STORE_STEAL = 1,   /* take the lease of an owner on another host that is silent */
    STORE_REPAIR = 2,  /* set a damaged database aside, and rebuild it from the journal */
    STORE_RELAXED = 4, /* no fsync: for data that can be made again (--sim, tests) */
};

/* Opens a database for writing: takes the lease, and creates or migrates the file. ERR_BUSY names
 * the owner. ERR_CORRUPT: the file is damaged, foreign or from a newer moetune; it is left as it
 * is. */
int store_open(const char *path, unsigned flags, struct store **out);

/* Opens a work database or a snapshot for reading. UNSUPPORTED, after a message, where there is
 * none. */
int store_read(const char *path, struct store **out);

/* Opens a copy in memory to write to and throw away, without a lease or a file. It is empty if the
 * database does not exist. */
int store_dry_run(const char *path, struct store **out);
void store_close(struct store *store); /* commits; NULL is fine */

/* Finds the path of the database, the same way for every verb and the live tuner: `given` (--db),
 * else $MOETUNE_DB, else $MOELOOKUP_DB, else $XDG_DATA_HOME/moetune/moetune.db, else under
 * $HOME. */
enum store_use {
    STORE_CONSULT,     /* it may be missing: then nothing is known */
    STORE_TO_READ,     /* ERR_IO where `given` or a variable names a missing file */
    STORE_TO_WRITE,    /* makes the folder */
    STORE_MODELLED = 4 /* together with one of these, unless `given`: modelled.db in the same
                        * folder, because times of a model do not belong into a measured table */
};
int store_path(const char *given, unsigned use, char *path, size_t size);

/* ERR_IO where neither `path` nor its snapshot exists. `by` is the option or variable that names
 * it, for the message. */
int store_check_named(const char *path, const char *by);

/* End a batch of writes: make it durable, take it back, or publish the snapshot as well. */
int store_commit(struct store *store);
void store_rollback(struct store *store); /* to the last commit */
int store_publish(struct store *store);   /* commits first */
int store_heartbeat(struct store *store); /* tells other hosts that the owner is alive; call it at
                                           * least every 20 s */

/* ---- Nouns: the same value always has the same id. */

/* Finds or adds the cluster that this process runs on. */
int store_cluster_add(struct store *store, const struct cluster *cluster, int64_t *id);
/* Finds or adds a cluster of an imported table, which may never be this one. */
int store_cluster_elsewhere(struct store *store, const struct cluster *cluster, int64_t *id);
/* Finds or adds a layer, and the space that it names. */
int store_shape_add(struct store *store, const struct moe_shape *shape, int64_t *id);
/* Finds whether the cluster was ever this one. Entries of a cluster where no moetune has run with
 * this database do not answer. */
int store_cluster_is_here(struct store *store, int64_t id, bool *here);
/* Replaces the text of a cluster with the same hard fields, and marks it as this one. */
int store_cluster_renew(struct store *store, int64_t id, const struct cluster *cluster);
/* Stores what `probe` measured of a real cluster: replaces its model fields, or adds the whole
 * cluster. Keeps the soft fields of a known cluster, so that entries made under them are still
 * found stale. ERR_ARGUMENT for a modelled cluster, because with other numbers it is another
 * cluster. */
int store_cluster_model(struct store *store, const struct cluster *cluster, int64_t *id);
/* Finds ids without adding anything. UNSUPPORTED, without a message, if one of them does not
 * exist. */
int store_cluster_find(struct store *store, const struct cluster *cluster, int64_t *id);
int store_find(struct store *store, const struct cluster *cluster, const struct moe_shape *shape,
               int64_t *cluster_id, int64_t *shape_id);
int store_cluster_get(struct store *store, int64_t id, struct cluster *out);
int store_cluster_count(struct store *store, int64_t *count);
int store_shape_get(struct store *store, int64_t id, struct moe_shape *out);

/* ---- Loads: how many tokens choose each expert, where random numbers do not decide that. */

/* Room for a load's name; "": tokens choose at random. */
enum { LOAD_NAME_BYTES = 40 };

/* Stores the text with all counts of a load; see load_text(). */
int store_load(struct store *store, const char *name, const char *text);
/* Reads the text of a load. UNSUPPORTED, without a message, if it is not stored, as for an entry
 * that was imported. */
int store_load_get(struct store *store, const char *name, char *text, size_t size);

/* ---- Runs. */

enum run_state {
    RUN_RUNNING,
    RUN_COMPLETE,
    RUN_INTERRUPTED,
    RUN_FAILED,
    RUN_KILLED /* replaces RUN_RUNNING when reading, if no process writes the database */
};
extern const char *const run_state_words[];
extern const struct row_table run_table;

/* One call of `tune` or of another verb that measures: a plain value. */
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

/* ---- Trials: one plan in one bucket. */

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

/* Names a trial: which plan in which bucket of which layer on which cluster. */
struct trial_key {
    int64_t cluster, shape;
    uint32_t window, bucket;
    struct moe_plan plan;
};

/* One plan in one bucket, and what its steps do: a plain value. */
struct trial_row {
    int64_t id, run;
    struct trial_key key;
    uint64_t capacity; /* c it was measured at */
    enum trial_state state;
    uint32_t attempts;
    int64_t memory_bytes, sent_bytes, messages;
    int64_t node_rows;           /* a=rail: rows that a rank has for a node; else 0 */
    int64_t compute_ns, comm_ns; /* each alone; 0: not measured */
    char message[200];           /* why it is not ok */
};

/* Starts a trial and sets its id, or counts one more attempt of a trial that was cut off. */
int store_trial_begin(struct store *store, struct trial_row *trial);
int store_trial_update(struct store *store, const struct trial_row *trial);
/* Calls `each` for the trials, in the order in which they began. Ids of 0 mean any, a bucket of
 * UINT32_MAX means all. */
int store_trials(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, int (*each)(void *self, const struct trial_row *trial),
                 void *self);

/* The time of one phase of a trial's step, measured while nothing else runs. */
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

/* Makes all knowledge of these buckets stale: entries become stale; trials, samples, phases and
 * rows of launches are deleted. Shape or window 0: any. `why` goes to the history. */
int store_expire(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t first, uint32_t last, const char *why);

/* Makes entries stale that were measured under another load. Keeps the samples. */
int store_expire_loads(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, const char *load);

/* Why a sample was taken. Search: the search asked for it. Contest: it compares the best plan with
 * the default. Verify: it does so later, for a table's plan. Rounds: it compares the whole table
 * with the default and static plans. All kinds are evidence in their bucket. */
enum sample_kind { SAMPLE_SEARCH, SAMPLE_CONTEST, SAMPLE_VERIFY, SAMPLE_ROUNDS };

/* What became of a step that heat, power or other processes may have held back. Such a step tells
 * more of the machine's state than of the plan. So it is set aside, which means that it does not
 * count, and the step is taken again. */
enum sample_use {
    SAMPLE_FREE,
    SAMPLE_DISTURBED, /* it counts, because the disturbance would not end */
    SAMPLE_SET_ASIDE
};

/* State of the GPUs right after a step: the slowest rank's. Clock 0: not known, or no GPU. */
struct sample_gpu {
    uint32_t clock_mhz, throttled; /* enum sample_use, whatever the cause: see heat_cause() */
};

/* One timed step: a plain value. */
struct sample_row {
    enum sample_kind kind;
    uint32_t round; /* counts the plan's samples; for SAMPLE_ROUNDS the number of the round */
    int64_t ns;     /* largest time over the ranks */
    struct sample_gpu gpu;
    int64_t lost_ns;            /* part of it that other processes took: the most over the ranks */
    int64_t run;                /* run that took it; 0: not known */
    char load[LOAD_NAME_BYTES]; /* load it was taken under; it says nothing of other loads */
    int64_t id, trial;          /* set when reading */
};

extern const struct row_table sample_table;
int store_sample_add(struct store *store, int64_t trial, const struct sample_row *sample);
int store_next_sample(struct store *store,
                      int64_t *number); /* the id that the next sample will get */
/* Deletes samples of one bucket, of the kinds from `first` to `last`. */
int store_forget(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                 uint32_t bucket, enum sample_kind first, enum sample_kind last);

/* Calls `each` for the samples of one bucket, in the order in which they were taken. */
typedef int store_sample_visitor(void *self, const struct trial_row *trial,
                                 const struct sample_row *sample);
int store_samples(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                  uint32_t bucket, store_sample_visitor *each, void *self);
/* Calls `each` for all samples, by trial and then in the order in which they were taken. Only the
 * id of the trial is set. */
int store_samples_all(struct store *store, store_sample_visitor *each, void *self);

/* ---- Entries: the dictionary. */

/* Where an entry comes from. Only this database knows it; it is never exported. */
enum entry_tier {
    TIER_LOCAL,
    TIER_VERIFIED /* imported, and measured here since */,
    TIER_IMPORTED
};
extern const char *const entry_tier_words[];

/* How much was measured, the least first. */
extern const char *const effort_words[];
int effort_rank(const char *effort); /* from 1; 0: another word */

/* What the table says of one bucket: its plan, its times, and how they were found. A plain
 * value. */
struct entry_row {
    int64_t id; /* set when reading */
    int64_t cluster, shape, run;
    uint32_t window, bucket;
    uint64_t capacity;
    struct moe_plan plan, runner_up, search_winner; /* runner_up.struct_size 0: none */
    double time_us, low_us, high_us;                /* of the plan: expected, and 95 % interval */
    double default_us;
    struct gain gain;   /* over the default plan */
    double bound;       /* upper bound (95 %) of the loss against the best plan, as a share */
    uint32_t samples;   /* of the plan and the default */
    uint32_t throttled; /* of both together: samples taken while something held them back */
    bool inferred;      /* not measured: between buckets that were */
    bool stale;
    char effort[16], search[16], reason[24]; /* reason: why the search stopped */
    /* How the plan was chosen. adopted, likely, default, incumbent, alone, static: see decision.h.
     * inferred. refuted: see verify.h. tie: an earlier rule could not decide. */
    char decision[16];
    int64_t decided_s;
    enum entry_tier tier;
    char load[LOAD_NAME_BYTES]; /* load it was measured under */
    /* The best plan of the other kind (r = 0 where `plan` has r >= 1, or the reverse) and its time
     * here. Where experts' capacities differ, both kinds must be known. other.struct_size 0 and
     * other_us 0: not known. no_other: no plan of that kind can run here, or none was to be
     * tried. */
    struct moe_plan other;
    double other_us;
    bool no_other;
    /* Where the default is the plan because nothing is proven: the plan that is likely to be
     * better, its expected saving, and the chance that it saves anything. struct_size 0: no such
     * plan. */
    struct moe_plan likely;
    double likely_gain, likely_chance;
    const struct claim_fault *fault; /* set when reading: why the entry is unsound; NULL: it is
                                      * sound */
};

/* The fields of an entry, and which of them `show --json` and spreadsheets print: see row.h. */
extern const struct row_table entry_table;
extern const char entry_in_show[], entry_in_csv[];

/* Whether two rows are of one table: the same cluster, layer and width. */
#define SAME_TABLE(a, b)                                                                           \
    ((a)->cluster == (b)->cluster && (a)->shape == (b)->shape && (a)->window == (b)->window)

/* How far an entry can be trusted. Several states may hold at once; entry_is() asks for them. */
enum entry_state {
    ENTRY_INFERRED = 1, /* not measured there */
    ENTRY_STALE = 2,    /* the machine has changed since, or the plan is refuted */
    ENTRY_IMPORTED = 4, /* and not measured here */
    ENTRY_TIE = 8,      /* an earlier rule could not decide between plans */
    ENTRY_REFUTED = 16, /* `moetune verify` replaced its plan */
    ENTRY_CUT = 32,     /* the time was up before a decision */
    ENTRY_UNSOUND = 64, /* by its own numbers its plan does not gain: it never answers */
    /* Any of these: `moetune tune` measures the bucket again. */
    ENTRY_OPEN = ENTRY_INFERRED | ENTRY_STALE | ENTRY_IMPORTED | ENTRY_TIE | ENTRY_REFUTED |
                 ENTRY_CUT | ENTRY_UNSOUND,
    /* Stale and not refuted: it answers trainers only where nothing better is known. The plan of a
     * refuted entry has just been measured, so it does answer. */
    ENTRY_OUTDATED = 128,
};
enum { ENTRY_STATE_COUNT = 7 };
extern const char *const entry_state_words[ENTRY_STATE_COUNT]; /* by bit, without ENTRY_OUTDATED */
bool entry_is(const struct entry_row *entry, unsigned states); /* any of these */

/* Returns why an entry is unsound (claim.h); NULL: it is sound, as every entry with its layer's
 * default plan. `standing` is of the entry's table, NULL: unknown. For a static plan it has the
 * gain of the whole table. */
struct standing_row;
const struct claim_fault *entry_fault(const struct entry_row *entry, const struct moe_shape *shape,
                                      const struct standing_row *standing);

/* Returns whether the entry is measured, and no plan is proven to be faster than the default, but
 * one may be. */
bool entry_is_undecided(const struct entry_row *entry);

/* Compares two undecided entries: returns whether the first one's likely plan saves more, or more
 * may be left to gain. */
bool entry_leaves_more(const struct entry_row *a, const struct entry_row *b);

/* Writes "probably r=0 d=1 a=linear, 11 % faster (chance 86 %)"; "" where no plan is likely to be
 * better. The macro's text lasts as long as the block around it. */
enum { LIKELY_TEXT_BYTES = PLAN_TEXT_BYTES + 64 };
const char *entry_likely_text(const struct entry_row *entry, char room[LIKELY_TEXT_BYTES]);
#define LIKELY_TEXT(entry) entry_likely_text(entry, (char[LIKELY_TEXT_BYTES]){ 0 })

/* Writes "at most 5.4 % is left": what the best plan may save of the entry's step, by its bound. ""
 * where it has no bound. Above nine tenths it writes that this is not known, because such a bound
 * only means that too few steps were taken. The macro's text lasts as long as the block around
 * it. */
enum { LEFT_TEXT_BYTES = 40 };
const char *entry_left_text(const struct entry_row *entry, char room[LEFT_TEXT_BYTES]);
#define LEFT_TEXT(entry) entry_left_text(entry, (char[LEFT_TEXT_BYTES]){ 0 })

/* Replaces the bucket's entry; the old one goes to the history with `why`. ERR_WRONG, after a
 * message, for an entry that is unsound and not stale. Also deletes an imported standing, as
 * store_entry_end() does: it was the worth of the entries that came with it. */
int store_entry_put(struct store *store, const struct entry_row *entry, const char *why);
/* Removes the bucket's entry from the dictionary; it goes to the history with `why`. */
int store_entry_end(struct store *store, const struct entry_row *entry, const char *why);

/* An entry that was replaced, and why. */
struct history_row {
    int64_t id;
    struct entry_row entry; /* only whose it was, plan, time, default, gain, bound, decision */
    char why[64];
    int64_t replaced_s;
};
int store_history(struct store *store, struct row_list *out); /* newest first */

/* Keeps the better of this entry and the known one; the other one goes to the history. The order is
 * fixed: not unsound, tier, not stale, effort, date, samples, text. Measured times do not count,
 * because times of two sessions cannot be compared. *known is the entry that was there, unless
 * MERGE_ADDED. */
enum merge_outcome { MERGE_ADDED, MERGE_SAME, MERGE_REPLACED, MERGE_LOST };
int store_entry_merge(struct store *store, const struct entry_row *entry, const char *why,
                      struct entry_row *known, enum merge_outcome *outcome);

/* ---- Launches of a declared space: the best plans of each launch. */

/* The best plan of one launch in one bucket. With these rows a table answers inside any launch that
 * was sampled. */
struct launch_row {
    int64_t cluster, shape;
    uint32_t window, bucket;
    char launch[DECLARATION_PLAN_BYTES]; /* launch values of the plan, as declaration_launch_words()
                                          * writes them */
    struct moe_plan plan;
    double time_us, sd; /* sd: of log(time_us), 0 after one sample */
    uint32_t samples;   /* at least one */
};

extern const struct row_table launch_table;

/* Replaces the row of the same table, launch and bucket. Makes the SQL table with its first row. */
int store_launch_put(struct store *store, const struct launch_row *row);
/* Returns what is wrong with a row for its layer; NULL: nothing. */
const struct claim_fault *launch_fault(const struct launch_row *row, const struct moe_shape *shape);
/* Merges a row of another site. It replaces an imported row of fewer samples; a fixed order decides
 * between equally many. It is dropped where anything of the table was measured here. */
int store_launch_merge(struct store *store, const struct launch_row *row, bool *placed);
/* Deletes all launch rows of a layer's table. */
int store_launches_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window);
/* Lists struct launch_row of a layer's table, by launch and bucket. */
int store_launches(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                   struct row_list *out);

/* ---- Standings: what a layer's table as a whole is worth. */

enum { STANDING_RIVALS_MAX = 3 };

/* What one table is worth by its rounds: a plain value. */
struct standing_row {
    int64_t cluster, shape, run; /* run 0: imported */
    uint32_t window;
    struct gain gain, static_gain; /* over the default plan, over the best static plan */
    struct moe_plan static_plan;   /* struct_size 0: none */
    /* rounds 0: they covered only a part of the table. first_round: their samples are numbered from
     * it on. */
    uint32_t rounds, first_round;
    /* The static plans in the rounds, as text with ';' between them. */
    char rivals[STANDING_RIVALS_MAX * PLAN_TEXT_BYTES];
    int64_t decided_s; /* or when entries were last confirmed; 0: not decided yet */
    uint32_t launches; /* launches of the ranks behind it, the search's included; 0: not known */
    bool given_up;     /* the whole table was slower than the default, which replaced it */
    /* Factor by which the rounds widened the deviations of their claims: see search/pairs.h. 0: not
     * known. */
    double kappa;
    /* goes: how often undecided buckets were continued because somebody asked again. more_s: about
     * how many seconds the next time would take; 0: it would decide no bucket. */
    uint32_t goes;
    double more_s;
};

extern const struct row_table standing_table;
extern const char standing_in_show[];

/* Replaces the standing of the same cluster, shape and window. */
int store_standing(struct store *store, const struct standing_row *row);
/* Finds a standing. UNSUPPORTED, without a message, where there is none. */
int store_standing_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       struct standing_row *out);
/* Deletes an imported standing; one that was measured here stays. */
int store_standing_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window);
/* Merges an imported standing. It replaces an older imported one; a fixed order decides between two
 * of the same date. It never replaces one that was measured here, even if that is undecided. */
int store_standing_merge(struct store *store, const struct standing_row *row, bool *placed);

/* ---- Tables for trainers that cannot switch all axes at every step. */

enum { FIXED_AXES_BYTES = 64, FIXED_PLANS_MAX = 64 };

/* Which axes have the same value in all entries of a layer's table, and what that costs: a plain
 * value. */
struct fixed_row {
    int64_t cluster, shape;
    uint32_t window;
    char axes[FIXED_AXES_BYTES];  /* "r,d"; "": none, as in a table without such a row */
    char asked[24];               /* traffic by which buckets were weighed; "": by none */
    char launch[PLAN_TEXT_BYTES]; /* values of these axes: "r=2 d=4" */
    /* While rounds compare them with the default: its plans, bucket by bucket, with ';' between
     * them. */
    char plans[FIXED_PLANS_MAX * PLAN_TEXT_BYTES];
    bool whole;        /* proven, and not the default's: no entry has a plan of another launch */
    struct gain price; /* what trainers that switch these axes, too, would save beside it */
};

extern const struct row_table fixed_table;
extern const char fixed_in_show[];

/* Returns whether all axes are fixed, so that the table has one plan. */
bool fixed_is_all(const struct fixed_row *row);

/* Replaces the row of the same table. Makes the SQL table with its first row. */
int store_fixed_put(struct store *store, const struct fixed_row *row);
/* Finds the row. UNSUPPORTED, without a message: trainers of this table switch all axes. */
int store_fixed_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                    struct fixed_row *out);

/* ---- Verifications: what became of claims. */

/* What the rounds claimed that a plan saves over the default, and what `verify` found when it
 * measured both again. Both intervals have 95 %. */
struct verification_row {
    int64_t cluster, shape, run; /* the run that measured again */
    uint32_t window, bucket;
    struct gain claim, found;
    double kappa; /* of the standing that made the claim */
    int64_t decided_s;
};

extern const struct row_table verification_table;

/* Replaces the row of the same bucket. */
int store_verification(struct store *store, const struct verification_row *row);
int store_verifications(struct store *store, int64_t cluster, struct row_list *out);

/* ---- Imports. */

/* One imported file; the row borrows its texts. */
struct import_row {
    const char *sha256, *file; /* of the lines below the header */
    uint32_t added, same, conflicts;
};

/* Record an imported file, and find whether a file with this hash was recorded before. */
int store_import_add(struct store *store, const struct import_row *row);
int store_import_known(struct store *store, const char *sha256, bool *known);

/* Calls `each` for clusters of other sites, until one of them is found to be this one (see
 * store_cluster_add). */
int store_clusters_elsewhere(struct store *store,
                             int (*each)(void *self, const struct cluster *cluster), void *self);

/* Finds one bucket's entry. UNSUPPORTED, without a message, where there is none. */
int store_entry_get(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                    uint32_t bucket, struct entry_row *out);
/* Calls `each` for the entries, sorted by cluster, shape, window, bucket. Ids of 0 mean any. */
int store_entries(struct store *store, int64_t cluster, int64_t shape,
                  int (*each)(void *self, const struct entry_row *entry), void *self);

/* ---- Overrides: plans that a person has pinned. */

/* One pin: a plain value. */
struct override_row {
    int64_t id, cluster, shape;
    uint32_t window, first, last; /* buckets, both included */
    struct moe_plan plan;
    char why[200];
    int64_t since_s;
};

extern const struct row_table override_table;

/* Replaces what is pinned in these buckets; sets the id. */
int store_override_add(struct store *store, struct override_row *row);
/* Removes the pins from a range of buckets; their buckets outside the range stay pinned. *count:
 * how many pins were affected. */
int store_override_end(struct store *store, int64_t cluster, int64_t shape, uint32_t window,
                       uint32_t first, uint32_t last, uint32_t *count);
int store_overrides(struct store *store, struct row_list *out);
/* Returns the pin that holds for a bucket; NULL: none. */
const struct override_row *override_of(struct row_list pins, const struct bucket_key *key);

#endif
