/* Shows this library to clients/conformance: JSON lines on standard input and output, as the README
 * there specifies. */
#define _POSIX_C_SOURCE 200809L
#include "json.h"
#ifdef WITH_OPENSSL
#include "miop_openssl.h"
#endif
#include "miop_posix.h"
#include "sha256.h"
#include "wire.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IN_BYTES = 1 << 20, OUT_BYTES = 1 << 18, REPORTS_BYTES = 1 << 20, STATE_BYTES = 2 << 20 };

static miop_client client;
#ifdef WITH_OPENSSL
static miop_openssl tls;
static const char *pins[8];
#define FEATURES "[\"tls\",\"pins\",\"socks5\",\"http_connect\"]"
#else
#define FEATURES "[\"socks5\",\"http_connect\"]"
#endif
static miop_posix plain, *posix = &plain; /* of the client that is open */
static bool is_open;
static json *opened; /* the options, which the client refers to */
static uint8_t in_buffer[IN_BYTES], out_buffer[OUT_BYTES], report_buffer[REPORTS_BYTES];
static uint8_t stored[STATE_BYTES], saving[STATE_BYTES], secret[512];
static size_t stored_bytes, saving_bytes, loaded_bytes;
static const char *addresses[16], *tags[64];
static int64_t clock_ms, wall_begin_ms, next_ms;
static double random_number;
static bool is_manual;

/* ---- output ---- */

static void print_hex(const void *bytes, size_t size) {
    for (size_t at = 0; at < size; at++) printf("%02x", ((const uint8_t *)bytes)[at]);
}

static void print_text(const char *text, size_t size) {
    putchar('"');
    for (size_t at = 0; at < size; at++) {
        unsigned char c = (unsigned char)text[at];
        if (c == '"' || c == '\\' || c < ' ' || c > '~') printf("\\u%04x", c);
        else putchar(c);
    }
    putchar('"');
}

static void print_named(const char *name, const char *text) {
    printf(",\"%s\":", name);
    print_text(text, strlen(text));
}

static void print_bytes(const char *name, miop_bytes bytes) {
    printf(",\"%s\":\"", name);
    print_hex(bytes.data, bytes.size);
    putchar('"');
}

static const char *truth(bool holds) { return holds ? "true" : "false"; }

/* ---- input ---- */

static size_t hex(const char *text, uint8_t *to, size_t most) {
    size_t size = text == NULL ? 0 : strlen(text) / 2;
    if (size > most) exit(2);
    for (size_t at = 0; at < size; at++) {
        const char digits[3] = {text[2 * at], text[2 * at + 1], 0};
        to[at] = (uint8_t)strtol(digits, NULL, 16);
    }
    return size;
}

static size_t texts(const json *list, const char **to, size_t most) {
    size_t count = 0;
    for (const json *it = list == NULL ? NULL : list->first; it != NULL && count < most;
         it = it->next) {
        to[count++] = it->text;
    }
    return count;
}

/* ---- frames as the vectors write them ---- */

typedef enum form { NUMBER, BIG, OCTETS, TEXT, TRIPLE, LIST } form;

