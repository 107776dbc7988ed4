/* The JSON file that aclInit takes. */
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

static char config_path[64];

/* The file with this text; one at a time, removed by remove_config(). */
static const char *config(const char *text, size_t size)
{
    int fd;

    if (config_path[0] != '\0')
        unlink(config_path);
    strcpy(config_path, "/tmp/aclmem-config-XXXXXX");
    fd = mkstemp(config_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), (ssize_t)size);
    close(fd);
    return config_path;
}

static int remove_config(void **state)
{
    if (config_path[0] != '\0')
        unlink(config_path);
    config_path[0] = '\0';
    return finish(state);
}

static aclError init_with(const char *text)
{
    return aclInit(config(text, strlen(text)));
}

/* Without options of the environment, which would win over the file. */
static void only_the_file(void)
{
    set_options("default");
    clear_options();
}

static void an_empty_object_changes_nothing(void **state)
{
    uint32_t count = 0;

    set_options("default");
    assert_acl_ok(init_with("{}"));
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 2);
}

static void the_aclmem_object_sets_options(void **state)
{
    uint32_t count = 0;

    only_the_file();
    assert_acl_ok(init_with(
        "{\"aclmem\": {\"rules\": \"strict\", \"devices\": 4, \"memory\": \"96M\"}}"));
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 4);
    assert_string_equal(aclmem_option("ACLMEM_RULES"), "strict");
    assert_acl_ok(aclrtSetDevice(3));
    assert_int_equal(total_memory(), 96 * MIB);
}

static void the_environment_wins_over_the_file(void **state)
{
    uint32_t count = 0;

    only_the_file();
    setenv("ACLMEM_DEVICES", "3", 1);
    assert_acl_ok(init_with("{\"aclmem\": {\"devices\": 7, \"rules\": \"strict\"}}"));
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 3);
    assert_string_equal(aclmem_option("ACLMEM_RULES"), "strict");
}

static void options_of_a_file_end_with_finalize(void **state)
{
    uint32_t before = 0;
    uint32_t count = 0;

    only_the_file();
    assert_acl_ok(aclInit(NULL)); /* as many as the backend has by itself */
    assert_acl_ok(aclrtGetDeviceCount(&before));
    assert_acl_ok(aclFinalize());
    assert_acl_ok(init_with("{\"aclmem\": {\"devices\": 7}}"));
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 7);
    assert_acl_ok(aclFinalize());
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, before);
    assert_int_not_equal(before, 7);
}

static void keys_of_the_vendor_are_taken(void **state)
{
    set_options("default");
    assert_acl_ok(init_with("{\"dump\": {\"dump_list\": [], \"dump_path\": \"/tmp\"},"
                            " \"max_opqueue_num\": \"20000\","
                            " \"StackSize\": {\"aicore_stack_size\": 32768},"
                            " \"something_new\": [1, 2.5, null, true]}"));
}

static void a_default_device_serves_where_none_was_set(void **state)
{
    int32_t device = 7;

    set_options("default");
    assert_acl_ok(init_with("{\"defaultDevice\": {\"default_device\": \"1\"}}"));
    assert_int_equal(total_memory(), GIB);
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 1);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
}

static const char *fail_in_a_thread(struct worker *self)
{
    worker_check(aclrtSetDevice(1234) == ACL_ERROR_RT_INVALID_DEVICEID);
    return NULL;
}

static void messages_belong_to_the_thread(void **state)
{
    set_options("default");
    assert_acl_ok(init_with("{\"err_msg_mode\": \"0\"}"));
    assert_null(run_thread(fail_in_a_thread, NULL));
    assert_null(aclGetRecentErrMsg());
}

static void messages_belong_to_the_process_in_mode_1(void **state)
{
    const char *text;

    set_options("default");
    assert_acl_ok(init_with("{\"err_msg_mode\": \"1\"}"));
    forget_message();
    assert_null(run_thread(fail_in_a_thread, NULL));
    text = aclGetRecentErrMsg();
    assert_non_null(text);
    assert_non_null(strstr(text, "1234"));
    assert_null(aclGetRecentErrMsg());
}

