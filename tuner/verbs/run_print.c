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

static const char *subject_text(const struct measured_plan *subject,
                                char buffer[SUBJECT_TEXT_BYTES])
{
    const char *word = "";

    for (int i = 0; baseline_words[i]; i++)
        if (subject->baseline == 1u << i)
            word = baseline_words[i];
    snprintf(buffer, SUBJECT_TEXT_BYTES, "%s%s%s", PLAN_TEXT(&subject->runner.plan),
             *word ? " " : "", word);
    return buffer;
}

static double ms(int64_t ns)
{
    return (double)ns * 1e-6;
}

/* Returns which share of the shorter one of compute and communication is hidden when both overlap.
 */
static double hidden_share(const struct measured_plan *subject)
{
    double both = (double)subject->spread[STEP_BOTH].median_ns;
    double compute = (double)subject->spread[STEP_COMPUTE].median_ns;
    double comm = (double)subject->spread[STEP_COMM].median_ns;

    return subject->runner.messages ? (compute + comm - both) / fmin(compute, comm) : NAN;
}

/* Prints the smallest and the largest number over ranks, as "291 to 830 tokens". */
static void print_range(const uint32_t *of_ranks, uint32_t ranks, const char *what)
{
    uint32_t smallest = of_ranks[0], largest = of_ranks[0];

    for (uint32_t rank = 1; rank < ranks; rank++) {
        smallest = of_ranks[rank] < smallest ? of_ranks[rank] : smallest;
        largest = of_ranks[rank] > largest ? of_ranks[rank] : largest;
    }
    printf("%u", smallest);
    if (largest > smallest)
        printf(" to %u", largest);
    printf(" %s", what);
}

