/* For programs in C++, which have no cmocka: the first condition that does not hold ends the program. */
#ifndef TEST_POOL_REQUIRE_H
#define TEST_POOL_REQUIRE_H

#include <cstdio>
#include <cstdlib>

#define REQUIRE(condition_) \
    do { \
        if (!(condition_)) { \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition_); \
            std::exit(1); \
        } \
    } while (0)

#endif