/* ---- refusals; after each the library can be initialised ---- */

static void refuse_file(aclError rc, aclError code, const char *words, const char *what)
{
    check_code(rc, code, code, what, __FILE__, __LINE__);
    assert_message_has(words);
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclFinalize());
}

static void a_missing_file_is_refused(void **state)
{
    set_options("default");
    refuse_file(aclInit("/nowhere/acl.json"), ACL_ERROR_INVALID_FILE, "/nowhere/acl.json",
                "missing");
    refuse_file(aclInit("/tmp"), ACL_ERROR_INVALID_FILE, "/tmp", "a directory");
}

/* Nobody writes to it, so whoever waited for a writer would wait for ever. */
static void a_fifo_is_refused(void **state)
{
    char folder[] = "/tmp/aclmem-fifo-XXXXXX";
    char path[64];

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/acl.json", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    set_options("default");
    refuse_file(aclInit(path), ACL_ERROR_INVALID_FILE, "not a regular file", "a fifo");
    refuse_file(aclInit("/dev/null"), ACL_ERROR_INVALID_FILE, "/dev/null", "a device");
    unlink(path);
    rmdir(folder);
}

static void malformed_text_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "}",
        "{]",
        "{\"a\"}",
        "{\"a\": }",
        "{\"a\": 1,}",
        "{} {}",
        "{} x",
        "{\"a\": tru}",
        "{\"a\": \"b}",
        "{'a': 1}",
        "{\"a\": 1 \"b\": 2}",
        "\xff\xfe{}",
        "{\"a\": 01}",
    };

    set_options("default");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refuse_file(init_with(texts[i]), ACL_ERROR_PARSE_FILE, config_path, texts[i]);
}

static void a_nul_byte_is_refused(void **state)
{
    set_options("default");
    refuse_file(aclInit(config("{\"a\": 1}\0", 9)), ACL_ERROR_PARSE_FILE, config_path,
                "NUL byte");
}

static void message_of_a_malformed_file_names_the_line(void **state)
{
    set_options("default");
    assert_acl(init_with("{\n\"a\": 1,\n\"b\" 2\n}\n"), ACL_ERROR_PARSE_FILE);
    assert_message_has("line 3|:3");
}

/* `levels` times open, then close, as the value of a key when it is a list. */
static aclError init_nested(int levels, bool is_list)
{
    char text[1024] = "";
    size_t at = 0;

    if (is_list)
        at += (size_t)sprintf(text + at, "{\"a\": ");
    for (int i = 0; i < levels; i++)
        at += (size_t)sprintf(text + at, "%s", is_list ? "[" : i == 0 ? "{" : "\"a\": {");
    for (int i = 0; i < levels; i++)
        at += (size_t)sprintf(text + at, "%s", is_list ? "]" : "}");
    if (is_list)
        at += (size_t)sprintf(text + at, "}");
    return aclInit(config(text, at));
}

static void ten_levels_are_taken_and_eleven_refused(void **state)
{
    set_options("default");
    for (int is_list = 0; is_list < 2; is_list++) {
        assert_acl_ok(init_nested(10, is_list));
        assert_acl_ok(aclFinalize());
        refuse_file(init_nested(11, is_list), ACL_ERROR_PARSE_FILE, "10",
                    "eleven levels");
        refuse_file(init_nested(100, is_list), ACL_ERROR_PARSE_FILE, "10",
                    "a hundred levels");
    }
}

static void braces_in_strings_are_no_levels(void **state)
{
    set_options("default");
    assert_acl_ok(init_with("{\"a\": \"{{{{{{{{{{{{{{[[[[[[[[[[[[[[\\\"{{{{\"}"));
}

