/* Options of subcommands, by their tables. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

#define NAME_MAX_LENGTH 63

const struct exit_code exits_common[] = {
    {"0", "success"},
    {"1", "failure; a message on standard error names the reason"},
    {"2", "wrong arguments"},
    {0},
};

int usage_fail(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "aclmem%s%s: ", command != NULL ? " " : "",
            command != NULL ? command : "");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: aclmem %s%s--help\n", command != NULL ? command : "",
            command != NULL ? " " : "");
    return EXIT_USAGE;
}

/* Characters that differ; two that changed places are one difference. */
static size_t edit_distance(const char *a, size_t a_n, const char *b, size_t b_n)
{
    size_t row[3][NAME_MAX_LENGTH + 1]; /* this one, the one before, and before that */

    if (a_n > NAME_MAX_LENGTH || b_n > NAME_MAX_LENGTH)
        return SIZE_MAX;
    for (size_t k = 0; k <= b_n; k++)
        row[0][k] = k;
    for (size_t i = 1; i <= a_n; i++) {
        memcpy(row[2], row[1], sizeof row[1]);
        memcpy(row[1], row[0], sizeof row[0]);
        row[0][0] = i;
        for (size_t k = 1; k <= b_n; k++) {
            size_t least = row[1][k - 1] + (a[i - 1] != b[k - 1]);

            if (row[1][k] + 1 < least)
                least = row[1][k] + 1;
            if (row[0][k - 1] + 1 < least)
                least = row[0][k - 1] + 1;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                row[2][k - 2] + 1 < least)
                least = row[2][k - 2] + 1;
            row[0][k] = least;
        }
    }
    return row[0][b_n];
}

void near_try(struct near *near, const char *name, size_t name_n)
{
    size_t distance = edit_distance(near->text, near->n, name, name_n);
    size_t most = near->n <= 4 ? 1 : 2;

    /* A beginning of the name is near, too. */
    if (near->n > 2 && near->n < name_n && strncmp(near->text, name, near->n) == 0)
        distance = 1;
    if (near->n == 0 || distance > most ||
        (near->best != NULL && distance >= near->distance))
        return;
    near->best = name;
    near->distance = distance;
}

static const struct option *option_find(const struct option *options, const char *name,
                                        size_t n)
{
    for (; options != NULL && options->name != NULL; options++) {
        if (strlen(options->name) == n && strncmp(options->name, name, n) == 0)
            return options;
    }
    return NULL;
}

static int option_unknown(const struct command *command, const char *text, size_t n)
{
    struct near near = {.text = text + 2, .n = n > 2 ? n - 2 : 0};

    for (const struct option *o = command->options; o != NULL && o->name != NULL; o++)
        near_try(&near, o->name, strlen(o->name));
    near_try(&near, "help", 4);
    if (near.best != NULL)
        usage_fail(command->name, "there is no option %.*s; did you mean --%s?", (int)n,
                   text, near.best);
    else
        usage_fail(command->name, "there is no option %.*s", (int)n, text);
    return -1;
}

/* Whether a value is one of the words of an option; if not, prints them. */
static bool word_check(const struct command *command, const struct option *option,
                       const char *value)
{
    struct near near = {.text = value, .n = strlen(value)};
    size_t n;

    for (const char *word = option->takes; *word != '\0'; word += n + (word[n] == '|')) {
        n = strcspn(word, "|");
        if (n == near.n && strncmp(word, value, n) == 0)
            return true;
        near_try(&near, word, n);
    }
    if (near.best != NULL)
        usage_fail(command->name, "--%s is \"%s\"; did you mean %.*s?", option->name,
                   value, (int)strcspn(near.best, "|"), near.best);
    else
        usage_fail(command->name, "--%s is \"%s\", and takes %s", option->name, value,
                   option->takes);
    return false;
}

static bool number_parse(const char *text, long *ret_number)
{
    char *end;

    errno = 0;
    *ret_number = strtol(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *ret_number >= 0;
}

/* Stores `value`; 0, or -1 after printing what is wrong. */
static int option_store(const struct command *command, const struct option *option,
                        const char *value)
{
    struct option_texts *texts;

    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->into = true;
        break;
    case OPTION_WORD:
        if (!word_check(command, option, value))
            return -1;
        /* fallthrough */
    case OPTION_TEXT:
    case OPTION_OUTPUT:
        *(const char **)option->into = value;
        break;
    case OPTION_LIST:
        texts = option->into;
        if (texts->n == sizeof texts->text / sizeof texts->text[0]) {
            usage_fail(command->name, "more than %d times --%s", texts->n, option->name);
            return -1;
        }
        texts->text[texts->n++] = value;
        break;
    case OPTION_NUMBER:
        if (!number_parse(value, option->into)) {
            usage_fail(command->name, "--%s is \"%s\", and takes a number from 0",
                       option->name, value);
            return -1;
        }
        break;
    }
    return 0;
}

/* `run --json FILE.json PROGRAM`, the form of version 0.2. */
static bool is_output_word(const struct command *command, const char *word)
{
    size_t n = strlen(word);

    return command->is_runner &&
           (strcmp(word, "-") == 0 || (n > 5 && strcmp(word + n - 5, ".json") == 0));
}

