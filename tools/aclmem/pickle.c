/*
 * See pickle.h.
 *
 * A pickle is a program for a machine with a stack and a memo.  The opcodes for lists,
 * dictionaries, tuples, numbers, texts and the memo are here; opcodes that import a name or
 * call it are not, so a pickle that would run code is refused.
 *
 * Values are not freed: freeing one that is nested as deep as its file wants would take
 * as much stack, and the command ends soon.
 */
#include "pickle.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX (1u << 20)
#define MEMO_MAX (1u << 24)

struct machine {
    const uint8_t *at;
    const uint8_t *end;
    json_t **stack;
    size_t n, max;
    size_t *mark;
    size_t n_marks, max_marks;
    json_t **memo;
    size_t n_memo;
    size_t size; /* of the pickle: a memo is written in order, so no key is larger */
    const char *why;
};

static void stop(struct machine *m, const char *why)
{
    if (m->why == NULL)
        m->why = why;
}

static void push(struct machine *m, json_t *value)
{
    if (m->n == m->max && m->n < DEPTH_MAX) {
        size_t max = m->max > 0 ? 2 * m->max : 256;
        json_t **larger = realloc(m->stack, max * sizeof *larger);

        if (larger == NULL) {
            stop(m, "there is no memory");
            return;
        }
        m->stack = larger;
        m->max = max;
    }
    if (value == NULL || m->n == m->max) {
        stop(m, value == NULL ? "it has a text that is not UTF-8" : "it is too deep");
        return;
    }
    m->stack[m->n++] = value;
}

/* Pops the top value; null if the stack is empty. */
static json_t *pop(struct machine *m)
{
    if (m->n == 0 || (m->n_marks > 0 && m->n == m->mark[m->n_marks - 1])) {
        stop(m, "its stack runs empty");
        return json_null();
    }
    return m->stack[--m->n];
}

static const uint8_t *take(struct machine *m, uint64_t n)
{
    const uint8_t *at = m->at;

    if (n > (uint64_t)(m->end - m->at)) {
        stop(m, "it is cut off");
        return NULL;
    }
    m->at += n;
    return at;
}

