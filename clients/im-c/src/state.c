/* What a client remembers across restarts, and the form of the record:
 *
 *     "IM" u8 version | u16 length, account LF device | u8 had a session, u64 place of the inbox
 *     u8 count, networks | u32 length, queue | u32 FNV-1a of all before
 *
 * Numbers begin with their highest byte. The sum at the end finds a record that was torn by a loss
 * of power. */
#include "parts.h"

#include <string.h>

enum { VERSION = 1, IDENTITY_MAX = 2 * IM_NAME_BYTES_MAX + 1 };

void im_put(uint8_t *to, uint64_t number, size_t width) {
    for (size_t at = width; at-- > 0; number >>= 8) to[at] = (uint8_t)number;
}

uint64_t im_number(const uint8_t *from, size_t width) {
    uint64_t number = 0;
    for (size_t at = 0; at < width; at++) number = number << 8 | from[at];
    return number;
}

static uint32_t sum(uint32_t before, const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at < size; at++) before = (before ^ bytes[at]) * 16777619u;
    return before;
}

static size_t identity(const im_client *c, char text[IDENTITY_MAX]) {
    size_t account = strlen(c->config.account), device = strlen(c->config.device);
    memcpy(text, c->config.account, account);
    text[account] = '\n';
    memcpy(text + account + 1, c->config.device, device);
    return account + 1 + device;
}

/* ---- writing ---- */

typedef struct pen {
    im_client *c;
    uint32_t sum;
    bool failed;
} pen;

static void write_bytes(pen *p, const void *bytes, size_t size) {
    p->sum = sum(p->sum, bytes, size);
    if (!p->failed && size > 0 && p->c->config.io.save(p->c->config.io.context, bytes, size) != 0) {
        p->failed = true;
    }
}

static void write_number(pen *p, uint64_t number, size_t width) {
    uint8_t bytes[8];
    im_put(bytes, number, width);
    write_bytes(p, bytes, width);
}

static void write_record(pen *p) {
    im_client *c = p->c;
    char text[IDENTITY_MAX];
    size_t length = identity(c, text);
    write_bytes(p, "IM", 2);
    write_number(p, VERSION, 1);
    write_number(p, length, 2);
    write_bytes(p, text, length);
    write_number(p, c->inbox.has_done, 1);
    write_number(p, c->inbox.done, 8);
    write_number(p, c->network_count, 1);
    for (unsigned at = 0; at < c->network_count; at++) {
        const im_network *it = &c->networks[at];
        write_bytes(p, it->name, sizeof it->name);
        write_number(p, it->now, 2);
        write_number(p, it->good, 2);
        write_number(p, it->bad, 2);
    }
    write_number(p, c->queue_used, 4);
    write_bytes(p, c->config.queue, c->queue_used);
    write_number(p, p->sum, 4);
}

bool im_state_save(im_client *c) {
    const im_io *io = &c->config.io;
    if (!c->is_dirty) return true;
    if (io->save_begin != NULL) {
        pen p = {c, 2166136261u, false};
        if (io->save_begin(io->context) != 0) return false;
        write_record(&p);
        if (p.failed || io->save_end(io->context) != 0) return false;
    }
    c->is_dirty = false;
    return true;
}

/* ---- reading ---- */

typedef struct eye {
    im_client *c;
    uint32_t sum;
    bool failed;
} eye;

static void read_bytes(eye *e, void *bytes, size_t size) {
    const im_io *io = &e->c->config.io;
    for (size_t at = 0; at < size && !e->failed;) {
        long count = io->load(io->context, (uint8_t *)bytes + at, size - at);
        if (count <= 0) e->failed = true;
        else at += (size_t)count;
    }
    if (e->failed) memset(bytes, 0, size);
    e->sum = sum(e->sum, bytes, size);
}

static uint64_t read_number(eye *e, size_t width) {
    uint8_t bytes[8];
    read_bytes(e, bytes, width);
    return im_number(bytes, width);
}

/* A count that a build with smaller tables cannot hold is a fault as any other. */
static size_t read_count(eye *e, size_t width, size_t most) {
    uint64_t count = read_number(e, width);
    if (count > most) e->failed = true;
    return e->failed ? 0 : (size_t)count;
}

static void read_record(eye *e) {
    im_client *c = e->c;
    c->inbox.has_done = read_number(e, 1) != 0;
    c->inbox.done = c->inbox.last = read_number(e, 8);
    c->network_count = (uint8_t)read_count(e, 1, IM_NETWORKS_MAX);
    for (unsigned at = 0; at < c->network_count; at++) {
        im_network *it = &c->networks[at];
        read_bytes(e, it->name, sizeof it->name);
        it->name[sizeof it->name - 1] = 0;
        it->now = (uint16_t)read_number(e, 2);
        it->good = (uint16_t)read_number(e, 2);
        it->bad = (uint16_t)read_number(e, 2);
    }
    c->queue_used = read_count(e, 4, c->config.queue_bytes);
    read_bytes(e, c->config.queue, c->queue_used);
}

static void forget(im_client *c) {
    memset(&c->inbox, 0, sizeof c->inbox);
    c->inbox.acknowledge_at = IM_NEVER;
    c->network_count = 0;
    c->queue_used = 0;
}

im_error im_state_load(im_client *c) {
    eye e = {c, 2166136261u, false};
    uint8_t head[2];
    char ours[IDENTITY_MAX], theirs[IDENTITY_MAX];
    const im_io *io = &c->config.io;
    forget(c);
    if (io->load == NULL) return IM_OK;
    long first = io->load(io->context, head, 1);
    if (first == 0) return IM_OK; /* nothing was stored yet */
    if (first != 1) return IM_BAD_STATE;
    e.sum = sum(e.sum, head, 1);
    read_bytes(&e, head + 1, 1);
    if (e.failed || memcmp(head, "IM", 2) != 0 || read_number(&e, 1) != VERSION) {
        return IM_BAD_STATE;
    }
    size_t length = read_count(&e, 2, IDENTITY_MAX);
    read_bytes(&e, theirs, length);
    read_record(&e);
    uint32_t expected = e.sum;
    bool is_damaged = read_number(&e, 4) != expected || e.failed || !im_outbox_check(c);
    bool is_ours = length == identity(c, ours) && memcmp(ours, theirs, length) == 0;
    /* Of another device, the place and the queue are not ours. */
    if (is_damaged || !is_ours) forget(c);
    else im_outbox_lost(c);
    return is_damaged ? IM_BAD_STATE : IM_OK;
}
