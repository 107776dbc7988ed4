/* See thread.h. */
#include "layer/thread.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "layer/layers.h"

static _Thread_local struct am_thread *own __attribute__((tls_model("initial-exec")));
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void thread_end(void *thread)
{
    own = NULL;
    free(thread);
}

static void key_make(void)
{
    has_key = pthread_key_create(&key, thread_end) == 0;
}

static struct am_thread *thread_make(void)
{
    struct am_thread *thread;

    pthread_once(&once, key_make);
    thread = has_key ? am_sys_calloc(1, sizeof *thread) : NULL;
    if (thread == NULL)
        return NULL;
    if (pthread_setspecific(key, thread) != 0) {
        free(thread);
        return NULL;
    }
    thread->id = (uint32_t)syscall(SYS_gettid);
    own = thread;
    return thread;
}

struct am_thread *am_thread_get(void)
{
    return own != NULL ? own : thread_make();
}

bool am_thread_is_inside(void)
{
    return own != NULL && own->is_inside;
}

bool am_thread_is_querying(void)
{
    return own != NULL && own->is_querying;
}
