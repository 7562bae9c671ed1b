/* What the conformance suite does not see: small buffers, a socket that takes little, storage that
 * fails, records that are torn, frames that are damaged. The network is a few bytes of memory. */
#include "parts.h"

#include <stdio.h>
#include <string.h>

static int passed, failed;
static bool is_good;

#define CHECK(holds) check((holds), #holds, __LINE__)

static void check(bool holds, const char *what, int line) {
    if (!holds) printf("line %d: %s\n", line, what);
    is_good = is_good && holds;
}

static void test(const char *name, void (*run)(void)) {
    is_good = true;
    run();
    if (is_good) {
        passed++;
    } else {
        failed++;
        printf("FAIL: %s\n", name);
    }
}

/* ---- a network and a disk of memory ---- */

enum { IN_BYTES = IM_IN_BYTES_MIN, OUT_BYTES = IM_OUT_BYTES_MIN, QUEUE_BYTES = 4096 };

static struct world {
    int64_t now;
    uint8_t to_client[1 << 17], to_server[1 << 14];
    size_t to_client_used, to_server_used;
    long send_most, receive_most; /* bytes at a time */
    bool is_lost, save_fails, is_held;
    uint8_t saving[8192], stored[8192];
    size_t saving_used, stored_used, loaded;
    unsigned messages, events, cut, saves, outcomes;
    uint64_t last_place;
    char last_error[24];
    size_t last_text_bytes;
    im_state state;
} w;

static im_client client;
static uint8_t in_buffer[IN_BYTES], out_buffer[OUT_BYTES], queue_buffer[QUEUE_BYTES];

static int dial(void *context, const char *address) {
    (void)context;
    CHECK(strcmp(address, "im.example:7000") == 0);
    w.is_lost = false;
    w.to_client_used = w.to_server_used = 0;
    return 1;
}

static int dialing(void *context) {
    (void)context;
    return 1;
}

static long send_some(void *context, const void *bytes, size_t size) {
    (void)context;
    size_t count = size < (size_t)w.send_most ? size : (size_t)w.send_most;
    memcpy(w.to_server + w.to_server_used, bytes, count);
    w.to_server_used += count;
    return (long)count;
}

static long receive_some(void *context, void *bytes, size_t size) {
    (void)context;
    size_t count = size < (size_t)w.receive_most ? size : (size_t)w.receive_most;
    if (count > w.to_client_used) count = w.to_client_used;
    if (count == 0 && w.is_lost) return -1;
    memcpy(bytes, w.to_client, count);
    memmove(w.to_client, w.to_client + count, w.to_client_used - count);
    w.to_client_used -= count;
    return (long)count;
}

static void hang_up(void *context) { (void)context; }

static int64_t now_ms(void *context) {
    (void)context;
    return w.now;
}

static unsigned random_seed; /* 0: always the same */

static void random_bytes(void *context, void *bytes, size_t size) {
    (void)context;
    memset(bytes, random_seed == 0 ? 0x80 : (int)random_seed++, size);
}

static int save_begin(void *context) {
    (void)context;
    w.saving_used = 0;
    w.saves++;
    return 0;
}

static int save(void *context, const void *bytes, size_t size) {
    (void)context;
    memcpy(w.saving + w.saving_used, bytes, size);
    w.saving_used += size;
    return 0;
}

static int save_end(void *context) {
    (void)context;
    if (w.save_fails) return -1;
    memcpy(w.stored, w.saving, w.saving_used);
    w.stored_used = w.saving_used;
    return 0;
}

static long load(void *context, void *bytes, size_t size) {
    (void)context;
    size_t left = w.stored_used - w.loaded;
    size_t count = size < left ? size : left;
    memcpy(bytes, w.stored + w.loaded, count);
    w.loaded += count;
    return (long)count;
}

static im_verdict on_message(void *app, const im_message *it) {
    (void)app;
    w.messages++;
    w.cut += it->is_cut;
    CHECK(it->place > w.last_place);
    w.last_place = it->place;
    w.last_text_bytes = it->text.size;
    return w.is_held ? IM_HELD : IM_TAKEN;
}

