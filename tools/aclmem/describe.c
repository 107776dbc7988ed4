/*
 * aclmem describe: the command itself, for shells and for man.
 *
 * Completions and the manual page are made from the tables that parse the arguments, so
 * they cannot disagree with them.  The environment's options come from aclmem_info().
 */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclmem/aclmem.h"
#include "command.h"
#include "text.h"

#define FOR_EACH_OPTION(o_, command_) \
    for (const struct option *o_ = (command_)->options; o_ != NULL && o_->name != NULL; \
         o_++)

static bool is_file(const struct option *o)
{
    static const char *const files[] = {"FILE", "PAGE", "JSON", "LIBRARY"};

    for (size_t i = 0; o->takes != NULL && i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(o->takes, files[i]) == 0)
            return true;
    }
    return false;
}

/* The words that an option takes, with a space between two. */
static void words_print(const struct option *o)
{
    for (const char *at = o->takes; *at != '\0'; at++)
        putchar(*at == '|' ? ' ' : *at);
}

/* The operands that are typed as they are, those in small letters. */
static void operands_print(const struct command *command)
{
    size_t n;

    for (const char *at = command->operands; *at != '\0'; at += n) {
        n = strcspn(at, " |");
        if (strspn(at, "abcdefghijklmnopqrstuvwxyz") == n)
            printf("%.*s ", (int)n, at);
        n += strspn(at + n, " |");
    }
}

static bool has_operands(const struct command *command)
{
    return command->operands[0] >= 'a' && command->operands[0] <= 'z';
}

static void names_print(const struct command *const *commands)
{
    for (size_t i = 0; commands[i] != NULL; i++)
        printf("%s ", commands[i]->name);
}

/* Text in one line; characters of `specials` get a backslash. */
static void line_print(const char *text, const char *specials)
{
    for (; *text != '\0'; text++) {
        if (strchr(specials, *text) != NULL)
            putchar('\\');
        putchar(*text == '\n' ? ' ' : *text);
    }
}

/* ---- bash ---- */

static void bash_print(const struct command *const *commands)
{
    printf("# bash completion for aclmem, made by: aclmem describe bash\n"
           "_aclmem() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} options operands\n"
           "    COMPREPLY=()\n"
           "    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        printf("    %s) options='", commands[i]->name);
        FOR_EACH_OPTION(o, commands[i])
        {
            printf("--%s%s ", o->name,
                   o->kind == OPTION_FLAG || o->kind == OPTION_OUTPUT ? "" : "=");
            if (o->letter != 0)
                printf("-%c ", o->letter);
        }
        printf("--help' operands='");
        operands_print(commands[i]);
        printf("' ;;\n");
    }
    printf("    help) operands='");
    names_print(commands);
    printf("' ;;\n");
    /* bash takes "--to=folded" for three words. */
    printf("    esac\n"
           "    local before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    if [ \"$word\" = = ]; then word=; elif [ \"$before\" = = ]; then "
           "before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
           "    case \"${COMP_WORDS[1]} $before\" in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        FOR_EACH_OPTION(o, commands[i])
        {
            if (o->kind != OPTION_WORD)
                continue;
            printf("    '%s --%s') COMPREPLY=($(compgen -W '", commands[i]->name,
                   o->name);
            words_print(o);
            printf("' -- \"$word\")); return ;;\n");
        }
    }
    printf("    esac\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W '");
    names_print(commands);
    printf("help --help --version' -- \"$word\"))\n"
           "    elif [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
           "        COMPREPLY=($(compgen -W \"$operands\" -- \"$word\"))\n"
           "    fi\n"
           "    [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null\n"
           "}\n"
           "complete -o default -F _aclmem aclmem\n");
}

/* ---- zsh ---- */

