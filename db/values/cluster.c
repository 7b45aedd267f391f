/* The list of all fields of a cluster, and the functions that walk it: they format, parse, hash and
 * compare clusters. */
#include "cluster.h"

#include "input_file.h"
#include "sha256.h"
#include "status.h"
#include "text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest line, and the longest text with comments around its lines. */
enum { LINE_BYTES = 1200, TEXT_LIMIT_BYTES = 4 * CLUSTER_TEXT_BYTES, RANKS_MOST = 1 << 20 };

#define AT(field) offsetof(struct cluster, field), sizeof(((struct cluster *)0)->field)
#define COUNT(name, class, most)                                                                   \
    {                                                                                              \
#name, class, FIELD_COUNT_OF, AT(name), 0, most                                            \
    }
#define WORD(name, class)                                                                          \
    {                                                                                              \
#name, class, FIELD_WORD, AT(name), 0, 0                                                   \
    }
#define NUMBER(name, least, most)                                                                  \
    {                                                                                              \
#name, CLUSTER_MODEL, FIELD_NUMBER, AT(name), least, most                                  \
    }

const struct cluster_field cluster_fields[] = {
    COUNT(semantics, CLUSTER_HARD, 1000),
    WORD(backend, CLUSTER_HARD),
    WORD(device, CLUSTER_HARD),
    COUNT(device_units, CLUSTER_HARD, 1 << 20),
    COUNT(device_gib, CLUSTER_HARD, 1 << 24),
    COUNT(nodes, CLUSTER_HARD, 1 << 20),
    COUNT(ranks, CLUSTER_HARD, RANKS_MOST),
    COUNT(ranks_per_node, CLUSTER_HARD, 1 << 16),
    WORD(link_inside, CLUSTER_HARD),
    WORD(link_between, CLUSTER_HARD),
    WORD(comm_library, CLUSTER_HARD),
    WORD(compute_library, CLUSTER_HARD),
    WORD(system, CLUSTER_SOFT),
    WORD(versions, CLUSTER_SOFT),
    WORD(environment, CLUSTER_SOFT),
    WORD(name, CLUSTER_INFO),
    WORD(hosts, CLUSTER_INFO),
    NUMBER(latency_inside_us, 0, 1e6),
    NUMBER(latency_between_us, 0, 1e6),
    NUMBER(message_inside_us, 0, 1e6),
    NUMBER(message_between_us, 0, 1e6),
    NUMBER(bandwidth_inside_gbs, 1e-6, 1e6),
    NUMBER(bandwidth_between_gbs, 1e-6, 1e6),
    NUMBER(half_inside_kib, 0, 1e9),
    NUMBER(half_between_kib, 0, 1e9),
    NUMBER(gemm_gflops, 1e-3, 1e9),
    NUMBER(gemm_half_rows, 0, 1e9),
    { "gemm_dtype", CLUSTER_MODEL, FIELD_WORD, AT(gemm_dtype), 0, 0, dtype_words },
    NUMBER(memory_gbs, 1e-3, 1e9),
    NUMBER(launch_us, 0, 1e6),
    NUMBER(overlap_slowdown, 0, 100),
    NUMBER(noise_percent, 0, 100),
    NUMBER(outlier_percent, 0, 100),
    NUMBER(drift_percent, 0, 100),
    NUMBER(memory_gib, 1e-6, 1e9),
    WORD(rank_speeds_percent, CLUSTER_MODEL),
    NUMBER(cta_gbs, 1e-6, 1e6),
    NUMBER(library_ctas, 1, 1024),
    NUMBER(chunk_us, 0, 1e6),
    NUMBER(message_peer_us, 0, 1e6),
    NUMBER(peer_between_gbs, 1e-6, 1e6),
    NUMBER(crowd_between_peers, 1, 1e9),
    NUMBER(overlap_slowdown_2dh, 0, 100),
    NUMBER(ring_step_us, 0, 1e6),
    NUMBER(ring_step_between_us, 0, 1e6),
    NUMBER(ll_rate_percent, 1e-3, 100),
    NUMBER(ll_latency_percent, 0, 1e3),
    NUMBER(ll128_rate_percent, 1e-3, 100),
    NUMBER(ll128_latency_percent, 0, 1e3),
    NUMBER(latency_racks_us, 0, 1e6),
    NUMBER(message_racks_us, 0, 1e6),
    NUMBER(bandwidth_racks_gbs, 1e-6, 1e6),
    COUNT(ranks_per_rack, CLUSTER_HARD, RANKS_MOST),
    NUMBER(launch_noise_percent, 0, 100),
};
const size_t cluster_field_count = sizeof(cluster_fields) / sizeof(cluster_fields[0]);