static const struct {
    uint8_t key;
    const char *name;
    form form;
} NAMES[] = {
    {MIOP_KEY_DEVICE_ID, "device_id", TEXT}, {MIOP_KEY_PRODUCT_KEY, "product_key", TEXT},
    {MIOP_KEY_CLIENT_TS, "client_ts", BIG}, {MIOP_KEY_HEARTBEAT_WISH, "heartbeat_wish", TRIPLE},
    {MIOP_KEY_HEARTBEAT, "heartbeat", NUMBER}, {MIOP_KEY_CLIENT_NONCE, "client_nonce", OCTETS},
    {MIOP_KEY_SERVER_NONCE, "server_nonce", OCTETS}, {MIOP_KEY_AUTH_TYPE, "auth_type", NUMBER},
    {MIOP_KEY_KEY_ID, "key_id", NUMBER}, {MIOP_KEY_MAC, "mac", OCTETS},
    {MIOP_KEY_TOKEN, "token", OCTETS}, {MIOP_KEY_RESUME_TOKEN, "resume_token", OCTETS},
    {MIOP_KEY_LAST_MSG_ID, "last_msg_id", BIG}, {MIOP_KEY_SESSION_EPOCH, "session_epoch", BIG},
    {MIOP_KEY_RESULT, "result", NUMBER}, {MIOP_KEY_REASON, "reason", TEXT},
    {MIOP_KEY_RETRY_AFTER_MS, "retry_after_ms", NUMBER}, {MIOP_KEY_ADDR, "addrs", LIST},
    {MIOP_KEY_CAPS, "caps", NUMBER}, {MIOP_KEY_MAX_FRAME, "max_frame", NUMBER},
    {MIOP_KEY_MAX_INFLIGHT, "max_inflight", NUMBER},
    {MIOP_KEY_ACK_TIMEOUT_MS, "ack_timeout_ms", NUMBER},
    {MIOP_KEY_OFFLINE_COUNT, "offline_count", NUMBER}, {MIOP_KEY_SERVER_TIME, "server_time", BIG},
    {MIOP_KEY_TAG, "tags", LIST}, {MIOP_KEY_COUNT, "count", NUMBER},
    {MIOP_KEY_REPORT_SEQ, "report_seq", NUMBER},
};
enum { NAME_COUNT = sizeof NAMES / sizeof *NAMES };

static void print_list(const miop_frame *frame, uint8_t wanted) {
    miop_bytes rest = frame->properties, value;
    const char *comma = "";
    uint8_t key;
    putchar('[');
    while (miop_property_next(&rest, &key, &value)) {
        if (key != wanted) continue;
        printf("%s", comma);
        print_text((const char *)value.data, value.size);
        comma = ",";
    }
    putchar(']');
}

static void print_property(const miop_frame *frame, size_t at, miop_bytes value) {
    uint64_t number = value.size <= 8 ? miop_number(value.data, value.size) : 0;
    switch (NAMES[at].form) {
    case NUMBER: printf("%" PRIu64, number); break;
    case BIG: printf("\"%" PRIu64 "\"", number); break;
    case OCTETS:
        putchar('"');
        print_hex(value.data, value.size);
        putchar('"');
        break;
    case TEXT: print_text((const char *)value.data, value.size); break;
    case TRIPLE:
        printf("[%u,%u,%u]", (unsigned)(number >> 32), (unsigned)(number >> 16 & 0xffff),
               (unsigned)(number & 0xffff));
        break;
    case LIST: print_list(frame, NAMES[at].key); break;
    }
}

static void print_record(const miop_record *record) {
    printf("{\"id\":\"%" PRIu64 "\",\"app_id\":%" PRIu32 ",\"silent\":%s,\"high\":%s,"
           "\"expire_at\":%" PRIu32, record->id, record->app_id,
           truth(record->flags & MIOP_RECORD_SILENT), truth(record->flags & MIOP_RECORD_HIGH),
           record->expire_at);
    print_bytes("collapse", record->collapse);
    print_bytes("body", record->body);
    putchar('}');
}

static void print_frame(const miop_frame *frame) {
    const char *comma = "";
    miop_bytes value, rest = frame->payload;
    miop_record record;
    printf(",\"frame\":{\"opcode\":%u", frame->opcode);
    if (frame->opcode > MIOP_ERROR) {
        printf(",\"skipped\":true}");
        return;
    }
    if (frame->has_seq) printf(",\"seq\":%" PRIu32, frame->seq);
    if (frame->flags & MIOP_FLAG_ACK_REQ) printf(",\"ack_req\":true");
    if (frame->flags & MIOP_FLAG_DUP) printf(",\"dup\":true");
    printf(",\"properties\":{");
    for (size_t at = 0; at < NAME_COUNT; at++) {
        if (!miop_property(frame, NAMES[at].key, &value)) continue;
        printf("%s\"%s\":", comma, NAMES[at].name);
        print_property(frame, at, value);
        comma = ",";
    }
    putchar('}');
    if (frame->opcode != MIOP_MSG) {
        print_bytes("payload", frame->payload);
    } else {
        printf(",\"records\":[");
        for (comma = ""; rest.size > 0 && miop_record_read(&rest, &record); comma = ",") {
            printf("%s", comma);
            print_record(&record);
        }
        putchar(']');
    }
    putchar('}');
}

