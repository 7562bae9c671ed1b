/* What the files of the library know of each other. */
#ifndef IM_PARTS_H
#define IM_PARTS_H

#include "im.h"

enum { IM_SCRAM_BYTES_MAX = 1024 }; /* of an answer to a challenge */

/* ---- frames (frame.c): fields of ServerFrame and ClientFrame ---- */
enum {
    IM_LOGGED_IN = 1, IM_CHALLENGE = 2, IM_REFUSED = 3, IM_SENT = 4, IM_FAILED = 5, IM_MESSAGE = 6,
    IM_NOTIFY = 7, IM_PAGE = 8, IM_HISTORY_PAGE = 9, IM_END = 10, IM_PONG = 11, IM_EVENT = 14
};
enum {
    IM_ASK_LOGIN = 1, IM_ASK_PROCEED = 2, IM_ASK_SEND = 3, IM_ASK_PULL = 4, IM_ASK_HISTORY = 5,
    IM_ASK_ACKNOWLEDGE = 6, IM_ASK_PING = 7, IM_ASK_GOODBYE = 8, IM_ASK_MARK_READ = 11,
    IM_ASK_TRANSIENT = 18
};
enum { IM_FRAME_BYTES_MAX = 397312, IM_BESIDE_CONTENT_BYTES = 4096, IM_LENGTH_BYTES_MAX = 5 };

typedef struct im_frame {
    size_t length; /* with its length; 0: more bytes are needed to know it */
    uint32_t kind; /* the answer; 0: none that is known */
    im_reader body;
} im_frame;

/* The length of the frame at the beginning of some bytes; a fault, or NULL. */
const char *im_frame_length(im_bytes bytes, uint64_t bytes_max, size_t *head, size_t *length);
/* What is in a frame, and whether the client can read all of it; a fault, or NULL. */
const char *im_frame_read(im_bytes content, bool is_cut, im_frame *frame);
/* The name of an answer; NULL: none that is known. */
const char *im_answer_name(uint32_t kind);
/* Of an answer that has one, the number of its request; else 0. */
uint32_t im_answer_number(uint32_t kind, im_reader body);

typedef struct im_logged_in {
    im_bytes account, data;
    uint64_t head, cursor;
    uint32_t silence_s, page_messages_max, text_bytes_max, extra_bytes_max, requests_max;
} im_logged_in;
typedef struct im_farewell { /* Refused, End */
    uint32_t reason, retry_after_ms;
    im_bytes server;
} im_farewell;
typedef struct im_failure {
    uint32_t number, fault, retry_after_ms;
    im_bytes reason;
} im_failure;
typedef struct im_receipt { /* Sent */
    uint32_t number;
    uint64_t id, seq, at_ms;
    bool again;
} im_receipt;
typedef struct im_page {
    uint32_t number;
    uint64_t upto, head;
} im_page;
/* Each false if it is no such message. */
bool im_read_logged_in(im_reader r, im_logged_in *to);
bool im_read_farewell(im_reader r, im_farewell *to);
bool im_read_failure(im_reader r, im_failure *to);
bool im_read_receipt(im_reader r, im_receipt *to);
bool im_read_entry(im_reader r, im_message *to);
bool im_read_event(im_reader r, im_event *to);
bool im_read_page(im_reader r, im_page *to);
bool im_read_data(im_reader r, im_bytes *to);  /* Challenge */
bool im_read_head(im_reader r, uint64_t *to);  /* Notify */
bool im_read_content(im_bytes content, im_message *to);
/* The next entry, or the next event, of a page behind a place; its own place, or the highest number
 * if there is none. */
uint64_t im_page_entry(im_reader *page, uint64_t before, im_message *it);
uint64_t im_page_event(im_reader *page, uint64_t before, im_event *it);
/* Adds a byte string without a field. */
void im_write_raw(im_writer *w, im_bytes bytes);
void im_write_varint(im_writer *w, uint64_t number);

/* ---- words.c ---- */
const char *im_reason_word(uint32_t reason);
const char *im_fault_word(uint32_t fault);
bool im_is_lasting(uint32_t reason);
bool im_is_passing(uint32_t fault);

