/*
 * Models of captures, whose blocks are in the pool.
 *
 * A model keeps addresses and no memory, and each execution writes to the blocks that the
 * program has freed since the capture, too.  So the pages of such a pool stay where they are
 * until the last model is destroyed: the pool is frozen, is not trimmed, and cannot be
 * destroyed.
 */
#include "pool/internal.h"

/* Older libraries do not have it. */
#pragma weak aclmdlRIDestroyRegisterCallback

static void frozen_set_locked(aclmem_pool *pool)
{
    pool->is_frozen = pool->is_capturing || pool->n_models > 0;
    am_fit_set_apart(pool->fit, pool->is_frozen);
}

static void model_count(aclmem_pool *pool, unsigned more)
{
    pthread_mutex_lock(&pool->lock);
    pool->n_models += more;
    frozen_set_locked(pool);
    pthread_mutex_unlock(&pool->lock);
}

static void model_destroyed(void *pool)
{
    model_count(pool, -1u);
}

aclError aclmem_pool_add_model(aclmem_pool *pool, aclmdlRI model)
{
    aclError rc;

    if (pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    if (aclmdlRIDestroyRegisterCallback == NULL)
        return pool_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "libascendcl.so does not have aclmdlRIDestroyRegisterCallback");
    if (pool->keep != ACLMEM_POOL_KEEP_ALL)
        return pool_fail(ACL_ERROR_INVALID_PARAM,
                         "the pool gives idle memory back, which a model may use; create "
                         "it with the default of keep");
    model_count(pool, 1); /* before the model can be destroyed by another thread */
    rc = aclmdlRIDestroyRegisterCallback(model, model_destroyed, pool);
    if (rc == ACL_SUCCESS)
        return rc;
    model_count(pool, -1u);
    return pool_fail(rc, "the model cannot be added");
}

aclError aclmem_pool_freeze(aclmem_pool *pool, int is_frozen)
{
    if (pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    pthread_mutex_lock(&pool->lock);
    pool->is_capturing = is_frozen != 0;
    frozen_set_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    return ACL_SUCCESS;
}
