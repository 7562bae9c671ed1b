/**
 * The wire's words (IM 8): why a server lets nobody in, ends a connection or does not do what it
 * was asked, and what a client does then.
 */
/** Why a device is not let in, or its connection ends (IM 8.1), and whether it comes back. */
const REASONS = {
    0: ["unspecified", true],
    1: ["bad_credentials", false],
    2: ["not_authorized", false],
    3: ["name_invalid", false],
    4: ["bad_method", false],
    5: ["unavailable", true],
    6: ["busy", true],
    7: ["full", true],
    8: ["quota", true],
    9: ["rate", true],
    10: ["banned", true],
    11: ["use_another", true],
    12: ["moved", true],
    13: ["shutting_down", true],
    14: ["taken_over", false],
    15: ["admin_kick", false],
    16: ["expired", false],
    17: ["store_full", true],
    18: ["store_failed", true],
    32: ["malformed", false],
    33: ["too_large", false],
    34: ["out_of_order", false],
    35: ["login_timeout", true],
    36: ["silence", true],
    37: ["unknown_version", false],
};
/** Why something was not done (IM 8.2), and whether it is asked again by itself. */
const FAULTS = {
    1: ["unknown_account", false],
    2: ["conflict", false],
    3: ["too_large", false],
    4: ["invalid", false],
    5: ["busy", true],
    6: ["store_full", true],
    7: ["store_failed", true],
    8: ["not_member", false],
    9: ["forbidden", false],
    10: ["muted", false],
    11: ["group_full", false],
    12: ["unchanged", false],
    13: ["unknown_message", false],
    14: ["too_late", false],
    17: ["contacts_full", false],
    18: ["blocked", false],
    40: ["silenced", false],
    41: ["rate_limited", true],
    42: ["rejected", false],
    43: ["push_full", false],
    44: ["no_gateway", false],
    45: ["unknown_device", false],
    46: ["bad_code", false],
    47: ["media_off", false],
    48: ["type_refused", false],
    49: ["upload_quota", false],
    53: ["readers_untold", false],
    54: ["reads_private", false],
    55: ["no_chatroom", false],
    56: ["chatroom_full", false],
    57: ["chatroom_banned", false],
    58: ["not_in_chatroom", false],
    59: ["chatrooms_full", false],
    64: ["group_banned", false],
    65: ["bans_full", false],
    66: ["public_full", false],
    67: ["temporary_full", false],
    68: ["invitation_needed", false],
    69: ["groups_full", false],
};
/** What this library says besides the wire's words. */
export const OWN_WORDS = {
    aborted: "the upload was cancelled",
    closed: "the client was closed",
    disconnected: "no connection to the server",
    pin_mismatch: "the server's key is none of the pinned ones",
    insecure: "passwords and tokens are sent only over wss, or to this machine",
    queue_full: "too many messages are waiting to be sent",
    server_not_proved: "the server did not prove that it knows the password",
    server_malformed: "the server sent data that is not IM",
    timed_out: "the server did not answer in time",
    unreachable: "the server cannot be reached",
    upload_failed: "the storage refused the file",
};
const MEANINGS = {
    ...OWN_WORDS,
    unspecified: "the server ended the connection",
    bad_credentials: "wrong name, password, token or proof",
    not_authorized: "an access rule forbids it",
    name_invalid: "the name of the account or device is not allowed",
    bad_method: "the server does not support this authentication method",
    unavailable: "external authentication does not answer",
    busy: "too many requests at once",
    full: "a limit of connections or sessions is reached",
    quota: "a quota is exceeded",
    rate: "a rate limit is exceeded",
    banned: "the address or the account is banned",
    use_another: "use another server for now",
    moved: "use another server from now on",
    shutting_down: "the server is shutting down",
    taken_over: "a newer connection of the same device took over",
    admin_kick: "an operator ended the connection",
    expired: "the authorization of the session expired",
    store_full: "the server's log is full",
    store_failed: "the server's log failed: writes are refused until it restarts",
    malformed: "a malformed frame",
    too_large: "larger than allowed",
    out_of_order: "a frame is not allowed in this state",
    login_timeout: "no login arrived in time",
    silence: "nothing was received for longer than agreed",
    unknown_version: "the protocol version is not supported",
    unknown_account: "unknown account",
    conflict: "the client id was used for another message",
    not_member: "unknown group, or you are not a member",
    forbidden: "your role in the group does not permit it",
    muted: "you are muted, or the group is closed",
    group_full: "the group would have more members than allowed",
    unchanged: "nothing to change: it is already so",
    unknown_message: "unknown message",
    too_late: "the message is too old to recall or edit",
    contacts_full: "you have the maximum number of contacts",
    blocked: "you have blocked the recipient",
    silenced: "an operator has muted the account",
    rate_limited: "rate limit exceeded: it is sent again",
    rejected: "the message was rejected by the server's rules",
    push_full: "the account has the maximum number of devices for push notifications",
    no_gateway: "the server has no push gateway",
    unknown_device: "unknown device: it is not registered for push notifications",
    bad_code: "the code is wrong or expired",
    media_off: "this server does not store files",
    type_refused: "files of this type are not accepted",
    upload_quota: "you reached your upload quota for today",
    no_chatroom: "unknown chatroom",
    chatroom_full: "the chatroom is full",
    chatroom_banned: "you are banned from the chatroom",
    not_in_chatroom: "you are not in the chatroom",
    group_banned: "the account is banned from the group",
    bans_full: "the group has the maximum number of banned accounts",
    public_full: "the maximum number of public groups is reached",
    temporary_full: "the maximum number of temporary groups is reached",
    invitation_needed: "the account can only be invited, not added",
    groups_full: "you have created the maximum number of groups",
    chatrooms_full: "the maximum number of chatrooms is reached",
    readers_untold: "the group is too large to show who has read a message",
    reads_private: "you do not share what you have read, so you cannot see what others have read",
    invalid: "invalid request: an invalid address, or an empty message",
};
/** A fault of the server, of the connection, or of what was asked. */
export class ImError extends Error {
    code;
    /**
     * @param code the wire's word for it (IM 8), or one of {@link OWN_WORDS}. Stable: go by this.
     * @param detail what the server said besides, for logs.
     */
    constructor(code, detail = "") {
        const meaning = MEANINGS[code] ?? "a reason that this version does not know";
        super(`${code}: ${meaning}${detail === "" || detail === code ? "" : ` (${detail})`}`);
        this.code = code;
        this.name = "ImError";
    }
}
/** A reason of Refused or End. What is not known is taken for 0 (IM 8.1). */
export function reasonOf(number, word) {
    const [code, comesBack] = REASONS[number] ?? REASONS[0];
    return { error: new ImError(code, word), comesBack };
}
/** The client is to use another server, for now or from now on. */
export function isElsewhere(code) {
    return code === "use_another" || code === "moved";
}
/** A fault of Failed. One that a later version added is not asked again. */
export function faultOf(number, word) {
    const [code, asksAgain] = FAULTS[number] ?? ["unspecified", false];
    return { error: new ImError(code, word), asksAgain };
}
