/* The frames of a server: the messages of im.proto that the client itself understands. A frame is
 * read whole before anything is done about it. */
#include "parts.h"

#include <string.h>

static const char *const MALFORMED = "malformed";

/* Fields of ServerFrame. */
static const char *const NAMES[] = {
    NULL, "logged_in", "challenge", "refused", "sent", "failed", "message", "notify", "page",
    "history", "end", "pong", "changed", "members", "event", "marked_read", "set", "conversations",
    "contacts", "done", "contact", "presence", "transient", NULL, "found", NULL, "upload", NULL,
    "push_status", "push_code", "readers", "privacy", "chatroom_joined", "chatroom_message",
    "chatroom_missed", "chatroom_news", "delivered", "token",
};
/* Those whose first field is the number of a request. */
static const uint8_t NUMBERED[] = {4, 5, 8, 9, 12, 13, 15, 16, 17, 18, 19, 24, 26, 28, 29, 30, 31,
                                   32, 37};

const char *im_answer_name(uint32_t kind) {
    return kind < sizeof NAMES / sizeof *NAMES ? NAMES[kind] : NULL;
}

uint32_t im_answer_number(uint32_t kind, im_reader body) {
    im_field field;
    if (memchr(NUMBERED, (int)kind, sizeof NUMBERED) == NULL) return 0;
    while (im_field_next(&body, &field)) {
        if (field.number == 1) return (uint32_t)field.value;
    }
    return 0;
}

/* ---- fields of a type; a wrong one is a fault ---- */

static void number(im_reader *r, const im_field *field, uint64_t *to) {
    if (field->type != IM_VARINT) r->failed = true;
    *to = field->value;
}

static void number32(im_reader *r, const im_field *field, uint32_t *to) {
    if (field->type != IM_VARINT || field->value > UINT32_MAX) r->failed = true;
    *to = (uint32_t)field->value;
}

/* An enumeration is an int32, whose negative numbers have 64 bits. */
static void word(im_reader *r, const im_field *field, uint32_t *to) {
    if (field->type != IM_VARINT) r->failed = true;
    *to = (uint32_t)field->value;
}

static void fixed(im_reader *r, const im_field *field, uint64_t *to) {
    if (field->type != IM_FIXED64) r->failed = true;
    *to = field->value;
}

static void octets(im_reader *r, const im_field *field, im_bytes *to) {
    if (field->type != IM_LENGTH) r->failed = true;
    *to = field->bytes;
}

/* RFC 3629; the last letter may be cut. The length of the text that is whole, -1 for a fault. */
static long utf8(im_bytes text, bool is_cut) {
    for (size_t at = 0; at < text.size;) {
        uint8_t first = text.data[at];
        size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        uint32_t letter = more == 0 ? first : first & (0x3fu >> more);
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (first > 0xf4 || (first >= 0x80 && first < 0xc2)) return -1;
        if (more >= text.size - at) return is_cut ? (long)at : -1;
        for (size_t next = 1; next <= more; next++) {
            if ((text.data[at + next] & 0xc0) != 0x80) return -1;
            letter = letter << 6 | (text.data[at + next] & 0x3f);
        }
        if (letter < least[more] || letter > 0x10ffff || (letter >> 11) == 0x1b) return -1;
        at += more + 1;
    }
    return (long)text.size;
}

static void text(im_reader *r, const im_field *field, im_bytes *to) {
    octets(r, field, to);
    long size = utf8(*to, field->is_cut);
    if (size < 0) r->failed = true;
    else to->size = (size_t)size;
}

/* ---- messages ---- */

bool im_read_logged_in(im_reader r, im_logged_in *to) {
    im_field field;
    memset(to, 0, sizeof *to);
    while (im_field_next(&r, &field)) {
        switch (field.number) {
        case 1: text(&r, &field, &to->account); break;
        case 2: number(&r, &field, &to->head); break;
        case 3: number(&r, &field, &to->cursor); break;
        case 5: octets(&r, &field, &to->data); break;
        case 6: number32(&r, &field, &to->silence_s); break;
        case 7: number32(&r, &field, &to->page_messages_max); break;
        case 8: number32(&r, &field, &to->text_bytes_max); break;
        case 9: number32(&r, &field, &to->extra_bytes_max); break;
        case 10: number32(&r, &field, &to->requests_max); break;
        default: break;
        }
    }
    return !r.failed;
}

