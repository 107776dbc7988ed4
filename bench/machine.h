/* The machine that the numbers are from. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdbool.h>

/* Whether the system has not turned transparent huge pages off. */
bool machine_has_huge_pages(void);

/* As lines, or as the beginning of a JSON object. */
void machine_print(bool is_json);

#endif
