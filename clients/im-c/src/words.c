/* The protocol's words (IM 8): why a session ends, why something was not done. */
#include "parts.h"

#include <string.h>

static const struct {
    uint8_t number;
    const char *word;
} REASONS[] = {
    {0, "unspecified"}, {1, "bad_credentials"}, {2, "not_authorized"}, {3, "name_invalid"},
    {4, "bad_method"}, {5, "unavailable"}, {6, "busy"}, {7, "full"}, {8, "quota"}, {9, "rate"},
    {10, "banned"}, {11, "use_another"}, {12, "moved"}, {13, "shutting_down"}, {14, "taken_over"},
    {15, "admin_kick"}, {16, "expired"}, {17, "store_full"}, {18, "store_failed"},
    {32, "malformed"}, {33, "too_large"}, {34, "out_of_order"}, {35, "login_timeout"},
    {36, "silence"}, {37, "unknown_version"},
};

static const struct {
    uint8_t number;
    const char *word;
} FAULTS[] = {
    {0, "unspecified"}, {1, "unknown_account"}, {2, "conflict"}, {3, "too_large"}, {4, "invalid"},
    {5, "busy"}, {6, "store_full"}, {7, "store_failed"}, {8, "not_member"}, {9, "forbidden"},
    {10, "muted"}, {11, "group_full"}, {12, "unchanged"}, {13, "unknown_message"}, {14, "too_late"},
    {17, "contacts_full"}, {18, "blocked"}, {40, "silenced"}, {41, "rate_limited"},
    {42, "rejected"}, {43, "push_full"}, {44, "no_gateway"}, {45, "unknown_device"},
    {46, "bad_code"}, {47, "media_off"}, {48, "type_refused"}, {49, "upload_quota"},
    {53, "readers_untold"}, {54, "reads_private"}, {55, "no_chatroom"}, {56, "chatroom_full"},
    {57, "chatroom_banned"}, {58, "not_in_chatroom"}, {59, "chatrooms_full"}, {60, "no_session"},
    {64, "group_banned"}, {65, "bans_full"}, {66, "public_full"}, {67, "temporary_full"},
    {68, "invitation_needed"}, {69, "groups_full"},
};

/* Reasons with which a client does not come back by itself, and faults of messages that may be
 * taken later. */
static const uint8_t LASTING[] = {1, 2, 3, 4, 14, 15, 16, 32, 33, 34, 37};
static const uint8_t PASSING[] = {5, 6, 7, 41};

const char *im_reason_word(uint32_t reason) {
    for (size_t at = 0; at < sizeof REASONS / sizeof *REASONS; at++) {
        if (REASONS[at].number == reason) return REASONS[at].word;
    }
    return REASONS[0].word; /* an unknown one is treated as 0 (IM 8.1) */
}

const char *im_fault_word(uint32_t fault) {
    for (size_t at = 0; at < sizeof FAULTS / sizeof *FAULTS; at++) {
        if (FAULTS[at].number == fault) return FAULTS[at].word;
    }
    return FAULTS[0].word;
}

bool im_is_lasting(uint32_t reason) {
    return reason <= UINT8_MAX && memchr(LASTING, (int)reason, sizeof LASTING) != NULL;
}

bool im_is_passing(uint32_t fault) {
    return fault <= UINT8_MAX && memchr(PASSING, (int)fault, sizeof PASSING) != NULL;
}