const char *const cluster_class_words[] = { "hard", "soft", "info", "model", NULL };

static void *value_pointer(struct cluster *cluster, const struct cluster_field *field)
{
    return (char *)cluster + field->offset;
}

static const void *value_of(const struct cluster *cluster, const struct cluster_field *field)
{
    return (const char *)cluster + field->offset;
}

struct cluster cluster_unknown(void)
{
    struct cluster c;

    memset(&c, 0, sizeof(c));
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];

        if (f->kind == FIELD_WORD)
            snprintf(value_pointer(&c, f), f->bytes, "unknown");
        else if (f->kind == FIELD_NUMBER)
            *(double *)value_pointer(&c, f) = NAN;
    }
    return c;
}

static bool is_known(const struct cluster *cluster, const struct cluster_field *field)
{
    const void *value = value_of(cluster, field);

    switch (field->kind) {
    case FIELD_WORD: return *(const char *)value && strcmp(value, "unknown") != 0;
    case FIELD_NUMBER: return isfinite(*(const double *)value);
    case FIELD_COUNT_OF: break;
    }
    return *(const uint32_t *)value != 0;
}

/* Ranks per node 0 are written, too: they say that nodes differ. */
static bool is_in_text(const struct cluster *cluster, const struct cluster_field *field)
{
    return is_known(cluster, field) || field->offset == offsetof(struct cluster, ranks_per_node);
}

/* Replaces the decimal point `from` by `to`, because the C library reads and writes the locale's
 * point, which may have several bytes. */
static void swap_point(const char *text, const char *from, const char *to, char *out, size_t size)
{
    const char *point = strstr(text, from);

    if (point)
        text_put(out, size, "%.*s%s%s", (int)(point - text), text, to, point + strlen(from));
    else
        text_put(out, size, "%s", text);
}

/* Writes the shortest text that reads back as the same number, with a point in every locale. */
static void format_number(double value, char *text, size_t size)
{
    char local[64];

    value += 0.0; /* turns -0 into 0 */
    if (value == floor(value) && fabs(value) < 1e15) {
        snprintf(text, size, "%.0f", value); /* 1000 rather than 1e+03 */
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(local, sizeof(local), "%.*g", digits, value);
        if (strtod(local, NULL) == value)
            break;
    }
    swap_point(local, localeconv()->decimal_point, ".", text, size);
}

/* Writes a word, and replaces what one line cannot hold. So the text reads back as the same
 * value. */
static void format_word(const char *word, char *text, size_t size)
{
    size_t length = 0;

    for (word += strspn(word, " \t"); *word && length + 1 < size; word++)
        text[length++] = (unsigned char)*word < 0x20 || *word == 0x7f || *word == '#' ? '?' : *word;
    while (length && text[length - 1] == ' ')
        length--;
    text[length] = 0;
    if (!length)
        text_put(text, size, "unknown");
}

const char *cluster_value(const struct cluster *cluster, const struct cluster_field *field,
                          char *text, size_t size)
{
    const void *value = value_of(cluster, field);

    if (!is_in_text(cluster, field))
        snprintf(text, size, "unknown");
    else if (field->kind == FIELD_WORD)
        format_word(value, text, size);
    else if (field->kind == FIELD_NUMBER)
        format_number(*(const double *)value, text, size);
    else
        snprintf(text, size, "%u", *(const uint32_t *)value);
    return text;
}

int cluster_format(const struct cluster *cluster, char *text, size_t size)
{
    size_t used = 0;

    if (size)
        text[0] = 0;
    for (size_t i = 0; i < cluster_field_count; i++) {
        size_t room = used < size ? size - used : 0;

        if (is_in_text(cluster, &cluster_fields[i]))
            used += (size_t)snprintf(room ? text + used : NULL, room, "%s = %s\n",
                                     cluster_fields[i].name,
                                     CLUSTER_VALUE(cluster, &cluster_fields[i]));
    }
    return (int)used;
}

