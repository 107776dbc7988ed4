/* See names.h. */
#include "names.h"

#include <stdio.h>
#include <string.h>

#include "layer/symbols.h"
#include "text.h"

static json_t *known; /* "path+offset" -> frames */

struct location {
    json_t *frames;
    const char *module;
};

static void frame_add(const struct am_symbol *symbol, void *arg)
{
    const struct location *location = arg;

    json_array_append_new(
        location->frames,
        json_pack("{s:o, s:o, s:i, s:o}", "function", text_json(symbol->function), "file",
                  text_json(symbol->file != NULL ? symbol->file : ""), "line",
                  symbol->line, "module", text_json(location->module)));
}

static json_t *frames_find(const char *path, uint64_t offset)
{
    struct location location = {json_array(), path};
    const char *base = strrchr(path, '/');
    char text[512];

    am_symbols_open();
    if (am_symbolize(path, offset, frame_add, &location) == 0) {
        snprintf(text, sizeof text, "%s+0x%llx", base != NULL ? base + 1 : path,
                 (unsigned long long)offset);
        frame_add(&(struct am_symbol){.function = text}, &location);
    }
    return location.frames;
}

void names_add(json_t *stack, const char *path, uint64_t offset)
{
    char key[4200];
    json_t *frames;

    snprintf(key, sizeof key, "%s+%llx", path, (unsigned long long)offset);
    if (known == NULL)
        known = json_object();
    frames = json_incref(json_object_get(known, key));
    if (frames == NULL) {
        frames = frames_find(path, offset);
        json_object_set_nocheck(known, key, frames); /* a path may hold any byte */
    }
    json_array_extend(stack, frames);
    json_decref(frames);
}

void names_close(void)
{
    am_symbols_close();
    json_decref(known);
    known = NULL;
}