static void decode(const json *command) {
    static uint8_t bytes[1 << 18];
    miop_bytes in = {bytes, hex(json_text(command, "bytes"), bytes, sizeof bytes)};
    miop_frame frame;
    size_t most = (size_t)json_whole(command, "frame_bytes_max", MIOP_FRAME_DEFAULT);
    const char *fault = miop_frame_read(&frame, in, most);
    if (fault == NULL && frame.length > 0 && frame.opcode == MIOP_MSG) {
        fault = miop_records_check(frame.payload);
    }
    if (fault != NULL) {
        print_named("fault", fault);
    } else if (frame.length == 0) {
        printf(",\"more\":true");
    } else {
        print_frame(&frame);
        printf(",\"length\":%zu", frame.length);
    }
}

static void write_value(miop_writer *out, size_t at, const json *value) {
    uint8_t bytes[1024];
    uint8_t key = NAMES[at].key;
    const json *part = value->first;
    switch (NAMES[at].form) {
    case NUMBER: miop_write_number(out, key, value->whole); break;
    case BIG: miop_write_number(out, key, strtoull(value->text, NULL, 10)); break;
    case TEXT: miop_write_property(out, key, value->text, strlen(value->text)); break;
    case OCTETS:
        miop_write_property(out, key, bytes, hex(value->text, bytes, sizeof bytes));
        break;
    case TRIPLE:
        for (unsigned to = 0; to < 6; to += 2, part = part->next) {
            miop_put(bytes + to, part->whole, 2);
        }
        miop_write_property(out, key, bytes, 6);
        break;
    case LIST:
        for (; part != NULL; part = part->next) {
            miop_write_property(out, key, part->text, strlen(part->text));
        }
    }
}

static void encode(const json *command) {
    static uint8_t bytes[1 << 18], payload[1 << 17];
    const json *frame = json_at(command, "frame"), *value;
    const json *properties = json_at(frame, "properties");
    miop_writer out = {bytes, sizeof bytes, 0, 0, 0, false, false};
    uint32_t seq = (uint32_t)json_whole(frame, "seq", 0);
    miop_write_begin(&out, (uint8_t)json_whole(frame, "opcode", 0), 0,
                     json_at(frame, "seq") == NULL ? NULL : &seq);
    for (size_t at = 0; at < NAME_COUNT; at++) {
        if ((value = json_at(properties, NAMES[at].name)) != NULL) write_value(&out, at, value);
    }
    miop_write_payload(&out);
    miop_write_bytes(&out, payload, hex(json_text(frame, "payload"), payload, sizeof payload));
    if (!miop_write_end(&out)) exit(2);
    const miop_bytes written = {bytes, out.used};
    print_bytes("bytes", written);
}

static void part(miop_hmac *sum, const void *bytes, size_t size) {
    uint8_t length[2];
    miop_put(length, size, 2);
    miop_sha256_add(&sum->inner, length, 2);
    miop_sha256_add(&sum->inner, bytes, size);
}

/* The parts of section 6.1 once more: the vectors check the hash, the scenarios the client's. */
static void mac(const json *command) {
    uint8_t bytes[512], number[8], digest[32];
    const char *product = json_text(command, "product"), *device = json_text(command, "device");
    miop_hmac sum;
    miop_hmac_begin(&sum, bytes, hex(json_text(command, "secret"), bytes, sizeof bytes));
    part(&sum, "MIOP7-BIND", 10);
    part(&sum, product, strlen(product));
    part(&sum, device, strlen(device));
    miop_put(number, json_whole(command, "client_ts", 0), 8);
    part(&sum, number, 8);
    part(&sum, bytes, hex(json_text(command, "client_nonce"), bytes, sizeof bytes));
    miop_put(number, json_whole(command, "caps", 0), 4);
    part(&sum, number, 4);
    part(&sum, "", 0);
    part(&sum, bytes, hex(json_text(command, "server_nonce"), bytes, sizeof bytes));
    miop_hmac_end(&sum, digest);
    const miop_bytes signature = {digest, sizeof digest};
    print_bytes("mac", signature);
}

