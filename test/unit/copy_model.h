/*
 * Memory in scattered frames, and beside it a model: for each mem an array of what its
 * bytes should be, which knows nothing of frames.
 */
#ifndef TEST_UNIT_COPY_MODEL_H
#define TEST_UNIT_COPY_MODEL_H

#include "unit.h"

#include "backend/host/host.h"

#define N_MEMS 7
#define OWN_SIZE (3 * AM_CHUNK)

extern struct copy_model {
    struct am_bank *device;
    struct am_bank *host;
    struct am_mem mem[N_MEMS]; /* the last one is the host's */
    uint8_t *model[N_MEMS];
    uint8_t *own; /* the program's own memory, and what it should hold */
    uint8_t *own_model;
} t;

/* A test's setup and teardown. */
int model_begin(void **state);
int model_end(void **state);

struct am_bank *bank_open(bool is_isolated);
struct am_span whole(struct am_mem *mem);
bool frame_holds(struct am_mem *mem, size_t at);
/* What the system has given to an isolated bank. */
size_t bytes_held(struct am_bank *bank);

/* The engine and the model do the same. */
void copy_both(const struct am_span *to, const struct am_span *from, size_t size);
void fill_both(const struct am_span *to, size_t size, int value);

/* Every mem and the program's own memory hold what the model says. */
void assert_as_modelled(void);
void assert_same(const uint8_t *a, const uint8_t *b, size_t size);
void assert_zero(const uint8_t *bytes, size_t size);

#endif
