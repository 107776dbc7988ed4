/* Playing the calls of a recorded trace again. */
#ifndef ACLMEM_PLAY_H
#define ACLMEM_PLAY_H

#include <stdbool.h>
#include <stdint.h>

struct play_choice {
    const char *backend; /* ACLMEM_BACKEND; NULL: as the environment has it */
    bool is_recorded_speed;
    bool is_json;
};

/* 0 when every result was the recorded one, 1 when not, or after saying why not. */
int play_calls(const char *path, const struct play_choice *choice);

/*
 * play_calls.c: a function by its name.  Each argument is 8 bytes, or a pointer to a struct
 * that is passed by value.
 */
typedef int64_t (*play_call)(const uint64_t *argument);
play_call play_call_find(const char *name);

#endif
