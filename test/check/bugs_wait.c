/* Waits that nothing ends. */
#include "bugs.h"

const struct bug wait_bugs[] = {
    {NULL},
};
