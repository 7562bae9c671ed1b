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
    11: ["use_another", false],
    12: ["moved", false],
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
    aborted: "the upload was given up",
    closed: "the client was closed",
    disconnected: "there is no connection to the server",
    insecure: "a password or a token is shown over wss, or to this machine, alone",
    queue_full: "too many messages wait to be sent",
    server_not_proved: "the server did not prove that it knows the password",
    server_malformed: "the server said something that is not IM",
    timed_out: "the server did not answer in time",
    unreachable: "the server cannot be reached",
    upload_failed: "the storage did not take the file",
};
const MEANINGS = {
    ...OWN_WORDS,
    unspecified: "the server ended the connection",
    bad_credentials: "name, password, token or proof are wrong",
    not_authorized: "a rule forbids it",
    name_invalid: "the account's or the device's name is not allowed",
    bad_method: "the server does not know this way to log in",
    unavailable: "what the server must ask does not answer",
    busy: "too much at once",
    full: "the server holds as many as it may",
    quota: "more than a quota allows",
    rate: "more than a rate allows",
    banned: "refused for now, because it comes and goes too often",
    use_another: "go to another server, for now",
    moved: "go to another server, for good",
    shutting_down: "the server is going",
    taken_over: "a newer connection of the same device took over",
    admin_kick: "an operator said so",
    expired: "the session's authorisation is over",
    store_full: "the server's log has no room",
    store_failed: "the server's log takes nothing until a restart",
    malformed: "a frame that breaks the rules of its format",
    too_large: "larger than allowed",
    out_of_order: "a frame that is not allowed now",
    login_timeout: "the login did not come in time",
    silence: "nothing was heard for longer than agreed",
    unknown_version: "a version of the protocol that is not served",
    unknown_account: "there is no such account",
    conflict: "the client id was used for another message",
    not_member: "there is no such group, or you are no member of it",
    forbidden: "your role in the group does not allow it",
    muted: "you are muted, or the group is closed",
    group_full: "the group has no room for so many members",
    unchanged: "it is so already",
    unknown_message: "there is no such message of yours",
    too_late: "the message is too old to be called back",
    contacts_full: "you may not have so many contacts",
    blocked: "you have blocked whom it is for",
    silenced: "an operator has muted the account",
    rate_limited: "too much at once: it is sent again",
    rejected: "what is said is not allowed here",
    push_full: "the account may not register so many devices to be woken",
    no_gateway: "the server has no gateway for pushes",
    unknown_device: "there is no such device to be woken",
    bad_code: "the code is not the one that was pushed to the device, or too old",
    media_off: "this server takes no files",
    type_refused: "files of this type are not taken",
    upload_quota: "you may upload no more today",
    no_chatroom: "there is no such chatroom",
    chatroom_full: "the chatroom has no room for more",
    chatroom_banned: "you are banned from the chatroom",
    not_in_chatroom: "you are not in the chatroom",
    group_banned: "they are banned from the group",
    bans_full: "no more may be banned from the group",
    public_full: "no more groups may be public",
    temporary_full: "no more groups may be temporary",
    invitation_needed: "they are not added, but invited",
    groups_full: "you have made as many groups as you may",
    chatrooms_full: "there are as many chatrooms as may be, or you are in as many",
    readers_untold: "the group is too large to tell who has read what",
    reads_private: "who does not share what they read is told of nobody",
    invalid: "the request makes no sense: an address that is none, or nothing to say",
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
/** A fault of Failed. One that a later version added is not asked again. */
export function faultOf(number, word) {
    const [code, asksAgain] = FAULTS[number] ?? ["unspecified", false];
    return { error: new ImError(code, word), asksAgain };
}
