#include "wire.h"

#include <string.h>

enum { VERSION = 7, BODY = 0x01, SEQ = 0x02, COMPRESSED = 0x08, MORE = 0x10, MUST = 0x80 };
enum { RECORD_COMPRESSED = 0x08, PROPERTIES_MAX = 8192, VALUE_MAX = 512, KEY_CRITICAL = 128 };

uint64_t miop_number(const uint8_t *bytes, size_t width) {
    uint64_t number = 0;
    for (size_t at = 0; at < width; at++) number = number << 8 | bytes[at];
    return number;
}

void miop_put(uint8_t *to, uint64_t number, size_t width) {
    for (size_t at = width; at-- > 0; number >>= 8) to[at] = (uint8_t)number;
}

static void skip(miop_bytes *in, size_t count) {
    in->data += count;
    in->size -= count;
}

bool miop_varint_read(miop_bytes *in, uint32_t *number) {
    uint64_t wide = 0;
    for (size_t at = 0; at < in->size && at < 5; at++) {
        uint8_t octet = in->data[at];
        wide |= (uint64_t)(octet & 0x7f) << (7 * at);
        if (octet & 0x80) continue;
        if (wide > UINT32_MAX || (at > 0 && octet == 0)) return false;
        skip(in, at + 1);
        *number = (uint32_t)wide;
        return true;
    }
    return false;
}

bool miop_block_read(miop_bytes *in, miop_bytes *block) {
    miop_bytes rest = *in;
    uint32_t length;
    if (!miop_varint_read(&rest, &length) || length > rest.size) return false;
    block->data = rest.data;
    block->size = length;
    skip(&rest, length);
    *in = rest;
    return true;
}

/* ---- properties ------------------------------------------------------------------------------ */

int miop_property_width(uint8_t key) {
    static const int8_t widths[] = {
        [MIOP_KEY_CLIENT_TS] = 8, [MIOP_KEY_HEARTBEAT_WISH] = 6, [MIOP_KEY_HEARTBEAT] = 2,
        [MIOP_KEY_CLIENT_NONCE] = 16, [MIOP_KEY_SERVER_NONCE] = 16, [MIOP_KEY_AUTH_TYPE] = 1,
        [MIOP_KEY_KEY_ID] = 4, [MIOP_KEY_MAC] = 32, [MIOP_KEY_RESUME_TOKEN] = 32,
        [MIOP_KEY_LAST_MSG_ID] = 8, [MIOP_KEY_SESSION_EPOCH] = 8, [MIOP_KEY_RESULT] = 1,
        [MIOP_KEY_RETRY_AFTER_MS] = 4, [MIOP_KEY_CAPS] = 4, [MIOP_KEY_MAX_FRAME] = 4,
        [MIOP_KEY_MAX_INFLIGHT] = 2, [MIOP_KEY_ACK_TIMEOUT_MS] = 4, [MIOP_KEY_OFFLINE_COUNT] = 4,
        [MIOP_KEY_SERVER_TIME] = 8, [MIOP_KEY_COUNT] = 2, [MIOP_KEY_REPORT_SEQ] = 4,
    };
    switch (key) {
    case MIOP_KEY_DEVICE_ID:
    case MIOP_KEY_PRODUCT_KEY:
    case MIOP_KEY_TOKEN:
    case MIOP_KEY_REASON:
    case MIOP_KEY_ADDR:
    case MIOP_KEY_TAG:
        return 0;
    default:
        return key < sizeof widths && widths[key] > 0 ? widths[key] : -1;
    }
}

bool miop_property_next(miop_bytes *block, uint8_t *key, miop_bytes *value) {
    if (block->size == 0) return false;
    *key = block->data[0];
    skip(block, 1);
    return miop_block_read(block, value);
}

bool miop_property(const miop_frame *frame, uint8_t key, miop_bytes *value) {
    miop_bytes rest = frame->properties;
    uint8_t found;
    while (miop_property_next(&rest, &found, value)) {
        if (found == key) return true;
    }
    return false;
}

bool miop_property_number(const miop_frame *frame, uint8_t key, uint64_t *number) {
    miop_bytes value;
    *number = 0;
    if (!miop_property(frame, key, &value)) return false;
    *number = miop_number(value.data, value.size);
    return true;
}

