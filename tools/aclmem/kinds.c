/* The kinds of findings, for the options that name them. */
#include <stdio.h>
#include <string.h>

#include "findings.h"

static const struct {
    const char *name;
    const char *help;
    bool is_default;
} kinds[] = {
#define AM_KIND(id_, name_, is_default_, help_) {name_, help_, is_default_},
#include "layer/kinds.def"
#undef AM_KIND
};

#define N_KINDS (sizeof kinds / sizeof kinds[0])

bool kind_is_known(const char *name, size_t n)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        if (strncmp(kinds[i].name, name, n) == 0 &&
            (kinds[i].name[n] == '\0' || kinds[i].name[n] == '.'))
            return true;
    }
    return false;
}

void kinds_print(FILE *out)
{
    for (size_t i = 0; i < N_KINDS; i++)
        fprintf(out, "  %-17s %s%s\n", kinds[i].name, kinds[i].help,
                kinds[i].is_default ? "" : " (not by default)");
}
