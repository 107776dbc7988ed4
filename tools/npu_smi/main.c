/*
 * npu-smi: the devices that aclmem plays, in the layout that scripts and programs read.
 *
 * Only `npu-smi info` and what others read of it is here.  Everything comes from
 * aclmem_info(): memory and processes from the ledger, names from the product.  There is no model of
 * power, temperature or load, so those are 0.
 *
 * On the A3 one NPU is a module of two chips, and each chip is a device.
 */
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

#define TOOL_VERSION "25.5.0"
#define MB (1 << 20)

/* How a product names its chips, and which columns it has. */
static struct {
    const json_t *devices;
    const json_t *processes;
    int n_devices;
    int chips;         /* of one NPU */
    char name[32];     /* "910B1"; "Ascend910" on the A3 */
    char npu_name[32]; /* "9391" on the A3, "" elsewhere */
    bool is_950;
    bool has_hbm;
} machine;

static struct {
    bool is_list;
    bool is_map;
    const char *type;
    int npu;  /* -1: not given */
    int chip; /* -1: not given */
} choice = {.npu = -1, .chip = -1};

static const json_t *device_at(int id)
{
    return json_array_get(machine.devices, (size_t)id);
}

static long long mb_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key)) / MB;
}

static int n_npus(void)
{
    return (machine.n_devices + machine.chips - 1) / machine.chips;
}

static int chips_of(int npu)
{
    int left = machine.n_devices - npu * machine.chips;

    return left < machine.chips ? left : machine.chips;
}

/* As aclrtDeviceGetPCIBusId gives it for an emulated device; asking would start the library. */
static const char *bus_id(int device)
{
    static char text[32];

    snprintf(text, sizeof text, "0000:%02X:00.0", (0xC1 + device) & 0xFF);
    return text;
}

/* ---- npu-smi info ---- */

/* A line of three columns, and its two kinds of rulers. */
static void row(const char *a, const char *b, const char *c)
{
    printf("| %-26s| %-14s| %-51s|\n", a, b, c);
}

static void ruler(char c)
{
    for (int i = 0; i < 98; i++)
        putchar(i == 0 || i == 28 || i == 44 || i == 97 ? '+' : c);
    putchar('\n');
}

static void plain_ruler(void)
{
    for (int i = 0; i < 98; i++)
        putchar(i == 0 || i == 97 ? '+' : '-');
    putchar('\n');
}

static void info_head(void)
{
    plain_ruler();
    printf("| npu-smi %-25sVersion: %-53s|\n", TOOL_VERSION, TOOL_VERSION);
    ruler('-');
    row(machine.is_950 ? "NPU ID Name" : "NPU   Name", "Health",
        "Power(W)    Temp(C)           Hugepages-Usage(page)");
    row(machine.is_950      ? ""
        : machine.chips > 1 ? "Chip  Phy-ID"
        : machine.has_hbm   ? "Chip"
                            : "Chip  Device",
        "Bus-Id",
        machine.is_950    ? "NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)"
        : machine.has_hbm ? "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"
                          : "AICore(%)   Memory-Usage(MB)");
    ruler('=');
}

static void info_chip(int npu, int chip)
{
    int id = npu * machine.chips + chip;
    long long used = mb_of(device_at(id), "used");
    long long total = mb_of(device_at(id), "capacity");
    char left[64], right[96], usage[40];

    snprintf(left, sizeof left, "%-5d %s", npu, machine.name);
    snprintf(right, sizeof right, "%-11s %-17s 0    / 0", chip == 0 ? "0.0" : "-", "0");
    row(left, "OK", right);
    snprintf(usage, sizeof usage, "%-4lld/ %lld", used, total);
    if (machine.has_hbm)
        snprintf(right, sizeof right, "%-11d %-17s %s", 0, "0    / 0", usage);
    else
        snprintf(right, sizeof right, "%-11d %s", 0, usage);
    if (machine.is_950)
        left[0] = '\0';
    else if (machine.chips > 1 || !machine.has_hbm)
        snprintf(left, sizeof left, "%-5d %d", chip, id);
    else
        snprintf(left, sizeof left, "%d", chip);
    row(left, bus_id(id), right);
}

