/*
 * The functions that facts are written with.
 *
 * A fact is a row of facts.def: an expression whose value is the answer, a code or a
 * number.  It runs in a separate process.  Every function of AscendCL is called through
 * CALL(), so a library that lacks one gives the answer "absent" and no crash.
 */
#ifndef ACLMEM_FACTS_H
#define ACLMEM_FACTS_H

#include "acl/acl_base.h"

/* Weak: the program starts over a library that does not have all of the functions. */
#undef ACL_FUNC_VISIBILITY
#define ACL_FUNC_VISIBILITY __attribute__((weak))
#include "acl/acl.h"
#include "acl/acl_rt.h"

#include <stdbool.h>

#define MB ((size_t)1 << 20)
#define GB ((size_t)1 << 30)
#define PAGE (2 * MB)               /* the granularity that all products share */
#define TOO_MUCH (1024 * 1024 * GB) /* no device has it, so nothing is taken */

#define CALL(name_, ...) ((name_) != NULL ? name_(__VA_ARGS__) : absent(#name_))
/* A step before the question; where it fails, the answer is that it did. */
#define STEP(name_, ...) \
    step(#name_, (name_) != NULL ? name_(__VA_ARGS__) : absent(#name_))

/* Both end the process. */
aclError absent(const char *name);
void step(const char *name, aclError rc);

/* The device that is asked, and another one, or -1. */
extern int device;
int other_device(void);

struct range {
    char *addr;
    size_t size;
    aclrtDrvMemHandle handle;
};

/* All of these end the process where they fail. */
aclrtPhysicalMemProp *prop_of(aclrtMemAttr attr);
aclrtPhysicalMemProp *prop_at(aclrtMemLocationType type, uint32_t id);
char *reserved(size_t size);
aclrtDrvMemHandle physical(size_t size);
struct range mapped(size_t size);
char *block(size_t size);
char *pinned(size_t size);
aclrtStream stream(void);
aclrtEvent event(uint32_t flag);
/* A new stream, of which a capture in the mode GLOBAL has begun; the model of a capture. */
aclrtStream captured(void);
aclmdlRI model_of(aclrtStream s);
/* Another new stream, which has joined the capture of `s` and not come back. */
aclrtStream joined(aclrtStream s);
uint64_t exported(aclrtDrvMemHandle handle, uint64_t flags);
size_t free_memory(void);
aclError access_set(char *addr, size_t size, aclrtMemAccessFlags flags);
/* A host function keeps the stream busy until it is released. */
void hold(aclrtStream s);
void let_go(void);

/* NULL if it does not exist. */
const char *soc_name(void);
bool message_is_given(void);

/* The code of aclrtGetCurrentContext in a thread that called nothing before. */
long context_code_in_new_thread(void);

/* The code with which another process imports `number`; it is in the list if `listed`. */
long imported_by_another(uint64_t number, bool listed);
/* That other process: import, with the number on standard input. */
int import_for_another(void);

#endif
