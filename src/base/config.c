/*
 * Reading aclInit's file with jansson.
 *
 * The vendor's keys that concern other parts (dump, profiler, queues, ...) are accepted
 * and have no effect here; ours live in the object "aclmem", and there a wrong name or
 * value is refused.
 */
#include "base/config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/options.h"
#include "base/sys.h"
#include "base/util.h"

#define FILE_MAX AM_MIB
#define DEPTH_MAX 10 /* of braces, and of brackets: the documented limit */

/* The whole file; the caller frees it. */
static int file_load(const char *path, char **ret_text, size_t *ret_size, char *why)
{
    size_t size = 0;
    char *text;
    ssize_t n = 0;
    int rc = 0;
    struct stat st;
    /* O_NONBLOCK: opening a FIFO would wait for a writer. */
    int fd = am_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        snprintf(why, AM_WHY_SIZE, "cannot open \"%.256s\": %m", path);
        return -ENOENT;
    }
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        snprintf(why, AM_WHY_SIZE, "\"%.256s\" is %s", path,
                 S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
        rc = -ENOENT;
        goto out;
    }
    text = am_sys_malloc(FILE_MAX + 1);
    if (text == NULL) {
        snprintf(why, AM_WHY_SIZE, "no memory to read \"%.256s\"", path);
        rc = -ENOMEM;
        goto out;
    }
    while (size <= FILE_MAX &&
           (n = am_sys_read(fd, text + size, FILE_MAX + 1 - size)) > 0)
        size += (size_t)n;
    if (n < 0) {
        snprintf(why, AM_WHY_SIZE, "cannot read \"%.256s\": %m", path);
        rc = -ENOENT;
    } else if (size > FILE_MAX) {
        snprintf(why, AM_WHY_SIZE, "\"%.256s\" is larger than 1 MiB", path);
        rc = -EFBIG;
    }
    if (rc == 0) {
        *ret_text = text;
        *ret_size = size;
    } else {
        free(text);
    }
out:
    close(fd);
    return rc;
}

/* Whether value stays within the documented nesting; recursion ends at the limit. */
static bool depth_is_legal(json_t *value, int braces, int brackets)
{
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_object(value)) {
        if (braces == DEPTH_MAX)
            return false;
        json_object_foreach (value, key, item) {
            if (!depth_is_legal(item, braces + 1, brackets))
                return false;
        }
    } else if (json_is_array(value)) {
        if (brackets == DEPTH_MAX)
            return false;
        json_array_foreach (value, i, item) {
            if (!depth_is_legal(item, braces, brackets + 1))
                return false;
        }
    }
    return true;
}

static int option_from_json(const char *key, json_t *value, char *why)
{
    char number[32];

    if (json_is_string(value))
        return am_options_set(key, json_string_value(value), why);
    if (json_is_integer(value)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        return am_options_set(key, number, why);
    }
    if (json_is_boolean(value))
        return am_options_set(key, json_is_true(value) ? "1" : "0", why);
    snprintf(why, AM_WHY_SIZE, "\"%.64s\" must be a string, a whole number or a boolean",
             key);
    return -EINVAL;
}

static int aclmem_from_json(json_t *object, char *why)
{
    const char *key;
    json_t *value;

    if (object == NULL)
        return 0;
    if (!json_is_object(object)) {
        snprintf(why, AM_WHY_SIZE, "\"aclmem\" must be an object");
        return -EINVAL;
    }
    json_object_foreach (object, key, value) {
        char reason[AM_WHY_SIZE];
        int rc = option_from_json(key, value, reason);

        if (rc != 0) {
            snprintf(why, AM_WHY_SIZE, "in the object \"aclmem\": %.*s", AM_WHY_SIZE - 32,
                     reason);
            return rc == -ENOMEM ? rc : -EINVAL;
        }
    }
    return 0;
}

/* The vendor's numbers are strings of digits: 0..max, or -1. */
static long string_number(json_t *value, long max)
{
    const char *text = json_string_value(value);
    char *end;
    long n;

    if (text == NULL || strspn(text, "0123456789") != strlen(text) || text[0] == '\0')
        return -1;
    n = strtol(text, &end, 10);
    return n <= max ? n : -1;
}

static int vendor_from_json(json_t *root, struct am_config *config, char *why)
{
    json_t *mode = json_object_get(root, "err_msg_mode");
    json_t *device = json_object_get(root, "defaultDevice");
    long n;

    if (mode != NULL) {
        n = string_number(mode, 1);
        if (n < 0) {
            snprintf(why, AM_WHY_SIZE, "err_msg_mode must be \"0\" or \"1\"");
            return -EINVAL;
        }
        config->share_messages = n == 1;
    }
    if (device != NULL) {
        n = string_number(json_object_get(device, "default_device"), INT16_MAX);
        if (n < 0) {
            snprintf(why, AM_WHY_SIZE,
                     "defaultDevice.default_device must be a device number as a string, "
                     "such as \"0\"");
            return -EINVAL;
        }
        config->default_device = (int32_t)n;
    }
    return 0;
}

/*
 * The vendor has keys that we do not know, so only a name that resembles ours is taken
 * for a slip.
 */
static int names_check(json_t *root, char *why)
{
    static const char *const ours[] = {"aclmem"};
    const char *key;
    json_t *value;

    json_object_foreach (root, key, value) {
        if (strcmp(key, ours[0]) != 0 && am_nearest(key, ours, 1) != NULL) {
            snprintf(why, AM_WHY_SIZE, "\"%.64s\" is not a key; did you mean \"aclmem\"?",
                     key);
            return -EINVAL;
        }
    }
    return 0;
}

int am_config_read(const char *path, struct am_config *ret_config, char *why)
{
    struct am_config config = {.default_device = -1};
    json_error_t error;
    json_t *root;
    size_t size;
    char *text;
    int rc = 0;

    if (path != NULL) {
        rc = file_load(path, &text, &size, why);
        if (rc != 0)
            return rc;
        root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
        free(text);
        if (root == NULL) {
            snprintf(why, AM_WHY_SIZE, "\"%.128s\" is not legal JSON: line %d: %.160s",
                     path, error.line, error.text);
            return json_error_code(&error) == json_error_out_of_memory ? -ENOMEM
                                                                       : -EILSEQ;
        }
        if (!json_is_object(root) || !depth_is_legal(root, 0, 0)) {
            snprintf(
                why, AM_WHY_SIZE,
                "\"%.128s\" must hold one JSON object, with at most %d levels of braces "
                "and %d of brackets",
                path, DEPTH_MAX, DEPTH_MAX);
            rc = -EILSEQ;
        }
        if (rc == 0)
            rc = names_check(root, why);
        if (rc == 0)
            rc = vendor_from_json(root, &config, why);
        if (rc == 0)
            rc = aclmem_from_json(json_object_get(root, "aclmem"), why);
        json_decref(root);
    }
    if (rc == 0)
        *ret_config = config;
    return rc;
}
