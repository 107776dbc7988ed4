/* Identifiers, and the machine's name in base/machine.c. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"

/* The space of domain names, from RFC 4122's appendix C. */
static const uint8_t dns[AM_UUID_SIZE] = {0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1,
                                          0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8};

static const char *text_of(const uint8_t *uuid)
{
    static char text[2 * AM_UUID_SIZE + 1];

    for (int i = 0; i < AM_UUID_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", uuid[i]);
    return text;
}

static const char *made_of(const uint8_t *space, const char *name)
{
    uint8_t uuid[AM_UUID_SIZE];

    am_uuid_make(space, name, uuid);
    return text_of(uuid);
}

/* Values that other implementations give. */
static void known_names_have_known_uuids(void **state)
{
    assert_string_equal(made_of(dns, "python.org"), "886313e13b8a53729b900c9aee199e5d");
    assert_string_equal(made_of(dns, "www.example.com"),
                        "2ed6657de927568b95e12665a8aea6a2");
}

/* Around the lengths at which one more block is needed, up to the longest that counts. */
static void names_of_every_length_are_right(void **state)
{
    static const struct {
        size_t size;
        const char *uuid;
    } rows[] = {
        {0, "4ebd020883285d698c44ec50939c0967"},
        {39, "5824f981428259d49716acb6d741350e"},
        {40, "39f39c20db475131887962f8f67f9014"},
        {47, "660c273c8a005941b6f48d0afed88966"},
        {48, "7280cc42274a5c4a91fcae23f853eeb7"},
        {103, "1cf1b32974b750b0a81928e28c61c775"},
        {104, "31477a3f211d5651b3cebe7c82999e70"},
        {127, "3f04c0f6d54f5e179d819d91bc553693"},
        {128, "97171c9416fb58c8a8cbdc2f0e33dc43"},
        {255, "97171c9416fb58c8a8cbdc2f0e33dc43"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char name[256] = "";

        memset(name, 'a', rows[i].size);
        assert_string_equal(made_of(dns, name), rows[i].uuid);
    }
}

static char root[] = "/tmp/aclmem_test_XXXXXX";

static const char *id_with(const char *content)
{
    uint8_t id[AM_UUID_SIZE];
    char path[128];

    snprintf(path, sizeof(path), "%s/etc/machine-id", root);
    unlink(path);
    if (content != NULL) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fputs(content, file);
        fclose(file);
    }
    am_machine_id(id);
    return text_of(id);
}

static void the_machines_file_is_its_id(void **state)
{
    static const char id[] = "0123456789abcdef0123456789ABCDEF";
    static const char same[] = "0123456789abcdef0123456789abcdef";
    char line[64];

    snprintf(line, sizeof(line), "%s\n", id);
    assert_string_equal(id_with(id), same);
    assert_string_equal(id_with(line), same);
}

static void without_a_good_file_the_name_counts(void **state)
{
    static const char *const bad[] = {
        NULL,
        "",
        "uninitialized\n",
        "0123456789abcdef0123456789abcde\n",
        "0123456789abcdef0123456789abcdef0\n",
        "00000000000000000000000000000000\n",
        "01234567-89ab-cdef-0123-456789abcdef\n",
    };
    char of_host[64];

    snprintf(of_host, sizeof(of_host), "%s", id_with(NULL));
    assert_int_equal(strlen(of_host), 32);
    assert_string_not_equal(of_host, "00000000000000000000000000000000");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_string_equal(id_with(bad[i]), of_host);
}

static int make_root(void **state)
{
    char path[128];

    if (mkdtemp(root) == NULL)
        return -1;
    am_machine_root = root;
    snprintf(path, sizeof(path), "%s/etc", root);
    return mkdir(path, 0700);
}

static int remove_root(void **state)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/etc/machine-id", root);
    unlink(path);
    snprintf(path, sizeof(path), "%s/etc", root);
    return rmdir(path) == 0 && rmdir(root) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_names_have_known_uuids),
        cmocka_unit_test(names_of_every_length_are_right),
        cmocka_unit_test(the_machines_file_is_its_id),
        cmocka_unit_test(without_a_good_file_the_name_counts),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
