/* The head that all scripts share, and running gnuplot as a child process without a shell. */
#include "gnuplot.h"

#include "quote.h"
#include "shape.h"
#include "status.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- scripts */

/* Okabe and Ito's colours, told apart by colour-blind readers and on white as on black; the shapes
 * of the marks say the same once more.  The terminal's name keeps the ids of several pictures in
 * one page apart. */
static const char head[] =
    "reset\nset encoding utf8\nset datafile missing\n"
    "points = 12\n"
    "svg(size) = \"set terminal svg noenhanced dynamic background '#ffffff' \".size\n"
    "wide_svg = svg(\"size 960,540 font 'sans-serif,15' name name\")\n"
    "narrow_svg = svg(\"size 400,600 font 'sans-serif,14' name name.'_narrow'\")\n"
    "if (format eq 'svg' && !page) { eval svg(\"size 480,400 font 'sans-serif,12' name name\") }\n"
    "if (format eq 'svg' && page) { points = 14; eval svg(\"size 420,360 font 'sans-serif,14' name "
    "name\") }\n"
    "if (format eq 'png') { points = 9; set terminal pngcairo noenhanced size 1200,1000 "
    "font 'sans,9' fontscale 2.5 linewidth 2.5 pointscale 2.5 }\n"
    "if (format eq 'pdf') { points = 8; set terminal pdfcairo noenhanced size 12cm,10cm "
    "font 'sans,8' }\n"
    "if (format eq 'txt') { set terminal dumb mono noenhanced size 79,30 }\n"
    "top = page ? 0.91 : 0.82\n"
    "ends(f,low,high) = sprintf(f,low) eq sprintf(f,high) ? '' : "
    "' ('.sprintf(f,low).' to '.sprintf(f,high).')'\n"
    "hover(text) = page ? '~~'.text : ''\n"
    "small = sprintf(',%g', 0.9*points)\n"
    "large = sprintf(',%g', 1.2*points)\n"
    "set linetype 1 lc rgb '#0072B2' pt 7\n"
    "set linetype 2 lc rgb '#D55E00' pt 5\n"
    "set linetype 3 lc rgb '#009E73' pt 9\n"
    "set linetype 4 lc rgb '#E69F00' pt 11\n"
    "set linetype 5 lc rgb '#56B4E9' pt 13\n"
    "set linetype 6 lc rgb '#CC79A7' pt 15\n"
    "set linetype 7 lc rgb '#0072B2' pt 8\n"
    "set linetype 8 lc rgb '#888888' pt 6\n"
    "array band[7] = ['#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#D55E00', "
    "'#888888']\n"
    "do for [i=1:7] { set linetype 10+i lc rgb band[i] }\n"
    "set pointsize 0.7\n"
    "set style data points\n"
    "set key below horizontal Left reverse samplen 1 font small\n"
    "if (format eq 'svg') { set key width -1 }\n" /* it takes letters for wider than they are */
    "set tmargin at screen top\n"
    "set grid lc rgb '#888888' lw 0.5 dt 3\n"
    "set tics nomirror\n"
    "set border 3\n"
    "f(value, end) = end == end ? end : value\n";

static void modelled_share(const struct scope *scope, FILE *to)
{
    size_t modelled = 0;

    for (size_t i = 0; i < scope->count; i++)
        modelled += scope->layers[i].modelled;
    if (modelled == scope->count)
        fputs("'MODELLED, not measured'", to);
    else if (modelled)
        fprintf(to, "'%zu of them MODELLED, not measured'", modelled);
    else
        fputs("''", to);
}

static void cluster_words(const struct layer_facts *layer, FILE *to)
{
    quote_gnuplot(TEXT_SHORT(layer->cluster.device, 43), to);
    fprintf(to, ".', %u ranks%s'", layer->cluster.ranks,
            layer->modelled ? "; MODELLED, not measured" : "");
}

static void heading_line(int number, double above, const char *font, FILE *to)
{
    fprintf(to, " at screen 0.02, %g font %s\nset label %d ", above, font, number);
}

