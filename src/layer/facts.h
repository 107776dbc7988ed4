/* What each function does, as flags: facts.def. */
#ifndef AM_LAYER_FACTS_H
#define AM_LAYER_FACTS_H

enum am_fact {
    AM_FACT_NONE = 0,
    AM_FACT_MAKES = 1u << 0,
    AM_FACT_FREES = 1u << 1,
    AM_FACT_RETAINS = 1u << 2,
    AM_FACT_USES = 1u << 3,
    AM_FACT_READS = 1u << 4,
    AM_FACT_WRITES = 1u << 5,
    AM_FACT_QUEUES = 1u << 6,
    AM_FACT_ORDERS = 1u << 7,
    AM_FACT_SETS = 1u << 8,
    AM_FACT_ASKS_ERROR = 1u << 9,
    AM_FACT_ENDS = 1u << 10,
    AM_FACT_LOOKS = 1u << 11,
    AM_FACT_LINTS = 1u << 12,
};

/*
 * AM_FACTS_aclrtFree is FREES: a constant for each row, so that a layer's table can leave
 * out what it does not care about.  Tables go through the rows of api.def and take
 * AM_FACTS_ + the name, so a function that has no row here does not compile.
 */
#define NONE AM_FACT_NONE
#define MAKES AM_FACT_MAKES
#define FREES AM_FACT_FREES
#define RETAINS AM_FACT_RETAINS
#define USES AM_FACT_USES
#define READS AM_FACT_READS
#define WRITES AM_FACT_WRITES
#define QUEUES AM_FACT_QUEUES
#define ORDERS AM_FACT_ORDERS
#define SETS AM_FACT_SETS
#define ASKS_ERROR AM_FACT_ASKS_ERROR
#define ENDS AM_FACT_ENDS
#define LOOKS AM_FACT_LOOKS
#define LINTS AM_FACT_LINTS
enum am_facts {
#define AM_FACT(name_, what_) AM_FACTS_##name_ = what_,
#include "layer/facts.def"
#undef AM_FACT
};
#undef NONE
#undef MAKES
#undef FREES
#undef RETAINS
#undef USES
#undef READS
#undef WRITES
#undef QUEUES
#undef ORDERS
#undef SETS
#undef ASKS_ERROR
#undef ENDS
#undef LOOKS
#undef LINTS

#endif
