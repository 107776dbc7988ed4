/* Varints: seven bits a byte, lowest first; signed numbers zigzag. */
#ifndef AM_TRACE_CODEC_H
#define AM_TRACE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AM_VARINT_MAX 10

static inline uint8_t *am_put_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static inline uint64_t am_zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t am_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* A text or a block of bytes: its length, then the bytes. */
static inline uint8_t *am_put_bytes(uint8_t *at, const void *bytes, size_t n)
{
    at = am_put_varint(at, n);
    memcpy(at, bytes, n);
    return at + n;
}

/* What is read never passes `end`; is_bad is set instead, and zeros are returned. */
struct am_input {
    const uint8_t *at;
    const uint8_t *end;
    bool is_bad;
};

static inline uint64_t am_get_varint(struct am_input *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte;

        if (in->at >= in->end)
            break;
        byte = *in->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    in->is_bad = true;
    return 0;
}

static inline int64_t am_get_signed(struct am_input *in)
{
    return am_unzigzag(am_get_varint(in));
}

static inline const uint8_t *am_get_bytes(struct am_input *in, size_t *ret_n)
{
    uint64_t n = am_get_varint(in);
    const uint8_t *bytes = in->at;

    if (in->is_bad || n > (uint64_t)(in->end - in->at)) {
        in->is_bad = true;
        *ret_n = 0;
        return in->end;
    }
    in->at += n;
    *ret_n = n;
    return bytes;
}

#endif
