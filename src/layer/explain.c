/*
 * What is said without any layer: why a program that touches device memory dies, and that
 * it leaves memory behind.
 *
 * The handler is installed only if the program has none.  It writes one line,
 * takes itself away and returns, so that the same instruction faults again and the process
 * dies as it would have, with the same signal and the same core.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "base/sys.h"
#include "core/watch.h"
#include "layer/finding.h"
#include "layer/layers.h"
#include "layer/symbols.h"

static atomic_bool is_installed;
static pid_t owner;

/* snprintf of numbers allocates nothing; the line is one write(). */
static void touch_print(uintptr_t addr, const struct am_watch_place *place)
{
    char line[512];
    int n = snprintf(line, sizeof line,
                     "aclmem: error: the program touched device memory: 0x%" PRIxPTR
                     " is byte %zu of the %s of %zu bytes at 0x%" PRIxPTR
                     " on device %d. On an NPU, too, the host cannot: copy it "
                     "(aclrtMemcpy), ask for a "
                     "view (aclmem_host_view), or set ACLMEM_ISOLATE=0\n",
                     addr, (size_t)(addr - place->start), place->what, place->size,
                     place->start, place->device);

    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* there is nowhere to say it */
}

static void reserved_print(uintptr_t addr)
{
    char line[256];
    int n = snprintf(line, sizeof line,
                     "aclmem: error: the program touched 0x%" PRIxPTR
                     ", near reserved addresses with no memory behind them that the host "
                     "could reach\n",
                     addr);

    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return;
}

static uintptr_t instruction_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    return 0;
#endif
}

/* Whether the access that faulted was a write; where the machine does not say: it was. */
static bool is_write_fault(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    return true;
#endif
}

static void fault_explain(int number, siginfo_t *info, void *context)
{
    uintptr_t addr = (uintptr_t)info->si_addr;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    struct am_watch_place place;
    int error = errno;

    if (info->si_code == SEGV_ACCERR &&
        am_touch_let(addr, instruction_of(context), is_write_fault(context))) {
        errno = error;
        return;
    }
    sigaction(number, &plain, NULL); /* first: a fault in here ends it as well */
    if (am_watch_find(addr, &place)) {
        if (!am_touch_report(addr, instruction_of(context)))
            touch_print(addr, &place);
    } else if (addr < AM_NULL_MAX) {
        am_touch_report(addr, instruction_of(context));
    } else if (info->si_code == SEGV_ACCERR && am_watch_is_reserved(addr)) {
        if (!am_touch_report(addr, instruction_of(context)))
            reserved_print(addr);
    }
}

/*
 * A stack for the handler: the program's stack may have overflowed.  Where a layer
 * reports more, naming frames takes much of it; pages that are not used cost nothing.
 */
static void stack_give(void)
{
    size_t size = am_check_is_on() ? AM_SYMBOLS_STACK : 64 * 1024;
    stack_t now;
    stack_t more = {.ss_size = size};

    if (sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE))
        return;
    more.ss_sp = am_sys_mmap(NULL, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more.ss_sp != MAP_FAILED && sigaltstack(&more, NULL) != 0)
        munmap(more.ss_sp, size);
}

void am_explain_open(void)
{
    struct sigaction now;
    struct sigaction ours = {.sa_sigaction = fault_explain,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK};

    owner = getpid();
    if (am_option_number(AM_OPTION_explain) == 0 || is_installed)
        return;
    if (sigaction(SIGSEGV, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) ||
        now.sa_handler != SIG_DFL)
        return; /* the program, or a sanitizer, has one */
    sigemptyset(&ours.sa_mask);
    stack_give();
    is_installed = sigaction(SIGSEGV, &ours, NULL) == 0;
}

bool am_explain_handles(void)
{
    struct sigaction now;

    return is_installed && sigaction(SIGSEGV, NULL, &now) == 0 &&
           (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == fault_explain;
}

void am_explain_close(void)
{
    struct sigaction now;
    struct sigaction plain = {.sa_handler = SIG_DFL};

    if (!is_installed)
        return;
    is_installed = false;
    if (sigaction(SIGSEGV, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == fault_explain)
        sigaction(SIGSEGV, &plain, NULL);
}

/* ---- what is left ---- */

static void count_add(char *text, size_t size, uint64_t n, const char *what)
{
    size_t at = strlen(text);

    if (n > 0)
        snprintf(text + at, size - at, "%s%" PRIu64 " %s%s", at > 0 ? ", " : "", n, what,
                 n > 1 ? "s" : "");
}

static void left_print(const struct am_watch_left *left, const char *when)
{
    char text[160] = "";
    char size[32];

    if (owner != getpid() || am_check_is_on() || am_option_number(AM_OPTION_explain) == 0)
        return; /* a child of fork has nothing; the layer check reports more */
    count_add(text, sizeof text, left->blocks, "block");
    count_add(text, sizeof text, left->host_blocks, "pinned block");
    count_add(text, sizeof text, left->managed_blocks, "managed block");
    count_add(text, sizeof text, left->handles, "physical allocation");
    if (text[0] != '\0')
        am_log_note(AM_LOG_WARN, "%s, %s, still there at %s; aclmem run shows where from",
                    text, am_size_text(left->size, size, sizeof size), when);
}

void am_explain_left(const char *when)
{
    struct am_watch_left left = am_watch_count();

    left_print(&left, when);
}

void am_explain_reset(const struct am_watch_left *before)
{
    struct am_watch_left left = am_watch_count();

    /* Other threads may have allocated and freed since. */
    if (left.size >= before->size || left.blocks > before->blocks ||
        left.handles > before->handles)
        return;
    left = (struct am_watch_left){.blocks = before->blocks - left.blocks,
                                  .handles = before->handles - left.handles,
                                  .size = before->size - left.size};
    left_print(&left, "the last aclrtResetDevice");
}

__attribute__((destructor)) static void process_end(void)
{
    if (am_api_top != &am_api_boot && am_api_top != &am_api_down &&
        am_api_top != &am_api_forked)
        am_explain_left("the end of the process");
}
