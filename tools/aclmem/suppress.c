/*
 * Suppressions: findings that are known and accepted.
 *
 *     kind: frame; frame; ...; frame   # why
 *
 * `kind` may have a * in it.  A frame is a pattern for a function, a module or file:line.
 * One frame alone matches anywhere in any stack of the finding; several match the first
 * stack from its innermost frame on, and "..." stands for any number of frames.
 */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "text.h"

#define FRAMES_MAX 64

struct suppression {
    struct suppression *next;
    char *text; /* cut into kind and frames */
    char *line; /* as it stands in the file */
    const char *kind;
    const char *frame[FRAMES_MAX];
    int n;
    long long used;
};

static struct suppression *all;

static char *trim(char *text)
{
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

/* Whether the pattern may be a kind: it matches one that exists. */
static bool kind_check(const char *kind)
{
    size_t n = strcspn(kind, "*?[");

    return kind[n] != '\0' || kind_is_known(kind, n);
}

static bool line_parse(struct suppression *s, const char *path, int number)
{
    char *comment = strstr(s->text, " #");
    char *colon;
    char *at;

    if (comment != NULL)
        *comment = '\0';
    colon = strchr(s->text, ':');
    if (colon == NULL) {
        fprintf(stderr, "aclmem: %s:%d: no \"kind: frame\"\n", path, number);
        return false;
    }
    *colon = '\0';
    s->kind = trim(s->text);
    if (!kind_check(s->kind)) {
        fprintf(stderr, "aclmem: %s:%d: there is no kind \"%s\"; these are:\n", path,
                number, s->kind);
        kinds_print(stderr);
        return false;
    }
    for (at = strtok(colon + 1, ";"); at != NULL; at = strtok(NULL, ";")) {
        if (s->n < FRAMES_MAX && *trim(at) != '\0')
            s->frame[s->n++] = trim(at);
    }
    return true;
}

static bool line_take(const char *line, const char *path, int number)
{
    struct suppression *s = calloc(1, sizeof *s);
    struct suppression **end = &all;

    s->text = strdup(line);
    s->line = strdup(line);
    while (*end != NULL)
        end = &(*end)->next;
    *end = s;
    return line_parse(s, path, number);
}

bool suppressions_read(const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t max = 0;
    int number = 0;
    bool is_good = true;

    if (file == NULL) {
        fprintf(stderr, "aclmem: --suppress %s: %s\n", path, strerror(errno));
        return false;
    }
    while (is_good && getline(&line, &max, file) > 0) {
        char *text = trim(line);

        number++;
        if (*text != '\0' && *text != '#')
            is_good = line_take(text, path, number);
    }
    if (is_good && ferror(file)) {
        fprintf(stderr, "aclmem: --suppress %s: %s\n", path, strerror(errno));
        is_good = false;
    }
    free(line);
    fclose(file);
    return is_good;
}

/* The name before the arguments of a demangled function, too. */
static bool frame_matches(const char *pattern, const json_t *frame)
{
    char at[4200];
    const char *file = text_of(frame, "file");
    const char *base = strrchr(file, '/');

    if (fnmatch(pattern, text_of(frame, "function"), 0) == 0 ||
        fnmatch(pattern, text_of(frame, "module"), 0) == 0)
        return true;
    snprintf(at, sizeof at, "%s:%lld", base != NULL ? base + 1 : file,
             number_of(frame, "line"));
    return file[0] != '\0' &&
           (fnmatch(pattern, at, 0) == 0 || fnmatch(pattern, file, 0) == 0);
}

static bool frames_match(const struct suppression *s, int i, const json_t *stack,
                         size_t at)
{
    if (i == s->n)
        return true;
    if (strcmp(s->frame[i], "...") == 0) {
        for (size_t k = at; k <= json_array_size(stack); k++) {
            if (frames_match(s, i + 1, stack, k))
                return true;
        }
        return false;
    }
    return at < json_array_size(stack) &&
           frame_matches(s->frame[i], json_array_get(stack, at)) &&
           frames_match(s, i + 1, stack, at + 1);
}

static bool matches(const struct suppression *s, const json_t *finding)
{
    json_t *calls = json_object_get(finding, "calls");
    json_t *call;
    json_t *frame;
    size_t i;
    size_t k;

    if (fnmatch(s->kind, text_of(finding, "kind"), 0) != 0)
        return false;
    if (s->n != 1)
        return frames_match(s, 0, json_object_get(json_array_get(calls, 0), "stack"), 0);
    json_array_foreach (calls, i, call) {
        json_array_foreach (json_object_get(call, "stack"), k, frame) {
            if (frame_matches(s->frame[0], frame))
                return true;
        }
    }
    return false;
}

bool suppressions_match(const json_t *finding)
{
    for (struct suppression *s = all; s != NULL; s = s->next) {
        if (matches(s, finding)) {
            s->used++;
            return true;
        }
    }
    return false;
}

void suppression_print(const json_t *finding)
{
    json_t *stack =
        json_object_get(json_array_get(json_object_get(finding, "calls"), 0), "stack");
    json_t *frame;
    size_t i;

    fprintf(stderr, "%s: ", text_of(finding, "kind"));
    json_array_foreach (stack, i, frame) {
        fprintf(stderr, "%s%s", i > 0 ? "; " : "", text_of(frame, "function"));
        if (strcmp(text_of(frame, "function"), "main") == 0)
            break;
    }
    fprintf(stderr, "  # why?\n");
}

void suppressions_summary(void)
{
    for (struct suppression *s = all; s != NULL; s = s->next) {
        if (s->used > 0)
            fprintf(stderr, "aclmem: suppressed %lld: %s\n", s->used, s->line);
        else
            fprintf(stderr, "aclmem: this suppression matched nothing: %s\n", s->line);
    }
}