/* The title is centred over the plot, not over the picture: labels have the whole width. */
static void heading(const struct plot *plot, const struct scope *scope, bool page, FILE *to)
{
    const struct layer_facts *layer = &scope->layers[0];
    char text[SHAPE_TEXT_BYTES];

    if (page) { /* which says the rest itself */
        fputs("mark = ", to);
        modelled_share(scope, to);
        fputs("\nset label 103 mark at screen 0.02, 0.97 font small\n", to);
        return;
    }
    fputs("set label 101 ", to);
    quote_gnuplot(plot->title, to);
    heading_line(102, 0.965, "large", to);
    if (scope->count > 1) {
        snprintf(text, sizeof(text), "%zu layers", scope->count);
        quote_gnuplot(text, to);
        heading_line(103, 0.91, "small", to);
        modelled_share(scope, to);
    } else {
        shape_format(&layer->shape, text, sizeof(text));
        quote_gnuplot(text, to);
        heading_line(103, 0.91, "small", to);
        cluster_words(layer, to);
    }
    fputs(" at screen 0.02, 0.865 font small\n", to);
}

struct range {
    double first, last;
};

static void widen(struct range *range, uint64_t capacity)
{
    range->first = fmin(range->first, (double)capacity);
    range->last = fmax(range->last, (double)capacity);
}

/* Trainers may ask for what is far from everything that was measured. */
static struct range capacities(const struct plot *plot, const struct layer_facts *layer)
{
    struct range range = { INFINITY, 0 };

    for (size_t i = 0; i < layer->entry_count; i++)
        widen(&range, layer->entries[i].capacity);
    for (size_t i = 0; i < layer->trial_count; i++)
        widen(&range, layer->trials[i].row.capacity);
    for (size_t i = 0; plot->kind & PLOT_TRAFFIC && i < layer->traffic->bucket_count; i++)
        widen(&range,
              shape_capacity(&layer->shape, layer->window, layer->traffic->buckets[i].bucket));
    return range;
}

/* Points with bars become a smear where buckets are many: of those that fall into one of so many
 * cells of the axis the first is drawn; cell(c) says which one c is in. */
static void thin_out(const struct layer_facts *layer, FILE *to)
{
    if (series_is_thinned(layer))
        fprintf(to, "at(c, i) = c <= %u || cell(c) > cell(c - %u) ? c*shift(i) : NaN\n",
                layer->window, layer->window);
    else
        fputs("at(c, i) = c*shift(i)\n", to);
}

static void linear_axis(const struct layer_facts *layer, struct range c, FILE *to)
{
    double room = layer->window + 0.03 * (c.last - c.first);

    fprintf(to, "set xrange [%.6g:%.6g]\nfrom(c) = c\nshift(i) = 1\n", c.first - room,
            c.last + room);
    fprintf(to, "cell(c) = floor(c*%d/%.6g)\n", SERIES_CELLS, c.last + 1);
}

static void log_axis(struct range c, FILE *to)
{
    double least = c.first / 1.3, step = 2;

    while (log(c.last / c.first) / log(step) > 9)
        step *= 2;
    fprintf(to,
            "set logscale x 2\nset xtics %.0f, %.0f\nset xrange [%.6g:%.6g]\n"
            "from(c) = c > %.6g ? c : %.6g\nshift(i) = 1.012**i\n",
            exp2(floor(log2(c.first))), step, least, c.last * 1.15, least, least);
    fprintf(to, "cell(c) = floor(log(c)*%d/%.6g)\n", SERIES_CELLS, log(c.last / c.first));
}

/* Capacities are measured at so many per doubling: a log axis sets them evenly, where they span
 * enough of it. */
static void capacity_axis(const struct plot *plot, const struct layer_facts *layer, FILE *to)
{
    struct range c = capacities(plot, layer);

    if (c.first < 1 || c.last <= 6 * c.first)
        linear_axis(layer, c, to);
    else
        log_axis(c, to);
    thin_out(layer, to);
}

void gnuplot_script(const struct plot *plot, const struct scope *scope, const char *name,
                    const char *format, bool page, FILE *to)
{
    fprintf(to,
            "# Draws %s.dat: gnuplot %s.gp, or gnuplot -e \"format='pdf'\" %s.gp\n"
            "if (!exists(\"format\")) format = '%s'\n"
            "name = '%s'\npage = %d && format eq 'svg'\n",
            name, name, name, format, name, page);
    fputs(head, to);
    heading(plot, scope, page, to);
    fputs("over = ", to);
    quote_gnuplot(plot->x ? plot->x : facts_key(&scope->layers[0]), to);
    fputs("\nset xlabel over", to);
    fputs(".\"\\n \"\nset ylabel ", to); /* an empty line keeps the key off the label */
    quote_gnuplot(plot->y, to);
    fputs("\ndata = name.'.dat'\n", to);
    if (plot->kind & PLOT_OVER_C)
        capacity_axis(plot, &scope->layers[0], to);
    if (plot->extra)
        plot->extra(&scope->layers[0], to);
    fputs("set output name.'.'.format\n", to);
    fputs(plot->script, to);
    fputs("unset output\n", to);
}