bool im_read_farewell(im_reader r, im_farewell *to) {
    im_field field;
    im_bytes other;
    memset(to, 0, sizeof *to);
    while (im_field_next(&r, &field)) {
        switch (field.number) {
        case 1: word(&r, &field, &to->reason); break;
        case 2: text(&r, &field, &other); break;
        case 3: number32(&r, &field, &to->retry_after_ms); break;
        case 4: text(&r, &field, &to->server); break;
        default: break;
        }
    }
    return !r.failed;
}

bool im_read_failure(im_reader r, im_failure *to) {
    im_field field;
    im_bytes other;
    memset(to, 0, sizeof *to);
    while (im_field_next(&r, &field)) {
        switch (field.number) {
        case 1: number32(&r, &field, &to->number); break;
        case 2: word(&r, &field, &to->fault); break;
        case 3: text(&r, &field, &other); break;
        case 4: text(&r, &field, &to->reason); break;
        case 5: number32(&r, &field, &to->retry_after_ms); break;
        default: break;
        }
    }
    return !r.failed;
}

bool im_read_receipt(im_reader r, im_receipt *to) {
    im_field field;
    uint64_t again = 0;
    memset(to, 0, sizeof *to);
    while (im_field_next(&r, &field)) {
        switch (field.number) {
        case 1: number32(&r, &field, &to->number); break;
        case 2: fixed(&r, &field, &to->id); break;
        case 3: number(&r, &field, &to->seq); break;
        case 4: number(&r, &field, &to->at_ms); break;
        case 5: number(&r, &field, &again); break;
        default: break;
        }
    }
    to->again = again != 0;
    return !r.failed;
}

static bool read_content(im_reader r, im_message *to) {
    im_field field;
    while (im_field_next(&r, &field)) {
        switch (field.number) {
        case 1: number32(&r, &field, &to->kind); break;
        case 2: text(&r, &field, &to->text); break;
        case 3: octets(&r, &field, &to->extra); break;
        default: break;
        }
    }
    return !r.failed;
}

bool im_read_content(im_bytes content, im_message *to) {
    memset(to, 0, sizeof *to);
    return read_content(im_reader_of(content), to);
}

static bool read_message(const im_field *whole, im_message *to) {
    im_reader r = im_reader_in(whole);
    im_field field;
    to->raw = whole->bytes;
    to->is_cut = whole->is_cut;
    while (im_field_next(&r, &field)) {
        switch (field.number) {
        case 1: fixed(&r, &field, &to->id); break;
        case 2: number(&r, &field, &to->seq); break;
        case 3: number(&r, &field, &to->at_ms); break;
        case 4: text(&r, &field, &to->from); break;
        case 5: text(&r, &field, &to->device); break;
        case 6: text(&r, &field, &to->to); break;
        case 7: octets(&r, &field, &to->client_id); break;
        case 8:
            if (field.type != IM_LENGTH || !read_content(im_reader_in(&field), to)) return false;
            break;
        case 9: number(&r, &field, &to->edited_ms); break;
        default: break;
        }
    }
    return !r.failed;
}

bool im_read_entry(im_reader r, im_message *to) {
    im_field field;
    memset(to, 0, sizeof *to);
    while (im_field_next(&r, &field)) {
        if (field.number == 1) number(&r, &field, &to->place);
        if (field.number != 2) continue;
        if (field.type != IM_LENGTH || !read_message(&field, to)) return false;
    }
    to->is_cut = r.is_cut;
    return !r.failed;
}

bool im_read_event(im_reader r, im_event *to) {
    im_field field;
    memset(to, 0, sizeof *to);
    while (im_field_next(&r, &field)) {
        switch (field.number) {
        case 1: number(&r, &field, &to->place); break;
        case 2: text(&r, &field, &to->with); break;
        case 3: number(&r, &field, &to->read); break;
        case 4: number(&r, &field, &to->peer_read); break;
        case 5: octets(&r, &field, &to->change); break;
        default: break;
        }
    }
    to->is_cut = r.is_cut;
    return !r.failed;
}

