/* See thread.h. */
#include "layer/thread.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layer/layers.h"
#include "layer/memory.h"

static _Thread_local struct am_thread *own __attribute__((tls_model("initial-exec")));
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

void am_thread_put(struct am_thread *thread)
{
    if (thread != NULL && atomic_fetch_sub(&thread->refs, 1) == 1)
        free(thread);
}

static void thread_end(void *thread)
{
    own->is_ended = true;
    own = NULL;
    am_thread_put(thread);
}

static void key_make(void)
{
    has_key = pthread_key_create(&key, thread_end) == 0;
}

static struct am_thread *thread_make(void)
{
    struct am_thread *thread;

    pthread_once(&once, key_make);
    thread = has_key ? am_meta_alloc(sizeof *thread) : NULL;
    if (thread == NULL)
        return NULL;
    if (pthread_setspecific(key, thread) != 0) {
        free(thread);
        return NULL;
    }
    thread->id = (uint32_t)syscall(SYS_gettid);
    thread->refs = 1;
    own = thread;
    return thread;
}

struct am_thread *am_thread_get(void)
{
    return own != NULL ? own : thread_make();
}

struct am_thread *am_thread_ref(void)
{
    struct am_thread *thread = am_thread_get();

    if (thread != NULL)
        atomic_fetch_add(&thread->refs, 1);
    return thread;
}

struct am_agent *am_function_agent(void)
{
    return own != NULL ? own->function_agent : NULL;
}

bool am_thread_is_inside(void)
{
    return own != NULL && own->is_inside;
}

bool am_thread_is_sharing(void)
{
    return own != NULL && own->is_sharing;
}

bool am_thread_is_querying(void)
{
    return own != NULL && own->is_querying;
}
