/*
 * aclmem run --fail: the option is checked before the program starts.
 *
 * PATTERN:N, PATTERN:N+ and PATTERN:N=CODE go to the layer fail as they are (ACLMEM_FAIL).
 * PATTERN:each, with @CALLER and =CODE behind it, is for each.c.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

static const char *const names[] = {
#define AM_API(ret_, name_, ...) #name_,
#include "api/api.def"
};

static bool pattern_is_good(const char *pattern)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (fnmatch(pattern, names[i], 0) == 0)
            return true;
    }
    usage_fail("run", "--fail: aclmem has no function \"%s\"", pattern);
    return false;
}

static bool code_is_good(const char *code)
{
    char *end = NULL;

    return strtol(code, &end, 10) != 0 && *end == '\0';
}

/* The text behind "PATTERN:". */
static bool when_is_good(const char *when)
{
    char *end;

    if (when[0] < '0' || when[0] > '9' || strtoull(when, &end, 10) == 0)
        return false;
    end += *end == '+';
    return *end == '\0' || (*end == '=' && code_is_good(end + 1));
}

/* The text behind "PATTERN:each" is "@CALLER", "=CODE", both or nothing. */
static bool each_take(const char *text)
{
    const char *code = text + strcspn(text, "=");

    if (text[0] != '\0' && text[0] != '@' && text[0] != '=')
        return false;
    if (text[0] == '@' && code == text + 1)
        return false;
    if (*code == '=' && !code_is_good(code + 1))
        return false;
    snprintf(run_choice.fail_code, sizeof run_choice.fail_code, "%s", code);
    if (text[0] == '@')
        snprintf(run_choice.fail_caller, sizeof run_choice.fail_caller, "%.*s",
                 (int)(code - text - 1), text + 1);
    return true;
}

bool fail_parse(void)
{
    const char *text = run_choice.fail;
    const char *each = strstr(text, ":each");
    const char *colon = each != NULL ? each : strrchr(text, ':');
    char pattern[sizeof run_choice.each];

    if (colon == NULL || colon == text || colon - text >= (int)sizeof pattern ||
        !(each != NULL ? each_take(each + 5) : when_is_good(colon + 1))) {
        usage_fail(
            "run",
            "--fail is \"%s\", and takes FUNCTION:N, FUNCTION:N+, FUNCTION:N=CODE or "
            "FUNCTION:each",
            text);
        return false;
    }
    snprintf(pattern, sizeof pattern, "%.*s", (int)(colon - text), text);
    if (each != NULL)
        memcpy(run_choice.each, pattern, sizeof pattern);
    return pattern_is_good(pattern);
}
