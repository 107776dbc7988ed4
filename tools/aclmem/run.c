/*
 * aclmem run: a program under the layer check.
 *
 * The findings are printed when they happen, and summed up at the end.  The exit code is
 * the program's own, unless there are findings and it is 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "findings.h"
#include "page.h"
#include "program.h"
#include "run.h"
#include "text.h"
#include "trace/reader.h"

struct run_choice run_choice = {
    .exit_code = 99, .stall_timeout = 5, .is_following = true};

/* Every word of --check is known; says otherwise. */
static bool check_is_good(const char *list)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        const char *word = strncmp(list, "no-", 3) == 0 ? list + 3 : list;
        size_t word_n = n - (size_t)(word - list);
        bool is_set = (word_n == 3 && memcmp(word, "all", 3) == 0) ||
                      (word_n == 7 && memcmp(word, "default", 7) == 0) ||
                      (strcmp(list, "none") == 0 && run_choice.trace != NULL);

        if (word_n == 0 || (!is_set && !kind_is_known(word, word_n))) {
            fprintf(stderr,
                    "aclmem run: --check: there is no kind \"%.*s\"; these are:\n",
                    (int)n, list);
            kinds_print(stderr);
            return false;
        }
        list += n + (list[n] == ',');
    }
    return true;
}

void run_setup(struct program_setup *setup, char *check, size_t n, char *stall_timeout,
               size_t stall_timeout_n)
{
    memset(setup, 0, sizeof *setup);
    snprintf(check, n, "%s%s", run_choice.check != NULL ? run_choice.check : "default",
             run_choice.is_lint ? ",portability" : "");
    snprintf(stall_timeout, stall_timeout_n, "%ld", run_choice.stall_timeout);
    setup->layers = run_choice.trace == NULL     ? "check"
                    : strcmp(check, "none") == 0 ? "trace"
                                                 : "trace,check";
    setup->trace = run_choice.trace;
    setup->stacks = run_choice.stacks;
    setup->over = run_choice.over;
    setup->check = strcmp(check, "none") == 0 ? NULL : check;
    setup->stall_timeout = stall_timeout;
    setup->rules = run_choice.is_strict ? "strict" : NULL;
    setup->functions_wait = run_choice.do_functions_wait ? "1" : NULL;
    setup->follows = run_choice.is_following;
    if (run_choice.fail != NULL) {
        setup->layers = run_choice.trace != NULL ? "trace,check,fail" : "check,fail";
        setup->fail = run_choice.fail;
    }
}

void run_findings(struct findings *findings, const char *folder)
{
    memset(findings, 0, sizeof *findings);
    findings_open(findings, folder);
    findings->is_lint = run_choice.is_lint;
    findings->is_over = run_choice.over != NULL;
    findings->is_silent = run_choice.is_silent;
    findings->generates = run_choice.is_generating;
}

int run_exit_code(size_t n_findings, int code)
{
    return n_findings > 0 && code == 0 ? (int)run_choice.exit_code : code;
}

static int reports_write(const struct findings *findings, char **argv,
                         const struct program_end *end)
{
    json_t *more =
        json_pack("{s:i, s:i, s:f, s:o}", "exit_code", end->code, "signal", end->signal,
                  "seconds", end->seconds, "program", text_json(argv[0]));
    int rc = 0;

    if (run_choice.json != NULL)
        rc |= report_json(run_choice.json, findings, more);
    if (run_choice.junit != NULL)
        rc |= report_junit(run_choice.junit, findings, argv[0], end->code);
    json_decref(more);
    return rc;
}

static int once(char **argv)
{
    struct program_setup setup;
    struct program_end end = {0};
    struct findings findings;
    char check[1024];
    char stall_timeout[24];
    char *folder = folder_make();
    long long all;
    size_t n;
    int rc;

    if (folder == NULL)
        return 1;
    run_setup(&setup, check, sizeof check, stall_timeout, sizeof stall_timeout);
    run_findings(&findings, folder);
    rc = program_run(argv, &setup, &findings, &end);
    folder_remove(folder);
    n = findings_count(&findings, &all);
    if (rc == 0) {
        if (!run_choice.is_silent) {
            if (end.signal != 0)
                fprintf(stderr, "aclmem: the program was ended by signal %d (%s)\n",
                        end.signal, strsignal(end.signal));
            if (setup.check != NULL)
                findings_summary(&findings);
            if (run_choice.trace != NULL && run_choice.report == NULL)
                fprintf(stderr, "aclmem: recorded; view it with: aclmem report %s\n",
                        run_choice.trace);
        }
        if (run_choice.report != NULL)
            rc = page_write(run_choice.trace, run_choice.report, run_choice.is_replacing,
                            setup.check != NULL ? findings.list : NULL);
        rc |= reports_write(&findings, argv, &end);
        rc = rc != 0 ? EXIT_USAGE : run_exit_code(n, end.code);
    }
    findings_close(&findings);
    return rc;
}

/*
 * With --trace: the file is one for all processes of the run.  Its name is made absolute,
 * since the program may work in another folder.
 */
