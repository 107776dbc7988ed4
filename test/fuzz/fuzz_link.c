/*
 * Bytes from the network.
 *
 * The first byte says to which side they go and when: to a side that waits for its
 * handshake, to one that is up, or as the content of frames with right codes, which a
 * process with the key may send.  A stranger never gets a frame through.  Between such
 * frames are parcels, which come over UCX: with the pass, or as they are.
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/registry.h"
#include "fabric/link.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static struct am_link_keys keys;
static struct am_link client, server;
static int n_frames;
static struct am_registry registry;
static struct am_importer *importer;
static uint8_t *memory; /* of the export */

#define ROOM 64

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void export_freed(struct am_registry_export *export)
{
}

/* As the exporter's side takes frames; see src/fabric/peer.c. */
static void frame_take(void *arg, const struct am_frame *frame)
{
    struct am_frame answer;

    n_frames++;
    if (importer == NULL)
        importer = am_registry_connect(&registry, &server.peer, &server.session);
    require(importer != NULL);
    if (frame->kind == AM_FRAME_IMPORT) {
        am_registry_import(&registry, importer, frame, &answer);
    } else if (frame->kind == AM_FRAME_RELEASE) {
        am_registry_release(importer, frame->release.number);
    } else if (frame->kind == AM_FRAME_RECONNECT) {
        am_registry_reconnect(importer, frame, &answer);
    } else if (frame->kind == AM_FRAME_CLOSE) {
        am_registry_disconnect(&registry, importer, 0);
        importer = NULL;
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct am_registry_export *export = calloc(1, sizeof *export);

    require(sodium_init() >= 0);
    am_link_keys_make(&keys, "secret", 6);
    am_registry_init(&registry, 1000000000, export_freed);
    export->ticket.number = 1;
    export->is_open = true;
    export->size = ROOM;
    memory = malloc(ROOM);
    require(memory != NULL);
    export->address = memory;
    require(am_registry_add(&registry, export));
    return 0;
}

static void link_make(struct am_link *link, bool is_server)
{
    struct am_link_spec spec = {
        .keys = &keys,
        .is_server = is_server,
        .timeout_ns = 1000000000,
        .frame = frame_take,
    };

    am_link_init(link, &spec);
}

static void carry(struct am_link *from, struct am_link *to)
{
    const uint8_t *bytes;
    size_t size = am_link_output(from, &bytes);

    if (size == 0)
        return;
    am_link_input(to, bytes, size, 0);
    am_link_took(from, size);
}

static void shake(void)
{
    carry(&server, &client);
    carry(&client, &server);
    carry(&server, &client);
    require(client.state == AM_LINK_UP && server.state == AM_LINK_UP);
}

/* A message with these fields; sealed by the importer, or as it is. */
static void message_send(const uint8_t *bytes, size_t n, bool is_sealed)
{
    static const uint8_t content[2 * ROOM];
    struct am_registry_export *export;
    struct am_importer *of;
    struct am_message message = {0}, get, ack;
    enum am_registry_result result;
    size_t size = bytes[0] % sizeof content;

    memcpy(&message, bytes, n < sizeof message ? n : sizeof message);
    message.grant %= 4;
    message.kind %= 6;
    if (is_sealed) {
        message.size = bytes[0] % 3 == 0 ? message.size : (uint32_t)size;
        am_message_seal(&client.session, &message);
    }
    result = am_registry_receive(&registry, &message, is_sealed ? sizeof message : n,
                                 content, message.kind == AM_MESSAGE_PUT ? size : 0, &of,
                                 &get, &export);
    require((result == AM_REGISTRY_INVALID) == (of == NULL));
    require(of == NULL || (is_sealed && of == importer));
    if (result == AM_REGISTRY_DATA_DUE) {
        require(get.offset + get.size <= export->size && get.size <= export->size);
        am_registry_unref(export);
    }
    if (of != NULL)
        am_registry_ack(of, &ack);
}

/* A process with the key says anything. */
static void frames_send(const uint8_t *bytes, size_t n_bytes)
{
    shake();
    while (n_bytes > 0) {
        struct am_frame frame = {0};
        size_t most = bytes[0] >= 0x80 ? sizeof(struct am_message) : 40;
        size_t n = n_bytes < most ? n_bytes : most;

        frame.kind = bytes[0] % (AM_FRAME_KINDS + 1);
        memcpy(frame.all, bytes, n);
        if (bytes[0] >= 0x80) {
            message_send(bytes, n, bytes[0] < 0xc0);
        } else {
            am_link_send(&client, &frame, 0);
            carry(&client, &server);
        }
        bytes += n;
        n_bytes -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct am_link *to;
    unsigned way;

    if (n_bytes == 0)
        return 0;
    n_frames = 0;
    link_make(&client, false);
    link_make(&server, true);
    way = bytes[0] % 8;
    to = way & 1 ? &client : &server;
    if (way >= 6) {
        frames_send(bytes + 1, n_bytes - 1);
    } else {
        if (way >= 4)
            shake();
        else if (way >= 2)
            carry(&server, &client);
        am_link_input(to, bytes + 1, n_bytes - 1, 0);
        am_link_tick(to, 500000000);
        require(n_frames == 0);
        require(way >= 4 || to->state != AM_LINK_UP);
    }
    if (importer != NULL)
        am_registry_remove(&registry, importer);
    importer = NULL;
    am_registry_expire(&registry, 1000000000);
    require(TAILQ_EMPTY(&registry.leases) && RB_ROOT(&registry.exports)->n_refs == 0);
    am_link_destroy(&client);
    am_link_destroy(&server);
    return 0;
}
