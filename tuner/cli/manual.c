/* Writes moetune(1) in the Markdown that manual.awk knows, from the tables of the verbs. */
#include "verb.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_LENGTH_MAX = 118 };

/* Whether Markdown takes the word for a mark at the beginning of a line. */
static bool is_markdown_mark(const char *word, size_t length)
{
    size_t digits = strspn(word, "0123456789");

    return strchr("-+*>#=|~`", *word) ||
           (digits && digits + 1 == length && strchr(".)", word[digits]));
}

/* Prints a word, with backslashes before the characters that Markdown would read as marks.  Between
 * backticks nothing is escaped; *in_code says whether the word is between them.  Returns the width.
 */
static int print_escaped(const char *word, size_t length, bool *in_code, FILE *out)
{
    int width = 0;

    for (size_t i = 0; i < length; i++) {
        if (word[i] == '`')
            *in_code = !*in_code;
        else if (!*in_code && strchr("\\*<>~|", word[i]))
            width += fprintf(out, "\\");
        fputc(word[i], out);
        width++;
    }
    return width;
}

/* Prints a paragraph.  Each sentence begins on a line of its own. */
static void print_paragraph(const char *text, const char *indent, FILE *out)
{
    bool in_code = false, sentence_ended = true;
    int column = 0;

    while (*(text += strspn(text, " \n"))) {
        size_t length = strcspn(text, " \n");
        char next;

        if (sentence_ended || (column + 1 + (int)length > LINE_LENGTH_MAX && !in_code &&
                               !is_markdown_mark(text, length))) {
            fprintf(out, "%s%s", column ? "\n" : "", indent);
            column = (int)strlen(indent);
        } else {
            fputc(' ', out);
            column++;
        }
        column += print_escaped(text, length, &in_code, out);
        text += length;
        next = text[strspn(text, " \n")];
        sentence_ended =
            text[-1] == '.' && (isupper((unsigned char)next) || next == '`') && !in_code;
    }
    fputc('\n', out);
}

static void print_item(const char *name, const char *meaning, FILE *out)
{
    fprintf(out, "- `%s`\\\n", name);
    print_paragraph(meaning, "  ", out);
}

static void print_option(const struct option_row *row, const void *defaults, FILE *out)
{
    char text[512];

    fputs("- ", out);
    if (row->letter)
        fprintf(out, "`-%c`, ", row->letter);
    fprintf(out, "`--%s`", row->name);
    if (row->value)
        fprintf(out, strpbrk(row->value, "[*") ? " `%s`" : " *%s*", row->value);
    fputs("\\\n", out);
    option_describe(row, defaults, text, sizeof(text));
    print_paragraph(text, "  ", out);
}

static void print_verb(const struct verb *const *verbs, const struct verb *verb, FILE *out)
{
    const struct verb *const *first_with_rows = verbs;
    bool is_listed_above;

    /* Verbs that share a table of options, as import and merge, list them once. */
    while (*first_with_rows != verb && (*first_with_rows)->rows != verb->rows)
        first_with_rows++;
    is_listed_above = *first_with_rows != verb && verb->rows;
    fprintf(out, "\n### moetune %s%s%s%s\n\n", verb->name, verb->arguments ? " " : "",
            verb->arguments ? verb->arguments : "", verb->rows ? " [options]" : "");
    print_paragraph(verb->about, "", out);
    if (is_listed_above) {
        fprintf(out, "\nThe options are those of `moetune %s`.\n", (*first_with_rows)->name);
    } else {
        struct option_row rows[OPTION_ROWS_MAX];
        size_t count = options_flatten(verb->rows, rows);
        bool list_begins = true; /* print an empty line before the next list */

        for (size_t i = 0; i < count; i++) {
            if (rows[i].kind == OPTION_GROUP) {
                fprintf(out, "\n*%s*\n", rows[i].name);
                list_begins = true;
                continue;
            }
            fputs(list_begins ? "\n" : "", out);
            list_begins = false;
            print_option(&rows[i], verb->defaults, out);
        }
    }
    if (verb->tables && !is_listed_above) {
        fputs("\n```text\n", out);
        verb->tables(out);
        fputs("```\n", out);
    }
    if (verb->notes) {
        fputc('\n', out);
        print_paragraph(verb->notes, "", out);
    }
    fprintf(out, "\nExample: `moetune %s`\n", verb->example);
}

