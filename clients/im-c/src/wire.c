/* Protocol Buffers, as much as im.proto needs. Groups are not known. */
#include "im_wire.h"

#include "parts.h"

#include <string.h>

enum { FIELD_MAX = (1 << 29) - 1, VARINT_BYTES_MAX = 10 };

im_bytes im_text(const char *text) {
    im_bytes bytes = {(const uint8_t *)text, strlen(text)};
    return bytes;
}

/* ---- reading ---- */

im_reader im_reader_of(im_bytes message) {
    im_reader reader = {message.data, message.data + message.size, false, false};
    if (message.size == 0) reader.at = reader.end = NULL;
    return reader;
}

im_reader im_reader_in(const im_field *field) {
    im_reader reader = im_reader_of(field->bytes);
    reader.is_cut = field->is_cut;
    return reader;
}

/* Fewer bytes are left than a field needs: a fault, but where the end is missing. */
static bool over(im_reader *r) {
    if (!r->is_cut) r->failed = true;
    r->at = r->end;
    return false;
}

static bool fault(im_reader *r) {
    r->failed = true;
    return false;
}

static bool read_varint(im_reader *r, uint64_t *number) {
    *number = 0;
    for (unsigned at = 0; at < VARINT_BYTES_MAX; at++) {
        if (r->at == r->end) return over(r);
        uint8_t byte = *r->at++;
        if (at == VARINT_BYTES_MAX - 1 && byte > 1) return fault(r); /* more than 64 bits */
        *number |= (uint64_t)(byte & 0x7f) << (7 * at);
        if (byte < 0x80) return true;
    }
    return fault(r);
}

static bool read_fixed(im_reader *r, size_t width, uint64_t *number) {
    if ((size_t)(r->end - r->at) < width) return over(r);
    *number = 0;
    for (size_t at = width; at-- > 0;) *number = *number << 8 | r->at[at];
    r->at += width;
    return true;
}

static bool read_length(im_reader *r, im_field *field) {
    uint64_t size;
    if (!read_varint(r, &size)) return false;
    size_t left = (size_t)(r->end - r->at);
    field->is_cut = size > left;
    if (field->is_cut && !r->is_cut) return fault(r);
    field->bytes.data = r->at;
    field->bytes.size = field->is_cut ? left : (size_t)size;
    r->at += field->bytes.size;
    return true;
}

bool im_field_next(im_reader *r, im_field *field) {
    uint64_t key;
    memset(field, 0, sizeof *field);
    if (r->failed || r->at == r->end || !read_varint(r, &key)) return false;
    if (key >> 3 == 0 || key >> 3 > FIELD_MAX) return fault(r);
    field->number = (uint32_t)(key >> 3);
    field->type = (im_wire_type)(key & 7);
    switch (field->type) {
    case IM_VARINT: return read_varint(r, &field->value);
    case IM_FIXED64: return read_fixed(r, 8, &field->value);
    case IM_FIXED32: return read_fixed(r, 4, &field->value);
    case IM_LENGTH: return read_length(r, field);
    default: return fault(r);
    }
}

/* ---- writing ---- */

static void put(im_writer *w, uint8_t byte) {
    if (w->used < w->size) w->bytes[w->used++] = byte;
    else w->is_full = true;
}

void im_write_varint(im_writer *w, uint64_t number) {
    for (; number >= 0x80; number >>= 7) put(w, (uint8_t)(number | 0x80));
    put(w, (uint8_t)number);
}

void im_write_raw(im_writer *w, im_bytes bytes) {
    if (bytes.size > w->size - w->used) {
        w->is_full = true;
    } else if (bytes.size > 0) {
        memcpy(w->bytes + w->used, bytes.data, bytes.size);
        w->used += bytes.size;
    }
}

static void write_key(im_writer *w, uint32_t field, im_wire_type type) {
    im_write_varint(w, (uint64_t)field << 3 | (uint64_t)type);
}

void im_write_number(im_writer *w, uint32_t field, uint64_t number) {
    if (number == 0) return;
    write_key(w, field, IM_VARINT);
    im_write_varint(w, number);
}

void im_write_bytes(im_writer *w, uint32_t field, im_bytes bytes) {
    if (bytes.size == 0) return;
    write_key(w, field, IM_LENGTH);
    im_write_varint(w, bytes.size);
    im_write_raw(w, bytes);
}

void im_write_text(im_writer *w, uint32_t field, const char *text) {
    im_write_bytes(w, field, im_text(text));
}

void im_write_fixed64(im_writer *w, uint32_t field, uint64_t number) {
    if (number == 0) return;
    write_key(w, field, IM_FIXED64);
    for (unsigned at = 0; at < 64; at += 8) put(w, (uint8_t)(number >> at));
}

size_t im_write_begin(im_writer *w, uint32_t field) {
    if (field != 0) write_key(w, field, IM_LENGTH);
    put(w, 0); /* of the length, which is known at the end */
    return w->used;
}

void im_write_end(im_writer *w, size_t begin) {
    if (w->is_full) return;
    size_t size = w->used - begin;
    im_writer length = {w->bytes + begin - 1, 0, 0, false};
    size_t width = 1;
    for (size_t rest = size; rest >= 0x80; rest >>= 7) width++;
    if (width - 1 > w->size - w->used) {
        w->is_full = true;
        return;
    }
    memmove(w->bytes + begin - 1 + width, w->bytes + begin, size);
    length.size = width;
    im_write_varint(&length, size);
    w->used += width - 1;
}
