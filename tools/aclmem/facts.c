/*
 * aclmem facts: the program aclmem_facts beside this one.
 *
 * A separate program asks the questions, since this command is linked with
 * aclmem's libraries, and the questions are for whichever library is asked.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static struct {
    const char *device;
    const char *limit;
    const char *only;
    const char *compare;
    const char *with;
    bool is_list;
} choice;

/* The path of aclmem_facts, in the folder of this program. */
static bool program_find(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 16);

    if (n <= 0)
        return false;
    path[n] = '\0';
    if (strrchr(path, '/') == NULL)
        return false;
    strcpy(strrchr(path, '/') + 1, "aclmem_facts");
    return true;
}

static int facts_run(int argc, char **argv)
{
    const struct {
        const char *name;
        const char *value;
    } given[] = {
        {"--device", choice.device},   {"--limit", choice.limit}, {"--only", choice.only},
        {"--compare", choice.compare}, {"--with", choice.with},
    };
    const char *arguments[16] = {"aclmem_facts"};
    char path[PATH_MAX];
    int n = 1;

    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i].value == NULL)
            continue;
        arguments[n++] = given[i].name;
        arguments[n++] = given[i].value;
    }
    if (choice.is_list)
        arguments[n++] = "--list";
    if (program_find(path, sizeof path))
        execv(path, (char **)arguments);
    fprintf(stderr, "aclmem facts: aclmem_facts, beside this program: %s\n",
            strerror(errno));
    return EXIT_NOT_FOUND;
}

static const struct option options[] = {
    {"device", OPTION_TEXT, &choice.device, "N", "Ask this device (default: 0)", 0},
    {"limit", OPTION_TEXT, &choice.limit, "SECONDS",
     "End a question after this time (default: 20)", 0},
    {"only", OPTION_TEXT, &choice.only, "FACT", "Ask this question only", 0},
    {"list", OPTION_FLAG, &choice.is_list, NULL, "List the questions", 0},
    {"compare", OPTION_TEXT, &choice.compare, "FILE",
     "Compare the results of another machine with those of this\nlibrary for the same "
     "product",
     0},
    {"with", OPTION_TEXT, &choice.with, "FILE",
     "With --compare: use these results instead of this library's", 0},
    {0},
};

static const struct exit_code exits[] = {
    {"127", "the program aclmem_facts is not installed"},
    {0},
};

const struct command facts_command = {
    .name = "facts",
    .group = GROUP_ABOUT,
    .operands = "",
    .help = "Ask a libascendcl.so small questions, and print a line for each",
    .options = options,
    .examples =
        "  aclmem facts > npu.txt              Record the results of this machine\n"
        "  aclmem facts --compare npu.txt      Compare them with this library\n",
    .exits = exits,
    .run = facts_run,
};
