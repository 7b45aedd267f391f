/* Writes moetune(1) in the man macros. */
#include "verb.h"

#include <stdlib.h>
#include <string.h>

/* Escapes what roff would take for its own; `what is typed` becomes bold. */
static void escape(const char *text, FILE *out)
{
    bool typed = false, begins = true;

    for (; *text; text++) {
        if (begins && strchr(".'", *text))
            fputs("\\&", out);
        begins = *text == '\n';
        if (*text == '`') {
            typed = !typed;
            fputs(typed ? "\\fB" : "\\fR", out);
        } else if (*text == '\\') {
            fputs("\\e", out);
        } else if (*text == '-') {
            fputs("\\-", out);
        } else if (*text == '~' || *text == '^') {
            fprintf(out, "\\(%s", *text == '~' ? "ti" : "ha");
        } else {
            fputc(*text, out);
        }
    }
}

static void print_escaped(const char *text, FILE *out)
{
    escape(text, out);
    fputc('\n', out);
}

static void print_paragraph(const char *text, FILE *out)
{
    fputs(".PP\n", out);
    print_escaped(text, out);
}

static void print_option(const struct option_row *row, const void *defaults, FILE *out)
{
    char text[512];

    fputs(".TP\n", out);
    if (row->letter)
        fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", out);
    escape(row->name, out);
    fprintf(out, row->value ? "\\fR \\fI%s\\fR\n" : "\\fR\n", row->value);
    option_describe(row, defaults, text, sizeof(text));
    print_escaped(text, out);
}

static void print_tables(const struct verb *verb, FILE *out)
{
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);

    if (!memory)
        return;
    verb->tables(memory);
    fclose(memory);
    fputs(".PP\n.nf\n", out);
    print_escaped(text, out);
    fputs(".fi\n", out);
    free(text);
}

static void print_verb(const struct verb *const *verbs, const struct verb *verb, FILE *out)
{
    const struct verb *const *same = verbs;
    bool listed;
    char example[512];

    /* plan has the options of tune: they are listed once. */
    while (*same != verb && (*same)->rows != verb->rows)
        same++;
    listed = *same != verb && verb->rows;
    fprintf(out, ".SS moetune %s%s%s%s\n", verb->name, verb->arguments ? " " : "",
            verb->arguments ? verb->arguments : "", verb->rows ? " [options]" : "");
    print_escaped(verb->about, out);
    if (listed) {
        fprintf(out, "The options are those of\n.BR \"moetune %s\" .\n", (*same)->name);
    } else {
        struct option_row rows[OPTION_ROWS_MAX];
        size_t count = options_flatten(verb->rows, rows);

        for (size_t i = 0; i < count; i++) {
            if (rows[i].kind == OPTION_GROUP)
                fprintf(out, ".PP\n\\fI%s\\fR\n", rows[i].name);
            else
                print_option(&rows[i], verb->defaults, out);
        }
    }
    if (verb->tables && !listed)
        print_tables(verb, out);
    if (verb->notes)
        print_paragraph(verb->notes, out);
    snprintf(example, sizeof(example), "Example: `moetune %s`", verb->example);
    print_paragraph(example, out);
}

