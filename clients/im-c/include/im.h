/* im: a device of an account that sends and receives messages over Holdline's IM protocol.
 *
 * C99, for small devices. The library allocates nothing: a client is a struct and three buffers of
 * the caller's. It has no threads, and never blocks: the caller gives it functions for its socket,
 * its clock and its storage (im_io), and calls im_run when the socket is ready or the time has come
 * that im_run returned. posix/im_posix.h is such a set of functions.
 *
 * See README.md for a quick start. */
#ifndef IM_H
#define IM_H

#include "im_wire.h"

#define IM_LIBRARY_VERSION "0.1.0"

/* Sizes that a device may change, the same for all files. */
#ifndef IM_HELD_MAX
#define IM_HELD_MAX 256 /* entries of the inbox that the application holds: 8 bytes each */
#endif
#ifndef IM_NETWORKS_MAX
#define IM_NETWORKS_MAX 16 /* networks whose heartbeat is remembered: 30 bytes each */
#endif
#ifndef IM_ASKED_MAX
#define IM_ASKED_MAX 8 /* requests of the application without an answer */
#endif
#define IM_NETWORK_BYTES 24
#define IM_ADDRESS_BYTES 129 /* with the zero; longer ones that a server names are ignored */
#define IM_CLIENT_ID_BYTES 16
#define IM_NAME_BYTES_MAX 320
#define IM_DEVICE_BYTES_MAX 64
#define IM_MESSAGES_MAX 256 /* that wait to be sent */
#define IM_IN_BYTES_MIN 2048
#define IM_OUT_BYTES_MIN 2048
#define IM_NEVER INT64_MAX

/* ---- what a device provides ---- */

#define IM_PIN_MISMATCH (-2)

typedef struct im_io {
    void *context;
    /* Begins to connect to "host:port", with TLS if the device uses it: 1 connected, 0 under way,
     * -1 failed, IM_PIN_MISMATCH. `connecting` tells the same later. */
    int (*connect)(void *context, const char *address);
    int (*connecting)(void *context);
    /* Whether secrets may be shown on this connection: it has TLS, or leads to this machine and
     * through no proxy. NULL: they may not. */
    bool (*is_safe)(void *context);
    /* Sends what there is room for: the bytes that were taken, -1 if the connection is lost. */
    long (*send)(void *context, const void *bytes, size_t size);
    /* What has arrived: its bytes, 0 if nothing has, -1 at the end. */
    long (*receive)(void *context, void *bytes, size_t size);
    void (*disconnect)(void *context);
    /* A clock that never goes back, in milliseconds. */
    int64_t (*now_ms)(void *context);
    /* Random bytes that nobody can guess. */
    void (*random)(void *context, void *bytes, size_t size);
    /* Stores a record in pieces; `save_end` makes it the current one in one step, and only then
     * returns 0. `load` gives the next bytes of the current one, 0 at its end. All four may be
     * NULL: then messages that wait are lost with the process. */
    int (*save_begin)(void *context);
    int (*save)(void *context, const void *bytes, size_t size);
    int (*save_end)(void *context);
    long (*load)(void *context, void *bytes, size_t size);
} im_io;

/* ---- what the application hears; its bytes are valid until the callback returns ---- */

typedef struct im_message {
    uint64_t place; /* in the inbox; 0 in a history */
    uint64_t id, seq; /* the server's number for it, and its place in the conversation */
    uint64_t at_ms, edited_ms;
    im_bytes from, device, to; /* to: an account, or a group */
    im_bytes client_id;
    uint32_t kind; /* of the content (IM 8.3); 0 and 1: text */
    im_bytes text, extra;
    im_bytes raw; /* ChatMessage */
    bool is_cut;  /* it is larger than the buffer: what does not fit is missing */
} im_message;

/* Something else in the inbox: a read cursor, a setting (IM 11.1). */
typedef struct im_event {
    uint64_t place;
    im_bytes with; /* the conversation */
    uint64_t read, peer_read;
    im_bytes change; /* Change; empty: none */
    bool is_cut;
} im_event;

typedef enum im_verdict {
    IM_TAKEN, /* the application has it: acknowledge it */
    IM_HELD,  /* im_acknowledge follows; without it, it comes again in a new process */
} im_verdict;