/* A little-endian number of n bytes. */
static uint64_t number(struct machine *m, unsigned n)
{
    const uint8_t *at = take(m, n);
    uint64_t value = 0;

    for (unsigned i = 0; at != NULL && i < n; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void text_push(struct machine *m, uint64_t n)
{
    const uint8_t *at = take(m, n);

    if (at != NULL)
        push(m, json_stringn((const char *)at, n));
}

/* Bytes, as a text in which each byte is a character. */
static void bytes_push(struct machine *m, uint64_t n)
{
    const uint8_t *at = take(m, n);
    json_t *value = at != NULL ? json_stringn((const char *)at, n) : NULL;

    if (at != NULL)
        push(m, value != NULL ? value : json_string("(bytes)"));
}

/* Two's complement of any length; what is above 64 bits is lost. */
static void long_push(struct machine *m, uint64_t n)
{
    const uint8_t *at = take(m, n);
    uint64_t value = 0;

    if (at == NULL)
        return;
    for (uint64_t i = 0; i < n && i < 8; i++)
        value |= (uint64_t)at[i] << 8 * i;
    if (n > 0 && n < 8 && (at[n - 1] & 0x80))
        value |= ~UINT64_C(0) << 8 * n;
    push(m, json_integer((json_int_t)value));
}

static void float_push(struct machine *m)
{
    const uint8_t *at = take(m, 8);
    uint64_t bits = 0;
    double value;
    json_t *made;

    if (at == NULL)
        return;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | at[i];
    memcpy(&value, &bits, sizeof value);
    made = json_real(value);
    push(m, made != NULL ? made : json_integer(0)); /* no NaN in JSON */
}

static void mark_push(struct machine *m)
{
    if (m->n_marks == m->max_marks) {
        size_t max = m->max_marks > 0 ? 2 * m->max_marks : 64;
        size_t *larger = max <= DEPTH_MAX ? realloc(m->mark, max * sizeof *larger) : NULL;

        if (larger == NULL) {
            stop(m, "it is too deep");
            return;
        }
        m->mark = larger;
        m->max_marks = max;
    }
    m->mark[m->n_marks++] = m->n;
}

static size_t mark_pop(struct machine *m)
{
    if (m->n_marks == 0) {
        stop(m, "it lacks a mark");
        return m->n;
    }
    return m->mark[--m->n_marks];
}

static void items_append(struct machine *m, size_t from)
{
    json_t *list = from > 0 && from <= m->n ? m->stack[from - 1] : NULL;

    if (!json_is_array(list))
        stop(m, "it appends to what is no list");
    for (size_t i = from; i < m->n; i++) {
        if (m->why == NULL)
            json_array_append(list, m->stack[i]);
    }
    if (from <= m->n)
        m->n = from;
}

static void item_set(struct machine *m, json_t *dict, json_t *key, json_t *value)
{
    char text[32];

    if (json_is_string(key)) {
        json_object_set(dict, json_string_value(key), value);
    } else if (json_is_integer(key)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(key));
        json_object_set(dict, text, value);
    } /* other keys have no place in JSON */
}

static void items_set(struct machine *m, size_t from)
{
    json_t *dict = from > 0 && from <= m->n ? m->stack[from - 1] : NULL;

    if (!json_is_object(dict) || (m->n - from) % 2 != 0)
        stop(m, "it sets an item of what is no dictionary");
    for (size_t i = from; i + 1 < m->n && m->why == NULL; i += 2)
        item_set(m, dict, m->stack[i], m->stack[i + 1]);
    if (from <= m->n)
        m->n = from;
}

static void tuple_make(struct machine *m, size_t from)
{
    json_t *list = json_array();

    if (from > m->n) {
        stop(m, "its stack runs empty");
        from = m->n;
    }
    for (size_t i = from; i < m->n; i++)
        json_array_append_new(list, m->stack[i]);
    m->n = from;
    push(m, list);
}

static void memo_put(struct machine *m, uint64_t key)
{
    if (m->n == 0 || key >= MEMO_MAX || key >= m->size) {
        stop(m, "its memo is wrong");
        return;
    }
    if (key >= m->n_memo) {
        size_t larger = key < 1024 ? 2048 : 2 * (size_t)key;
        json_t **memo = realloc(m->memo, larger * sizeof *memo);

        if (memo == NULL) {
            stop(m, "there is no memory");
            return;
        }
        memset(memo + m->n_memo, 0, (larger - m->n_memo) * sizeof *memo);
        m->memo = memo;
        m->n_memo = larger;
    }
    m->memo[key] = json_incref(m->stack[m->n - 1]);
}

static void memo_get(struct machine *m, uint64_t key)
{
    if (key >= m->n_memo || m->memo[key] == NULL)
        stop(m, "its memo is wrong");
    else
        push(m, json_incref(m->memo[key]));
}

/* Values, as they are written. */
static bool value_step(struct machine *m, uint8_t opcode)
{
    switch (opcode) {
    case 'N':
        push(m, json_null());
        break;
    case 0x88:
        push(m, json_true());
        break;
    case 0x89:
        push(m, json_false());
        break;
    case 'J':
        push(m, json_integer((int32_t)number(m, 4)));
        break;
    case 'K':
        push(m, json_integer((json_int_t)number(m, 1)));
        break;
    case 'M':
        push(m, json_integer((json_int_t)number(m, 2)));
        break;
    case 0x8a:
        long_push(m, number(m, 1));
        break;
    case 0x8b:
        long_push(m, number(m, 4));
        break;
    case 'G':
        float_push(m);
        break;
    case 'X':
        text_push(m, number(m, 4));
        break;
    case 0x8c:
        text_push(m, number(m, 1));
        break;
    case 0x8d:
        text_push(m, number(m, 8));
        break;
    case 'C':
    case 'U':
        bytes_push(m, number(m, 1));
        break;
    case 'B':
    case 'T':
        bytes_push(m, number(m, 4));
        break;
    case 0x8e:
        bytes_push(m, number(m, 8));
        break;
    default:
        return false;
    }
    return true;
}

static bool container_step(struct machine *m, uint8_t opcode)
{
    switch (opcode) {
    case ']':
    case ')':
    case 0x8f: /* a set */
        push(m, json_array());
        break;
    case '}':
        push(m, json_object());
        break;
    case '(':
        mark_push(m);
        break;
    case 'a':
        items_append(m, m->n > 0 ? m->n - 1 : 1);
        break;
    case 'e':
    case 0x90:
        items_append(m, mark_pop(m));
        break;
    case 's':
        items_set(m, m->n > 1 ? m->n - 2 : 2);
        break;
    case 'u':
        items_set(m, mark_pop(m));
        break;
    case 'l':
    case 't':
        tuple_make(m, mark_pop(m));
        break;
    case 'd':
        push(m, json_object());
        stop(m, "it is of a protocol before 2");
        break;
    case 0x85:
    case 0x86:
    case 0x87:
        tuple_make(m, m->n - (size_t)(opcode - 0x84));
        break;
    case '0':
        pop(m);
        break;
    case '2':
        push(m, m->n > 0 ? json_incref(m->stack[m->n - 1]) : json_null());
        break;
    default:
        return false;
    }
    return true;
}

static void step(struct machine *m, uint8_t opcode, uint64_t *n_memoized)
{
    if (value_step(m, opcode) || container_step(m, opcode))
        return;
    switch (opcode) {
    case 0x80:
        number(m, 1); /* protocol */
        break;
    case 0x95:
        number(m, 8); /* length of a frame */
        break;
    case 'q':
        memo_put(m, number(m, 1));
        break;
    case 'r':
        memo_put(m, number(m, 4));
        break;
    case 0x94:
        memo_put(m, (*n_memoized)++);
        break;
    case 'h':
        memo_get(m, number(m, 1));
        break;
    case 'j':
        memo_get(m, number(m, 4));
        break;
    case 'c':
    case 0x93:
    case 'i':
        stop(m, "it names a class or function, which is not plain data");
        break;
    case 'R':
    case 'b':
    case 'o':
    case 0x81:
    case 0x92:
        stop(m, "it calls a function, which is not done");
        break;
    default:
        stop(m, "it has an opcode that is not plain data");
        break;
    }
}

json_t *pickle_read(const uint8_t *bytes, size_t n, const char **ret_why)
{
    struct machine m = {.at = bytes, .end = bytes + n, .size = n};
    uint64_t n_memoized = 0;
    json_t *result = NULL;

    while (m.why == NULL) {
        const uint8_t *opcode = take(&m, 1);

        if (opcode == NULL || *opcode == '.')
            break;
        step(&m, *opcode, &n_memoized);
    }
    if (m.why == NULL && m.n == 1)
        result = json_incref(m.stack[0]);
    else
        stop(&m, "it does not end with one value");
    free(m.stack);
    free(m.mark);
    free(m.memo);
    *ret_why = m.why;
    return result;
}
