/* Assertions about our own state, in builds without AM_NDEBUG. */
#ifndef AM_BASE_ASSERT_H
#define AM_BASE_ASSERT_H

void am_assert_failed(const char *what, const char *file, int line)
    __attribute__((noreturn, cold));

#ifndef AM_NDEBUG
#define am_assert(condition_) \
    ((condition_) ? (void)0 : am_assert_failed(#condition_, __FILE__, __LINE__))
#else
#define am_assert(condition_) ((void)(0 && (condition_)))
#endif

#endif
