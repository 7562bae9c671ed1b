/* When to connect again, and how long to be silent (rules 3 and 12 of
 * clients/conformance/README.md). */
#include "parts.h"

#include <string.h>

enum {
    ANSWERS_TO_GROW = 2, ANSWERS_TO_FORGET = 50, SETTLED_S = 10,
    FIRST_MS = 1000, LONGEST_MS = 60000
};

/* Exponential back-off with full jitter, so that a server that comes back is not met by all its
 * clients in one second. The jitter is added to the server's hint. */
void im_backoff_reset(im_backoff *b) { b->span_ms = FIRST_MS; }

uint32_t im_backoff_next(im_backoff *b, uint32_t hint_ms, uint32_t random) {
    uint32_t wait = (uint32_t)((uint64_t)b->span_ms * random >> 32);
    b->span_ms = b->span_ms > LONGEST_MS / 2 ? LONGEST_MS : b->span_ms * 2;
    return hint_ms + wait;
}

/* The interval grows by half while the connection survives it, and is halved between the longest
 * that worked and the shortest that failed until the two are close. */

void im_heartbeat_use(im_client *c, const char *network) {
    im_heartbeat *h = &c->heartbeat;
    im_network *known = &h->known;
    memset(known, 0, sizeof *known);
    size_t length = strlen(network);
    memcpy(known->name, network, length < IM_NETWORK_BYTES ? length : IM_NETWORK_BYTES - 1);
    for (unsigned at = 0; at < c->network_count; at++) {
        if (strcmp(c->networks[at].name, known->name) == 0) *known = c->networks[at];
    }
    if (known->now == 0) known->now = h->first;
    h->answers = h->answers_bounded = 0;
    h->suspect = 0;
}

void im_heartbeat_learn(im_client *c) {
    unsigned at = 0;
    while (at < c->network_count && strcmp(c->networks[at].name, c->heartbeat.known.name) != 0) {
        at++;
    }
    if (at == c->network_count) {
        if (c->network_count < IM_NETWORKS_MAX) {
            c->network_count++;
        } else {
            at = 0; /* the longest unused one is forgotten */
        }
    } else if (at == c->network_count - 1u
               && memcmp(&c->networks[at], &c->heartbeat.known, sizeof *c->networks) == 0) {
        return;
    }
    memmove(c->networks + at, c->networks + at + 1,
            (c->network_count - 1u - at) * sizeof *c->networks);
    c->networks[c->network_count - 1] = c->heartbeat.known;
    c->is_dirty = true;
}

uint16_t im_heartbeat_interval(const im_heartbeat *h) {
    uint16_t seconds = h->known.now;
    if (seconds < h->shortest) seconds = h->shortest;
    if (seconds > h->longest) seconds = h->longest;
    return seconds < h->agreed ? seconds : h->agreed;
}

void im_heartbeat_lived(im_heartbeat *h, uint16_t seconds) {
    im_network *known = &h->known;
    if (seconds > known->good) known->good = seconds;
    if (known->bad != 0) {
        h->answers_bounded++;
        if (known->good >= known->bad || h->answers_bounded >= ANSWERS_TO_FORGET) {
            known->bad = 0;
            h->answers_bounded = 0;
        }
    }
    if (++h->answers < ANSWERS_TO_GROW) return;
    h->answers = 0;
    if (known->bad == 0) {
        uint32_t longer = seconds + seconds / 2u;
        known->now = longer < h->longest ? (uint16_t)longer : h->longest;
    } else {
        uint16_t close = known->good / 8 > SETTLED_S ? known->good / 8 : SETTLED_S;
        if (known->bad - known->good > close) {
            known->now = (uint16_t)((known->good + known->bad) / 2u);
        }
    }
}

/* If the next connection succeeded at the first attempt, the network was there, and the silence was
 * what the connection before did not survive. */
void im_heartbeat_bound(im_heartbeat *h, bool at_first) {
    uint16_t failed = h->suspect;
    h->suspect = 0;
    if (failed == 0 || !at_first) return;
    h->known.bad = failed;
    h->answers = h->answers_bounded = 0;
    if (h->known.good >= failed) h->known.good = 0;
    h->known.now = h->known.good;
    if (h->known.good == 0) {
        h->known.now = failed / 2 > h->shortest ? failed / 2 : h->shortest;
    }
}
