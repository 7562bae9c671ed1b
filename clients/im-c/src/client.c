/* The decisions of a client: what to send when, and what becomes of what arrives.
 *
 *     idle --start--> connecting --> login --> online --close--> ended
 *                        ^    |        |          |
 *                        |    +--------+----------+--> waiting, or ended with a lasting reason
 *                        +-----------------------------------+
 */
#include "parts.h"

#include <string.h>

enum {
    CONNECT_MS = 20000, /* for a connection and the login */
    ANSWER_MS = 30000,  /* how long a server may take to say anything when it was asked */
    PROBE_MS = 10000,   /* the same after a nudge */
    LATE_MS = 30000,    /* a Ping that is later than this tests no interval: the device slept */
    PULL_AGAIN_MS = 1000, SAVE_AGAIN_MS = 1000,
    AGAIN_MS = 1000, AGAIN_MAX_MS = 30000, /* after a message that the server could not take */
    HINT_MAX_MS = 3600000,   /* a hint of the server counts as at most an hour */
    GOOD_SESSION_MS = 10000, /* after such a session the next wait is short again */
    FOLLOWED_MAX = 3, /* ends that name another server and are followed at once */
    SILENCE_S = 60,   /* of a server that names none */
    TURNS_MAX = 64    /* of one im_run, so that a fast server does not keep the caller */
};
#define PULL_NUMBER UINT32_MAX
#define NUMBER_MAX 0x7fffffffu

static const char *const MALFORMED = "server_malformed";
static const char *const NOT_PROVED = "server_not_proved";

static int64_t now_ms(const im_client *c) { return c->config.io.now_ms(c->config.io.context); }

static bool is_open(const im_client *c) { return c->phase == IM_LOGIN || c->phase == IM_ONLINE; }

static int64_t earlier(int64_t one, int64_t other) { return one < other ? one : other; }

static void become(im_client *c, im_phase phase, int64_t deadline) {
    c->phase = phase;
    c->deadline = deadline;
}

