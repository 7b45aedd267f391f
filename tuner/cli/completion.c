/* Writes a bash function for `complete -F`.  It offers what may come next, by the verb and by the
 * option before. */
#include "verb.h"

#include <string.h>

/* The beginning of the function.  For bash "=" in --option=value is a word of its own. */
static const char head[] =
    "# bash completion for moetune, written by moetune --completion bash\n"
    "_moetune()\n"
    "{\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local verb=${COMP_WORDS[1]} options= kind= words=\n"
    "    if [[ $current == = ]]; then\n"
    "        current=\n"
    "    elif [[ $previous == = ]]; then\n"
    "        previous=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    COMPREPLY=()\n";

/* The end of the function: it offers the value of an option, an option, or an argument. */
static const char tail[] =
    "    if [[ -z $kind && $current == -* ]]; then\n"
    "        kind=words words=$options\n"
    "    fi\n"
    "    case ${kind:-$argument} in\n"
    "    words) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
    "    files) mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
    "           compopt -o filenames 2>/dev/null ;;\n"
    "    folders) mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
    "             compopt -o filenames 2>/dev/null ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _moetune moetune\n";

static bool takes_value(const struct option_row *row)
{
    return row->kind != OPTION_GROUP && row->kind != OPTION_FLAG;
}

/* Whether the values are words of a list, files or folders. */
static bool has_known_values(const struct option_row *row)
{
    return row->words || !strcmp(row->value, "FILE") || !strcmp(row->value, "DIR");
}

/* Offers values for the options whose values are known words, files or folders.  After other
 * options it offers nothing: bash would offer files by itself. */
static void print_values(const struct option_row *rows, size_t count, FILE *out)
{
    const char *separator = "        ";

    for (const struct option_row *row = rows; row < rows + count; row++) {
        if (!takes_value(row) || !has_known_values(row))
            continue;
        fputs("        ", out);
        if (row->letter)
            fprintf(out, "-%c|", row->letter);
        fprintf(out, "--%s) ", row->name);
        if (row->words) {
            fputs("kind=words words=\"", out);
            for (size_t i = 0; row->words[i]; i++)
                fprintf(out, "%s%s", i ? " " : "", row->words[i]);
            fputs("\" ;;\n", out);
        } else {
            fputs(strcmp(row->value, "DIR") ? "kind=files ;;\n" : "kind=folders ;;\n", out);
        }
    }
    for (const struct option_row *row = rows; row < rows + count; row++) {
        if (!takes_value(row) || has_known_values(row))
            continue;
        fprintf(out, "%s--%s", separator, row->name);
        if (row->letter)
            fprintf(out, "|-%c", row->letter);
        separator = "|";
    }
    if (*separator == '|')
        fputs(") kind=none ;;\n", out);
}

static void print_verb(const struct verb *verb, const char *pattern, FILE *out)
{
    struct option_row rows[OPTION_ROWS_MAX];
    size_t count = options_flatten(verb->rows, rows);

    fprintf(out, "    %s)\n        options=\"", pattern);
    for (size_t i = 0; i < count; i++)
        if (rows[i].kind != OPTION_GROUP)
            fprintf(out, "--%s ", rows[i].name);
    fputs("--help\"\n        case $previous in\n", out);
    print_values(rows, count, out);
    fputs("        esac\n        ", out);
    if (!verb->arguments) {
        fputs("argument=none\n", out);
    } else if (!strchr(verb->arguments, '|')) {
        fputs("argument=files\n", out); /* HOSTS may be a file, too */
    } else {                            /* "set|unset" are words */
        fputs("argument=words; [[ $kind ]] || words=\"", out);
        for (const char *letter = verb->arguments; *letter; letter++)
            fputc(*letter == '|' ? ' ' : *letter, out);
        fputs("\"\n", out);
    }
    fputs("        ;;\n", out);
}

void completion_print(const struct verb *const *verbs, FILE *out)
{
    fputs(head, out);
    fputs("    local argument=none verbs=\"", out);
    for (size_t i = 0; verbs[i]; i++)
        if (verbs[i]->summary)
            fprintf(out, "%s ", verbs[i]->name);
    fputs("help\"\n    if ((COMP_CWORD == 1)); then\n        verb=\n        kind=words "
          "words=\"$verbs --cluster --help --version --completion\"\n    fi\n    case $verb in\n",
          out);
    for (size_t i = 0; verbs[i]; i++)
        if (verbs[i]->summary)
            print_verb(verbs[i], strcmp(verbs[i]->name, "tune") ? verbs[i]->name : "tune|--cluster",
                       out);
    fputs("    help) kind=words words=$verbs ;;\n    --completion) kind=words words=bash ;;\n"
          "    esac\n",
          out);
    fputs(tail, out);
}
