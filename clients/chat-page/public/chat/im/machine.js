/**
 * One device of an account as a pure state machine: bytes, orders and the time go in, actions come
 * out. It knows no socket, no timer and no storage.
 *
 * ```text
 *            connect            opened          LoggedIn
 *   idle ──────────► opening ─────────► login ───────────► online
 *    ▲                 ▲  │               │ Refused           │ End, lost, silent
 *    │ close           │  ▼ lost          ▼                   ▼
 *    └──── any       waiting ◄────── comes back? ────► ended
 * ```
 * Invariants: each message of the inbox is told once and in order; each message that was said stays
 * in the queue, under one client id, until the server has answered it for good.
 */
import { Addresses } from "./addresses.js";
import { Asks, failed } from "./asks.js";
import { Backoff } from "./backoff.js";
import { isChatroom, newsOf } from "./chatroom.js";
import { pageOf } from "./conversation.js";
import { ConversationList } from "./conversation-list.js";
import { listRequest } from "./conversation-requests.js";
import { contactVerbNumber } from "./contact.js";
import { Follower } from "./follower.js";
import { clientFrame, Deframer, PREFACE, readServerFrame, SERVER_FRAME_BYTES_MAX, } from "./frames.js";
import { MEMBERS_PAGE, verbNumber } from "./group.js";
import { placedAll, placedEvent, placedMessage } from "./inbox.js";
import { Keepalive } from "./keepalive.js";
import { contentBytes, contentFields, exact, messageOf, targetOf, unhex, whole } from "./message.js";
import { Outbox } from "./outbox.js";
import { People } from "./people.js";
import { deliveredOf } from "./receipts.js";
import { base64 } from "./scram.js";
import { transientFields, transientOf } from "./transient.js";
import { WireFault } from "./wire.js";
import { faultOf, ImError, isElsewhere, reasonOf } from "./words.js";
/** Time for the connection and the login, milliseconds. */
const CONNECT_MS = 20_000;
/** A server cannot send a client away for longer than this, milliseconds. */
const HINT_MS_MAX = 3_600_000;
/** Requests under way at once, if the server allows as many. */
const WINDOW_MAX = 64;
/** Own messages whose place in the inbox may still be pulled. */
const OWN_TOLD_MAX = 1_024;
/** Numbers of the pulls, and of what the list asks: no other request has them. */
const PULL_NUMBER = 0xffff_ffff;
const LIST_NUMBER = 0xffff_fffe;
/** Numbers of what is asked of contacts, and said of presence: likewise. */
const CONTACTS_NUMBER = 0xffff_fffd;
const PRESENCE_NUMBER = 0xffff_fffc;
/** The machine. */
export class Machine {
    settings;
    outbox;
    /** The account's conversations, kept right while it is connected. */
    list;
    /** The account's contacts and who is there, kept right while it is connected. */
    people;
    #backoff;
    #addresses;
    #actions = [];
    #asked = new Asks();
    /** Client ids of own messages that were told when they were stored. */
    #ownTold = new Set();
    #state = { name: "idle" };
    #phase = "idle";
    #link = 0;
    #deframer = new Deframer(SERVER_FRAME_BYTES_MAX);
    #keepalive = new Keepalive();
    /** When the connection must stand, or the next one is opened. */
    #due = Infinity;
    /** The server asked not to be called before. */
    #notBefore = 0;
    #method = 0;
    /** What the server must say to prove that it knows the password. */
    #signature;
    #session;
    #last;
    #number = 0;
    /** The list as it was told last. */
    #toldList;
    /** The contacts as they were told last. */
    #toldContacts;
    constructor(settings, remembered) {
        this.settings = settings;
        this.outbox = new Outbox(settings.queue, remembered.queue);
        this.list = new ConversationList(settings.listMax);
        this.#toldList = this.list.all;
        this.people = new People(settings.people);
        this.#toldContacts = this.people.contacts;
        this.#backoff = new Backoff(settings.random);
        this.#addresses = new Addresses(settings.urls);
        this.#last = remembered.last;
    }
    get state() {
        return this.#state;
    }
    /** The next thing to do outside. */
    next() {
        return this.#actions.shift();
    }
    /** When {@link wake} is to be called, if nothing happens before. */
    get wakeAt() {
        const session = this.#session;
        if (session === undefined)
            return this.#due;
        const inside = Math.min(session.follower.wakeAt, this.outbox.wakeAt, this.list.wakeAt);
        return Math.min(inside, this.people.wakeAt, this.#keepalive.wakeAt);
    }
    // ---- orders
    connect(now) {
        if (this.#phase === "idle" || this.#phase === "ended") {
            this.#backoff.reset();
            this.#method = 0;
        }
        else if (this.#phase !== "waiting") {
            return;
        }
        this.#open(now);
    }
    /** Says farewell. The queue stays, for the next time. */
    close() {
        if (this.#isHeard)
            this.#write(0, clientFrame("goodbye"));
        this.#leave(new ImError("closed"), "idle");
        this.#tellState({ name: "idle" });
    }
    /** The network may be back, or the page was woken: looks at once whether it is. */
    nudge(now) {
        if (this.#phase === "waiting" && now >= this.#notBefore)
            this.#open(now);
        else if (this.#phase === "online") {
            this.#write(now, clientFrame("ping"));
            this.#keepalive.probe(now);
        }
    }
    /** Says something. Throws where the queue has no room. */
    send(now, message) {
        this.outbox.add(message);
        this.#act({ do: "keep_queue" });
        this.#refuseLarge([message]);
        this.#pump(now);
    }
    /** Asks for a part of a conversation; answered under this number. */
    history(now, ask, asked) {
        const number = this.#asks({ do: "history", ask, asked });
        if (number === undefined)
            return;
        const { peer, before, after, count } = asked;
        const from = BigInt(after ?? before);
        const backwards = after === undefined;
        this.#ask(now, clientFrame("history", { number, with: peer, from, backwards, count }));
    }
    /** Makes a group, or changes one; answered under this number. */
    order(now, ask, order) {
        const number = this.#asks({ do: "changed", ask });
        if (number === undefined)
            return;
        const { group, title, members: named } = order;
        const [client_id, verb, members] = [unhex(order.clientId), verbNumber(order.verb), [...named]];
        this.#ask(now, clientFrame("group", { number, group, client_id, verb, title, members }));
    }
    /** Asks for a page of a group's members; answered under this number. */
    members(now, ask, group, at) {
        const number = this.#asks({ do: "members", ask });
        if (number === undefined)
            return;
        this.#ask(now, clientFrame("members", { number, group, ...at, count: MEMBERS_PAGE }));
    }
    /** Has the list know of a conversation, though it be hidden. */
    look(now, peer) {
        this.list.look(peer);
        this.#pump(now);
    }
    /** Asks something; answered under this number. */
    about(now, ask, request) {
        const number = this.#asks({ do: request.answer, ask });
        if (number !== undefined)
            this.#ask(now, request.frame(number));
    }
    /** Asks for leave to upload a file; answered under this number. */
    upload(now, ask, { name, type, bytes }) {
        const number = this.#asks({ do: "upload", ask });
        if (number === undefined)
            return;
        this.#ask(now, clientFrame("upload", { number, name, type, bytes: BigInt(bytes) }));
    }
    /** Most bytes of a file; 0: there is no connection, or the server takes none. */
    get fileBytesMax() {
        return Number(this.#session?.limits.file_bytes_max ?? 0n);
    }
    /** Wants something of a contact; answered under this number. */
    contact(now, ask, order) {
        const number = this.#asks({ do: "done", ask });
        if (number === undefined)
            return;
        const { contact, name, groups, greeting } = order;
        const fields = { contact, verb: contactVerbNumber(order.verb), name, greeting };
        this.#ask(now, clientFrame("contact", { number, ...fields, groups: [...groups] }));
    }
    /** Tells something that is kept nowhere: to nobody, while there is no connection. */
    transient(now, to, told) {
        if (this.#session === undefined)
            return;
        this.#write(now, clientFrame("transient", transientFields(to, told)));
    }
    /** Is there so, now and after each time that it comes in. */
    present(now, own) {
        this.people.says(own);
        this.#pump(now);
    }
    /** The number of a request that is to be answered; `undefined`: nobody is there to answer it. */
    #asks(asked) {
        if (this.#session === undefined) {
            this.#act(failed(asked, new ImError("disconnected")));
            return undefined;
        }
        const number = this.#takeNumber();
        this.#asked.asked(number, asked);
        return number;
    }
    // ---- what happens outside
    /** The connection is open. `expected`: what the server must prove, of a login by a token. */
    opened(now, link, login, expected) {
        if (link !== this.#link || this.#phase !== "opening")
            return;
        this.#phase = "login";
        this.#signature = expected;
        const { account: name, device, silenceS: silence_s } = this.settings;
        this.#write(now, PREFACE);
        this.#write(now, clientFrame("login", { name, device, silence_s, ...login }));
    }
    /** The answer to a challenge, and what the server must say then. `undefined`: there is none. */
    proceed(now, link, proof) {
        if (link !== this.#link || this.#phase !== "login")
            return;
        if (proof === undefined)
            return this.#end(new ImError("server_not_proved"));
        this.#signature = proof.expected;
        this.#write(now, clientFrame("proceed", { data: proof.data }));
    }
    received(now, link, bytes) {
        if (link !== this.#link || !this.#isHeard)
            return;
        this.#keepalive.heard();
        const handled = [];
        try {
            for (const body of this.#deframer.push(bytes)) {
                const frame = readServerFrame(body);
                if (frame === undefined)
                    continue;
                this.#take(now, frame);
                handled.push(frame.kind);
                if (link !== this.#link || !this.#isHeard)
                    return;
            }
        }
        catch (error) {
            if (!(error instanceof WireFault))
                throw error;
            return this.#lose(now, new ImError("server_malformed", error.word), 0);
        }
        this.#keepLast();
        this.#pump(now);
        for (const answer of handled)
            this.#act({ do: "handled", answer });
    }
    /** The connection could not be made, or is gone. */
    lost(now, link, error) {
        if (link !== this.#link)
            return;
        const code = this.#phase === "opening" ? "unreachable" : "disconnected";
        const isOver = ["idle", "waiting", "ended"].includes(this.#phase);
        if (!isOver)
            this.#lose(now, error ?? new ImError(code), 0);
    }
    /** The time has come that {@link wakeAt} said. */
    wake(now) {
        if (this.#session === undefined) {
            if (now < this.#due)
                return;
            if (this.#phase === "waiting")
                this.#open(now);
            else
                this.#lose(now, new ImError("timed_out"), 0);
            return;
        }
        if (this.#keepalive.isDead(now))
            return this.#lose(now, new ImError("timed_out"), 0);
        if (this.#keepalive.isPingDue(now))
            this.#ask(now, clientFrame("ping"));
        this.#pump(now);
    }
    // ---- frames
    #take(now, frame) {
        if (frame.kind === "end")
            return this.#farewell(now, frame.fields, false);
        if (this.#session === undefined)
            return this.#takeInLogin(now, frame);
        const { follower, account } = this.#session;
        switch (frame.kind) {
            case "sent": {
                this.#answered(frame, account);
                const { number, id, again } = frame.fields;
                const sent = { id, seq: exact(frame.fields.seq), at: exact(frame.fields.at_ms) };
                const queued = this.outbox.answered(number);
                if (queued === undefined)
                    return;
                if (isChatroom(queued.to))
                    return this.#tellSent({ ...sent, ...queued, peer: queued.to });
                if (!again)
                    follower.sentOwn();
                return this.#stored(queued, sent);
            }
            case "failed":
                return this.#failed(now, frame.fields);
            case "message": {
                const { place, entry } = placedMessage(frame.fields, account);
                return this.#tell(follower.comes(now, place, entry));
            }
            case "event": {
                const { place, entry } = placedEvent(frame.fields);
                return this.#tell(follower.comes(now, place, entry));
            }
            case "notify":
                return follower.notify(exact(frame.fields.head));
            case "page": {
                const { number, upto, head } = frame.fields;
                if (number !== PULL_NUMBER)
                    return;
                const all = placedAll(frame.fields, account);
                return this.#tell(follower.page(now, all, exact(upto), exact(head)));
            }
            case "conversations":
                if (frame.fields.number !== LIST_NUMBER)
                    return this.#answered(frame, account);
                return this.list.page(pageOf(frame.fields, account));
            case "history":
            case "changed":
            case "members":
            case "marked_read":
            case "set":
            case "upload":
            case "readers":
            case "privacy":
            case "found":
            case "chatroom_joined":
            case "token":
                return this.#answered(frame, account);
            case "delivered":
                return this.#act({ do: "delivered", delivered: deliveredOf(frame.fields) });
            case "chatroom_message":
            case "chatroom_missed":
            case "chatroom_news":
                return this.#takeOfChatroom(frame, account);
            case "contacts":
            case "contact":
            case "presence":
            case "done":
                return this.#takeOfPeople(frame, account);
            case "transient":
                return this.#act({ do: "transient", transient: transientOf(frame.fields, account) });
            case "pong":
                return;
            default:
                return this.#lose(now, new ImError("server_malformed", "out_of_order"), 0);
        }
    }
    #answered(frame, account) {
        const answer = this.#asked.answered(frame, account);
        if (answer !== undefined)
            this.#act(answer);
    }
    #takeOfChatroom(frame, account) {
        switch (frame.kind) {
            case "chatroom_message": {
                const { message: fields, important: isImportant } = frame.fields;
                if (fields === undefined)
                    return;
                const message = messageOf(fields, account);
                return this.#act({
                    do: "chatroom", event: { room: message.to, message, isImportant },
                });
            }
            case "chatroom_missed":
                return this.#act({ do: "chatroom", event: frame.fields });
            case "chatroom_news":
                return this.#act({ do: "chatroom", event: newsOf(frame.fields) });
        }
    }
    #takeOfPeople(frame, account) {
        switch (frame.kind) {
            case "contacts":
                return frame.fields.number === CONTACTS_NUMBER ? this.people.page(frame.fields) : undefined;
            case "contact": {
                const change = this.people.changed(frame.fields);
                return change && this.#act({ do: "contact", change });
            }
            case "presence":
                return this.#act({ do: "presence", presence: this.people.told(frame.fields) });
            case "done":
                if (frame.fields.number === PRESENCE_NUMBER)
                    return this.people.isThere();
                return this.#answered(frame, account);
        }
    }
    #takeInLogin(now, frame) {
        switch (frame.kind) {
            case "logged_in":
                return this.#loggedIn(now, frame.fields);
            case "challenge":
                return this.#act({ do: "prove", link: this.#link, challenge: frame.fields.data });
            case "refused":
                return this.#farewell(now, frame.fields, true);
            default:
                return this.#lose(now, new ImError("server_malformed", "out_of_order"), 0);
        }
    }
    #loggedIn(now, fields) {
        if (!this.#isProved(fields.data))
            return this.#end(new ImError("server_not_proved"));
        const [cursor, head] = [exact(fields.cursor), exact(fields.head)];
        // An inbox that ends before what is here is not the one that was followed.
        const isSame = this.#last !== undefined && this.#last <= head;
        const last = isSame ? this.#last : cursor;
        const { account } = fields;
        const domain = account.slice(account.indexOf("@") + 1);
        const follower = new Follower(last, cursor, head);
        this.list.online(isSame, account);
        this.people.online();
        this.#session = { account, domain, follower, since: now, limits: fields };
        this.#phase = "online";
        this.#addresses.begun();
        this.#due = Infinity;
        this.#keepalive.begin(now, fields.silence_s * 1_000);
        this.#keepLast();
        this.#tellState({ name: "online", account, isInStep: follower.isInStep });
        this.#refuseLarge(this.outbox.queued);
    }
    /** Whether the server has proved that it knows the password, or the token. */
    #isProved(data) {
        const method = this.settings.methods[this.#method];
        if (method !== "scram" && method !== "token")
            return true;
        const said = method === "token" ? [base64(data)] : new TextDecoder().decode(data).split(",");
        return this.#signature !== undefined && said.includes(this.#signature);
    }
    /** Gives up what is larger than this server allows: a frame of it would end the connection. */
    #refuseLarge(messages) {
        const limits = this.#session?.limits;
        if (limits === undefined)
            return;
        for (const message of messages) {
            const { text, extra } = contentBytes(message);
            if (text <= limits.text_bytes_max && extra <= limits.extra_bytes_max)
                continue;
            this.#giveUp(this.outbox.take(message.clientId), new ImError("too_large"));
        }
    }
    #farewell(now, fields, isRefusal) {
        const { error, comesBack } = reasonOf(fields.reason, fields.word);
        if (isRefusal && error.code === "bad_method" && this.#hasOtherMethod()) {
            this.#method += 1;
            this.#addresses.again();
            this.#act({ do: "drop" });
            return this.#open(now);
        }
        if (isElsewhere(error.code) && fields.server !== "") {
            this.#addresses.named(fields.server);
            if (fields.retry_after_ms === 0 && this.#addresses.follows())
                return this.#follow(now, error);
        }
        const renews = error.code === "expired" && this.settings.renewsToken;
        if (comesBack || renews)
            this.#lose(now, error, fields.retry_after_ms);
        else
            this.#end(error);
    }
    /** Leaves for the server that was named. */
    #follow(now, error) {
        this.#leave(error, "waiting");
        this.#open(now);
    }
    /** The server may say something. */
    get #isHeard() {
        return this.#phase === "login" || this.#phase === "online";
    }
    #hasOtherMethod() {
        return this.#method + 1 < this.settings.methods.length;
    }
    #failed(now, fields) {
        const { error, asksAgain } = faultOf(fields.fault, fields.word);
        const told = this.#asked.refused(fields.number, error);
        if (fields.number === PULL_NUMBER) {
            this.#session?.follower.pullFailed(now);
        }
        else if (fields.number === LIST_NUMBER) {
            this.list.failed(now, asksAgain);
        }
        else if (fields.number === CONTACTS_NUMBER) {
            this.people.failed(now, "contacts", asksAgain);
        }
        else if (fields.number === PRESENCE_NUMBER) {
            this.people.failed(now, "presence", asksAgain);
        }
        else if (told !== undefined) {
            this.#act(told);
        }
        else if (asksAgain) {
            this.outbox.refused(now, fields.number, fields.retry_after_ms);
        }
        else {
            this.#giveUp(this.outbox.answered(fields.number), error);
        }
    }
    #giveUp(queued, error) {
        if (queued === undefined)
            return;
        this.#act({ do: "failed", queued, error });
        this.#act({ do: "keep_queue" });
    }
    // ---- messages
    /** Entries that are next in the inbox. */
    #tell(entries) {
        for (const { place, entry } of entries) {
            this.list.entry(place, entry);
            const { message, event } = entry;
            if (event !== undefined)
                this.#act({ do: "event", event });
            if (message === undefined)
                continue;
            if (message.isOwn && this.#ownTold.delete(message.clientId))
                continue;
            const queued = message.isOwn ? this.outbox.take(message.clientId) : undefined;
            this.#act({ do: "message", message });
            if (queued !== undefined)
                this.#tellSent(message);
        }
    }
    /** A message of the queue has its place, and is told as those of others are. */
    #stored(queued, { id, seq, at }) {
        const { account, domain, follower } = this.#session;
        const { clientId, kind, text, extra, uncounted, quote, mentions, mentionsEverybody } = queued;
        const to = whole(queued.to, domain);
        const { device } = this.settings;
        this.#ownTold.add(clientId);
        for (const oldest of this.#ownTold) {
            if (this.#ownTold.size <= OWN_TOLD_MAX)
                break;
            this.#ownTold.delete(oldest);
        }
        const content = { kind, text, extra, uncounted, quote, mentions, mentionsEverybody };
        const place = { id, seq, at, from: account, device, to, clientId, peer: to, isOwn: true };
        const none = { changes: [], recall: undefined, editedAt: undefined, reactions: [] };
        const message = { ...place, ...content, ...none, target: targetOf(kind, extra) };
        this.list.stored(follower.last + 1, message);
        this.#act({ do: "message", message });
        this.#tellSent(message);
    }
    #tellSent({ id, seq, at, clientId, peer }) {
        this.#act({ do: "sent", sent: { id, seq, at, clientId, peer } });
        this.#act({ do: "keep_queue" });
    }
    #keepLast() {
        const last = this.#session?.follower.last;
        if (last === undefined || last === this.#last)
            return;
        this.#last = last;
        this.#act({ do: "keep_last", last });
    }
    /** Says what there is to say now. */
    #pump(now) {
        const session = this.#session;
        if (session === undefined)
            return;
        const { follower, domain, limits, account } = session;
        for (const order of follower.orders(now)) {
            if (order.order === "acknowledge") {
                this.#write(now, clientFrame("acknowledge", { upto: BigInt(order.upto) }));
            }
            else {
                const [after, count] = [BigInt(order.after), Math.max(1, limits.page_messages_max)];
                this.#ask(now, clientFrame("pull", { number: PULL_NUMBER, after, count }));
            }
        }
        this.#keepList(now, Math.max(1, limits.page_messages_max));
        this.#keepPeople(now);
        // Besides: a pull, what is asked for the list, and what is of people.
        const beside = this.#asked.size + (this.people.isKept ? 4 : 2);
        const window = Math.max(1, Math.min(WINDOW_MAX, limits.requests_max - beside));
        for (const queued of this.outbox.due(now, domain, window)) {
            const number = this.#takeNumber();
            this.outbox.sent(number, queued);
            const [client_id, content] = [unhex(queued.clientId), contentFields(queued)];
            this.#ask(now, clientFrame("send", { number, to: queued.to, client_id, content }));
        }
        const { isInStep } = follower;
        const told = this.#state.name === "online" && this.#state.isInStep;
        if (told !== isInStep)
            this.#tellState({ name: "online", account, isInStep });
    }
    /** Asks for what the list wants to know, and tells that it has changed. */
    #keepList(now, count) {
        const order = this.list.order(now);
        if (order !== undefined)
            this.#ask(now, listRequest({ ...order, count }).frame(LIST_NUMBER));
        const { all } = this.list;
        if (all === this.#toldList)
            return;
        this.#toldList = all;
        this.#act({ do: "list" });
    }
    /** Asks for what is wanted of people, and tells that the contacts have changed. */
    #keepPeople(now) {
        let order = this.people.order(now);
        for (; order !== undefined; order = this.people.order(now)) {
            if (order.order === "presence") {
                const { show, status } = order;
                this.#ask(now, clientFrame("presence", { number: PRESENCE_NUMBER, show, status }));
            }
            else {
                const { after, since, count } = order;
                const fields = { number: CONTACTS_NUMBER, after, since, count };
                this.#ask(now, clientFrame("contacts", fields));
            }
        }
        const { contacts } = this.people;
        if (contacts === this.#toldContacts)
            return;
        this.#toldContacts = contacts;
        this.#act({ do: "contacts" });
    }
    // ---- the connection
    #open(now) {
        this.#link += 1;
        this.#phase = "opening";
        this.#due = now + CONNECT_MS;
        this.#deframer = new Deframer(SERVER_FRAME_BYTES_MAX);
        this.#signature = undefined;
        this.#tellState({ name: "connecting" });
        const method = this.settings.methods[this.#method] ?? "none";
        this.#act({ do: "open", link: this.#link, url: this.#addresses.next(), method });
    }
    /** The connection is gone, and another one is made later. */
    #lose(now, error, retryAfterMs) {
        if (this.#session !== undefined)
            this.#backoff.lasted(now - this.#session.since);
        this.#leave(error, "waiting");
        const hintMs = Math.min(retryAfterMs, HINT_MS_MAX);
        const retryMs = this.#backoff.next(hintMs);
        this.#notBefore = now + hintMs;
        this.#due = now + retryMs;
        this.#tellState({ name: "waiting", retryMs, error });
    }
    /** The connection is over, and no other one is made. */
    #end(error) {
        this.#leave(error, "ended");
        this.#tellState({ name: "ended", error });
    }
    #leave(error, phase) {
        const isOpen = ["opening", "login", "online"].includes(this.#phase);
        this.#keepLast();
        this.#phase = phase;
        this.#session = undefined;
        this.#due = Infinity;
        this.outbox.disconnected();
        this.people.lost();
        const code = error.code === "closed" ? "closed" : "disconnected";
        this.#asked.lost(new ImError(code)).forEach((told) => this.#act(told));
        this.list.lost();
        if (isOpen)
            this.#act({ do: "drop" });
    }
    #tellState(state) {
        this.#state = state;
        this.#act({ do: "state", state });
    }
    #takeNumber() {
        this.#number = (this.#number % 0x7fff_ffff) + 1;
        return this.#number;
    }
    /** Writes a request that wants an answer. */
    #ask(now, bytes) {
        this.#keepalive.asked(now);
        this.#write(now, bytes);
    }
    #write(now, bytes) {
        this.#keepalive.said(now);
        this.#act({ do: "write", bytes });
    }
    #act(action) {
        this.#actions.push(action);
    }
}
