/* How the libraries of the toolkit say why. */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "toolkit/toolkit.h"

int aclmem_toolkit_fail(int code, const char *function, const char *fmt, ...)
{
    char what[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    am_error_function = function;
    am_error_report(code, "%s", what);
    return code;
}
