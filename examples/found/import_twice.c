/*
 * An importer keeps what it imported under the whole list of numbers of a tensor.
 *
 * Two tensors that share one chunk have different lists, so the chunk is imported twice
 * in one process.  Each number has to be kept by itself.  (The exporter is the same
 * process here, for the sake of a short program.)
 */
#include <string.h>

#include "found.h"

static aclrtDrvMemHandle chunks[8];
static char lists[8][64];
static int n_lists;

static void import_all(const uint64_t *numbers, int n)
{
    char list[64] = "";

    for (int i = 0; i < n; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%d,", (int)numbers[i]);
    for (int i = 0; i < n_lists; i++) {
        if (strcmp(lists[i], list) == 0)
            return; /* this very list was imported before */
    }
    strcpy(lists[n_lists++], list);
    for (int i = 0; i < n; i++)
        MUST(aclrtMemImportFromShareableHandle(numbers[i], 0, &chunks[i]));
}

int main(void)
{
    uint64_t numbers[2];

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    for (int i = 0; i < 2; i++)
        MUST(aclrtMemExportToShareableHandle(chunk_create(), ACL_MEM_HANDLE_TYPE_NONE, 0,
                                             &numbers[i]));
    import_all(numbers, 1); /* a tensor in the first chunk */
    import_all(numbers, 2); /* and one across both */
    return 0;
}