/* Reads a number of digits, point, sign and exponent, the same in every locale. */
static bool parse_number(const char *text, double *out)
{
    char local[64], *end;

    if (strlen(text) > 40 || strspn(text, "0123456789.eE+-") != strlen(text))
        return false;
    swap_point(text, ".", localeconv()->decimal_point, local, sizeof(local));
    *out = strtod(local, &end) + 0.0; /* turns -0 into 0 */
    return end != local && !*end && isfinite(*out);
}

static const char *set_value(const struct cluster_field *field, const char *text,
                             struct cluster *cluster)
{
    double number;

    if (field->kind == FIELD_WORD) {
        if (!*text || strlen(text) >= field->bytes)
            return "is empty or too long";
        for (const char *c = text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                return "holds a control character";
        if (field->words && strcmp(text, "unknown") != 0 && word_find(field->words, text) < 0)
            return "is none of f32, f16, bf16";
        text_put(value_pointer(cluster, field), field->bytes, "%s", text);
        return NULL;
    }
    if (!strcmp(text, "unknown"))
        return NULL;
    if (!parse_number(text, &number))
        return "is not a number";
    if (number < field->least || number > field->most)
        return "is out of range";
    if (field->kind == FIELD_NUMBER) {
        *(double *)value_pointer(cluster, field) = number;
        return NULL;
    }
    if (number != floor(number))
        return "is not a whole number";
    *(uint32_t *)value_pointer(cluster, field) = (uint32_t)number;
    return NULL;
}

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t");
    end = text + strlen(text);
    while (end > text && strchr(" \t\r", end[-1]))
        *--end = 0;
    return text;
}

/* Checks that ranks, nodes and racks fit together. `line` is the line of the ranks, for the
 * message. */
static int check_counts(const struct cluster *c, const char *origin, int line)
{
    if (c->ranks_per_node && c->nodes && (uint64_t)c->nodes * c->ranks_per_node != c->ranks)
        return fail(ERR_FORMAT, "%s:%d: %u nodes with %u ranks each do not make %u ranks", origin,
                    line, c->nodes, c->ranks_per_node, c->ranks);
    if (c->ranks_per_node && c->ranks % c->ranks_per_node)
        return fail(ERR_FORMAT, "%s:%d: %u ranks are not nodes with %u ranks each", origin, line,
                    c->ranks, c->ranks_per_node);
    if (c->ranks && c->ranks_per_node && c->ranks_per_rack &&
        !rank_layout_has_racks(cluster_layout(c)))
        return fail(
            ERR_FORMAT,
            "%s:%d: racks of %u ranks: there must be several racks, each of several whole nodes",
            origin, line, c->ranks_per_rack);
    if (c->ranks && c->nodes > c->ranks)
        return fail(ERR_FORMAT, "%s:%d: %u nodes cannot share %u ranks", origin, line, c->nodes,
                    c->ranks);
    return OK;
}

int cluster_parse(const char *text, const char *origin, struct cluster *out)
{
    struct cluster c = cluster_unknown();
    /* The line of each field; 0: not seen yet. */
    int line_of[sizeof(cluster_fields) / sizeof(cluster_fields[0])] = { 0 };
    int line_number = 0, ranks_line = 0;

    if (strnlen(text, TEXT_LIMIT_BYTES) == TEXT_LIMIT_BYTES)
        return fail(ERR_FORMAT, "%s: longer than the %d bytes a cluster's description may have",
                    origin, TEXT_LIMIT_BYTES);
    while (*text) {
        size_t length = strcspn(text, "\n");
        char line[LINE_BYTES], *equals, *name, *value;
        const char *fault;
        size_t field = 0;

        line_number++;
        if (length >= sizeof(line))
            return fail(ERR_FORMAT, "%s:%d: the line is too long", origin, line_number);
        memcpy(line, text, length);
        line[length] = 0;
        text += length + (text[length] == '\n');
        line[strcspn(line, "#")] = 0;
        name = trim(line);
        if (!*name)
            continue;
        equals = strchr(name, '=');
        if (!equals)
            return fail(ERR_FORMAT, "%s:%d: \"%s\" is no line \"name = value\"", origin,
                        line_number, TEXT_SHORT(name, 60));
        *equals = 0;
        value = trim(equals + 1);
        name = trim(name);
        while (field < cluster_field_count && strcmp(cluster_fields[field].name, name) != 0)
            field++;
        if (field == cluster_field_count)
            return fail(ERR_FORMAT, "%s:%d: no field is called \"%s\"", origin, line_number,
                        TEXT_SHORT(name, 60));
        if (line_of[field])
            return fail(ERR_FORMAT, "%s:%d: %s is given twice, first on line %d", origin,
                        line_number, name, line_of[field]);
        line_of[field] = line_number;
        if (cluster_fields[field].offset == offsetof(struct cluster, ranks))
            ranks_line = line_number;
        fault = set_value(&cluster_fields[field], value, &c);
        if (fault)
            return fail(ERR_FORMAT, "%s:%d: %s: \"%s\" %s", origin, line_number, name,
                        TEXT_SHORT(value, 60), fault);
    }
    TRY(check_counts(&c, origin, ranks_line ? ranks_line : line_number));
    *out = c;
    return OK;
}

