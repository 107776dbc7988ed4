/* One authenticated connection, without a network: bytes are carried by the test. */
#include "unit.h"

#include <sodium.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/link.h"

#define TIMEOUT (10 * AM_SECOND)

struct side {
    struct am_link link;
    int n_frames;
    struct am_frame last;
};

struct pair {
    struct am_link_keys keys;
    struct side client;
    struct side server;
    uint64_t now;
};

static void frame_note(void *arg, const struct am_frame *frame)
{
    struct side *side = arg;

    side->n_frames++;
    side->last = *frame;
}

static void side_init(struct side *side, const struct am_link_keys *keys, bool is_server)
{
    struct am_link_spec spec = {
        .keys = keys,
        .is_server = is_server,
        .who = {.pid = is_server ? 7 : 8},
        .timeout_ns = TIMEOUT,
        .frame = frame_note,
        .arg = side,
    };

    snprintf(spec.who.host, sizeof spec.who.host, "%s", is_server ? "host" : "importer");
    memset(spec.nonce, is_server ? 0x55 : 0xaa, sizeof spec.nonce);
    memset(side, 0, sizeof *side);
    am_link_init(&side->link, &spec);
}

static void pair_init(struct pair *pair)
{
    pair->now = 0;
    am_link_keys_make(&pair->keys, "a secret of the cluster", 23);
    side_init(&pair->client, &pair->keys, false);
    side_init(&pair->server, &pair->keys, true);
}

static void pair_destroy(struct pair *pair)
{
    am_link_destroy(&pair->client.link);
    am_link_destroy(&pair->server.link);
}

/* Carries what one side has to say, `step` bytes at a time: how many it were. */
static size_t carry(struct side *from, struct side *to, size_t step, uint64_t now)
{
    const uint8_t *bytes;
    size_t size, n = 0;

    while ((size = am_link_output(&from->link, &bytes)) > 0) {
        size = size < step ? size : step;
        am_link_input(&to->link, bytes, size, now);
        am_link_took(&from->link, size);
        n += size;
    }
    return n;
}

static void talk(struct pair *pair, size_t step)
{
    while (carry(&pair->server, &pair->client, step, pair->now) +
               carry(&pair->client, &pair->server, step, pair->now) >
           0)
        ;
}

static void assert_up(struct pair *pair)
{
    assert_int_equal(pair->client.link.state, AM_LINK_UP);
    assert_int_equal(pair->server.link.state, AM_LINK_UP);
}

static void send_echo(struct side *side, uint64_t value, uint64_t now)
{
    struct am_frame frame = {.kind = AM_FRAME_ECHO, .echo.value = value};

    am_link_send(&side->link, &frame, now);
}

static void two_sides_with_one_key_connect(void **state)
{
    static const size_t steps[] = {1, 7, 48, 1023, 1 << 20};

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct pair pair;

        pair_init(&pair);
        talk(&pair, steps[i]);
        assert_up(&pair);
        assert_int_equal(pair.client.link.peer.pid, 7);
        assert_string_equal(pair.server.link.peer.host, "importer");
        send_echo(&pair.client, 1, 0);
        send_echo(&pair.client, 2, 0);
        send_echo(&pair.server, 3, 0);
        talk(&pair, steps[i]);
        assert_int_equal(pair.server.n_frames, 2);
        assert_int_equal(pair.server.last.echo.value, 2);
        assert_int_equal(pair.client.last.echo.value, 3);
        pair_destroy(&pair);
    }
}

static void another_key_ends_the_link_on_both_sides(void **state)
{
    struct am_link_keys other;
    struct pair pair;

    pair_init(&pair);
    am_link_keys_make(&other, "a secret of the clusteR", 23);
    pair.client.link.spec.keys = &other;
    talk(&pair, 64);
    assert_int_equal(pair.server.link.end, AM_LINK_KEY);
    assert_int_equal(pair.client.link.state, AM_LINK_HANDSHAKE); /* it gets no reply */
    am_link_close(&pair.client.link);
    assert_int_equal(pair.client.link.end, AM_LINK_REFUSED);
    pair_destroy(&pair);

    pair_init(&pair); /* an exporter without the key that lets everybody in */
    carry(&pair.server, &pair.client, 64, 0);
    carry(&pair.client, &pair.server, 64, 0);
    pair.server.link.queue[pair.server.link.queue_end - 1] ^= 1;
    carry(&pair.server, &pair.client, 64, 0);
    assert_int_equal(pair.client.link.end, AM_LINK_KEY);
    pair_destroy(&pair);
}

