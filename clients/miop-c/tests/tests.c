/* What the conformance suite does not see: small buffers, a socket that takes little, storage that
 * fails, records that are torn. The network is a few bytes of memory. */
#include "miop.h"
#include "sha256.h"
#include "wire.h"

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

enum { IN_BYTES = 256, OUT_BYTES = 1024, REPORTS_BYTES = 512 };

static struct world {
    int64_t now;
    uint8_t to_client[8192], to_server[8192];
    size_t to_client_used, to_server_used;
    long send_most, receive_most; /* bytes at a time */
    bool is_lost, save_fails;
    uint8_t saving[8192], stored[8192];
    size_t saving_used, stored_used, loaded;
    unsigned pushes, large, saves;
    uint64_t last_push, large_id;
    miop_verdict verdict;
    miop_state state;
} w;

static miop_client client;
static uint8_t in_buffer[IN_BYTES], out_buffer[OUT_BYTES], report_buffer[REPORTS_BYTES];

static int dial(void *context, const char *address) {
    (void)context;
    CHECK(strcmp(address, "push.example:7000") == 0);
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

static void random_bytes(void *context, void *bytes, size_t size) {
    (void)context;
    memset(bytes, 0x80, size);
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

static miop_verdict on_push(void *app, const miop_push *push) {
    (void)app;
    w.pushes++;
    w.last_push = push->id;
    return w.verdict;
}

static void on_large(void *app, uint64_t id, size_t frame_bytes) {
    (void)app;
    (void)frame_bytes;
    w.large++;
    w.large_id = id;
}

static void on_state(void *app, const miop_state *state) {
    (void)app;
    w.state = *state;
}

static miop_config config(void) {
    static const char *const addresses[] = {"push.example:7000"};
    miop_config made;
    memset(&made, 0, sizeof made);
    made.addresses = addresses;
    made.address_count = 1;
    made.product = "demo";
    made.device = "dev-1";
    made.in = in_buffer;
    made.in_bytes = sizeof in_buffer;
    made.out = out_buffer;
    made.out_bytes = sizeof out_buffer;
    made.reports = report_buffer;
    made.reports_bytes = sizeof report_buffer;
    made.on_push = on_push;
    made.on_state = on_state;
    made.on_too_large = on_large;
    const miop_io io = {NULL, dial, dialing, NULL, send_some, receive_some, hang_up, now_ms, now_ms,
                        random_bytes, save_begin, save, save_end, load};
    made.io = io;
    return made;
}

/* An empty world, in which bytes come and go as they like. */
static void begin(void) {
    memset(&w, 0, sizeof w);
    w.send_most = w.receive_most = 8192;
}

static void arrive(const void *bytes, size_t size) {
    memcpy(w.to_client + w.to_client_used, bytes, size);
    w.to_client_used += size;
}

static void arrive_bind_ack(void) {
    uint8_t bytes[128], token[32] = {1};
    miop_writer out = {bytes, sizeof bytes, 0, 0, 0, false, false};
    miop_write_begin(&out, MIOP_BIND_ACK, 0, NULL);
    miop_write_number(&out, MIOP_KEY_HEARTBEAT, 300);
    miop_write_property(&out, MIOP_KEY_RESUME_TOKEN, token, sizeof token);
    miop_write_number(&out, MIOP_KEY_SESSION_EPOCH, 9);
    miop_write_number(&out, MIOP_KEY_RESULT, 0);
    miop_write_payload(&out);
    CHECK(miop_write_end(&out));
    arrive(bytes, out.used);
}

static void arrive_push(uint64_t id, size_t body_bytes) {
    static uint8_t bytes[4096], body[4000];
    uint8_t head[MIOP_RECORD_HEAD + 1] = {0}, length[2];
    miop_writer out = {bytes, sizeof bytes, 0, 0, 0, false, false};
    miop_put(head, id, 8);
    length[0] = (uint8_t)(body_bytes | 0x80);
    length[1] = (uint8_t)(body_bytes >> 7);
    miop_write_begin(&out, MIOP_MSG, MIOP_FLAG_ACK_REQ, NULL);
    miop_write_payload(&out);
    miop_write_bytes(&out, head, sizeof head);
    miop_write_bytes(&out, length, 2);
    miop_write_bytes(&out, body, body_bytes);
    CHECK(miop_write_end(&out) && body_bytes >= 128 && body_bytes < 4000);
    arrive(bytes, out.used);
}

/* The next frame of the client; false if none has come whole. */
static bool sent(miop_frame *frame, uint8_t copy[8192]) {
    memcpy(copy, w.to_server, w.to_server_used);
    miop_bytes in = {copy, w.to_server_used};
    if (miop_frame_read(frame, in, 8192) != NULL || frame->length == 0) return false;
    w.to_server_used -= frame->length;
    memmove(w.to_server, w.to_server + frame->length, w.to_server_used);
    return true;
}

static void expect(uint8_t opcode, miop_frame *frame) {
    static uint8_t copy[8192];
    CHECK(sent(frame, copy));
    CHECK(frame->opcode == opcode);
}

static bool acknowledges(uint64_t id) {
    miop_frame frame;
    expect(MIOP_MSG_ACK, &frame);
    return frame.payload.size == 8 && miop_number(frame.payload.data, 8) == id;
}

static void bound(const miop_config *with) {
    miop_frame frame;
    CHECK(miop_open(&client, with) == MIOP_OK);
    miop_start(&client);
    miop_run(&client);
    expect(MIOP_BIND, &frame);
    arrive_bind_ack();
    miop_run(&client);
    CHECK(w.state.phase == MIOP_BOUND);
}

/* ---- tests ---- */

static void large_pushes_are_dropped_and_named(void) {
    for (long most = 1; most < 300; most++) {
        begin();
        w.receive_most = most;
        miop_config with = config();
        bound(&with);
        arrive_push(7, 3000);
        arrive_push(8, 130);
        miop_run(&client);
        CHECK(w.large == 1 && w.large_id == 7 && w.pushes == 1 && w.last_push == 8);
        miop_frame frame;
        expect(MIOP_MSG_ACK, &frame);
        CHECK(frame.payload.size == 16); /* so that neither is sent again */
    }
}

static void a_large_frame_that_is_no_push_closes_the_connection(void) {
    begin();
    miop_config with = config();
    bound(&with);
    const uint8_t frame[300] = {0, 7, 1, MIOP_CONFIG, 0, 0, 4, 0};
    arrive(frame, sizeof frame);
    miop_run(&client);
    CHECK(w.state.phase == MIOP_WAITING && strcmp(w.state.why, "too_large") == 0);
}

static void a_socket_that_takes_single_bytes_gets_all(void) {
    miop_frame frame;
    begin();
    w.send_most = 1;
    miop_config with = config();
    bound(&with);
    for (uint64_t id = 1; id <= 20; id++) {
        arrive_push(id, 130);
        miop_run(&client);
        CHECK(miop_report(&client, NULL, "0123456789", 10, NULL) == MIOP_OK || id > 9);
        CHECK(acknowledges(id));
        while (w.to_server_used > 0 && is_good) expect(MIOP_REPORT, &frame);
    }
}

static void a_socket_that_takes_nothing_loses_nothing(void) {
    miop_frame frame;
    begin();
    miop_config with = config();
    bound(&with);
    w.send_most = 0;
    for (uint64_t id = 1; id <= 200; id++) {
        arrive_push(id, 130);
        miop_run(&client);
    }
    CHECK(w.pushes == 200 && miop_wants_write(&client));
    w.send_most = 8192;
    miop_run(&client);
    size_t ids = 0;
    while (w.to_server_used > 0 && is_good) {
        expect(MIOP_MSG_ACK, &frame);
        ids += frame.payload.size / 8;
    }
    CHECK(ids > 0 && ids <= 200); /* the others are sent again, seen, and acknowledged then */
    arrive_push(200, 130);
    miop_run(&client);
    CHECK(w.pushes == 200 && acknowledges(200));
}

static void nothing_is_acknowledged_that_is_not_stored(void) {
    begin();
    miop_config with = config();
    bound(&with);
    w.save_fails = true;
    arrive_push(7, 130);
    miop_run(&client);
    CHECK(w.pushes == 1 && w.to_server_used == 0);
    CHECK(miop_report(&client, "r", "x", 1, NULL) == MIOP_NOT_STORED);
    w.save_fails = false;
    miop_run(&client);
    CHECK(acknowledges(7));
    CHECK(w.to_server_used == 0); /* the Report was refused, so it is not sent */
}

static void pushes_beyond_the_table_come_again(void) {
    begin();
    miop_config with = config();
    bound(&with);
    w.verdict = MIOP_HELD;
    for (uint64_t id = 1; id <= MIOP_HELD_MAX + 1; id++) {
        arrive_push(id, 130);
        miop_run(&client);
    }
    CHECK(w.pushes == MIOP_HELD_MAX && w.to_server_used == 0);
    CHECK(miop_acknowledge(&client, 1) == MIOP_OK && acknowledges(1));
    CHECK(miop_acknowledge(&client, 1) == MIOP_UNKNOWN_PUSH);
    arrive_push(MIOP_HELD_MAX + 1, 130);
    miop_run(&client);
    CHECK(w.last_push == MIOP_HELD_MAX + 1);
}

static void a_record_is_whole_or_refused(void) {
    begin();
    miop_config with = config();
    bound(&with);
    CHECK(miop_report(&client, "first", "body", 4, NULL) == MIOP_OK);
    miop_kill(&client);
    size_t whole = w.stored_used;
    for (size_t used = 0; used <= whole; used++) {
        w.stored_used = used;
        w.loaded = 0;
        miop_error expected = used == 0 || used == whole ? MIOP_OK : MIOP_BAD_STATE;
        CHECK(miop_open(&client, &with) == expected);
    }
    CHECK(client.epoch == 9 && client.next_seq == 2 && client.reports_used > 0);
    for (size_t at = 0; at < whole; at++) {
        w.stored[at] ^= 0x40;
        w.loaded = 0;
        CHECK(miop_open(&client, &with) == MIOP_BAD_STATE);
        CHECK(client.epoch == 0 || !client.has_session);
        w.stored[at] ^= 0x40;
    }
    with.device = "dev-2";
    w.loaded = 0;
    CHECK(miop_open(&client, &with) == MIOP_OK && client.next_seq == 1 && !client.has_session);
}

static void a_full_queue_is_said(void) {
    begin();
    miop_config with = config();
    CHECK(miop_open(&client, &with) == MIOP_OK);
    char made[33];
    unsigned count = 0;
    while (miop_report(&client, count % 2 ? "a" : NULL, "0123456789", 10, made) == MIOP_OK
           && count < 100) {
        count++;
    }
    /* "a" is queued once, and so is the name that this random source makes always. */
    CHECK(count == 100 && client.next_seq == 3);
    char name[8];
    miop_error error = MIOP_OK;
    for (unsigned at = 0; at < 100 && error == MIOP_OK; at++) {
        snprintf(name, sizeof name, "n%u", at);
        error = miop_report(&client, name, "0123456789", 10, NULL);
    }
    CHECK(error == MIOP_QUEUE_FULL);
    CHECK(miop_report(&client, "b", out_buffer, sizeof out_buffer, NULL) == MIOP_TOO_LARGE);
    char long_name[67] = {0};
    memset(long_name, 'n', 66);
    CHECK(miop_report(&client, long_name, "", 0, NULL) == MIOP_TOO_LARGE);
}

static void configurations_that_cannot_work_are_refused(void) {
    begin();
    miop_config wrong[8];
    for (size_t at = 0; at < 8; at++) wrong[at] = config();
    wrong[0].device = "two words";
    wrong[1].product = "";
    wrong[2].on_push = NULL;
    wrong[3].in_bytes = 100;
    wrong[4].out_bytes = 100;
    wrong[5].io.save_end = NULL;
    wrong[6].window = MIOP_HELD_MAX + 1;
    wrong[7].address_count = 0;
    for (size_t at = 0; at < 8; at++) CHECK(miop_open(&client, &wrong[at]) == MIOP_BAD_CONFIG);
}

static void sum(const char *text, size_t times, const uint8_t expected[4]) {
    miop_sha256 sum;
    uint8_t digest[32];
    miop_sha256_begin(&sum);
    for (size_t at = 0; at < times; at++) miop_sha256_add(&sum, text, strlen(text));
    miop_sha256_end(&sum, digest);
    CHECK(memcmp(digest, expected, 4) == 0);
}

static void hashes_are_those_of_the_standard(void) {
    sum("", 1, (const uint8_t[]){0xe3, 0xb0, 0xc4, 0x42}); /* FIPS 180-4 examples */
    sum("abc", 1, (const uint8_t[]){0xba, 0x78, 0x16, 0xbf});
    sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
        (const uint8_t[]){0x24, 0x8d, 0x6a, 0x61});
    sum("a", 1000000, (const uint8_t[]){0xcd, 0xc7, 0x6e, 0x5c});
    miop_hmac mac; /* RFC 4231, case 2 */
    uint8_t digest[32];
    miop_hmac_begin(&mac, "Jefe", 4);
    miop_sha256_add(&mac.inner, "what do ya want for nothing?", 28);
    miop_hmac_end(&mac, digest);
    CHECK(memcmp(digest, (const uint8_t[]){0x5b, 0xdc, 0xc1, 0x46}, 4) == 0);
}

int main(void) {
    test("large pushes are dropped and named", large_pushes_are_dropped_and_named);
    test("a large frame that is no push closes the connection",
         a_large_frame_that_is_no_push_closes_the_connection);
    test("a socket that takes single bytes gets all", a_socket_that_takes_single_bytes_gets_all);
    test("a socket that takes nothing loses nothing", a_socket_that_takes_nothing_loses_nothing);
    test("nothing is acknowledged that is not stored", nothing_is_acknowledged_that_is_not_stored);
    test("pushes beyond the table come again", pushes_beyond_the_table_come_again);
    test("a record is whole or refused", a_record_is_whole_or_refused);
    test("a full queue is said", a_full_queue_is_said);
    test("configurations that cannot work are refused",
         configurations_that_cannot_work_are_refused);
    test("hashes are those of the standard", hashes_are_those_of_the_standard);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
