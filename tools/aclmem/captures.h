/*
 * Captured models of a trace: which calls became tasks of a model.
 *
 * A stream is captured from aclmdlRICaptureBegin() to aclmdlRICaptureEnd(); another stream
 * joins when it waits for an event that was recorded in the capture.  A stream that is bound
 * to a model is captured from aclmdlRIBindStream() to aclmdlRIEndTask().
 */
#ifndef ACLMEM_CAPTURES_H
#define ACLMEM_CAPTURES_H

#include "history.h"
#include "map.h"

struct captures {
    struct map streams; /* stream -> capture */
    struct map models;  /* process, handle -> model */
    struct map records; /* process, event -> node of its last record */
    struct map nodes;   /* model, number in it -> node */
    struct capture {
        uint32_t model;
        bool is_open;
    } * capture;
    size_t n, max;
};

/*
 * Takes a call of a place and a stream.  True if the call became a task of a model: then it
 * is no work that the stream runs now.
 */
bool captures_take(struct captures *captures, struct history *history,
                   const struct trace_event *event, uint32_t where, uint32_t stream);
/* The model of a handle; NO_MODEL if the trace does not have its capture. */
uint32_t captures_model(const struct captures *captures, const struct trace_event *event);
/* Takes a task that a replay ran. */
void captures_ran(const struct captures *captures, struct history *history,
                  const struct trace_event *event);
/* When all calls are known: finds the replay of each such task. */
void captures_finish(struct history *history);
void captures_free(struct captures *captures);

#endif