static void process_row(int npu, int chip, const json_t *process, const json_t *device)
{
    char left[64], middle[32];

    if (machine.is_950)
        snprintf(left, sizeof left, "%d", npu);
    else
        snprintf(left, sizeof left, "%-7d %d", npu, chip);
    snprintf(middle, sizeof middle, "%lld",
             (long long)json_integer_value(json_object_get(process, "pid")));
    printf("| %-26s| %-14s| %-25.25s| %-24lld|\n", left, middle,
           json_string_value(json_object_get(process, "command")),
           mb_of(device, "allocated"));
}

/* The processes of one NPU; false: it has none. */
static bool processes_of(int npu)
{
    bool has_any = false;
    json_t *process, *device;
    size_t i, j;

    json_array_foreach (machine.processes, i, process) {
        json_array_foreach (json_object_get(process, "devices"), j, device) {
            int id = (int)json_integer_value(json_object_get(device, "id"));

            if (id / machine.chips != npu)
                continue;
            process_row(npu, id % machine.chips, process, device);
            has_any = true;
        }
    }
    return has_any;
}

/* Rows of this library alone; programs that read the table expect numbers in other rows. */
static void models_print(void)
{
    bool has_any = false;
    json_t *process;
    size_t i;

    json_array_foreach (machine.processes, i, process) {
        json_int_t n = json_integer_value(json_object_get(process, "models"));
        char texts[3][40];

        if (n == 0)
            continue;
        has_any = true;
        snprintf(texts[0], sizeof texts[0], "Captured models: %lld", (long long)n);
        snprintf(texts[1], sizeof texts[1], "%lld",
                 (long long)json_integer_value(json_object_get(process, "pid")));
        snprintf(
            texts[2], sizeof texts[2], "Streams: %lld",
            (long long)json_integer_value(json_object_get(process, "model_streams")));
        printf("| %-26s| %-14s| %-25.25s| %-24s|\n", texts[0], texts[1],
               json_string_value(json_object_get(process, "command")), texts[2]);
    }
    if (has_any)
        ruler('=');
}

static int info_print(void)
{
    info_head();
    for (int npu = 0; npu < n_npus(); npu++) {
        for (int chip = 0; chip < chips_of(npu); chip++) {
            if (chip > 0)
                ruler('-');
            info_chip(npu, chip);
        }
        ruler('=');
    }
    ruler('-');
    printf("| %-26s| %-14s| %-25s| %-24s|\n", machine.is_950 ? "NPU ID" : "NPU     Chip",
           "Process id", "Process name", "Process memory(MB)");
    ruler('=');
    for (int npu = 0; npu < n_npus(); npu++) {
        if (!processes_of(npu))
            printf("| No running processes found in NPU %-61d|\n", npu);
        ruler('=');
    }
    models_print();
    return 0;
}

/* ---- the other forms ---- */

