/* See link.h. */
#include "fabric/link.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <stdio.h>
#include <errno.h>

/* ---- MACs and keys ---- */

static void mac_make(const void *key, size_t key_size, const void *bytes, size_t size,
                     uint8_t *ret_mac)
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key, key_size);
    crypto_auth_hmacsha256_update(&state, bytes, size);
    crypto_auth_hmacsha256_final(&state, ret_mac);
    sodium_memzero(&state, sizeof state);
}

void am_link_keys_make(struct am_link_keys *keys, const void *secret, size_t size)
{
    static const char client[] = "aclmem fabric: proof of the importer";
    static const char server[] = "aclmem fabric: proof of the exporter";
    static const char session[] = "aclmem fabric: session";

    mac_make(secret, size, client, sizeof client, keys->client);
    mac_make(secret, size, server, sizeof server, keys->server);
    mac_make(secret, size, session, sizeof session, keys->session);
}

/* Over the hello and the proof. */
static void proof_mac(const struct am_link *link, uint8_t *ret_mac)
{
    mac_make(link->spec.keys->client, sizeof link->spec.keys->client, &link->handshake,
             offsetof(struct am_handshake, proof.mac), ret_mac);
}

/* Over the hello, the proof and the welcome. */
static void welcome_mac(const struct am_link *link, uint8_t *ret_mac)
{
    mac_make(link->spec.keys->server, sizeof link->spec.keys->server, &link->handshake,
             offsetof(struct am_handshake, welcome.mac), ret_mac);
}

static void frame_mac(const uint8_t *key, const struct am_frame *frame, uint8_t *ret_mac)
{
    mac_make(key, 32, frame, offsetof(struct am_frame, mac), ret_mac);
}

/* The direction of a key, and its use. */
enum session_label {
    SESSION_IMPORTER, /* frames */
    SESSION_EXPORTER,
    SESSION_TOKEN,
    SESSION_IMPORTER_DATA, /* messages */
    SESSION_EXPORTER_DATA,
};

/* Derived from the random numbers of both sides. */
static void session_key(const struct am_link *link, enum session_label which,
                        uint8_t *ret_key)
{
    uint8_t input[1 + 2 * AM_FRAME_NONCE] = {(uint8_t)which};

    memcpy(input + 1, link->handshake.hello.nonce, AM_FRAME_NONCE);
    memcpy(input + 1 + AM_FRAME_NONCE, link->handshake.proof.nonce, AM_FRAME_NONCE);
    mac_make(link->spec.keys->session, sizeof link->spec.keys->session, input,
             sizeof input, ret_key);
}

static void session_begin(struct am_link *link, uint64_t now)
{
    struct am_session *session = &link->session;
    bool is_server = link->spec.is_server;
    uint8_t token[AM_FRAME_MAC];

    session_key(link, SESSION_IMPORTER, is_server ? link->in_key : link->out_key);
    session_key(link, SESSION_EXPORTER, is_server ? link->out_key : link->in_key);
    session_key(link, SESSION_IMPORTER_DATA,
                is_server ? session->in_key : session->out_key);
    session_key(link, SESSION_EXPORTER_DATA,
                is_server ? session->out_key : session->in_key);
    session_key(link, SESSION_TOKEN, token);
    memcpy(session->token, token, sizeof session->token);
    link->state = AM_LINK_UP;
    link->heard = now;
    link->sent = now;
}

/* ---- output ---- */

static void link_end(struct am_link *link, enum am_link_end end)
{
    if (link->state == AM_LINK_DEAD)
        return;
    link->state = AM_LINK_DEAD;
    link->end = end;
}

static void queue_add(struct am_link *link, const void *bytes, size_t size)
{
    if (size > link->queue_size - link->queue_end) {
        size_t want = link->queue_end + size;
        size_t grown = 2 * link->queue_size > want ? 2 * link->queue_size : want;
        uint8_t *queue = want <= AM_LINK_QUEUE_MAX ? realloc(link->queue, grown) : NULL;

        if (queue == NULL) {
            link_end(link, AM_LINK_FULL);
            return;
        }
        link->queue = queue;
        link->queue_size = grown;
    }
    memcpy(link->queue + link->queue_end, bytes, size);
    link->queue_end += size;
}

