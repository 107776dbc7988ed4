/* See copy_model.h. */
#include "copy_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

struct copy_model t;

struct am_bank *bank_open(bool is_isolated)
{
    struct am_bank_spec spec = {.capacity = 64 * AM_CHUNK, .is_isolated = is_isolated};
    struct am_bank *bank;

    assert_int_equal(host_start(), ACL_SUCCESS);
    assert_int_equal(host_bank_open(&spec, &bank), ACL_SUCCESS);
    return bank;
}

/*
 * Every second frame goes back before the mems are made, so theirs are no neighbours at
 * first.
 */
int model_begin(void **state)
{
    static const size_t chunks[N_MEMS] = {1, 2, 3, 1, 3, 2, 2};
    struct am_mem single[12];

    t.device = bank_open(true);
    t.host = bank_open(false);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(host_mem_create(t.device, AM_CHUNK, -1, &single[i]),
                         ACL_SUCCESS);
    for (size_t i = 0; i < 12; i += 2)
        host_mem_destroy(&single[i]);
    for (size_t i = 0; i < N_MEMS; i++) {
        struct am_bank *bank = i == N_MEMS - 1 ? t.host : t.device;

        assert_int_equal(host_mem_create(bank, chunks[i] * AM_CHUNK, -1, &t.mem[i]),
                         ACL_SUCCESS);
        t.model[i] = calloc(1, t.mem[i].size);
        assert_non_null(t.model[i]);
    }
    for (size_t i = 1; i < 12; i += 2)
        host_mem_destroy(&single[i]);
    t.own = calloc(1, OWN_SIZE);
    t.own_model = calloc(1, OWN_SIZE);
    assert_true(t.own != NULL && t.own_model != NULL);
    return 0;
}

int model_end(void **state)
{
    for (size_t i = 0; i < N_MEMS; i++) {
        host_mem_destroy(&t.mem[i]);
        free(t.model[i]);
    }
    free(t.own);
    free(t.own_model);
    host_bank_close(t.device);
    host_bank_close(t.host);
    am_error_take_messages();
    return 0;
}

bool frame_holds(struct am_mem *mem, size_t at)
{
    return host_mem(mem)->store->state[host_mem_frame(mem, at)] & HOST_FRAME_HOLDS;
}

/* cmocka's own compares byte by byte, for which there are too many here. */
void assert_same(const uint8_t *a, const uint8_t *b, size_t size)
{
    if (memcmp(a, b, size) != 0)
        assert_memory_equal(a, b, size);
}

void assert_zero(const uint8_t *bytes, size_t size)
{
    assert_int_equal(bytes[0], 0);
    assert_same(bytes, bytes + 1, size - 1);
}

/* Looks at the frames behind the mems; those that hold nothing are not touched. */
void assert_as_modelled(void)
{
    for (size_t i = 0; i < N_MEMS; i++) {
        for (size_t at = 0; at < t.mem[i].size; at += AM_CHUNK) {
            uint8_t *frame = host_mem(&t.mem[i])->store->view +
                             (host_mem_frame(&t.mem[i], at) << AM_CHUNK_SHIFT);

            if (frame_holds(&t.mem[i], at))
                assert_same(frame, t.model[i] + at, AM_CHUNK);
            else
                assert_zero(t.model[i] + at, AM_CHUNK);
        }
    }
    assert_same(t.own, t.own_model, OWN_SIZE);
}

static uint8_t *model_of(const struct am_span *span)
{
    for (size_t i = 0; i < N_MEMS; i++) {
        if (span->mem == &t.mem[i])
            return t.model[i] + span->offset;
    }
    return t.own_model + ((uint8_t *)span->addr - t.own);
}

/* `size` bytes of the model behind the list, out of it or into it. */
static void model_move(const struct am_span *span, size_t size, uint8_t *bytes,
                       bool is_out)
{
    for (; size > 0; span++) {
        size_t n = span->size < size ? span->size : size;

        if (is_out)
            memcpy(bytes, model_of(span), n);
        else
            memcpy(model_of(span), bytes, n);
        bytes += n;
        size -= n;
    }
}

void copy_both(const struct am_span *to, const struct am_span *from, size_t size)
{
    uint8_t *bytes = malloc(size);

    assert_non_null(bytes);
    assert_int_equal(host_copy(to, 0, from, 0, size), ACL_SUCCESS);
    model_move(from, size, bytes, true);
    model_move(to, size, bytes, false);
    free(bytes);
}

void fill_both(const struct am_span *to, size_t size, int value)
{
    uint8_t *bytes = malloc(size);

    assert_non_null(bytes);
    assert_int_equal(host_fill(to, size, value, 1), ACL_SUCCESS);
    memset(bytes, value, size);
    model_move(to, size, bytes, false);
    free(bytes);
}

struct am_span whole(struct am_mem *mem)
{
    return (struct am_span){.size = mem->size, .mem = mem};
}

size_t bytes_held(struct am_bank *bank)
{
    struct stat st;

    assert_int_equal(fstat(((struct host_bank *)bank)->store->fd, &st), 0);
    return (size_t)st.st_blocks * 512;
}
