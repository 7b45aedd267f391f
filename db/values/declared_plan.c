/* The text of a declared plan, and whether its space knows it. */
#include "declared_plan.h"

#include "plan.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

static const char space_word[] = "space=";

struct moe_plan declared_plan(uint32_t space, uint32_t choice)
{
    struct moe_plan plan = plan_default(NULL);

    plan.space = space;
    plan.choice = choice;
    return plan;
}

struct moe_plan declared_plan_default(uint32_t space)
{
    const struct declaration *d = declaration_find(space);

    return declared_plan(space, d ? d->usual : 0);
}

size_t declared_plan_list(uint32_t space, struct moe_plan *plans, size_t room)
{
    const struct declaration *d = declaration_find(space);

    if (!d)
        return 0;
    for (size_t i = 0; i < d->plans && i < room; i++)
        plans[i] = declared_plan(space, d->plan[i]);
    return d->plans;
}

bool declared_plan_legal(const struct moe_plan *plan, uint32_t space)
{
    struct moe_plan usual = plan_default(NULL);
    const struct declaration *d = declaration_find(space);

    usual.space = plan->space;
    usual.choice = plan->choice;
    return d && plan->space == space && plan_equal(plan, &usual) &&
           declaration_legal(d, plan->choice);
}

int declared_plan_check(const struct moe_plan *plan, uint32_t space)
{
    const struct declaration *d = declaration_find(space);

    if (declared_plan_legal(plan, space))
        return OK;
    if (!space)
        return fail(ERR_ARGUMENT, "\"%s\" is of a declared space, and the layer has none",
                    PLAN_TEXT(plan));
    if (!d)
        return fail(ERR_ARGUMENT, "a space that is not known here (%08x)", space);
    if (plan->space != space)
        return fail(ERR_ARGUMENT, "\"%s\" is no plan of %s", PLAN_TEXT(plan), d->name);
    return fail(ERR_ARGUMENT, "\"%s\" is not legal: %s excludes it", PLAN_TEXT(plan), d->name);
}

int declared_plan_words(const struct moe_plan *plan, char *text, size_t size)
{
    const struct declaration *d = declaration_find(plan->space);

    return d ? declaration_format(d, plan->choice, text, size) : MOE_ERR_ARGUMENT;
}

int declared_plan_format(const struct moe_plan *plan, char *text, size_t size)
{
    const struct declaration *d = declaration_find(plan->space);
    int used = declared_plan_words(plan, text, size);
    bool room = used >= 0 && (size_t)used < size;
    char tag[DECLARATION_TAG_BYTES];

    if (used < 0)
        return used;
    return used + snprintf(room ? text + used : NULL, room ? size - (size_t)used : 0, " %s%s",
                           space_word, declaration_tag(d, tag));
}

/* Where the word begins that names the space; NULL: there is none. */
static const char *find_space(const char *text)
{
    const char *at = strstr(text, space_word);

    while (at && at > text && at[-1] != ' ')
        at = strstr(at + 1, space_word);
    return at;
}

bool declared_plan_claims(const char *text)
{
    return find_space(text) != NULL;
}

int declared_plan_parse(const char *text, struct moe_plan *out)
{
    const char *at = find_space(text), *tag = at + strlen(space_word);
    size_t length = strcspn(tag, " ");
    const struct declaration *d = declaration_named(tag, length);
    char rest[PLAN_TEXT_BYTES];
    uint32_t choice;

    if (!d || strlen(text) >= sizeof(rest))
        return MOE_ERR_FORMAT;
    snprintf(rest, sizeof(rest), "%.*s%s", (int)(at - text), text, tag + length);
    if (!declaration_scan(d, rest, &choice))
        return MOE_ERR_FORMAT;
    *out = declared_plan(d->id, choice);
    return MOE_OK;
}