static void unknown_key_of_ours_is_refused_with_the_nearest(void **state)
{
    only_the_file();
    refuse_file(init_with("{\"aclmem\": {\"rulez\": \"strict\"}}"),
                ACL_ERROR_FILE_ATTR_INVALID, "rules", "unknown key");
}

static void wrong_type_is_refused(void **state)
{
    static const char *const texts[] = {
        "{\"aclmem\": 3}",
        "{\"aclmem\": []}",
        "{\"aclmem\": {\"devices\": []}}",
        "{\"aclmem\": {\"devices\": {}}}",
        "{\"aclmem\": {\"devices\": null}}",
        "{\"aclmem\": {\"rules\": 1}}",
    };

    only_the_file();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refuse_file(init_with(texts[i]), ACL_ERROR_FILE_ATTR_INVALID, "aclmem|rules",
                    texts[i]);
}

static void bad_value_in_a_file_is_refused(void **state)
{
    only_the_file();
    assert_acl_either(init_with("{\"aclmem\": {\"rules\": \"sloppy\"}}"),
                      ACL_ERROR_FILE_ATTR_INVALID, ACL_ERROR_INVALID_PARAM);
    assert_message_has("rules");
    assert_message_has("sloppy");
    assert_acl_ok(aclInit(NULL));
}

static void a_default_device_must_exist(void **state)
{
    static const char *const ids[] = {"2", "99", "-1", "x", "", "1x", "99999999999"};
    char text[128];

    set_options("default");
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        snprintf(text, sizeof(text), "{\"defaultDevice\": {\"default_device\": \"%s\"}}",
                 ids[i]);
        refuse_file(init_with(text), ACL_ERROR_FILE_ATTR_INVALID, "default_device", text);
    }
}

/* A valid file of `size` bytes, most of them blanks. */
static aclError init_sized(size_t size)
{
    char *text = malloc(size);
    aclError rc;

    assert_non_null(text);
    memset(text, ' ', size);
    text[0] = '{';
    text[size - 1] = '}';
    rc = aclInit(config(text, size));
    free(text);
    return rc;
}

static void files_over_one_mebibyte_are_refused(void **state)
{
    set_options("default");
    assert_acl_ok(init_sized(MIB));
    assert_acl_ok(aclFinalize());
    refuse_file(init_sized(MIB + 1), ACL_ERROR_INVALID_FILE_SIZE, config_path,
                "1 MiB and a byte");
}

static void an_endless_file_is_refused(void **state)
{
    set_options("default");
    assert_acl_either(aclInit("/dev/zero"), ACL_ERROR_INVALID_FILE,
                      ACL_ERROR_INVALID_FILE_SIZE);
}

/* clang-format off */
#define file_claim(f_) {#f_, f_, NULL, remove_config, NULL}
/* clang-format on */

int main(void)
{
    const struct CMUnitTest claims[] = {
        file_claim(an_empty_object_changes_nothing),
        file_claim(the_aclmem_object_sets_options),
        file_claim(the_environment_wins_over_the_file),
        file_claim(options_of_a_file_end_with_finalize),
        file_claim(keys_of_the_vendor_are_taken),
        file_claim(a_default_device_serves_where_none_was_set),
        file_claim(messages_belong_to_the_thread),
        file_claim(messages_belong_to_the_process_in_mode_1),
        file_claim(a_missing_file_is_refused),
        claim_alone(a_fifo_is_refused),
        file_claim(malformed_text_is_refused),
        file_claim(a_nul_byte_is_refused),
        file_claim(message_of_a_malformed_file_names_the_line),
        file_claim(ten_levels_are_taken_and_eleven_refused),
        file_claim(braces_in_strings_are_no_levels),
        file_claim(unknown_key_of_ours_is_refused_with_the_nearest),
        file_claim(wrong_type_is_refused),
        file_claim(bad_value_in_a_file_is_refused),
        file_claim(a_default_device_must_exist),
        file_claim(files_over_one_mebibyte_are_refused),
        file_claim(an_endless_file_is_refused),
    };

    return run_claims(claims);
}
