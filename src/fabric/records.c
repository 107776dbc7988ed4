/* See helper.h: the rows of aclmem info. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/helper.h"

#define ROWS_MAX 256 /* peers with a row; all further peers of a role share one */

struct records {
    struct am_port_row rows[ROWS_MAX + 2];
    size_t n;
    unsigned n_peers[2]; /* exporters, and importers */
};

static void row_add(struct records *records, const struct am_frame_who *who,
                    const char *address, bool is_importer, uint32_t n, uint64_t n_bytes)
{
    struct am_port_row *row = &records->rows[records->n];
    unsigned n_others;

    if (n == 0)
        return;
    if (records->n < ROWS_MAX) {
        *row = (struct am_port_row){.is_importer = is_importer, .pid = who->pid};
        memcpy(row->host, who->host, sizeof row->host);
        snprintf(row->address, sizeof row->address, "%s", address);
        records->n++;
    } else {
        row = &records->rows[ROWS_MAX + is_importer];
        row->is_importer = is_importer;
        n_others = ++records->n_peers[is_importer];
        snprintf(row->address, sizeof row->address, "%u others", n_others);
    }
    row->n += n;
    row->n_bytes += n_bytes;
}

static void records_make(struct records *records)
{
    const struct am_importer *i;
    const struct am_peer_import *import;
    const struct am_peer *peer;

    memset(records, 0, sizeof *records);
    TAILQ_FOREACH (peer, &am_helper.peers, next) {
        uint64_t n_bytes = 0;
        uint32_t n = 0;

        i = peer->importer;
        if (i != NULL)
            row_add(records, &i->who, i->address, true, i->n_grants, i->n_bytes);
        if (peer->is_server || peer->is_dead)
            continue;
        LIST_FOREACH (import, &peer->imports, next) {
            n += import->is_granted;
            n_bytes += import->size;
        }
        row_add(records, &peer->who, peer->address, false, n, n_bytes);
    }
    TAILQ_FOREACH (i, &am_helper.registry.leases, next)
        row_add(records, &i->who, i->address, true, i->n_grants, i->n_bytes);
    for (unsigned role = 0; role < 2; role++) {
        if (records->n_peers[role] > 0)
            records->rows[records->n++] = records->rows[ROWS_MAX + role];
    }
}

void am_records_write(void)
{
    static struct records records, before;
    size_t size;

    if (am_helper.records < 0)
        return;
    records_make(&records);
    size = records.n * sizeof records.rows[0];
    if (records.n == before.n && memcmp(records.rows, before.rows, size) == 0)
        return;
    if (pwrite(am_helper.records, records.rows, size, 0) < 0 ||
        ftruncate(am_helper.records, (off_t)size) != 0)
        return; /* aclmem info shows less */
    before = records;
}