static void tell(im_client *c, im_state *state) {
    state->phase = c->phase;
    if (c->config.on_state != NULL) c->config.on_state(c->config.app, state);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void pump(im_client *c) {
    const im_io *io = &c->config.io;
    while (is_open(c) && c->out_sent < c->out_used) {
        long count = io->send(io->context, c->config.out + c->out_sent, c->out_used - c->out_sent);
        if (count <= 0) return; /* of a lost connection, `receive` tells */
        c->out_sent += (size_t)count;
    }
    c->out_used = c->out_sent = 0;
}

/* A frame is written behind what waits; `say` takes it, if it fits. */
typedef struct draft {
    im_writer writer;
    size_t frame, request;
} draft;

static draft begin(im_client *c, uint32_t kind) {
    if (c->out_sent > 0) {
        memmove(c->config.out, c->config.out + c->out_sent, c->out_used - c->out_sent);
        c->out_used -= c->out_sent;
        c->out_sent = 0;
    }
    draft d = {{c->config.out, c->config.out_bytes, c->out_used, false}, 0, 0};
    d.frame = im_write_begin(&d.writer, 0);
    d.request = im_write_begin(&d.writer, kind);
    return d;
}

/* False if there is no room now: whoever says it tries again when there is. Each frame fits into an
 * empty buffer. */
static bool say(im_client *c, int64_t now, draft *d, bool asks) {
    im_write_end(&d->writer, d->request);
    im_write_end(&d->writer, d->frame);
    if (d->writer.is_full) {
        c->lacks_room = true;
        return false;
    }
    c->out_used = d->writer.used;
    c->said_at = now;
    if (asks && c->dead_at == IM_NEVER) c->dead_at = now + ANSWER_MS;
    return true;
}

static uint32_t next_number(im_client *c) { return c->number = c->number % NUMBER_MAX + 1; }

static void send_acknowledgement(im_client *c, int64_t now) {
    if (!im_inbox_owes_acknowledgement(&c->inbox, now)) return;
    draft d = begin(c, IM_ASK_ACKNOWLEDGE);
    im_write_number(&d.writer, 1, c->inbox.done);
    if (!say(c, now, &d, false)) return;
    c->inbox.acknowledged = c->inbox.done;
    c->inbox.acknowledge_at = IM_NEVER;
}

static void send_pull(im_client *c, int64_t now) {
    uint32_t room = (uint32_t)(IM_HELD_MAX - c->inbox.held_count);
    if (!im_inbox_wants_pull(&c->inbox) || now < c->inbox.pull_at) return;
    if (c->inbox.pull_count > room) c->inbox.pull_count = room;
    draft d = begin(c, IM_ASK_PULL);
    im_write_number(&d.writer, 1, PULL_NUMBER);
    im_write_number(&d.writer, 2, c->inbox.last);
    im_write_number(&d.writer, 3, c->inbox.pull_count);
    c->inbox.is_pulling = say(c, now, &d, true);
}

static void send_messages(im_client *c, int64_t now) {
    im_queued it;
    if (now < c->again_at) return;
    while (im_queued_next(c, &it)) {
        const im_bytes id = {it.client_id, IM_CLIENT_ID_BYTES};
        uint32_t number = next_number(c);
        draft d = begin(c, IM_ASK_SEND);
        im_write_number(&d.writer, 1, number);
        im_write_bytes(&d.writer, 2, it.to);
        im_write_bytes(&d.writer, 3, id);
        im_write_bytes(&d.writer, 4, it.content);
        if (!say(c, now, &d, true)) return;
        im_queued_mark(&it, number);
    }
}

static void send_ping(im_client *c, int64_t now) {
    draft d = begin(c, IM_ASK_PING);
    if (c->owes_ping && say(c, now, &d, true)) c->owes_ping = false;
}

/* Stores what happened, and then says it to the server. */
static void flush(im_client *c, int64_t now) {
    bool is_stored = im_state_save(c); /* if not, a later turn tries again */
    do {
        c->lacks_room = false;
        if (c->phase == IM_ONLINE) {
            if (is_stored) send_acknowledgement(c, now);
            send_pull(c, now);
            if (is_stored) send_messages(c, now);
            if (c->owes_ping) send_ping(c, now);
        }
        pump(c);
    } while (c->lacks_room && c->out_used == 0);
    for (unsigned at = 0; at < c->handled_count; at++) {
        if (c->config.on_frame != NULL) c->config.on_frame(c->config.app, c->handled[at]);
    }
    c->handled_count = 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void set_address(char to[IM_ADDRESS_BYTES], im_bytes from) {
    memcpy(to, from.data, from.size);
    to[from.size] = 0;
}

/* An address that is tried before the configured ones, behind others or before them. */
static bool add_first(im_client *c, im_bytes address, bool is_next) {
    if (address.size == 0 || address.size >= IM_ADDRESS_BYTES || c->first_count == 2) return false;
    if (is_next) memmove(c->first[1], c->first[0], IM_ADDRESS_BYTES);
    set_address(c->first[is_next ? 0 : c->first_count], address);
    c->first_count++;
    return true;
}

static void connect_to(im_client *c, int64_t now) {
    im_state state = {0};
    c->attempts++;
    if (c->first_count > 0) {
        memcpy(c->current, c->first[0], IM_ADDRESS_BYTES);
        memmove(c->first[0], c->first[1], IM_ADDRESS_BYTES);
        c->first_count--;
    } else {
        const char *next = c->config.addresses[c->next_address++ % c->config.address_count];
        set_address(c->current, im_text(next));
    }
    become(c, IM_CONNECTING, now + CONNECT_MS);
    c->dials = true;
    state.address = c->current;
    tell(c, &state);
}

static void answer(im_client *c, uint32_t number, const im_answer *it) {
    if (c->config.on_answer != NULL) c->config.on_answer(c->config.app, number, it);
}

static void leave(im_client *c, im_phase phase, int64_t deadline) {
    const im_io *io = &c->config.io;
    bool was_online = c->phase == IM_ONLINE;
    bool has_socket = !c->dials && (is_open(c) || c->phase == IM_CONNECTING);
    if (was_online) pump(c); /* what the socket takes now is the last that it gets */
    if (has_socket) io->disconnect(io->context);
    c->dials = c->owes_ping = false;
    c->in_used = c->skips = c->out_used = c->out_sent = 0;
    c->dead_at = c->again_at = IM_NEVER;
    become(c, phase, deadline);
    if (!was_online) return;
    im_outbox_lost(c);
    im_answer none = {"disconnected", {NULL, 0}, 0, {NULL, 0}, false};
    while (c->asked_count > 0) answer(c, c->asked[--c->asked_count], &none);
}

static void finish(im_client *c, const char *why) {
    im_state state = {0};
    leave(c, IM_ENDED, IM_NEVER);
    state.why = why;
    tell(c, &state);
}

static void lose(im_client *c, int64_t now, const char *why, uint32_t hint_ms) {
    im_state state = {0};
    uint8_t random[4];
    if (c->phase == IM_ONLINE) {
        if (now - c->since >= GOOD_SESSION_MS) im_backoff_reset(&c->backoff);
        c->heartbeat.suspect = c->tested_s;
        c->tested_s = 0;
    }
    if (hint_ms > HINT_MAX_MS) hint_ms = HINT_MAX_MS;
    c->config.io.random(c->config.io.context, random, sizeof random);
    leave(c, IM_WAITING, now
          + im_backoff_next(&c->backoff, hint_ms, (uint32_t)im_number(random, sizeof random)));
    c->not_before = now + hint_ms;
    state.until_ms = c->deadline;
    state.why = why;
    tell(c, &state);
}

/* ---- login ----------------------------------------------------------------------------------- */

/* False if the buffer is too small. */
static bool send_login(im_client *c, int64_t now) {
    memcpy(c->config.out, "\xc4IM\x01", 4);
    c->out_sent = 0;
    c->out_used = 4;
    draft d = begin(c, IM_ASK_LOGIN);
    im_write_text(&d.writer, 1, c->config.account);
    im_write_text(&d.writer, 2, c->config.device);
    im_login_proof(c, &d.writer);
    im_write_number(&d.writer, 6, c->config.silence_s);
    return say(c, now, &d, false);
}

static void connected(im_client *c, int64_t now) {
    const im_io *io = &c->config.io;
    c->is_safe = io->is_safe != NULL && io->is_safe(io->context);
    become(c, IM_LOGIN, c->deadline);
    c->heard_at = now;
    c->dead_at = IM_NEVER;
    if (!c->is_safe && (c->credentials.token != NULL || c->credentials.login_token != NULL)) {
        lose(c, now, "insecure", 0);
    } else if (!send_login(c, now)) {
        lose(c, now, "credentials_failed", 0); /* a new token that does not fit */
    }
}

static void fail(im_client *c, const im_queued *it, const char *error, im_bytes reason) {
    im_outcome outcome = {{0}, 0, 0, 0, error, reason};
    memcpy(outcome.client_id, it->client_id, sizeof outcome.client_id);
    im_queued_remove(c, it);
    if (c->config.on_outcome != NULL) c->config.on_outcome(c->config.app, &outcome);
}

/* Messages above the limits of the session are given up, and those that an earlier build with
 * larger buffers has queued. */
static void give_up_large(im_client *c) {
    const im_bytes none = {NULL, 0};
    im_queued it;
    size_t at = 0;
    while (c->phase == IM_ONLINE && im_queued_at(c, at, &it)) {
        im_message content;
        bool fits = im_read_content(it.content, &content)
            && content.text.size <= c->text_bytes_max && content.extra.size <= c->extra_bytes_max
            && it.content.size + IM_SEND_BYTES <= c->config.out_bytes;
        if (fits || it.number != 0) at += it.size;
        else fail(c, &it, "too_large", none);
    }
}

static void logged_in(im_client *c, int64_t now, const im_logged_in *it) {
    im_state state = {0};
    uint32_t silence_s = it->silence_s == 0 ? SILENCE_S : it->silence_s;
    if (!im_login_is_proved(c, it->data)) {
        finish(c, NOT_PROVED);
        return;
    }
    if (it->account.size > IM_NAME_BYTES_MAX) {
        lose(c, now, MALFORMED, 0);
        return;
    }
    memcpy(c->account, it->account.data, it->account.size);
    c->account[it->account.size] = 0;
    c->page_messages_max = it->page_messages_max == 0 ? 1 : it->page_messages_max;
    c->text_bytes_max = it->text_bytes_max;
    c->extra_bytes_max = it->extra_bytes_max;
    c->requests_max = it->requests_max;
    become(c, IM_ONLINE, IM_NEVER);
    c->since = c->heard_at = now;
    c->followed = c->first_count = 0;
    c->again_at = 0;
    c->heartbeat.agreed = silence_s < UINT16_MAX ? (uint16_t)silence_s : UINT16_MAX;
    im_heartbeat_bound(&c->heartbeat, c->attempts == 1);
    im_heartbeat_learn(c);
    c->attempts = 0;
    uint64_t done = c->inbox.has_done ? c->inbox.done : UINT64_MAX;
    im_inbox_begin(&c->inbox, it->cursor, it->head);
    c->inbox.pull_count = c->page_messages_max;
    if (c->inbox.done != done) c->is_dirty = true;
    state.account = im_text(c->account);
    tell(c, &state);
    give_up_large(c);
}

static void challenged(im_client *c, int64_t now, im_bytes challenge) {
    uint8_t text[IM_SCRAM_BYTES_MAX];
    im_writer said = {text, sizeof text, 0, false};
    if (!im_login_answer(c, challenge, &said)) {
        finish(c, NOT_PROVED);
        return;
    }
    const im_bytes proof = {text, said.used};
    draft d = begin(c, IM_ASK_PROCEED);
    im_write_bytes(&d.writer, 1, proof);
    if (!say(c, now, &d, false)) lose(c, now, MALFORMED, 0); /* a challenge without measure */
}

static void dismissed(im_client *c, int64_t now, const im_farewell *it) {
    const char *why = im_reason_word(it->reason);
    enum { BAD_METHOD = 4, USE_ANOTHER = 11, MOVED = 12, EXPIRED = 16 };
    if (it->reason == BAD_METHOD && c->uses_scram && c->is_safe) {
        /* The server knows no SCRAM: the password is shown over TLS, or to this machine. */
        c->shows_password = true;
        leave(c, IM_WAITING, now);
        (void)add_first(c, im_text(c->current), true);
        connect_to(c, now);
        return;
    }
    bool renews = it->reason == EXPIRED && c->config.renew != NULL;
    if (im_is_lasting(it->reason) && !renews) {
        finish(c, why);
        return;
    }
    if ((it->reason == USE_ANOTHER || it->reason == MOVED) && add_first(c, it->server, false)
        && it->retry_after_ms == 0 && c->followed < FOLLOWED_MAX) {
        c->followed++;
        leave(c, IM_WAITING, now);
        connect_to(c, now);
        return;
    }
    lose(c, now, why, it->retry_after_ms);
}

/* ---- frames of a session --------------------------------------------------------------------- */

static void sent(im_client *c, const im_queued *it, const im_receipt *receipt) {
    im_outcome outcome = {{0}, receipt->id, receipt->seq, receipt->at_ms, NULL, {NULL, 0}};
    memcpy(outcome.client_id, it->client_id, sizeof outcome.client_id);
    im_queued_remove(c, it);
    if (c->config.on_outcome != NULL) c->config.on_outcome(c->config.app, &outcome);
}

static void take_receipt(im_client *c, const im_receipt *it) {
    static const char live[] = "live.";
    im_queued queued;
    if (!im_queued_numbered(c, it->number, &queued)) return;
    const uint8_t *at = memchr(queued.to.data, '@', queued.to.size);
    size_t behind = at == NULL ? 0 : queued.to.size - (size_t)(at + 1 - queued.to.data);
    /* A chatroom's messages are in no inbox. */
    bool is_live = behind >= sizeof live - 1 && memcmp(at + 1, live, sizeof live - 1) == 0;
    if (!it->again && !is_live) c->inbox.own++;
    c->again_ms = AGAIN_MS;
    sent(c, &queued, it);
}

static void take_failure(im_client *c, int64_t now, const im_failure *it) {
    im_queued queued;
    if (it->number == PULL_NUMBER) {
        c->inbox.is_pulling = false;
        c->inbox.pull_at = now + PULL_AGAIN_MS;
    } else if (!im_queued_numbered(c, it->number, &queued)) {
        return;
    } else if (im_is_passing(it->fault)) {
        im_queued_mark(&queued, 0);
        c->again_at = now + (it->retry_after_ms > c->again_ms ? it->retry_after_ms : c->again_ms);
        c->again_ms = c->again_ms * 2 < AGAIN_MAX_MS ? c->again_ms * 2 : AGAIN_MAX_MS;
    } else {
        c->again_ms = AGAIN_MS;
        fail(c, &queued, im_fault_word(it->fault), it->reason);
    }
}

static bool is_text(im_bytes bytes, const char *text) {
    return bytes.size == strlen(text)
        && (bytes.size == 0 || memcmp(bytes.data, text, bytes.size) == 0);
}

/* A message of this device is no news. One that waits for its answer is stored, as this shows. */
static bool is_own(im_client *c, const im_message *it) {
    im_queued queued;
    if (!is_text(it->from, c->account)) return false;
    if (im_queued_find(c, it->client_id, &queued)) {
        const im_receipt receipt = {0, it->id, it->seq, it->at_ms, true};
        sent(c, &queued, &receipt);
        return true;
    }
    return is_text(it->device, c->config.device);
}

static void settle(im_client *c, uint64_t place, im_verdict verdict) {
    if (verdict == IM_TAKEN) (void)im_inbox_release(&c->inbox, place);
}

static void hand_out(im_client *c, const im_message *it) {
    if (is_own(c, it)) return;
    im_inbox_hold(&c->inbox, it->place);
    settle(c, it->place, c->config.on_message(c->config.app, it));
}

static void hand_out_event(im_client *c, const im_event *it) {
    im_inbox_hold(&c->inbox, it->place);
    settle(c, it->place,
           c->config.on_event == NULL ? IM_TAKEN : c->config.on_event(c->config.app, it));
}

/* Messages and events in the order of the inbox, as many as there is room for. */
static void take_page(im_client *c, im_reader body, const im_page *page) {
    im_inbox *b = &c->inbox;
    im_reader entries = body, events = body;
    im_message message;
    im_event event;
    uint64_t upto = page->upto, last = b->last;
    if (body.is_cut && im_inbox_cut(b)) return; /* a smaller one is pulled */
    uint64_t one = im_page_entry(&entries, last, &message);
    uint64_t other = im_page_event(&events, last, &event);
    while (one != UINT64_MAX || other != UINT64_MAX) {
        if (b->held_count >= IM_HELD_MAX) {
            upto = last;
            break;
        }
        last = one < other ? one : other;
        if (one < other) {
            hand_out(c, &message);
            one = im_page_entry(&entries, last, &message);
        } else {
            hand_out_event(c, &event);
            other = im_page_event(&events, last, &event);
        }
    }
    if (body.is_cut) upto = last; /* the one entry that was asked for */
    else if (b->pull_count < c->page_messages_max / 2) b->pull_count *= 2;
    else b->pull_count = c->page_messages_max;
    (void)im_inbox_page(b, upto, page->head);
}

static bool was_asked(im_client *c, uint32_t number) {
    for (unsigned at = 0; number != 0 && at < c->asked_count; at++) {
        if (c->asked[at] != number) continue;
        c->asked[at] = c->asked[--c->asked_count];
        return true;
    }
    return false;
}

static void take_other(im_client *c, const im_frame *frame, uint32_t number, bool is_asked) {
    im_answer it = {NULL, {NULL, 0}, frame->kind, {frame->body.at, 0}, frame->body.is_cut};
    im_failure failure;
    it.body.size = frame->body.at == NULL ? 0 : (size_t)(frame->body.end - frame->body.at);
    if (!is_asked) {
        if (c->config.on_told != NULL) c->config.on_told(c->config.app, &it);
        return;
    }
    if (frame->kind == IM_FAILED && im_read_failure(frame->body, &failure)) {
        it.error = im_fault_word(failure.fault);
        it.reason = failure.reason;
    }
    answer(c, number, &it);
}

static void take_in_session(im_client *c, int64_t now, const im_frame *frame) {
    uint32_t number = im_answer_number(frame->kind, frame->body);
    bool is_asked = was_asked(c, number);
    im_receipt receipt;
    im_failure failure;
    im_message message;
    im_event event;
    im_page page;
    uint64_t head;
    if (is_asked) {
        take_other(c, frame, number, true);
    } else if (frame->kind == IM_MESSAGE) {
        (void)im_read_entry(frame->body, &message);
        if (im_inbox_comes(&c->inbox, message.place)) hand_out(c, &message);
    } else if (frame->kind == IM_EVENT) {
        (void)im_read_event(frame->body, &event);
        if (im_inbox_comes(&c->inbox, event.place)) hand_out_event(c, &event);
    } else if (frame->kind == IM_NOTIFY) {
        (void)im_read_head(frame->body, &head);
        if (head > c->inbox.head) c->inbox.head = head;
    } else if (frame->kind == IM_PAGE && number == PULL_NUMBER) {
        (void)im_read_page(frame->body, &page);
        take_page(c, frame->body, &page);
    } else if (frame->kind == IM_SENT) {
        (void)im_read_receipt(frame->body, &receipt);
        take_receipt(c, &receipt);
    } else if (frame->kind == IM_FAILED) {
        (void)im_read_failure(frame->body, &failure);
        take_failure(c, now, &failure);
    } else if (frame->kind != IM_PONG) {
        take_other(c, frame, number, false);
    }
}

/* False if the answer does not fit the state. All frames were read before: they can be. */
static bool take(im_client *c, int64_t now, const im_frame *frame) {
    im_logged_in session;
    im_farewell farewell;
    im_bytes data;
    bool is_of_login = frame->kind <= IM_REFUSED;
    if (frame->kind != IM_END && (c->phase == IM_LOGIN) != is_of_login) return false;
    switch (frame->kind) {
    case IM_LOGGED_IN:
        (void)im_read_logged_in(frame->body, &session);
        logged_in(c, now, &session);
        break;
    case IM_CHALLENGE:
        (void)im_read_data(frame->body, &data);
        challenged(c, now, data);
        break;
    case IM_REFUSED:
    case IM_END:
        (void)im_read_farewell(frame->body, &farewell);
        dismissed(c, now, &farewell);
        break;
    default: take_in_session(c, now, frame);
    }
    if (c->phase == IM_ONLINE && im_inbox_advance(&c->inbox, now)) c->is_dirty = true;
    return true;
}

/* Takes the frame at the beginning of the buffer; false if there is none, or no connection. */
static bool take_frame(im_client *c, int64_t now, size_t *at) {
    im_bytes rest = {c->config.in + *at, c->in_used - *at};
    uint64_t most = c->text_bytes_max + c->extra_bytes_max + IM_BESIDE_CONTENT_BYTES;
    size_t head, length;
    im_frame frame;
    if (c->phase != IM_ONLINE || most < IM_FRAME_BYTES_MAX) most = IM_FRAME_BYTES_MAX;
    bool is_bad = im_frame_length(rest, most, &head, &length) != NULL;
    bool is_cut = length > c->config.in_bytes;
    if (!is_bad && (length == 0 || (length > rest.size && (!is_cut || *at > 0)))) return false;
    if (!is_bad && is_cut && rest.size < c->config.in_bytes) return false;
    if (!is_bad) {
        const im_bytes content = {rest.data + head, (is_cut ? rest.size : length) - head};
        is_bad = im_frame_read(content, is_cut, &frame) != NULL;
        *at += is_cut ? rest.size : length;
        c->skips = is_cut ? length - rest.size : 0;
    }
    if (!is_bad && frame.kind != 0) is_bad = !take(c, now, &frame);
    if (is_bad) {
        lose(c, now, MALFORMED, 0);
    } else if (frame.kind != 0 && c->config.on_frame != NULL) {
        c->handled[c->handled_count++] = (uint8_t)frame.kind;
        if (c->handled_count == sizeof c->handled) flush(c, now);
    }
    return is_open(c);
}

/* One reading of the socket. True if there may be more. */
static bool receive(im_client *c, int64_t now) {
    const im_io *io = &c->config.io;
    if (!is_open(c)) return false;
    long count = io->receive(io->context, c->config.in + c->in_used,
                             c->config.in_bytes - c->in_used);
    if (count < 0) {
        lose(c, now, "disconnected", 0);
        return true;
    }
    if (count == 0) return false;
    c->heard_at = now;
    c->dead_at = IM_NEVER;
    if (c->tested_s > 0) {
        im_heartbeat_lived(&c->heartbeat, c->tested_s);
        im_heartbeat_learn(c);
        c->tested_s = 0;
    }
    size_t skipped = c->skips < (size_t)count ? c->skips : (size_t)count, at = 0;
    c->skips -= skipped; /* the end of a frame that was cut: the buffer was empty */
    memmove(c->config.in, c->config.in + skipped, (size_t)count - skipped);
    if (skipped > 0) c->in_used = (size_t)count - skipped;
    else c->in_used += (size_t)count;
    while (take_frame(c, now, &at)) {}
    if (is_open(c)) {
        memmove(c->config.in, c->config.in + at, c->in_used - at);
        c->in_used -= at;
    }
    return true;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* After silence, and in any case before the server has heard nothing for its time. */
static int64_t ping_at(const im_client *c) {
    int64_t last = c->said_at > c->heard_at ? c->said_at : c->heard_at;
    return earlier(last + im_heartbeat_interval(&c->heartbeat) * 1000,
                   c->said_at + c->heartbeat.agreed * 1000);
}

static int64_t due(const im_client *c) {
    if (c->phase != IM_ONLINE) return c->deadline;
    int64_t at = c->owes_ping ? c->dead_at : earlier(c->dead_at, ping_at(c));
    /* What the socket or the storage does not take now is no reason to be called again. */
    if (c->out_sent < c->out_used || c->is_dirty) return at;
    at = earlier(at, im_inbox_due(&c->inbox));
    return c->queue_used > 0 && c->again_at > 0 ? earlier(at, c->again_at) : at;
}

static void tick(im_client *c, int64_t now) {
    if (c->phase == IM_WAITING) {
        if (now >= c->deadline) connect_to(c, now);
    } else if (c->phase != IM_ONLINE) {
        if (now >= c->deadline) lose(c, now, "timed_out", 0);
    } else if (now >= c->dead_at) {
        lose(c, now, "timed_out", 0);
    } else if (!c->owes_ping && now >= ping_at(c)) {
        int64_t last = c->said_at > c->heard_at ? c->said_at : c->heard_at;
        int64_t silence_s = (now - last) / 1000;
        bool is_test = silence_s >= im_heartbeat_interval(&c->heartbeat)
            && now < ping_at(c) + LATE_MS;
        c->tested_s = !is_test ? 0 : silence_s < UINT16_MAX ? (uint16_t)silence_s : UINT16_MAX;
        c->owes_ping = true;
        c->dead_at = earlier(c->dead_at, now + ANSWER_MS);
    } else if (now >= c->again_at && c->again_at > 0) {
        c->again_at = 0;
    }
}

/* True if the state of the connection has changed. */
static bool dial(im_client *c, int64_t now) {
    const im_io *io = &c->config.io;
    if (c->phase != IM_CONNECTING) return false;
    if (c->dials && c->config.renew != NULL) {
        const im_credentials *fresh = c->config.renew(c->config.app);
        if (fresh == NULL) {
            lose(c, now, "credentials_failed", 0);
            return true;
        }
        c->credentials = *fresh;
    }
    bool begins = c->dials;
    c->dials = false;
    int outcome = begins ? io->connect(io->context, c->current) : io->connecting(io->context);
    if (outcome == 0) return false;
    if (outcome > 0) connected(c, now);
    else lose(c, now, outcome == IM_PIN_MISMATCH ? "pin_mismatch" : "unreachable", 0);
    return true;
}

int64_t im_run(im_client *c) {
    int64_t now = now_ms(c);
    for (unsigned turns = 0; turns < TURNS_MAX; turns++) {
        bool goes_on = dial(c, now);
        goes_on = receive(c, now) || goes_on;
        im_phase before = c->phase;
        tick(c, now);
        give_up_large(c);
        flush(c, now);
        if (!goes_on && c->phase == before) {
            int64_t next = due(c);
            return c->is_dirty ? earlier(next, now + SAVE_AGAIN_MS) : next;
        }
        now = now_ms(c);
    }
    return now;
}

bool im_wants_write(const im_client *c) {
    return c->phase == IM_CONNECTING || (is_open(c) && c->out_sent < c->out_used);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static bool is_name(const char *name, size_t bytes_max) {
    return name != NULL && name[0] != 0 && strlen(name) <= bytes_max;
}

static bool is_good(const im_config *it) {
    const im_io *io = &it->io;
    bool stores = io->save_begin != NULL && io->save != NULL && io->save_end != NULL
        && io->load != NULL;
    bool stores_not = io->save_begin == NULL && io->save == NULL && io->save_end == NULL
        && io->load == NULL;
    bool is_named = is_name(it->account, IM_NAME_BYTES_MAX)
        && is_name(it->device, IM_DEVICE_BYTES_MAX);
    if (it->address_count == 0 || !is_named) return false;
    for (size_t at = 0; at < it->address_count; at++) {
        if (strlen(it->addresses[at]) >= IM_ADDRESS_BYTES) return false;
    }
    return it->in != NULL && it->in_bytes >= IM_IN_BYTES_MIN && it->out != NULL
        && it->out_bytes >= IM_OUT_BYTES_MIN && it->on_message != NULL && io->connect != NULL
        && io->connecting != NULL && io->send != NULL && io->receive != NULL
        && io->disconnect != NULL && io->now_ms != NULL && io->random != NULL
        && (stores || stores_not);
}

im_error im_open(im_client *c, const im_config *config) {
    memset(c, 0, sizeof *c);
    if (!is_good(config)) return IM_BAD_CONFIG;
    c->config = *config;
    if (config->queue == NULL) c->config.queue_bytes = 0;
    im_heartbeat *h = &c->heartbeat;
    h->shortest = config->heartbeat_shortest_s == 0 ? 30 : config->heartbeat_shortest_s;
    h->first = config->heartbeat_first_s == 0 ? 120 : config->heartbeat_first_s;
    h->longest = config->heartbeat_longest_s == 0 ? 1800 : config->heartbeat_longest_s;
    if (h->shortest > h->first || h->first > h->longest) return IM_BAD_CONFIG;
    c->credentials = config->credentials;
    c->phase = IM_IDLE;
    c->deadline = c->dead_at = c->again_at = IM_NEVER;
    c->again_ms = AGAIN_MS;
    im_backoff_reset(&c->backoff);
    bool fits = send_login(c, 0);
    c->out_used = c->out_sent = 0;
    if (!fits) return IM_BAD_CONFIG;
    im_error error = im_state_load(c);
    im_heartbeat_use(c, "");
    return error;
}

void im_start(im_client *c) {
    if (c->phase != IM_IDLE && c->phase != IM_ENDED) return;
    im_backoff_reset(&c->backoff);
    c->shows_password = false;
    connect_to(c, now_ms(c));
}

im_error im_acknowledge(im_client *c, uint64_t place) {
    if (!im_inbox_release(&c->inbox, place)) return IM_UNKNOWN;
    if (im_inbox_advance(&c->inbox, now_ms(c))) c->is_dirty = true;
    return IM_OK;
}

im_error im_request(im_client *c, uint32_t kind, im_bytes body, uint32_t *request) {
    if (c->phase != IM_ONLINE) return IM_NOT_ONLINE;
    bool asks = request != NULL;
    if (asks && (c->asked_count == IM_ASKED_MAX || c->asked_count >= im_window(c))) {
        return IM_QUEUE_FULL;
    }
    uint32_t number = asks ? next_number(c) : 0;
    pump(c);
    draft d = begin(c, kind);
    im_write_number(&d.writer, kind == IM_ASK_TRANSIENT ? 6 : 1, number);
    im_write_raw(&d.writer, body);
    if (!say(c, now_ms(c), &d, asks)) return IM_TOO_LARGE;
    if (asks) c->asked[c->asked_count++] = *request = number;
    return IM_OK;
}

im_error im_history(im_client *c, const char *with, uint32_t count, uint64_t before,
                    uint32_t *request) {
    uint8_t body[IM_NAME_BYTES_MAX + 64];
    im_writer w = {body, sizeof body, 0, false};
    im_write_text(&w, 2, with);
    im_write_number(&w, 3, before);
    im_write_number(&w, 4, true); /* backwards */
    im_write_number(&w, 5, count);
    const im_bytes whole = {body, w.used};
    return w.is_full ? IM_TOO_LARGE : im_request(c, IM_ASK_HISTORY, whole, request);
}

im_error im_mark_read(im_client *c, const char *with, uint64_t upto, uint32_t *request) {
    uint8_t body[IM_NAME_BYTES_MAX + 64];
    im_writer w = {body, sizeof body, 0, false};
    im_write_text(&w, 2, with);
    im_write_number(&w, 3, upto);
    const im_bytes whole = {body, w.used};
    return w.is_full ? IM_TOO_LARGE : im_request(c, IM_ASK_MARK_READ, whole, request);
}

void im_nudge(im_client *c) {
    int64_t now = now_ms(c);
    if (c->phase == IM_WAITING && now >= c->not_before) {
        connect_to(c, now);
    } else if (c->phase == IM_ONLINE) {
        c->owes_ping = true;
        c->dead_at = earlier(c->dead_at, now + PROBE_MS);
    }
}

void im_set_network(im_client *c, const char *name) {
    im_heartbeat_use(c, name);
    im_heartbeat_learn(c);
    c->tested_s = 0;
    im_nudge(c);
}

void im_close(im_client *c) {
    if (c->phase == IM_ONLINE) {
        draft d = begin(c, IM_ASK_GOODBYE);
        (void)say(c, now_ms(c), &d, false); /* without room the end of the connection says it */
    }
    finish(c, "closed");
}

void im_kill(im_client *c) {
    c->asked_count = 0;
    c->out_used = c->out_sent = 0;
    leave(c, IM_ENDED, IM_NEVER);
}