int cluster_check_words(const struct cluster *cluster, const char *origin)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];
        const char *word = value_of(cluster, f);

        if (f->kind == FIELD_WORD && !utf8_is_plain(word, strlen(word)))
            return fail(ERR_FORMAT, "%s: %s: \"%s\" holds a control character, or is no UTF-8",
                        origin, f->name, TEXT_SHORT(word, 60));
    }
    return OK;
}

int cluster_read(const char *path, struct cluster *out)
{
    struct cluster c;
    char *text;
    size_t length;
    int rc;

    TRY(input_read(path, TEXT_LIMIT_BYTES, &text, &length));
    rc = strlen(text) == length
             ? cluster_parse(text, path, &c)
             : fail(ERR_FORMAT, "%s: not text: byte %zu is 0", path, strlen(text));
    free(text);
    if (!rc)
        rc = cluster_check_words(&c, path);
    if (!rc)
        *out = c;
    return rc;
}

struct rank_layout cluster_layout(const struct cluster *c)
{
    return (struct rank_layout){ c->ranks, c->ranks_per_node, c->ranks_per_rack };
}

/* Launch noise becomes unknown instead of 0, so that a description from before this field keeps its
 * hash. */
void cluster_remove_noise(struct cluster *c)
{
    c->noise_percent = c->outlier_percent = c->drift_percent = 0;
    c->launch_noise_percent = NAN;
}

void cluster_take_model(struct cluster *to, const struct cluster *from)
{
    for (size_t i = 0; i < cluster_field_count; i++)
        if (cluster_fields[i].class == CLUSTER_MODEL)
            memcpy(value_pointer(to, &cluster_fields[i]), value_of(from, &cluster_fields[i]),
                   cluster_fields[i].bytes);
}

/* Returns whether a later version added the field. Where it is unknown, the cluster has the same
 * hash as before. */
static bool is_later_field(const struct cluster_field *field)
{
    return field->offset >= offsetof(struct cluster, cta_gbs);
}

/* Pairs of numbers that mean something only together. */
static const struct pair {
    size_t one, other;
} pairs[] = {
#define PAIR(a, b)                                                                                 \
    {                                                                                              \
        offsetof(struct cluster, a), offsetof(struct cluster, b)                                   \
    }
    PAIR(cta_gbs, library_ctas),
    PAIR(ll_rate_percent, ll_latency_percent),
    PAIR(ll128_rate_percent, ll128_latency_percent),
    PAIR(latency_racks_us, message_racks_us),
    PAIR(message_racks_us, bandwidth_racks_gbs),
    PAIR(bandwidth_racks_gbs, latency_racks_us),
#undef PAIR
};

static double number_at(const struct cluster *cluster, size_t offset)
{
    return *(const double *)(const void *)((const char *)cluster + offset);
}

static bool partner_is_known(const struct cluster *cluster, size_t offset)
{
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if ((pairs[i].one == offset && isfinite(number_at(cluster, pairs[i].other))) ||
            (pairs[i].other == offset && isfinite(number_at(cluster, pairs[i].one))))
            return true;
    return false;
}

