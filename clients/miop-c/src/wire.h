/* The frames of MIOP 7 (docs/wire/miop.md, section 5), read and written in place.
 *
 *     u16 version | u8 flags | u8 opcode [ u32 length [ u32 seq ] varint properties payload ]
 *
 * Nothing is copied and nothing is allocated: what was read refers to the bytes that it was read
 * from. */
#ifndef MIOP_WIRE_H
#define MIOP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MIOP_PING, MIOP_PONG, MIOP_BIND, MIOP_MSG, MIOP_MSG_ACK, MIOP_UNBIND, MIOP_BIND_ACK,
    MIOP_UNBIND_ACK, MIOP_REPORT, MIOP_REPORT_ACK, MIOP_KICK, MIOP_REDIRECT, MIOP_CHALLENGE,
    MIOP_AUTH, MIOP_CONFIG, MIOP_PULL, MIOP_GO_AWAY, MIOP_ERROR
};

enum { MIOP_FLAG_ACK_REQ = 0x04, MIOP_FLAG_DUP = 0x20 };

enum {
    MIOP_KEY_DEVICE_ID = 1, MIOP_KEY_PRODUCT_KEY = 2, MIOP_KEY_CLIENT_TS = 3,
    MIOP_KEY_HEARTBEAT_WISH = 4, MIOP_KEY_HEARTBEAT = 5, MIOP_KEY_CLIENT_NONCE = 6,
    MIOP_KEY_SERVER_NONCE = 7, MIOP_KEY_AUTH_TYPE = 8, MIOP_KEY_KEY_ID = 9, MIOP_KEY_MAC = 10,
    MIOP_KEY_TOKEN = 11, MIOP_KEY_RESUME_TOKEN = 12, MIOP_KEY_LAST_MSG_ID = 13,
    MIOP_KEY_SESSION_EPOCH = 14, MIOP_KEY_RESULT = 15, MIOP_KEY_REASON = 16,
    MIOP_KEY_RETRY_AFTER_MS = 17, MIOP_KEY_ADDR = 19, MIOP_KEY_CAPS = 20, MIOP_KEY_MAX_FRAME = 21,
    MIOP_KEY_MAX_INFLIGHT = 22, MIOP_KEY_ACK_TIMEOUT_MS = 23, MIOP_KEY_OFFLINE_COUNT = 27,
    MIOP_KEY_SERVER_TIME = 28, MIOP_KEY_TAG = 30, MIOP_KEY_COUNT = 31, MIOP_KEY_REPORT_SEQ = 33
};

enum {
    MIOP_ADDRESS_BYTES_MAX = 64, MIOP_ADDRESSES_MAX = 4, MIOP_TAGS_MAX = 64,
    MIOP_FRAME_UNBOUND = 4096, MIOP_FRAME_DEFAULT = 65536, MIOP_FRAME_MOST = 1048576
};

typedef struct miop_bytes {
    const uint8_t *data;
    size_t size;
} miop_bytes;

typedef struct miop_frame {
    uint8_t flags; /* ACK_REQ and DUP; BODY and SEQ follow from the rest */
    uint8_t opcode;
    bool has_seq;
    uint32_t seq;
    miop_bytes properties; /* well formed */
    miop_bytes payload;
    size_t length; /* on the wire; 0: more bytes are needed */
} miop_frame;

/* Reads the frame at the front. Returns the name of a fault, or NULL. A frame of more than
 * bytes_max is a fault as soon as its length is known. */
const char *miop_frame_read(miop_frame *frame, miop_bytes in, size_t bytes_max);

/* Reads the header alone: what is wrong with it, and the length of the frame, 0 while unknown. */
const char *miop_frame_head(miop_frame *frame, miop_bytes in, size_t bytes_max);

/* Takes a varint off the front; false if it is cut off, or not in its shortest form. */
bool miop_varint_read(miop_bytes *in, uint32_t *number);

/* Takes a varint and so many bytes off the front. */
bool miop_block_read(miop_bytes *in, miop_bytes *block);

/* Takes the next property off the front of a block; false at the end. */
bool miop_property_next(miop_bytes *block, uint8_t *key, miop_bytes *value);

/* The value of a key; false when it is absent. */
bool miop_property(const miop_frame *frame, uint8_t key, miop_bytes *value);

/* The value of a key as a number of its width; false, and 0, when it is absent. */
bool miop_property_number(const miop_frame *frame, uint8_t key, uint64_t *number);

/* Bytes of a known value, 0: any, -1: unknown or reserved. */
int miop_property_width(uint8_t key);

typedef struct miop_record {
    uint64_t id;
    uint32_t app_id;
    uint8_t flags;
    uint32_t expire_at;
    miop_bytes collapse;
    miop_bytes body;
} miop_record;

enum { MIOP_RECORD_SILENT = 0x02, MIOP_RECORD_HIGH = 0x04, MIOP_RECORD_HEAD = 17 };

/* Takes a record off the front of the payload of a MSG. */
bool miop_record_read(miop_bytes *in, miop_record *record);

/* Checks all records of a MSG, at least one: the name of a fault, or NULL. */
const char *miop_records_check(miop_bytes payload);

uint64_t miop_number(const uint8_t *bytes, size_t width);

/* Writes frames one after another. What does not fit is left out whole. */
typedef struct miop_writer {
    uint8_t *data;
    size_t size;
    size_t used;
    size_t start;      /* of the frame */
    size_t properties; /* place of their length */
    bool has_seq;
    bool overflows;
} miop_writer;

void miop_write_begin(miop_writer *out, uint8_t opcode, uint8_t flags, const uint32_t *seq);
void miop_write_property(miop_writer *out, uint8_t key, const void *value, size_t size);
void miop_write_number(miop_writer *out, uint8_t key, uint64_t number);
/* Ends the properties; the payload follows. */
void miop_write_payload(miop_writer *out);
void miop_write_bytes(miop_writer *out, const void *bytes, size_t size);
void miop_write_u64(miop_writer *out, uint64_t number);
/* False if the frame did not fit. */
bool miop_write_end(miop_writer *out);

void miop_put(uint8_t *to, uint64_t number, size_t width);

#endif
