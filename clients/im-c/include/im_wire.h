/* The protocol's messages (Protocol Buffers): what the library reads and writes them with, for
 * requests and answers that it has no function for. The numbers of fields are those of im.proto. */
#ifndef IM_WIRE_H
#define IM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes or text, which no zero ends. */
typedef struct im_bytes {
    const uint8_t *data;
    size_t size;
} im_bytes;

im_bytes im_text(const char *text);

/* ---- reading ---- */

typedef struct im_reader {
    const uint8_t *at, *end;
    bool is_cut; /* its end is missing: a frame was larger than the buffer */
    bool failed; /* no protobuf */
} im_reader;

typedef enum im_wire_type {
    IM_VARINT = 0, IM_FIXED64 = 1, IM_LENGTH = 2, IM_FIXED32 = 5
} im_wire_type;

typedef struct im_field {
    uint32_t number;
    im_wire_type type;
    uint64_t value; /* of a number */
    im_bytes bytes; /* of IM_LENGTH: a text, bytes, a message */
    bool is_cut;
} im_field;

im_reader im_reader_of(im_bytes message);
/* The next field; false at the end, and if `failed`. */
bool im_field_next(im_reader *reader, im_field *field);
/* A reader of the message in a field. */
im_reader im_reader_in(const im_field *field);

/* ---- writing ---- */

typedef struct im_writer {
    uint8_t *bytes;
    size_t size, used;
    bool is_full; /* something did not fit */
} im_writer;

/* A field that has its default is left out. */
void im_write_number(im_writer *writer, uint32_t field, uint64_t number);
void im_write_bytes(im_writer *writer, uint32_t field, im_bytes bytes);
void im_write_text(im_writer *writer, uint32_t field, const char *text);
void im_write_fixed64(im_writer *writer, uint32_t field, uint64_t number);
/* A message in a field: its fields are written between the two; `begin` gives what `end` takes. */
size_t im_write_begin(im_writer *writer, uint32_t field);
void im_write_end(im_writer *writer, size_t begin);

#endif
