/* The machine that the numbers are from. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdbool.h>

/* As lines, or as the beginning of a JSON object. */
void machine_print(bool is_json);

#endif