static void field(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void field(const char *name, const char *format, ...)
{
    va_list args;

    printf("\t%-30s : ", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static int list_print(void)
{
    field("Total Count", "%d", n_npus());
    for (int npu = 0; npu < n_npus(); npu++) {
        putchar('\n');
        field("NPU ID", "%d", npu);
        field("Chip Count", "%d", chips_of(npu));
    }
    return 0;
}

static int map_print(void)
{
    if (machine.is_950)
        printf("\t%-24s%-24s%s\n", "Slot ID", "Chip Phy-ID", "Chip Name");
    else
        printf("\t%-24s%-24s%-24s%s\n", "NPU ID", "Chip ID", "Chip Logic ID",
               "Chip Name");
    for (int npu = 0; npu < n_npus(); npu++) {
        for (int chip = 0; chip < chips_of(npu); chip++) {
            int id = npu * machine.chips + chip;
            bool is_short = strncmp(machine.name, "Ascend", 6) != 0;

            if (machine.is_950)
                printf("\t%-24d%-24d%s\n", npu, id, machine.name);
            else
                printf("\t%-24d%-24d%-24d%s%s\n", npu, chip, id,
                       is_short ? "Ascend " : "", machine.name);
        }
        if (!machine.is_950)
            printf("\t%-24d%-24d%-24s%s\n", npu, chips_of(npu), "-", "Mcu");
    }
    return 0;
}

static void board_print(int npu, int chip)
{
    int id = npu * machine.chips + chip;
    bool is_plain = machine.npu_name[0] == '\0';

    field("NPU ID", "%d", npu);
    if (choice.chip < 0 && !machine.is_950) {
        field("Software Version", "%s", TOOL_VERSION);
        field("Firmware Version", "%s", TOOL_VERSION);
        field("PCIe Bus Info", "%s", bus_id(id));
        field("Chip Count", "%d", chips_of(npu));
        return;
    }
    field("Chip ID", "%d", chip);
    if (is_plain)
        field("Chip Type", "%s", "Ascend");
    field("Chip Name", "%s", machine.name);
    if (!is_plain)
        field("NPU Name", "%s", machine.npu_name);
    field("Chip Version", "%s", "V1");
    field("PCIe Bus Info", "%s", bus_id(id));
    field("Firmware Version", "%s", TOOL_VERSION);
}

static void memory_print(int npu, int chip)
{
    const json_t *device = device_at(npu * machine.chips + chip);

    field("NPU ID", "%d", npu);
    field("Chip Count", "%d", chips_of(npu));
    if (machine.has_hbm) {
        field("DDR Capacity(MB)", "%d", 0);
        field("DDR Clock Speed(MHz)", "%d", 0);
        field("HBM Capacity(MB)", "%lld", mb_of(device, "capacity"));
        field("HBM Clock Speed(MHz)", "%d", 0);
        field("HBM Temperature(C)", "%d", 0);
        field("HBM Manufacturer ID", "%s", "0x0");
    } else {
        field("Total Capacity(MB)", "%lld", mb_of(device, "capacity"));
        field("Capacity(MB)", "%lld", mb_of(device, "capacity"));
        field("Clock Speed(MHz)", "%d", 0);
    }
    field("Chip ID", "%d", chip);
}

static void usages_print(int npu, int chip)
{
    static const char *const rates[] = {
        "Aicore Usage Rate(%)",        "Aivector Usage Rate(%)",
        "Aicpu Usage Rate(%)",         "Ctrlcpu Usage Rate(%)",
        "DDR Bandwidth Usage Rate(%)", "HBM Bandwidth Usage Rate(%)"};
    const json_t *device = device_at(npu * machine.chips + chip);
    long long capacity = mb_of(device, "capacity");
    long long rate = capacity > 0 ? mb_of(device, "used") * 100 / capacity : 0;

    field("NPU ID", "%d", npu);
    field("Chip Count", "%d", chips_of(npu));
    putchar('\n');
    field("Chip ID", "%d", chip);
    if (machine.has_hbm) {
        field("DDR Capacity(MB)", "%d", 0);
        field("DDR Usage Rate(%)", "%d", 0);
        field("DDR Hugepages Total(page)", "%d", 0);
        field("DDR Hugepages Usage Rate(%)", "%d", 0);
        field("HBM Capacity(MB)", "%lld", capacity);
        field("HBM Usage Rate(%)", "%lld", rate);
    } else {
        field("Memory Capacity(MB)", "%lld", capacity);
        field("Memory Usage Rate(%)", "%lld", rate);
        field("Hugepages Total(page)", "%d", 0);
        field("Hugepages Usage Rate(%)", "%d", 0);
    }
    for (size_t i = 0; i < (machine.has_hbm ? 6 : 4); i++)
        field(rates[i], "%d", 0);
}

static void health_print(int npu, int chip)
{
    field("NPU ID", "%d", npu);
    field("Chip ID", "%d", chip);
    field("Health", "%s", "OK");
}

static int topo_print(void)
{
    char cpus[256] = "0";
    FILE *file = fopen("/sys/devices/system/cpu/online", "r");

    if (file != NULL && fgets(cpus, sizeof cpus, file) != NULL)
        cpus[strcspn(cpus, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    printf("%-11s", "");
    for (int i = 0; i < machine.n_devices; i++)
        printf("NPU%-8d", i);
    printf("CPU Affinity\n");
    for (int i = 0; i < machine.n_devices; i++) {
        printf("NPU%-8d", i);
        for (int j = 0; j < machine.n_devices; j++)
            printf("%-11s", i == j ? "X" : machine.has_hbm ? "HCCS" : "PHB");
        printf("%s\n", cpus);
    }
    return 0;
}

static const struct {
    const char *type;
    void (*print)(int npu, int chip);
} types[] = {{"board", board_print},
             {"memory", memory_print},
             {"usages", usages_print},
             {"health", health_print}};

static int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int fail(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "npu-smi: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr,
            "\nusage: npu-smi info [-l | -m | -t topo |\n"
            "                     -t board|memory|usages|health -i NPU [-c CHIP]]\n");
    return 1;
}

static int type_print(void)
{
    int first = choice.chip < 0 ? 0 : choice.chip;

    if (strcmp(choice.type, "topo") == 0)
        return topo_print();
    if (choice.npu < 0)
        return fail("-t %s needs -i NPU", choice.type);
    if (choice.npu >= n_npus() || first >= chips_of(choice.npu))
        return fail("there is no such NPU or chip; this machine has %d NPUs of %d chips",
                    n_npus(), machine.chips);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(choice.type, types[i].type) != 0)
            continue;
        types[i].print(choice.npu, first);
        return 0;
    }
    return fail("there is no type \"%s\" here", choice.type);
}

/* ---- the machine ---- */

/* "Ascend910B1" is the chip 910B1; "Ascend910_9391" the chip Ascend910 and the NPU 9391. */
static void names_set(const char *soc)
{
    const char *cut = strchr(soc, '_');

    machine.is_950 = strncmp(soc, "Ascend950", 9) == 0;
    if (cut != NULL) {
        snprintf(machine.name, sizeof machine.name, "%.*s", (int)(cut - soc), soc);
        snprintf(machine.npu_name, sizeof machine.npu_name, "%s", cut + 1);
    } else {
        snprintf(machine.name, sizeof machine.name, "%s",
                 strncmp(soc, "Ascend", 6) == 0 ? soc + 6 : soc);
    }
}

static bool machine_read(const json_t *info)
{
    const json_t *own = json_array_get(json_object_get(info, "configurations"), 0);
    const char *product = json_string_value(json_object_get(own, "product"));
    const char *soc = json_string_value(json_object_get(own, "soc"));

    if (product == NULL || soc == NULL)
        return false;
    machine.devices = json_object_get(own, "devices");
    machine.processes = json_object_get(own, "processes");
    machine.n_devices = (int)json_array_size(machine.devices);
    machine.chips = strcmp(product, "A3") == 0 ? 2 : 1;
    machine.has_hbm = strncmp(product, "310", 3) != 0;
    names_set(soc);
    return true;
}

static bool number_read(const char *text, int *ret)
{
    char *end;
    long value = strtol(text, &end, 10);

    *ret = (int)value;
    return end != text && *end == '\0' && value >= 0 && value < 1000;
}

/* 0, or the exit code after saying what is wrong. */
static int arguments_read(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "info") != 0)
        return fail("only \"npu-smi info\" is here");
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "-l") == 0) {
            choice.is_list = true;
        } else if (strcmp(argv[i], "-m") == 0) {
            choice.is_map = true;
        } else if (strcmp(argv[i], "-t") == 0 && value != NULL) {
            choice.type = argv[++i];
        } else if (strcmp(argv[i], "-i") == 0 && value != NULL) {
            if (!number_read(argv[++i], &choice.npu))
                return fail("-i takes the number of an NPU, not \"%s\"", value);
        } else if (strcmp(argv[i], "-c") == 0 && value != NULL) {
            if (!number_read(argv[++i], &choice.chip))
                return fail("-c takes the number of a chip, not \"%s\"", value);
        } else {
            return fail("\"%s\" is not understood", argv[i]);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    int rc = arguments_read(argc, argv);
    const char *message;
    json_t *info;
    char *text;

    if (rc != 0)
        return rc;
    if (aclmem_info(&text) != ACL_SUCCESS) {
        message = aclGetRecentErrMsg();
        fprintf(stderr, "npu-smi: %s\n", message != NULL ? message : "no information");
        return 1;
    }
    info = json_loads(text, 0, NULL);
    free(text);
    if (!machine_read(info))
        rc = 1;
    else if (choice.is_list)
        rc = list_print();
    else if (choice.is_map)
        rc = map_print();
    else if (choice.type != NULL)
        rc = type_print();
    else
        rc = info_print();
    json_decref(info);
    return fflush(stdout) == 0 ? rc : 1;
}