/* Both forms of an option; only one of them may be given, unless it is a list. */
static void zsh_option(const struct option *o)
{
    for (int is_short = 0; is_short < 1 + (o->letter != 0); is_short++) {
        printf(" \\\n            \"%s", o->kind == OPTION_LIST ? "*" : "");
        if (is_short)
            printf("-%c%s[", o->letter, o->kind == OPTION_FLAG ? "" : "+");
        else
            printf("--%s%s[", o->name,
                   o->kind == OPTION_FLAG     ? ""
                   : o->kind == OPTION_OUTPUT ? "=-"
                                              : "=");
        line_print(o->help, "\"$`\\[]");
        printf("]");
        if (o->kind == OPTION_WORD) {
            printf(":%s:(", o->name);
            words_print(o);
            printf(")");
        } else if (o->kind != OPTION_FLAG) {
            printf("%s%s:%s", o->kind == OPTION_OUTPUT ? "::" : ":", o->takes,
                   is_file(o) ? "_files" : "");
        }
        printf("\"");
    }
}

static void zsh_print(const struct command *const *commands)
{
    printf("#compdef aclmem\n"
           "# zsh completion for aclmem, made by: aclmem describe zsh\n"
           "_aclmem() {\n"
           "    local -a commands=(\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        printf("        \"%s:", commands[i]->name);
        line_print(commands[i]->help, "\"$`\\");
        printf("\"\n");
    }
    printf("    )\n"
           "    if (( CURRENT == 2 )); then\n"
           "        _describe command commands\n"
           "        return\n"
           "    fi\n"
           "    local command=$words[2]\n"
           "    if [[ $command == help ]]; then\n"
           "        _describe command commands\n"
           "        return\n"
           "    fi\n"
           "    shift words\n"
           "    (( CURRENT-- ))\n"
           "    case $command in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        printf("    %s)\n        _arguments -S \\\n"
               "            \"(- *)\"{-h,--help}\"[Print help]\"",
               commands[i]->name);
        FOR_EACH_OPTION(o, commands[i])
        {
            zsh_option(o);
        }
        if (has_operands(commands[i])) {
            printf(" \\\n            \"1:operand:(");
            operands_print(commands[i]);
            printf(")\"");
        }
        if (commands[i]->operands[0] != '\0')
            printf(" \\\n            \"%s\"",
                   commands[i]->is_runner ? "*::program:_normal" : "*:file:_files");
        printf("\n        ;;\n");
    }
    printf("    esac\n}\n_aclmem \"$@\"\n");
}

/* ---- fish ---- */

static void fish_print(const struct command *const *commands)
{
    printf("# fish completion for aclmem, made by: aclmem describe fish\n"
           "complete -c aclmem -l help -s h -d 'Print help'\n"
           "complete -c aclmem -n __fish_use_subcommand -l version -s V -d 'Print the "
           "version'\n"
           "complete -c aclmem -f -n __fish_use_subcommand -a help -d 'Print help'\n"
           "complete -c aclmem -f -n '__fish_seen_subcommand_from help' -a '");
    names_print(commands);
    printf("'\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        const char *name = commands[i]->name;

        printf("complete -c aclmem -f -n __fish_use_subcommand -a %s -d '", name);
        line_print(commands[i]->help, "'\\");
        printf("'\n");
        if (has_operands(commands[i])) {
            printf("complete -c aclmem -n '__fish_seen_subcommand_from %s' -a '", name);
            operands_print(commands[i]);
            printf("'\n");
        }
        FOR_EACH_OPTION(o, commands[i])
        {
            printf("complete -c aclmem -n '__fish_seen_subcommand_from %s' -l %s%s", name,
                   o->name,
                   o->kind == OPTION_FLAG || o->kind == OPTION_OUTPUT ? ""
                   : is_file(o)                                       ? " -r -F"
                                                                      : " -x");
            if (o->kind == OPTION_WORD) {
                printf(" -a '");
                words_print(o);
                printf("'");
            }
            if (o->letter != 0)
                printf(" -s %c", o->letter);
            printf(" -d '");
            line_print(o->help, "'\\");
            printf("'\n");
        }
    }
}

/* ---- man ---- */