bool im_read_page(im_reader r, im_page *to) {
    im_field field;
    memset(to, 0, sizeof *to);
    while (im_field_next(&r, &field)) {
        im_message message;
        im_event event;
        switch (field.number) {
        case 1: number32(&r, &field, &to->number); break;
        case 2:
            if (!im_read_entry(im_reader_in(&field), &message)) return false;
            break;
        case 3: number(&r, &field, &to->upto); break;
        case 4: number(&r, &field, &to->head); break;
        case 5:
            if (!im_read_event(im_reader_in(&field), &event)) return false;
            break;
        default: break;
        }
    }
    return !r.failed;
}

uint64_t im_page_entry(im_reader *page, uint64_t before, im_message *it) {
    im_field field;
    while (im_field_next(page, &field)) {
        if (field.number == 2 && im_read_entry(im_reader_in(&field), it) && it->place > before) {
            return it->place;
        }
    }
    return UINT64_MAX;
}

uint64_t im_page_event(im_reader *page, uint64_t before, im_event *it) {
    im_field field;
    while (im_field_next(page, &field)) {
        if (field.number == 5 && im_read_event(im_reader_in(&field), it) && it->place > before) {
            return it->place;
        }
    }
    return UINT64_MAX;
}

bool im_read_data(im_reader r, im_bytes *to) {
    im_field field;
    memset(to, 0, sizeof *to);
    while (im_field_next(&r, &field)) {
        if (field.number == 1) octets(&r, &field, to);
    }
    return !r.failed;
}

bool im_read_head(im_reader r, uint64_t *to) {
    im_field field;
    *to = 0;
    while (im_field_next(&r, &field)) {
        if (field.number == 1) number(&r, &field, to);
    }
    return !r.failed;
}

bool im_history_next(im_reader *page, im_message *message) {
    im_field field;
    memset(message, 0, sizeof *message);
    while (im_field_next(page, &field)) {
        if (field.number == 2) return field.type == IM_LENGTH && read_message(&field, message);
    }
    return false;
}

static bool read_history(im_reader r) {
    im_message message;
    im_field field;
    for (im_reader messages = r; im_field_next(&messages, &field);) {
        if (field.number == 2 && !read_message(&field, &message)) return false;
    }
    return true;
}

/* ---- frames ---- */

const char *im_frame_length(im_bytes bytes, uint64_t bytes_max, size_t *head, size_t *length) {
    uint64_t size = 0;
    *length = 0;
    for (*head = 0; *head < IM_LENGTH_BYTES_MAX; ++*head) {
        if (*head == bytes.size) return NULL;
        uint8_t byte = bytes.data[*head];
        size |= (uint64_t)(byte & 0x7f) << (7 * *head);
        if (byte >= 0x80) continue;
        ++*head;
        if (*head + size > bytes_max) return "too_large";
        *length = *head + (size_t)size;
        return NULL;
    }
    return "length";
}

static bool is_readable(uint32_t kind, im_reader body) {
    union {
        im_logged_in logged_in;
        im_farewell farewell;
        im_failure failure;
        im_receipt receipt;
        im_message message;
        im_event event;
        im_page page;
        im_bytes data;
        uint64_t head;
    } to;
    im_field field;
    switch (kind) {
    case IM_LOGGED_IN: return im_read_logged_in(body, &to.logged_in);
    case IM_CHALLENGE: return im_read_data(body, &to.data);
    case IM_REFUSED:
    case IM_END: return im_read_farewell(body, &to.farewell);
    case IM_SENT: return im_read_receipt(body, &to.receipt);
    case IM_FAILED: return im_read_failure(body, &to.failure);
    case IM_MESSAGE: return im_read_entry(body, &to.message);
    case IM_EVENT: return im_read_event(body, &to.event);
    case IM_NOTIFY: return im_read_head(body, &to.head);
    case IM_PAGE: return im_read_page(body, &to.page);
    case IM_HISTORY_PAGE: return read_history(body);
    default:
        while (im_field_next(&body, &field)) {}
        return !body.failed;
    }
}

const char *im_frame_read(im_bytes content, bool is_cut, im_frame *frame) {
    im_reader r = im_reader_of(content);
    im_field field;
    r.is_cut = is_cut;
    frame->kind = 0;
    while (im_field_next(&r, &field)) {
        if (im_answer_name(field.number) == NULL) continue;
        if (field.type != IM_LENGTH) return MALFORMED;
        frame->kind = field.number;
        frame->body = im_reader_in(&field);
    }
    if (r.failed || (frame->kind != 0 && !is_readable(frame->kind, frame->body))) return MALFORMED;
    return NULL;
}
