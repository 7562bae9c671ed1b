/* miop: receives pushes from a Holdline server over MIOP 7.
 *
 * C99, for small devices. The library allocates nothing: a client is a struct and three buffers of
 * the caller's. It has no threads, and never blocks: the caller gives it functions for its socket,
 * its clock and its storage (miop_io), and calls miop_run when the socket is ready or the time has
 * come that miop_run returned. posix/miop_posix.h is such a set of functions.
 *
 * See README.md for a quick start. */
#ifndef MIOP_H
#define MIOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIOP_LIBRARY_VERSION "0.1.0"

/* Sizes that a device may change, the same for all files. */
#ifndef MIOP_SEEN_MAX
#define MIOP_SEEN_MAX 256 /* acknowledged ids that are remembered: 8 bytes each */
#endif
#ifndef MIOP_HELD_MAX
#define MIOP_HELD_MAX 64 /* pushes that the application holds: the largest window */
#endif
#ifndef MIOP_NETWORKS_MAX
#define MIOP_NETWORKS_MAX 16 /* networks whose heartbeat is remembered: 30 bytes each */
#endif
#define MIOP_NETWORK_BYTES 24
#define MIOP_CLIENT_ID_BYTES 65 /* with the zero */
#define MIOP_ADDRESS_BYTES 65
#define MIOP_REPORTS_MAX 256
#define MIOP_NEVER INT64_MAX

/* ---- what a device provides ---- */

#define MIOP_PIN_MISMATCH (-2)

typedef struct miop_io {
    void *context;
    /* Begins to connect to "host:port", with TLS if the device uses it: 1 connected, 0 under way,
     * -1 failed, MIOP_PIN_MISMATCH. `connecting` tells the same later. */
    int (*connect)(void *context, const char *address);
    int (*connecting)(void *context);
    /* Whether a token may be shown on this connection: it has TLS, or leads to this machine and
     * through no proxy. NULL: it may not. */
    bool (*is_safe)(void *context);
    /* Sends what there is room for: the bytes that were taken, -1 if the connection is lost. */
    long (*send)(void *context, const void *bytes, size_t size);
    /* What has arrived: its bytes, 0 if nothing has, -1 at the end. */
    long (*receive)(void *context, void *bytes, size_t size);
    void (*disconnect)(void *context);
    /* A clock that never goes back, and the Unix time, both in milliseconds. */
    int64_t (*now_ms)(void *context);
    int64_t (*wall_ms)(void *context);
    /* Random bytes that nobody can guess. */
    void (*random)(void *context, void *bytes, size_t size);
    /* Stores a record in pieces; `save_end` makes it the current one in one step, and only then
     * returns 0. `load` gives the next bytes of the current one, 0 at its end. All four may be
     * NULL: then a restart hands out again what the server sends again. */
    int (*save_begin)(void *context);
    int (*save)(void *context, const void *bytes, size_t size);
    int (*save_end)(void *context);
    long (*load)(void *context, void *bytes, size_t size);
} miop_io;

/* ---- what the application hears ---- */

typedef struct miop_push {
    uint64_t id; /* unique; the same if it is handed out again after a crash */
    uint32_t app_id;
    bool is_silent;
    bool is_high;
    uint32_t expire_at; /* Unix second; 0: it meant "now" */
    const uint8_t *collapse_key;
    size_t collapse_key_bytes;
    const uint8_t *body; /* until the callback returns */
    size_t body_bytes;
} miop_push;

typedef enum miop_verdict {
    MIOP_TAKEN,    /* the application has it: acknowledge it */
    MIOP_HELD,     /* miop_acknowledge or miop_reject follows */
    MIOP_REJECTED, /* not now: it is handed out again when the server sends it again */
} miop_verdict;

typedef enum miop_phase {
    MIOP_IDLE, MIOP_WAITING, MIOP_CONNECTING, MIOP_BINDING, MIOP_BOUND, MIOP_CLOSING, MIOP_ENDED
} miop_phase;

typedef struct miop_state {
    miop_phase phase;
    const char *address;    /* of CONNECTING */
    bool is_resumed;        /* of BOUND */
    uint16_t heartbeat_s;   /* of BOUND */
    uint32_t offline_count; /* of BOUND: pushes that the server has stored */
    int64_t until_ms;       /* of WAITING */
    /* Of WAITING and ENDED: a fault of docs/wire/miop.md, a result's word, or connect_failed,
     * connect_timeout, bind_timeout, pin_mismatch, insecure, lost, no_pong, closed. */
    const char *why;
    uint8_t result; /* of ENDED: docs/wire/miop.md, section 9; 0 without one */
} miop_state;

typedef struct miop_config {
    const char *const *addresses; /* host:port, tried in turn */
    size_t address_count;
    const char *product;
    const char *device;
    /* One proof, or none. A token is sent only where io.is_safe. */
    const void *secret;
    size_t secret_bytes;
    uint32_t key_id;
    const char *token;
    bool has_certificate;
    /* With sets_tags the device's tags are replaced, by none if there are none. */
    bool sets_tags;
    const char *const *tags;
    size_t tag_count;
    uint16_t window; /* pushes at once; 0: MIOP_HELD_MAX */
    bool pulls;      /* stored pushes come only after miop_pull */
    /* The heartbeat that is asked for; 0: the product's default. PINGs are never further apart than
     * what is agreed. */
    uint16_t heartbeat_wish_s;
    /* Zeros are 30, 120 and 1800 s, 1 s and 60 s. */
    uint16_t heartbeat_shortest_s, heartbeat_first_s, heartbeat_longest_s;
    uint32_t backoff_first_ms, backoff_longest_ms;
    /* Where frames are received: a push that is larger is dropped, see on_too_large. Where frames
     * are sent: at least 1 KiB, and 13 bytes more than the largest Report. Where Reports wait: each
     * takes 10 bytes, its client id and its body; NULL: none are sent. */
    uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
    uint8_t *reports;
    size_t reports_bytes;

    void *app;
    miop_verdict (*on_push)(void *app, const miop_push *push);
    /* These may be NULL. */
    void (*on_state)(void *app, const miop_state *state);
    void (*on_stored)(void *app, const char *client_id);
    void (*on_pulled)(void *app, uint32_t remaining);
    void (*on_too_large)(void *app, uint64_t id, size_t frame_bytes);
    void (*on_frame)(void *app, uint8_t opcode); /* of tests: a frame was handled */
    miop_io io;
} miop_config;

