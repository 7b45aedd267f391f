/* Opens tables: finds files, and turns their rows (form 1) into packed bytes (form 3) with the
 * help of lookup_sqlite.c, lookup_set.c and lookup_pack.c. Also packs, unpacks and records: all
 * public functions but bind and get. lookup.h explains the forms. */
#include "lookup.h"

#include "plan.h"
#include "seal.h"
#include "status.h"
#include "store.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MOETUNE_PREFIX
#define MOETUNE_PREFIX "/usr/local"
#endif

/* A packed file may come from several files itself, so its numbers need a range of their own. */
enum { FILES_APART = 1 << 25 };

/* ---- Environment. */

static enum lookup_level read_level(enum lookup_level otherwise)
{
    static const char *const words[] = { "never", "error", "warn", "info", NULL };
    const char *given = getenv("MOELOOKUP_LOG");
    int level = given ? word_find(words, given) : -1;

    return level < 0 ? otherwise : (enum lookup_level)level;
}

void lookup_log(const struct moelookup *table, enum lookup_level level, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (table->level < level)
        return;
    va_start(args, format);
    text_put_list(line, sizeof(line), format, args);
    va_end(args);
    note("%s", line);
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* ---- One file. */

static int read_packed(int fd, size_t size, uint32_t file, struct lookup_set *set)
{
    uint8_t *bytes;
    size_t got = 0;
    ssize_t n = 1;
    int rc = ERR_IO;

    if (size > UINT32_MAX)
        return ERR_FORMAT;
    bytes = malloc(size);
    if (!bytes)
        return ERR_NOMEM;
    while (got < size && n > 0) {
        n = pread(fd, bytes + got, size - got, (off_t)got);
        got += n > 0 ? (size_t)n : 0;
    }
    if (got == size)
        rc = pack_check(bytes, size);
    if (!rc)
        rc = pack_merge(bytes, file, set);
    set->on_others = true;
    free(bytes);
    return rc;
}

enum unlocked_kind { ONLY_PACKED, SNAPSHOT_OR_PACKED };

/* Reads a file that no process locks: a snapshot, or packed bytes. */
static int read_unlocked(const char *path, enum unlocked_kind kind, uint32_t file,
                         struct lookup_set *set)
{
    /* Without O_NONBLOCK open() would stop the trainer if the path is a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = ERR_IO;
    uint8_t head[LOOKUP_HEAD];
    struct stat info;
    bool sealed;

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? UNSUPPORTED : ERR_IO;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode))
        goto out;
    rc = ERR_FORMAT;
    if (pread(fd, head, sizeof(head), 0) != sizeof(head))
        goto out;
    if (pack_claims(head)) {
        rc = read_packed(fd, (size_t)info.st_size, file, set);
    } else if (kind == SNAPSHOT_OR_PACKED) {
        TRY_OUT(seal_check(fd, (size_t)info.st_size, &sealed));
        close(fd);
        return lookup_read_sqlite(path, sealed ? LOOKUP_SEALED : LOOKUP_SNAPSHOT, file, set);
    }
out:
    close(fd);
    return rc;
}

/* Reads one file into a set. UNSUPPORTED: the file does not exist. */
static int read_file(const char *path, uint32_t file, struct lookup_set *set)
{
    static const char published[] = ".published";
    size_t length = strlen(path), tail = sizeof(published) - 1;
    uint8_t head[LOOKUP_HEAD];
    struct stat info;

    if (length >= tail && !strcmp(path + length - tail, published))
        return read_unlocked(path, SNAPSHOT_OR_PACKED, file, set);
    if (stat(path, &info))
        return errno == ENOENT || errno == ENOTDIR ? UNSUPPORTED : ERR_IO;
    if (!S_ISREG(info.st_mode))
        return ERR_IO;
    TRY(lookup_read_head(path, head));
    return pack_claims(head) ? read_unlocked(path, ONLY_PACKED, file, set)
                             : lookup_read_sqlite(path, LOOKUP_DATABASE, file, set);
}

/* Reads one file and adds it to the set only if it can be read as a whole. UNSUPPORTED: it does not
 * exist. */
static int read_whole_file(const struct moelookup *table, const char *path, uint32_t file,
                           struct lookup_set *set)
{
    struct lookup_set file_set = { .count = 0 };
    int rc = read_file(path, file, &file_set);

    for (uint32_t i = 0; i < file_set.count && !rc; i++) {
        struct lookup_layer *layer = lookup_set_layer(set, &file_set.layers[i]);

        if (!layer)
            rc = ERR_NOMEM;
        else
            *layer = file_set.layers[i];
        if (layer)
            memset(&file_set.layers[i], 0, sizeof(file_set.layers[i]));
    }
    set->skipped.modelled |= file_set.skipped.modelled;
    set->skipped.elsewhere |= file_set.skipped.elsewhere;
    for (uint32_t i = 0; i < file_set.skipped.space_count; i++)
        lookup_skip_space(&set->skipped, file_set.skipped.spaces[i]);
    set->skipped.version = file_set.skipped.version;
    set->on_cores |= file_set.on_cores;
    set->on_others |= file_set.on_others;
    lookup_set_free(&file_set);
    if (!rc)
        lookup_log(table, LOOKUP_INFO, "read %s", path);
    return rc;
}

/* Reads a database through its snapshot, which is whole and does not change. Reads the database
 * itself where the snapshot is damaged or missing. */
static int read_table(const struct moelookup *table, const char *path, uint32_t file,
                      struct lookup_set *set)
{
    char snapshot[PATH_MAX];
    int rc = UNSUPPORTED, database_rc;

    if (!*path) /* its snapshot would be any ".published" in this folder */
        return rc;
    if (snprintf(snapshot, sizeof(snapshot), "%s.published", path) < (int)sizeof(snapshot))
        rc = read_whole_file(table, snapshot, file, set);
    if (!rc || rc == ERR_NOMEM)
        return rc;
    if (rc != UNSUPPORTED)
        lookup_log(table, LOOKUP_WARN, "%s cannot be read (%s): reading %s itself", snapshot,
                   moelookup_strerror(rc), path);
    database_rc = read_whole_file(table, path, file, set);
    return database_rc == UNSUPPORTED ? rc : database_rc;
}

/* ---- The search path. */

enum { PLACES = 5 };

/* Adds a file to the search path. Skips a name that is too long, because a cut name is another
 * file's. */
static void add_place(const struct moelookup *table, const char *folder, const char *name,
                      char places[PLACES][PATH_MAX], int *count)
{
    if (text_put(places[*count], PATH_MAX, "%s%s", folder, name))
        ++*count;
    else
        lookup_log(table, LOOKUP_WARN, "%s: %s; it is skipped", TEXT_SHORT(folder, 60),
                   strerror(ENAMETOOLONG));
}

enum { WHY_BYTES = 96 };

/* Returns why a file gave no table. */
static const char *why_unreadable(const char *path, int rc, const struct lookup_set *set,
                                  char text[WHY_BYTES])
{
    char journal[PATH_MAX];
    struct stat info;

    if (stat(path, &info) || access(path, R_OK))
        return strerror(errno);
    if (S_ISDIR(info.st_mode))
        return "a folder: name a table's file in it";
    if (rc == ERR_IO && text_put(journal, sizeof(journal), "%s-journal", path) &&
        !access(journal, F_OK))
        return "a program was killed while it wrote, and this process may not write there to undo "
               "that: a user with that right must run moetune show on it once";
    if (rc != ERR_FORMAT)
        return moelookup_strerror(rc);
    if (!info.st_size)
        return "empty: nothing was stored there yet";
    if (set->skipped.version > STORE_VERSION)
        snprintf(text, WHY_BYTES,
                 "from a newer moetune (tables of version %lld; moelookup reads up to version %d)",
                 (long long)set->skipped.version, STORE_VERSION);
    else
        snprintf(text, WHY_BYTES,
                 "from before moetune's first release (tables of version %lld, %d is the oldest)",
                 (long long)set->skipped.version, STORE_OLDEST);
    return set->skipped.version ? text : "no database of moetune, no snapshot and no packed table";
}

static int read_places(const struct moelookup *table, struct lookup_set *set)
{
    const char *first = environment("MOELOOKUP_DB"), *second = environment("MOETUNE_DB");
    const char *data = environment("XDG_DATA_HOME"), *home = environment("HOME");
    char(*places)[PATH_MAX] = malloc(sizeof(*places) * PLACES);
    int count = 0, rc = OK;
    char why[WHY_BYTES];

    if (!places)
        return ERR_NOMEM;
    if (first)
        add_place(table, first, "", places, &count);
    if (second && (!first || strcmp(first, second) != 0))
        add_place(table, second, "", places, &count);
    if (data)
        add_place(table, data, "/moetune/moetune.db", places, &count);
    else if (home)
        add_place(table, home, "/.local/share/moetune/moetune.db", places, &count);
    add_place(table, "/etc", "/moetune/moetune.db", places, &count);
    add_place(table, MOETUNE_PREFIX, "/share/moetune/moetune.db", places, &count);
    for (int i = 0; i < count && rc != ERR_NOMEM; i++) {
        rc = read_table(table, places[i], (uint32_t)i * FILES_APART, set);
        /* MOETUNE_DB may name a table that does not exist yet; MOELOOKUP_DB must name one that
         * does. */
        if ((rc < 0 && rc != ERR_NOMEM) || (rc == UNSUPPORTED && i == 0 && first))
            lookup_log(table, LOOKUP_WARN, "%s: %s; it is skipped", places[i],
                       why_unreadable(places[i], rc, set, why));
    }
    free(places);
    return rc == ERR_NOMEM ? rc : OK;
}

/* ---- Tables. */

static int read_given(const struct moelookup *table, const char *path, struct lookup_set *set)
{
    char why[WHY_BYTES];
    int rc;

    if (!path)
        return read_places(table, set);
    rc = read_table(table, path, 0, set);
    if (rc && rc != ERR_NOMEM) {
        rc = rc == UNSUPPORTED ? ERR_IO : rc;
        lookup_log(table, LOOKUP_ERROR, "%s: %s", path, why_unreadable(path, rc, set, why));
    }
    return rc;
}

/* Reads $MOELOOKUP_FORCE. Needs the tables first: they may hold the space of a declared plan. */
static int read_force(const struct moelookup *table, struct lookup_set *set)
{
    const char *force = environment("MOELOOKUP_FORCE");
    struct lookup_switches *switches = &set->switches;

    if (!force)
        return OK;
    if (plan_parse(force, &switches->force)) {
        lookup_log(table, LOOKUP_ERROR,
                   "MOELOOKUP_FORCE=\"%s\": write a plan as \"r=1 d=2 a=linear\", or as "
                   "\"AXIS=VALUE space=NAME\" of a space that a table here has",
                   force);
        return ERR_ARGUMENT;
    }
    switches->forced = true;
    switches->force = plan_canonical(switches->force, NULL);
    /* Ranks on cores have no NCCL, so no trainer there could run NCCL's all-to-all. */
    if (switches->force.a != MOE_A2A_NCCL || set->on_others || !set->on_cores)
        return OK;
    lookup_log(table, LOOKUP_ERROR,
               "MOELOOKUP_FORCE: a=nccl is NCCL's own all-to-all, and every "
               "table here is of a cluster without GPUs");
    return ERR_ARGUMENT;
}

int moelookup_open(const char *path_or_null, struct moelookup **out)
{
    struct moelookup *table;
    struct lookup_set set = { .count = 0 };
    const char *disable = environment("MOELOOKUP_DISABLE");
    int rc;

    if (!out)
        return MOE_ERR_ARGUMENT;
    table = calloc(1, sizeof(*table));
    if (!table)
        return MOE_ERR_NOMEM;
    table->level = read_level(LOOKUP_WARN);
    set.switches.disabled = disable && strcmp(disable, "0") != 0;
    if (!set.switches.disabled)
        TRY_OUT(read_given(table, path_or_null, &set));
    TRY_OUT(read_force(table, &set));
    TRY_OUT(pack_set(&set, &table->bytes, &table->size));
    table->skipped = set.skipped;
    (void)moelookup_record(table, NULL); /* training goes on even if nothing can be recorded */
    *out = table;
    table = NULL;
out:
    lookup_set_free(&set);
    moelookup_close(table);
    return rc;
}

/* ---- Recording. */

int moelookup_record(struct moelookup *table, const char *path_or_null)
{
    const char *path = path_or_null ? path_or_null : environment("MOELOOKUP_RECORD");
    struct recorder *recorder = NULL;
    int rc;

    if (!table)
        return MOE_ERR_ARGUMENT;
    rc = path ? recorder_open(path, &recorder) : MOE_OK;
    if (rc) {
        lookup_log(table, LOOKUP_ERROR, "%s: %s; look-ups are not recorded", path,
                   rc == ERR_IO ? strerror(errno) : moelookup_strerror(rc));
        return rc;
    }
    recorder_close(table->recorder);
    table->recorder = recorder;
    return MOE_OK;
}

/* ---- Tables that travel. */

int moelookup_unpack(const void *buf, size_t size, struct moelookup **out)
{
    struct moelookup *table;
    int rc;

    if (!buf || !out)
        return MOE_ERR_ARGUMENT;
    TRY(pack_check(buf, size));
    table = calloc(1, sizeof(*table));
    if (!table)
        return MOE_ERR_NOMEM;
    table->level = read_level(LOOKUP_NEVER);
    table->size = size;
    table->bytes = malloc(size);
    rc = table->bytes ? MOE_OK : MOE_ERR_NOMEM;
    if (rc) {
        moelookup_close(table);
        return rc;
    }
    memcpy(table->bytes, buf, size);
    *out = table;
    return MOE_OK;
}

int moelookup_pack(const struct moelookup *table, void *buf, size_t *size)
{
    if (!table || !size || (buf && *size < table->size))
        return MOE_ERR_ARGUMENT;
    if (buf)
        memcpy(buf, table->bytes, table->size);
    *size = table->size;
    return MOE_OK;
}

int moelookup_digest(const struct moelookup *table, uint8_t out[SHA256_BYTES])
{
    if (!table || !out)
        return MOE_ERR_ARGUMENT;
    memcpy(out, pack_digest(table->bytes), SHA256_BYTES);
    return MOE_OK;
}

void moelookup_close(struct moelookup *table)
{
    if (!table)
        return;
    recorder_close(table->recorder);
    free(table->bytes);
    free(table);
}

const char *moelookup_strerror(int status)
{
    return status_word(status);
}

const char *moelookup_version(void)
{
    return MOETUNE_VERSION;
}
