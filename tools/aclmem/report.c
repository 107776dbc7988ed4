/* The findings for machines: JSON and JUnit. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "findings.h"
#include "text.h"

static FILE *file_open(const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");

    if (file == NULL)
        fprintf(stderr, "aclmem: %s: %s\n", path, strerror(errno));
    return file;
}

static int file_close(FILE *file, const char *path)
{
    int rc = file == stdout ? fflush(file) : fclose(file);

    if (rc != 0)
        fprintf(stderr, "aclmem: %s: %s\n", path, strerror(errno));
    return rc == 0 ? 0 : -1;
}

int report_json(const char *path, const struct findings *findings, const json_t *more)
{
    FILE *file = file_open(path);
    json_t *report;

    if (file == NULL)
        return -1;
    report = json_pack("{s:O, s:I, s:I, s:i, s:i}", "findings", findings->list, "calls",
                       (json_int_t)findings->n_calls, "calls_refused",
                       (json_int_t)findings->n_refused, "processes",
                       findings->n_processes, "suppressed", findings->n_suppressed);
    if (findings->is_lint)
        json_object_set_new(report, "portability", needs_json(findings));
    json_object_update(report, (json_t *)more);
    json_dumpf(report, file, JSON_INDENT(2));
    fputc('\n', file);
    json_decref(report);
    return file_close(file, path);
}

static void xml_put(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc((unsigned char)*text < ' ' && *text != '\n' ? '?' : *text, file);
        }
    }
}

static void failure_put(FILE *file, const json_t *finding)
{
    json_t *call;
    json_t *frame;
    size_t i;
    size_t k;

    fputs("      <failure type=\"", file);
    xml_put(file, text_of(finding, "kind"));
    fputs("\" message=\"", file);
    xml_put(file, text_of(finding, "message"));
    fputs("\">", file);
    json_array_foreach (json_object_get(finding, "calls"), i, call) {
        xml_put(file, text_of(call, "what"));
        fputs(": ", file);
        xml_put(file, text_of(call, "function"));
        fputc('\n', file);
        json_array_foreach (json_object_get(call, "stack"), k, frame) {
            fputs("    ", file);
            xml_put(file, text_of(frame, "function"));
            fputs("  ", file);
            xml_put(file, text_of(frame, "file"));
            fprintf(file, ":%lld\n", number_of(frame, "line"));
        }
    }
    fputs("</failure>\n", file);
}

/* A test case for each finding, and one for the program itself. */
int report_junit(const char *path, const struct findings *findings, const char *program,
                 int code)
{
    FILE *file = file_open(path);
    size_t n = json_array_size(findings->list);
    json_t *head;
    json_t *finding;
    size_t i;

    if (file == NULL)
        return -1;
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
            "  <testsuite name=\"aclmem run\" tests=\"%zu\" failures=\"%zu\">\n",
            n + 1, n + (code != 0));
    fputs("    <testcase classname=\"aclmem\" name=\"", file);
    head = json_pack("{s:o}", "program", text_json(program)); /* in UTF-8 */
    xml_put(file, text_of(head, "program"));
    json_decref(head);
    fputs("\">\n", file);
    if (code != 0)
        fprintf(file, "      <failure type=\"exit\" message=\"exit code %d\"/>\n", code);
    fputs("    </testcase>\n", file);
    json_array_foreach (findings->list, i, finding) {
        fputs("    <testcase classname=\"aclmem\" name=\"", file);
        xml_put(file, text_of(finding, "kind"));
        fprintf(file, " %zu\">\n", i + 1);
        failure_put(file, finding);
        fputs("    </testcase>\n", file);
    }
    fputs("  </testsuite>\n</testsuites>\n", file);
    return file_close(file, path);
}