/* Flips each bit of what is sent in the handshake: none is let through. */
static void every_bit_of_the_handshake_counts(void **state)
{
    for (size_t bit = 0; bit < 8 * sizeof(struct am_proof); bit++) {
        struct pair pair;

        pair_init(&pair);
        carry(&pair.server, &pair.client, 4096, 0);
        pair.client.link.queue[bit / 8] ^= (uint8_t)(1u << bit % 8);
        carry(&pair.client, &pair.server, 4096, 0);
        assert_int_equal(pair.server.link.state, AM_LINK_DEAD);
        pair_destroy(&pair);
    }
    for (size_t bit = 0; bit < 8 * sizeof(struct am_welcome); bit++) {
        struct pair pair;

        pair_init(&pair);
        carry(&pair.server, &pair.client, 4096, 0);
        carry(&pair.client, &pair.server, 4096, 0);
        pair.server.link.queue[bit / 8] ^= (uint8_t)(1u << bit % 8);
        carry(&pair.server, &pair.client, 4096, 0);
        assert_int_equal(pair.client.link.end, AM_LINK_KEY);
        pair_destroy(&pair);
    }
}

static void a_changed_repeated_or_reflected_frame_ends_the_link(void **state)
{
    for (int way = 0; way < 4; way++) {
        struct am_frame frame;
        struct pair pair;

        pair_init(&pair);
        talk(&pair, 4096);
        send_echo(&pair.client, 5, 0);
        memcpy(&frame, pair.client.link.queue, sizeof frame);
        switch (way) {
        case 0: /* altered */
            frame.echo.value ^= 1;
            am_link_input(&pair.server.link, &frame, sizeof frame, 0);
            break;
        case 1: /* repeated */
            am_link_input(&pair.server.link, &frame, sizeof frame, 0);
            assert_int_equal(pair.server.link.state, AM_LINK_UP);
            am_link_input(&pair.server.link, &frame, sizeof frame, 0);
            break;
        case 2: /* sent back */
            am_link_input(&pair.client.link, &frame, sizeof frame, 0);
            assert_int_equal(pair.client.link.state, AM_LINK_DEAD);
            am_link_close(&pair.server.link);
            break;
        default: /* one is left out */
            send_echo(&pair.client, 6, 0);
            am_link_took(&pair.client.link, sizeof frame);
            carry(&pair.client, &pair.server, 4096, 0);
        }
        assert_int_equal(pair.server.link.state, AM_LINK_DEAD);
        assert_int_equal(pair.server.n_frames, way == 1);
        pair_destroy(&pair);
    }
}

/* Frames of one connection are refused in the next. */
static void a_recorded_handshake_is_refused(void **state)
{
    struct am_proof recorded;
    struct pair pair;

    pair_init(&pair);
    carry(&pair.server, &pair.client, 4096, 0);
    memcpy(&recorded, pair.client.link.queue, sizeof recorded);
    pair_destroy(&pair);
    pair_init(&pair);
    pair.server.link.handshake.hello.nonce[0] ^= 1; /* new numbers */
    am_link_input(&pair.server.link, &recorded, sizeof recorded, 0);
    assert_int_equal(pair.server.link.end, AM_LINK_KEY);
    pair_destroy(&pair);
}

/* Both sides have the same token and keys, and each connection has others. */
static void each_connection_has_its_own_session(void **state)
{
    uint8_t before[AM_TOKEN_SIZE];
    struct pair pair;

    pair_init(&pair);
    talk(&pair, 4096);
    assert_up(&pair);
    assert_memory_equal(pair.client.link.session.token, pair.server.link.session.token,
                        sizeof before);
    assert_memory_not_equal(pair.client.link.session.token, pair.client.link.in_key,
                            sizeof before);
    assert_memory_not_equal(pair.client.link.session.token, pair.client.link.out_key,
                            sizeof before);
    memcpy(before, pair.client.link.session.token, sizeof before);
    assert_memory_equal(pair.client.link.session.out_key, pair.server.link.session.in_key,
                        AM_MESSAGE_KEY);
    assert_memory_equal(pair.client.link.session.in_key, pair.server.link.session.out_key,
                        AM_MESSAGE_KEY);
    assert_memory_not_equal(pair.client.link.session.in_key,
                            pair.client.link.session.out_key, AM_MESSAGE_KEY);
    pair_destroy(&pair);
    pair_init(&pair);
    pair.client.link.spec.nonce[0] ^= 1;
    talk(&pair, 4096);
    assert_up(&pair);
    assert_memory_equal(pair.client.link.session.token, pair.server.link.session.token,
                        sizeof before);
    assert_memory_not_equal(pair.client.link.session.token, before, sizeof before);
    pair_destroy(&pair);
}

