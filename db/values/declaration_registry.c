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

static int add(struct declaration *space, const struct declaration **out)
{
    const struct declaration *there = declaration_find(space->id);
    struct known *more;

    if (there && !strcmp(there->text, space->text)) {
        declaration_free(space);
        *out = there;
        return OK;
    }
    more = there ? NULL : malloc(sizeof(*more));
    if (!more) {
        int rc = there ? fail(ERR_FORMAT,
                              "the declared spaces %s and %s have the same number %08x: change the "
                              "name of one",
                              space->name, there->name, space->id)
                       : fail(ERR_NOMEM, "no memory for the declared space %s", space->name);

        declaration_free(space);
        return rc;
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
    struct declaration *space;

    TRY(declaration_parse(text, &space));
    return add_alone(space, out);
}

int declaration_learn(const char *text, const struct declaration **out)
{
    char why[DECLARATION_FAULT_BYTES];
    struct declaration *space;

    TRY(declaration_fault(text, &space, why, sizeof(why)));
    return add_alone(space, out);
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
