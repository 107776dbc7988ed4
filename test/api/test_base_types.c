/*
 * aclDataTypeSize, half-precision numbers, and aclAppLog; all of them work in every
 * state.
 */
#include "support/process.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- sizes ---- */

static void types_have_their_sizes(void **state)
{
    static const struct {
        aclDataType type;
        size_t size;
    } rows[] = {
        {ACL_FLOAT, sizeof(float)},
        {ACL_FLOAT16, sizeof(aclFloat16)},
        {ACL_INT8, 1},
        {ACL_INT32, 4},
        {ACL_UINT8, 1},
        {ACL_INT16, 2},
        {ACL_UINT16, 2},
        {ACL_UINT32, 4},
        {ACL_INT64, 8},
        {ACL_UINT64, 8},
        {ACL_DOUBLE, sizeof(double)},
        {ACL_BOOL, 1},
        {ACL_COMPLEX64, 2 * sizeof(float)},
        {ACL_COMPLEX128, 2 * sizeof(double)},
        {ACL_BF16, 2},
        {ACL_COMPLEX32, 2 * sizeof(aclFloat16)},
        {ACL_HIFLOAT8, 1},
        {ACL_FLOAT8_E5M2, 1},
        {ACL_FLOAT8_E4M3FN, 1},
        {ACL_FLOAT8_E8M0, 1},
        /* no fixed number of whole bytes */
        {ACL_STRING, 0},
        {ACL_INT4, 0},
        {ACL_UINT1, 0},
        {ACL_FLOAT6_E3M2, 0},
        {ACL_FLOAT6_E2M3, 0},
        {ACL_FLOAT4_E2M1, 0},
        {ACL_FLOAT4_E1M2, 0},
        {ACL_DT_UNDEFINED, 0},
    };

    forget_message();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(aclDataTypeSize(rows[i].type), rows[i].size);
    assert_null(aclGetRecentErrMsg());
}

static void an_unknown_type_has_no_size(void **state)
{
    static const int types[] = {-2, 5,  14, 15, 18,      26,
                                28, 31, 32, 42, 1000000, INT32_MIN};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const char *message;

        forget_message();
        assert_int_equal(aclDataTypeSize((aclDataType)types[i]), 0);
        message = aclGetRecentErrMsg();
        assert_non_null(message);
        assert_non_null(strstr(message, "dataType"));
    }
}

/* ---- half-precision numbers ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The float after a positive one, or before it. */
static float next(float value, float toward)
{
    return float_of(toward > value ? bits_of(value) + 1 : bits_of(value) - 1);
}

/* The definition in IEEE 754, in double, which holds every value exactly. */
static double defined_value(uint32_t half)
{
    int exponent = (int)(half >> 10 & 0x1f);
    int fraction = (int)(half & 0x3ff);
    double value =
        exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25);

    if (exponent == 0x1f)
        value = fraction == 0 ? (double)INFINITY : (double)NAN;
    return half & 0x8000 ? -value : value;
}

static void every_half_is_the_number_it_means(void **state)
{
    for (uint32_t half = 0; half <= 0xffff; half++) {
        double want = defined_value(half);
        float got = aclFloat16ToFloat((aclFloat16)half);

        if (isnan(want)) {
            assert_true(isnan(got));
            assert_int_equal(bits_of(got),
                             (half & 0x8000) << 16 | 0x7fc00000 | (half & 0x3ff) << 13);
        } else if ((double)got != want || !signbit(got) != !signbit(want)) {
            fail_msg("0x%04x is %a, not %a", half, (double)got, want);
        }
    }
}

static void every_half_survives_the_way_there_and_back(void **state)
{
    for (uint32_t half = 0; half <= 0xffff; half++) {
        bool is_nan = (half & 0x7fff) > 0x7c00;
        uint32_t back = aclFloatToFloat16(aclFloat16ToFloat((aclFloat16)half));

        if (back != (is_nan ? half | 0x200 : half))
            fail_msg("0x%04x came back as 0x%04x", half, back);
    }
}

