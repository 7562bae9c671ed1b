/* Shows this library to clients/conformance: JSON lines on standard input and output, as the README
 * there specifies. */
#define _POSIX_C_SOURCE 200809L
#include "json.h"
#ifdef WITH_OPENSSL
#include "im_openssl.h"
#endif
#include "im_posix.h"
#include "parts.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    IN_BYTES = 1 << 20, OUT_BYTES = (1 << 20) + 4096, QUEUE_BYTES = 2 << 20,
    STATE_BYTES = 3 << 20
};

static im_client client;
#ifdef WITH_OPENSSL
static im_openssl tls;
static const char *pins[8];
#define FEATURES "[\"manual\",\"heartbeat\",\"tls\",\"pins\",\"socks5\",\"http_connect\"]"
#else
#define FEATURES "[\"manual\",\"heartbeat\",\"socks5\",\"http_connect\"]"
#endif
static im_posix plain, *posix = &plain; /* of the client that is open */
static bool is_open;
static json *opened; /* the options, which the client refers to */
static uint8_t in_buffer[IN_BYTES], out_buffer[OUT_BYTES], queue_buffer[QUEUE_BYTES];
static uint8_t stored[STATE_BYTES], saving[STATE_BYTES];
static size_t stored_bytes, saving_bytes, loaded_bytes;
static const char *addresses[16];
static int64_t clock_ms, next_ms;
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
        if (c == '"' || c == '\\' || c < ' ') printf("\\u%04x", c);
        else putchar(c);
    }
    putchar('"');
}

static void print_named(const char *name, const char *text) {
    printf(",\"%s\":", name);
    print_text(text, strlen(text));
}

static void print_bytes(const char *name, im_bytes bytes) {
    printf(",\"%s\":\"", name);
    print_hex(bytes.data, bytes.size);
    putchar('"');
}


static void print_letters(const char *name, im_bytes text) {
    printf(",\"%s\":", name);
    print_text((const char *)text.data, text.size);
}

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

/* ---- frames and proofs ---- */

static void decode(const json *command) {
    static uint8_t bytes[1 << 20];
    im_bytes in = {bytes, hex(json_text(command, "bytes"), bytes, sizeof bytes)};
    uint64_t most = json_whole(command, "frame_bytes_max", IM_FRAME_BYTES_MAX);
    size_t head, length;
    im_frame frame;
    const char *fault = im_frame_length(in, most, &head, &length);
    bool is_whole = fault == NULL && length > 0 && length <= in.size;
    if (is_whole) {
        const im_bytes content = {bytes + head, length - head};
        fault = im_frame_read(content, false, &frame);
    }
    if (fault != NULL) {
        print_named("fault", fault);
    } else if (!is_whole) {
        printf(",\"more\":true");
    } else {
        if (frame.kind == 0) printf(",\"answer\":null");
        else print_named("answer", im_answer_name(frame.kind));
        printf(",\"length\":%zu", length);
    }
}

static void prove(const json *command) {
    uint8_t bytes[IM_SCRAM_BYTES_MAX], expected[46], first[32];
    const im_bytes account = im_text(json_text(command, "account"));
    const char *nonce = json_text(command, "nonce"), *token = json_text(command, "token");
    if (token != NULL) {
        im_token_macs(token, first, expected);
        printf(",\"first\":\"");
        print_hex(account.data, account.size);
        printf("00");
        print_hex(first, sizeof first);
        putchar('"');
        const im_bytes proof = {expected, 32};
        print_bytes("proof", proof);
        return;
    }
    im_writer w = {bytes, sizeof bytes, 0, false};
    im_scram_first(&w, 1, account, nonce);
    const im_bytes said = {bytes + 2, w.used - 2}; /* without field and length */
    print_letters("first", said);
    w.used = 0;
    if (!im_scram_answer(account, json_text(command, "password"), nonce,
                         im_text(json_text(command, "challenge")), &w, expected)) {
        exit(2);
    }
    const im_bytes answer = {bytes, w.used}, proof = {expected, sizeof expected};
    print_letters("answer", answer);
    print_letters("proof", proof);
}

/* ---- a client with the suite's clock ---- */

static int64_t now(void *context) {
    (void)context;
    return clock_ms;
}

