/* aclmem_info: who has what, seen from inside and from outside. */
#include "support/capture.h"
#include "support/peer.h"
#include "support/vmm.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The text without blanks, so that words can be looked for: "pid":77. */
static const char *info(void)
{
    static char text[65536];
    char *json = NULL;
    size_t n = 0;

    assert_acl_ok(aclmem_info(&json));
    for (const char *c = json; *c != '\0' && n < sizeof(text) - 1; c++) {
        if (!isspace((unsigned char)*c))
            text[n++] = *c;
    }
    text[n] = '\0';
    free(json);
    return text;
}

static void assert_has(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("\"%s\" is not in %s", words, text);
}

/* Role "holder": takes bytes of device 1 and waits. */
static int play_holder(void)
{
    aclrtPhysicalMemProp prop = device_prop(1, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle;
    uint64_t size;

    if (aclInit(NULL) != ACL_SUCCESS)
        return 3;
    while (peer_next(&size)) {
        if (aclrtMallocPhysical(&handle, size, &prop, 0) != ACL_SUCCESS)
            return 2;
        peer_answer(0);
    }
    return 0;
}

/* Role "importer": imports the number that it is told, and waits. */
static int play_importer(void)
{
    aclrtDrvMemHandle handle;
    uint64_t number;

    if (aclInit(NULL) != ACL_SUCCESS)
        return 3;
    while (peer_next(&number))
        peer_answer((uint64_t)aclrtMemImportFromShareableHandle(number, 0, &handle));
    return 0;
}

static void before_the_start_it_shows_what_the_environment_asks_for(void **state)
{
    char folder[] = "/tmp/aclmem-test-XXXXXX";
    char option[80];
    const char *text;

    assert_non_null(mkdtemp(folder));
    snprintf(option, sizeof(option), "ACLMEM_RUNTIME_DIR=%s/run", folder);
    set_options("default", option, "ACLMEM_DEVICES=1", "ACLMEM_PRODUCT=A3",
                "ACLMEM_MEMORY=512M");
    text = info();
    assert_has(text, "\"own\":true,");
    assert_has(text, "\"product\":\"A3\",\"soc\":\"Ascend910_9391\"");
    assert_has(text, "\"devices\":[{\"id\":0,\"capacity\":536870912,\"used\":0,"
                     "\"free\":536870912,\"processes\":0}],\"processes\":[]");
    assert_has(text, "{\"name\":\"ACLMEM_MEMORY\",\"value\":\"512M\",\"given\":true,"
                     "\"default\":\"\",");
    assert_has(text, "\"problem\":null");
    assert_has(text, folder);
    assert_int_equal(rmdir(folder), 0); /* nothing was made in it */
}

static void it_shows_what_each_process_has(void **state)
{
    struct peer other = peer_start("holder");
    struct block b = block_create(64 * MIB);
    char words[200];
    const char *text;

    assert_int_equal(peer_ask(&other, 32 * MIB), 0);
    text = info();
    snprintf(words, sizeof(words),
             "{\"pid\":%d,\"command\":\"test_api_info\",\"devices\":[{\"id\":0,"
             "\"allocated\":67108864,\"exported\":0,\"imported\":0,",
             (int)getpid());
    assert_has(text, words);
    snprintf(words, sizeof(words),
             "{\"pid\":%d,\"command\":\"test_api_info\",\"devices\":[{\"id\":1,"
             "\"allocated\":33554432,\"exported\":0,\"imported\":0,",
             (int)other.pid);
    assert_has(text, words);
    assert_has(text, "{\"id\":1,\"capacity\":1073741824,\"used\":33554432,"
                     "\"free\":1040187392,\"processes\":1}");
    peer_kill(&other, SIGKILL);
    text = info();
    assert_null(strstr(text, words));
    assert_has(text, "{\"id\":1,\"capacity\":1073741824,\"used\":0,");
    block_destroy(&b);
}

static void the_peak_and_what_was_taken_stay(void **state)
{
    struct block b = block_create(64 * MIB);

    block_destroy(&b);
    b = block_create(16 * MIB);
    assert_has(info(), "\"allocated\":16777216,\"exported\":0,\"imported\":0,"
                       "\"peak\":67108864,\"taken\":83886080}],\"allocations\":2,");
    block_destroy(&b);
    assert_has(info(), "\"allocated\":0,\"exported\":0,\"imported\":0,"
                       "\"peak\":67108864,\"taken\":83886080}]");
}

/* With a seed the caller that waits runs the tasks, so the stream has come to its wait. */
static void streams_that_wait_are_shown_with_what_they_wait_for(void **state)
{
    aclrtStream stream, other;
    aclrtNotify notify;
    char words[200];
    uint32_t id;
    int32_t stream_id;

    start("default", "ACLMEM_CHAOS=1");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtCreateStream(&other));
    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    assert_acl_ok(aclrtGetNotifyId(notify, &id));
    assert_acl_ok(aclrtStreamGetId(stream, &stream_id));
    assert_has(info(), "\"streams\":2,\"models\":0,\"model_streams\":0,");
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, 1),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    snprintf(words, sizeof(words),
             "\"waiting\":[{\"stream\":%d,\"device\":0,\"function\":"
             "\"aclrtWaitAndResetNotify\",\"until\":\"notify%uisrecorded\","
             "\"queued\":1}]",
             stream_id, id);
    assert_has(info(), words);
    assert_acl_ok(aclrtRecordNotify(notify, other));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_has(info(), "\"streams\":2,\"models\":0,\"model_streams\":0,");
    assert_acl_ok(aclrtDestroyNotify(notify));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtDestroyStream(other));
    assert_has(info(), "\"streams\":0,\"models\":0,\"model_streams\":0,");
}