static void expect_half(float value, uint32_t half)
{
    uint32_t got = aclFloatToFloat16(value), minus = aclFloatToFloat16(-value);

    if (got != half || minus != (half | 0x8000))
        fail_msg("%a became 0x%04x and 0x%04x, not 0x%04x", (double)value, got, minus,
                 half);
}

/*
 * Between two neighbours the nearer one counts, and halfway the even one.  The next
 * larger float and the next smaller one of each border show that the border is where it
 * should be; 0x7c00, infinity, takes the place of 65536.
 */
static void numbers_between_two_halves_go_to_the_nearest(void **state)
{
    for (uint32_t half = 0; half < 0x7c00; half++) {
        float low = (float)defined_value(half);
        float high = half == 0x7bff ? 65536.0f : (float)defined_value(half + 1);
        float middle = (low + high) / 2; /* exact: one more bit than a half has */

        expect_half(low, half);
        expect_half(next(low, high), half);
        expect_half(next(middle, low), half);
        expect_half(middle, half % 2 == 0 ? half : half + 1);
        expect_half(next(middle, high), half + 1);
        expect_half(next(high, low), half + 1);
    }
}

static void numbers_out_of_range_become_zero_or_infinity(void **state)
{
    expect_half(0.0f, 0);
    expect_half(float_of(1), 0);
    expect_half(0x1p-126f, 0);
    expect_half(0x1p-25f, 0);
    expect_half(next(0x1p-25f, 1), 1);
    expect_half(65504.0f, 0x7bff);
    expect_half(next(65520.0f, 0), 0x7bff);
    expect_half(65520.0f, 0x7c00);
    expect_half(65536.0f, 0x7c00);
    expect_half(float_of(0x7f7fffff), 0x7c00);
    expect_half(INFINITY, 0x7c00);
}

static void nan_stays_nan(void **state)
{
    static const uint32_t nans[] = {0x7f800001, 0x7f801fff, 0x7f802000, 0x7fbfffff,
                                    0x7fc00000, 0x7fffffff, 0x7fc02000};

    for (size_t i = 0; i < sizeof(nans) / sizeof(nans[0]); i++) {
        uint32_t want = 0x7e00 | (nans[i] >> 13 & 0x1ff);

        assert_int_equal(aclFloatToFloat16(float_of(nans[i])), want);
        assert_int_equal(aclFloatToFloat16(float_of(nans[i] | 0x80000000)),
                         want | 0x8000);
    }
}

/* ---- the log ---- */

static const char *log_all(void)
{
    capture_stderr();
    aclAppLog(ACL_DEBUG, "f", "a.c", 1, "debug %d", 1);
    aclAppLog(ACL_INFO, "f", "a.c", 2, "info %s", "two");
    aclAppLog(ACL_WARNING, "f", "a.c", 3, "warning %c", '3');
    aclAppLog(ACL_ERROR, "f", "a.c", 4, "error %.1f", 4.0);
    return captured_stderr();
}

static void the_level_decides_what_is_said(void **state)
{
    start("default", "ACLMEM_LOG=warn");
    assert_string_equal(log_all(), "app: warn: f (a.c:3): warning 3\n"
                                   "app: error: f (a.c:4): error 4.0\n");
    assert_acl_ok(aclFinalize());
    start("default", "ACLMEM_LOG=error");
    assert_string_equal(log_all(), "app: error: f (a.c:4): error 4.0\n");
    assert_acl_ok(aclFinalize());
    set_options("default", "ACLMEM_LOG=debug");
    capture_stderr();
    assert_int_equal(aclInit(NULL), ACL_SUCCESS);
    captured_stderr();
    assert_string_equal(log_all(), "app: debug: f (a.c:1): debug 1\n"
                                   "app: info: f (a.c:2): info two\n"
                                   "app: warn: f (a.c:3): warning 3\n"
                                   "app: error: f (a.c:4): error 4.0\n");
    capture_stderr();
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    captured_stderr();
    set_options("default", "ACLMEM_LOG=warn"); /* for the tests after this one */
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclFinalize());
}