/* ---- the program */

enum { CHILDREN_MAX = 4, SCRIPTS_PER_CHILD = 8 };

struct child {
    pid_t pid;
    FILE *said; /* its standard error */
    FILE *told; /* its standard input: what to draw */
};

struct gnuplot {
    const char *folder;
    const char *format;
    size_t wanted, started, next;
    struct child children[CHILDREN_MAX];
    struct sigaction before; /* one that died is told of by its exit code, not by SIGPIPE */
};

/* Only returns if gnuplot cannot be started. */
static void become_gnuplot(const struct gnuplot *g, int told, FILE *said)
{
    char format[32];
    /* -d: not the user's own settings */
    char *const arguments[] = { "gnuplot", "-d", "-e", format, "-", NULL };

    snprintf(format, sizeof(format), "format='%s'", g->format);
    sigaction(SIGPIPE, &g->before, NULL);
    if (dup2(told, STDIN_FILENO) < 0 || dup2(fileno(said), STDERR_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || chdir(g->folder))
        _exit(126);
    /* Numbers are written with points, whatever the user's language. */
    setenv("LC_ALL", "C.UTF-8", 1);
    execvp("gnuplot", arguments);
    _exit(errno == ENOENT ? 127 : 126);
}

static int start(const struct gnuplot *g, struct child *out)
{
    struct child child = { .pid = -1, .said = tmpfile() };
    int ends[2] = { -1, -1 };

    fflush(NULL);
    if (child.said && !pipe2(ends, O_CLOEXEC) && (child.told = fdopen(ends[1], "w")) != NULL)
        child.pid = fork();
    if (child.pid == 0)
        become_gnuplot(g, ends[0], child.said);
    if (ends[0] >= 0)
        close(ends[0]);
    if (child.pid > 0) {
        *out = child;
        return OK;
    }
    if (child.told)
        fclose(child.told);
    if (child.said)
        fclose(child.said);
    return fail(ERR_IO, "gnuplot cannot be started: %s", strerror(errno));
}

/* The last line that is not empty says what went wrong. */
static void last_words(FILE *said, char *text, size_t size)
{
    char line[400];

    snprintf(text, size, "it said nothing");
    rewind(said);
    while (fgets(line, sizeof(line), said)) {
        line[strcspn(line, "\n")] = 0;
        if (strspn(line, " \t^") != strlen(line))
            snprintf(text, size, "%s", line);
    }
}

static int finish(struct child *child, const char *folder)
{
    char words[400];
    int status = 0;

    fclose(child->told); /* nothing more to draw */
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    last_words(child->said, words, sizeof(words));
    fclose(child->said);
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return fail(ERR_IO,
                    "gnuplot is not installed (Debian: apt-get install gnuplot-nox): there is "
                    "no page; data and scripts of the plots are in %s",
                    folder);
    return fail(ERR_IO, "gnuplot: %s", words);
}

static size_t children_for(size_t count)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = cores < 1 ? 1 : cores > CHILDREN_MAX ? CHILDREN_MAX : (size_t)cores;
    size_t wanted = (count + SCRIPTS_PER_CHILD - 1) / SCRIPTS_PER_CHILD;

    return wanted < most ? wanted : most;
}

int gnuplot_open(const char *folder, const char *format, size_t expected, struct gnuplot **out)
{
    struct gnuplot *g = calloc(1, sizeof(*g));
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    if (!g)
        return fail(ERR_NOMEM, "gnuplot");
    g->folder = folder;
    g->format = format;
    g->wanted = children_for(expected);
    sigaction(SIGPIPE, &ignore, &g->before);
    *out = g;
    return OK;
}

int gnuplot_draw(struct gnuplot *g, const char *name)
{
    size_t at = g->next++ % g->wanted;

    if (at == g->started) {
        TRY(start(g, &g->children[at]));
        g->started++;
    }
    fprintf(g->children[at].told, "load '%s.gp'\n", name);
    fflush(g->children[at].told);
    return OK;
}

int gnuplot_close(struct gnuplot *g)
{
    int rc = OK;

    for (size_t i = 0; i < g->started; i++) {
        int ended;

        log_only(!rc); /* they all say the same */
        ended = finish(&g->children[i], g->folder);
        rc = rc ? rc : ended;
    }
    log_only(true);
    sigaction(SIGPIPE, &g->before, NULL);
    free(g);
    return rc;
}
