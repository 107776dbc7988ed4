/* An address with a size.  The memory is the caller's and is not accessed. */
#include "base/sys.h"
#include "toolkit/toolkit.h"

struct aclDataBuffer {
    void *data;
    size_t size;
};

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size)
{
    aclDataBuffer *buffer = am_sys_malloc(sizeof *buffer);

    TK_REQUIRE_OR(NULL, buffer != NULL, ACL_ERROR_BAD_ALLOC, "no memory for the buffer");
    *buffer = (aclDataBuffer){data, size};
    return buffer;
}

TK_DESTROY(aclDestroyDataBuffer, const aclDataBuffer, dataBuffer)

aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size)
{
    TK_NEED(dataBuffer);
    *dataBuffer = (aclDataBuffer){data, size};
    return ACL_SUCCESS;
}

TK_GETTER(void *, aclGetDataBufferAddr, const aclDataBuffer, dataBuffer, NULL,
          dataBuffer->data)

uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer)
{
    TK_NEED_OR(0, dataBuffer);
    TK_REQUIRE_OR(0, dataBuffer->size <= UINT32_MAX, ACL_ERROR_INVALID_PARAM,
                  "the buffer has %zu bytes, more than 32 bits hold; use "
                  "aclGetDataBufferSizeV2",
                  dataBuffer->size);
    return (uint32_t)dataBuffer->size;
}

TK_GETTER(size_t, aclGetDataBufferSizeV2, const aclDataBuffer, dataBuffer, 0,
          dataBuffer->size)
