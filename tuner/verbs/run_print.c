/* Prints the results of moetune run: a table for a person, or a JSON object for programs. */
#include "run.h"

#include "baseline.h"
#include "capacities.h"
#include "json.h"
#include "judge.h"
#include "load.h"
#include "overlap.h"
#include "plan.h"
#include "rig.h"
#include "shape.h"
#include "stats.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The plan's text, with the baseline's name behind it: "r=1 d=1 a=linear dense".  It lasts as long
 * as the block around it. */
enum { SUBJECT_TEXT_BYTES = PLAN_TEXT_BYTES + 16 };
#define SUBJECT_TEXT(subject) subject_text(subject, (char[SUBJECT_TEXT_BYTES]){ 0 })

static const char *subject_text(const struct measured_plan *subject, char room[SUBJECT_TEXT_BYTES])
{
    const char *word = "";

    for (int i = 0; baseline_words[i]; i++)
        if (subject->baseline == 1u << i)
            word = baseline_words[i];
    snprintf(room, SUBJECT_TEXT_BYTES, "%s%s%s", PLAN_TEXT(&subject->runner.plan), *word ? " " : "",
             word);
    return room;
}

static double ms(int64_t ns)
{
    return (double)ns * 1e-6;
}

/* Returns which share of the shorter one of compute and communication is hidden when both overlap.
 */
static double hidden_share(const struct measured_plan *s)
{
    double both = (double)s->spread[STEP_BOTH].median_ns;
    double compute = (double)s->spread[STEP_COMPUTE].median_ns;
    double comm = (double)s->spread[STEP_COMM].median_ns;

    return s->runner.messages ? (compute + comm - both) / fmin(compute, comm) : NAN;
}

/* Prints the smallest and the largest number over ranks, as "291 to 830 tokens". */
static void print_range(const uint32_t *of_ranks, uint32_t ranks, const char *what)
{
    uint32_t least = of_ranks[0], most = of_ranks[0];

    for (uint32_t q = 1; q < ranks; q++) {
        least = of_ranks[q] < least ? of_ranks[q] : least;
        most = of_ranks[q] > most ? of_ranks[q] : most;
    }
    printf("%u", least);
    if (most > least)
        printf(" to %u", most);
    printf(" %s", what);
}

/* Prints the lines above the table: what all plans share. */
static void print_heading(const struct rig *rig, const struct measured_plan *subjects,
                          const struct run_options *o)
{
    const struct moe_shape *s = &rig->data.shape;
    const struct capacities c = rig_capacities(rig);
    uint64_t key = capacities_key(&c, s);
    uint32_t window = shape_window(s);
    int fullest = capacities_fullest(&c, s);
    char words[LOAD_WORDS_BYTES];

    printf("layer     E=%u k=%u T=%u D=%u H=%u %s %s %s on %u ranks", s->experts, s->top_k,
           s->tokens, s->model_dim, s->hidden_dim, dtype_words[s->dtype], pass_words[s->pass],
           activation_words[s->activation], s->ranks);
    printf(s->ranks_per_node ? " (%u per node" : " (nodes differ", s->ranks_per_node);
    printf(s->ranks_per_rack ? ", %u per rack)\n" : ")\n", s->ranks_per_rack);
    if (o->capacities)
        printf("capacity  of each expert its own: %" PRIu64 " rows in all, %" PRIu64
               " of rank %d, the fullest; c_eq=%" PRIu64 " (with r=0 %" PRIu64 ")",
               capacities_sum(&c, s->experts), capacities_of_rank(&c, s, fullest), fullest, key,
               capacities_key_r0(&c, s));
    else
        printf("capacity  c=%" PRIu64 " (f=%g)", key, o->factor);
    printf(", bucket %" PRIu64 " of width %u; %" PRId64 " of %" PRIu64 " choices dropped\n",
           key / window, window, subjects[0].dropped,
           (uint64_t)s->tokens * s->ranks * s->top_k * layer_count(s));
    if (s->layers || o->load.between > 0)
        printf("layers    %u in a step, %g GFLOP of other products before each\n", layer_count(s),
               o->load.between);
    if (o->routes == RUN_KNOWN)
        printf("routes    known: those of a step before\n");
    if (o->sim)
        printf("model     %s: MODELLED, not measured\n", o->sim);
    if (s->layout || s->shares) { /* ranks do not share the layer in the usual way */
        printf("ranks     layout=%s shares=%s: ", layout_words[s->layout], shares_words[s->shares]);
        print_range(rig->parts.tokens, s->ranks, "tokens");
        if (s->layout == MOE_LAYOUT_HIDDEN) {
            printf(" and ");
            print_range(rig->parts.hidden, s->ranks, "hidden units");
        }
        printf(" each\n");
    }
    if (s->groups || s->router || s->order || s->combine) {
        printf("router    %s", router_words[s->router]);
        if (s->groups)
            printf(", %u groups of %u experts, of which a token takes %u", s->groups,
                   s->experts / s->groups, s->group_limit);
        if (s->projection)
            printf(", in %u dimensions", s->projection);
        if (s->order == MOE_ORDER_PRIORITY)
            printf(", slots by priority");
        if (s->combine == MOE_COMBINE_CHOICES)
            printf(", a row for each choice");
        printf("\n");
    }
    if (o->balance)
        printf("balance   loss %.9g of weight %s\n", subjects[0].balance, o->balance);
    if (rig->data.load)
        printf("load      max/mean %.3g of the tokens per expert\n", load_skew(rig->data.load));
    load_words_at(rig->data.load, rig->capacity, words);
    if (*words)
        printf("          %s\n", words);
    printf("times     ms, largest over the ranks, median of %u interleaved repetitions\n\n",
           o->reps);
}

