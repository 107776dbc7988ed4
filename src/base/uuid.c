/* See uuid.h.  Version 5 is the first 16 bytes of the SHA-1 of space and name. */
#include "base/uuid.h"

#include <string.h>

#include "base/util.h"

#define NAME_MAX_SIZE 128
#define BLOCK_SIZE 64
/* Space and name, the bit that ends them and their length, in whole blocks. */
#define TEXT_SIZE (3 * BLOCK_SIZE)

static uint32_t rotate(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void sha1_block(uint32_t *state, const uint8_t *block)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    uint32_t w[80];

    for (int i = 0; i < 80; i++)
        w[i] = i < 16 ? big_endian(block + 4 * i)
                      : rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                              : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = rotate(a, 5) + f + e + w[i];

        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void am_uuid_make(const uint8_t *space, const char *name, uint8_t *ret_uuid)
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t text[TEXT_SIZE] = {0};
    size_t n = AM_UUID_SIZE + strnlen(name, NAME_MAX_SIZE);
    size_t size = am_align_up(n + 9, BLOCK_SIZE);

    memcpy(text, space, AM_UUID_SIZE);
    memcpy(text + AM_UUID_SIZE, name, n - AM_UUID_SIZE);
    text[n] = 0x80;
    text[size - 2] = (uint8_t)(n * 8 >> 8);
    text[size - 1] = (uint8_t)(n * 8);
    for (size_t at = 0; at < size; at += BLOCK_SIZE)
        sha1_block(state, text + at);
    for (int i = 0; i < AM_UUID_SIZE; i++)
        ret_uuid[i] = (uint8_t)(state[i / 4] >> (24 - i % 4 * 8));
    ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x50; /* the version */
    ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80; /* the variant */
}