/* A message is stored, or given up: then `error` is the server's word (IM 8.2), and `reason` the
 * operator's text for people. */
typedef struct im_outcome {
    uint8_t client_id[IM_CLIENT_ID_BYTES];
    uint64_t id, seq, at_ms;
    const char *error;
    im_bytes reason;
} im_outcome;

/* Of a request: `error` is the server's word, "disconnected", or NULL. */
typedef struct im_answer {
    const char *error;
    im_bytes reason;
    uint32_t kind; /* the field of ServerFrame */
    im_bytes body; /* that message */
    bool is_cut;
} im_answer;

typedef enum im_phase {
    IM_IDLE, IM_WAITING, IM_CONNECTING, IM_LOGIN, IM_ONLINE, IM_ENDED
} im_phase;

typedef struct im_state {
    im_phase phase;
    const char *address; /* of CONNECTING */
    im_bytes account;    /* of ONLINE: name@domain */
    int64_t until_ms;    /* of WAITING */
    /* Of WAITING and ENDED: a word of IM 8.1, or unreachable, disconnected, timed_out,
     * pin_mismatch, insecure, credentials_failed, server_malformed, server_not_proved, closed. */
    const char *why;
} im_state;

/* One of these, or nothing. */
typedef struct im_credentials {
    /* Proved by SCRAM-SHA-256, which does not show it; a server without SCRAM gets it only where
     * io.is_safe. */
    const char *password;
    const char *token;       /* sent as it is, only where io.is_safe */
    const char *login_token; /* of a TokenRequest (IM 3.5); likewise */
} im_credentials;

typedef struct im_config {
    const char *const *addresses; /* host:port, tried in turn */
    size_t address_count;
    const char *account; /* name, or name@domain */
    const char *device;  /* its own name, the same each time */
    im_credentials credentials;
    uint32_t silence_s;  /* the longest silence of the client that it asks for; 0: the server's */
    /* Zeros are 30, 120 and 1800 s. */
    uint16_t heartbeat_shortest_s, heartbeat_first_s, heartbeat_longest_s;
    /* Where frames are received: of a message that is larger, the rest is cut off (im_message).
     * Where frames are sent: 600 bytes more than the largest message. Where messages wait: each
     * takes 28 bytes, its receiver and its content; NULL: none are sent. */
    uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
    uint8_t *queue;
    size_t queue_bytes;

    void *app;
    im_verdict (*on_message)(void *app, const im_message *message);
    /* These may be NULL. */
    im_verdict (*on_event)(void *app, const im_event *event);
    void (*on_outcome)(void *app, const im_outcome *outcome);
    void (*on_answer)(void *app, uint32_t request, const im_answer *answer);
    /* What has no place in the inbox and answers nothing: presence, typing, chatrooms. */
    void (*on_told)(void *app, const im_answer *told);
    void (*on_state)(void *app, const im_state *state);
    /* Asked before each connection in place of `credentials`, for tokens that expire; NULL of it:
     * the client waits. */
    const im_credentials *(*renew)(void *app);
    void (*on_frame)(void *app, uint32_t kind); /* of tests: a frame was handled */
    im_io io;
} im_config;

typedef enum im_error {
    IM_OK,
    IM_BAD_CONFIG, /* a name, a buffer or a function */
    IM_BAD_STATE,  /* the stored record is damaged, or of a newer version */
    IM_QUEUE_FULL, /* too many messages or requests wait */
    IM_TOO_LARGE,  /* larger than the buffers */
    IM_NOT_ONLINE, /* no session */
    IM_MALFORMED,  /* the content is no Content */
    IM_UNKNOWN     /* no such entry is held */
} im_error;

/* ---- a client; its fields belong to the library ---- */

typedef struct im_network {
    char name[IM_NETWORK_BYTES];
    uint16_t now, good, bad; /* seconds; 0: not known */
} im_network;

typedef struct im_backoff {
    uint32_t span_ms;
} im_backoff;

typedef struct im_heartbeat {
    uint16_t shortest, first, longest, agreed; /* seconds */
    im_network known;
    uint8_t answers, answers_bounded;
    uint16_t suspect; /* an interval that seems to have failed */
} im_heartbeat;