static void queue_free(struct am_link *link)
{
    free(link->queue);
    link->queue = NULL;
    link->queue_end = link->queue_size = 0;
}

size_t am_link_output(const struct am_link *link, const uint8_t **ret_bytes)
{
    *ret_bytes = link->queue;
    return link->queue_end;
}

void am_link_took(struct am_link *link, size_t size)
{
    link->queue_end -= size;
    if (link->queue_end > 0)
        memmove(link->queue, link->queue + size, link->queue_end);
    else
        queue_free(link); /* an idle link has no buffer */
}

void am_link_send(struct am_link *link, struct am_frame *frame, uint64_t now)
{
    if (link->state != AM_LINK_UP)
        return;
    frame->zero = 0;
    frame->counter = link->n_out++;
    frame_mac(link->out_key, frame, frame->mac);
    queue_add(link, frame, sizeof *frame);
    link->sent = now;
}

/* ---- begin and end ---- */

void am_link_init(struct am_link *link, const struct am_link_spec *spec)
{
    *link = (struct am_link){.spec = *spec, .heard = spec->now, .sent = spec->now};
    if (!link->spec.is_server)
        return;
    link->handshake.hello =
        (struct am_hello){.magic = AM_FRAME_MAGIC, .version = AM_FRAME_VERSION};
    memcpy(link->handshake.hello.nonce, spec->nonce, sizeof link->handshake.hello.nonce);
    queue_add(link, &link->handshake.hello, sizeof link->handshake.hello);
}

void am_link_destroy(struct am_link *link)
{
    queue_free(link);
    sodium_memzero(link->out_key, sizeof link->out_key);
    sodium_memzero(link->in_key, sizeof link->in_key);
    sodium_memzero(&link->session, sizeof link->session);
}

void am_link_close(struct am_link *link)
{
    /* The exporter closes the connection of a process without the key. */
    bool is_refusal = !link->spec.is_server && link->state == AM_LINK_HANDSHAKE &&
                      link->handshake.hello.version != 0;

    link_end(link, is_refusal ? AM_LINK_REFUSED : AM_LINK_CLOSED);
}

/* ---- handshake ---- */

/*
 * The other process, if its MAC is right: the MAC is checked before the fields that it covers
 * are used.  The name of the host is used in messages, so it must be terminated.
 */
static bool who_take(struct am_link *link, const struct am_frame_who *who,
                     const uint8_t *given, const uint8_t *mac)
{
    if (sodium_memcmp(given, mac, AM_FRAME_MAC) != 0) {
        link_end(link, AM_LINK_KEY);
        return false;
    }
    if (memchr(who->host, '\0', sizeof who->host) == NULL || who->zero != 0) {
        link_end(link, AM_LINK_GARBAGE);
        return false;
    }
    link->peer = *who;
    return true;
}

static bool magic_is_right(struct am_link *link, const char *magic, uint32_t version)
{
    if (memcmp(magic, AM_FRAME_MAGIC, sizeof link->handshake.hello.magic) != 0) {
        link_end(link, AM_LINK_GARBAGE);
        return false;
    }
    if (version != AM_FRAME_VERSION) {
        link->peer_version = version;
        link_end(link, AM_LINK_VERSION);
        return false;
    }
    return true;
}

/* At the importer. */
static void hello_take(struct am_link *link, const uint8_t *bytes)
{
    struct am_proof *proof = &link->handshake.proof;

    memcpy(&link->handshake.hello, bytes, sizeof link->handshake.hello);
    if (!magic_is_right(link, link->handshake.hello.magic, link->handshake.hello.version))
        return;
    *proof = (struct am_proof){
        .magic = AM_FRAME_MAGIC, .version = AM_FRAME_VERSION, .who = link->spec.who};
    memcpy(proof->nonce, link->spec.nonce, sizeof proof->nonce);
    proof_mac(link, proof->mac);
    queue_add(link, proof, sizeof *proof);
}

