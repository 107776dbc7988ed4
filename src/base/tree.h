/* Red-black trees of libbsd, ordered by one member: static functions, used or not. */
#ifndef AM_BASE_TREE_H
#define AM_BASE_TREE_H

#include <bsd/sys/tree.h>
#include <string.h>

/* By a number. */
#define AM_TREE(tree_, type_, node_, key_) \
    static inline int tree_##_compare(const struct type_ *a, const struct type_ *b) \
    { \
        return (a->key_ > b->key_) - (a->key_ < b->key_); \
    } \
    RB_GENERATE_INTERNAL(tree_, type_, node_, tree_##_compare, \
                         __attribute__((unused)) static)

/* By the bytes of a struct or an array. */
#define AM_TREE_BYTES(tree_, type_, node_, key_) \
    static inline int tree_##_compare(const struct type_ *a, const struct type_ *b) \
    { \
        return memcmp(&a->key_, &b->key_, sizeof a->key_); \
    } \
    RB_GENERATE_INTERNAL(tree_, type_, node_, tree_##_compare, \
                         __attribute__((unused)) static)

#endif
