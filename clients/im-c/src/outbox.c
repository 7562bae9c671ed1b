/* Messages that the server has not stored yet, in the order in which they were sent. One message of
 * a conversation is on its way at a time, so that a conversation keeps its order. Each keeps its
 * client id until the server has answered, so that retries never duplicate it (IM 4.2). */
#include "parts.h"

#include <string.h>

enum {
    QUEUE_BYTES_MAX = 1 << 20, /* of texts and extras */
    WINDOW_MAX = 64            /* requests under way, if the server allows as many */
};

bool im_queued_at(const im_client *c, size_t at, im_queued *it) {
    if (c->queue_used - at < IM_QUEUED_HEAD) return false;
    uint8_t *record = c->config.queue + at;
    it->record = record;
    it->number = (uint32_t)im_number(record, 4);
    it->client_id = record + 4;
    it->to.size = (size_t)im_number(record + 20, 4);
    it->to.data = record + IM_QUEUED_HEAD;
    it->content.size = (size_t)im_number(record + 24, 4);
    it->content.data = it->to.data + it->to.size;
    it->size = IM_QUEUED_HEAD + it->to.size + it->content.size;
    return true;
}

bool im_outbox_check(const im_client *c) {
    im_queued it;
    size_t at = 0;
    while (at < c->queue_used) {
        if (!im_queued_at(c, at, &it) || it.size > c->queue_used - at) return false;
        at += it.size;
    }
    return true;
}

bool im_queued_find(const im_client *c, im_bytes client_id, im_queued *it) {
    if (client_id.size != IM_CLIENT_ID_BYTES) return false;
    for (size_t at = 0; im_queued_at(c, at, it); at += it->size) {
        if (memcmp(it->client_id, client_id.data, client_id.size) == 0) return true;
    }
    return false;
}

bool im_queued_numbered(const im_client *c, uint32_t number, im_queued *it) {
    for (size_t at = 0; number != 0 && im_queued_at(c, at, it); at += it->size) {
        if (it->number == number) return true;
    }
    return false;
}

/* ---- conversations: `bob` and `bob@domain` are the same ---- */

static im_bytes part(im_bytes whole, bool behind_at) {
    const uint8_t *at = whole.size == 0 ? NULL : memchr(whole.data, '@', whole.size);
    size_t name = at == NULL ? whole.size : (size_t)(at - whole.data);
    im_bytes found = {whole.data, name};
    if (behind_at) {
        found.data = at == NULL ? NULL : at + 1;
        found.size = at == NULL ? 0 : whole.size - name - 1;
    }
    return found;
}

static bool is_same(im_bytes one, im_bytes other) {
    return one.size == other.size && (one.size == 0 || memcmp(one.data, other.data, one.size) == 0);
}

static bool is_one_conversation(const im_client *c, im_bytes one, im_bytes other) {
    im_bytes own = part(im_text(c->account), true), a = part(one, true), b = part(other, true);
    return is_same(part(one, false), part(other, false))
        && is_same(a.data == NULL ? own : a, b.data == NULL ? own : b);
}

static bool is_busy(const im_client *c, im_bytes to) {
    im_queued other;
    for (size_t at = 0; im_queued_at(c, at, &other); at += other.size) {
        if (other.number != 0 && is_one_conversation(c, to, other.to)) return true;
    }
    return false;
}

uint32_t im_window(const im_client *c) {
    /* A pull needs no room of its own. */
    uint32_t most = c->requests_max < 2 ? 1 : c->requests_max - 1;
    return most < WINDOW_MAX ? most : WINDOW_MAX;
}

bool im_queued_next(const im_client *c, im_queued *it) {
    uint32_t under_way = 0;
    for (size_t at = 0; im_queued_at(c, at, it); at += it->size) under_way += it->number != 0;
    if (under_way > 0 && under_way + c->asked_count >= im_window(c)) return false;
    for (size_t at = 0; im_queued_at(c, at, it); at += it->size) {
        if (it->number == 0 && !is_busy(c, it->to)) return true;
    }
    return false;
}

