/*
 * aclmem info: what the devices are used for, and by which processes.
 *
 * All of it comes from aclmem_info(); this file asks and lays it out.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"
#include "command.h"
#include "output.h"
#include "text.h"

static struct {
    const char *json;
    bool is_options;
} choice;

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
    if (number_of(process, "models") > 0)
        printf("  %7lld  captured models: %lld, their streams: %lld\n",
               number_of(process, "pid"), number_of(process, "models"),
               number_of(process, "model_streams"));
}

static void configuration_print(const json_t *configuration, bool is_known)
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
        printf("  %s\n", is_known ? "no process has them"
                                  : "which processes have them is not known");
        return;
    }
    printf("  process  command          device   allocated    exported    imported\n");
    json_array_foreach (processes, i, process)
        process_print(process);
}

static void fabric_print(const json_t *fabric)
{
    json_t *row;
    size_t i;

    if (json_array_size(fabric) == 0)
        return;
    printf("\nmemory of other machines\n");
    printf("  process  direction     machine           address                process  "
           "pieces       bytes\n");
    json_array_foreach (fabric, i, row) {
        printf("  %7lld  %-12s  %-16s  %-21s  %7lld  %6lld", number_of(row, "process"),
               text_of(row, "direction"), text_of(row, "machine"),
               text_of(row, "address"), number_of(row, "peer"), number_of(row, "pieces"));
        size_print(row, "bytes");
        printf("\n");
    }
}

static void info_print(const json_t *info)
{
    const json_t *pages = json_object_get(info, "huge_pages");
    bool is_known = text_of(info, "problem")[0] == '\0';
    json_t *configuration;
    size_t i;

    printf("aclmem %s, runtime directory %s\n", text_of(info, "version"),
           text_of(info, "runtime_directory"));
    if (!is_known)
        printf("problem: %s\n", text_of(info, "problem"));
    printf("huge pages: %s: %s\n",
           json_is_true(json_object_get(pages, "used")) ? "yes" : "no",
           text_of(pages, "why"));
    json_array_foreach (json_object_get(info, "configurations"), i, configuration)
        configuration_print(configuration, is_known);
    fabric_print(json_object_get(info, "fabric"));
}

static void options_print(const json_t *options)
{
    json_t *option;
    size_t i;

    json_array_foreach (options, i, option) {
        const char *value = text_of(option, "value");
        const char *preset = text_of(option, "default");

        printf("%s=%s\n", text_of(option, "name"), value);
        if (json_is_true(json_object_get(option, "given")))
            printf("    default: %s\n", preset[0] != '\0' ? preset : "not given");
        printf("    %s\n", text_of(option, "help"));
    }
}

static int info_run(int argc, char **argv)
{
    json_t *info;
    json_t *options;
    char *text;
    int rc = 0;

    if (aclmem_info(&text) != ACL_SUCCESS) {
        const char *message = aclGetRecentErrMsg();

        fprintf(stderr, "aclmem: %s\n", message != NULL ? message : "no information");
        return 1;
    }
    info = json_loads(text, 0, NULL);
    options = json_object_get(info, "options");
    if (choice.json != NULL) {
        rc = json_write("info", choice.json, choice.is_options ? options : info,
                        JSON_INDENT(2));
    } else if (choice.is_options) {
        options_print(options);
    } else {
        info_print(info);
    }
    json_decref(info);
    free(text);
    return rc;
}

static const struct option options[] = {
    {"json", OPTION_OUTPUT, &choice.json, "FILE", "Print JSON, or write it to FILE", 'j'},
    {"options", OPTION_FLAG, &choice.is_options, NULL,
     "List the options instead: name, value in force, default,\nmeaning", 0},
    {0},
};

const struct command info_command = {
    .name = "info",
    .group = GROUP_WATCH,
    .operands = "",
    .help = "Show devices, how much of them is used, and by which processes",
    .options = options,
    .examples =
        "  aclmem info             Show devices and processes\n"
        "  aclmem info --options   List the ACLMEM_ variables with their values\n",
    .run = info_run,
};