static void models_are_counted_with_their_streams(void **state)
{
    aclrtStream stream = make_stream(), side = make_stream();
    aclmdlRI models[2];

    begin_capture(stream, GLOBAL);
    models[0] = end_capture(stream);
    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    assert_has(info(), "\"streams\":2,\"models\":2,\"model_streams\":3,");
    order_after(stream, side);
    models[1] = end_capture(stream);
    end_model(models[0]);
    assert_has(info(), "\"models\":1,\"model_streams\":2,");
    end_model(models[1]);
    assert_has(info(), "\"models\":0,\"model_streams\":0,");
    end_stream(side);
    end_stream(stream);
}

static void shared_memory_is_shown_at_both_and_used_once(void **state)
{
    struct peer other = peer_start("importer");
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle;
    char words[200];
    uint64_t number;
    const char *text;

    assert_acl_ok(aclrtMallocPhysical(&handle, 4 * MIB, &prop, 0));
    assert_acl_ok(aclrtMemExportToShareableHandle(
        handle, ACL_MEM_HANDLE_TYPE_NONE, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
        &number));
    assert_int_equal(peer_ask(&other, number), ACL_SUCCESS);
    text = info();
    snprintf(words, sizeof(words),
             "{\"pid\":%d,\"command\":\"test_api_info\",\"devices\":[{\"id\":0,"
             "\"allocated\":0,\"exported\":4194304,\"imported\":0,",
             (int)getpid());
    assert_has(text, words);
    snprintf(words, sizeof(words),
             "{\"pid\":%d,\"command\":\"test_api_info\",\"devices\":[{\"id\":0,"
             "\"allocated\":0,\"exported\":0,\"imported\":4194304,",
             (int)other.pid);
    assert_has(text, words);
    assert_has(text, "{\"id\":0,\"capacity\":1073741824,\"used\":4194304,");
    assert_acl_ok(aclrtFreePhysical(handle));
    text = info();
    assert_has(text, words); /* it lives on with the importer */
    assert_has(text, "{\"id\":0,\"capacity\":1073741824,\"used\":4194304,");
    assert_int_equal(peer_end(&other), 0);
    assert_has(info(), "{\"id\":0,\"capacity\":1073741824,\"used\":0,");
}

static void processes_with_other_options_are_shown_apart(void **state)
{
    struct peer other;
    const char *text;

    setenv("ACLMEM_PRODUCT", "950", 1);
    other = peer_start("holder");
    unsetenv("ACLMEM_PRODUCT");
    assert_int_equal(peer_ask(&other, 32 * MIB), 0);
    text = info();
    assert_has(text, "\"product\":\"A2\",\"soc\":\"Ascend910B1\"");
    assert_has(text, "\"product\":\"950\",\"soc\":\"Ascend950PR_9589\"");
    assert_true(strstr(text, "\"own\":true") < strstr(text, "\"own\":false"));
    assert_int_equal(peer_end(&other), 0);
    assert_null(strstr(info(), "\"own\":false")); /* nobody is left there */
}

static void a_directory_that_is_not_to_be_trusted_is_named(void **state)
{
    char folder[] = "/tmp/aclmem-test-XXXXXX";
    char option[80];

    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0777), 0);
    snprintf(option, sizeof(option), "ACLMEM_RUNTIME_DIR=%s", folder);
    set_options("default", option);
    assert_has(info(), "\"problem\":\"theruntimedirectoryis");
    assert_int_equal(rmdir(folder), 0);
}

/* JSON is text, and what is shown of it goes to terminals. */
static void names_that_are_no_text_are_shown_with_marks(void **state)
{
    set_options("default", "ACLMEM_RUNTIME_DIR=/tmp/aclmem-none-\xff\33[2J");
    assert_has(info(), "\"runtime_directory\":\"/tmp/aclmem-none-??[2J\"");
}

static void wrong_arguments_and_options_are_refused(void **state)
{
    char *json = NULL;

    set_options("default");
    assert_acl(aclmem_info(NULL), ACL_ERROR_INVALID_PARAM);
    assert_message_has("json is NULL");
    set_options("default", "ACLMEM_PRODUCT=none");
    assert_acl(aclmem_info(&json), ACL_ERROR_INVALID_PARAM);
    assert_message_has("ACLMEM_PRODUCT");
    assert_null(json);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        claim_alone(before_the_start_it_shows_what_the_environment_asks_for),
        claim_both(it_shows_what_each_process_has),
        claim(the_peak_and_what_was_taken_stay),
        claim_alone(streams_that_wait_are_shown_with_what_they_wait_for),
        claim(models_are_counted_with_their_streams),
        claim(shared_memory_is_shown_at_both_and_used_once),
        claim(processes_with_other_options_are_shown_apart),
        claim_alone(a_directory_that_is_not_to_be_trusted_is_named),
        claim_alone(names_that_are_no_text_are_shown_with_marks),
        claim_alone(wrong_arguments_and_options_are_refused),
    };

    if (argc == 2)
        return strcmp(argv[1], "importer") == 0 ? play_importer() : play_holder();
    return run_claims(tests);
}