static bool trace_prepare(void)
{
    static char path[PATH_MAX];
    char why[TRACE_WHY_SIZE];
    char folder[PATH_MAX];

    if (run_choice.trace[0] != '/' && getcwd(folder, sizeof folder) != NULL &&
        snprintf(path, sizeof path, "%s/%s", folder, run_choice.trace) < PATH_MAX)
        run_choice.trace = path;
    if (trace_create(run_choice.trace, run_choice.is_replacing, why) >= 0)
        return true;
    fprintf(stderr, "aclmem run: %s: %s\n", run_choice.trace, why);
    return false;
}

/*
 * The files that are written when the program has ended can be written now: a mistake in a
 * name must not cost the run.
 */
static bool outputs_are_good(void)
{
    const char *const paths[] = {run_choice.json, run_choice.junit, run_choice.report};
    struct stat status;

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        int fd;

        if (paths[i] == NULL || strcmp(paths[i], "-") == 0)
            continue;
        if (paths[i] == run_choice.report && !run_choice.is_replacing &&
            stat(paths[i], &status) == 0 && S_ISREG(status.st_mode)) {
            fprintf(stderr, "aclmem run: %s: it exists; --force replaces it\n", paths[i]);
            return false;
        }
        fd = open(paths[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT) { /* a run that is refused leaves no empty file */
            fd = open(paths[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (fd >= 0)
                unlink(paths[i]);
        }
        if (fd < 0) {
            fprintf(stderr, "aclmem run: %s: %s\n", paths[i], strerror(errno));
            return false;
        }
        close(fd);
    }
    return true;
}

/* Options that would have no effect are refused; says which. */
static bool options_agree(void)
{
    bool is_each = run_choice.each[0] != '\0';

    if (run_choice.report != NULL && run_choice.trace == NULL)
        usage_fail("run", "--report makes a page of --trace FILE");
    else if (run_choice.stacks != NULL && run_choice.trace == NULL)
        usage_fail("run", "--stacks is for --trace FILE");
    else if (run_choice.trace != NULL && run_choice.chaos != NULL)
        usage_fail("run", "--trace records one run, and --chaos makes many");
    else if (run_choice.trace != NULL && is_each)
        usage_fail("run", "--trace records one run, and --fail %s makes many",
                   run_choice.fail);
    else if (run_choice.chaos != NULL && is_each)
        usage_fail("run", "--chaos and --fail %s both make many runs; choose one",
                   run_choice.fail);
    else if (run_choice.junit != NULL && is_each)
        usage_fail("run", "--junit has no form for --fail %s; --json has",
                   run_choice.fail);
    else if (run_choice.has_torch_npu && run_choice.over != NULL)
        usage_fail("run", "--torch-npu is for aclmem's device, and --over for an NPU");
    else if (run_choice.is_all && !is_each)
        usage_fail("run", "--all is for --fail FUNCTION:each");
    else
        return true;
    return false;
}

/* With --over: the library's absolute path, which must be readable. */
static bool over_prepare(void)
{
    static char path[PATH_MAX];

    if (realpath(run_choice.over, path) == NULL || access(path, R_OK) != 0) {
        fprintf(stderr, "aclmem run: --over %s: %s\n", run_choice.over, strerror(errno));
        return false;
    }
    run_choice.over = path;
    return true;
}

static int run(int argc, char **argv)
{
    int rc;

    if (run_choice.is_listing) {
        kinds_print(stdout);
        return 0;
    }
    if (argc == 0)
        return usage_fail("run", "which program?");
    if (run_choice.check != NULL && !check_is_good(run_choice.check))
        return EXIT_USAGE;
    if (run_choice.exit_code > 255)
        return usage_fail("run", "--exit-code takes 0 to 255");
    for (int i = 0; i < run_choice.suppress.n; i++) {
        if (!suppressions_read(run_choice.suppress.text[i]))
            return EXIT_USAGE;
    }
    if (run_choice.fail != NULL && !fail_parse())
        return EXIT_USAGE;
    if (!options_agree())
        return EXIT_USAGE;
    if (run_choice.over != NULL && (!over_prepare() || !program_can_run_over()))
        return EXIT_USAGE;
    if (run_choice.has_torch_npu && !program_use_torch_npu())
        return EXIT_USAGE;
    rc = program_check(argv);
    if (rc != 0)
        return rc;
    argv[argc] = NULL;
    if (!outputs_are_good())
        return EXIT_USAGE;
    if (run_choice.trace != NULL && !trace_prepare())
        return EXIT_USAGE;
    if (run_choice.is_verbose)
        setenv("ACLMEM_LOG", "refusals", 0);
    if (run_choice.each[0] != '\0')
        return each_run(argv, run_choice.each);
    if (run_choice.chaos != NULL)
        return chaos_run(argv);
    return once(argv);
}

static const struct option options[] = {
    {"check", OPTION_TEXT, &run_choice.check, "LIST",
     "Look for these mistakes, separated by commas: default, all,\n"
     "kinds (race), families (leak); no- leaves one out",
     0},
    {"strict", OPTION_FLAG, &run_choice.is_strict, NULL,
     "Refuse calls that some edition of CANN refuses\n(ACLMEM_RULES=strict)", 0},
    {"lint", OPTION_FLAG, &run_choice.is_lint, NULL,
     "Report calls that some edition or product refuses, and let\nthem pass", 0},
    {"chaos", OPTION_TEXT, &run_choice.chaos, "SEEDS",
     "Run the program once for each seed: 1..50, or 3,7", 0},
    {"trace", OPTION_TEXT, &run_choice.trace, "FILE",
     "Record every call, too; --check none only records", 0},
    {"stacks", OPTION_WORD, &run_choice.stacks, "none|fast|full",
     "Record the frames of each call: none, the innermost 48\n(fast, the default), or up "
     "to 512 (full)",
     0},
    {"over", OPTION_TEXT, &run_choice.over, "LIBRARY",
     "Check a program that uses the vendor's libascendcl.so, on an\nNPU", 0},
    {"torch-npu", OPTION_FLAG, &run_choice.has_torch_npu, NULL,
     "Let import torch_npu of a Python program find aclmem's\nstand-in, on aclmem.npu",
     0},
    {"report", OPTION_TEXT, &run_choice.report, "PAGE",
     "Write a page about the trace and the findings", 0},
    {"force", OPTION_FLAG, &run_choice.is_replacing, NULL,
     "Replace an existing FILE of --trace and PAGE of --report", 0},
    {"fail", OPTION_TEXT, &run_choice.fail, "FUNCTION:N",
     "Fail the Nth call; N+ fails all later calls too, N=CODE\n"
     "chooses the code. FUNCTION:each runs the program again for\n"
     "each call and fails that one; each@CALLER fails only calls\n"
     "of CALLER. Names may have * in them",
     0},
    {"all", OPTION_FLAG, &run_choice.is_all, NULL,
     "With FUNCTION:each: fail every call, not three of each stack", 0},
    {"stall-timeout", OPTION_NUMBER, &run_choice.stall_timeout, "SECONDS",
     "Report a wait that nothing can end after this time (default:\n5)", 0},
    {"patience", OPTION_NUMBER, &run_choice.stall_timeout, "SECONDS",
     "The name of --stall-timeout until 0.2.0", 0},
    {"list-checks", OPTION_FLAG, &run_choice.is_listing, NULL,
     "Print the kinds of findings, and which are on by default", 0},
    {"functions-wait", OPTION_FLAG, &run_choice.do_functions_wait, NULL,
     "Host functions of the program wait for its threads", 0},
    {"exit-code", OPTION_NUMBER, &run_choice.exit_code, "N",
     "Exit with N if there are findings and the program exited\nwith 0 (default: 99)", 0},
    {"json", OPTION_OUTPUT, &run_choice.json, "FILE",
     "Print the findings as JSON, or write them to FILE", 'j'},
    {"junit", OPTION_TEXT, &run_choice.junit, "FILE", "Write the findings as JUnit XML",
     0},
    {"suppress", OPTION_LIST, &run_choice.suppress, "FILE",
     "Leave out findings that match a line of FILE:\nkind: frame; ...; frame  # why", 0},
    {"gen-suppressions", OPTION_FLAG, &run_choice.is_generating, NULL,
     "Print such a line with each finding", 0},
    {"quiet", OPTION_FLAG, &run_choice.is_silent, NULL,
     "Print nothing but the output of the program", 'q'},
    {"verbose", OPTION_FLAG, &run_choice.is_verbose, NULL,
     "Print each refused call with its reason (ACLMEM_LOG=refusals)", 'v'},
    {"follow-children", OPTION_FLAG, &run_choice.is_following, NULL,
     "Check processes that the program starts, too (default;\n--no-follow-children does "
     "not)",
     0},
    {0},
};

static const struct exit_code exits[] = {
    {"N", "the exit code of the program"},
    {"99", "there are findings and the program exited with 0 (--exit-code)"},
    {"126", "the program cannot be executed"},
    {"127", "there is no such program"},
    {"128+N", "the program was ended by signal N"},
    {0},
};

const struct command run_command = {
    .name = "run",
    .group = GROUP_CHECK,
    .operands = "[--] PROGRAM [ARGUMENTS]",
    .help = "Run a program and report its mistakes with memory and streams",
    .options = options,
    .examples =
        "  aclmem run ./program                     Report mistakes\n"
        "  aclmem run --chaos 1..50 ./program       Run work of streams late, in 50 "
        "ways\n"
        "  aclmem run --fail 'aclrtMalloc:each' ./program\n"
        "                                           Fail each allocation in turn\n"
        "  aclmem run --trace t --report t.html ./program\n"
        "                                           Record it, and make a page\n"
        "  aclmem run --json=findings.json --junit findings.xml ./program\n"
        "                                           Write the findings for CI\n",
    .exits = exits,
    .is_runner = true,
    .run = run,
};
