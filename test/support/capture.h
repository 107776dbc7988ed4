/* Stream capture in a few words; each call in them has to succeed. */
#ifndef TEST_SUPPORT_CAPTURE_H
#define TEST_SUPPORT_CAPTURE_H

#include "events.h"

#define GLOBAL ACL_MODEL_RI_CAPTURE_MODE_GLOBAL
#define THREAD_LOCAL ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED ACL_MODEL_RI_CAPTURE_MODE_RELAXED

#define NOT_CAPTURING ACL_MODEL_RI_CAPTURE_STATUS_NONE
#define CAPTURING ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
#define INVALIDATED ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED

void begin_capture(aclrtStream stream, aclmdlRICaptureMode mode);
aclmdlRI end_capture(aclrtStream stream);
/* Executes the model and synchronises the stream. */
void replay(aclmdlRI model, aclrtStream stream);
void end_model(aclmdlRI model);

aclmdlRICaptureStatus capture_status(aclrtStream stream);
/* The model of the capture that the stream takes part in. */
aclmdlRI captured_into(aclrtStream stream);

/* Records an event on `from` and lets `to` wait for it; the event is destroyed at once. */
void order_after(aclrtStream to, aclrtStream from);

#endif
