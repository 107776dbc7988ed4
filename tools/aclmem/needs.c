/*
 * The needs of a program: editions of CANN and products, from the findings of portability and
 * from the functions that were called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "text.h"

/* "8.5" as a number that can be compared; 0 for "". */
static int edition_of(const char *text)
{
    const char *dot = strchr(text, '.');

    return dot != NULL ? 100 * atoi(text) + atoi(dot + 1) : 0;
}

/* The needs so far. */
struct needs {
    json_t *since;    /* {"edition", "function", "why"}: the newest that is needed */
    json_t *before;   /* the oldest that refuses */
    json_t *refusing; /* product -> the functions that it refuses, a list */
    json_t *some;     /* functions with a call that not every edition takes */
};

static bool is_in(const json_t *list, const char *text)
{
    const json_t *item;
    size_t i;

    json_array_foreach (list, i, item) {
        if (strcmp(json_string_value(item), text) == 0)
            return true;
    }
    return false;
}

static void list_add(json_t *list, const char *text)
{
    if (!is_in(list, text))
        json_array_append_new(list, json_string(text));
}

static void edition_take(json_t **best, const char *edition, const char *function,
                         const char *why, int direction)
{
    int now = *best != NULL ? edition_of(text_of(*best, "edition")) : 0;
    int new = edition_of(edition);

    if (new == 0 || new == 800 || (now != 0 && direction * (new - now) <= 0))
        return; /* every edition since 8.0 has it, or a stronger one is known */
    json_decref(*best);
    *best = json_pack("{s:s, s:s, s:s}", "edition", edition, "function", function, "why",
                      why);
}

static void reach_take(struct needs *needs, const json_t *from, const char *function,
                       const char *why)
{
    json_t *product;
    size_t i;

    edition_take(&needs->since, text_of(from, "since"), function, why, 1);
    edition_take(&needs->before, text_of(from, "before"), function, why, -1);
    json_array_foreach (json_object_get(from, "refusing"), i, product) {
        const char *name = json_string_value(product);

        if (json_object_get(needs->refusing, name) == NULL)
            json_object_set_new(needs->refusing, name, json_array());
        list_add(json_object_get(needs->refusing, name), function);
    }
    if (text_of(from, "since")[0] == '\0' && text_of(from, "before")[0] == '\0')
        list_add(needs->some, function);
}

static struct needs needs_make(const struct findings *findings)
{
    struct needs needs = {.refusing = json_object(), .some = json_array()};
    const char *name;
    json_t *item;
    size_t i;

    json_array_foreach (findings->list, i, item) {
        if (strcmp(text_of(item, "kind"), "portability") == 0)
            reach_take(
                &needs, item,
                text_of(json_array_get(json_object_get(item, "calls"), 0), "function"),
                text_of(item, "message"));
    }
    json_object_foreach (findings->functions, name, item)
        reach_take(&needs, item, name, "");
    return needs;
}

json_t *needs_json(const struct findings *findings)
{
    struct needs needs = needs_make(findings);

    return json_pack("{s:o, s:o, s:o, s:o}", "since",
                     needs.since != NULL ? needs.since : json_null(), "before",
                     needs.before != NULL ? needs.before : json_null(), "refusing",
                     needs.refusing, "not_every_edition", needs.some);
}

static void list_print(const json_t *list)
{
    const json_t *item;
    size_t i;

    json_array_foreach (list, i, item)
        fprintf(stderr, "%s%s", i > 0 ? ", " : "", json_string_value(item));
    fprintf(stderr, "\n");
}

static void edition_print(const json_t *need, const char *format)
{
    const char *why = text_of(need, "why");

    fprintf(stderr, format, text_of(need, "edition"));
    fprintf(stderr, ", because of %s%s%s\n", text_of(need, "function"),
            why[0] != '\0' ? ": " : "", why);
}

/* Products that refuse the same functions are named together. */
static void products_print(json_t *refusing)
{
    while (json_object_size(refusing) > 0) {
        json_t *functions =
            json_incref(json_object_iter_value(json_object_iter(refusing)));
        bool is_first = true;
        const char *name;
        json_t *item;
        void *next;

        fprintf(stderr, "aclmem: portability: not on ");
        json_object_foreach_safe(refusing, next, name, item)
        {
            if (!json_equal(item, functions))
                continue;
            fprintf(stderr, "%s%s", is_first ? "" : ", ", name);
            is_first = false;
            json_object_del(refusing, name);
        }
        fprintf(stderr, ", because of ");
        list_print(functions);
        json_decref(functions);
    }
}

void needs_print(const struct findings *findings)
{
    json_t *needs;
    json_t *since;
    json_t *before;
    json_t *some;

    if (!findings->is_lint)
        return;
    needs = needs_json(findings);
    since = json_object_get(needs, "since");
    before = json_object_get(needs, "before");
    some = json_object_get(needs, "not_every_edition");
    if (json_is_object(since))
        edition_print(since, "aclmem: portability: this program needs CANN %s or later");
    if (json_is_object(before))
        edition_print(before, "aclmem: portability: this program needs CANN before %s");
    if (json_array_size(some) > 0) {
        fprintf(stderr, "aclmem: portability: not every edition takes its calls of ");
        list_print(some);
    }
    if (findings->n_ended < findings->n_processes)
        fprintf(stderr,
                "aclmem: portability: the list is incomplete: a process was killed "
                "or called _exit\n");
    else if (!json_is_object(since) && !json_is_object(before) &&
             json_array_size(some) == 0)
        fprintf(stderr,
                "aclmem: portability: nothing here needs a later CANN than 8.0\n");
    products_print(json_object_get(needs, "refusing"));
    json_decref(needs);
}
