/*
 * A thread for callbacks starts to process reports before it is subscribed to a stream.
 *
 * Each call is refused until then.  A program that calls in a loop and looks at no code
 * spends a processor on it.
 */
#include <pthread.h>

#include "found.h"

static void *reports_process(void *unused)
{
    MUST(aclrtProcessReport(100));
    return NULL;
}

int main(void)
{
    aclrtStream stream;
    pthread_t thread;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&stream));
    pthread_create(&thread, NULL, reports_process, NULL);
    pthread_join(thread, NULL); /* aclrtSubscribeReport belongs before this */
    MUST(aclrtSubscribeReport((uint64_t)thread, stream));
    return 0;
}
