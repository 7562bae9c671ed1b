/* The decisions of a client: what to send when, and what becomes of what arrives.
 *
 *     idle --start--> connecting --> binding --> bound --close--> closing --> ended
 *                        ^    |         |          |
 *                        |    +---------+----------+--> waiting, or ended with a final result
 *                        +-----------------------------------+
 */
#include "parts.h"

#include "sha256.h"

#include <string.h>

enum {
    CONNECT_MS = 15000, BIND_MS = 15000, PONG_MS = 30000, NUDGE_MS = 10000, CLOSE_MS = 5000,
    LATE_MS = 30000, /* a PING that is later than this tests no interval */
    HINT_MAX_MS = 3600000, /* a hint of the server counts as at most an hour */
    GOOD_SESSION_MS = 10000, /* after such a session the next wait is short again */
    FOLLOWED_MAX = 3, /* ends with addresses in succession that are followed at once */
    OUT_BYTES_MIN = 1024
};
enum { AUTH_HMAC = 1, AUTH_TOKEN = 2, AUTH_CERTIFICATE = 3, CAP_PULLS = 2 };
enum {
    RESUMED = 1, VERSION_REFUSED = 11, CLOCK_SKEW = 21, DRAINING = 32, REPLACED = 40, KICKED = 41
};

static const char *const OUT_OF_ORDER = "out_of_order";

static void over(miop_client *c, int64_t now, const miop_ending *end, const char *why);

/* ---- words ----------------------------------------------------------------------------------- */

static const char *result_word(uint8_t result) {
    static const struct { uint8_t result; const char *word; } words[] = {
        {10, "result_10"}, {11, "result_11"}, {12, "result_12"}, {20, "auth_failed"},
        {21, "clock_skew"}, {22, "replay"}, {23, "unknown_product"}, {24, "device_blocked"},
        {30, "busy"}, {31, "quota"}, {32, "draining"}, {33, "redirect"}, {40, "replaced"},
        {41, "kicked"}, {42, "heartbeat_timeout"}, {43, "slow_consumer"}, {44, "bind_timeout"},
        {50, "internal"},
    };
    static char other[] = "result_000";
    for (size_t at = 0; at < sizeof words / sizeof *words; at++) {
        if (words[at].result == result) return words[at].word;
    }
    char *digit = other + 7;
    if (result >= 100) *digit++ = (char)('0' + result / 100);
    if (result >= 10) *digit++ = (char)('0' + result / 10 % 10);
    *digit++ = (char)('0' + result % 10);
    *digit = 0;
    return other;
}

/* Connecting again would not help. */
static bool is_final(uint8_t result) {
    return result == VERSION_REFUSED || result / 10 == 2 || result == REPLACED || result == KICKED;
}

uint32_t miop_random_word(miop_client *c) {
    uint8_t bytes[4];
    c->config.io.random(c->config.io.context, bytes, sizeof bytes);
    return (uint32_t)miop_number(bytes, sizeof bytes);
}

static int64_t now_ms(const miop_client *c) { return c->config.io.now_ms(c->config.io.context); }

static bool is_open(const miop_client *c) {
    return c->phase == MIOP_BINDING || c->phase == MIOP_BOUND || c->phase == MIOP_CLOSING;
}

static void become(miop_client *c, miop_phase phase, int64_t deadline) {
    c->phase = phase;
    c->deadline = deadline;
}

static void tell(miop_client *c, miop_state *state) {
    state->phase = c->phase;
    if (c->config.on_state != NULL) c->config.on_state(c->config.app, state);
}

