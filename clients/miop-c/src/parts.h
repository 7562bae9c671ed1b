/* What the files of the library know of each other. */
#ifndef MIOP_PARTS_H
#define MIOP_PARTS_H

#include "miop.h"
#include "wire.h"

/* state.c */
miop_error miop_state_load(miop_client *c);
/* Stores the record if it has changed; false if that failed. */
bool miop_state_save(miop_client *c);
bool miop_seen(const miop_client *c, uint64_t id);
void miop_see(miop_client *c, uint64_t id);

/* heartbeat.c */
void miop_backoff_reset(miop_backoff *b);
/* How long to wait now: random is 32 random bits. */
uint32_t miop_backoff_next(miop_backoff *b, uint32_t retry_ms, uint32_t random);
void miop_heartbeat_use(miop_client *c, const char *network);
/* Remembers what was found out. */
void miop_heartbeat_learn(miop_client *c);
uint16_t miop_heartbeat_interval(const miop_heartbeat *h);
void miop_heartbeat_lived(miop_heartbeat *h, uint16_t seconds);
void miop_heartbeat_bound(miop_heartbeat *h, bool at_first);

/* reports.c: records of u32 seq, u8 sent, u8 length of the id, u32 length of the body, id, body. */
enum { MIOP_REPORT_HEAD = 10, MIOP_REPORT_FRAME_HEAD = 13 };
typedef struct miop_waiting {
    uint32_t seq;
    const char *client_id;
    size_t client_id_bytes;
    miop_bytes body;
    uint8_t *record;
} miop_waiting;
miop_error miop_reports_add(miop_client *c, const char *client_id, const void *body, size_t size,
                            bool *is_new);
void miop_reports_drop_last(miop_client *c);
void miop_reports_connected(miop_client *c);
/* The first that is not in flight, if there is room for it. */
bool miop_reports_next(miop_client *c, int64_t now, miop_waiting *next);
void miop_reports_taken(miop_client *c, uint32_t up_to);
void miop_reports_refused(miop_client *c, int64_t now, uint32_t seq);
int64_t miop_reports_wake_at(const miop_client *c);

uint32_t miop_random_word(miop_client *c);

#endif