static bool is_continued(const uint8_t *at, size_t count) {
    for (size_t more = 1; more <= count; more++) {
        if ((at[more] & 0xc0) != 0x80) return false;
    }
    return true;
}

/* UTF-8 in its shortest form, without surrogates. */
static bool is_text(miop_bytes text) {
    while (text.size > 0) {
        uint8_t first = text.data[0];
        size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || more >= text.size
            || !is_continued(text.data, more)) {
            return false;
        }
        uint8_t second = more > 0 ? text.data[1] : 0;
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)
            || (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
            return false;
        }
        skip(&text, more + 1);
    }
    return true;
}

static const char *check_properties(miop_bytes block) {
    uint64_t there = 0;
    unsigned addresses = 0, tags = 0;
    uint8_t key;
    miop_bytes value;
    while (block.size > 0) {
        if (!miop_property_next(&block, &key, &value)) return "bad_length";
        if (value.size > VALUE_MAX) return "bad_property";
        int width = miop_property_width(key);
        if (width < 0) {
            if (key >= KEY_CRITICAL) return "critical_property";
        } else if (key == MIOP_KEY_ADDR) {
            bool fits = value.size > 0 && value.size <= MIOP_ADDRESS_BYTES_MAX && is_text(value);
            if (!fits || ++addresses > MIOP_ADDRESSES_MAX) return "bad_property";
        } else if (key == MIOP_KEY_TAG) {
            if (++tags > MIOP_TAGS_MAX) return "too_large";
        } else {
            if ((width > 0 && value.size != (size_t)width) || (there >> key & 1)) {
                return "bad_property";
            }
            there |= UINT64_C(1) << key;
        }
    }
    return NULL;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static const char *check_version(miop_bytes in) {
    if (in.size > 0 && in.data[0] != 0) return "unknown_version";
    if (in.size < 2 || in.data[1] == VERSION) return NULL;
    if (in.data[1] > VERSION) return "newer_version";
    return in.data[1] >= 5 ? "version_changed" : "unknown_version";
}

const char *miop_frame_head(miop_frame *frame, miop_bytes in, size_t bytes_max) {
    memset(frame, 0, sizeof *frame);
    const char *fault = check_version(in);
    if (fault != NULL || in.size < 4) return fault;
    uint8_t flags = in.data[2];
    if (flags & MUST) return "must_understand";
    if (flags & (COMPRESSED | MORE) || (flags & (SEQ | BODY)) == SEQ) return "bad_flags";
    frame->flags = flags & (MIOP_FLAG_ACK_REQ | MIOP_FLAG_DUP);
    frame->opcode = in.data[3];
    frame->has_seq = flags & SEQ;
    if (!(flags & BODY)) {
        frame->length = 4;
        return NULL;
    }
    if (in.size < 8) return NULL;
    uint64_t length = miop_number(in.data + 4, 4) + 8;
    if (length > bytes_max) return "too_large";
    frame->length = (size_t)length;
    return NULL;
}

static const char *read_body(miop_frame *frame, miop_bytes body) {
    if (frame->has_seq) {
        if (body.size < 4) return "bad_length";
        frame->seq = (uint32_t)miop_number(body.data, 4);
        skip(&body, 4);
    }
    if (!miop_block_read(&body, &frame->properties)) return "bad_length";
    if (frame->properties.size > PROPERTIES_MAX) return "too_large";
    frame->payload = body;
    return check_properties(frame->properties);
}

/* The property without which a frame of the server means nothing. */
static uint8_t needed(uint8_t opcode) {
    switch (opcode) {
    case MIOP_BIND_ACK: return MIOP_KEY_RESULT;
    case MIOP_CHALLENGE: return MIOP_KEY_SERVER_NONCE;
    case MIOP_REPORT_ACK: return MIOP_KEY_REPORT_SEQ;
    default: return 0;
    }
}

const char *miop_frame_read(miop_frame *frame, miop_bytes in, size_t bytes_max) {
    const char *fault = miop_frame_head(frame, in, bytes_max);
    if (fault != NULL || frame->length == 0) return fault;
    if (in.size < frame->length) {
        frame->length = 0;
        return NULL;
    }
    if (frame->opcode > MIOP_ERROR) return NULL;
    if (frame->length > 4) {
        miop_bytes body = {in.data + 8, frame->length - 8};
        fault = read_body(frame, body);
        if (fault != NULL) return fault;
    }
    miop_bytes value;
    uint8_t key = needed(frame->opcode);
    return key != 0 && !miop_property(frame, key, &value) ? "missing_property" : NULL;
}

/* ---- records --------------------------------------------------------------------------------- */

bool miop_record_read(miop_bytes *in, miop_record *record) {
    if (in->size < MIOP_RECORD_HEAD) return false;
    record->id = miop_number(in->data, 8);
    record->app_id = (uint32_t)miop_number(in->data + 8, 4);
    record->flags = in->data[12];
    record->expire_at = (uint32_t)miop_number(in->data + 13, 4);
    skip(in, MIOP_RECORD_HEAD);
    return miop_block_read(in, &record->collapse) && miop_block_read(in, &record->body)
        && !(record->flags & RECORD_COMPRESSED);
}

const char *miop_records_check(miop_bytes payload) {
    miop_record record;
    if (payload.size == 0) return "empty_block";
    while (payload.size > 0) {
        if (!miop_record_read(&payload, &record)) return "bad_record";
    }
    return NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

void miop_write_bytes(miop_writer *out, const void *bytes, size_t size) {
    if (out->overflows || size > out->size - out->used) {
        out->overflows = true;
    } else if (size > 0) {
        memcpy(out->data + out->used, bytes, size);
        out->used += size;
    }
}

static void write_width(miop_writer *out, uint64_t number, size_t width) {
    uint8_t bytes[8];
    miop_put(bytes, number, width);
    miop_write_bytes(out, bytes, width);
}

void miop_write_u64(miop_writer *out, uint64_t number) { write_width(out, number, 8); }

static size_t varint(uint8_t bytes[5], uint32_t number) {
    size_t count = 0;
    for (; number > 0x7f; number >>= 7) bytes[count++] = (uint8_t)(number | 0x80);
    bytes[count++] = (uint8_t)number;
    return count;
}

void miop_write_begin(miop_writer *out, uint8_t opcode, uint8_t flags, const uint32_t *seq) {
    const uint8_t head[8] = {0, VERSION, flags, opcode, 0, 0, 0, 0};
    out->start = out->used;
    out->overflows = false;
    out->has_seq = seq != NULL;
    miop_write_bytes(out, head, sizeof head);
    if (seq != NULL) write_width(out, *seq, 4);
    out->properties = out->used;
    miop_write_bytes(out, "", 1);
}

void miop_write_property(miop_writer *out, uint8_t key, const void *value, size_t size) {
    uint8_t head[6];
    head[0] = key;
    miop_write_bytes(out, head, 1 + varint(head + 1, (uint32_t)size));
    miop_write_bytes(out, value, size);
}

void miop_write_number(miop_writer *out, uint8_t key, uint64_t number) {
    uint8_t bytes[8];
    size_t width = (size_t)miop_property_width(key);
    miop_put(bytes, number, width);
    miop_write_property(out, key, bytes, width);
}

/* Their length is known now; above 127 it takes a second byte. */
void miop_write_payload(miop_writer *out) {
    uint8_t length[5];
    if (out->overflows) return;
    size_t size = out->used - out->properties - 1;
    size_t count = varint(length, (uint32_t)size);
    if (count - 1 > out->size - out->used) {
        out->overflows = true;
        return;
    }
    uint8_t *place = out->data + out->properties;
    memmove(place + count, place + 1, size);
    memcpy(place, length, count);
    out->used += count - 1;
}

bool miop_write_end(miop_writer *out) {
    if (out->overflows) {
        out->used = out->start;
        return false;
    }
    size_t body = out->used - out->start - 8;
    if (body == 1 && !out->has_seq) {
        out->used = out->start + 4; /* no number, no property, no payload: no body */
        return true;
    }
    out->data[out->start + 2] |= BODY | (out->has_seq ? SEQ : 0);
    miop_put(out->data + out->start + 4, body, 4);
    return true;
}