static void disconnect(miop_client *c) {
    const miop_io *io = &c->config.io;
    if (is_open(c) && c->out_used > c->out_sent) {
        /* What the socket takes now is the last that it gets. */
        (void)io->send(io->context, c->config.out + c->out_sent, c->out_used - c->out_sent);
    }
    if (!c->dials && c->phase >= MIOP_CONNECTING && c->phase <= MIOP_CLOSING) {
        io->disconnect(io->context);
    }
    c->dials = false;
    c->connection++; /* what is left of its bytes is ignored */
    c->in_used = c->skips = c->out_used = c->out_sent = 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void pump(miop_client *c) {
    const miop_io *io = &c->config.io;
    if (!is_open(c)) return;
    while (c->out_sent < c->out_used) {
        long count = io->send(io->context, c->config.out + c->out_sent, c->out_used - c->out_sent);
        if (count <= 0) return; /* of a lost connection, `receive` tells */
        c->out_sent += (size_t)count;
    }
    c->out_used = c->out_sent = 0;
}

static miop_writer begin(miop_client *c, uint8_t opcode, const uint32_t *seq) {
    if (c->out_sent > 0) {
        memmove(c->config.out, c->config.out + c->out_sent, c->out_used - c->out_sent);
        c->out_used -= c->out_sent;
        c->out_sent = 0;
    }
    miop_writer out = {c->config.out, c->config.out_bytes, c->out_used, 0, 0, false, false};
    miop_write_begin(&out, opcode, 0, seq);
    return out;
}

/* False if there is no room now: whoever sends it tries again when there is. */
static bool end(miop_client *c, miop_writer *out, int64_t now) {
    if (!miop_write_end(out)) return false;
    c->out_used = out->used;
    c->said_at = now;
    return true;
}

static bool send_plain(miop_client *c, uint8_t opcode, int64_t now) {
    miop_writer out = begin(c, opcode, NULL);
    miop_write_payload(&out);
    return end(c, &out, now);
}

static void send_reports(miop_client *c, int64_t now) {
    miop_waiting next;
    while (c->phase == MIOP_BOUND && miop_reports_next(c, now, &next)) {
        miop_writer out = begin(c, MIOP_REPORT, &next.seq);
        miop_write_payload(&out);
        miop_write_bytes(&out, next.body.data, next.body.size);
        if (!end(c, &out, now)) return;
        next.record[4] = 1;
        pump(c);
    }
}

/* Acknowledges by the ids of the pushes: last_msg_id covers others that are still held. */
static void send_acks(miop_client *c, int64_t now) {
    if (c->ack_count == 0 || (c->phase != MIOP_BOUND && c->phase != MIOP_CLOSING)) return;
    miop_writer out = begin(c, MIOP_MSG_ACK, NULL);
    miop_write_payload(&out);
    for (unsigned at = 0; at < c->ack_count; at++) miop_write_u64(&out, c->to_ack[at]);
    if (end(c, &out, now)) c->ack_count = 0;
}

/* Stores what happened, and then says it to the server. */
static void flush(miop_client *c, int64_t now) {
    pump(c); /* makes room */
    if (miop_state_save(c)) send_acks(c, now); /* if not, the next turn tries again */
    if (c->owes_ping && send_plain(c, MIOP_PING, now)) c->owes_ping = false;
    send_reports(c, now);
    if (c->owes_unbind && send_plain(c, MIOP_UNBIND, now)) c->owes_unbind = false;
    pump(c);
}

static void owe_ack(miop_client *c, uint64_t id, int64_t now) {
    if (c->ack_count == MIOP_HELD_MAX) flush(c, now);
    /* Without room even then it is left out: the server sends the push again, and it is seen. */
    if (c->ack_count < MIOP_HELD_MAX) c->to_ack[c->ack_count++] = id;
}

/* ---- BIND ------------------------------------------------------------------------------------ */

static void add_part(miop_hmac *mac, const void *bytes, size_t size) {
    uint8_t length[2];
    miop_put(length, size, 2);
    miop_sha256_add(&mac->inner, length, sizeof length);
    miop_sha256_add(&mac->inner, bytes, size);
}

/* docs/wire/miop.md, section 6.1. */
static void sign(const miop_client *c, const uint8_t *server_nonce, size_t size, uint8_t mac[32]) {
    const miop_config *config = &c->config;
    uint8_t ts[8], caps[4];
    miop_hmac sum;
    miop_put(ts, c->client_ts, 8);
    miop_put(caps, config->pulls ? CAP_PULLS : 0, 4);
    miop_hmac_begin(&sum, config->secret, config->secret_bytes);
    add_part(&sum, "MIOP7-BIND", 10);
    add_part(&sum, config->product, strlen(config->product));
    add_part(&sum, config->device, strlen(config->device));
    add_part(&sum, ts, sizeof ts);
    add_part(&sum, c->client_nonce, sizeof c->client_nonce);
    add_part(&sum, caps, sizeof caps);
    add_part(&sum, "", 0);
    add_part(&sum, server_nonce, size);
    miop_hmac_end(&sum, mac);
}

static void write_proof(miop_client *c, miop_writer *out) {
    const miop_config *config = &c->config;
    uint8_t mac[32];
    if (config->secret != NULL) {
        miop_write_property(out, MIOP_KEY_CLIENT_NONCE, c->client_nonce, sizeof c->client_nonce);
        miop_write_number(out, MIOP_KEY_AUTH_TYPE, AUTH_HMAC);
        if (config->key_id != 0) miop_write_number(out, MIOP_KEY_KEY_ID, config->key_id);
        sign(c, NULL, 0, mac);
        miop_write_property(out, MIOP_KEY_MAC, mac, sizeof mac);
    } else if (config->token != NULL) {
        miop_write_number(out, MIOP_KEY_AUTH_TYPE, AUTH_TOKEN);
        miop_write_property(out, MIOP_KEY_TOKEN, config->token, strlen(config->token));
    } else if (config->has_certificate) {
        miop_write_number(out, MIOP_KEY_AUTH_TYPE, AUTH_CERTIFICATE);
    }
}

/* The proof comes along with the session's token, so that an expired session costs no second round
 * trip. False if the buffer is too small. */
static bool send_bind(miop_client *c, int64_t now) {
    const miop_config *config = &c->config;
    uint8_t wish[6] = {0};
    miop_put(wish, c->config.heartbeat_wish_s, 2);
    miop_put(wish + 2, c->heartbeat.shortest, 2);
    miop_put(wish + 4, c->heartbeat.longest, 2);
    miop_writer out = begin(c, MIOP_BIND, NULL);
    miop_write_property(&out, MIOP_KEY_DEVICE_ID, config->device, strlen(config->device));
    miop_write_property(&out, MIOP_KEY_PRODUCT_KEY, config->product, strlen(config->product));
    if (config->secret != NULL) {
        int64_t wall = config->io.wall_ms(config->io.context) + c->clock_ms;
        c->client_ts = wall < 0 ? 0 : (uint64_t)wall;
        config->io.random(config->io.context, c->client_nonce, sizeof c->client_nonce);
        miop_write_number(&out, MIOP_KEY_CLIENT_TS, c->client_ts);
    }
    miop_write_property(&out, MIOP_KEY_HEARTBEAT_WISH, wish, sizeof wish);
    write_proof(c, &out);
    if (c->has_session) {
        miop_write_property(&out, MIOP_KEY_RESUME_TOKEN, c->session, sizeof c->session);
        miop_write_number(&out, MIOP_KEY_SESSION_EPOCH, c->epoch);
    }
    if (config->pulls) miop_write_number(&out, MIOP_KEY_CAPS, CAP_PULLS);
    miop_write_number(&out, MIOP_KEY_MAX_INFLIGHT, config->window);
    for (size_t at = 0; at < config->tag_count; at++) {
        miop_write_property(&out, MIOP_KEY_TAG, config->tags[at], strlen(config->tags[at]));
    }
    if (config->sets_tags && config->tag_count == 0) {
        miop_write_property(&out, MIOP_KEY_TAG, "", 0);
    }
    miop_write_payload(&out);
    return end(c, &out, now);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void set_address(char to[MIOP_ADDRESS_BYTES], const char *from, size_t length) {
    memcpy(to, from, length);
    to[length] = 0;
}

static void take_address(miop_client *c) {
    if (c->first_count > 0) {
        memcpy(c->current, c->first[0], MIOP_ADDRESS_BYTES);
        c->first_count--;
        memmove(c->first, c->first + 1, (size_t)c->first_count * MIOP_ADDRESS_BYTES);
        return;
    }
    const char *next = c->config.addresses[c->next_address++ % c->config.address_count];
    set_address(c->current, next, strlen(next));
}

/* Next are addresses that the server named, then the one where the device was bound last. */
static void queue_addresses(miop_client *c, bool was_bound, const miop_ending *ending) {
    char last[MIOP_ADDRESS_BYTES];
    bool has_last = was_bound || c->first_count > 0;
    if (!was_bound && ending->address_count == 0) return;
    if (has_last) {
        memcpy(last, was_bound ? c->current : c->first[c->first_count - 1], sizeof last);
    }
    c->first_count = ending->address_count;
    memcpy(c->first, ending->addresses, ending->address_count * sizeof *c->first);
    if (has_last) memcpy(c->first[c->first_count++], last, sizeof last);
}

static void connect_to(miop_client *c, int64_t now) {
    miop_state state = {0};
    c->attempts++;
    take_address(c);
    become(c, MIOP_CONNECTING, now + CONNECT_MS);
    c->dials = true;
    state.address = c->current;
    tell(c, &state);
}

static void connected(miop_client *c, int64_t now) {
    miop_state state = {0};
    c->in_used = c->skips = c->out_used = c->out_sent = 0;
    c->ack_count = 0;
    memset(&c->notice, 0, sizeof c->notice);
    c->is_challenged = c->awaits_pong = c->owes_ping = c->owes_unbind = false;
    c->tested_s = 0;
    c->frame_max = MIOP_FRAME_DEFAULT;
    c->heard_at = now;
    become(c, MIOP_BINDING, now + BIND_MS);
    tell(c, &state);
    (void)send_bind(c, now); /* that it fits was tried by miop_open */
    pump(c);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void finish(miop_client *c, const char *why, uint8_t result) {
    miop_state state = {0};
    disconnect(c);
    if (is_final(result) && result != REPLACED) {
        c->has_session = false; /* nobody may go on with that session */
        c->is_dirty = true;
    }
    become(c, MIOP_ENDED, MIOP_NEVER);
    (void)miop_state_save(c); /* what cannot be stored now is found out again */
    state.why = why;
    state.result = result;
    tell(c, &state);
}

static void read_ending(const miop_frame *frame, miop_ending *ending) {
    miop_bytes rest = frame->properties, value;
    uint64_t number;
    uint8_t key;
    memset(ending, 0, sizeof *ending);
    miop_property_number(frame, MIOP_KEY_RESULT, &number);
    ending->result = (uint8_t)number;
    miop_property_number(frame, MIOP_KEY_SERVER_TIME, &ending->time_ms);
    if (miop_property_number(frame, MIOP_KEY_RETRY_AFTER_MS, &number) && number > 0) {
        ending->has_hint = true;
        ending->retry_ms = number < HINT_MAX_MS ? (uint32_t)number : HINT_MAX_MS;
    }
    while (miop_property_next(&rest, &key, &value)) {
        if (key == MIOP_KEY_ADDR) {
            set_address(ending->addresses[ending->address_count++], (const char *)value.data,
                        value.size);
        }
    }
}

/* The server ended the session, or did not begin one. */
static void dismissed(miop_client *c, int64_t now, const miop_frame *frame) {
    miop_ending ending;
    read_ending(frame, &ending);
    if (frame->opcode == MIOP_GO_AWAY && ending.result == 0) ending.result = DRAINING;
    flush(c, now);
    over(c, now, &ending, result_word(ending.result));
}

/* The connection is gone, or was never there. */
static void lost(miop_client *c, int64_t now, const char *why) {
    miop_ending ending;
    if (c->phase == MIOP_BOUND && c->tested_s > 0) c->heartbeat.suspect = c->tested_s;
    memset(&ending, 0, sizeof ending);
    if (strcmp(why, "lost") == 0 && c->notice.result != 0) {
        ending = c->notice;
        why = result_word(ending.result);
    }
    over(c, now, &ending, why);
}

/* Decides what follows the end of a connection. */
static void over(miop_client *c, int64_t now, const miop_ending *ending, const char *why) {
    bool was_bound = c->phase == MIOP_BOUND;
    if (c->phase == MIOP_CLOSING) {
        finish(c, "closed", 0);
        return;
    }
    disconnect(c);
    if (was_bound && now - c->bound_at >= GOOD_SESSION_MS) miop_backoff_reset(&c->backoff);
    queue_addresses(c, was_bound, ending);
    if (ending->result == CLOCK_SKEW && ending->time_ms != 0 && !c->is_clock_corrected) {
        c->clock_ms = (int64_t)ending->time_ms - c->config.io.wall_ms(c->config.io.context);
        c->is_clock_corrected = true;
        memmove(c->first + 1, c->first, 4 * sizeof *c->first);
        memcpy(c->first[0], c->current, sizeof c->current);
        if (c->first_count < 5) c->first_count++;
        connect_to(c, now);
    } else if (is_final(ending->result) && !ending->has_hint) {
        finish(c, why, ending->result);
    } else if (!ending->has_hint && ending->address_count > 0 && c->followed < FOLLOWED_MAX) {
        c->followed++;
        connect_to(c, now);
    } else {
        miop_state state = {0};
        uint32_t wait = miop_backoff_next(&c->backoff, ending->retry_ms, miop_random_word(c));
        become(c, MIOP_WAITING, now + wait);
        state.until_ms = c->deadline;
        state.why = why;
        tell(c, &state);
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Of a session, in BIND_ACK and CONFIG. */
static void take_terms(miop_client *c, const miop_frame *frame) {
    uint64_t number;
    if (miop_property_number(frame, MIOP_KEY_HEARTBEAT, &number)) {
        c->heartbeat.agreed = number == 0 ? 1 : (uint16_t)number;
    }
    if (miop_property_number(frame, MIOP_KEY_MAX_FRAME, &number)) {
        if (number < MIOP_FRAME_UNBOUND) number = MIOP_FRAME_UNBOUND;
        c->frame_max = number < MIOP_FRAME_MOST ? (size_t)number : MIOP_FRAME_MOST;
    }
}

static const char *bind_ack(miop_client *c, int64_t now, const miop_frame *frame) {
    miop_state state = {0};
    miop_bytes token, value;
    uint64_t result, epoch, offline;
    miop_property_number(frame, MIOP_KEY_RESULT, &result);
    if (result > RESUMED) {
        dismissed(c, now, frame);
        return NULL;
    }
    if (!miop_property_number(frame, MIOP_KEY_SESSION_EPOCH, &epoch)
        || !miop_property(frame, MIOP_KEY_HEARTBEAT, &value)
        || !miop_property(frame, MIOP_KEY_RESUME_TOKEN, &token)) {
        return "missing_property";
    }
    c->has_session = c->is_dirty = true;
    c->epoch = epoch;
    memcpy(c->session, token.data, sizeof c->session);
    take_terms(c, frame);
    miop_heartbeat_bound(&c->heartbeat, c->attempts == 1);
    miop_heartbeat_learn(c);
    become(c, MIOP_BOUND, MIOP_NEVER);
    c->bound_at = now;
    c->attempts = 0;
    c->followed = 0;
    c->is_clock_corrected = false;
    miop_property_number(frame, MIOP_KEY_OFFLINE_COUNT, &offline);
    state.is_resumed = result == RESUMED;
    state.heartbeat_s = c->heartbeat.agreed;
    state.offline_count = (uint32_t)offline;
    tell(c, &state);
    miop_reports_connected(c);
    return NULL;
}

static const char *challenge(miop_client *c, int64_t now, const miop_frame *frame) {
    miop_bytes nonce;
    uint8_t mac[32];
    if (c->config.secret == NULL || c->is_challenged) return OUT_OF_ORDER;
    c->is_challenged = true;
    miop_property(frame, MIOP_KEY_SERVER_NONCE, &nonce);
    sign(c, nonce.data, nonce.size, mac);
    miop_writer out = begin(c, MIOP_AUTH, NULL);
    miop_write_property(&out, MIOP_KEY_MAC, mac, sizeof mac);
    miop_write_payload(&out);
    (void)end(c, &out, now); /* the BIND has left the buffer, or the server could not answer it */
    return NULL;
}

static int held_at(const miop_client *c, uint64_t id) {
    for (int at = 0; at < c->held_count; at++) {
        if (c->held[at] == id) return at;
    }
    return -1;
}

static void hand_out(miop_client *c, int64_t now, const miop_record *record) {
    miop_push push = {
        record->id, record->app_id, record->flags & MIOP_RECORD_SILENT,
        record->flags & MIOP_RECORD_HIGH, record->expire_at, record->collapse.data,
        record->collapse.size, record->body.data, record->body.size,
    };
    c->held[c->held_count++] = record->id;
    miop_verdict verdict = c->config.on_push(c->config.app, &push);
    int at = held_at(c, record->id);
    if (verdict == MIOP_HELD || at < 0) return; /* settled in the callback, perhaps */
    c->held[at] = c->held[--c->held_count];
    if (verdict == MIOP_TAKEN) {
        miop_see(c, record->id);
        c->is_dirty = true;
        owe_ack(c, record->id, now);
    }
}

/* Hands out what is new. What was acknowledged before is acknowledged again, since the server has
 * not read that; what the application holds waits for the application. */
static const char *message(miop_client *c, int64_t now, const miop_frame *frame) {
    miop_bytes rest = frame->payload;
    miop_record record;
    const char *fault = miop_records_check(rest);
    if (fault != NULL) return fault;
    while (c->phase != MIOP_ENDED && rest.size > 0 && miop_record_read(&rest, &record)) {
        if (miop_seen(c, record.id)) {
            owe_ack(c, record.id, now);
        } else if (held_at(c, record.id) < 0 && c->held_count < MIOP_HELD_MAX) {
            hand_out(c, now, &record);
        } /* beyond the window it is not acknowledged, so it is sent again */
    }
    return NULL;
}

static void pong(miop_client *c) {
    if (c->tested_s == 0) return;
    miop_heartbeat_lived(&c->heartbeat, c->tested_s);
    c->tested_s = 0;
    miop_heartbeat_learn(c);
}

/* An ERROR refuses a Report, or says why the server will close. */
static void error(miop_client *c, int64_t now, const miop_frame *frame) {
    uint64_t seq;
    if (miop_property_number(frame, MIOP_KEY_REPORT_SEQ, &seq)) {
        miop_reports_refused(c, now, (uint32_t)seq);
        return;
    }
    read_ending(frame, &c->notice);
    if (c->notice.result == VERSION_REFUSED) {
        finish(c, result_word(VERSION_REFUSED), VERSION_REFUSED);
    }
}

static const char *unexpected(const miop_frame *frame) {
    return frame->opcode <= MIOP_ERROR ? OUT_OF_ORDER : NULL;
}

/* Handles a frame: NULL, or the name of a fault. */
static const char *handle(miop_client *c, int64_t now, const miop_frame *frame) {
    uint64_t number;
    bool binds = c->phase == MIOP_BINDING;
    switch (frame->opcode) {
    case MIOP_KICK:
    case MIOP_REDIRECT:
    case MIOP_GO_AWAY:
        dismissed(c, now, frame);
        return NULL;
    case MIOP_ERROR:
        error(c, now, frame);
        return NULL;
    case MIOP_BIND_ACK:
        return binds ? bind_ack(c, now, frame) : OUT_OF_ORDER;
    case MIOP_CHALLENGE:
        return binds ? challenge(c, now, frame) : OUT_OF_ORDER;
    default:
        if (binds) return unexpected(frame);
    }
    switch (frame->opcode) {
    case MIOP_MSG:
        return message(c, now, frame);
    case MIOP_PONG:
        pong(c);
        return NULL;
    case MIOP_REPORT_ACK:
        miop_property_number(frame, MIOP_KEY_REPORT_SEQ, &number);
        miop_reports_taken(c, (uint32_t)number);
        return NULL;
    case MIOP_CONFIG:
        take_terms(c, frame);
        return NULL;
    case MIOP_PULL:
        miop_property_number(frame, MIOP_KEY_OFFLINE_COUNT, &number);
        if (c->config.on_pulled != NULL) c->config.on_pulled(c->config.app, (uint32_t)number);
        return NULL;
    case MIOP_UNBIND_ACK:
        if (c->phase != MIOP_CLOSING) return OUT_OF_ORDER;
        finish(c, "closed", 0);
        return NULL;
    default:
        return unexpected(frame);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void consume(miop_client *c, size_t count) {
    memmove(c->config.in, c->config.in + count, c->in_used - count);
    c->in_used -= count;
}

/* A push that the buffer cannot hold is dropped, and acknowledged: the server would send it again
 * and again. Its id is in the first bytes of the frame. */
static const char *drop_large(miop_client *c, int64_t now, const miop_frame *head) {
    miop_bytes body = {c->config.in + 8, c->in_used - 8}, block;
    if (head->has_seq) {
        body.data += 4;
        body.size -= 4;
    }
    bool is_push = head->opcode == MIOP_MSG && c->phase == MIOP_BOUND
        && miop_block_read(&body, &block) && body.size >= 8;
    if (!is_push) return "too_large";
    uint64_t id = miop_number(body.data, 8);
    if (!miop_seen(c, id)) {
        miop_see(c, id);
        c->is_dirty = true;
        if (c->config.on_too_large != NULL) {
            c->config.on_too_large(c->config.app, id, head->length);
        }
    }
    owe_ack(c, id, now);
    c->skips = head->length - c->in_used;
    c->in_used = 0;
    return NULL;
}

/* Handles the first frame; false if it has not arrived whole, or the connection is over. */
static bool step(miop_client *c, int64_t now) {
    uint32_t connection = c->connection;
    miop_bytes in = {c->config.in, c->in_used};
    miop_frame frame;
    const char *fault = miop_frame_read(&frame, in, c->frame_max);
    if (fault == NULL && frame.length == 0) {
        miop_frame head;
        (void)miop_frame_head(&head, in, c->frame_max);
        if (head.length <= c->config.in_bytes || c->in_used < c->config.in_bytes) return false;
        fault = drop_large(c, now, &head);
    } else if (fault == NULL) {
        fault = handle(c, now, &frame);
        if (c->connection == connection) consume(c, frame.length);
    }
    if (fault != NULL) lost(c, now, fault);
    if (c->config.on_frame != NULL) {
        flush(c, now);
        c->config.on_frame(c->config.app, frame.opcode);
    }
    return c->connection == connection;
}

static void heard(miop_client *c, int64_t now, size_t count) {
    size_t skipped = count < c->skips ? count : c->skips;
    c->heard_at = now;
    if (c->awaits_pong) {
        c->awaits_pong = false;
        c->deadline = MIOP_NEVER;
    }
    c->in_used += count;
    c->skips -= skipped;
    consume(c, skipped);
    while (c->in_used > 0 && step(c, now)) {
    }
}

/* Whether anything arrived. */
static bool receive(miop_client *c) {
    const miop_io *io = &c->config.io;
    long count =
        io->receive(io->context, c->config.in + c->in_used, c->config.in_bytes - c->in_used);
    if (count > 0) heard(c, now_ms(c), (size_t)count);
    if (count < 0) lost(c, now_ms(c), "lost");
    return count != 0;
}

static void dial(miop_client *c) {
    const miop_io *io = &c->config.io;
    bool begins = c->dials;
    c->dials = false;
    int outcome = begins ? io->connect(io->context, c->current) : io->connecting(io->context);
    bool is_shown = outcome > 0 && c->config.token != NULL;
    if (is_shown && (io->is_safe == NULL || !io->is_safe(io->context))) {
        /* A server that names another one cannot make the device show its token to a network. */
        lost(c, now_ms(c), "insecure");
    } else if (outcome > 0) {
        connected(c, now_ms(c));
    } else if (outcome < 0) {
        lost(c, now_ms(c), outcome == MIOP_PIN_MISMATCH ? "pin_mismatch" : "connect_failed");
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* The end of a silence in both directions, or of the server's patience with ours. */
static int64_t ping_at(const miop_client *c) {
    int64_t last = c->said_at > c->heard_at ? c->said_at : c->heard_at;
    return earlier(last + miop_heartbeat_interval(&c->heartbeat) * INT64_C(1000),
                   c->said_at + c->heartbeat.agreed * INT64_C(1000));
}

static int64_t wake_at(const miop_client *c) {
    if (c->phase != MIOP_BOUND) return c->deadline;
    int64_t at = c->awaits_pong ? c->deadline : earlier(c->deadline, ping_at(c));
    return earlier(at, miop_reports_wake_at(c));
}

static void ping(miop_client *c, int64_t now, uint16_t tested_s, int64_t patience_ms) {
    c->awaits_pong = c->owes_ping = true;
    c->tested_s = tested_s;
    c->deadline = now + patience_ms;
}

static void expired(miop_client *c, int64_t now) {
    switch (c->phase) {
    case MIOP_WAITING:
        connect_to(c, now);
        break;
    case MIOP_CONNECTING:
        lost(c, now, "connect_timeout");
        break;
    case MIOP_BINDING:
        lost(c, now, "bind_timeout");
        break;
    case MIOP_BOUND:
        lost(c, now, "no_pong");
        break;
    case MIOP_CLOSING:
        finish(c, "closed", 0);
        break;
    default:
        break;
    }
}

static void tick(miop_client *c, int64_t now) {
    if (now >= c->deadline) {
        expired(c, now);
    } else if (c->phase == MIOP_BOUND && !c->awaits_pong && now >= ping_at(c)) {
        uint16_t silence = miop_heartbeat_interval(&c->heartbeat);
        /* If the server was heard meanwhile, or the device slept for longer, the interval is not
         * tested. */
        bool tests = now - c->heard_at >= silence * INT64_C(1000) && now < ping_at(c) + LATE_MS;
        ping(c, now, tests ? silence : 0, PONG_MS);
    }
}

int64_t miop_run(miop_client *c) {
    bool goes_on = true;
    while (goes_on) {
        /* What has arrived comes first: it may be the answer that is waited for. */
        if (c->phase == MIOP_CONNECTING) dial(c);
        goes_on = is_open(c) && receive(c);
        if (!goes_on) tick(c, now_ms(c));
        goes_on = goes_on || c->dials;
    }
    flush(c, now_ms(c));
    return wake_at(c);
}

bool miop_wants_write(const miop_client *c) {
    return c->phase == MIOP_CONNECTING || (is_open(c) && c->out_sent < c->out_used);
}

/* ---- from the application -------------------------------------------------------------------- */

static bool is_name(const char *text, size_t bytes_max) {
    if (text == NULL || text[0] == 0 || strlen(text) > bytes_max) return false;
    for (; *text != 0; text++) {
        bool is_letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');
        bool is_digit = *text >= '0' && *text <= '9';
        if (!is_letter && !is_digit && strchr("._-+:/=", *text) == NULL) return false;
    }
    return true;
}

static bool is_usable(const miop_config *config) {
    const miop_io *io = &config->io;
    bool stores = io->save_begin && io->save && io->save_end && io->load;
    bool stores_nothing = !io->save_begin && !io->save && !io->save_end && !io->load;
    if (!io->connect || !io->connecting || !io->send || !io->receive || !io->disconnect
        || !io->now_ms || !io->wall_ms || !io->random || !(stores || stores_nothing)) {
        return false;
    }
    for (size_t at = 0; at < config->tag_count; at++) {
        if (!is_name(config->tags[at], 64)) return false;
    }
    for (size_t at = 0; at < config->address_count; at++) {
        if (strlen(config->addresses[at]) >= MIOP_ADDRESS_BYTES) return false;
    }
    return config->address_count > 0 && is_name(config->product, 32) && is_name(config->device, 64)
        && config->on_push && config->in && config->in_bytes >= 256 && config->out
        && config->out_bytes >= OUT_BYTES_MIN && config->tag_count <= MIOP_TAGS_MAX
        && config->window <= MIOP_HELD_MAX && (config->secret == NULL || config->secret_bytes > 0)
        && (config->token == NULL || strlen(config->token) <= 512);
}

miop_error miop_open(miop_client *c, const miop_config *config) {
    if (!is_usable(config)) return MIOP_BAD_CONFIG;
    memset(c, 0, sizeof *c);
    c->config = *config;
    miop_heartbeat *h = &c->heartbeat;
    h->shortest = config->heartbeat_shortest_s ? config->heartbeat_shortest_s : 30;
    h->first = config->heartbeat_first_s ? config->heartbeat_first_s : 120;
    h->longest = config->heartbeat_longest_s ? config->heartbeat_longest_s : 1800;
    h->agreed = h->longest;
    c->backoff.first_ms = config->backoff_first_ms ? config->backoff_first_ms : 1000;
    c->backoff.longest_ms = config->backoff_longest_ms ? config->backoff_longest_ms : 60000;
    c->report_pause.first_ms = 5000;
    c->report_pause.longest_ms = 300000;
    miop_backoff_reset(&c->backoff);
    miop_backoff_reset(&c->report_pause);
    if (config->window == 0) c->config.window = MIOP_HELD_MAX;
    if (!config->sets_tags) c->config.tag_count = 0;
    if (config->reports == NULL) c->config.reports_bytes = 0;
    c->frame_max = MIOP_FRAME_DEFAULT;
    become(c, MIOP_IDLE, MIOP_NEVER);
    c->has_session = true; /* the largest BIND is one of a session */
    if (!send_bind(c, 0)) return MIOP_BAD_CONFIG;
    c->has_session = false;
    c->out_used = 0;
    miop_error error = miop_state_load(c);
    miop_heartbeat_use(c, "");
    return error;
}

void miop_start(miop_client *c) {
    if (c->phase == MIOP_IDLE) connect_to(c, now_ms(c));
}

static miop_error settle(miop_client *c, uint64_t id, bool has) {
    int at = held_at(c, id);
    if (at < 0) return MIOP_UNKNOWN_PUSH;
    c->held[at] = c->held[--c->held_count];
    if (has) {
        miop_see(c, id);
        c->is_dirty = true;
        owe_ack(c, id, now_ms(c));
        flush(c, now_ms(c));
    }
    return MIOP_OK;
}

miop_error miop_acknowledge(miop_client *c, uint64_t id) { return settle(c, id, true); }

miop_error miop_reject(miop_client *c, uint64_t id) { return settle(c, id, false); }

miop_error miop_report(miop_client *c, const char *client_id, const void *body, size_t size,
                       char *made) {
    char name[33];
    bool is_new;
    if (client_id == NULL) {
        uint8_t bytes[16];
        c->config.io.random(c->config.io.context, bytes, sizeof bytes);
        for (unsigned at = 0; at < 32; at++) {
            name[at] = "0123456789abcdef"[bytes[at / 2] >> (at % 2 ? 0 : 4) & 15];
        }
        name[32] = 0;
        client_id = name;
        if (made != NULL) memcpy(made, name, sizeof name);
    }
    miop_error error = miop_reports_add(c, client_id, body, size, &is_new);
    if (error != MIOP_OK || !is_new) return error;
    c->is_dirty = true;
    if (!miop_state_save(c)) {
        miop_reports_drop_last(c);
        return MIOP_NOT_STORED;
    }
    flush(c, now_ms(c));
    return MIOP_OK;
}

/* The form of MIOP 5.10. */
static miop_error report_push(miop_client *c, uint8_t what, const char *word, uint64_t id) {
    uint8_t body[15] = {0, 'm', 'i', 'o', 'p', 0, what};
    char client_id[32]; /* a word of 9 letters at most, a hyphen, 20 digits */
    char digits[20];
    size_t size = strlen(word), count = 0;
    for (unsigned at = 0; at < 8; at++) body[7 + at] = (uint8_t)(id >> (56 - 8 * at));
    for (uint64_t rest = id; count == 0 || rest > 0; rest /= 10) {
        digits[count++] = (char)('0' + rest % 10);
    }
    memcpy(client_id, word, size);
    client_id[size++] = '-';
    while (count > 0) client_id[size++] = digits[--count];
    client_id[size] = 0;
    return miop_report(c, client_id, body, sizeof body, NULL);
}

miop_error miop_opened(miop_client *c, uint64_t id) { return report_push(c, 1, "opened", id); }

miop_error miop_dismissed(miop_client *c, uint64_t id) {
    return report_push(c, 2, "dismissed", id);
}

miop_error miop_pull(miop_client *c, uint16_t count) {
    if (c->phase != MIOP_BOUND) return MIOP_NOT_BOUND;
    miop_writer out = begin(c, MIOP_PULL, NULL);
    if (count > 0) miop_write_number(&out, MIOP_KEY_COUNT, count);
    miop_write_payload(&out);
    if (!end(c, &out, now_ms(c))) return MIOP_QUEUE_FULL;
    pump(c);
    return MIOP_OK;
}

void miop_nudge(miop_client *c) {
    int64_t now = now_ms(c);
    if (c->phase == MIOP_WAITING) {
        connect_to(c, now);
    } else if (c->phase == MIOP_BOUND) {
        if (!c->awaits_pong) ping(c, now, 0, NUDGE_MS);
        c->deadline = earlier(c->deadline, now + NUDGE_MS);
        flush(c, now);
    }
}

void miop_set_network(miop_client *c, const char *name) {
    miop_heartbeat_use(c, name);
    miop_heartbeat_learn(c);
    c->tested_s = 0;
    miop_nudge(c);
}

void miop_close(miop_client *c) {
    if (c->phase == MIOP_BOUND) {
        miop_state state = {0};
        become(c, MIOP_CLOSING, now_ms(c) + CLOSE_MS);
        tell(c, &state);
        c->owes_unbind = true;
        flush(c, now_ms(c));
    } else if (c->phase != MIOP_CLOSING && c->phase != MIOP_ENDED) {
        finish(c, "closed", 0);
    }
}

void miop_kill(miop_client *c) {
    disconnect(c);
    become(c, MIOP_ENDED, MIOP_NEVER);
}
