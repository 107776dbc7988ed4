/* See python.h. */
#include "layer/python.h"

#include <jansson.h>
#include <stdatomic.h>
#include <string.h>

#include "base/lock.h"
#include "layer/layers.h"
#include "layer/memory.h"

#define STACKS_MAX 65536
#define BUCKETS 4096

/* Equal texts have equal numbers; none is ever forgotten. */
struct text {
    struct text *next;
    uint32_t number;
    char json[];
};

static struct {
    struct am_lock lock;
    struct text *bucket[BUCKETS];
    struct text *text[STACKS_MAX];
    uint32_t n;
} python = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "python")};

/* The frames that the binding gave last in this thread; its memory. */
static _Thread_local const char *callers __attribute__((tls_model("initial-exec")));

_Atomic bool am_callers_are_wanted;

void am_callers_set(const char *json)
{
    callers = json;
}

static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;

    while (*text != '\0')
        hash = (hash ^ (unsigned char)*text++) * 16777619u;
    return hash;
}

static uint32_t text_enter_locked(const char *json, struct text **bucket)
{
    size_t n = strlen(json) + 1;
    struct text *text;

    for (text = *bucket; text != NULL; text = text->next) {
        if (strcmp(text->json, json) == 0)
            return text->number;
    }
    text = python.n + 1 < STACKS_MAX ? am_meta_alloc(sizeof *text + n) : NULL;
    if (text == NULL)
        return 0;
    memcpy(text->json, json, n);
    text->number = ++python.n;
    text->next = *bucket;
    *bucket = text;
    python.text[text->number] = text;
    return text->number;
}

uint32_t am_python_take(void)
{
    uint32_t number;

    if (callers == NULL)
        return 0;
    am_lock(&python.lock);
    number = text_enter_locked(callers, &python.bucket[hash_of(callers) % BUCKETS]);
    am_unlock(&python.lock);
    return number;
}

const char *am_python_text(uint32_t stack)
{
    return python.text[stack]->json;
}

json_t *am_python_json(uint32_t stack)
{
    json_t *frames = stack != 0 ? json_loads(python.text[stack]->json, 0, NULL) : NULL;

    return frames != NULL ? frames : json_array();
}

json_t *am_python_frames(uint32_t stack)
{
    json_t *frames = am_python_json(stack);
    json_t *list = json_array();
    json_t *frame;
    size_t i;

    json_array_foreach (frames, i, frame)
        json_array_append_new(
            list, json_pack("{sO, sO, sO}", "function", json_array_get(frame, 0), "file",
                            json_array_get(frame, 1), "line", json_array_get(frame, 2)));
    json_decref(frames);
    return list;
}

void am_python_print(FILE *out, uint32_t stack)
{
    json_t *frames = am_python_json(stack);
    json_t *frame;
    size_t i;

    json_array_foreach (frames, i, frame)
        fprintf(out, "        #%zu %s  %s:%lld\n", i,
                json_string_value(json_array_get(frame, 0)),
                json_string_value(json_array_get(frame, 1)),
                (long long)json_integer_value(json_array_get(frame, 2)));
    json_decref(frames);
}