/* A number about messages may be missing where no messages are sent. */
bool cluster_lacks(const struct cluster *cluster, const struct cluster_field *field)
{
    if (field->class != CLUSTER_MODEL || field->kind != FIELD_NUMBER || is_known(cluster, field))
        return false;
    if (is_later_field(field))
        return partner_is_known(cluster, field->offset);
    if (field->offset == offsetof(struct cluster, overlap_slowdown))
        return cluster->ranks > 1;
    if (strstr(field->name, "_inside_"))
        return cluster->ranks > cluster->nodes;
    return !strstr(field->name, "_between_") || cluster->nodes > 1;
}

int cluster_check_model(const struct cluster *cluster, const char *origin)
{
    if (strcmp(cluster->backend, "sim") != 0)
        return fail(ERR_FORMAT, "%s: a modelled cluster needs the line \"backend = sim\"", origin);
    if (!cluster->ranks || !cluster->nodes)
        return fail(ERR_FORMAT, "%s: ranks or nodes are missing", origin);
    for (size_t i = 0; i < cluster_field_count; i++)
        if (cluster_lacks(cluster, &cluster_fields[i]))
            return fail(ERR_FORMAT, "%s: %s is missing", origin, cluster_fields[i].name);
    return OK;
}

int cluster_resize(struct cluster *c, uint32_t ranks)
{
    if (!c->ranks_per_node)
        return fail(ERR_ARGUMENT,
                    "--ranks: the nodes of this cluster differ, so only its own number of ranks, "
                    "%u, is possible",
                    c->ranks);
    if (!ranks || ranks > RANKS_MOST || (ranks > c->ranks_per_node && ranks % c->ranks_per_node))
        return fail(ERR_ARGUMENT,
                    "--ranks %u: it must be from 1 to %u, one node of this cluster, or a multiple "
                    "of %u up to %d",
                    ranks, c->ranks_per_node, c->ranks_per_node, RANKS_MOST);
    if (strcmp(c->rank_speeds_percent, "unknown") != 0 && ranks != c->ranks)
        return fail(ERR_ARGUMENT, "--ranks %u: rank_speeds_percent of this cluster is for %u ranks",
                    ranks, c->ranks);
    if (c->ranks_per_rack && ranks > c->ranks_per_rack && ranks % c->ranks_per_rack)
        return fail(
            ERR_ARGUMENT,
            "--ranks %u: it must be at most %u, one rack of this cluster, or a multiple of that",
            ranks, c->ranks_per_rack);
    c->ranks = ranks;
    if (ranks < c->ranks_per_node)
        c->ranks_per_node = ranks;
    c->nodes = ranks / c->ranks_per_node;
    if (!rank_layout_has_racks(cluster_layout(c)))
        c->ranks_per_rack = 0; /* only one rack remains */
    return OK;
}

int cluster_read_model(const char *path, uint32_t ranks, struct cluster *out)
{
    TRY(cluster_read(path, out));
    if (ranks)
        TRY(cluster_resize(out, ranks));
    /* A real machine as `probe` prints it becomes a model, and its rows are marked as modelled. */
    snprintf(out->backend, sizeof(out->backend), "sim");
    return cluster_check_model(out, path);
}

bool cluster_multiplies(const struct cluster *cluster, uint32_t dtype)
{
    return !strcmp(cluster->gemm_dtype, "unknown") ||
           !strcmp(cluster->gemm_dtype, dtype_words[dtype]);
}

int cluster_check_multiplies(const struct cluster *cluster, uint32_t dtype)
{
    if (cluster_multiplies(cluster, dtype))
        return OK;
    return fail(ERR_ARGUMENT,
                "the cluster's gemm_gflops is for %s (gemm_dtype), and the layer computes in %s: "
                "give --dtype %s, or a description from moetune probe --dtype %s",
                cluster->gemm_dtype, dtype_words[dtype], cluster->gemm_dtype, dtype_words[dtype]);
}

void cluster_hash(const struct cluster *cluster, uint8_t hash[HASH_BYTES])
{
    struct sha256 sha;

    sha256_init(&sha);
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];
        bool is_hashed =
            f->class == CLUSTER_HARD || (f->class == CLUSTER_MODEL && f->kind == FIELD_NUMBER &&
                                         !strcmp(cluster->backend, "sim"));
        char line[LINE_BYTES];

        if (!is_hashed || (is_later_field(f) && !is_known(cluster, f)))
            continue;
        snprintf(line, sizeof(line), "%s = %s\n", f->name, CLUSTER_VALUE(cluster, f));
        sha256_add(&sha, line, strlen(line));
    }
    sha256_end(&sha, hash);
}

