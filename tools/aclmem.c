/*
 * The command aclmem: what the devices are used for, and by whom.
 *
 *     aclmem info [--json] [--options]
 *
 * All of it comes from aclmem_info(); this program asks and lays it out.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

struct choice {
    bool is_json;
    bool is_options;
};

static void usage(FILE *file)
{
    fprintf(file,
            "usage: aclmem info [--json] [--options]\n"
            "  info         devices, how much of them is used, and by which processes\n"
            "    --options  the options instead: name, value, default, meaning\n"
            "    --json     either as JSON\n"
            "       aclmem --help | --version\n");
}

static int usage_fail(const char *what, const char *argument)
{
    fprintf(stderr, "aclmem: %s%s%s\n", what, argument != NULL ? " " : "",
            argument != NULL ? argument : "");
    usage(stderr);
    return 2;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

/* "1.5 GB"; in the largest unit of which there is one. */
static const char *size_text(long long size, char *text, size_t n)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)size;
    size_t unit = 0;

    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, n, "%.*f %s", unit > 0 && value < 100 ? 1 : 0, value, units[unit]);
    return text;
}

static void size_print(const json_t *object, const char *key)
{
    char text[32];

    printf("  %10s", size_text(number_of(object, key), text, sizeof text));
}

static void devices_print(const json_t *configuration)
{
    json_t *device;
    size_t i;

    printf("  device    capacity        used        free  processes (of %lld)\n",
           number_of(configuration, "processes_allowed"));
    json_array_foreach (json_object_get(configuration, "devices"), i, device) {
        printf("  %6lld", number_of(device, "id"));
        size_print(device, "capacity");
        size_print(device, "used");
        size_print(device, "free");
        printf("  %9lld\n", number_of(device, "processes"));
    }
}

static void process_print(const json_t *process)
{
    const json_t *devices = json_object_get(process, "devices");
    json_t *device;
    size_t i;

    if (json_array_size(devices) == 0)
        printf("  %7lld  %-15s       -\n", number_of(process, "pid"),
               text_of(process, "command"));
    json_array_foreach (devices, i, device) {
        printf("  %7lld  %-15s  %6lld", number_of(process, "pid"),
               text_of(process, "command"), number_of(device, "id"));
        size_print(device, "allocated");
        size_print(device, "exported");
        size_print(device, "imported");
        printf("\n");
    }
}

static void configuration_print(const json_t *configuration)
{
    const json_t *processes = json_object_get(configuration, "processes");
    json_t *process;
    size_t i;

    printf("\n%s (%s), %zu devices, %s backend%s\n", text_of(configuration, "product"),
           text_of(configuration, "soc"),
           json_array_size(json_object_get(configuration, "devices")),
           text_of(configuration, "backend"),
           json_is_true(json_object_get(configuration, "own"))
               ? ""
               : "; of processes with other options");
    devices_print(configuration);
    if (json_array_size(processes) == 0) {
        printf("  no process has them\n");
        return;
    }
    printf("  process  command          device   allocated    exported    imported\n");
    json_array_foreach (processes, i, process)
        process_print(process);
}

static void info_print(const json_t *info)
{
    const json_t *pages = json_object_get(info, "huge_pages");
    json_t *configuration;
    size_t i;

    printf("aclmem %s, processes meet in %s\n", text_of(info, "version"),
           text_of(info, "runtime_directory"));
    if (text_of(info, "problem")[0] != '\0')
        printf("no processes are seen: %s\n", text_of(info, "problem"));
    printf("huge pages: %s: %s\n",
           json_is_true(json_object_get(pages, "used")) ? "yes" : "no",
           text_of(pages, "why"));
    json_array_foreach (json_object_get(info, "configurations"), i, configuration)
        configuration_print(configuration);
}

static void options_print(const json_t *options)
{
    json_t *option;
    size_t i;

    json_array_foreach (options, i, option) {
        const char *value = text_of(option, "value");
        const char *preset = text_of(option, "default");

        printf("%s=%s\n", text_of(option, "name"), value);
        if (strcmp(value, preset) != 0)
            printf("    default: %s\n", preset[0] != '\0' ? preset : "not given");
        printf("    %s\n", text_of(option, "help"));
    }
}

static int info_run(const struct choice *choice)
{
    json_t *info;
    json_t *options;
    char *text;

    if (aclmem_info(&text) != ACL_SUCCESS) {
        const char *message = aclGetRecentErrMsg();

        fprintf(stderr, "aclmem: %s\n", message != NULL ? message : "no information");
        return 1;
    }
    info = json_loads(text, 0, NULL);
    options = json_object_get(info, "options");
    if (choice->is_json && choice->is_options) {
        json_dumpf(options, stdout, JSON_INDENT(2));
        printf("\n");
    } else if (choice->is_json) {
        printf("%s\n", text);
    } else if (choice->is_options) {
        options_print(options);
    } else {
        info_print(info);
    }
    json_decref(info);
    free(text);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* Help is given wherever it is asked for. */
static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct choice choice = {false, false};

    if (argc < 2)
        return usage_fail("what to do?", NULL);
    if (wants_help(argc, argv)) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0 && argc == 2) {
        printf("aclmem %s\n", aclmem_version());
        return 0;
    }
    if (strcmp(argv[1], "info") != 0)
        return usage_fail("unknown:", argv[1]);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            choice.is_json = true;
        else if (strcmp(argv[i], "--options") == 0)
            choice.is_options = true;
        else
            return usage_fail("unknown:", argv[i]);
    }
    return info_run(&choice);
}
