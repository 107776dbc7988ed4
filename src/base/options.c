/* See options.h. */
#include "base/options.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/sys.h"

#define VALUE_SIZE 128
#define PREFIX "ACLMEM_"
#define FAR 4 /* changed letters from which on a name is not meant */

extern char **environ;

enum type { CHOICE, COUNT, SIZE, FLAG, TEXT };

static const struct {
    const char *id;
    enum type type;
    const char *preset;
    const char *choices;
    const char *help;
} options[AM_OPTION_COUNT] = {
#define AM_OPTION(id_, type_, default_, choices_, help_) \
    [AM_OPTION_##id_] = {#id_, type_, default_, choices_, help_},
#include "base/options.def"
#undef AM_OPTION
};

/* Written by a start of the library, under the runtime's lock, when no call is active. */
static struct {
    char text[VALUE_SIZE];
    _Atomic int64_t number;
    atomic_bool is_set;
} values[AM_OPTION_COUNT];

/* Values that the program has got: valid until the process ends.  The runtime's lock. */
static struct given {
    struct given *next;
    char text[VALUE_SIZE];
} * all_given;

/* The place of word in "one|two|three", or -1. */
static int64_t choice_find(const char *choices, const char *word)
{
    size_t n = strlen(word);

    for (int64_t i = 0;; i++) {
        size_t len = strcspn(choices, "|");

        if (len == n && strncasecmp(choices, word, n) == 0)
            return i;
        choices += len;
        if (*choices++ == '\0')
            return -1;
    }
}

static int64_t parse_count(const char *text, const char *limits)
{
    char *end;
    long long low = strtoll(limits, &end, 10);
    long long high = strtoll(end + 1, NULL, 10);
    long long n;

    if (!isdigit((unsigned char)text[0]))
        return -1;
    n = strtoll(text, &end, 10);
    return *end == '\0' && n >= low && n <= high ? n : -1;
}

/* Whether `text` may follow the K of a size. */
static bool is_unit_end(const char *text)
{
    return text[0] == '\0' || strcasecmp(text, "B") == 0 || strcasecmp(text, "iB") == 0;
}

/* Bytes of "64G"; -1 when it is not a size.  An empty text is 0. */
static int64_t parse_size(const char *text)
{
    static const char units[] = "KMGT";
    unsigned long long n;
    int shift = 0;
    char *end;

    if (text[0] == '\0')
        return 0;
    if (!isdigit((unsigned char)text[0]))
        return -1;
    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno != 0 || n == 0)
        return -1;
    if (*end != '\0') {
        const char *unit = strchr(units, toupper((unsigned char)*end));

        if (unit == NULL || !is_unit_end(end + 1))
            return -1;
        shift = 10 * (int)(unit - units + 1);
    }
    return n <= (unsigned long long)INT64_MAX >> shift ? (int64_t)(n << shift) : -1;
}

static int64_t parse(enum am_option option, const char *text)
{
    switch (options[option].type) {
    case CHOICE:
        return choice_find(options[option].choices, text);
    case COUNT: /* one that need not be given may be empty */
        if (text[0] == '\0' && options[option].preset[0] == '\0')
            return 0;
        return parse_count(text, options[option].choices);
    case SIZE:
        return parse_size(text);
    case FLAG:
        return choice_find("0|1", text);
    case TEXT:
        return text[0] != '\0';
    }
    return -1;
}

static const char *wanted(enum am_option option)
{
    switch (options[option].type) {
    case SIZE:
        return "bytes with K, M, G or T, such as 64G";
    case FLAG:
        return "1 or 0";
    case TEXT:
        return "fewer than 128 characters";
    default:
        return options[option].choices;
    }
}

static int option_store(enum am_option option, const char *text, const char *name,
                        char *why)
{
    int64_t number = strlen(text) < VALUE_SIZE ? parse(option, text) : -1;

    if (number < 0) {
        snprintf(why, AM_WHY_SIZE, "%s is \"%.64s\"; it takes %s", name, text,
                 wanted(option));
        return -EINVAL;
    }
    snprintf(values[option].text, VALUE_SIZE, "%s", text);
    values[option].number = number;
    values[option].is_set = true;
    return 0;
}

void am_options_reset(void)
{
    for (int i = 0; i < AM_OPTION_COUNT; i++) {
        snprintf(values[i].text, VALUE_SIZE, "%s", options[i].preset);
        values[i].number = parse((enum am_option)i, options[i].preset);
        values[i].is_set = false;
    }
}

/* The option called name (any case), or AM_OPTION_COUNT. */
static enum am_option option_find(const char *id)
{
    int i = 0;

    while (i < AM_OPTION_COUNT && strcasecmp(options[i].id, id) != 0)
        i++;
    return (enum am_option)i;
}

/* "ACLMEM_RULES" of "rules". */
static const char *full_name(enum am_option option)
{
    static const char *const names[AM_OPTION_COUNT] = {
#define AM_OPTION(id_, type_, default_, choices_, help_) [AM_OPTION_##id_] = PREFIX #id_,
#include "base/options.def"
#undef AM_OPTION
    };
    static _Thread_local char name[32];
    size_t i = 0;

    for (; names[option][i] != '\0' && i < sizeof name - 1; i++)
        name[i] = (char)toupper((unsigned char)names[option][i]);
    name[i] = '\0';
    return name;
}