/* Those are counted as the library's own only when the library says them. */
static void the_programs_lines_are_no_warnings_of_ours(void **state)
{
    uint64_t before = stats().warnings;

    log_all();
    assert_int_equal(stats().warnings, before);
}

static void the_macro_says_where_it_stands(void **state)
{
    const char *text;
    char want[512];

    snprintf(want, sizeof(want), "app: error: %s (%s:%d): 42 is wrong\n", __func__,
             __FILE__, __LINE__ + 2);
    capture_stderr();
    ACL_APP_LOG(ACL_ERROR, "%d is wrong", 42);
    text = captured_stderr();
    assert_string_equal(text, want);
    capture_stderr();
    ACL_APP_LOG(ACL_ERROR, "plain");
    assert_non_null(strstr(captured_stderr(), "): plain\n"));
}

static void a_long_line_is_cut_and_ends_all_the_same(void **state)
{
    static char text[4000];
    const char *said;

    memset(text, 'x', sizeof(text) - 1);
    capture_stderr();
    aclAppLog(ACL_ERROR, "f", "a.c", 1, "%s", text);
    said = captured_stderr();
    assert_in_range(strlen(said), 1000, 1024);
    assert_int_equal(said[strlen(said) - 1], '\n');
    capture_stderr();
    aclAppLog(ACL_ERROR, text, text, 1, "%s", text);
    said = captured_stderr();
    assert_in_range(strlen(said), 1000, 1024);
    assert_int_equal(said[strlen(said) - 1], '\n');
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static void careless_calls_do_no_harm(void **state)
{
    const char *none = NULL;

    capture_stderr();
    aclAppLog(ACL_ERROR, NULL, NULL, 0, "here");
    assert_string_equal(captured_stderr(), "app: error: ? (?:0): here\n");
    capture_stderr();
    aclAppLog(ACL_ERROR, "f", "a.c", 1, none, 1);
    assert_string_equal(captured_stderr(), "");
    capture_stderr();
    aclAppLog((aclLogLevel)17, "f", "a.c", 1, "loud");
    aclAppLog((aclLogLevel)-1, "f", "a.c", 1, "loud");
    assert_string_equal(captured_stderr(),
                        "app: error: f (a.c:1): loud\napp: error: f (a.c:1): loud\n");
}

/* ---- states ---- */

static bool works(void)
{
    return aclDataTypeSize(ACL_INT64) == 8 && aclFloat16ToFloat(0x3c00) == 1.0f &&
           aclFloatToFloat16(-2.0f) == 0xc000;
}

/* Without starting the library: the strict rules would refuse that. */
static void they_work_before_the_library_and_after_it(void **state)
{
    set_options("strict", "ACLMEM_DEVICES=2");
    assert_true(works());
    assert_acl_ok(aclInit(NULL));
    assert_true(works());
    assert_acl_ok(aclFinalize());
    assert_true(works());
    assert_acl(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
}

static void they_work_in_a_forked_child(void **state)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(works() ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(they_work_before_the_library_and_after_it),
        claim_both(they_work_in_a_forked_child),
        claim(types_have_their_sizes),
        claim(an_unknown_type_has_no_size),
        claim(every_half_is_the_number_it_means),
        claim(every_half_survives_the_way_there_and_back),
        claim(numbers_between_two_halves_go_to_the_nearest),
        claim(numbers_out_of_range_become_zero_or_infinity),
        claim(nan_stays_nan),
        claim_alone(the_level_decides_what_is_said),
        claim(the_programs_lines_are_no_warnings_of_ours),
        claim(the_macro_says_where_it_stands),
        claim(a_long_line_is_cut_and_ends_all_the_same),
        claim(careless_calls_do_no_harm),
    };

    return run_claims(claims);
}