void im_queued_mark(const im_queued *it, uint32_t number) { im_put(it->record, number, 4); }

void im_queued_remove(im_client *c, const im_queued *it) {
    size_t behind = (size_t)(it->record - c->config.queue) + it->size;
    memmove(it->record, it->record + it->size, c->queue_used - behind);
    c->queue_used -= it->size;
    c->is_dirty = true;
}

void im_outbox_lost(im_client *c) {
    im_queued it;
    for (size_t at = 0; im_queued_at(c, at, &it); at += it.size) im_queued_mark(&it, 0);
}

/* ---- queueing ---- */

static size_t content_bytes(im_bytes content) {
    im_message it;
    return im_read_content(content, &it) ? it.text.size + it.extra.size : SIZE_MAX;
}

/* Room for a message whose content follows, `size` bytes of which `plain` are text and extra; NULL
 * with the error if it is not to be queued. */
static uint8_t *reserve(im_client *c, const uint8_t *client_id, im_bytes to, size_t size,
                        size_t plain, im_error *error) {
    im_queued it;
    size_t count = 0, bytes = 0;
    *error = IM_TOO_LARGE;
    if (to.size > IM_NAME_BYTES_MAX || size + IM_SEND_BYTES > c->config.out_bytes) return NULL;
    *error = IM_OK;
    const im_bytes id = {client_id, IM_CLIENT_ID_BYTES};
    if (im_queued_find(c, id, &it)) return NULL;
    for (size_t at = 0; im_queued_at(c, at, &it); at += it.size, count++) {
        bytes += content_bytes(it.content);
    }
    *error = IM_QUEUE_FULL;
    size_t left = c->config.queue_bytes - c->queue_used;
    if (count >= IM_MESSAGES_MAX || left < IM_QUEUED_HEAD + to.size + size
        || bytes + plain > QUEUE_BYTES_MAX) {
        return NULL;
    }
    uint8_t *record = c->config.queue + c->queue_used;
    im_put(record, 0, 4);
    memcpy(record + 4, client_id, IM_CLIENT_ID_BYTES);
    im_put(record + 20, to.size, 4);
    im_put(record + 24, size, 4);
    memcpy(record + IM_QUEUED_HEAD, to.data, to.size);
    *error = IM_OK;
    return record + IM_QUEUED_HEAD + to.size;
}

static void queued(im_client *c, im_bytes to, size_t size) {
    c->queue_used += IM_QUEUED_HEAD + to.size + size;
    c->is_dirty = true;
}

im_error im_send_content(im_client *c, const uint8_t client_id[IM_CLIENT_ID_BYTES], const char *to,
                         im_bytes content) {
    im_error error;
    size_t plain = content_bytes(content);
    if (plain == SIZE_MAX) return IM_MALFORMED;
    uint8_t *room = reserve(c, client_id, im_text(to), content.size, plain, &error);
    if (room == NULL) return error;
    memcpy(room, content.data, content.size);
    queued(c, im_text(to), content.size);
    return IM_OK;
}

im_error im_send(im_client *c, const char *to, const char *text,
                 uint8_t made[IM_CLIENT_ID_BYTES]) {
    uint8_t id[IM_CLIENT_ID_BYTES];
    im_error error;
    im_writer content = {NULL, 0, 0, false};
    size_t length = strlen(text), width = 1;
    for (size_t rest = length; rest >= 0x80; rest >>= 7) width++;
    c->config.io.random(c->config.io.context, id, sizeof id);
    if (made != NULL) memcpy(made, id, sizeof id);
    content.size = 2 + (length > 0 ? 1 + width + length : 0);
    content.bytes = reserve(c, id, im_text(to), content.size, length, &error);
    if (content.bytes == NULL) return error;
    im_write_number(&content, 1, 1); /* a text */
    im_write_text(&content, 2, text);
    queued(c, im_text(to), content.used);
    return IM_OK;
}