/* The option's id nearest to `id`, or NULL when none is near. */
static const char *near_id(const char *id)
{
    const char *known[AM_OPTION_COUNT];

    for (int i = 0; i < AM_OPTION_COUNT; i++)
        known[i] = options[i].id;
    return am_nearest(id, known, AM_OPTION_COUNT);
}

int am_options_set(const char *id, const char *value, char *why)
{
    enum am_option option = option_find(id);
    const char *near = near_id(id);

    if (option != AM_OPTION_COUNT)
        return option_store(option, value, id, why);
    snprintf(why, AM_WHY_SIZE, "there is no option \"%.64s\"%s%s%s", id,
             near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
             near != NULL ? "\"?" : "");
    return -ENOENT;
}

#define OLD_STALL_TIMEOUT "ACLMEM_PATIENCE" /* its name until 0.2.0 */

int am_options_read_environment(char *why)
{
    char later[AM_WHY_SIZE];
    int first = 0;

    for (int i = 0; i < AM_OPTION_COUNT; i++) {
        const char *name = full_name((enum am_option)i);
        const char *text = secure_getenv(name);
        int rc;

        if (text == NULL && i == AM_OPTION_stall_timeout)
            text = secure_getenv(name = OLD_STALL_TIMEOUT);
        if (text == NULL)
            continue;
        rc = option_store((enum am_option)i, text, name, first == 0 ? why : later);
        if (first == 0)
            first = rc;
    }
    return first;
}

/* The option with this full name, or AM_OPTION_COUNT. */
static enum am_option full_name_find(const char *name)
{
    int i = 0;

    if (strcmp(name, OLD_STALL_TIMEOUT) == 0)
        return AM_OPTION_stall_timeout;
    while (i < AM_OPTION_COUNT && strcmp(full_name((enum am_option)i), name) != 0)
        i++;
    return (enum am_option)i;
}

const char *am_options_next_unknown(size_t *pos, const char **ret_nearest)
{
    static _Thread_local char name[64]; /* of a longer name, its beginning */

    for (; environ != NULL && environ[*pos] != NULL; (*pos)++) {
        const char *entry = environ[*pos];
        const char *near;
        size_t n = strcspn(entry, "=");

        if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0)
            continue;
        if (n >= sizeof name)
            n = sizeof name - 1;
        memcpy(name, entry, n);
        name[n] = '\0';
        if (full_name_find(name) != AM_OPTION_COUNT ||
            strcmp(name, PREFIX "TORCH_LIBRARY") == 0) /* of the module aclmem.torch */
            continue;
        near = near_id(name + strlen(PREFIX));
        *ret_nearest = near != NULL ? full_name(option_find(near)) : NULL;
        (*pos)++;
        return name;
    }
    return NULL;
}

int64_t am_option_number(enum am_option option)
{
    return values[option].number;
}

bool am_option_is_set(enum am_option option)
{
    return values[option].is_set;
}

const char *am_option_text(enum am_option option)
{
    return values[option].text;
}

/* The permanent copy of a value; equal values have one copy.  NULL: no memory. */
static const char *give(const char *text)
{
    struct given *given = all_given;

    while (given != NULL && strcmp(given->text, text) != 0)
        given = given->next;
    if (given == NULL) {
        given = am_sys_malloc(sizeof *given);
        if (given == NULL)
            return NULL;
        snprintf(given->text, VALUE_SIZE, "%s", text);
        given->next = all_given;
        all_given = given;
    }
    return given->text;
}

const char *am_option_give(const char *name)
{
    enum am_option option = full_name_find(name);

    if (option == AM_OPTION_COUNT)
        return NULL;
    return values[option].is_set ? give(values[option].text) : options[option].preset;
}

struct am_option_row am_option_row(enum am_option option)
{
    return (struct am_option_row){
        .name = full_name(option),
        .value = am_option_text(option),
        .preset = options[option].preset,
        .help = options[option].help,
    };
}

/* Edit distance, for words of up to 31 characters; longer ones are as far as can be. */
static unsigned word_distance(const char *a, const char *b)
{
    unsigned row[32];
    size_t n_a = strlen(a);
    size_t n_b = strlen(b);

    if (n_a > 31 || n_b > 31)
        return 32;
    for (unsigned j = 0; j <= n_b; j++)
        row[j] = j;
    for (unsigned i = 1; i <= n_a; i++) {
        unsigned diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            bool is_same =
                tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            unsigned best = diagonal + !is_same;

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n_b];
}

const char *am_nearest(const char *word, const char *const *known, size_t n)
{
    const char *best = NULL;
    unsigned least = FAR;

    for (size_t i = 0; i < n; i++) {
        unsigned distance = word_distance(word, known[i]);

        if (distance < least) {
            least = distance;
            best = known[i];
        }
    }
    return best;
}