/* ---- a client with the suite's clock ---- */

static int64_t now(void *context) {
    (void)context;
    return clock_ms;
}

static int64_t wall(void *context) {
    (void)context;
    return wall_begin_ms + clock_ms;
}

/* Four bytes are a number for jitter, others a nonce or a name. */
static void random_bytes(void *context, void *bytes, size_t size) {
    static uint64_t counter;
    (void)context;
    memset(bytes, 0, size);
    if (size == 4) miop_put(bytes, (uint64_t)(random_number * 4294967296.0), 4);
    else miop_put(bytes, ++counter, 8);
}

static int save_begin(void *context) {
    (void)context;
    saving_bytes = 0;
    return 0;
}

static int save(void *context, const void *bytes, size_t size) {
    (void)context;
    memcpy(saving + saving_bytes, bytes, size);
    saving_bytes += size;
    return 0;
}

static int save_end(void *context) {
    (void)context;
    memcpy(stored, saving, saving_bytes);
    stored_bytes = saving_bytes;
    return 0;
}

static long load(void *context, void *bytes, size_t size) {
    (void)context;
    size_t left = stored_bytes - loaded_bytes;
    size_t count = size < left ? size : left;
    memcpy(bytes, stored + loaded_bytes, count);
    loaded_bytes += count;
    return (long)count;
}

static miop_verdict on_push(void *app, const miop_push *push) {
    (void)app;
    miop_bytes collapse = {push->collapse_key, push->collapse_key_bytes};
    miop_bytes body = {push->body, push->body_bytes};
    printf("{\"event\":\"push\",\"id\":\"%" PRIu64 "\",\"app_id\":%" PRIu32 ",\"silent\":%s,"
           "\"high\":%s,\"expire_at\":%" PRIu32, push->id, push->app_id, truth(push->is_silent),
           truth(push->is_high), push->expire_at);
    print_bytes("collapse", collapse);
    print_bytes("body", body);
    printf("}\n");
    return is_manual ? MIOP_HELD : MIOP_TAKEN;
}

static void on_state(void *app, const miop_state *state) {
    static const char *const names[] = {"idle", "waiting", "connecting", "binding", "bound",
                                        "closing", "ended"};
    (void)app;
    printf("{\"event\":\"state\",\"state\":\"%s\"", names[state->phase]);
    if (state->address != NULL) print_named("address", state->address);
    if (state->phase == MIOP_BOUND) {
        printf(",\"resumed\":%s,\"heartbeat\":%u,\"offline_count\":%" PRIu32,
               truth(state->is_resumed), state->heartbeat_s, state->offline_count);
    }
    if (state->phase == MIOP_WAITING) printf(",\"until\":%" PRId64, state->until_ms);
    if (state->why != NULL) print_named("why", state->why);
    if (state->result != 0) printf(",\"result\":%u", state->result);
    printf("}\n");
}

static void on_stored(void *app, const char *client_id) {
    (void)app;
    printf("{\"event\":\"stored\"");
    print_named("client_id", client_id);
    printf("}\n");
}

static void on_pulled(void *app, uint32_t remaining) {
    (void)app;
    printf("{\"event\":\"pulled\",\"remaining\":%" PRIu32 "}\n", remaining);
}

static void on_frame(void *app, uint8_t opcode) {
    (void)app;
    printf("{\"event\":\"frame\",\"opcode\":%u}\n", opcode);
}

#ifdef WITH_OPENSSL
static miop_io open_tls(const json *options) {
    SSL_CTX_free(tls.context);
    memset(&tls, 0, sizeof tls);
    tls.context = SSL_CTX_new(TLS_client_method());
    if (SSL_CTX_load_verify_locations(tls.context, json_text(options, "ca"), NULL) != 1) exit(2);
    tls.name = json_text(options, "name");
    tls.pins = pins;
    tls.pin_count = texts(json_at(options, "pins"), pins, 8);
    posix = &tls.posix;
    return miop_openssl_io(&tls, NULL);
}
#endif