void cluster_hex(const struct cluster *cluster, char hex[2 * HASH_BYTES + 1])
{
    uint8_t hash[HASH_BYTES];

    cluster_hash(cluster, hash);
    sha256_hex(hash, hex);
}

bool cluster_hex_agrees(const char *hex, const char *beginning)
{
    return !beginning || !strncmp(hex, beginning, strlen(beginning));
}

static bool has_same_value(const struct cluster *a, const struct cluster *b,
                           const struct cluster_field *field)
{
    return !strcmp(CLUSTER_VALUE(a, field), CLUSTER_VALUE(b, field));
}

enum { STEPS_BYTES = 16 };
static const char steps_words[][STEPS_BYTES] = {
    [STEPS_GRAPHS] = "steps=graphs", [STEPS_AHEAD] = "steps=ahead"
};
enum { STEPS_WORDS = sizeof(steps_words) / sizeof(steps_words[0]) };

void cluster_add_steps(struct cluster *cluster, uint32_t steps_are)
{
    const char *before = strcmp(cluster->environment, "none") ? cluster->environment : "";
    /* If there is too little room, this cuts the end of the variables and not the word. */
    char kept[sizeof(cluster->environment) - STEPS_BYTES];

    if (steps_are == STEPS_EAGER)
        return;
    text_put(kept, sizeof(kept), "%s", before);
    text_put(cluster->environment, sizeof(cluster->environment), "%s%s%s", kept, *kept ? " " : "",
             steps_words[steps_are]);
}

uint32_t cluster_steps_are(const struct cluster *cluster)
{
    for (uint32_t i = STEPS_EAGER + 1; i < STEPS_WORDS; i++)
        if (strstr(cluster->environment, steps_words[i]))
            return i;
    return STEPS_EAGER;
}

bool cluster_same_soft(const struct cluster *a, const struct cluster *b)
{
    for (size_t i = 0; i < cluster_field_count; i++)
        if (cluster_fields[i].class == CLUSTER_SOFT && !has_same_value(a, b, &cluster_fields[i]))
            return false;
    return true;
}

bool cluster_answers(const struct cluster *table, const struct cluster *here)
{
    for (size_t i = 0; i < cluster_field_count; i++) {
        const struct cluster_field *f = &cluster_fields[i];

        if (f->class == CLUSTER_HARD &&
            ((!is_later_field(f) && !(is_known(table, f) && is_known(here, f))) ||
             !has_same_value(table, here, f)))
            return false;
    }
    return true;
}

bool cluster_has_library_a2a(const struct cluster *c)
{
    int major = 0, minor = 0;

    return !strcmp(c->backend, "cuda") &&
           sscanf(c->comm_library, "NCCL %d.%d", &major, &minor) == 2 &&
           (major > 2 || (major == 2 && minor >= 28));
}

/* LL128 needs links that keep 128 bytes together. NVLink does; of a network it is not known. NCCL
 * uses LL128 anywhere when it is forced to, and on the wrong link bytes may arrive wrong. */
struct protocols cluster_protocols(const struct cluster *c)
{
    const uint32_t on_any_link = 1u << MOE_PROTO_LL | 1u << MOE_PROTO_SIMPLE,
                   ll128 = 1u << MOE_PROTO_LL128;
    bool keeps_128_bytes = c->nodes == 1 && !strcmp(c->link_inside, "NVLink");
    uint32_t modelled = (uint32_t)isfinite(c->ll_rate_percent) << MOE_PROTO_LL |
                        (uint32_t)isfinite(c->ll128_rate_percent) << MOE_PROTO_LL128;

    if (strncmp(c->comm_library, "NCCL", 4) != 0)
        return (struct protocols){ 0 };
    if (!strcmp(c->backend, "cuda"))
        return (struct protocols){ on_any_link | ll128,
                                   keeps_128_bytes ? on_any_link | ll128 : on_any_link };
    /* Only a library that gathers by itself can choose a protocol. */
    modelled = modelled && isfinite(c->ring_step_us) ? modelled | 1u << MOE_PROTO_SIMPLE : 0;
    return (struct protocols){ modelled, modelled };
}
