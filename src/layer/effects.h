/*
 * What each function does, as flags: calls.def.
 *
 * AM_EFFECT_aclrtFree is AM_FREES: a constant for each row, so that the table of a layer
 * can leave out what the layer does not track.
 */
#ifndef AM_LAYER_EFFECTS_H
#define AM_LAYER_EFFECTS_H

#define AM_EFFECTS(X) \
    X(MAKES) \
    X(FREES) \
    X(RETAINS) \
    X(USES) \
    X(READS) \
    X(WRITES) \
    X(QUEUES) \
    X(ORDERS) \
    X(SETS) \
    X(ASKS_ERROR) \
    X(ENDS) \
    X(QUERIES) \
    X(LINTS)

enum {
#define AM_EFFECT_BIT(name_) AM_BIT_##name_,
    AM_EFFECTS(AM_EFFECT_BIT)
#undef AM_EFFECT_BIT
};

enum am_effect {
    AM_NONE = 0,
#define AM_EFFECT_FLAG(name_) AM_##name_ = 1 << AM_BIT_##name_,
    AM_EFFECTS(AM_EFFECT_FLAG)
#undef AM_EFFECT_FLAG
};

enum {
#define AM_CALL(name_, effect_, stream_, before_, after_, lint_) \
    AM_EFFECT_##name_ = effect_,
#include "layer/calls.def"
#undef AM_CALL
};

#endif