/* The environment variables of moetune and of what it starts. */
static const struct {
    const char *name, *meaning;
} variables[] = {
    { "MOETUNE_DB, MOELOOKUP_DB",
      "The database, if --db names none: MOETUNE_DB, else MOELOOKUP_DB. A verb that reads a "
      "database, or removes something from it, fails if such a name is of no file. `tune`, `probe` "
      "and `import` create the file. `plan`, `doctor` and `fingerprint` take it as an empty "
      "database. Trainers and `lookup` search both, MOELOOKUP_DB first." },
    { "XDG_DATA_HOME, HOME",
      "Without those two the database is $XDG_DATA_HOME/moetune/moetune.db, or else "
      "$HOME/.local/share/moetune/moetune.db. What --sim models goes into modelled.db in the same "
      "folder, unless --db says otherwise." },
    { "MOELOOKUP_FORCE, MOELOOKUP_DISABLE, MOELOOKUP_LAUNCH, MOELOOKUP_LOG, MOELOOKUP_RECORD, "
      "MOELOOKUP_COUNTS",
      "Trainers and `lookup` read them, see moelookup(3)." },
    { "MOELOOKUP_LIBRARY, MOETUNE_LIBRARY", "The libraries that the Python packages load." },
    { "MOETUNE_TO, MOETUNE_FROM, MOETUNE_TO_FD, MOETUNE_FROM_FD",
      "moetune sets them for the program of `tune --exec`: where it asks, and where it reads the "
      "answers." },
    { "MOETUNE_WINDOW, MOETUNE_LAYER, MOETUNE_LAUNCHER_ARGS",
      "moetune sets them for that program, too: the width of a bucket, the layer of the table, the "
      "value of --launcher-args." },
    { "MOETUNE_SPACE, MOETUNE_PLAN", "moetune sets them for a program with a space: the text of "
                                     "the space, and the values of its axes that need a restart." },
    { "CUDA_VISIBLE_DEVICES", "The GPUs that moetune may use." },
    { "OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK",
      "A launcher sets them: this process is one of its ranks." },
    { "OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID, LOCAL_RANK",
      "A launcher sets them: which GPU of its host a rank takes." },
    { "FORKED_RANKS, FORKED_RANK",
      "A moetune that was built without MPI sets them: how many ranks its own process becomes when "
      "they meet, and which of these ranks a process is." },
    { "SLURM_JOB_ID, SLURM_PROCID, SLURM_TASKS_PER_NODE",
      "Slurm sets them: how many ranks the allocation has room for." },
    { "LOCAL_WORLD_SIZE, LOCAL_SIZE",
      "Ranks per node: torchrun sets the first, Tutel reads the second." },
    { "OMPI_MCA_*, OPENBLAS_*, OMP_NUM*, GOTO_NUM*, NCCL_*, UCX_*, CUDA_*, FI_*, PSM2_MTU*, "
      "MALLOC_*",
      "Libraries read them. They change how fast a cluster is, so they are part of its "
      "fingerprint. `doctor` checks OMPI_MCA_mpi_yield_when_idle, OMPI_MCA_btl_tcp_if_include and "
      "NCCL_SOCKET_IFNAME." },
    { "TERM, NO_COLOR", "TERM says whether progress may be drawn on one line. NO_COLOR turns the "
                        "colours of tables off." },
    { "MOETUNE_FAULT",
      "For tests. It injects a fault, as alloc:2@1 (the second allocation on rank 1)." },
    { "MOETUNE_BIND, MOETUNE_ONE_THREAD", "moetune sets them for the ranks that it starts." },
};
static const struct {
    const char *name, *meaning;
} files[] = {
    { "X.db", "The database: one process writes, any number of processes read." },
    { "X.db.published",
      "The table alone, replaced as a whole after buckets. Whatever reads a database can read this "
      "file, too. If it is damaged, readers take the database." },
    { "X.db.journal",
      "Every row as a line of JSON. `moetune tune --repair` rebuilds a damaged database from it." },
    { "X.db.owner", "Which process writes the database." },
    { "/etc/moetune, PREFIX/share/moetune", "Where look-ups search after the user's own folder." },
};

void manual_print(const struct verb *const *verbs, FILE *out)
{
    fputs("# moetune(1) - an autotuner for Mixture-of-Experts layers\n\n"
          "<!-- Written by `moetune --man`, from the tables of options. -->\n"
          "\n## Synopsis\n\n```text\nmoetune VERB [options]\nmoetune --cluster [HOSTS] [options]\n"
          "moetune help [VERB]\nmoetune --version\nmoetune --completion bash\n```\n\n"
          "## Description\n\n",
          out);
    print_paragraph(
        "An MoE layer has one workload that changes at every training step: its expert capacity c. "
        "There are several ways to run the layer: how parallel (r), how finely pipelined (d), with "
        "which all-to-all (a). Such a combination is a plan. `moetune` measures which plan is "
        "fastest on a machine, with real overlapped compute and communication. It stores the best "
        "plan of every bucket floor(c/R) in an SQLite database. Trainers look the plan up there.",
        "", out);
    fputs("\n## Verbs\n\n", out);
    for (size_t i = 0; verbs[i]; i++)
        if (verbs[i]->summary)
            print_item(verbs[i]->name, verbs[i]->summary, out);
    fputs("\n## Options\n\n", out);
    print_paragraph(
        "Every verb takes `--help`. Options and arguments may come in any order. If an "
        "option is given twice the last value counts, unless its text says \"may be "
        "repeated\". Defaults stand in brackets. Bash completes verbs, options and words "
        "after `. <(moetune --completion bash)`.",
        "", out);
    for (size_t i = 0; verbs[i]; i++)
        if (verbs[i]->summary)
            print_verb(verbs, verbs[i], out);
    fputs("\n## Exit status\n\n", out);
    for (const struct exit_code *row = exit_codes; row->meaning; row++) {
        char code[16];

        snprintf(code, sizeof(code), "%d", row->code);
        print_item(code, row->meaning, out);
    }
    fputs("\n## Environment\n\n", out);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        print_item(variables[i].name, variables[i].meaning, out);
    fputs("\n## Files\n\n", out);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        print_item(files[i].name, files[i].meaning, out);
    fputs("\n## See also\n\n"
          "[moetune-tables(7)](moetune-tables.7.md), [moetune-spaces(7)](moetune-spaces.7.md),\n"
          "[moetune-hosts(7)](../machine/moetune-hosts.7.md), "
          "[moetune-trouble(7)](moetune-trouble.7.md),\n"
          "[moelookup(3)](../../db/lookup/moelookup.3.md), [moetune(3)](../live/moetune.3.md), "
          "**mpirun**(1)\n",
          out);
}