static im_verdict on_event(void *app, const im_event *it) {
    (void)app;
    w.events++;
    CHECK(it->place > w.last_place);
    w.last_place = it->place;
    return IM_TAKEN;
}

static void on_outcome(void *app, const im_outcome *it) {
    (void)app;
    w.outcomes++;
    snprintf(w.last_error, sizeof w.last_error, "%s", it->error == NULL ? "" : it->error);
}

static void on_state(void *app, const im_state *state) {
    (void)app;
    w.state = *state;
}

static im_config config(void) {
    static const char *const addresses[] = {"im.example:7000"};
    im_config made;
    memset(&made, 0, sizeof made);
    made.addresses = addresses;
    made.address_count = 1;
    made.account = "ann";
    made.device = "phone";
    made.in = in_buffer;
    made.in_bytes = IN_BYTES;
    made.out = out_buffer;
    made.out_bytes = OUT_BYTES;
    made.queue = queue_buffer;
    made.queue_bytes = QUEUE_BYTES;
    made.on_message = on_message;
    made.on_event = on_event;
    made.on_outcome = on_outcome;
    made.on_state = on_state;
    made.io.connect = dial;
    made.io.connecting = dialing;
    made.io.send = send_some;
    made.io.receive = receive_some;
    made.io.disconnect = hang_up;
    made.io.now_ms = now_ms;
    made.io.random = random_bytes;
    made.io.save_begin = save_begin;
    made.io.save = save;
    made.io.save_end = save_end;
    made.io.load = load;
    return made;
}

/* ---- the server ---- */

static im_writer answering; /* behind what waits for the client */
static size_t frame_begin, answer_begin;

static im_writer *answer(uint32_t kind) {
    im_writer fresh = {w.to_client, sizeof w.to_client, w.to_client_used, false};
    answering = fresh;
    frame_begin = im_write_begin(&answering, 0);
    answer_begin = im_write_begin(&answering, kind);
    return &answering;
}

static void end(void) {
    im_write_end(&answering, answer_begin);
    im_write_end(&answering, frame_begin);
    CHECK(!answering.is_full);
    w.to_client_used = answering.used;
}

static void say_logged_in(uint64_t head, uint64_t cursor) {
    im_writer *to = answer(IM_LOGGED_IN);
    im_write_text(to, 1, "ann@a.example");
    im_write_number(to, 2, head);
    im_write_number(to, 3, cursor);
    im_write_number(to, 6, 60);
    im_write_number(to, 7, 8);
    im_write_number(to, 8, 65536);
    im_write_number(to, 9, 1000);
    im_write_number(to, 10, 8);
    end();
}

static void write_entry(im_writer *to, uint64_t place, size_t text_bytes) {
    static char text[65536];
    memset(text, 'x', sizeof text);
    const im_bytes said = {(const uint8_t *)text, text_bytes};
    im_write_number(to, 1, place);
    size_t message = im_write_begin(to, 2);
    im_write_fixed64(to, 1, place);
    im_write_number(to, 2, place);
    im_write_text(to, 4, "bob@a.example");
    im_write_text(to, 6, "ann@a.example");
    size_t content = im_write_begin(to, 8);
    im_write_bytes(to, 2, said);
    im_write_end(to, content);
    im_write_end(to, message);
}

static void say_message(uint64_t place, size_t text_bytes) {
    write_entry(answer(IM_MESSAGE), place, text_bytes);
    end();
}

/* A page of these places, with texts of so many bytes. */
static void say_page(uint64_t first, uint64_t last, uint64_t head, size_t text_bytes) {
    im_writer *to = answer(IM_PAGE);
    im_write_number(to, 1, UINT32_MAX);
    for (uint64_t place = first; place <= last; place++) {
        size_t entry = im_write_begin(to, 2);
        write_entry(to, place, text_bytes);
        im_write_end(to, entry);
    }
    im_write_number(to, 3, last);
    im_write_number(to, 4, head);
    end();
}