static double ceiling_percent(const struct measured_plan *s)
{
    return s->known.fresh.median_ns
               ? 100 * (double)s->known.gate.median_ns / (double)s->known.fresh.median_ns
               : 0;
}

static void print_known_routes(const struct measured_plan *subjects, size_t count, int wide)
{
    printf(
        "\nknown routes: slots from choices that are there, the gate behind the first send; gain "
        "%% of\nthe fresh step of the same round; no more can be gained than the gate takes "
        "alone\n\n%-*s %9s %9s %7s %18s %9s %8s\n",
        wide, "plan", "fresh", "known", "gain %", "95 % interval", "gate", "gate %");
    for (size_t i = 0; i < count; i++) {
        const struct measured_plan *s = &subjects[i];

        printf("%-*s %9.3f %9.3f %7.2f %7.2f to %7.2f %9.3f %8.2f\n", wide,
               PLAN_TEXT(&s->runner.plan), ms(s->known.fresh.median_ns),
               ms(s->known.step.median_ns), (double)s->known.gain_ppm.median_ns * 1e-4,
               (double)s->known.gain_ppm.low_ns * 1e-4, (double)s->known.gain_ppm.high_ns * 1e-4,
               ms(s->known.gate.median_ns), ceiling_percent(s));
    }
}

static void print_phases(const struct measured_plan *subjects, size_t count, int wide)
{
    printf("\nphases one after the other, each while the other stream is muted\n\n"
           "%-*s %-23s %9s %19s %6s\n",
           wide, "plan", "phase", "ms", "95 % interval", "share");
    for (size_t i = 0; i < count; i++) {
        const struct phase_spreads *phases = &subjects[i].phases;
        const struct spread *share = &phases->exchanges_ppm, *of = phases->of;

        for (int p = 0; p < PHASE_COUNT; p++)
            if (of[p].high_ns) /* the plan has such work */
                printf("%-*s %-23s %9.3f %9.3f-%9.3f %6.3f\n", wide,
                       p ? "" : SUBJECT_TEXT(&subjects[i]), phase_titles[p], ms(of[p].median_ns),
                       ms(of[p].low_ns), ms(of[p].high_ns),
                       (double)of[p].median_ns / (double)of[PHASE_TOTAL].median_ns);
        printf("%-*s %-23s %9s %9.3f-%9.3f %6.3f\n", wide, "", "share of exchanges", "",
               ms(share->low_ns), ms(share->high_ns), ms(share->median_ns));
    }
    printf("\nissued by the host in one step, before it waits\n\n%-*s %9s %9s %9s %9s\n", wide,
           "plan", "kernels", "events", "exchanges", "host");
    for (size_t i = 0; i < count; i++) {
        const struct issued *x = &subjects[i].runner.issued;

        printf("%-*s %9" PRId64 " %9" PRId64 " %9" PRId64 " %9.3f\n", wide,
               SUBJECT_TEXT(&subjects[i]), x->kernels, x->events, x->exchanges, ms(x->host_ns));
    }
}