/* At the exporter. */
static void proof_take(struct am_link *link, const uint8_t *bytes, uint64_t now)
{
    struct am_welcome *welcome = &link->handshake.welcome;
    uint8_t mac[AM_FRAME_MAC];

    memcpy(&link->handshake.proof, bytes, sizeof link->handshake.proof);
    if (!magic_is_right(link, link->handshake.proof.magic, link->handshake.proof.version))
        return;
    proof_mac(link, mac);
    if (!who_take(link, &link->handshake.proof.who, link->handshake.proof.mac, mac))
        return;
    welcome->who = link->spec.who;
    welcome_mac(link, welcome->mac);
    queue_add(link, welcome, sizeof *welcome);
    session_begin(link, now);
}

/* At the importer. */
static void welcome_take(struct am_link *link, const uint8_t *bytes, uint64_t now)
{
    struct am_welcome *welcome = &link->handshake.welcome;
    uint8_t mac[AM_FRAME_MAC];

    memcpy(welcome, bytes, sizeof *welcome);
    welcome_mac(link, mac);
    if (who_take(link, &welcome->who, welcome->mac, mac))
        session_begin(link, now);
}

/* ---- input ---- */

static void frame_take(struct am_link *link, const uint8_t *bytes, uint64_t now)
{
    struct am_frame frame;
    uint8_t mac[AM_FRAME_MAC];

    memcpy(&frame, bytes, sizeof frame);
    frame_mac(link->in_key, &frame, mac);
    if (sodium_memcmp(mac, frame.mac, sizeof mac) != 0) {
        link_end(link, AM_LINK_KEY);
        return;
    }
    if (frame.counter != link->n_in || frame.zero != 0 || frame.kind == 0 ||
        frame.kind >= AM_FRAME_KINDS) {
        link_end(link, AM_LINK_GARBAGE);
        return;
    }
    link->n_in++;
    link->heard = now;
    if (frame.kind == AM_FRAME_HEARTBEAT)
        link->n_peer_used = frame.beat.n_used;
    else
        link->spec.frame(link->spec.arg, &frame);
}

/* The size of the next message. */
static size_t message_size(const struct am_link *link)
{
    if (link->state == AM_LINK_UP)
        return sizeof(struct am_frame);
    if (link->spec.is_server)
        return sizeof(struct am_proof);
    return link->handshake.hello.version == 0 ? sizeof(struct am_hello)
                                              : sizeof(struct am_welcome);
}

static void message_take(struct am_link *link, const uint8_t *bytes, uint64_t now)
{
    if (link->state == AM_LINK_UP)
        frame_take(link, bytes, now);
    else if (link->spec.is_server)
        proof_take(link, bytes, now);
    else if (link->handshake.hello.version == 0)
        hello_take(link, bytes);
    else
        welcome_take(link, bytes, now);
}

/* Whether the next message begins with AM_FRAME_MAGIC. */
static bool has_magic(const struct am_link *link)
{
    return link->state == AM_LINK_HANDSHAKE &&
           (link->spec.is_server || link->handshake.hello.version == 0);
}

/* Adds to a partial message; true if it is complete. */
static bool partial_add(struct am_link *link, const uint8_t *bytes, size_t size,
                        size_t whole)
{
    memcpy(link->partial + link->n_partial, bytes, size);
    link->n_partial += size;
    /* Another program may send less than a message and wait. */
    if (has_magic(link) && memcmp(link->partial, AM_FRAME_MAGIC,
                                  link->n_partial < sizeof link->handshake.hello.magic
                                      ? link->n_partial
                                      : sizeof link->handshake.hello.magic) != 0)
        link_end(link, AM_LINK_GARBAGE);
    return link->n_partial == whole && link->state != AM_LINK_DEAD;
}

