/**
 * A device of an account in a browser: the machine with a WebSocket, a timer and a storage around
 * it. All that is decided is decided in the machine.
 */
import { chatroomRequest, joinRequest, leaveRequest } from "./chatroom.js";
import { changesOf } from "./conversation.js";
import { listRequest, readRequest, recallRequest, searchRequest, setRequest, } from "./conversation-requests.js";
import { STATUS_BYTES_MAX } from "./contact.js";
import { FILE, fileExtra, putFile } from "./file.js";
import { SUBPROTOCOL } from "./frames.js";
import { MembersList } from "./group.js";
import { Machine } from "./machine.js";
import { clientId, isPlace, isSaid, random } from "./given.js";
import { amendment, EDIT, hex, REACTION } from "./message.js";
import { areSafe, BROWSER_CLOCK, checkName, loginMethods, urlsOf } from "./options.js";
import { privacyRequest, READERS_PAGE, readersRequest } from "./receipts.js";
import { base64, Proof, SCRAM } from "./scram.js";
import { Shelf, usualStorage } from "./storage.js";
import { HASHED_TOKEN, proveToken, tokenRequest } from "./token.js";
import { utf8 } from "./wire.js";
import { ImError } from "./words.js";
/** One device of an account. */
export class Client {
    account;
    /** The device's name. */
    device;
    #options;
    #clock;
    #shelf;
    #machine;
    #handlers = new Map();
    #sends = new Map();
    /** What is asked for and not answered, by the numbers of the asks. */
    #asked = new Map();
    #connects = [];
    #asks = 0;
    #socket;
    /** Which connection the machine takes that one for. */
    #link = 0;
    #proof;
    /** The token of the next login. */
    #loginToken;
    #timer;
    #isWorking = false;
    #isWatching = false;
    /** Throws `insecure` where a secret would be shown to others; see {@link ClientOptions}. */
    constructor(options) {
        this.#options = options;
        this.#clock = options.clock ?? BROWSER_CLOCK;
        this.account = options.account;
        if (options.device !== undefined)
            checkName("device", options.device, 64);
        const storage = options.storage ?? usualStorage();
        const urls = urlsOf(options);
        this.#shelf = new Shelf(storage, `holdline-im:${urls[0]}:${options.account}:`);
        this.device = options.device ?? this.#shelf.device(`web-${hex(random(8))}`);
        this.#loginToken = options.loginToken;
        const settings = {
            urls,
            account: options.account,
            device: this.device,
            silenceS: options.silenceS ?? 50,
            methods: loginMethods(options),
            renewsToken: typeof options.token === "function",
            queue: {
                messagesMax: options.queueMessagesMax ?? 256,
                bytesMax: options.queueBytesMax ?? 1 << 20,
            },
            listMax: options.listMax ?? 0,
            people: options.people ?? false,
            random: options.random ?? Math.random,
        };
        this.#machine = new Machine(settings, this.#shelf.remembered());
    }
    /** How far it is. */
    get state() {
        return this.#machine.state;
    }
    /** What was said and is not stored yet, oldest first. */
    get queue() {
        return this.#machine.outbox.queued;
    }
    /**
     * The account's conversations, the pinned ones first, then the newest, hidden ones among them:
     * as many as `listMax` said. It is read when the client comes in, and follows the inbox from
     * there. The same array until something changes.
     */
    get list() {
        return this.#machine.list.all;
    }
    /** All of the list has been read. */
    get isListWhole() {
        return this.#machine.list.isWhole;
    }
    /**
     * Has {@link list} know of a conversation, if the account does, though it be hidden or old; with
     * its whole address.
     */
    look(peer) {
        this.#work((machine, now) => machine.look(now, peer));
    }
    /**
     * Whom the account knows, by their addresses, with the option `people`. Read when the client
     * comes in, and kept right while it is connected. The same array until something changes.
     */
    get contacts() {
        return this.#machine.people.contacts;
    }
    /** All of the contacts have been read since the client came in. */
    get areContactsWhole() {
        return this.#machine.people.isWhole;
    }
    /** How somebody is there, on each device on which it is. Nobody is while one is not connected. */
    presence(address) {
        return this.#machine.people.presence(address);
    }
    /** Calls `handler` at each event of this name, until what it gives back is called. */
    on(name, handler) {
        const handlers = this.#handlers.get(name) ?? new Set();
        this.#handlers.set(name, handlers.add(handler));
        return () => handlers.delete(handler);
    }
    /**
     * Connects, and stays so: a connection that is lost is made again until {@link close}. Resolves
     * when it is logged in for the first time; rejects when the server does not let it in.
     */
    connect() {
        if (this.state.name === "online")
            return Promise.resolve();
        this.#watch();
        return new Promise((resolve, reject) => {
            this.#connects.push({ resolve, reject });
            this.#work((machine, now) => machine.connect(now));
        });
    }
    /** Says farewell. What is in the queue stays there for the next time. */
    close() {
        this.#unwatch();
        this.#work((machine) => machine.close());
    }
    /**
     * Says something. Resolves when it is stored, after which it reaches every device of both;
     * rejects when the server refuses it for good. Without a connection it waits in the queue, also
     * over a reload of the page.
     */
    send(to, said) {
        const given = typeof said === "string" ? { text: said } : said;
        const queued = {
            clientId: given.clientId ?? clientId(),
            to,
            kind: given.kind ?? 1,
            text: given.text ?? "",
            extra: given.extra ?? new Uint8Array(),
            uncounted: given.uncounted ?? false,
            ...(given.quote && { quote: given.quote }),
            ...(given.mentions && { mentions: given.mentions }),
            ...(given.mentionsEverybody && { mentionsEverybody: true }),
            saidAt: Date.now(),
        };
        if (!isSaid(queued))
            return Promise.reject(new ImError("invalid"));
        return new Promise((resolve, reject) => {
            const earlier = this.#sends.get(queued.clientId);
            this.#sends.set(queued.clientId, {
                resolve: (sent) => [earlier?.resolve(sent), resolve(sent)],
                reject: (error) => [earlier?.reject(error), reject(error)],
            });
            try {
                this.#work((machine, now) => machine.send(now, queued));
            }
            catch (error) {
                this.#sends.delete(queued.clientId);
                reject(error);
            }
        });
    }
    /** Reads a part of the conversation with somebody, oldest first. Needs a connection. */
    history(peer, options = {}) {
        const { before = 0, after, count = 50 } = options;
        if (!isPlace(before) || !isPlace(after ?? 0) || !isPlace(count) || count === 0) {
            return Promise.reject(new ImError("invalid"));
        }
        const asked = { peer, before, after, count: Math.min(count, 0xffff) };
        return this.#ask((machine, now, ask) => machine.history(now, ask, asked));
    }
    /** Reads a part of the account's list of conversations, hidden ones left out. */
    conversations(options = {}) {
        const { before = 0, count = 50 } = options;
        if (!isPlace(before) || !isPlace(count) || count === 0) {
            return Promise.reject(new ImError("invalid"));
        }
        return this.#about(listRequest({ peer: "", before, count: Math.min(count, 0xffff) }));
    }
    /** One conversation, hidden or not; `undefined`: the account knows nothing of it. */
    async conversation(peer) {
        if (peer === "")
            throw new ImError("invalid");
        const request = listRequest({ peer, before: 0, count: 1 });
        return (await this.#about(request)).conversations[0];
    }
    /**
     * Searches what the account has said and heard, the newest first, for a text in whichever case
     * (IM 16.4). It looks through a part of the inbox: with `hasMore`, go on with `before`. An empty
     * text finds all messages of one `peer`: so a group is read that the account has left.
     */
    search(text, options = {}) {
        const { before = 0, count = 20 } = options;
        const isAll = text === "" && options.peer === undefined;
        if (isAll || !isPlace(before) || !isPlace(count) || count === 0) {
            return Promise.reject(new ImError("invalid"));
        }
        return this.#about(searchRequest(text, { ...options, before, count: Math.min(count, 0xffff) }));
    }
    /**
     * The account has read a conversation up to a place. Resolves when that is stored, with how far
     * it has read: there, or beyond. Needs a connection, as all that follows here.
     */
    markRead(peer, upto) {
        if (!isPlace(upto) || upto === 0)
            return Promise.reject(new ImError("invalid"));
        return this.#about(readRequest(peer, upto));
    }
    /** Keeps a conversation otherwise; what is left out stays. Resolves when it is stored. */
    async settings(peer, settings) {
        await Promise.all(changesOf(settings).map((it) => this.#about(setRequest(peer, it))));
    }
    /**
     * Calls the message at this place of a conversation back, which this account has said: nobody
     * is told any more what it said. Rejects with `too_late`, `forbidden` and as IM 11.5 says.
     */
    recall(peer, seq) {
        if (!isPlace(seq) || seq === 0)
            return Promise.reject(new ImError("invalid"));
        return this.#about(recallRequest(peer, seq));
    }
    /**
     * How far others have read a conversation: the other of two, or all others of a group, and how
     * many of them have read the message at `seq`. Rejects with `readers_untold` where the group is
     * too large for that, and with `reads_private` where this account does not share what it reads.
     */
    readers(peer, ask = {}) {
        const { seq = 0, from = 0, count = READERS_PAGE } = ask;
        if (![seq, from, count].every(isPlace) || count === 0 || from > 0xffff_ffff) {
            return Promise.reject(new ImError("invalid"));
        }
        const asked = { seq, from, count: Math.min(count, READERS_PAGE) };
        return this.#about(readersRequest(peer, asked));
    }
    /**
     * Whether the account lets others know what it has read, and is told what they have; with an
     * argument it is set so.
     */
    sharesReads(shares) {
        return this.#about(privacyRequest(shares));
    }
    /**
     * Has a message of this account say something else. Resolves when it is stored; rejects with
     * `too_late`, `forbidden` and as IM 16.2 says. It waits in the queue as what is said does.
     */
    edit(peer, message, text) {
        return this.send(peer, amendment(EDIT, message, text));
    }
    /** Reacts to a message by these emoji, in place of those before; with none, no more (IM 16.3). */
    react(peer, message, emoji) {
        return this.send(peer, amendment(REACTION, message, emoji.join(" ")));
    }
    #about(request) {
        return this.#ask((machine, now, ask) => machine.about(now, ask, request));
    }
    /**
     * Makes a group of this account and `members`: resolves with its address, to which one sends as
     * to anybody. Needs a connection; after one that was lost it may be asked for again by the same
     * `clientId`.
     */
    createGroup(options = {}) {
        return this.#order("", "create", options);
    }
    /**
     * Changes a group. Resolves when that is stored; rejects with `unchanged` where it is so
     * already, with `forbidden` where this account may not, and as IM 8.2 says.
     */
    changeGroup(group, verb, options = {}) {
        return this.#order(group, verb, options);
    }
    #order(group, verb, options) {
        const { members = [], title = "", clientId: id = clientId() } = options;
        const isMade = verb === "create";
        if (!/^[0-9a-f]{32}$/.test(id) || isMade !== (group === "")) {
            return Promise.reject(new ImError("invalid"));
        }
        const order = { group, verb, title, members, clientId: id };
        return this.#ask((machine, now, ask) => machine.order(now, ask, order));
    }
    /** Who is in a group that this account is in, whole. Needs a connection. */
    async members(group) {
        const list = new MembersList();
        while (!list.isHopeless) {
            const { next } = list;
            const page = await this.#ask((machine, now, ask) => machine.members(now, ask, group, next));
            const whole = list.page(page);
            if (whole !== undefined)
                return whole;
        }
        throw new ImError("busy");
    }
    /**
     * Is in a chatroom from then on (IM 18.1), until it leaves or the connection is lost: then it is
     * joined again, once `state` says that the client is online. Resolves with what the room is, and
     * its last messages; rejects with `no_chatroom`, `chatroom_full`, `chatroom_banned` and
     * `chatrooms_full`. What is said there comes as `chatroom`, one's own words too; something is
     * said there by {@link send} to the room's whole address.
     */
    joinChatroom(room, history = 20) {
        if (!isPlace(history))
            return Promise.reject(new ImError("invalid"));
        return this.#about(joinRequest(room, history));
    }
    /** Is in a chatroom no more. */
    leaveChatroom(room) {
        return this.#about(leaveRequest(room));
    }
    /** Makes a chatroom, or changes one (IM 18.2). Resolves when that is stored. */
    orderChatroom(room, verb, options = {}) {
        const { text = "", accounts = [], keeps = 0, isDurable = false } = options;
        return this.#about(chatroomRequest({ room, verb, text, accounts, keeps, isDurable }));
    }
    /**
     * Wants something of a contact (IM 8.7). Resolves when it is stored, and what is so already is
     * done; rejects with `unknown_account`, `contacts_full`, `blocked` and as IM 8.2 says. Needs a
     * connection.
     */
    changeContact(contact, verb, options = {}) {
        const { name = "", groups = [], greeting = "" } = options;
        const order = { contact, verb, name, groups, greeting };
        return this.#ask((machine, now, ask) => machine.contact(now, ask, order));
    }
    /**
     * Is there so from now on, also after the connection was lost; `offline`: is seen by nobody, and
     * sees nobody. Without it a client with the option `people` is `online`. Throws `invalid` where
     * the option is not given, and `too_large` where the status is.
     */
    setPresence(show, status = "") {
        if (!this.#machine.people.isKept)
            throw new ImError("invalid", "the option `people`");
        if (utf8(status).length > STATUS_BYTES_MAX)
            throw new ImError("too_large");
        this.#work((machine, now) => machine.present(now, { show, status }));
    }
    /**
     * A token by which this device logs in without the password next time, with the option
     * `loginToken`: for an application that keeps its user logged in and stores no password. Rejects
     * with `forbidden` where the server gives none, as to an account without a password, and with
     * `insecure` where others could read it. Needs a connection.
     */
    async requestToken() {
        if (!areSafe(urlsOf(this.#options), this.#options))
            throw new ImError("insecure");
        const given = await this.#about(tokenRequest(false));
        if (this.#loginToken !== undefined)
            this.#loginToken = given.token;
        return given;
    }
    /** All tokens of this device are void from now on: the user logs out. */
    revokeTokens() {
        return this.#about(tokenRequest(true));
    }
    /** Most bytes of a file; 0: there is no connection, or the server takes no files. */
    get fileBytesMax() {
        return this.#machine.fileBytesMax;
    }
    /**
     * Uploads a file. Resolves with a note of where it is, to be sent by {@link sendFile}; rejects
     * with `media_off`, `too_large`, `type_refused`, `upload_quota`, `upload_failed`, `aborted`.
     * Needs a connection until the server has said where to; the file itself goes by HTTP.
     */
    async upload(file, options = {}) {
        const { name = file.name ?? "file", type = file.type } = options;
        const wish = { name, type: type.split(";")[0].trim(), bytes: file.size };
        const slot = await this.#ask((machine, now, ask) => machine.upload(now, ask, wish));
        const Request = this.#options.uploadRequest ?? globalThis.XMLHttpRequest;
        await putFile(slot, file, { ...options, request: new Request() });
        const { name: said, type: kind, bytes } = wish;
        const note = { url: slot.getUrl, name: said, type: kind, bytes };
        return { ...note, width: 0, height: 0, blurhash: "" };
    }
    /** Sends a file that was uploaded, with what is said of it: its name, if nothing is. */
    sendFile(to, note, text = note.name || note.url) {
        return this.send(to, { kind: FILE, text, extra: fileExtra(note) });
    }
    /**
     * Tells whoever is there something that is kept nowhere: that one is typing, or an application's
     * own. Nothing answers it; without a connection, or too often (IM 9), it is dropped.
     */
    tell(peer, told) {
        this.#work((machine, now) => machine.transient(now, peer, told));
    }
    #ask(step) {
        this.#asks += 1;
        const ask = this.#asks;
        return new Promise((resolve, reject) => {
            this.#asked.set(ask, { resolve, reject });
            this.#work((machine, now) => step(machine, now, ask));
        });
    }
    /** The network may be back: tries at once. In browsers it is called when they say so. */
    nudge() {
        this.#work((machine, now) => machine.nudge(now));
    }
    /** Closes, and forgets the device, its place in the inbox and what waited to be sent. */
    forget() {
        this.close();
        this.#shelf.clear();
    }
    // ---- the machine
    /** Gives the machine something, and does what it wants then. Handlers may call in again. */
    #work(step) {
        step(this.#machine, this.#clock.now());
        if (this.#isWorking)
            return;
        this.#isWorking = true;
        for (let action = this.#machine.next(); action; action = this.#machine.next())
            this.#do(action);
        this.#isWorking = false;
        this.#clock.clearTimeout(this.#timer);
        const { wakeAt } = this.#machine;
        if (wakeAt === Infinity)
            return;
        const ms = Math.min(Math.max(0, wakeAt - this.#clock.now()), 0x7fff_ffff);
        const wake = () => this.#work((machine, now) => machine.wake(now));
        this.#timer = this.#clock.setTimeout(wake, Math.ceil(ms));
    }
    #do(action) {
        switch (action.do) {
            case "open":
                return this.#open(action.link, action.url, action.method);
            case "write":
                return this.#socket?.send(action.bytes);
            case "prove":
                return void this.#prove(action.link, action.challenge);
            case "drop":
                return this.#drop();
            case "state":
                this.#settleConnects(action.state);
                return this.#emit("state", action.state);
            case "message":
                return this.#emit("message", action.message);
            case "event":
                return this.#emit("event", action.event);
            case "delivered":
                return this.#emit("delivered", action.delivered);
            case "chatroom":
                return this.#emit("chatroom", action.event);
            case "list":
                return this.#emit("list", this.list);
            case "contacts":
                return this.#emit("contacts", this.contacts);
            case "contact":
                return this.#emit("contact", action.change);
            case "presence":
                return this.#emit("presence", action.presence);
            case "transient":
                return this.#emit("transient", action.transient);
            case "sent":
                this.#sends.get(action.sent.clientId)?.resolve(action.sent);
                this.#sends.delete(action.sent.clientId);
                return;
            case "failed": {
                const { queued, error } = action;
                this.#sends.get(queued.clientId)?.reject(error);
                this.#sends.delete(queued.clientId);
                return this.#emit("failed", { queued, error });
            }
            case "done":
            case "history":
            case "changed":
            case "members":
            case "conversations":
            case "marked_read":
            case "set":
            case "found":
            case "upload":
            case "readers":
            case "privacy":
            case "chatroom_joined":
            case "token":
            case "recalled": {
                const { ask, result } = action;
                const settle = this.#asked.get(ask);
                this.#asked.delete(ask);
                return result instanceof ImError ? settle?.reject(result) : settle?.resolve(result);
            }
            case "keep_last":
                return this.#shelf.keepLast(action.last);
            case "keep_queue":
                this.#shelf.keepQueue(this.queue);
                return this.#emit("queue", this.queue);
            case "handled":
                return this.#options.onFrame?.(action.answer);
        }
    }
    #settleConnects(state) {
        if (state.name === "connecting" || state.name === "waiting")
            return;
        const waiting = this.#connects;
        this.#connects = [];
        for (const { resolve, reject } of waiting) {
            if (state.name === "online")
                resolve();
            else
                reject(state.name === "ended" ? state.error : new ImError("closed"));
        }
    }
    #emit(name, event) {
        for (const handler of [...(this.#handlers.get(name) ?? [])]) {
            try {
                handler(event);
            }
            catch (error) {
                // A defect of the application's is told, and keeps nothing from going on.
                globalThis.reportError(error);
            }
        }
    }
    // ---- the connection
    #open(link, url, method) {
        this.#drop();
        const WebSocketClass = this.#options.webSocket ?? globalThis.WebSocket;
        const lost = (error) => this.#work((machine, now) => machine.lost(now, link, error));
        // A server that names another one cannot make the client show its secret to a network.
        const isShown = method === "plain" || method === "token";
        if (isShown && !areSafe([url], this.#options)) {
            queueMicrotask(() => lost(new ImError("insecure")));
            return;
        }
        let socket;
        try {
            socket = new WebSocketClass(url, [SUBPROTOCOL]);
        }
        catch {
            queueMicrotask(() => lost());
            return;
        }
        [this.#socket, this.#link] = [socket, link];
        socket.binaryType = "arraybuffer";
        socket.onopen = () => {
            this.#login(method).then(({ expected, ...login }) => this.#work((machine, now) => machine.opened(now, link, login, expected)), () => lost(new ImError("unavailable", "no token")));
        };
        socket.onmessage = (event) => {
            const { data } = event;
            if (!(data instanceof ArrayBuffer))
                return lost(new ImError("server_malformed", "text"));
            this.#work((machine, now) => machine.received(now, link, new Uint8Array(data)));
        };
        socket.onclose = (event) => lost(event?.error);
        socket.onerror = null;
    }
    async #login(method) {
        const { token, password = "", account } = this.#options;
        if (method === "none")
            return {};
        if (method === "token") {
            const proof = await proveToken(globalThis.crypto.subtle, account, this.#loginToken);
            return { method: HASHED_TOKEN, ...proof };
        }
        if (method === "plain") {
            const secret = typeof token === "function" ? await token() : (token ?? password);
            return { password: utf8(secret) };
        }
        const name = account.split("@")[0];
        this.#proof = new Proof(globalThis.crypto.subtle, name, password, base64(random(18)));
        return { method: SCRAM, data: this.#proof.first };
    }
    async #prove(link, challenge) {
        const proof = await this.#proof?.answer(challenge).catch(() => undefined);
        this.#work((machine, now) => machine.proceed(now, link, proof));
    }
    #drop() {
        const socket = this.#socket;
        if (socket === undefined)
            return;
        this.#socket = undefined;
        socket.onopen = socket.onmessage = socket.onclose = null;
        socket.close();
    }
    // ---- the browser
    #onNudge = () => {
        if (globalThis.document?.visibilityState !== "hidden")
            this.nudge();
    };
    // A browser that has no network any more may say nothing of connections for a long time: it holds
    // back what is on its way to them, and their end with it.
    #onOffline = () => {
        if (this.#socket === undefined)
            return;
        this.#drop();
        this.#work((machine, now) => machine.lost(now, this.#link));
    };
    #watch() {
        if (this.#isWatching || typeof document === "undefined")
            return;
        this.#isWatching = true;
        globalThis.addEventListener("offline", this.#onOffline);
        globalThis.addEventListener("online", this.#onNudge);
        document.addEventListener("visibilitychange", this.#onNudge);
    }
    #unwatch() {
        if (!this.#isWatching)
            return;
        this.#isWatching = false;
        globalThis.removeEventListener("offline", this.#onOffline);
        globalThis.removeEventListener("online", this.#onNudge);
        document.removeEventListener("visibilitychange", this.#onNudge);
    }
}