/*
 * Stores an option whose value is `value` if it was given with the option, or else the next
 * word, argv[1], if the option needs one.  Returns how many words that takes up, or -1.
 */
static int option_apply(const struct command *command, const struct option *option,
                        const char *value, int argc, char **argv)
{
    if (option->kind == OPTION_FLAG && value != NULL) {
        usage_fail(command->name, "--%s takes no value", option->name);
        return -1;
    }
    if (option->kind == OPTION_OUTPUT && value == NULL &&
        (argc < 2 || !is_output_word(command, argv[1])))
        value = "-";
    if (option->kind == OPTION_FLAG || value != NULL)
        return option_store(command, option, value) == 0 ? 1 : -1;
    if (argc < 2) {
        usage_fail(command->name, "--%s needs %s", option->name, option->takes);
        return -1;
    }
    return option_store(command, option, argv[1]) == 0 ? 2 : -1;
}

static int option_long(const struct command *command, int argc, char **argv)
{
    const char *name = argv[0] + 2;
    const char *equals = strchr(name, '=');
    size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct option *option = option_find(command->options, name, n);

    if (option == NULL && strncmp(name, "no-", 3) == 0 && equals == NULL) {
        option = option_find(command->options, name + 3, n - 3);
        if (option != NULL && option->kind == OPTION_FLAG) {
            *(bool *)option->into = false;
            return 1;
        }
        option = NULL;
    }
    if (option == NULL)
        return option_unknown(command, argv[0], n + 2);
    return option_apply(command, option, equals != NULL ? equals + 1 : NULL, argc, argv);
}

/* "-q", "-qv", "-oFILE", or "-o" and FILE as the next word. */
static int option_short(const struct command *command, int argc, char **argv)
{
    for (const char *letter = argv[0] + 1;; letter++) {
        const struct option *o = command->options;

        while (o != NULL && o->name != NULL && o->letter != *letter)
            o++;
        if (o == NULL || o->name == NULL)
            return option_unknown(command, argv[0], strlen(argv[0]));
        if (o->kind != OPTION_FLAG || letter[1] == '\0')
            return option_apply(command, o, letter[1] != '\0' ? letter + 1 : NULL, argc,
                                argv);
        *(bool *)o->into = true;
    }
}

int options_parse(const struct command *command, int argc, char **argv)
{
    bool is_over = false; /* after "--", or after a program's name */
    int n = 0;

    for (int i = 0; i < argc;) {
        int taken = 1;

        if (is_over || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[n++] = argv[i];
            is_over |= command->is_runner;
        } else if (strcmp(argv[i], "--") == 0) {
            is_over = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            command_help(command);
            return OPTIONS_HELP;
        } else if (argv[i][1] != '-') {
            taken = option_short(command, argc - i, argv + i);
        } else {
            taken = option_long(command, argc - i, argv + i);
        }
        if (taken < 0)
            return -1;
        i += taken;
    }
    if (n > 0 && command->operands[0] == '\0') {
        usage_fail(command->name, "it takes no \"%s\"", argv[0]);
        return -1;
    }
    return n;
}

/* ---- help ---- */

void option_title(const struct option *option, char *text, size_t n)
{
    char letter[8] = "";

    if (option->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    if (option->kind == OPTION_OUTPUT)
        snprintf(text, n, "%s--%s[=%s]", letter, option->name, option->takes);
    else
        snprintf(text, n, "%s--%s%s%s", letter, option->name,
                 option->takes != NULL ? " " : "",
                 option->takes != NULL ? option->takes : "");
}

static void option_help(const char *title, const char *help)
{
    printf("  %-22s", title);
    if (strlen(title) > 21)
        printf("\n%24s", "");
    for (const char *end; (end = strchr(help, '\n')) != NULL; help = end + 1)
        printf("%.*s\n%24s", (int)(end - help), help, "");
    printf("%s\n", help);
}

const struct exit_code *exit_find(const struct exit_code *exits, const char *code)
{
    while (exits != NULL && exits->code != NULL && strcmp(exits->code, code) != 0)
        exits++;
    return exits != NULL && exits->code != NULL ? exits : NULL;
}

static void exits_help(const struct exit_code *own)
{
    for (const struct exit_code *e = exits_common; e->code != NULL; e++) {
        const struct exit_code *other = exit_find(own, e->code);

        printf("  %-7s %s\n", e->code, other != NULL ? other->means : e->means);
    }
    for (; own != NULL && own->code != NULL; own++) {
        if (exit_find(exits_common, own->code) == NULL)
            printf("  %-7s %s\n", own->code, own->means);
    }
}

void command_help(const struct command *command)
{
    char title[80];

    printf("usage: aclmem %s%s%s%s\n\n%s.\n\nOptions\n", command->name,
           command->options != NULL ? " [OPTIONS]" : "",
           command->operands[0] != '\0' ? " " : "", command->operands, command->help);
    for (const struct option *o = command->options; o != NULL && o->name != NULL; o++) {
        option_title(o, title, sizeof title);
        option_help(title, o->help);
    }
    option_help("-h, --help", "Print this help");
    if (command->examples != NULL)
        printf("\nExamples\n%s", command->examples);
    printf("\nExit codes\n");
    exits_help(command->exits);
}
