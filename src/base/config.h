/* aclInit's file: a JSON object.  Its options go to options.h, the rest is here. */
#ifndef AM_BASE_CONFIG_H
#define AM_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct am_config {
    bool share_messages; /* "err_msg_mode": "1" */
    /* "defaultDevice": {"default_device": "0"}; -1 when not given */
    int32_t default_device;
};

/*
 * Reads the file at path (NULL: none) and sets options from its "aclmem" object. 0, or
 * -ENOENT cannot be read, -EFBIG too large, -EILSEQ not a legal JSON object or nested too
 * deep,
 * -EINVAL an attribute is wrong, -ENOMEM; `why` (AM_WHY_SIZE bytes) says what.
 */
int am_config_read(const char *path, struct am_config *ret_config, char *why);

#endif