/* The next request of the client; its kind, 0 if there is none. */
static uint32_t heard(im_reader *body) {
    im_bytes all = {w.to_server, w.to_server_used};
    size_t head, length;
    im_field field;
    if (all.size >= 4 && memcmp(all.data, "\xc4IM\x01", 4) == 0) {
        w.to_server_used -= 4;
        memmove(w.to_server, w.to_server + 4, w.to_server_used);
        all.size -= 4;
    }
    if (im_frame_length(all, sizeof w.to_server, &head, &length) != NULL || length == 0
        || length > all.size) {
        return 0;
    }
    static uint8_t frame[sizeof w.to_server];
    memcpy(frame, w.to_server, length);
    w.to_server_used -= length;
    memmove(w.to_server, w.to_server + length, w.to_server_used);
    const im_bytes content = {frame + head, length - head};
    im_reader whole = im_reader_of(content);
    if (!im_field_next(&whole, &field)) return 0;
    *body = im_reader_in(&field);
    return field.number;
}

static uint64_t number_in(im_reader body, uint32_t wanted) {
    im_field field;
    while (im_field_next(&body, &field)) {
        if (field.number == wanted) return field.value;
    }
    return 0;
}

static void begin_with(im_config made) {
    CHECK(im_open(&client, &made) == IM_OK);
    im_start(&client);
    (void)im_run(&client);
}

static void begin(uint64_t head, uint64_t cursor) {
    im_reader body;
    begin_with(config());
    CHECK(heard(&body) == IM_ASK_LOGIN);
    say_logged_in(head, cursor);
    (void)im_run(&client);
    CHECK(client.phase == IM_ONLINE);
}

static void reset(void) {
    memset(&w, 0, sizeof w);
    w.send_most = w.receive_most = 1 << 20;
}

/* ---- tests ---- */

static void single_bytes(void) {
    reset();
    w.send_most = w.receive_most = 1;
    begin_with(config());
    say_logged_in(0, 0);
    for (uint64_t place = 1; place <= 3; place++) say_message(place, 200);
    for (int turn = 0; turn < 100; turn++) (void)im_run(&client);
    CHECK(client.phase == IM_ONLINE && w.messages == 3 && w.cut == 0);
}

static void a_full_socket(void) {
    im_reader body;
    reset();
    begin(0, 0);
    w.send_most = 0;
    CHECK(im_send(&client, "bob", "one", NULL) == IM_OK);
    (void)im_run(&client);
    CHECK(im_wants_write(&client) && heard(&body) == 0);
    CHECK(im_run(&client) > w.now); /* it waits for the socket, and does not spin */
    w.send_most = 7;
    (void)im_run(&client);
    CHECK(!im_wants_write(&client) && heard(&body) == IM_ASK_SEND);
}

static void large_messages_are_cut(void) {
    im_reader body;
    reset();
    begin(0, 0);
    say_message(1, 60000);
    say_message(2, 10);
    for (int turn = 0; turn < 10; turn++) (void)im_run(&client);
    CHECK(w.messages == 2 && w.cut == 1 && w.last_text_bytes == 10);
    w.now += 1000;
    (void)im_run(&client);
    CHECK(heard(&body) == IM_ASK_ACKNOWLEDGE && number_in(body, 1) == 2);
}

static void large_pages_become_small(void) {
    im_reader body;
    uint64_t counts[8];
    reset();
    begin(3, 0);
    for (unsigned at = 0; at < 8; at++) {
        CHECK(heard(&body) == IM_ASK_PULL);
        uint64_t after = number_in(body, 2);
        counts[at] = number_in(body, 3);
        uint64_t last = after + counts[at] < 3 ? after + counts[at] : 3;
        say_page(after + 1, last, 3, 1500);
        (void)im_run(&client);
        if (client.inbox.last == 3) break;
    }
    CHECK(counts[0] == 8 && counts[1] == 4 && counts[2] == 2 && counts[3] == 1);
    CHECK(client.inbox.last == 3 && w.messages == 3 && w.cut == 0);
}

static void a_message_larger_than_the_buffer_does_not_stop_the_inbox(void) {
    im_reader body;
    reset();
    begin(2, 0);
    for (unsigned at = 0; at < 8 && client.inbox.last < 2; at++) {
        CHECK(heard(&body) == IM_ASK_PULL);
        uint64_t after = number_in(body, 2), last = after + number_in(body, 3);
        say_page(after + 1, last < 2 ? last : 2, 2, 60000);
        for (int turn = 0; turn < 10; turn++) (void)im_run(&client);
    }
    CHECK(client.inbox.last == 2 && w.messages == 2 && w.cut == 2 && w.last_text_bytes > 1000);
}

