/*
 * The options: one list (options.def), three ways in, one place to ask.
 *
 * The environment wins over the file, the file over the default.  Options are read when
 * the library starts and do not change while it runs.
 */
#ifndef AM_BASE_OPTIONS_H
#define AM_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum am_option {
#define AM_OPTION(id_, type_, default_, choices_, help_) AM_OPTION_##id_,
#include "base/options.def"
#undef AM_OPTION
    AM_OPTION_COUNT,
};

/* The number of ACLMEM_HUGE_PAGES: the place of its word in options.def. */
enum am_huge_pages {
    AM_HUGE_PAGES_AUTO,
    AM_HUGE_PAGES_ALWAYS,
    AM_HUGE_PAGES_NEVER,
};

#define AM_WHY_SIZE 512 /* room for the reason of a refusal */

/* Back to the defaults. */
void am_options_reset(void);

/*
 * Sets an option by its id ("rules") from the file: 0, -ENOENT if the option does not exist,
 * -EINVAL if the value is not valid.  `why` is then the reason, in AM_WHY_SIZE bytes.
 */
int am_options_set(const char *id, const char *value, char *why);

/*
 * Reads ACLMEM_* from the environment: 0, or -EINVAL with the reason for the first value that
 * is not valid.  All valid ones are set.
 */
int am_options_read_environment(char *why);

/*
 * Walks over the ACLMEM_* variables that are no option: returns the next one, or NULL at
 * the end, and the known name that may have been meant, or NULL.  *pos starts at 0.
 */
const char *am_options_next_unknown(size_t *pos, const char **ret_nearest);

/*
 * The number of an option: a choice's place in its list, a count, bytes; 0 or 1 for a flag,
 * and for a text whether there is one.
 */
int64_t am_option_number(enum am_option option);
bool am_option_is_set(enum am_option option);      /* not the default */
const char *am_option_text(enum am_option option); /* valid until the next start */
/* All that is known of it; the name is valid until the thread's next call. */
struct am_option_row {
    const char *name; /* "ACLMEM_RULES" */
    const char *value;
    const char *preset;
    const char *help;
};
struct am_option_row am_option_row(enum am_option option);
/*
 * By the full name, "ACLMEM_RULES", valid until the process ends; NULL if the option does not
 * exist, or there is no memory.  The caller has the runtime's lock.
 */
const char *am_option_give(const char *name);

/*
 * The known word nearest to `word`, among n, for "did you mean"; NULL when none is near.
 */
const char *am_nearest(const char *word, const char *const *known, size_t n);

#endif
