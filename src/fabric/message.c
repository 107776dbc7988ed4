/* See message.h. */
#include "fabric/message.h"

#include <sodium.h>
#include <string.h>

static void mac_make(const uint8_t *key, const struct am_message *message, uint8_t *mac)
{
    crypto_generichash(mac, AM_MESSAGE_MAC, (const uint8_t *)message,
                       offsetof(struct am_message, mac), key, AM_MESSAGE_KEY);
}

void am_message_seal(struct am_session *session, struct am_message *message)
{
    memcpy(message->token, session->token, sizeof message->token);
    message->number = ++session->n_sent;
    mac_make(session->out_key, message, message->mac);
}

/* False for a number that was received before, or that is too old to know. */
static bool number_is_new(struct am_session *session, uint64_t number)
{
    uint64_t age = session->highest - number;

    if (number > session->highest) {
        uint64_t step = number - session->highest;

        session->window = step < 64 ? session->window << step | 1 : 1;
        session->highest = number;
        return true;
    }
    if (number == 0 || age >= 64 || (session->window >> age & 1) != 0)
        return false;
    session->window |= UINT64_C(1) << age;
    return true;
}

bool am_message_open(struct am_session *session, const struct am_message *message,
                     size_t size)
{
    uint8_t mac[AM_MESSAGE_MAC];
    bool has_bytes = message->kind == AM_MESSAGE_PUT || message->kind == AM_MESSAGE_DATA;

    mac_make(session->in_key, message, mac);
    if (sodium_memcmp(mac, message->mac, sizeof mac) != 0 ||
        size != (has_bytes ? message->size : 0) ||
        !number_is_new(session, message->number))
        return false;
    session->n_received++;
    return true;
}
