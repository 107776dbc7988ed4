/*
 * aclmem report: a trace as a page that opens from disk.
 *
 * The page is page/index.html with styles, scripts and data in it.
 */
#include "page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "history.h"
#include "output.h"
#include "page_data.h"
#include "page_files.h"
#include "text.h"
#include "trace/reader.h"

static struct {
    const char *output;
    const char *findings;
    const char *pool;
    bool is_replacing;
} choice;

static void base64_write(FILE *out, const struct bytes *bytes)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < bytes->n; i += 3) {
        size_t left = bytes->n - i;
        uint32_t three = (uint32_t)bytes->data[i] << 16 |
                         (left > 1 ? (uint32_t)bytes->data[i + 1] << 8 : 0) |
                         (left > 2 ? bytes->data[i + 2] : 0);

        fputc(digits[three >> 18], out);
        fputc(digits[three >> 12 & 63], out);
        fputc(left > 1 ? digits[three >> 6 & 63] : '=', out);
        fputc(left > 2 ? digits[three & 63] : '=', out);
    }
}

#define PUT(out_, name_) fwrite(name_, 1, (size_t)(name_##_end - name_), out_)

static void template_write(FILE *out, const struct bytes *packed)
{
    for (const char *at = page_index; *at != '\0';) {
        const char *mark = strchr(at, '@');
        const char *end = mark != NULL ? strchr(mark + 1, '@') : NULL;

        if (end == NULL ||
            strspn(mark + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != (size_t)(end - mark) - 1) {
            size_t n = mark != NULL ? (size_t)(mark - at) + 1 : strlen(at);

            fwrite(at, 1, n, out);
            at += n;
            continue;
        }
        fwrite(at, 1, (size_t)(mark - at), out);
        if (strncmp(mark, "@VENDOR_CSS@", 12) == 0)
            PUT(out, page_vendor_style);
        else if (strncmp(mark, "@STYLE@", 7) == 0)
            PUT(out, page_style);
        else if (strncmp(mark, "@VENDOR_JS@", 11) == 0)
            PUT(out, page_vendor);
        else if (strncmp(mark, "@SCRIPT@", 8) == 0)
            PUT(out, page_data), PUT(out, page_ui), PUT(out, page_memory),
                PUT(out, page_views), PUT(out, page_models), PUT(out, page_script);
        else
            base64_write(out, packed);
        at = end + 1;
    }
}

static int failed(const char *path, const char *why)
{
    fprintf(stderr, "aclmem report: %s: %s\n", path, why);
    return 1;
}

/* Handles of streams as text: numbers of a page have 53 bits. */
static void pool_streams_name(json_t *pool)
{
    json_t *block;
    size_t i;

    json_array_foreach (json_object_get(pool, "blocks"), i, block) {
        char name[32];

        snprintf(name, sizeof name, "0x%llx",
                 (unsigned long long)number_of(block, "stream"));
        json_object_set_new(block, "stream", json_string(name));
    }
}

/* The snapshot that was named, or the file itself if it is one; NULL: none. */
static int pool_load(const char *path, bool is_trace, json_t **ret_pool)
{
    *ret_pool = NULL;
    if (choice.pool != NULL) {
        *ret_pool = json_load_file(choice.pool, 0, NULL);
        if (!is_pool_snapshot(*ret_pool)) {
            json_decref(*ret_pool);
            return failed(choice.pool, "it is no output of aclmem_pool_snapshot()");
        }
    } else if (!is_trace) {
        *ret_pool = json_load_file(path, 0, NULL);
        if (!is_pool_snapshot(*ret_pool)) {
            json_decref(*ret_pool);
            *ret_pool = NULL;
        }
    }
    pool_streams_name(*ret_pool);
    return 0;
}

static int file_write(const char *output, const struct bytes *packed, bool may_replace)
{
    FILE *out = output_open("report", output, may_replace);

    if (out == NULL)
        return 1;
    template_write(out, packed);
    return output_close(out, 0);
}

static int pages_write(const char *path, const char *before, const char *output,
                       bool may_replace, const json_t *findings)
{
    struct bytes packed = {0};
    json_t *pool;
    int rc = 1;

    if (pool_load(path, trace_is(path), &pool) != 0)
        return 1;
    if (page_data_make(path, before, findings, pool, &packed))
        rc = file_write(output, &packed, may_replace);
    json_decref(pool);
    free(packed.data);
    return rc;
}

int page_write(const char *path, const char *output, bool may_replace,
               const json_t *findings)
{
    return pages_write(path, NULL, output, may_replace, findings);
}

static int report_run(int argc, char **argv)
{
    json_t *given = NULL;
    json_t *findings = NULL;
    char output[4096];
    const char *before = NULL;
    const char *path;
    int rc = 1;

    if (argc != 1 && argc != 2)
        return usage_fail("report", "which file, or which two?");
    if (choice.findings != NULL) {
        given = json_load_file(choice.findings, 0, NULL);
        findings = json_object_get(given, "findings");
        if (!json_is_array(findings)) {
            json_decref(given);
            return failed(choice.findings, "it is no output of aclmem run --json");
        }
    }
    if (choice.output == NULL && strcmp(argv[argc - 1], "-") == 0)
        choice.output = "-";
    if (choice.output == NULL) {
        snprintf(output, sizeof output, "%.4000s.html", argv[argc - 1]);
        choice.output = output;
    }
    path = input_path("report", argv[argc - 1]);
    if (argc == 2)
        before = input_path("report", argv[0]);
    if (path != NULL && (argc == 1 || before != NULL))
        rc = pages_write(path, before, choice.output, choice.is_replacing, findings);
    if (rc == 0 && strcmp(choice.output, "-") != 0)
        printf("%s\n", choice.output);
    json_decref(given);
    return rc;
}

static const struct option options[] = {
    {"output", OPTION_TEXT, &choice.output, "PAGE",
     "Write PAGE (default: FILE.html); - is standard output", 'o'},
    {"force", OPTION_FLAG, &choice.is_replacing, NULL, "Replace an existing PAGE", 0},
    {"findings", OPTION_TEXT, &choice.findings, "JSON",
     "Show the findings in this output of aclmem run --json", 0},
    {"pool", OPTION_TEXT, &choice.pool, "JSON",
     "Show the blocks in this output of aclmem_pool_snapshot()", 0},
    {0},
};

const struct command report_command = {
    .name = "report",
    .group = GROUP_TRACE,
    .operands = "FILE | BEFORE AFTER",
    .help = "Write a page about a trace: memory, addresses, streams, flames",
    .options = options,
    .examples =
        "  aclmem report run.trace            Write run.trace.html\n"
        "  aclmem report old.trace new.trace  Write new.trace.html, with what changed\n"
        "  aclmem report -o - - < run.trace > page.html\n"
        "                                     Read and write standard streams\n",
    .run = report_run,
};