typedef struct im_inbox {
    bool has_done, is_pulling, must_pull;
    uint64_t last; /* up to here everything was handed out */
    uint64_t done; /* up to here the application has everything */
    uint64_t acknowledged, head;
    uint64_t own; /* own messages whose places are not passed yet */
    int64_t acknowledge_at, pull_at;
    uint32_t pull_count; /* entries of the next page */
    uint16_t held_count;
    uint64_t held[IM_HELD_MAX]; /* ascending */
} im_inbox;

typedef struct im_client {
    im_config config;
    /* What is stored. */
    im_inbox inbox;
    im_network networks[IM_NETWORKS_MAX]; /* the longest unused one first */
    uint8_t network_count;
    size_t queue_used;
    bool is_dirty;
    /* Decisions. */
    im_phase phase;
    int64_t deadline; /* end of waiting, connecting, login */
    int64_t not_before, again_at;
    uint32_t again_ms, attempts, number;
    im_backoff backoff;
    im_heartbeat heartbeat;
    size_t next_address;
    uint8_t followed, first_count;
    char first[2][IM_ADDRESS_BYTES]; /* tried before the configured ones */
    char current[IM_ADDRESS_BYTES];
    /* Of a connection. */
    bool dials, shows_password, is_safe, uses_scram, owes_ping, lacks_room;
    char nonce[37];
    im_credentials credentials;
    uint8_t expected[46]; /* what the server must say */
    uint8_t expected_bytes;
    size_t in_used, skips, out_used, out_sent;
    int64_t since, said_at, heard_at;
    int64_t dead_at; /* without an answer until then the connection is dead */
    uint16_t tested_s;
    uint8_t handled_count;
    uint8_t handled[16];
    /* Of a session. */
    char account[IM_NAME_BYTES_MAX + 1];
    uint64_t text_bytes_max, extra_bytes_max;
    uint32_t page_messages_max, requests_max;
    uint8_t asked_count;
    uint32_t asked[IM_ASKED_MAX];
} im_client;

/* ---- functions ---- */

/* Checks the configuration, which is copied (what it points to is not), and loads the record. */
im_error im_open(im_client *client, const im_config *config);

/* Begins to connect. */
void im_start(im_client *client);

/* Does all that can be done now. Returns when it has to be called at the latest, by now_ms;
 * IM_NEVER if only the socket or the application can go on. */
int64_t im_run(im_client *client);

/* Whether im_run waits until the socket can be written. */
bool im_wants_write(const im_client *client);

/* For entries that were held, by their places and in any order. */
im_error im_acknowledge(im_client *client, uint64_t place);

/* Queues a text to an account or a group. The next im_run stores it, and it is sent when that is
 * possible, also after a restart. `made` gets its client id; NULL: it is not needed. */
im_error im_send(im_client *client, const char *to, const char *text,
                 uint8_t made[IM_CLIENT_ID_BYTES]);

/* Queues any content, a Content of im.proto, with a client id of yours. One that waits already is
 * not queued again. */
im_error im_send_content(im_client *client, const uint8_t client_id[IM_CLIENT_ID_BYTES],
                         const char *to, im_bytes content);

/* Asks the server something: the field of ClientFrame, and that message without its number. The
 * answer comes to on_answer with the number that `request` gets; `request` NULL: there is none. */
im_error im_request(im_client *client, uint32_t kind, im_bytes body, uint32_t *request);

/* At most `count` messages of a conversation before this place; 0: the last ones. The answer is a
 * HistoryPage, newest first. */
im_error im_history(im_client *client, const char *with, uint32_t count, uint64_t before,
                    uint32_t *request);
/* The next message of a HistoryPage; false after the last one. */
bool im_history_next(im_reader *page, im_message *message);

/* The account has read this conversation up to this place. */
im_error im_mark_read(im_client *client, const char *with, uint64_t upto, uint32_t *request);

/* The network is there again, or the device woke up. */
void im_nudge(im_client *client);

/* The device is on another network now: "home", "cell"; at most 23 bytes count. */
void im_set_network(im_client *client, const char *name);

/* Says goodbye; IM_ENDED follows at once. Messages that wait stay. */
void im_close(im_client *client);

/* Drops the connection without a word, as the loss of power does. */
void im_kill(im_client *client);

#endif
