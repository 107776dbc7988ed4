/* Options of subcommands, by their tables. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

int usage_fail(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "aclmem%s%s: ", command != NULL ? " " : "",
            command != NULL ? command : "");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: aclmem --help%s%s\n",
            command != NULL ? ", or aclmem --help " : "", command != NULL ? command : "");
    return EXIT_USAGE;
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

static bool number_parse(const char *text, long *ret_number)
{
    char *end;

    errno = 0;
    *ret_number = strtol(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *ret_number >= 0;
}

/* Stores `value`; 0, or -1 after saying what is wrong. */
static int option_store(const struct command *command, const struct option *option,
                        const char *value)
{
    struct option_texts *texts;

    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->into = true;
        break;
    case OPTION_TEXT:
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

/* The option at argv[0]; returns how many words it takes up, or -1. */
static int option_take(const struct command *command, int argc, char **argv)
{
    const char *name = argv[0] + 2;
    const char *equals = strchr(name, '=');
    size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct option *option = option_find(command->options, name, n);
    const char *value = equals != NULL ? equals + 1 : NULL;

    if (option == NULL && strncmp(name, "no-", 3) == 0 && value == NULL) {
        option = option_find(command->options, name + 3, n - 3);
        if (option != NULL && option->kind == OPTION_FLAG) {
            *(bool *)option->into = false;
            return 1;
        }
        option = NULL;
    }
    if (option == NULL) {
        usage_fail(command->name, "there is no option %s", argv[0]);
        return -1;
    }
    if (option->kind == OPTION_FLAG && value != NULL) {
        usage_fail(command->name, "--%s takes no value", option->name);
        return -1;
    }
    if (option->kind != OPTION_FLAG && value == NULL) {
        if (argc < 2) {
            usage_fail(command->name, "--%s needs %s", option->name, option->takes);
            return -1;
        }
        return option_store(command, option, argv[1]) == 0 ? 2 : -1;
    }
    return option_store(command, option, value) == 0 ? 1 : -1;
}

int options_parse(const struct command *command, int argc, char **argv)
{
    bool is_over = false; /* "--" was met, or a program's name */
    int n = 0;

    for (int i = 0; i < argc;) {
        int taken = 1;

        if (is_over || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[n++] = argv[i];
            is_over |= command->is_runner;
        } else if (strcmp(argv[i], "--") == 0) {
            is_over = true;
        } else if (argv[i][1] != '-') {
            usage_fail(command->name, "there is no option %s", argv[i]);
            return -1;
        } else {
            taken = option_take(command, argc - i, argv + i);
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

static void option_help(const struct option *option)
{
    char left[64];
    const char *line = option->help;

    snprintf(left, sizeof left, "--%s%s%s", option->name,
             option->takes != NULL ? " " : "",
             option->takes != NULL ? option->takes : "");
    printf("    %-22s", left);
    if (strlen(left) > 21)
        printf("\n%26s", "");
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        printf("%.*s\n%26s", (int)(end - line), line, "");
    printf("%s\n", line);
}

void options_help(const struct command *command)
{
    printf("  aclmem %s%s%s%s\n      %s\n", command->name,
           command->options != NULL ? " [OPTIONS]" : "",
           command->operands[0] != '\0' ? " " : "", command->operands, command->help);
    for (const struct option *o = command->options; o != NULL && o->name != NULL; o++)
        option_help(o);
}
