/* The declared spaces that this process knows: a list that only grows, at its front. */
#include "declaration.h"

#include "status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct known {
    struct declaration *space;
    const struct known *next;
};

static _Atomic(const struct known *) known_spaces;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

/* ERR_FORMAT: *out has the same number. */
static int add(struct declaration *space, const struct declaration **out)
{
    const struct declaration *there = declaration_find(space->id);
    struct known *more = NULL;

    if (there) {
        bool same = !strcmp(there->text, space->text);

        declaration_free(space);
        *out = there;
        return same ? OK : ERR_FORMAT;
    }
    more = malloc(sizeof(*more));
    if (!more) {
        declaration_free(space);
        return ERR_NOMEM;
    }
    *more = (struct known){ space, atomic_load(&known_spaces) };
    atomic_store(&known_spaces, more);
    *out = space;
    return OK;
}

static int add_alone(struct declaration *space, const struct declaration **out)
{
    int rc;

    pthread_mutex_lock(&adding);
    rc = add(space, out);
    pthread_mutex_unlock(&adding);
    return rc;
}

int declaration_register(const char *text, const struct declaration **out)
{
    const struct declaration *there = NULL;
    struct declaration *space;
    int rc;

    TRY(declaration_parse(text, &space));
    rc = add_alone(space, &there);
    if (rc == ERR_FORMAT)
        return fail(rc,
                    "this declared space has the same number %08x as %s: change the name of one",
                    there->id, there->name);
    if (rc)
        return fail(rc, "no memory for a declared space");
    *out = there;
    return OK;
}

int declaration_learn(const char *text, const struct declaration **out)
{
    char why[DECLARATION_FAULT_BYTES];
    const struct declaration *there = NULL;
    struct declaration *space;

    TRY(declaration_fault(text, &space, why, sizeof(why)));
    TRY(add_alone(space, &there));
    *out = there;
    return OK;
}

const struct declaration *declaration_find(uint32_t id)
{
    const struct known *k = atomic_load(&known_spaces);

    while (k && k->space->id != id)
        k = k->next;
    return k ? k->space : NULL;
}

/* Without '@' it is a name alone. */
static bool is_called(const struct declaration *d, const char *name, size_t length)
{
    char tag[DECLARATION_TAG_BYTES];
    size_t whole = memchr(name, '@', length) ? strlen(declaration_tag(d, tag)) : strlen(d->name);

    return length == whole && !memcmp(declaration_tag(d, tag), name, length);
}

const struct declaration *declaration_named(const char *name, size_t length)
{
    const struct declaration *found = NULL;

    for (const struct known *k = atomic_load(&known_spaces); k; k = k->next)
        if (is_called(k->space, name, length)) {
            if (found)
                return NULL;
            found = k->space;
        }
    return found;
}
