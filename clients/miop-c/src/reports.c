/* The queue of Reports, which outlives connections and restarts (clients/conformance/README.md,
 * 20 to 22). Records lie one behind another in the caller's buffer, the oldest first. */
#include "parts.h"

#include <string.h>

enum { IN_FLIGHT_MAX = 16, PAUSE_FIRST_MS = 5000, PAUSE_LONGEST_MS = 300000 };

/* The record at a place, and the place after it; false at the end. */
static bool at_place(const miop_client *c, size_t *place, miop_waiting *found) {
    if (*place >= c->reports_used) return false;
    uint8_t *record = c->config.reports + *place;
    found->record = record;
    found->seq = (uint32_t)miop_number(record, 4);
    found->client_id_bytes = record[5];
    found->client_id = (const char *)record + MIOP_REPORT_HEAD;
    found->body.size = (size_t)miop_number(record + 6, 4);
    found->body.data = record + MIOP_REPORT_HEAD + record[5];
    *place += MIOP_REPORT_HEAD + record[5] + found->body.size;
    return true;
}

static bool is_sent(const miop_waiting *it) { return it->record[4] != 0; }

static uint32_t seq_after(uint32_t seq) { return seq == UINT32_MAX ? 1 : seq + 1; }

miop_error miop_reports_add(miop_client *c, const char *client_id, const void *body, size_t size,
                            bool *is_new) {
    size_t id_bytes = strlen(client_id), place = 0, count = 0;
    miop_waiting it;
    *is_new = false;
    while (at_place(c, &place, &it)) {
        count++;
        if (it.client_id_bytes == id_bytes && memcmp(it.client_id, client_id, id_bytes) == 0) {
            return MIOP_OK;
        }
    }
    if (id_bytes >= MIOP_CLIENT_ID_BYTES || size + MIOP_REPORT_FRAME_HEAD > c->config.out_bytes
        || size + MIOP_REPORT_FRAME_HEAD > c->frame_max) {
        return MIOP_TOO_LARGE;
    }
    if (count >= MIOP_REPORTS_MAX
        || MIOP_REPORT_HEAD + id_bytes + size > c->config.reports_bytes - c->reports_used) {
        return MIOP_QUEUE_FULL;
    }
    uint8_t *record = c->config.reports + c->reports_used;
    miop_put(record, c->next_seq, 4);
    record[4] = 0;
    record[5] = (uint8_t)id_bytes;
    miop_put(record + 6, size, 4);
    memcpy(record + MIOP_REPORT_HEAD, client_id, id_bytes);
    if (size > 0) memcpy(record + MIOP_REPORT_HEAD + id_bytes, body, size);
    c->reports_used = place + MIOP_REPORT_HEAD + id_bytes + size;
    c->next_seq = seq_after(c->next_seq);
    *is_new = true;
    return MIOP_OK;
}

/* Takes back the one that was queued last: it could not be stored. */
void miop_reports_drop_last(miop_client *c) {
    size_t place = 0, last = 0;
    miop_waiting it;
    while (last = place, at_place(c, &place, &it)) {
        if (place == c->reports_used) {
            c->reports_used = last;
            c->next_seq = it.seq;
        }
    }
}

/* What was in flight on the last connection is sent again. */
void miop_reports_connected(miop_client *c) {
    size_t place = 0;
    miop_waiting it;
    while (at_place(c, &place, &it)) it.record[4] = 0;
    c->reports_paused_to = 0;
}

/* One that is larger than this server accepts waits for another: it would end the connection. */
bool miop_reports_next(miop_client *c, int64_t now, miop_waiting *next) {
    size_t place = 0;
    unsigned in_flight = 0;
    bool found = false;
    miop_waiting it;
    if (now < c->reports_paused_to) return false;
    c->reports_paused_to = 0;
    while (at_place(c, &place, &it)) {
        if (is_sent(&it)) {
            in_flight++;
        } else if (!found && it.body.size + MIOP_REPORT_FRAME_HEAD <= c->frame_max) {
            *next = it;
            found = true;
        }
    }
    return found && in_flight < IN_FLIGHT_MAX;
}

/* The server has all up to a number, of those that it did not refuse. */
void miop_reports_taken(miop_client *c, uint32_t up_to) {
    size_t place = 0, from = 0;
    char client_id[MIOP_CLIENT_ID_BYTES];
    miop_waiting it;
    while (from = place, at_place(c, &place, &it)) {
        if (!is_sent(&it) || (int32_t)(up_to - it.seq) < 0) continue;
        memcpy(client_id, it.client_id, it.client_id_bytes);
        client_id[it.client_id_bytes] = 0;
        memmove(c->config.reports + from, c->config.reports + place, c->reports_used - place);
        c->reports_used -= place - from;
        place = from;
        c->is_dirty = true;
        miop_backoff_reset(&c->report_pause);
        if (c->config.on_stored != NULL) c->config.on_stored(c->config.app, client_id);
    }
}

/* The server did not accept this one now: nothing is sent for a pause, half of it random. */
void miop_reports_refused(miop_client *c, int64_t now, uint32_t seq) {
    size_t place = 0;
    miop_waiting it;
    while (at_place(c, &place, &it)) {
        if (it.seq != seq || !is_sent(&it)) continue;
        uint64_t half = c->report_pause.span_ms / 2;
        it.record[4] = 0;
        c->reports_paused_to = now + (int64_t)(half + (half * miop_random_word(c) >> 32));
        miop_backoff_next(&c->report_pause, 0, 0); /* the next pause is twice as long */
    }
}

int64_t miop_reports_wake_at(const miop_client *c) {
    size_t place = 0;
    miop_waiting it;
    if (c->reports_paused_to == 0) return MIOP_NEVER;
    while (at_place(c, &place, &it)) {
        if (!is_sent(&it)) return c->reports_paused_to;
    }
    return MIOP_NEVER;
}
