#include "support.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>

extern char **environ;

/* One test runs at a time, so this is all the state there is. */
static struct {
    bool has_baseline;
    size_t descriptors; /* before the first start() of the process */
    uint64_t warnings;  /* when the test began */
    uint64_t expected;  /* warnings the test announced */
    bool allows_any;
    char message[4096];
} now;

/* ---- options ---- */

static bool is_ours(const char *entry)
{
    /* The environment of the tests chooses the backend, or the test itself does. */
    if (strncmp(entry, "ACLMEM_BACKEND=", 15) == 0)
        return false;
    return strncmp(entry, "ACLMEM_", 7) == 0 || strncmp(entry, "ASCEND_RT_", 10) == 0;
}

static bool clear_one(void)
{
    for (char **e = environ; *e != NULL; e++) {
        char name[128];

        if (!is_ours(*e))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
        return unsetenv(name) == 0;
    }
    return false;
}

/*
 * The log level, layers, the kind of pages and the runtime directory, which is each test's
 * own, are afterwards what they were when the program began.
 */
void clear_options(void)
{
    static const char *const kept[] = {
        "ACLMEM_RUNTIME_DIR", "ACLMEM_LOG",        "ACLMEM_LAYERS",        "ACLMEM_CHECK",
        "ACLMEM_FINDINGS",    "ACLMEM_HUGE_PAGES", "ACLMEM_FUNCTIONS_WAIT"};
    static char *value[sizeof kept / sizeof kept[0]];
    static bool is_read;

    for (size_t i = 0; !is_read && i < sizeof kept / sizeof kept[0]; i++)
        value[i] = getenv(kept[i]) != NULL ? strdup(getenv(kept[i])) : NULL;
    is_read = true;
    while (clear_one())
        ;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (value[i] != NULL)
            setenv(kept[i], value[i], 1);
    }
}

static void set_option(const char *entry)
{
    char name[128];
    size_t len = strcspn(entry, "=");

    assert_int_equal(entry[len], '=');
    snprintf(name, sizeof(name), "%.*s", (int)len, entry);
    assert_int_equal(setenv(name, entry + len + 1, 1), 0);
}

static void begin(void)
{
    if (!now.has_baseline) {
        now.has_baseline = true;
        now.descriptors = open_descriptors();
    }
    now.warnings = stats().warnings;
    now.expected = 0;
    now.allows_any = false;
}

static void set_all(const char *rules, va_list args)
{
    const char *entry;

    clear_options();
    setenv("ACLMEM_RULES", rules, 1);
    setenv("ACLMEM_DEVICES", "2", 1);
    setenv("ACLMEM_MEMORY", "1G", 1);
    while ((entry = va_arg(args, const char *)) != NULL)
        set_option(entry);
}

void support_set_options(const char *rules, ...)
{
    va_list args;

    begin();
    va_start(args, rules);
    set_all(rules, args);
    va_end(args);
}

void support_start(const char *rules, ...)
{
    va_list args;

    begin();
    va_start(args, rules);
    set_all(rules, args);
    va_end(args);
    assert_acl_ok(aclInit(NULL));
}

static int start_with(const char *rules)
{
    start(rules);
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

int start_default(void **state)
{
    return start_with("default");
}

int start_strict(void **state)
{
    return start_with("strict");
}

/* ---- the end ---- */

void expect_warnings(uint64_t n)
{
    now.expected += n;
}

void allow_warnings(void)
{
    now.allows_any = true;
}

static bool can_lock(size_t size)
{
    struct rlimit limit = {0, 0};
    bool is_locked;
    void *p;

    /* As the library does it: up to the hard limit. */
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_MEMLOCK, &limit);
    }
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    is_locked = p != MAP_FAILED && mlock(p, size) == 0;
    if (p != MAP_FAILED)
        munmap(p, size);
    return is_locked;
}

bool rules_are_strict(void)
{
    return strcmp(getenv("ACLMEM_RULES"), "strict") == 0;
}

void need_locked(size_t size)
{
    if (can_lock(size))
        return;
    allow_warnings();
    if (!rules_are_strict())
        return;
    print_message("skipped: %zu bytes cannot be locked here (ulimit -l)\n", size);
    skip();
}

static bool complain(const char *what, uint64_t n, uint64_t expected)
{
    if (n == expected)
        return false;
    print_error("left behind: %s is %llu and should be %llu\n", what,
                (unsigned long long)n, (unsigned long long)expected);
    return true;
}

static bool is_alive_left(void)
{
    aclmem_stats s = stats();
    bool bad = false;

    bad |= complain("reservations", s.reservations, 0);
    bad |= complain("handles", s.handles, 0);
    bad |= complain("mappings", s.mappings, 0);
    bad |= complain("contexts", s.contexts, 0);
    bad |= complain("views", s.views, 0);
    return bad;
}

static bool is_system_left(void)
{
    const char *backend = getenv("ACLMEM_BACKEND");
    const char *layers = getenv("ACLMEM_LAYERS");
    bool bad = false;

    /* A driver opens descriptors of its own, and keeps them; so does a layer. */
    if (now.has_baseline && (backend == NULL || strcasecmp(backend, "cuda") != 0) &&
        (layers == NULL || layers[0] == '\0'))
        bad |= complain("open descriptors", open_descriptors(), now.descriptors);
    bad |= complain("mapped memfds", library_mappings(), 0);
    return bad;
}

int finish(void **state)
{
    bool bad = is_alive_left();

    if (!now.allows_any)
        bad |= complain("warnings", stats().warnings - now.warnings, now.expected);
    now.warnings = stats().warnings;
    now.expected = 0;
    now.allows_any = false;

    (void)aclFinalize(); /* refused where the test did it itself */
    forget_message();

    bad |= is_system_left();
    return bad ? -1 : 0;
}

