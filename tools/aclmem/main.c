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
    &run_command,    &trace_command, &report_command,   &convert_command,
    &replay_command, &info_command,  &top_command,      &fabric_command,
    &doctor_command, &facts_command, &describe_command, NULL,
};

const char *const group_names[GROUP_COUNT] = {
    [GROUP_CHECK] = "Run and check", [GROUP_TRACE] = "Record and view",
    [GROUP_WATCH] = "Watch",         [GROUP_CLUSTER] = "Cluster",
    [GROUP_ABOUT] = "About aclmem",
};

const struct command *const *commands_all(void)
{
    return commands;
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

static int help(void)
{
    printf("usage: aclmem COMMAND [OPTIONS] [ARGUMENTS]\n");
    for (int group = 0; group < GROUP_COUNT; group++) {
        printf("\n%s\n", group_names[group]);
        for (size_t i = 0; commands[i] != NULL; i++) {
            if (commands[i]->group == (enum command_group)group)
                printf("  %-10s %s\n", commands[i]->name, commands[i]->help);
        }
    }
    printf(
        "\nExamples\n"
        "  aclmem run ./program                   Report the program's mistakes\n"
        "  aclmem run --trace t --report t.html ./program\n"
        "                                         Record it, and write a page\n"
        "  aclmem doctor                          Check this machine, for a bug report\n"
        "\naclmem COMMAND --help lists the options, examples and exit codes of a "
        "command.\n"
        "aclmem --version, -V prints the version.\n");
    return 0;
}

/* "WHAT; did you mean NAME?", or the list of commands. */
static int command_fail(const char *what, const char *name)
{
    struct near near = {.text = name, .n = strlen(name)};
    char list[256] = "";
    size_t n = 0;

    for (size_t i = 0; commands[i] != NULL && n < sizeof list; i++) {
        near_try(&near, commands[i]->name, strlen(commands[i]->name));
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "",
                              commands[i]->name);
    }
    near_try(&near, "--version", 9);
    near_try(&near, "--help", 6);
    if (near.best != NULL)
        return usage_fail(NULL, "%s%s\"; did you mean %s?", what, name, near.best);
    return usage_fail(NULL, "%s%s%s; the commands are %s", what, name,
                      name[0] != '\0' ? "\"" : "", list);
}

static bool is_word(const char *word, const char *full, const char *letter)
{
    return strcmp(word, full) == 0 || strcmp(word, letter) == 0;
}

static int run(int argc, char **argv)
{
    bool is_help =
        argc >= 2 && (is_word(argv[1], "--help", "-h") || strcmp(argv[1], "help") == 0);
    const struct command *command;
    int n;

    if (argc < 2)
        return command_fail("no command was given", "");
    if (is_help && (argc == 2 || strcmp(argv[2], "help") == 0))
        return help();
    if (is_word(argv[1], "--version", "-V") && argc == 2) {
        printf("aclmem %s\n", aclmem_version());
        return 0;
    }
    command = command_find(argv[is_help ? 2 : 1]);
    if (command == NULL)
        return command_fail("there is no command \"", argv[is_help ? 2 : 1]);
    if (is_help) {
        command_help(command);
        return 0;
    }
    n = options_parse(command, argc - 2, argv + 2);
    if (n == OPTIONS_HELP)
        return 0;
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
