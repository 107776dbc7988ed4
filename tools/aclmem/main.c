/*
 * The command aclmem: finds the subcommand, gives help.
 *
 * A new subcommand is a file with a struct command (command.h) and a line here.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "aclmem/aclmem.h"
#include "command.h"

static const struct command *const commands[] = {
    &run_command, &trace_command,  &report_command, &convert_command, &info_command,
    &top_command, &replay_command, &facts_command,  &fabric_command,  &describe_command,
    NULL,
};

#define N_COMMANDS (sizeof commands / sizeof commands[0] - 1)

const struct command *const *commands_all(void)
{
    return commands;
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

static int help(const struct command *command)
{
    printf("usage:\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (command == NULL || command == commands[i])
            options_help(commands[i]);
    }
    if (command == NULL)
        printf("  aclmem --help [COMMAND] | --version\n");
    return 0;
}

/* "WHAT; the commands are run, trace, ..." */
static int command_fail(const char *what, const char *name)
{
    char list[256] = "";
    size_t n = 0;

    for (size_t i = 0; i < N_COMMANDS && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "",
                              commands[i]->name);
    return usage_fail(NULL, "%s%s%s; the commands are %s", what, name,
                      name[0] != '\0' ? "\"" : "", list);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/*
 * Help is given wherever it is asked for, but not where the word is an argument of the
 * program that is run.
 */
static bool wants_help(const struct command *command, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (is_help(argv[i]))
            return true;
        if (command->is_runner && argv[i][0] != '-')
            return false;
    }
    return false;
}

static int run(int argc, char **argv)
{
    const struct command *command;
    int n;

    if (argc < 2)
        return command_fail("no command was given", "");
    if ((is_help(argv[1]) || strcmp(argv[1], "help") == 0) && argc == 2)
        return help(NULL);
    if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
        command = command_find(argv[2]);
        return command != NULL ? help(command)
                               : command_fail("there is no command \"", argv[2]);
    }
    if (strcmp(argv[1], "--version") == 0 && argc == 2) {
        printf("aclmem %s\n", aclmem_version());
        return 0;
    }
    command = command_find(argv[1]);
    if (command == NULL)
        return command_fail("there is no command \"", argv[1]);
    if (wants_help(command, argc, argv))
        return help(command);
    n = options_parse(command, argc - 2, argv + 2);
    return n < 0 ? EXIT_USAGE : command->run(n, argv + 2);
}

/* Above ulimit -f a write fails with EFBIG instead of ending the command. */
static void file_limit_ignore(int signal)
{
}

/* A result that could not be written is no success: a disk may be full. */
int main(int argc, char **argv)
{
    int rc;

    signal(SIGXFSZ, file_limit_ignore); /* not SIG_IGN: programs would inherit it */
    rc = run(argc, argv);

    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    fprintf(stderr, "aclmem: the output could not be written: %m\n");
    return rc != 0 ? rc : 1;
}