/* Compares with eager steps.  The time of the host is what it needs to queue a step, or to launch
 * its graph. */
static void print_against_eager(const struct measured_plan *subjects, size_t count, int wide)
{
    bool graphs = subjects[0].runner.rig->steps_are == STEPS_GRAPHS;

    printf("\nsteps above %s; against the same launch by launch\n\n%-*s %9s %9s %9s %9s\n",
           graphs ? "are CUDA graphs" : "are queued whole before the GPU begins", wide, "plan",
           graphs ? "nodes" : "kernels", "host", "step", "eager");
    for (size_t i = 0; i < count; i++) {
        const struct runner *x = &subjects[i].runner;
        const struct spread *of = subjects[i].spread;

        printf("%-*s %9" PRIu64 " %9.3f %9.3f %9.3f\n", wide, SUBJECT_TEXT(&subjects[i]),
               graphs ? x->graphs[STEP_BOTH]->nodes : (uint64_t)x->issued.kernels,
               ms(graphs ? x->replay_host_ns : x->issued.host_ns), ms(of[STEP_BOTH].median_ns),
               ms(of[STEP_EAGER].median_ns));
    }
}

/* Prints the plans whose chunks gain more than overlap can explain. */
static void print_beyond_overlap(const struct measured_plan *subjects, size_t count)
{
    for (size_t i = 0; i < count * count; i++) {
        const struct measured_plan *of[2] = { &subjects[i / count], &subjects[i % count] };
        struct moe_plan one = of[1]->runner.plan;
        struct step_halves halves[2];
        char text[BEYOND_TEXT_BYTES];

        one.d = 1;
        if (one.d == of[1]->runner.plan.d || of[0]->baseline || of[1]->baseline ||
            !plan_equal(&one, &of[0]->runner.plan))
            continue;
        for (int n = 0; n < 2; n++)
            halves[n] = (struct step_halves){ of[n]->spread[STEP_BOTH],
                                              of[n]->spread[STEP_COMPUTE].median_ns,
                                              of[n]->spread[STEP_COMM].median_ns };
        overlap_beyond(&halves[0], &halves[1], text);
        if (*text)
            printf("%s %s\n", SUBJECT_TEXT(of[1]), text);
    }
}

static void print_text(const struct rig *rig, const struct measured_plan *subjects, size_t count,
                       const struct run_options *o)
{
    bool whole = reference_is_affordable(&rig->data.shape);
    int wide = 18;

    for (size_t i = 0; i < count; i++) {
        int width = (int)strlen(SUBJECT_TEXT(&subjects[i]));

        wide = width > wide ? width : wide;
    }
    print_heading(rig, subjects, o);
    printf("%-*s %9s %19s %9s %9s %7s %9s %9s %s\n", wide, "plan", "step", "95 % interval",
           "compute", "comm", "hidden", "sent MiB", "mem MiB", o->check ? "check" : "");
    for (size_t i = 0; i < count; i++) {
        const struct measured_plan *x = &subjects[i];
        const struct spread *step = &x->spread[STEP_BOTH];
        char hidden[16] = "-";

        if (!isnan(hidden_share(x)))
            text_put(hidden, sizeof(hidden), "%.2f", hidden_share(x));
        printf("%-*s %9.3f %9.3f-%9.3f %9.3f %9.3f %7s %9.3f %9.3f %s\n", wide, SUBJECT_TEXT(x),
               ms(step->median_ns), ms(step->low_ns), ms(step->high_ns),
               ms(x->spread[STEP_COMPUTE].median_ns), ms(x->spread[STEP_COMM].median_ns), hidden,
               (double)x->runner.sent_bytes * 0x1p-20, (double)x->runner.memory_bytes * 0x1p-20,
               !o->check ? ""
               : whole   ? "ok"
                         : "some tokens ok");
    }
    print_beyond_overlap(subjects, count);
    if (o->routes == RUN_BOTH)
        print_known_routes(subjects, count, wide);
    if (o->phases)
        print_phases(subjects, count, wide);
    if (rig->steps_are)
        print_against_eager(subjects, count, wide);
}