/* scheme://user:password@host:port, in place. */
static miop_proxy *open_proxy(const json *command) {
    static miop_proxy proxy;
    static char text[512];
    if (json_text(command, "proxy") == NULL) return NULL;
    snprintf(text, sizeof text, "%s", json_text(command, "proxy"));
    memset(&proxy, 0, sizeof proxy);
    proxy.is_http = strncmp(text, "http:", 5) == 0;
    char *rest = strstr(text, "://") + 3, *at = strrchr(rest, '@');
    proxy.address = at == NULL ? rest : at + 1;
    if (at != NULL) {
        *at = 0;
        proxy.user = rest;
        rest = strchr(rest, ':');
        *rest++ = 0;
        proxy.password = rest;
        for (char *to = rest; (*to = *rest) != 0; to++, rest++) {
            if (*rest == '%') { /* of a URL */
                hex((const char[]){rest[1], rest[2], 0}, (uint8_t *)to, 1);
                rest += 2;
            }
        }
    }
    return &proxy;
}

static void open_io(miop_io *io, const json *command) {
    posix = &plain;
    *io = miop_posix_io(&plain, NULL);
#ifdef WITH_OPENSSL
    if (json_at(command, "tls") != NULL) *io = open_tls(json_at(command, "tls"));
#endif
    posix->proxy = open_proxy(command);
    io->now_ms = now;
    io->wall_ms = wall;
    io->random = random_bytes;
    io->save_begin = save_begin;
    io->save = save;
    io->save_end = save_end;
    io->load = load;
}

static miop_error open_client(json *command) {
    const json *range = json_at(command, "heartbeat"), *random = json_at(command, "random");
    const json *tag_list = json_at(command, "tags");
    miop_config config;
    memset(&config, 0, sizeof config);
    json_free(opened);
    opened = command;
    clock_ms = 0;
    wall_begin_ms = (int64_t)json_whole(command, "wall_ms", 1700000000000);
    random_number = random == NULL ? 0.5 : random->number;
    is_manual = json_text(command, "acknowledge") != NULL
        && strcmp(json_text(command, "acknowledge"), "manual") == 0;
    loaded_bytes = 0;
    stored_bytes = hex(json_text(command, "state"), stored, sizeof stored);
    config.addresses = addresses;
    config.address_count = texts(json_at(command, "addresses"), addresses, 16);
    config.product = json_text(command, "product");
    config.device = json_text(command, "device");
    if (json_text(command, "secret") != NULL) {
        config.secret = secret;
        config.secret_bytes = hex(json_text(command, "secret"), secret, sizeof secret);
        config.key_id = (uint32_t)json_whole(command, "key_id", 0);
    }
    config.token = json_text(command, "token");
    config.sets_tags = tag_list != NULL;
    config.tags = tags;
    config.tag_count = texts(tag_list, tags, 64);
    config.window = (uint16_t)json_whole(command, "max_inflight", 0);
    config.pulls = json_at(command, "pulls") != NULL && json_at(command, "pulls")->truth;
    config.heartbeat_wish_s = (uint16_t)json_whole(command, "heartbeat_wish", 0);
    if (range != NULL) {
        config.heartbeat_shortest_s = (uint16_t)json_whole(range, "shortest", 0);
        config.heartbeat_first_s = (uint16_t)json_whole(range, "first", 0);
        config.heartbeat_longest_s = (uint16_t)json_whole(range, "longest", 0);
    }
    config.in = in_buffer;
    config.in_bytes = sizeof in_buffer;
    config.out = out_buffer;
    config.out_bytes = sizeof out_buffer;
    config.reports = report_buffer;
    config.reports_bytes = sizeof report_buffer;
    config.on_push = on_push;
    config.on_state = on_state;
    config.on_stored = on_stored;
    config.on_pulled = on_pulled;
    config.on_frame = on_frame;
    open_io(&config.io, command);
    miop_error error = miop_open(&client, &config);
    is_open = error == MIOP_OK;
    if (is_open) miop_start(&client);
    return error;
}