/* ---- proof.c ---- */
size_t im_base64(const uint8_t *bytes, size_t size, char *text);
/* "n=NAME,r=NONCE" of SCRAM, and what is before it in the first message, as the field `data`. */
void im_scram_first(im_writer *w, uint32_t field, im_bytes name, const char *nonce);
/* The answer to a challenge, and the 46 bytes that the server must say then. False if it is no
 * challenge to this exchange. */
bool im_scram_answer(im_bytes name, const char *password, const char *nonce, im_bytes challenge,
                     im_writer *answer, uint8_t expected[46]);
/* A login token: what is sent behind the name, and what the server must say. */
void im_token_macs(const char *token, uint8_t first[32], uint8_t expected[32]);

/* ---- login.c ---- */
/* Writes the fields of Login that prove the account. */
void im_login_proof(im_client *c, im_writer *w);
/* Answers a challenge; false if it is none to this login. */
bool im_login_answer(im_client *c, im_bytes challenge, im_writer *answer);
/* Whether `data` of LoggedIn is what the server must say. */
bool im_login_is_proved(const im_client *c, im_bytes data);

/* ---- inbox.c ---- */
void im_inbox_begin(im_inbox *b, uint64_t cursor, uint64_t head);
bool im_inbox_comes(im_inbox *b, uint64_t place);
/* A page was pulled; the place behind which its entries are new. */
uint64_t im_inbox_page(im_inbox *b, uint64_t upto, uint64_t head);
/* It does not fit: smaller ones are pulled. False if it has one entry, which is to be cut. */
bool im_inbox_cut(im_inbox *b);
void im_inbox_hold(im_inbox *b, uint64_t place);
bool im_inbox_release(im_inbox *b, uint64_t place);
/* Everything before the first entry that is held is done. True if that has changed. */
bool im_inbox_advance(im_inbox *b, int64_t now);
bool im_inbox_owes_acknowledgement(const im_inbox *b, int64_t now);
bool im_inbox_wants_pull(const im_inbox *b);
int64_t im_inbox_due(const im_inbox *b);

/* ---- outbox.c: records of a u32 number, 0 if it is not on its way, an id of 16 bytes, u32 length
 * of the receiver, u32 length of the content, receiver, content ---- */
enum {
    IM_QUEUED_HEAD = 28,
    IM_SEND_BYTES = 600 /* of a Send: what is beside its content, with the longest name */
};
typedef struct im_queued {
    uint8_t *record;
    size_t size; /* of the record */
    uint32_t number;
    const uint8_t *client_id;
    im_bytes to, content;
} im_queued;
/* The record at a place of the queue; false at its end. */
bool im_queued_at(const im_client *c, size_t at, im_queued *it);
bool im_queued_find(const im_client *c, im_bytes client_id, im_queued *it);
bool im_queued_numbered(const im_client *c, uint32_t number, im_queued *it);
/* The first of a conversation that has none on its way, if the window has room. */
bool im_queued_next(const im_client *c, im_queued *it);
void im_queued_mark(const im_queued *it, uint32_t number);
void im_queued_remove(im_client *c, const im_queued *it);
void im_outbox_lost(im_client *c);
/* Whether the queue of a record makes sense. */
bool im_outbox_check(const im_client *c);
uint32_t im_window(const im_client *c);

/* ---- state.c ---- */
im_error im_state_load(im_client *c);
/* Stores the record if it has changed; false if that failed. */
bool im_state_save(im_client *c);
void im_put(uint8_t *to, uint64_t number, size_t width);
uint64_t im_number(const uint8_t *from, size_t width);

/* ---- heartbeat.c ---- */
void im_backoff_reset(im_backoff *b);
/* How long to wait now: random is 32 random bits. */
uint32_t im_backoff_next(im_backoff *b, uint32_t hint_ms, uint32_t random);
void im_heartbeat_use(im_client *c, const char *network);
/* Remembers what was found out. */
void im_heartbeat_learn(im_client *c);
uint16_t im_heartbeat_interval(const im_heartbeat *h);
void im_heartbeat_lived(im_heartbeat *h, uint16_t seconds);
void im_heartbeat_bound(im_heartbeat *h, bool at_first);

#endif