/* ---- JSON */

static void json_spread(const char *name, const struct spread *s)
{
    json_write(stdout,
               "'%s': {'median_ns': %" PRId64 ", 'min_ns': %" PRId64 ", 'p95_ns': %" PRId64
               ", 'low_ns': %" PRId64 ", 'high_ns': %" PRId64 "}, ",
               name, s->median_ns, s->min_ns, s->p95_ns, s->low_ns, s->high_ns);
}

static void json_list(const char *name, const uint32_t *of_ranks, uint32_t ranks)
{
    json_write(stdout, " '%s': [", name);
    for (uint32_t q = 0; q < ranks; q++)
        printf("%s%u", q ? ", " : "", of_ranks[q]);
    printf("],\n");
}

/* Prints the members that all plans share.  "capacity" is the key by which tables answer. */
static void json_heading(const struct rig *rig, const struct measured_plan *subjects,
                         const struct run_options *o)
{
    const struct moe_shape *s = &rig->data.shape;
    const struct capacities c = rig_capacities(rig);
    uint64_t key = capacities_key(&c, s);
    uint32_t window = shape_window(s);
    int fullest = capacities_fullest(&c, s);

    json_write(stdout,
               "{'shape': {'experts': %u, 'top_k': %u, 'tokens': %u, 'model_dim': %u, "
               "'hidden_dim': %u, 'ranks': %u, 'ranks_per_node': %u, 'dtype': '%s', 'pass': '%s', "
               "'activation': '%s', 'layout': '%s', 'shares': '%s', 'groups': %u, "
               "'group_limit': %u, 'router': '%s'},\n",
               s->experts, s->top_k, s->tokens, s->model_dim, s->hidden_dim, s->ranks,
               s->ranks_per_node, dtype_words[s->dtype], pass_words[s->pass],
               activation_words[s->activation], layout_words[s->layout], shares_words[s->shares],
               s->groups, s->group_limit, router_words[s->router]);
    json_list("tokens", rig->parts.tokens, s->ranks);
    if (s->layout == MOE_LAYOUT_HIDDEN)
        json_list("hidden_units", rig->parts.hidden, s->ranks);
    if (o->capacities) {
        json_write(stdout, " 'capacities': [");
        for (uint32_t e = 0; e < s->experts; e++)
            printf("%s%" PRIu64, e ? ", " : "", capacity_of(&c, e));
        json_write(stdout, "], 'rows': %" PRIu64 ", 'rows_of_fullest': %" PRIu64 ", 'fullest': %d,",
                   capacities_sum(&c, s->experts), capacities_of_rank(&c, s, fullest), fullest);
    } else {
        json_write(stdout, " 'capacity_factor': %.6g,", o->factor);
    }
    json_write(stdout, " 'capacity': %" PRIu64 ", 'window': %u, 'bucket': %" PRIu64 ",", key,
               window, key / window);
    if (o->capacities)
        json_write(stdout, " 'capacity_r0': %" PRIu64 ",", capacities_key_r0(&c, s));
    json_write(stdout, " 'dropped': %" PRId64 ", 'reps': %u, 'seed': %" PRIu64 ",\n",
               subjects[0].dropped, o->reps, o->seed);
    if (s->ranks_per_rack)
        json_write(stdout, " 'ranks_per_rack': %u,\n", s->ranks_per_rack);
    if (s->order || s->projection || s->combine)
        json_write(stdout, " 'order': '%s', 'projection': %u, 'combine': '%s',\n",
                   order_words[s->order], s->projection, combine_words[s->combine]);
    if (s->layers || o->load.between > 0)
        json_write(stdout, " 'layers': %u, 'between_gflop': %.6g,\n", layer_count(s),
                   o->load.between);
    if (o->routes != RUN_FRESH)
        json_write(stdout, " 'routes': '%s', 'changed': '%s',\n", run_routes_words[o->routes],
                   run_changed_words[o->changed]);
    if (o->sim)
        json_write(stdout, " 'modelled': true,\n");
    if (o->balance)
        json_write(stdout, " 'balance': %.12g,\n", subjects[0].balance);
    if (rig->data.load)
        json_write(stdout, " 'skew': %.6g,\n", load_skew(rig->data.load));
}