/* Prints the lines above the table: what all plans share. */
static void print_heading(const struct rig *rig, const struct measured_plan *subjects,
                          const struct run_options *o)
{
    const struct moe_shape *shape = &rig->data.shape;
    const struct capacities capacities = rig_capacities(rig);
    uint64_t key = capacities_key(&capacities, shape);
    uint32_t window = shape_window(shape);
    int fullest = capacities_fullest(&capacities, shape);
    char words[LOAD_WORDS_BYTES];

    printf("layer     E=%u k=%u T=%u D=%u H=%u %s %s %s on %u ranks", shape->experts, shape->top_k,
           shape->tokens, shape->model_dim, shape->hidden_dim, dtype_words[shape->dtype],
           pass_words[shape->pass], activation_words[shape->activation], shape->ranks);
    printf(shape->ranks_per_node ? " (%u per node" : " (nodes differ", shape->ranks_per_node);
    printf(shape->ranks_per_rack ? ", %u per rack)\n" : ")\n", shape->ranks_per_rack);
    if (o->capacities)
        printf("capacity  of each expert its own: %" PRIu64 " rows in all, %" PRIu64
               " of rank %d, the fullest; c_eq=%" PRIu64 " (with r=0 %" PRIu64 ")",
               capacities_sum(&capacities, shape->experts),
               capacities_of_rank(&capacities, shape, fullest), fullest, key,
               capacities_key_r0(&capacities, shape));
    else
        printf("capacity  c=%" PRIu64 " (f=%g)", key, o->factor);
    printf(", bucket %" PRIu64 " of width %u; %" PRId64 " of %" PRIu64 " choices dropped\n",
           key / window, window, subjects[0].dropped,
           (uint64_t)shape->tokens * shape->ranks * shape->top_k * layer_count(shape));
    if (shape->layers || o->load.between > 0)
        printf("layers    %u in a step, %g GFLOP of other products before each\n",
               layer_count(shape), o->load.between);
    if (o->routes == RUN_KNOWN)
        printf("routes    known: those of a step before\n");
    if (o->sim)
        printf("model     %s: MODELLED, not measured\n", o->sim);
    if (shape->layout || shape->shares) { /* ranks do not share the layer in the usual way */
        printf("ranks     layout=%s shares=%s: ", layout_words[shape->layout],
               shares_words[shape->shares]);
        print_range(rig->parts.tokens, shape->ranks, "tokens");
        if (shape->layout == MOE_LAYOUT_HIDDEN) {
            printf(" and ");
            print_range(rig->parts.hidden, shape->ranks, "hidden units");
        }
        printf(" each\n");
    }
    if (shape->groups || shape->router || shape->order || shape->combine) {
        printf("router    %s", router_words[shape->router]);
        if (shape->groups)
            printf(", %u groups of %u experts, of which a token takes %u", shape->groups,
                   shape->experts / shape->groups, shape->group_limit);
        if (shape->projection)
            printf(", in %u dimensions", shape->projection);
        if (shape->order == MOE_ORDER_PRIORITY)
            printf(", slots by priority");
        if (shape->combine == MOE_COMBINE_CHOICES)
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

static double ceiling_percent(const struct measured_plan *subject)
{
    return subject->known.fresh.median_ns ? 100 * (double)subject->known.gate.median_ns /
                                                (double)subject->known.fresh.median_ns
                                          : 0;
}

static void print_known_routes(const struct measured_plan *subjects, size_t count, int plan_width)
{
    printf(
        "\nknown routes: slots from choices that are there, the gate behind the first send; gain "
        "%% of\nthe fresh step of the same round; no more can be gained than the gate takes "
        "alone\n\n%-*s %9s %9s %7s %18s %9s %8s\n",
        plan_width, "plan", "fresh", "known", "gain %", "95 % interval", "gate", "gate %");
    for (size_t i = 0; i < count; i++) {
        const struct measured_plan *subject = &subjects[i];

        printf("%-*s %9.3f %9.3f %7.2f %7.2f to %7.2f %9.3f %8.2f\n", plan_width,
               PLAN_TEXT(&subject->runner.plan), ms(subject->known.fresh.median_ns),
               ms(subject->known.step.median_ns), (double)subject->known.gain_ppm.median_ns * 1e-4,
               (double)subject->known.gain_ppm.low_ns * 1e-4,
               (double)subject->known.gain_ppm.high_ns * 1e-4, ms(subject->known.gate.median_ns),
               ceiling_percent(subject));
    }
}

static void print_phases(const struct measured_plan *subjects, size_t count, int plan_width)
{
    printf("\nphases one after the other, each while the other stream is muted\n\n"
           "%-*s %-23s %9s %19s %6s\n",
           plan_width, "plan", "phase", "ms", "95 % interval", "share");
    for (size_t i = 0; i < count; i++) {
        const struct phase_spreads *phases = &subjects[i].phases;
        const struct spread *share = &phases->exchanges_ppm, *spreads = phases->of;

        for (int phase = 0; phase < PHASE_COUNT; phase++)
            if (spreads[phase].high_ns) /* the plan has such work */
                printf("%-*s %-23s %9.3f %9.3f-%9.3f %6.3f\n", plan_width,
                       phase ? "" : SUBJECT_TEXT(&subjects[i]), phase_titles[phase],
                       ms(spreads[phase].median_ns), ms(spreads[phase].low_ns),
                       ms(spreads[phase].high_ns),
                       (double)spreads[phase].median_ns / (double)spreads[PHASE_TOTAL].median_ns);
        printf("%-*s %-23s %9s %9.3f-%9.3f %6.3f\n", plan_width, "", "share of exchanges", "",
               ms(share->low_ns), ms(share->high_ns), ms(share->median_ns));
    }
    printf("\nissued by the host in one step, before it waits\n\n%-*s %9s %9s %9s %9s\n",
           plan_width, "plan", "kernels", "events", "exchanges", "host");
    for (size_t i = 0; i < count; i++) {
        const struct issued *issued = &subjects[i].runner.issued;

        printf("%-*s %9" PRId64 " %9" PRId64 " %9" PRId64 " %9.3f\n", plan_width,
               SUBJECT_TEXT(&subjects[i]), issued->kernels, issued->events, issued->exchanges,
               ms(issued->host_ns));
    }
}

/* Compares with eager steps.  The time of the host is what it needs to queue a step, or to launch
 * its graph. */
static void print_against_eager(const struct measured_plan *subjects, size_t count, int plan_width)
{
    bool graphs = subjects[0].runner.rig->steps_are == STEPS_GRAPHS;

    printf("\nsteps above %s; against the same launch by launch\n\n%-*s %9s %9s %9s %9s\n",
           graphs ? "are CUDA graphs" : "are queued whole before the GPU begins", plan_width,
           "plan", graphs ? "nodes" : "kernels", "host", "step", "eager");
    for (size_t i = 0; i < count; i++) {
        const struct runner *runner = &subjects[i].runner;
        const struct spread *spreads = subjects[i].spread;

        printf("%-*s %9" PRIu64 " %9.3f %9.3f %9.3f\n", plan_width, SUBJECT_TEXT(&subjects[i]),
               graphs ? runner->graphs[STEP_BOTH]->nodes : (uint64_t)runner->issued.kernels,
               ms(graphs ? runner->replay_host_ns : runner->issued.host_ns),
               ms(spreads[STEP_BOTH].median_ns), ms(spreads[STEP_EAGER].median_ns));
    }
}

static struct step_halves halves_of(const struct measured_plan *subject)
{
    return (struct step_halves){ subject->spread[STEP_BOTH],
                                 subject->spread[STEP_COMPUTE].median_ns,
                                 subject->spread[STEP_COMM].median_ns };
}

/* Prints the plans whose chunks gain more than overlap can explain. */
static void print_beyond_overlap(const struct measured_plan *subjects, size_t count)
{
    for (size_t i = 0; i < count * count; i++) { /* all pairs */
        const struct measured_plan *whole = &subjects[i / count], *chunked = &subjects[i % count];
        struct moe_plan without_chunks = chunked->runner.plan;
        struct step_halves whole_halves, chunked_halves;
        char text[BEYOND_TEXT_BYTES];

        without_chunks.d = 1;
        if (chunked->runner.plan.d == 1 || whole->baseline || chunked->baseline ||
            !plan_equal(&without_chunks, &whole->runner.plan))
            continue;
        whole_halves = halves_of(whole);
        chunked_halves = halves_of(chunked);
        overlap_beyond(&whole_halves, &chunked_halves, text);
        if (*text)
            printf("%s %s\n", SUBJECT_TEXT(chunked), text);
    }
}

static void print_text(const struct rig *rig, const struct measured_plan *subjects, size_t count,
                       const struct run_options *o)
{
    bool checks_all = reference_is_affordable(&rig->data.shape);
    int plan_width = 18;

    for (size_t i = 0; i < count; i++) {
        int text_width = (int)strlen(SUBJECT_TEXT(&subjects[i]));

        plan_width = text_width > plan_width ? text_width : plan_width;
    }
    print_heading(rig, subjects, o);
    printf("%-*s %9s %19s %9s %9s %7s %9s %9s %s\n", plan_width, "plan", "step", "95 % interval",
           "compute", "comm", "hidden", "sent MiB", "mem MiB", o->check ? "check" : "");
    for (size_t i = 0; i < count; i++) {
        const struct measured_plan *subject = &subjects[i];
        const struct spread *step = &subject->spread[STEP_BOTH];
        char hidden[16] = "-";

        if (!isnan(hidden_share(subject)))
            text_put(hidden, sizeof(hidden), "%.2f", hidden_share(subject));
        printf("%-*s %9.3f %9.3f-%9.3f %9.3f %9.3f %7s %9.3f %9.3f %s\n", plan_width,
               SUBJECT_TEXT(subject), ms(step->median_ns), ms(step->low_ns), ms(step->high_ns),
               ms(subject->spread[STEP_COMPUTE].median_ns),
               ms(subject->spread[STEP_COMM].median_ns), hidden,
               (double)subject->runner.sent_bytes * 0x1p-20,
               (double)subject->runner.memory_bytes * 0x1p-20,
               !o->check    ? ""
               : checks_all ? "ok"
                            : "some tokens ok");
    }
    print_beyond_overlap(subjects, count);
    if (o->routes == RUN_BOTH)
        print_known_routes(subjects, count, plan_width);
    if (o->phases)
        print_phases(subjects, count, plan_width);
    if (rig->steps_are)
        print_against_eager(subjects, count, plan_width);
}

/* ---- JSON */

static void json_spread(const char *name, const struct spread *spread)
{
    json_write(stdout,
               "'%s': {'median_ns': %" PRId64 ", 'min_ns': %" PRId64 ", 'p95_ns': %" PRId64
               ", 'low_ns': %" PRId64 ", 'high_ns': %" PRId64 "}, ",
               name, spread->median_ns, spread->min_ns, spread->p95_ns, spread->low_ns,
               spread->high_ns);
}

static void json_list(const char *name, const uint32_t *of_ranks, uint32_t ranks)
{
    json_write(stdout, " '%s': [", name);
    for (uint32_t rank = 0; rank < ranks; rank++)
        printf("%s%u", rank ? ", " : "", of_ranks[rank]);
    printf("],\n");
}

/* Prints the members that all plans share.  "capacity" is the key by which tables answer. */
static void json_heading(const struct rig *rig, const struct measured_plan *subjects,
                         const struct run_options *o)
{
    const struct moe_shape *shape = &rig->data.shape;
    const struct capacities capacities = rig_capacities(rig);
    uint64_t key = capacities_key(&capacities, shape);
    uint32_t window = shape_window(shape);
    int fullest = capacities_fullest(&capacities, shape);

    json_write(stdout,
               "{'shape': {'experts': %u, 'top_k': %u, 'tokens': %u, 'model_dim': %u, "
               "'hidden_dim': %u, 'ranks': %u, 'ranks_per_node': %u, 'dtype': '%s', 'pass': '%s', "
               "'activation': '%s', 'layout': '%s', 'shares': '%s', 'groups': %u, "
               "'group_limit': %u, 'router': '%s'},\n",
               shape->experts, shape->top_k, shape->tokens, shape->model_dim, shape->hidden_dim,
               shape->ranks, shape->ranks_per_node, dtype_words[shape->dtype],
               pass_words[shape->pass], activation_words[shape->activation],
               layout_words[shape->layout], shares_words[shape->shares], shape->groups,
               shape->group_limit, router_words[shape->router]);
    json_list("tokens", rig->parts.tokens, shape->ranks);
    if (shape->layout == MOE_LAYOUT_HIDDEN)
        json_list("hidden_units", rig->parts.hidden, shape->ranks);
    if (o->capacities) {
        json_write(stdout, " 'capacities': [");
        for (uint32_t expert = 0; expert < shape->experts; expert++)
            printf("%s%" PRIu64, expert ? ", " : "", capacity_of(&capacities, expert));
        json_write(stdout, "], 'rows': %" PRIu64 ", 'rows_of_fullest': %" PRIu64 ", 'fullest': %d,",
                   capacities_sum(&capacities, shape->experts),
                   capacities_of_rank(&capacities, shape, fullest), fullest);
    } else {
        json_write(stdout, " 'capacity_factor': %.6g,", o->factor);
    }
    json_write(stdout, " 'capacity': %" PRIu64 ", 'window': %u, 'bucket': %" PRIu64 ",", key,
               window, key / window);
    if (o->capacities)
        json_write(stdout, " 'capacity_r0': %" PRIu64 ",", capacities_key_r0(&capacities, shape));
    json_write(stdout, " 'dropped': %" PRId64 ", 'reps': %u, 'seed': %" PRIu64 ",\n",
               subjects[0].dropped, o->reps, o->seed);
    if (shape->ranks_per_rack)
        json_write(stdout, " 'ranks_per_rack': %u,\n", shape->ranks_per_rack);
    if (shape->order || shape->projection || shape->combine)
        json_write(stdout, " 'order': '%s', 'projection': %u, 'combine': '%s',\n",
                   order_words[shape->order], shape->projection, combine_words[shape->combine]);
    if (shape->layers || o->load.between > 0)
        json_write(stdout, " 'layers': %u, 'between_gflop': %.6g,\n", layer_count(shape),
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

static void json_plan(const struct rig *rig, const struct measured_plan *subject,
                      const struct run_options *o)
{
    json_write(stdout, "\n  {'plan': '%s', ", PLAN_TEXT(&subject->runner.plan));
    for (int bit = 0; baseline_words[bit]; bit++)
        if (subject->baseline == 1u << bit)
            json_write(stdout, "'baseline': '%s', ", baseline_words[bit]);
    json_spread("step", &subject->spread[STEP_BOTH]);
    json_spread("compute", &subject->spread[STEP_COMPUTE]);
    json_spread("comm", &subject->spread[STEP_COMM]);
    if (rig->steps_are)
        json_spread("eager", &subject->spread[STEP_EAGER]);
    if (rig->steps_are == STEPS_AHEAD)
        json_write(stdout, "'ahead': true, ");
    if (rig->steps_are == STEPS_GRAPHS)
        json_write(stdout, "'graph_nodes': %" PRIu64 ", 'graph_host_ns': %" PRId64 ", ",
                   subject->runner.graphs[STEP_BOTH]->nodes, subject->runner.replay_host_ns);
    json_write(stdout,
               "'hidden_share': %.4f, 'sent_bytes': %" PRId64 ", 'messages': %" PRId64
               ", 'memory_bytes': %" PRId64,
               hidden_share(subject), subject->runner.sent_bytes, subject->runner.messages,
               subject->runner.memory_bytes);
    if (o->routes == RUN_BOTH)
        json_write(stdout,
                   ", 'known': {'fresh_ns': %" PRId64 ", 'known_ns': %" PRId64
                   ", 'gate_ns': %" PRId64 ", 'gain': %.6f, 'gain_low': %.6f, 'gain_high': %.6f, "
                   "'ceiling': %.6f}",
                   subject->known.fresh.median_ns, subject->known.step.median_ns,
                   subject->known.gate.median_ns, (double)subject->known.gain_ppm.median_ns * 1e-6,
                   (double)subject->known.gain_ppm.low_ns * 1e-6,
                   (double)subject->known.gain_ppm.high_ns * 1e-6, ceiling_percent(subject) / 100);
    if (o->phases) {
        const struct spread *share = &subject->phases.exchanges_ppm, *spreads = subject->phases.of;
        const struct issued *issued = &subject->runner.issued;

        json_write(stdout, ", 'phases': {");
        for (int i = 0; i < PHASE_COUNT; i++)
            json_write(stdout,
                       "'%s': {'median_ns': %" PRId64 ", 'low_ns': %" PRId64 ", 'high_ns': %" PRId64
                       "}, ",
                       phase_words[i], spreads[i].median_ns, spreads[i].low_ns, spreads[i].high_ns);
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
                   subject->error);
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