void am_link_input(struct am_link *link, const void *bytes, size_t size, uint64_t now)
{
    const uint8_t *at = bytes;

    while (size > 0 && link->state != AM_LINK_DEAD) {
        size_t whole = message_size(link);
        size_t n = whole - link->n_partial < size ? whole - link->n_partial : size;

        if (n == whole) {
            message_take(link, at, now);
        } else if (partial_add(link, at, n, whole)) {
            message_take(link, link->partial, now);
            link->n_partial = 0;
        }
        at += n;
        size -= n;
    }
}

/* ---- time ---- */

void am_link_tick(struct am_link *link, uint64_t now)
{
    uint64_t shake = link->spec.is_server && AM_LINK_HANDSHAKE_NS < link->spec.timeout_ns
                         ? AM_LINK_HANDSHAKE_NS
                         : link->spec.timeout_ns;
    struct am_frame frame = {.kind = AM_FRAME_HEARTBEAT, .beat.n_used = link->n_used};

    if (link->state == AM_LINK_HANDSHAKE && now - link->spec.now >= shake)
        link_end(link, AM_LINK_SLOW);
    if (link->state != AM_LINK_UP)
        return;
    if (now - link->heard >= link->spec.timeout_ns)
        link_end(link, AM_LINK_SILENT);
    else if (now - link->sent >= link->spec.timeout_ns / AM_LINK_HEARTBEATS)
        am_link_send(link, &frame, now);
}

const char *am_link_reason(const struct am_link *link)
{
    static const char *const reasons[] = {
        [AM_LINK_ALIVE] = "it is alive",
        [AM_LINK_CLOSED] = "it ended, or closed the connection",
        [AM_LINK_REFUSED] = "it has another key (ACLMEM_FABRIC_KEY), or it ended",
        [AM_LINK_SILENT] = "nothing was heard of it for ACLMEM_FABRIC_TIMEOUT",
        [AM_LINK_SLOW] = "it did not answer in time, or another program answers",
        [AM_LINK_KEY] = "it does not have the same key (ACLMEM_FABRIC_KEY)",
        [AM_LINK_GARBAGE] = "it does not speak the fabric's protocol",
        [AM_LINK_FULL] = "it does not take what is sent to it",
    };

    static char version[192]; /* the fabric process has one thread */

    if (link->end != AM_LINK_VERSION)
        return reasons[link->end];
    snprintf(version, sizeof version,
             "it speaks version %u of the fabric's protocol, and this process %u; "
             "install the same version of aclmem on both",
             link->peer_version, AM_FRAME_VERSION);
    return version;
}

/* ---- the file of the key ---- */

#define SECRET_MIN 32
#define SECRET_MAX 4096

static const char *file_fault(int fd)
{
    struct stat file;

    if (fstat(fd, &file) != 0)
        return strerror(errno);
    if (!S_ISREG(file.st_mode))
        return "is not a regular file";
    if (file.st_uid != geteuid())
        return "belongs to another user";
    if ((file.st_mode & 077) != 0)
        return "can be read or written by other users; use chmod 600";
    if (file.st_size < SECRET_MIN)
        return "is shorter than 32 bytes; make one with aclmem fabric keygen";
    if (file.st_size > SECRET_MAX)
        return "is longer than 4096 bytes";
    return NULL;
}

int am_secret_read(int fd, struct am_link_keys *ret_keys, char *why)
{
    uint8_t secret[SECRET_MAX];
    const char *fault = file_fault(fd);
    ssize_t n = fault == NULL ? pread(fd, secret, sizeof secret, 0) : 0;

    if (fault == NULL && n < SECRET_MIN)
        fault = n < 0 ? strerror(errno) : "is shorter than 32 bytes";
    if (fault != NULL) {
        snprintf(why, AM_SECRET_WHY, "the file of ACLMEM_FABRIC_KEY %s", fault);
        return -1;
    }
    am_link_keys_make(ret_keys, secret, (size_t)n);
    sodium_memzero(secret, sizeof secret);
    return 0;
}