static void another_version_is_reported(void **state)
{
    struct pair pair;

    pair_init(&pair);
    ((struct am_hello *)pair.server.link.queue)->version = 9;
    carry(&pair.server, &pair.client, 4096, 0);
    assert_int_equal(pair.client.link.end, AM_LINK_VERSION);
    assert_int_equal(pair.client.link.peer_version, 9);
    pair_destroy(&pair);
}

static void bytes_of_another_program_end_the_link(void **state)
{
    static const char greeting[] = "SSH-2.0-OpenSSH_9.2p1\r\n"; /* shorter than a hello */
    struct pair pair;

    pair_init(&pair);
    am_link_input(&pair.client.link, greeting, 1, 1);
    assert_int_equal(pair.client.link.state, AM_LINK_DEAD);
    assert_int_equal(pair.client.link.end, AM_LINK_GARBAGE);
    am_link_input(&pair.server.link, AM_FRAME_MAGIC, 7, 1);
    assert_int_equal(pair.server.link.state, AM_LINK_HANDSHAKE);
    am_link_input(&pair.server.link, greeting, sizeof greeting, 1);
    assert_int_equal(pair.server.link.end, AM_LINK_GARBAGE);
    pair_destroy(&pair);
}

static void a_slow_handshake_ends_the_link(void **state)
{
    struct pair pair;

    pair_init(&pair);
    am_link_tick(&pair.server.link, AM_LINK_HANDSHAKE_NS - 1);
    assert_int_equal(pair.server.link.state, AM_LINK_HANDSHAKE);
    am_link_tick(&pair.server.link, AM_LINK_HANDSHAKE_NS);
    assert_int_equal(pair.server.link.end, AM_LINK_SLOW);
    am_link_tick(&pair.client.link, TIMEOUT);
    assert_int_equal(pair.client.link.end, AM_LINK_SLOW);
    pair_destroy(&pair);
}

static void heartbeats_keep_an_idle_link_alive(void **state)
{
    struct pair pair;

    pair_init(&pair);
    talk(&pair, 4096);
    for (pair.now = 0; pair.now < 100 * TIMEOUT; pair.now += AM_SECOND) {
        am_link_tick(&pair.client.link, pair.now);
        am_link_tick(&pair.server.link, pair.now);
        talk(&pair, 4096);
    }
    assert_up(&pair);
    assert_int_equal(pair.server.n_frames + pair.client.n_frames, 0);
    assert_true(pair.client.link.n_out <= 100 * (AM_LINK_HEARTBEATS + 1));
    pair_destroy(&pair);
}

static void silence_ends_the_link_after_the_timeout(void **state)
{
    struct pair pair;

    pair_init(&pair);
    talk(&pair, 4096);
    am_link_tick(&pair.client.link, TIMEOUT - 1);
    assert_int_equal(pair.client.link.state, AM_LINK_UP);
    pair.now = TIMEOUT - 1;
    talk(&pair, 4096); /* its beat comes late, but in time */
    am_link_tick(&pair.server.link, TIMEOUT);
    pair.now = TIMEOUT;
    talk(&pair, 4096);
    am_link_tick(&pair.client.link, 2 * TIMEOUT - 1);
    assert_int_equal(pair.client.link.state, AM_LINK_UP);
    am_link_tick(&pair.client.link, 2 * TIMEOUT);
    assert_int_equal(pair.client.link.end, AM_LINK_SILENT);
    pair_destroy(&pair);
}

static void a_peer_that_does_not_read_ends_the_link(void **state)
{
    struct pair pair;

    pair_init(&pair);
    talk(&pair, 4096);
    for (size_t i = 0; i <= AM_LINK_QUEUE_MAX / sizeof(struct am_frame); i++)
        send_echo(&pair.client, i, 0);
    assert_int_equal(pair.client.link.end, AM_LINK_FULL);
    assert_string_equal(am_link_reason(&pair.client.link),
                        "it does not take what is sent to it");
    pair_destroy(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sides_with_one_key_connect),
        cmocka_unit_test(another_key_ends_the_link_on_both_sides),
        cmocka_unit_test(every_bit_of_the_handshake_counts),
        cmocka_unit_test(a_changed_repeated_or_reflected_frame_ends_the_link),
        cmocka_unit_test(a_recorded_handshake_is_refused),
        cmocka_unit_test(each_connection_has_its_own_session),
        cmocka_unit_test(another_version_is_reported),
        cmocka_unit_test(bytes_of_another_program_end_the_link),
        cmocka_unit_test(a_slow_handshake_ends_the_link),
        cmocka_unit_test(heartbeats_keep_an_idle_link_alive),
        cmocka_unit_test(silence_ends_the_link_after_the_timeout),
        cmocka_unit_test(a_peer_that_does_not_read_ends_the_link),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