/* Text of a page: a dash stays a dash, and no line begins with a request. */
static void roff_print(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if ((at == text || at[-1] == '\n') && (*at == '.' || *at == '\''))
            printf("\\&");
        if (*at == '-')
            printf("\\-");
        else if (*at == '\\')
            printf("\\e");
        else
            putchar(*at);
    }
    putchar('\n');
}

static void man_environment(void)
{
    json_t *info, *option;
    char *text;
    size_t i;

    if (aclmem_info(&text) != 0)
        return;
    info = json_loads(text, 0, NULL);
    free(text);
    printf(".SH ENVIRONMENT\n");
    json_array_foreach (json_object_get(info, "options"), i, option) {
        const char *preset = text_of(option, "default");

        printf(".TP\n.B %s\n", text_of(option, "name"));
        roff_print(text_of(option, "help"));
        if (preset[0] != '\0')
            printf("(default: %s)\n", preset);
    }
    json_decref(info);
}

static void man_exits(const struct exit_code *exits, const char *command)
{
    for (; exits != NULL && exits->code != NULL; exits++) {
        printf(".TP\n.B %s\n", exits->code);
        if (command[0] != '\0')
            printf("aclmem %s: ", command);
        roff_print(exits->means);
    }
}

static void man_print(const struct command *const *commands)
{
    printf(".TH ACLMEM 1 \"\" \"aclmem %s\" \"User Commands\"\n"
           ".SH NAME\naclmem \\- AscendCL memory programs on a machine without an NPU\n"
           ".SH SYNOPSIS\n",
           aclmem_version());
    for (size_t i = 0; commands[i] != NULL; i++) {
        printf(".B aclmem %s\n", commands[i]->name);
        printf("%s", commands[i]->options != NULL ? "[OPTIONS] " : "");
        roff_print(commands[i]->operands);
        printf(".br\n");
    }
    printf(".B aclmem \\-\\-help\n[COMMAND]\n.br\n.B aclmem \\-\\-version\n"
           ".SH DESCRIPTION\n"
           "aclmem is a software runtime for the memory side of AscendCL: programs that\n"
           "manage the memory of Ascend NPUs run on any Linux machine.\n"
           ".SH COMMANDS\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        printf(".SS aclmem %s\n", commands[i]->name);
        roff_print(commands[i]->help);
        FOR_EACH_OPTION(o, commands[i])
        {
            char title[80];

            option_title(o, title, sizeof title);
            printf(".TP\n.B ");
            roff_print(title);
            roff_print(o->help);
        }
        if (commands[i]->examples != NULL) {
            printf(".PP\nExamples:\n.PP\n.nf\n");
            roff_print(commands[i]->examples);
            printf(".fi\n");
        }
    }
    man_environment();
    printf(".SH FILES\n.TP\n.I /opt/aclmem/set_env.sh\n"
           "sets the variables that builds for Ascend read\n"
           ".SH EXIT STATUS\n");
    man_exits(exits_common, "");
    for (size_t i = 0; commands[i] != NULL; i++)
        man_exits(commands[i]->exits, commands[i]->name);
}

/* ---- the command ---- */

static int describe_run(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(const struct command *const *commands);
    } forms[] = {{"bash", bash_print},
                 {"zsh", zsh_print},
                 {"fish", fish_print},
                 {"man", man_print}};

    for (size_t i = 0; argc == 1 && i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(argv[0], forms[i].name) == 0) {
            forms[i].print(commands_all());
            return 0;
        }
    }
    return usage_fail("describe", "for which of bash, zsh, fish, man?");
}

const struct command describe_command = {
    .name = "describe",
    .group = GROUP_ABOUT,
    .operands = "bash|zsh|fish|man",
    .help = "Print completions for a shell, or the manual page",
    .examples =
        "  aclmem describe bash > ~/.local/share/bash-completion/completions/aclmem\n"
        "  aclmem describe man | man -l -      Read the manual page\n",
    .run = describe_run,
};