int finish_group(void **state)
{
    bool bad = is_alive_left();

    bad |= is_system_left();
    return bad ? -1 : 0;
}

/* ---- running ---- */

/* Why a claim of this program cannot hold here; NULL: it must. */
static const char *why_not_here(const char *claim)
{
    static const struct {
        const char *program, *claim, *reason;
    } list[] = {
#define HOST_ONLY(program_, claim_, reason_) {program_, claim_, reason_},
#include "host_only.def"
#undef HOST_ONLY
    };
    const char *backend = getenv("ACLMEM_BACKEND");
    const char *program = program_invocation_short_name;

    if (backend == NULL || strcasecmp(backend, "cuda") != 0)
        return NULL;
    if (strncmp(program, "test_", 5) == 0)
        program += 5;
    if (strncmp(claim, "strict: ", 8) == 0)
        claim += 8;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        if (strcmp(program, list[i].program) == 0 && strcmp(claim, list[i].claim) == 0)
            return list[i].reason;
    }
    return NULL;
}

static void skip_with_reason(void **state)
{
    print_message("skipped: %s\n", (const char *)*state);
    skip();
}

int support_run(const struct CMUnitTest *claims, size_t n, CMFixtureFunction teardown)
{
    struct CMUnitTest *here = calloc(n, sizeof(*here));
    int rc;

    assert_non_null(here);
    for (size_t i = 0; i < n; i++) {
        const char *reason = why_not_here(claims[i].name);

        here[i] = claims[i];
        if (reason != NULL)
            here[i] = (struct CMUnitTest){claims[i].name, skip_with_reason, NULL, NULL,
                                          (void *)(uintptr_t)reason};
    }
    rc = _cmocka_run_group_tests("claims", here, n, NULL, teardown);
    free(here);
    return rc;
}

/* ---- codes and messages ---- */

static void keep_message(void)
{
    const char *text = aclGetRecentErrMsg();

    snprintf(now.message, sizeof(now.message), "%s", text == NULL ? "" : text);
}

void forget_message(void)
{
    (void)aclGetRecentErrMsg();
    now.message[0] = '\0';
}

const char *kept_message(void)
{
    return now.message;
}

/* Two letters of the family and four digits: EH0001, EE1003, EL0004. */
static bool starts_with_family(const char *text)
{
    if (text[0] != 'E' || !isupper((unsigned char)text[1]))
        return false;
    for (int i = 2; i < 6; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
    }
    return true;
}

void check_code(aclError got, aclError code, aclError other, const char *call,
                const char *file, int line)
{
    keep_message();
    if (got != code && got != other) {
        print_error("%s\n  gave %d, expected %d", call, got, code);
        if (other != code)
            print_error(" or %d", other);
        print_error("\n  message: %s\n", now.message);
        _fail(file, line);
    }
    if (got != ACL_SUCCESS && got != ACL_ERROR_REPEAT_INITIALIZE &&
        !starts_with_family(now.message)) {
        print_error("%s\n  gave %d and no message of a known family: \"%s\"\n", call, got,
                    now.message);
        _fail(file, line);
    }
}

static bool has_word(const char *text, const char *word, size_t len)
{
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, word, len) == 0)
            return true;
    }
    return false;
}

void check_message(const char *words, const char *file, int line)
{
    for (const char *word = words;; word++) {
        size_t len = strcspn(word, "|");

        if (has_word(now.message, word, len))
            return;
        word += len;
        if (*word == '\0')
            break;
    }
    print_error("the message does not say \"%s\": %s\n", words, now.message);
    _fail(file, line);
}

void check_message_address(const void *p, const char *file, int line)
{
    char text[32];

    snprintf(text, sizeof(text), "%p", p);
    check_message(text, file, line);
}

/* ---- what is alive ---- */

aclmem_stats stats(void)
{
    aclmem_stats s;

    memset(&s, 0xff, sizeof(s));
    if (aclmem_get_stats(&s) != ACL_SUCCESS)
        fail_msg("aclmem_get_stats failed");
    return s;
}

struct snapshot take_snapshot(void)
{
    struct snapshot s = {.stats = stats()};

    if (aclrtGetMemInfo(ACL_HBM_MEM, &s.free, &s.total) != ACL_SUCCESS)
        s.free = s.total = 0;
    return s;
}

static bool differs(const char *what, uint64_t was, uint64_t is)
{
    if (was == is)
        return false;
    print_error("%s was %llu and is %llu\n", what, (unsigned long long)was,
                (unsigned long long)is);
    return true;
}

void check_unchanged(const struct snapshot *before, const char *file, int line)
{
    struct snapshot is = take_snapshot();
    bool bad = false;

    bad |= differs("reservations", before->stats.reservations, is.stats.reservations);
    bad |= differs("handles", before->stats.handles, is.stats.handles);
    bad |= differs("mappings", before->stats.mappings, is.stats.mappings);
    bad |= differs("contexts", before->stats.contexts, is.stats.contexts);
    bad |= differs("views", before->stats.views, is.stats.views);
    bad |= differs("free memory", before->free, is.free);
    bad |= differs("total memory", before->total, is.total);
    if (bad) {
        print_error("changed by a call that gave: %s\n", now.message);
        _fail(file, line);
    }
}

size_t free_memory(void)
{
    size_t free = 0, total = 0;

    assert_acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    return free;
}

size_t total_memory(void)
{
    size_t free = 0, total = 0;

    assert_acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    return total;
}

size_t open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

size_t library_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[1024];
    size_t n = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        n += strstr(line, "memfd:aclmem") != NULL;
    fclose(maps);
    return n;
}
