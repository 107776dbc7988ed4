/* Short words for streams; each call in them has to succeed. */
#ifndef TEST_SUPPORT_STREAMS_H
#define TEST_SUPPORT_STREAMS_H

#include "support.h"

aclrtStream make_stream(void);
void end_stream(aclrtStream stream);
aclrtContext make_context(int32_t device);

aclrtStreamStatus status_of(aclrtStream stream);
bool is_idle(aclrtStream stream);
/* How many more can be made. */
uint32_t streams_available(void);

#endif