static void a_message_is_stored_before_it_is_sent(void) {
    im_reader body;
    reset();
    begin(0, 0);
    w.save_fails = true;
    CHECK(im_send(&client, "bob", "one", NULL) == IM_OK);
    CHECK(im_run(&client) <= w.now + 1000);
    CHECK(heard(&body) == 0);
    w.save_fails = false;
    (void)im_run(&client);
    CHECK(heard(&body) == IM_ASK_SEND && w.stored_used > 0);
}

static void a_place_is_stored_before_it_is_acknowledged(void) {
    im_reader body;
    reset();
    begin(0, 0);
    w.save_fails = true;
    say_message(1, 1);
    (void)im_run(&client);
    w.now += 1000;
    (void)im_run(&client);
    CHECK(w.messages == 1 && heard(&body) == 0);
    w.save_fails = false;
    (void)im_run(&client);
    CHECK(heard(&body) == IM_ASK_ACKNOWLEDGE);
}

static void torn_records(void) {
    static uint8_t whole[sizeof w.stored];
    reset();
    im_config made = config();
    CHECK(im_open(&client, &made) == IM_OK);
    CHECK(im_send(&client, "bob", "one", NULL) == IM_OK);
    im_start(&client);
    (void)im_run(&client);
    size_t size = w.stored_used;
    memcpy(whole, w.stored, size);
    for (size_t at = 1; at < size; at++) {
        w.stored_used = at;
        w.loaded = 0;
        CHECK(im_open(&client, &made) == IM_BAD_STATE && client.queue_used == 0);
    }
    for (size_t at = 0; at < size; at++) {
        memcpy(w.stored, whole, size);
        w.stored[at] ^= 0x10;
        w.stored_used = size;
        w.loaded = 0;
        CHECK(im_open(&client, &made) == IM_BAD_STATE && client.queue_used == 0);
    }
    memcpy(w.stored, whole, size);
    w.loaded = 0;
    CHECK(im_open(&client, &made) == IM_OK && client.queue_used > 0);
    w.loaded = 0;
    made.account = "carol";
    CHECK(im_open(&client, &made) == IM_OK && client.queue_used == 0);
}

static void the_queue_is_the_callers(void) {
    reset();
    im_config made = config();
    static char text[3000];
    memset(text, 'x', sizeof text - 1);
    CHECK(im_open(&client, &made) == IM_OK);
    CHECK(im_send(&client, "bob", text, NULL) == IM_TOO_LARGE); /* for the sending buffer */
    text[1200] = 0;
    random_seed = 1;
    for (unsigned at = 0; at < 3; at++) CHECK(im_send(&client, "bob", text, NULL) == IM_OK);
    CHECK(im_send(&client, "bob", text, NULL) == IM_QUEUE_FULL && client.queue_used <= QUEUE_BYTES);
    made.queue = NULL;
    CHECK(im_open(&client, &made) == IM_OK);
    CHECK(im_send(&client, "bob", "x", NULL) == IM_QUEUE_FULL);
    const im_bytes bad = {(const uint8_t *)"\x0a", 1};
    CHECK(im_send_content(&client, out_buffer, "bob", bad) == IM_MALFORMED);
}

static void a_message_that_no_longer_fits_is_given_up(void) {
    static uint8_t larger[2 * OUT_BYTES];
    static char text[3000];
    im_reader body;
    reset();
    im_config made = config();
    made.out = larger;
    made.out_bytes = sizeof larger;
    memset(text, 'x', sizeof text - 1);
    CHECK(im_open(&client, &made) == IM_OK);
    CHECK(im_send(&client, "bob", text, NULL) == IM_OK);
    im_start(&client);
    (void)im_run(&client);
    im_kill(&client);
    begin_with(config());
    CHECK(client.queue_used > 0 && heard(&body) == IM_ASK_LOGIN);
    say_logged_in(0, 0);
    (void)im_run(&client);
    CHECK(strcmp(w.last_error, "too_large") == 0 && client.queue_used == 0);
}