/* Four bytes are a number for jitter, others a nonce or a name. */
static void random_bytes(void *context, void *bytes, size_t size) {
    static uint64_t counter;
    (void)context;
    memset(bytes, 0, size);
    if (size == 4) im_put(bytes, (uint64_t)(random_number * 4294967296.0), 4);
    else im_put(bytes, ++counter, 8);
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

static im_verdict verdict(void) { return is_manual ? IM_HELD : IM_TAKEN; }

static im_verdict on_message(void *app, const im_message *it) {
    (void)app;
    printf("{\"event\":\"message\",\"seq\":%" PRIu64 ",\"id\":\"%" PRIu64 "\"", it->place, it->id);
    print_letters("from", it->from);
    print_letters("to", it->to);
    print_letters("text", it->text);
    print_bytes("client_id", it->client_id);
    printf("}\n");
    return verdict();
}

static im_verdict on_event(void *app, const im_event *it) {
    (void)app;
    printf("{\"event\":\"event\",\"seq\":%" PRIu64, it->place);
    print_letters("with", it->with);
    printf("}\n");
    return verdict();
}

static void on_outcome(void *app, const im_outcome *it) {
    const im_bytes client_id = {it->client_id, IM_CLIENT_ID_BYTES};
    (void)app;
    printf("{\"event\":\"%s\"", it->error == NULL ? "sent" : "failed");
    print_bytes("client_id", client_id);
    if (it->error != NULL) print_named("why", it->error);
    else printf(",\"id\":\"%" PRIu64 "\",\"seq\":%" PRIu64, it->id, it->seq);
    printf("}\n");
}

/* The newest message is the first of the page. */
static void print_texts(im_reader page) {
    static im_message messages[256];
    size_t count = 0;
    while (count < 256 && im_history_next(&page, &messages[count])) count++;
    printf(",\"texts\":[");
    while (count-- > 0) {
        print_text((const char *)messages[count].text.data, messages[count].text.size);
        if (count > 0) putchar(',');
    }
    putchar(']');
}

static void on_answer(void *app, uint32_t request, const im_answer *it) {
    im_reader page = im_reader_of(it->body);
    im_field field;
    bool has_more = false;
    (void)app;
    printf("{\"event\":\"history\",\"ask\":%" PRIu32, request);
    if (it->error != NULL) {
        print_named("error", it->error);
    } else {
        print_texts(page);
        while (im_field_next(&page, &field)) {
            if (field.number == 3) has_more = field.value != 0;
        }
        printf(",\"more\":%s", has_more ? "true" : "false");
    }
    printf("}\n");
}

static void on_state(void *app, const im_state *state) {
    static const char *const names[] = {"idle", "waiting", "connecting", "login", "online",
                                        "ended"};
    (void)app;
    printf("{\"event\":\"state\",\"state\":\"%s\"", names[state->phase]);
    if (state->address != NULL) print_named("address", state->address);
    if (state->phase == IM_ONLINE) print_letters("account", state->account);
    if (state->phase == IM_WAITING) printf(",\"until\":%" PRId64, state->until_ms);
    if (state->why != NULL) print_named("why", state->why);
    printf("}\n");
}

static void on_frame(void *app, uint32_t kind) {
    (void)app;
    printf("{\"event\":\"frame\"");
    print_named("answer", im_answer_name(kind));
    printf("}\n");
}

#ifdef WITH_OPENSSL
static im_io open_tls(const json *options) {
    SSL_CTX_free(tls.context);
    memset(&tls, 0, sizeof tls);
    tls.context = SSL_CTX_new(TLS_client_method());
    if (SSL_CTX_load_verify_locations(tls.context, json_text(options, "ca"), NULL) != 1) exit(2);
    tls.name = json_text(options, "name");
    tls.pins = pins;
    tls.pin_count = texts(json_at(options, "pins"), pins, 8);
    posix = &tls.posix;
    return im_openssl_io(&tls, NULL);
}
#endif

/* scheme://user:password@host:port, in place. */
static im_proxy *open_proxy(const json *command) {
    static im_proxy proxy;
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

static void open_io(im_io *io, const json *command) {
    posix = &plain;
    *io = im_posix_io(&plain, NULL);
#ifdef WITH_OPENSSL
    if (json_at(command, "tls") != NULL) *io = open_tls(json_at(command, "tls"));
#endif
    posix->proxy = open_proxy(command);
    io->now_ms = now;
    io->random = random_bytes;
    io->save_begin = save_begin;
    io->save = save;
    io->save_end = save_end;
    io->load = load;
}

static im_error open_client(json *command) {
    const json *random = json_at(command, "random");
    im_config config;
    memset(&config, 0, sizeof config);
    json_free(opened);
    opened = command;
    clock_ms = 0;
    random_number = random == NULL ? 0.5 : random->number;
    is_manual = json_text(command, "acknowledge") != NULL
        && strcmp(json_text(command, "acknowledge"), "manual") == 0;
    loaded_bytes = 0;
    stored_bytes = hex(json_text(command, "state"), stored, sizeof stored);
    config.addresses = addresses;
    config.address_count = texts(json_at(command, "addresses"), addresses, 16);
    config.account = json_text(command, "account");
    config.device = json_text(command, "device");
    config.credentials.password = json_text(command, "password");
    config.credentials.token = json_text(command, "token");
    config.credentials.login_token = json_text(command, "login_token");
    config.silence_s = (uint32_t)json_whole(command, "silence_s", 0);
    config.in = in_buffer;
    config.in_bytes = sizeof in_buffer;
    config.out = out_buffer;
    config.out_bytes = sizeof out_buffer;
    config.queue = queue_buffer;
    config.queue_bytes = sizeof queue_buffer;
    config.on_message = on_message;
    config.on_event = on_event;
    config.on_outcome = on_outcome;
    config.on_answer = on_answer;
    config.on_state = on_state;
    config.on_frame = on_frame;
    open_io(&config.io, command);
    im_error error = im_open(&client, &config);
    is_open = error == IM_OK;
    if (is_open) im_start(&client);
    return error;
}

/* ---- commands ---- */

static uint8_t made[IM_CLIENT_ID_BYTES]; /* the client id of the last message */
static uint32_t asked;

static im_error send_text(const json *command) {
    static uint8_t bytes[OUT_BYTES];
    const char *client_id = json_text(command, "client_id"), *text = json_text(command, "text");
    const char *to = json_text(command, "to");
    if (client_id == NULL) return im_send(&client, to, text, made);
    im_writer content = {bytes, sizeof bytes, 0, false};
    im_write_number(&content, 1, 1);
    im_write_text(&content, 2, text);
    const im_bytes whole = {bytes, content.used};
    (void)hex(client_id, made, sizeof made);
    return im_send_content(&client, made, to, whole);
}

static bool is(const char *what, const char *word) { return strcmp(what, word) == 0; }

/* Without a connection the driver has to answer what others answer later. */
static im_error history(const json *command) {
    const im_answer none = {"disconnected", {NULL, 0}, 0, {NULL, 0}, false};
    im_error error = im_history(&client, json_text(command, "with"),
                                (uint32_t)json_whole(command, "count", 0), 0, &asked);
    if (error != IM_NOT_ONLINE) return error;
    on_answer(NULL, ++asked, &none);
    return IM_OK;
}

/* What a command does to the client. */
static im_error act(json *command, const char *what) {
    if (is(what, "open")) return open_client(command);
    if (is(what, "acknowledge")) return im_acknowledge(&client, json_whole(command, "seq", 0));
    if (is(what, "send")) return send_text(command);
    if (is(what, "history")) return history(command);
    if (is(what, "time")) clock_ms = (int64_t)json_whole(command, "ms", 0);
    if (is(what, "nudge")) im_nudge(&client);
    if (is(what, "network")) im_set_network(&client, json_text(command, "name"));
    if (is(what, "close")) im_close(&client);
    if (is(what, "kill")) {
        im_kill(&client);
        is_open = false;
    }
    return IM_OK;
}

/* What its answer has beside the number. */
static void answer(const json *command, const char *what) {
    if (is(what, "decode")) decode(command);
    if (is(what, "prove")) prove(command);
    if (is(what, "hello")) {
        print_named("library", "im-c");
        print_named("version", IM_LIBRARY_VERSION);
        printf(",\"features\":" FEATURES);
    }
    if (is(what, "kill")) {
        const im_bytes state = {stored, stored_bytes};
        print_bytes("state", state);
    }
    if (is(what, "send")) {
        const im_bytes client_id = {made, sizeof made};
        print_bytes("client_id", client_id);
    }
    if (is(what, "history")) printf(",\"ask\":%" PRIu32, asked);
    if (is(what, "time")) {
        if (next_ms == IM_NEVER) printf(",\"next\":null");
        else printf(",\"next\":%" PRId64, next_ms);
    }
}

/* Returns whether the command is kept. */
static bool run(json *command) {
    const char *what = json_text(command, "do");
    uint64_t number = json_whole(command, "n", 0);
    im_error error = act(command, what);
    if (is_open) next_ms = im_run(&client);
    printf("{\"n\":%" PRIu64, number);
    if (error == IM_OK) answer(command, what);
    else if (error == IM_QUEUE_FULL) print_named("error", "queue_full");
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
        im_posix_wait(posix, &client, IM_NEVER, 0);
        if (is_open) next_ms = im_run(&client);
        fflush(stdout);
        if (is_readable(0)) {
            ssize_t count = read(0, line + used, sizeof line - used);
            if (count <= 0) return 0;
            used += (size_t)count;
        }
    }
}
