/* Short words for events, and those for streams. */
#ifndef TEST_SUPPORT_EVENTS_H
#define TEST_SUPPORT_EVENTS_H

#include "streams.h"

/* Each has to succeed. */
aclrtEvent make_event(void);
aclrtEvent make_flagged(uint32_t flag);
aclrtEvent make_ex(uint32_t flag);
void end_event(aclrtEvent event);

/* What the library answers about it. */
bool is_complete(aclrtEvent event);
aclrtEventWaitStatus waits_of(aclrtEvent event);
/* How many more can be made. */
uint32_t available(void);

#endif
