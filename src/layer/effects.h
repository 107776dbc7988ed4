/* What a function does, as flags: calls.def. */
#ifndef AM_LAYER_EFFECTS_H
#define AM_LAYER_EFFECTS_H

enum am_effect {
    AM_MAKES = 1 << 0,
    AM_FREES = 1 << 1,
    AM_RETAINS = 1 << 2,
    AM_USES = 1 << 3,
    AM_READS = 1 << 4,
    AM_WRITES = 1 << 5,
    AM_QUEUES = 1 << 6,
    AM_ORDERS = 1 << 7,
    AM_ASKS_ERROR = 1 << 8,
    AM_ENDS = 1 << 9,
    AM_QUERIES = 1 << 10,
    AM_LINTS = 1 << 11,
};

#endif