typedef enum miop_error {
    MIOP_OK,
    MIOP_BAD_CONFIG,  /* a name, a buffer or a function */
    MIOP_BAD_STATE,   /* the stored record is damaged, or of a newer version */
    MIOP_NOT_STORED,  /* the storage failed */
    MIOP_QUEUE_FULL,  /* too many Reports are waiting */
    MIOP_TOO_LARGE,   /* larger than the buffers or the server accept */
    MIOP_NOT_BOUND,   /* not connected */
    MIOP_UNKNOWN_PUSH /* no such push is held */
} miop_error;

/* ---- a client; its fields belong to the library ---- */

typedef struct miop_network {
    char name[MIOP_NETWORK_BYTES];
    uint16_t now, good, bad; /* seconds; 0: not known */
} miop_network;

typedef struct miop_backoff {
    uint32_t first_ms, longest_ms, span_ms;
} miop_backoff;

typedef struct miop_heartbeat {
    uint16_t shortest, first, longest, agreed; /* seconds */
    miop_network known;
    uint8_t answers, answers_bounded;
    uint16_t suspect; /* an interval that seems to have failed */
} miop_heartbeat;

typedef struct miop_ending {
    uint8_t result;
    bool has_hint;
    uint32_t retry_ms;
    uint64_t time_ms;
    uint8_t address_count;
    char addresses[4][MIOP_ADDRESS_BYTES];
} miop_ending;

typedef struct miop_client {
    miop_config config;
    /* What is stored. */
    uint64_t epoch;
    bool has_session;
    uint8_t session[32];
    uint64_t seen[MIOP_SEEN_MAX];
    uint16_t seen_count, seen_next;
    miop_network networks[MIOP_NETWORKS_MAX]; /* the longest unused one first */
    uint8_t network_count;
    uint32_t next_seq;
    size_t reports_used;
    /* Decisions. */
    miop_phase phase;
    int64_t deadline;
    uint32_t connection;
    bool dials;
    uint32_t attempts;
    miop_backoff backoff, report_pause;
    miop_heartbeat heartbeat;
    int64_t clock_ms;
    bool is_clock_corrected;
    size_t next_address;
    uint8_t followed, first_count;
    char first[5][MIOP_ADDRESS_BYTES]; /* tried before the configured ones */
    char current[MIOP_ADDRESS_BYTES];
    /* Of a connection. */
    size_t in_used, skips, out_used, out_sent;
    uint64_t client_ts;
    uint8_t client_nonce[16];
    bool is_challenged, is_busy;
    miop_ending notice;
    size_t frame_max;
    int64_t bound_at, said_at, heard_at;
    bool awaits_pong, owes_ping, owes_unbind;
    uint16_t tested_s;
    int64_t reports_paused_to;
    /* Pushes. */
    uint64_t held[MIOP_HELD_MAX], to_ack[MIOP_HELD_MAX];
    uint16_t held_count, ack_count;
    bool is_dirty;
} miop_client;

/* ---- functions ---- */

/* Checks the configuration, which is copied (what it points to is not), and loads the record. */
miop_error miop_open(miop_client *client, const miop_config *config);

/* Begins to connect. */
void miop_start(miop_client *client);

/* Does all that can be done now. Returns when it has to be called at the latest, by now_ms;
 * MIOP_NEVER if only the socket or the application can go on. */
int64_t miop_run(miop_client *client);

/* Whether miop_run waits until the socket can be written. */
bool miop_wants_write(const miop_client *client);

/* For pushes that were held. */
miop_error miop_acknowledge(miop_client *client, uint64_t id);
miop_error miop_reject(miop_client *client, uint64_t id);

/* Sends bytes to the application's server, when it can, also after a restart. A client id that
 * waits already is not queued again. NULL: a random one, which is written to `made` (33 bytes, or
 * NULL). */
miop_error miop_report(miop_client *client, const char *client_id, const void *body, size_t size,
                       char *made);

/* Reports that the user opened or dismissed a push: a Report with a client id of its own
 * ("opened-" or "dismissed-" and the id), so that it is queued once. */
miop_error miop_opened(miop_client *client, uint64_t id);
miop_error miop_dismissed(miop_client *client, uint64_t id);

/* Asks for up to so many stored pushes; 0: as many as the server likes. */
miop_error miop_pull(miop_client *client, uint16_t count);

/* The network is there again, or the device woke up. */
void miop_nudge(miop_client *client);

/* The device is on another network now: "home", "cell"; at most 23 bytes count. */
void miop_set_network(miop_client *client, const char *name);

/* Says good-bye. MIOP_ENDED follows within five seconds. */
void miop_close(miop_client *client);

/* Drops the connection without a word, as the loss of power does. */
void miop_kill(miop_client *client);

#endif