static void json_plan(const struct rig *rig, const struct measured_plan *x,
                      const struct run_options *o)
{
    json_write(stdout, "\n  {'plan': '%s', ", PLAN_TEXT(&x->runner.plan));
    for (int bit = 0; baseline_words[bit]; bit++)
        if (x->baseline == 1u << bit)
            json_write(stdout, "'baseline': '%s', ", baseline_words[bit]);
    json_spread("step", &x->spread[STEP_BOTH]);
    json_spread("compute", &x->spread[STEP_COMPUTE]);
    json_spread("comm", &x->spread[STEP_COMM]);
    if (rig->steps_are)
        json_spread("eager", &x->spread[STEP_EAGER]);
    if (rig->steps_are == STEPS_AHEAD)
        json_write(stdout, "'ahead': true, ");
    if (rig->steps_are == STEPS_GRAPHS)
        json_write(stdout, "'graph_nodes': %" PRIu64 ", 'graph_host_ns': %" PRId64 ", ",
                   x->runner.graphs[STEP_BOTH]->nodes, x->runner.replay_host_ns);
    json_write(stdout,
               "'hidden_share': %.4f, 'sent_bytes': %" PRId64 ", 'messages': %" PRId64
               ", 'memory_bytes': %" PRId64,
               hidden_share(x), x->runner.sent_bytes, x->runner.messages, x->runner.memory_bytes);
    if (o->routes == RUN_BOTH)
        json_write(stdout,
                   ", 'known': {'fresh_ns': %" PRId64 ", 'known_ns': %" PRId64
                   ", 'gate_ns': %" PRId64 ", 'gain': %.6f, 'gain_low': %.6f, 'gain_high': %.6f, "
                   "'ceiling': %.6f}",
                   x->known.fresh.median_ns, x->known.step.median_ns, x->known.gate.median_ns,
                   (double)x->known.gain_ppm.median_ns * 1e-6,
                   (double)x->known.gain_ppm.low_ns * 1e-6,
                   (double)x->known.gain_ppm.high_ns * 1e-6, ceiling_percent(x) / 100);
    if (o->phases) {
        const struct spread *share = &x->phases.exchanges_ppm, *of = x->phases.of;
        const struct issued *issued = &x->runner.issued;

        json_write(stdout, ", 'phases': {");
        for (int i = 0; i < PHASE_COUNT; i++)
            json_write(stdout,
                       "'%s': {'median_ns': %" PRId64 ", 'low_ns': %" PRId64 ", 'high_ns': %" PRId64
                       "}, ",
                       phase_words[i], of[i].median_ns, of[i].low_ns, of[i].high_ns);
        json_write(stdout,
                   "'share_of_exchanges': {'median': %.6f, 'low': %.6f, 'high': %.6f}}, "
                   "'kernels': %" PRId64 ", 'events': %" PRId64 ", 'exchanges': %" PRId64
                   ", 'host_ns': %" PRId64,
                   ms(share->median_ns), ms(share->low_ns), ms(share->high_ns), issued->kernels,
                   issued->events, issued->exchanges, issued->host_ns);
    }
    if (o->check)
        json_write(stdout, ", 'check': 'ok', 'checked': '%s', 'error_share': %.6f",
                   reference_is_affordable(&rig->data.shape) ? "everything" : "some tokens",
                   x->error);
    printf("}");
}

void run_print(const struct rig *rig, const struct measured_plan *subjects, size_t count,
               const struct run_options *o)
{
    if (!o->json) {
        print_text(rig, subjects, count, o);
        return;
    }
    json_heading(rig, subjects, o);
    json_write(stdout, " 'plans': [");
    for (size_t i = 0; i < count; i++) {
        fputs(i ? "," : "", stdout);
        json_plan(rig, &subjects[i], o);
    }
    printf("\n ]}\n");
}