/* ---- commands ---- */

static char made[33]; /* the client id of the last Report */

static miop_error report(const json *command) {
    static uint8_t body[1 << 17];
    const char *client_id = json_text(command, "client_id");
    size_t size = hex(json_text(command, "payload"), body, sizeof body);
    return miop_report(&client, client_id, body, size, made);
}

static bool is(const char *what, const char *word) { return strcmp(what, word) == 0; }

/* What a command does to the client. */
static miop_error act(json *command, const char *what) {
    uint64_t id = json_whole(command, "id", 0);
    if (is(what, "open")) return open_client(command);
    if (is(what, "acknowledge")) return miop_acknowledge(&client, id);
    if (is(what, "reject")) return miop_reject(&client, id);
    if (is(what, "report")) return report(command);
    if (is(what, "opened")) return miop_opened(&client, id);
    if (is(what, "dismissed")) return miop_dismissed(&client, id);
    if (is(what, "pull")) return miop_pull(&client, (uint16_t)json_whole(command, "count", 0));
    if (is(what, "time")) clock_ms = (int64_t)json_whole(command, "ms", 0);
    if (is(what, "nudge")) miop_nudge(&client);
    if (is(what, "network")) miop_set_network(&client, json_text(command, "name"));
    if (is(what, "close")) miop_close(&client);
    if (is(what, "kill")) {
        miop_kill(&client);
        is_open = false;
    }
    return MIOP_OK;
}

/* What its answer has beside the number. */
static void answer(const json *command, const char *what) {
    if (is(what, "decode")) decode(command);
    if (is(what, "encode")) encode(command);
    if (is(what, "mac")) mac(command);
    if (is(what, "hello")) {
        print_named("library", "miop-c");
        print_named("version", MIOP_LIBRARY_VERSION);
        printf(",\"features\":" FEATURES);
    }
    if (is(what, "kill")) {
        const miop_bytes state = {stored, stored_bytes};
        print_bytes("state", state);
    }
    if (is(what, "report")) {
        const char *client_id = json_text(command, "client_id");
        print_named("client_id", client_id == NULL ? made : client_id);
    }
    if (is(what, "opened") || is(what, "dismissed")) {
        printf(",\"client_id\":\"%s-%" PRIu64 "\"", what, json_whole(command, "id", 0));
    }
    if (is(what, "time")) {
        if (next_ms == MIOP_NEVER) printf(",\"next\":null");
        else printf(",\"next\":%" PRId64, next_ms);
    }
}

/* Returns whether the command is kept. */
static bool run(json *command) {
    const char *what = json_text(command, "do");
    uint64_t number = json_whole(command, "n", 0);
    miop_error error = act(command, what);
    if (is_open) next_ms = miop_run(&client);
    printf("{\"n\":%" PRIu64, number);
    if (error == MIOP_OK) answer(command, what);
    else if (error == MIOP_QUEUE_FULL) print_named("error", "queue_full");
    else printf(",\"error\":\"error %d\"", error);
    printf("}\n");
    return is(what, "open");
}

static bool is_readable(int file) {
    struct pollfd wait = {file, POLLIN, 0};
    return poll(&wait, 1, 0) > 0;
}

/* Lines are read without the buffer of stdio, so that poll sees what is left. */
int main(void) {
    static char line[4 << 20];
    size_t used = 0;
    plain.socket = -1;
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        char *end;
        while ((end = memchr(line, '\n', used)) != NULL) {
            *end = 0;
            json *command = json_read(line);
            if (!run(command)) json_free(command);
            used -= (size_t)(end + 1 - line);
            memmove(line, end + 1, used);
        }
        fflush(stdout);
        /* The client's time stands still, so only its socket and the suite can go on. */
        miop_posix_wait(posix, &client, MIOP_NEVER, 0);
        if (is_open) next_ms = miop_run(&client);
        fflush(stdout);
        if (is_readable(0)) {
            ssize_t count = read(0, line + used, sizeof line - used);
            if (count <= 0) return 0;
            used += (size_t)count;
        }
    }
}
