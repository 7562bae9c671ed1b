/* How far this device is in its account's inbox, and what it does to go on (IM 5). Invariant: an
 * entry is handed out once in the life of a client, in the inbox's order, without a gap but for
 * what this device has sent itself. */
#include "parts.h"

#include <string.h>

enum {
    UNACKNOWLEDGED_MAX = 32, /* entries that are acknowledged together without waiting */
    ACKNOWLEDGE_MS = 1000    /* the longest that an acknowledgement waits for others (IM 5.5) */
};

static bool is_full(const im_inbox *b) { return b->held_count >= IM_HELD_MAX; }

void im_inbox_begin(im_inbox *b, uint64_t cursor, uint64_t head) {
    /* An inbox that ends before what is known is another one. */
    if (!b->has_done || b->last > head) {
        b->last = b->done = cursor;
        b->has_done = true;
        b->held_count = 0;
    }
    b->acknowledged = cursor;
    b->head = head;
    b->own = 0;
    b->pull_at = 0;
    b->is_pulling = false;
    /* Until it has pulled up to the head, the server sends nothing by itself (IM 5.2). */
    b->must_pull = cursor != head || b->last != cursor;
    b->acknowledge_at = b->done > cursor ? 0 : IM_NEVER;
}

bool im_inbox_comes(im_inbox *b, uint64_t place) {
    bool is_behind = b->must_pull || b->is_pulling || b->head > b->last || is_full(b);
    if (place > b->head) b->head = place;
    if (place <= b->last || is_full(b)) return false;
    uint64_t between = place - b->last - 1;
    if (between > b->own || (between > 0 && is_behind)) return false;
    b->own -= between;
    b->last = place;
    return true;
}

uint64_t im_inbox_page(im_inbox *b, uint64_t upto, uint64_t head) {
    uint64_t before = b->last;
    b->is_pulling = false;
    b->own = 0;
    if (head > b->head) b->head = head;
    if (upto > b->last) b->last = upto;
    if (b->last >= b->head) b->must_pull = false;
    return before;
}

bool im_inbox_cut(im_inbox *b) {
    b->is_pulling = false;
    if (b->pull_count <= 1) return false;
    b->pull_count /= 2;
    return true;
}

void im_inbox_hold(im_inbox *b, uint64_t place) {
    if (!is_full(b)) b->held[b->held_count++] = place; /* there is room: who calls has seen to it */
}

bool im_inbox_release(im_inbox *b, uint64_t place) {
    for (unsigned at = 0; at < b->held_count; at++) {
        if (b->held[at] != place) continue;
        b->held_count--;
        memmove(b->held + at, b->held + at + 1, (b->held_count - at) * sizeof *b->held);
        return true;
    }
    return false;
}

bool im_inbox_advance(im_inbox *b, int64_t now) {
    uint64_t done = b->held_count > 0 ? b->held[0] - 1 : b->last;
    bool has_changed = b->has_done && done > b->done;
    if (has_changed) b->done = done;
    if (b->done > b->acknowledged && b->acknowledge_at == IM_NEVER) {
        b->acknowledge_at = now + ACKNOWLEDGE_MS;
    }
    return has_changed;
}

bool im_inbox_owes_acknowledgement(const im_inbox *b, int64_t now) {
    return b->done > b->acknowledged && b->acknowledge_at != IM_NEVER
        && (b->done - b->acknowledged >= UNACKNOWLEDGED_MAX || now >= b->acknowledge_at);
}

bool im_inbox_wants_pull(const im_inbox *b) {
    return !b->is_pulling && !is_full(b) && (b->must_pull || b->last < b->head);
}

int64_t im_inbox_due(const im_inbox *b) {
    int64_t pull_at = im_inbox_wants_pull(b) ? b->pull_at : IM_NEVER;
    return b->acknowledge_at < pull_at ? b->acknowledge_at : pull_at;
}
