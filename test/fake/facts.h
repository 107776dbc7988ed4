/*
 * Facts about the NVIDIA driver, each a small function that tries something and says what
 * came of it.
 *
 * Each fact runs in a process of its own, so that one may break its context, hang or crash
 * without harm to the others.  What it says must not depend on the machine: codes, yes and
 * no, sizes that are rules; no addresses and no times.  What is no rule has no fact: the
 * driver crashes on handles that are gone and on most NULL outputs.
 */
#ifndef AM_TEST_FAKE_FACTS_H
#define AM_TEST_FAKE_FACTS_H

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>

#include "fake/whole_driver.h"

#define MB ((size_t)1 << 20)
#define CHUNK (2 * MB)

struct fact {
    const char *name;
    void (*tell)(void);
};

/* A list for each file of facts; ends with an empty row. */
extern const struct fact facts_context[];
extern const struct fact facts_vmm[];
extern const struct fact facts_access[];
extern const struct fact facts_share[];
extern const struct fact facts_copy[];
extern const struct fact facts_host[];
extern const struct fact facts_stream[];
extern const struct fact facts_event[];
extern const struct fact facts_capture[];

/* The driver's functions. */
extern struct whole_driver cu;

/* key=value pairs of the fact that is being told; a code is printed by its name. */
void say_code(const char *key, CUresult rc);
void say_number(const char *key, long long value);
void say_yes(const char *key, bool value);

/* What a fact needs and is not about: these end the process when they fail. */
void must(CUresult rc, const char *what);
void use_device(void); /* cuInit, and the primary context made current */
CUmemAllocationProp device_prop(void);
CUmemGenericAllocationHandle make_memory(size_t size);
CUdeviceptr reserve(size_t size);
void map(CUdeviceptr addr, size_t size, CUmemGenericAllocationHandle handle);
CUdeviceptr make_mapped(size_t size); /* with access; its handle is released already */
CUstream make_stream(unsigned flags);
CUevent make_event(unsigned flags);
void *make_pinned(size_t size);
CUresult set_access(CUdeviceptr addr, size_t size, CUmemAccess_flags flags);
size_t free_memory(void);

/* A host function that holds its stream until the gate is opened. */
struct gate {
    sem_t entered;
    sem_t opened;
};
void hold(struct gate *gate, CUstream stream);
void let_go(struct gate *gate);

/* Whether fn returns before anything else has to happen; who_else is told if not. */
bool returns_at_once(void (*fn)(void *arg), void *arg, struct gate *gate);

/* Whether this process can read the byte at addr. */
bool can_read(const void *addr);

/* What a fact that needs a second process does in it (facts_share.c). */
int share_other_side(int fd);
int run_other_side(int fd);

#endif