/* Variables that are no verb's own. */
static const struct {
    const char *name, *meaning;
} variables[] = {
    { "MOETUNE_DB, MOELOOKUP_DB",
      "The database, where --db does not say it: MOETUNE_DB, else MOELOOKUP_DB. A verb that reads "
      "a database, or takes something out of it, ends with an error where such a name is of no "
      "file; tune, probe and import make it; plan, doctor and fingerprint take it as empty. "
      "Trainers and lookup search both, MOELOOKUP_DB first." },
    { "XDG_DATA_HOME, HOME", "Else the database is $XDG_DATA_HOME/moetune/moetune.db; without it, "
                             "$HOME/.local/share/moetune/moetune.db. What --sim models goes into "
                             "modelled.db in the same folder, unless --db says otherwise." },
    { "MOELOOKUP_FORCE, MOELOOKUP_DISABLE, MOELOOKUP_LOG, MOELOOKUP_RECORD, "
      "MOELOOKUP_COUNTS",
      "Heard by trainers and by lookup: see moelookup(3)." },
    { "MOELOOKUP_LIBRARY, MOETUNE_LIBRARY", "The libraries that the Python packages load." },
    { "MOETUNE_TO, MOETUNE_FROM, MOETUNE_TO_FD, MOETUNE_FROM_FD",
      "Set for the program of `tune --exec`: where it asks, and where it is answered." },
    { "MOETUNE_WINDOW, MOETUNE_LAYER, MOETUNE_LAUNCHER_ARGS",
      "Set for the same program: the width of a bucket, the layer of the table, the words of "
      "--launcher-args." },
    { "MOETUNE_SPACE, MOETUNE_PLAN",
      "Set for a program with a space: the space, the values of its axes that need a restart." },
    { "CUDA_VISIBLE_DEVICES", "Which GPUs there are." },
    { "OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK",
      "Set by a launcher: this process is one of its ranks." },
    { "OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID, LOCAL_RANK",
      "Set by a launcher: which GPU of its host a rank takes." },
    { "FORKED_RANKS, FORKED_RANK",
      "Set by a moetune that was built without an MPI: how many ranks its own process becomes when "
      "they are to meet, and which of them a process is." },
    { "SLURM_JOB_ID, SLURM_PROCID, SLURM_TASKS_PER_NODE",
      "Set by Slurm: how many ranks the allocation has room for." },
    { "LOCAL_WORLD_SIZE, LOCAL_SIZE", "Ranks per node, as torchrun sets and Tutel wants it." },
    { "OMPI_MCA_*, OPENBLAS_*, OMP_NUM*, GOTO_NUM*, NCCL_*, UCX_*, CUDA_*, FI_*, PSM2_MTU*, "
      "MALLOC_*",
      "Heard by the libraries. They change how fast a cluster is, so they are part of its "
      "fingerprint. doctor looks at OMPI_MCA_mpi_yield_when_idle, OMPI_MCA_btl_tcp_if_include and "
      "NCCL_SOCKET_IFNAME." },
    { "TERM, NO_COLOR", "Whether progress may be drawn on one line; whether tables have colours." },
    { "MOETUNE_FAULT", "Injects a fault, as alloc:2@1 (the second allocation on rank 1): for "
                       "tests." },
    { "MOETUNE_BIND", "Set by moetune for the ranks that it starts." },
};
static const struct {
    const char *name, *meaning;
} files[] = {
    { "X.db", "The database: one process writes, readers are welcome." },
    { "X.db.published", "The dictionary alone, replaced whole after buckets. Whatever reads a "
                        "database reads this, too; where it is damaged, the database." },
    { "X.db.journal", "Every row as a line of JSON; `moetune tune --repair` rebuilds a damaged "
                      "database from it." },
    { "X.db.owner", "Who writes the database." },
    { "/etc/moetune, PREFIX/share/moetune", "Where look-ups search after the user's own." },
};

static void print_item(const char *name, const char *meaning, FILE *out)
{
    fputs(".TP\n.B ", out);
    print_escaped(name, out);
    print_escaped(meaning, out);
}

void manual_print(const struct verb *const *verbs, FILE *out)
{
    fprintf(out,
            ".TH MOETUNE 1 \"\" \"moetune %s\" \"User Commands\"\n.SH NAME\n"
            "moetune \\- an autotuner for Mixture\\-of\\-Experts layers\n.SH SYNOPSIS\n"
            ".B moetune\n.I verb\n[\\fIoptions\\fR]\n.br\n.B moetune \\-\\-cluster\n"
            "[\\fIHOSTS\\fR] [\\fIoptions\\fR]\n.br\n.B moetune help\n[\\fIverb\\fR]\n.br\n"
            ".B moetune \\-\\-version\n.br\n.B moetune \\-\\-completion bash\n.SH DESCRIPTION\n",
            MOETUNE_VERSION);
    print_escaped("An MoE layer has one workload, its expert capacity c, that changes at every "
                  "training step, and several ways to run it: how parallel (r), how finely "
                  "pipelined (d), with which all-to-all (a). moetune measures which way is "
                  "fastest on a machine, with real overlapped compute and communication, and "
                  "remembers the winner of every bucket floor(c/R) in an SQLite database, where "
                  "trainers look it up.",
                  out);
    fputs(".SH VERBS\n", out);
    for (size_t i = 0; verbs[i]; i++)
        if (verbs[i]->summary)
            print_item(verbs[i]->name, verbs[i]->summary, out);
    fputs(".SH OPTIONS\nEvery verb takes\n.BR \\-\\-help .\nOptions and arguments may come in any "
          "order; of an option that is given twice the last one counts, unless it says \"again "
          "for more\". Defaults stand in brackets. Bash completes all of it after\n"
          ".BR \". <(moetune \\-\\-completion bash)\" .\n",
          out);
    for (size_t i = 0; verbs[i]; i++)
        if (verbs[i]->summary)
            print_verb(verbs, verbs[i], out);
    fputs(".SH EXIT STATUS\n", out);
    for (const struct verb_end *end = verb_ends; end->meaning; end++) {
        char code[16];

        snprintf(code, sizeof(code), "%d", end->code);
        print_item(code, end->meaning, out);
    }
    fputs(".SH ENVIRONMENT\n", out);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        print_item(variables[i].name, variables[i].meaning, out);
    fputs(".SH FILES\n", out);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        print_item(files[i].name, files[i].meaning, out);
    fputs(".SH SEE ALSO\n.BR moetune\\-tables (7),\n.BR moetune\\-spaces (7),\n.BR moetune\\-hosts "
          "(7),\n"
          ".BR moetune\\-trouble (7),\n.BR moelookup (3),\n.BR moetune (3),\n.BR mpirun (1)\n",
          out);
}
