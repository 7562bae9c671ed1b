/* What a client remembers across restarts, and the form of the record:
 *
 *     "MIOP" u8 version | u16 length, product LF device | u8 has session, u64 epoch, token
 *     u16 count, ids, the oldest first | u8 count, networks | u32 next number | u32 length, Reports
 *     u32 FNV-1a of all before
 *
 * The sum at the end finds a record that was torn by a loss of power. */
#include "parts.h"

#include <string.h>

enum { VERSION = 1, IDENTITY_MAX = 97 };

bool miop_seen(const miop_client *c, uint64_t id) {
    for (unsigned at = 0; at < c->seen_count; at++) {
        if (c->seen[at] == id) return true;
    }
    return false;
}

void miop_see(miop_client *c, uint64_t id) {
    if (miop_seen(c, id)) return;
    if (c->seen_count < MIOP_SEEN_MAX) {
        c->seen[c->seen_count++] = id;
        return;
    }
    c->seen[c->seen_next] = id;
    c->seen_next = (uint16_t)((c->seen_next + 1u) % MIOP_SEEN_MAX);
}

static uint32_t sum(uint32_t before, const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at < size; at++) before = (before ^ bytes[at]) * 16777619u;
    return before;
}

static size_t identity(const miop_client *c, char text[IDENTITY_MAX]) {
    size_t product = strlen(c->config.product), device = strlen(c->config.device);
    memcpy(text, c->config.product, product);
    text[product] = '\n';
    memcpy(text + product + 1, c->config.device, device);
    return product + 1 + device;
}

/* ---- writing ---- */

typedef struct pen {
    miop_client *c;
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
    miop_put(bytes, number, width);
    write_bytes(p, bytes, width);
}

static void write_record(pen *p) {
    miop_client *c = p->c;
    char text[IDENTITY_MAX];
    size_t length = identity(c, text);
    write_bytes(p, "MIOP", 4);
    write_number(p, VERSION, 1);
    write_number(p, length, 2);
    write_bytes(p, text, length);
    write_number(p, c->has_session, 1);
    write_number(p, c->epoch, 8);
    write_bytes(p, c->session, sizeof c->session);
    write_number(p, c->seen_count, 2);
    for (unsigned at = 0; at < c->seen_count; at++) {
        write_number(p, c->seen[(c->seen_next + at) % c->seen_count], 8);
    }
    write_number(p, c->network_count, 1);
    for (unsigned at = 0; at < c->network_count; at++) {
        const miop_network *it = &c->networks[at];
        write_bytes(p, it->name, sizeof it->name);
        write_number(p, it->now, 2);
        write_number(p, it->good, 2);
        write_number(p, it->bad, 2);
    }
    write_number(p, c->next_seq, 4);
    write_number(p, c->reports_used, 4);
    write_bytes(p, c->config.reports, c->reports_used);
    write_number(p, p->sum, 4);
}

bool miop_state_save(miop_client *c) {
    const miop_io *io = &c->config.io;
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
    miop_client *c;
    uint32_t sum;
    bool failed;
} eye;

static void read_bytes(eye *e, void *bytes, size_t size) {
    const miop_io *io = &e->c->config.io;
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
    return miop_number(bytes, width);
}

/* A count that a build with smaller tables cannot hold is a fault as any other. */
static size_t read_count(eye *e, size_t width, size_t most) {
    uint64_t count = read_number(e, width);
    if (count > most) e->failed = true;
    return e->failed ? 0 : (size_t)count;
}

static void read_record(eye *e) {
    miop_client *c = e->c;
    c->has_session = read_number(e, 1) != 0;
    c->epoch = read_number(e, 8);
    read_bytes(e, c->session, sizeof c->session);
    c->seen_count = (uint16_t)read_count(e, 2, MIOP_SEEN_MAX);
    for (unsigned at = 0; at < c->seen_count; at++) c->seen[at] = read_number(e, 8);
    c->network_count = (uint8_t)read_count(e, 1, MIOP_NETWORKS_MAX);
    for (unsigned at = 0; at < c->network_count; at++) {
        miop_network *it = &c->networks[at];
        read_bytes(e, it->name, sizeof it->name);
        it->name[sizeof it->name - 1] = 0;
        it->now = (uint16_t)read_number(e, 2);
        it->good = (uint16_t)read_number(e, 2);
        it->bad = (uint16_t)read_number(e, 2);
    }
    c->next_seq = (uint32_t)read_number(e, 4);
    c->reports_used = read_count(e, 4, c->config.reports_bytes);
    read_bytes(e, c->config.reports, c->reports_used);
}

static void forget(miop_client *c) {
    c->has_session = false;
    c->seen_count = c->seen_next = 0;
    c->network_count = 0;
    c->next_seq = 1;
    c->reports_used = 0;
}

miop_error miop_state_load(miop_client *c) {
    eye e = {c, 2166136261u, false};
    uint8_t head[4];
    char ours[IDENTITY_MAX], theirs[IDENTITY_MAX];
    const miop_io *io = &c->config.io;
    forget(c);
    if (io->load == NULL) return MIOP_OK;
    long first = io->load(io->context, head, 1);
    if (first == 0) return MIOP_OK; /* nothing was stored yet */
    if (first != 1) return MIOP_BAD_STATE;
    e.sum = sum(e.sum, head, 1);
    read_bytes(&e, head + 1, 3);
    if (memcmp(head, "MIOP", 4) != 0 || read_number(&e, 1) != VERSION) return MIOP_BAD_STATE;
    size_t length = read_count(&e, 2, IDENTITY_MAX);
    read_bytes(&e, theirs, length);
    read_record(&e);
    uint32_t expected = e.sum;
    bool is_damaged = read_number(&e, 4) != expected || e.failed;
    bool is_ours = length == identity(c, ours) && memcmp(ours, theirs, length) == 0;
    /* Of another device, the ids, the session and the Reports are not ours. */
    if (is_damaged || !is_ours) forget(c);
    return is_damaged ? MIOP_BAD_STATE : MIOP_OK;
}