static void damaged_frames(void) {
    uint32_t seed = 1;
    reset();
    say_logged_in(3, 1);
    say_message(7, 40);
    say_page(2, 3, 3, 20);
    static uint8_t good[4096], bad[4096];
    size_t size = w.to_client_used;
    unsigned faults = 0;
    memcpy(good, w.to_client, size);
    for (unsigned turn = 0; turn < 20000; turn++) {
        memcpy(bad, good, size);
        for (unsigned at = 0; at < 3; at++) {
            seed = seed * 1664525u + 1013904223u;
            bad[(seed >> 8) % size] = (uint8_t)(seed >> 24);
        }
        for (size_t at = 0; at < size;) {
            const im_bytes rest = {bad + at, size - at};
            size_t head, length;
            im_frame frame;
            const char *fault = im_frame_length(rest, IM_FRAME_BYTES_MAX, &head, &length);
            if (fault == NULL && (length == 0 || length > rest.size)) break;
            if (fault == NULL) {
                const im_bytes content = {rest.data + head, length - head};
                fault = im_frame_read(content, turn % 2 != 0, &frame);
            }
            faults += fault != NULL;
            if (fault != NULL) break;
            at += length;
        }
    }
    CHECK(faults > 1000);
}

static void texts_are_utf8(void) {
    static const struct { const char *text; bool is_good; } cases[] = {
        {"a\xc3\xa4\xe4\xb8\xad\xf0\x9f\x91\x8d", true}, {"\xc3", false}, {"\x80", false},
        {"\xc0\x80", false}, {"\xed\xa0\x80", false}, {"\xf4\x90\x80\x80", false},
        {"\xe0\x80\x80", false}, {"\xf0\x80\x80\x80", false}, {"\xff", false},
    };
    uint8_t bytes[32];
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        im_writer to = {bytes, sizeof bytes, 0, false};
        im_message content;
        im_write_text(&to, 2, cases[at].text);
        const im_bytes whole = {bytes, to.used};
        CHECK(im_read_content(whole, &content) == cases[at].is_good);
    }
}

static void messages_and_events_fill_the_table_of_held_ones(void) {
    im_reader body;
    reset();
    w.is_held = true;
    begin(0, 0);
    for (uint64_t place = 1; place <= IM_HELD_MAX + 2; place++) {
        say_message(place, 1);
        (void)im_run(&client);
    }
    CHECK(w.messages == IM_HELD_MAX && heard(&body) == 0);
    CHECK(im_acknowledge(&client, 7) == IM_OK && im_acknowledge(&client, 7) == IM_UNKNOWN);
    (void)im_run(&client);
    CHECK(heard(&body) == IM_ASK_PULL && number_in(body, 3) == 1);
    say_page(IM_HELD_MAX + 1, IM_HELD_MAX + 2, IM_HELD_MAX + 2, 1); /* more than asked for */
    (void)im_run(&client);
    CHECK(w.messages == IM_HELD_MAX + 1 && client.inbox.last == IM_HELD_MAX + 1);
}

int main(void) {
    test("frames come and go in single bytes", single_bytes);
    test("a socket that takes nothing is waited for", a_full_socket);
    test("messages larger than the buffer are cut", large_messages_are_cut);
    test("pages larger than the buffer are pulled in parts", large_pages_become_small);
    test("a page of one message that is larger is cut",
         a_message_larger_than_the_buffer_does_not_stop_the_inbox);
    test("a message is stored before it is sent", a_message_is_stored_before_it_is_sent);
    test("a place is stored before it is acknowledged",
         a_place_is_stored_before_it_is_acknowledged);
    test("torn records are found", torn_records);
    test("the queue is the caller's", the_queue_is_the_callers);
    test("a message that no longer fits is given up", a_message_that_no_longer_fits_is_given_up);
    test("damaged frames are frames, faults or incomplete", damaged_frames);
    test("texts are UTF-8", texts_are_utf8);
    test("held entries are bounded", messages_and_events_fill_the_table_of_held_ones);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
