/*
 * Layers over the core.
 *
 * A layer's table may have holes: the merged table takes the layer's function where there
 * is one and the function below it elsewhere, so a layer that is not in the path of a
 * call costs it nothing.
 */
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/sys.h"
#include "layer/layers.h"

/* The layers of this build, by name. */
static const struct am_layer *const layers[] = {&am_check_layer, &am_fail_layer,
                                                &am_trace_layer, NULL};

#define LAYERS_MAX (sizeof layers / sizeof layers[0])

/*
 * A table is allocated once for each layer and table below it, and never freed.  The
 * runtime's lock protects the list.
 */
struct merged {
    struct merged *next;
    const struct am_layer *layer;
    const struct am_api *below;
    struct am_api api;
};

static struct merged *all_merged;

static const struct am_layer *layer_find(const char *name, size_t n)
{
    for (size_t i = 0; layers[i] != NULL; i++) {
        if (strlen(layers[i]->name) == n && strncmp(layers[i]->name, name, n) == 0)
            return layers[i];
    }
    return NULL;
}

static struct merged *merged_make(const struct am_layer *layer,
                                  const struct am_api *below)
{
    struct merged *merged = am_sys_calloc(1, sizeof *merged);

    if (merged == NULL)
        return NULL;
    merged->layer = layer;
    merged->below = below;
    merged->next = all_merged;
    all_merged = merged;
    return merged;
}

/* Writes what differs: nothing, unless the table is new. */
static void merged_fill(struct merged *merged)
{
    const struct am_api *above = merged->layer->api;
    const struct am_api *below = merged->below;
    struct am_api *api = &merged->api;

#define AM_API(ret_, name_, ...) \
    if (api->name_ != (above->name_ ? above->name_ : below->name_)) \
        api->name_ = above->name_ ? above->name_ : below->name_;
#include "api/api.def"
}

const struct am_api *am_stack_push(const struct am_layer *layer,
                                   const struct am_api *below)
{
    struct merged *merged = all_merged;

    while (merged != NULL && (merged->layer != layer || merged->below != below))
        merged = merged->next;
    if (merged == NULL)
        merged = merged_make(layer, below);
    if (merged == NULL)
        return NULL;
    merged_fill(merged);
    layer->attach(below);
    return &merged->api;
}

static bool layer_is_in(const struct am_layer *layer, const struct am_layer *const *list,
                        size_t n)
{
    while (n > 0) {
        if (list[--n] == layer)
            return true;
    }
    return false;
}

/*
 * The layers that are named, the innermost first.  A layer knows one table below it, so a
 * name that is repeated counts once, where it is innermost: "aclmem run" of a program
 * that starts "aclmem run" repeats its layers.
 */
static aclError names_parse(const char *names, const struct am_layer **list,
                            size_t *ret_n)
{
    const char *start;
    size_t n = 0;

    for (const char *end = names + strlen(names); end > names;
         end = start - (start > names)) {
        for (start = end; start > names && start[-1] != ',';)
            start--;
        list[n] = layer_find(start, (size_t)(end - start));
        AM_REQUIRE(list[n] != NULL, ACL_ERROR_INVALID_PARAM,
                   "ACLMEM_LAYERS is \"%s\", and there is no layer \"%.*s\"; it takes "
                   "check, fail and trace, separated by commas",
                   names, (int)(end - start), start);
        if (!layer_is_in(list[n], list, n))
            n++;
    }
    *ret_n = n;
    return ACL_SUCCESS;
}

aclError am_stack_build(const char *names, const struct am_api *below,
                        const struct am_api **ret_top)
{
    const struct am_layer *list[LAYERS_MAX];
    const struct am_api *top = below;
    size_t n;

    AM_TRY(names_parse(names, list, &n));
    if (n > 0)
        AM_TRY(am_layers_configure());
    if (!am_layers_are_for_us())
        n = 0;
    for (size_t i = 0; i < n; i++) { /* all before the first one is attached */
        if (list[i]->prepare != NULL)
            AM_TRY(list[i]->prepare());
    }
    for (size_t i = 0; i < n; i++) {
        top = am_stack_push(list[i], top);
        AM_REQUIRE(top != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a layer");
    }
    *ret_top = top;
    return ACL_SUCCESS;
}
