/* See machine.h. */
#include "machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

/*
 * What follows `key` and a colon in a file of such lines, up to what JSON would not take.
 */
static void file_find(const char *path, const char *key, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    char line[512];

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *value = strchr(line, ':');

        if (strncmp(line, key, strlen(key)) != 0 || value == NULL)
            continue;
        value += strspn(value, ": \t");
        value[strcspn(value, "\n\"\\")] = '\0';
        snprintf(text, size, "%s", value);
        break;
    }
    if (file != NULL)
        fclose(file);
}

/* The word in brackets: the kernel's choice for transparent huge pages. */
static void huge_find(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    char line[128] = "";

    if (file == NULL)
        return;
    if (fgets(line, sizeof line, file) != NULL && strchr(line, '[') != NULL) {
        char *word = strchr(line, '[') + 1;

        word[strcspn(word, "]")] = '\0';
        snprintf(text, size, "%s", word);
    }
    fclose(file);
}

bool machine_has_huge_pages(void)
{
    char word[32] = "never";

    huge_find("/sys/kernel/mm/transparent_hugepage/enabled", word, sizeof word);
    return strcmp(word, "never") != 0;
}

void machine_print(bool is_json)
{
    struct utsname name;
    char cpu[128] = "unknown processor";
    char memory[64] = "0 kB";
    char huge[32] = "unknown";
    unsigned long kb = 0;
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

    uname(&name);
    file_find("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    file_find("/proc/meminfo", "MemTotal", memory, sizeof memory);
    huge_find("/sys/kernel/mm/transparent_hugepage/shmem_enabled", huge, sizeof huge);
    sscanf(memory, "%lu", &kb);

    if (is_json)
        printf("{\"machine\": {\"cpu\": \"%s\", \"cpus\": %ld, \"arch\": \"%s\", "
               "\"kernel\": \"%s\", "
               "\"memory_mb\": %lu, \"shmem_huge_pages\": \"%s\", \"aclmem\": \"%s\"}",
               cpu, n_cpus, name.machine, name.release, kb / 1024, huge,
               aclmem_version());
    else
        printf("aclmem %s on %s, %ld processors (%s), %lu MB, Linux %s, huge pages for "
               "memory files: "
               "%s\n\n",
               aclmem_version(), cpu, n_cpus, name.machine, kb / 1024, name.release,
               huge);
}
