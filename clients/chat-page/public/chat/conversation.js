/**
 * One conversation on the page: its messages, those that wait and those that failed, and how more
 * of it is read.
 */
import { amended, EDIT, fileOf, isChatroom, isGroup, isMentioned, isOfNothingKnown, REACTION, RECALLED, } from "./im/index.js";
import { sentenceOfChanges, sentenceOfRecall } from "./changes.js";
import { initialsOf, toneOf } from "./avatars.js";
import { by, fill, made } from "./dom.js";
import { madeFile } from "./files.js";
import { madeMenu, stepMenus } from "./menu.js";
import { shortName, wholeName } from "./place.js";
import { MARKS, Receipts } from "./receipts.js";
import { Quotes } from "./quotes.js";
import { Talk } from "./talk.js";
import { sentenceOf, sentenceOfReaders, timeOf, wordOf } from "./words.js";
/** Messages that are read at once. */
const PAGE = 50;
/** Pages that are read besides, so that the first message that was not read is there. */
const PAGES_TO_UNREAD_MAX = 10;
/** How near the edge counts as there, CSS pixels. */
const NEAR_PX = 60;
/** Parts of the inbox that one reading of a group that was left looks through. */
const PARTS_MAX = 8;
/** The key of the line before what was not read. */
const NEW_KEY = "/new";
/** Emoji that are offered. */
const EMOJI = ["👍", "❤️", "😂", "🎉"];
/** The conversation with somebody. */
export class Conversation {
    client;
    peer;
    account;
    domain;
    language;
    failed;
    wishes;
    place;
    #talk = new Talk();
    /** It is a chatroom: one is in it while one looks at it, and nothing is read of it. */
    #isRoom;
    #rows = new Map();
    /** Live messages that came while a part was being read. */
    #meanwhile = [];
    #isReading = false;
    #hasBegun = false;
    #isOver = false;
    /** Messages that are not younger than this are too old to be called back, the server has said. */
    #tooLateAt = 0;
    /** The first message that was not read when it was opened, by its place. */
    #firstUnread;
    /** The account has left the group: where reading goes on in its inbox. */
    #pastBefore;
    /** How far the other has read what is shown. */
    #peerRead = 0;
    #receipts;
    #quotes;
    /** Invitations that were answered here, by their places. */
    #answered = new Set();
    constructor(client, peer, account, domain, language, failed, wishes, 
    /** The place that it is opened at; without it, the first that was not read, or the end. */
    place) {
        this.client = client;
        this.peer = peer;
        this.account = account;
        this.domain = domain;
        this.language = language;
        this.failed = failed;
        this.wishes = wishes;
        this.place = place;
        this.#isRoom = isChatroom(peer);
        this.#receipts = new Receipts(client, peer, () => this.show());
        this.#quotes = new Quotes(client, peer, () => {
            if (!this.#isOver)
                this.show();
        });
        by("rows").replaceChildren();
        by("rows").onkeydown = (event) => stepMenus(by("rows"), event);
        this.show();
        this.#begins();
    }
    /** It is looked at, or the connection stands again. */
    #begins() {
        if (this.#isRoom)
            return void this.begin();
        void this.#receipts.begin();
        if (!this.#hasBegun)
            void this.#open();
    }
    /** Another one is looked at. */
    close() {
        this.#isOver = true;
        this.#receipts.close();
        if (this.#isRoom)
            this.client.leaveChatroom(this.peer).catch(() => undefined);
    }
    /** The connection stands again. */
    resume() {
        this.#begins();
    }
    /** A message of it has come, or was stored. */
    live(message) {
        if (this.#isReading) {
            this.#meanwhile.push(message);
            return;
        }
        const taken = this.#live(message);
        const isLeftOut = taken === "gap" && this.#isRoom;
        // What was left out of a room is nowhere to be read.
        if (isLeftOut)
            this.#talk.begin([...this.#talk.shown, message], false);
        this.show(message.isOwn);
        if (taken === "gap" && !isLeftOut)
            void this.#read({ after: this.#talk.after });
    }
    /** What is called back is shown no more. */
    #live(message) {
        if (message.recall !== undefined) {
            const gone = { kind: RECALLED, text: "", extra: new Uint8Array(), changes: [] };
            this.#talk.change(message.recall, (it) => ({ ...it, ...gone }));
        }
        const { target } = message;
        if (target !== undefined)
            this.#talk.change(target.seq, (it) => amended(it, message));
        return this.#talk.live(message);
    }
    /** Reads its end, and so much before it that what was not read yet is there: it begins with that. */
    async #open() {
        if (this.place !== undefined && !this.#hasBegun)
            return this.#goTo(this.place);
        const { read = 0, unread = 0 } = this.#known ?? {};
        await this.#read({});
        for (let n = 0; unread > 0 && n < PAGES_TO_UNREAD_MAX; n++) {
            const { hasEarlier, before } = this.#talk;
            if (!hasEarlier || before <= read + 1 || this.#isOver)
                break;
            await this.#read({ before });
        }
        if (this.#isOver)
            return;
        const isNew = (it) => it.seq > read && !it.isOwn && it.recall === undefined;
        const first = unread > 0 ? this.#talk.shown.find(isNew) : undefined;
        if (first === undefined)
            return this.#toEnd();
        this.#firstUnread = first.seq;
        this.show();
        this.#rows.get(NEW_KEY)?.scrollIntoView({ block: "start" });
        this.#look();
    }
    /** Reads what stands around a place, and goes there. */
    async #goTo(place) {
        await this.#read({ around: place });
        const found = this.#at(place);
        if (this.#isOver || found === undefined)
            return;
        const element = this.#rows.get(keyOf(found));
        element?.classList.add("sought");
        element?.scrollIntoView({ block: "center" });
    }
    /** Reads its end. */
    async begin() {
        await this.#read({});
        this.#toEnd();
    }
    /** Goes to its end. */
    newest() {
        if (this.#talk.hasLater)
            void this.begin();
        else
            this.#toEnd();
    }
    /** Reads what was said before what is shown. */
    async earlier() {
        if (this.#hasBegun && this.#talk.hasEarlier)
            await this.#read({ before: this.#talk.before });
    }
    /** What is known of it may have changed. */
    listed() {
        if (this.#peerRead === (this.#known?.peerRead ?? 0))
            this.#look();
        else
            this.show();
    }
    /** The page was scrolled, or is looked at again. */
    scrolled() {
        if (by("scroll").scrollTop < NEAR_PX)
            void this.earlier();
        this.#look();
    }
    /** What stands at the end of a page that is looked at was seen. */
    #look() {
        const isAtEnd = this.#hasBegun && !this.#talk.hasLater && isNearEnd();
        const isUnread = (this.#known?.unread ?? 0) > 0;
        const isBelow = this.#talk.hasLater || (this.#hasBegun && !isAtEnd && isUnread);
        by("newest").hidden = !isBelow;
        if (!isAtEnd || this.#isOver || document.visibilityState !== "visible")
            return;
        const { shown } = this.#talk;
        let at = shown.length - 1;
        while (at >= 0 && shown[at].isOwn)
            at -= 1;
        if (at >= 0 && !this.#isRoom)
            this.wishes.seen(shown[at].seq);
    }
    async #read(where) {
        if (this.#isReading)
            return;
        this.#isReading = true;
        let next;
        try {
            const { around } = where;
            const found = await this.#fetch(where);
            if (this.#isOver)
                return;
            if (where.after !== undefined) {
                const first = found.messages[0]?.seq ?? 0;
                // Of a group one does not read what was said while one was not in it.
                if (first > where.after + 1)
                    this.#talk.begin(found.messages, false);
                else
                    found.messages.forEach((message) => this.#live(message));
                if (found.hasMore && found.messages.length > 0)
                    next = this.#talk.after;
            }
            else if (around !== undefined) {
                const last = found.messages.at(-1)?.seq ?? 0;
                this.#talk.part(found.messages, found.hasMore, last < (this.#known?.seq ?? Infinity));
            }
            else if (where.before !== undefined)
                this.#talk.earlier(found.messages, found.hasMore);
            else
                this.#talk.begin(found.messages, found.hasMore);
            this.#hasBegun = true;
        }
        catch (error) {
            // Who has no account has said nothing; what the connection kept from us is asked for again.
            const { code } = error;
            this.#hasBegun ||= code === "unknown_account";
            const isTold = ["unknown_account", "disconnected", "closed"].includes(code);
            if (!isTold)
                this.#tellFault(code);
        }
        finally {
            this.#isReading = false;
        }
        if (this.#isOver)
            return;
        this.show();
        this.wishes.read();
        const meanwhile = this.#meanwhile;
        this.#meanwhile = [];
        meanwhile.forEach((message) => this.live(message));
        if (next !== undefined)
            await this.#read({ after: next });
    }
    async #fetch({ around, before, after }) {
        if (this.#isRoom)
            return this.#join();
        // Whoever was no member a moment ago may be one now.
        if (before === undefined)
            this.#pastBefore = undefined;
        if (this.#pastBefore !== undefined)
            return this.#past(this.#pastBefore);
        const place = around === undefined ? before : around + PAGE / 2;
        const range = place === undefined ? {} : { before: place };
        const asked = after === undefined ? range : { after };
        try {
            return await this.client.history(this.peer, { ...asked, count: PAGE });
        }
        catch (error) {
            if (error.code !== "not_member" || !isGroup(this.peer))
                throw error;
            // The inbox has what was said before the account left, and an invitation.
            const past = await this.#past(0);
            if (past.messages.length === 0)
                throw error;
            return past;
        }
    }
    /** What the account has of a group that it is not in, before a place of its inbox; 0: the end. */
    async #past(before) {
        const messages = [];
        let [place, hasMore] = [before, true];
        for (let part = 0; part < PARTS_MAX && hasMore && messages.length < PAGE; part++) {
            const count = PAGE - messages.length;
            const found = await this.client.search("", { peer: this.peer, before: place, count });
            messages.unshift(...[...found.messages].reverse());
            [place, hasMore] = [found.before, found.hasMore];
        }
        this.#pastBefore = place;
        return { messages, hasMore };
    }
    /** Is in the room from now on. */
    async #join() {
        const room = await this.client.joinChatroom(this.peer, PAGE);
        if (this.#isOver)
            void this.client.leaveChatroom(this.peer).catch(() => undefined);
        else
            this.wishes.joined(room);
        return { messages: room.messages, hasMore: false };
    }
    /** Brings the page in line with what there is. */
    show(isToEnd = false) {
        const scroll = by("scroll");
        const below = scroll.scrollHeight - scroll.scrollTop;
        const isAtEnd = isToEnd || isNearEnd();
        const first = by("rows").firstElementChild;
        this.#place(this.#wanted());
        by("more").hidden = !(this.#hasBegun && this.#talk.hasEarlier && this.#talk.before > 1);
        by("none-yet").hidden = !this.#hasBegun || this.#rows.size > 0;
        if (isAtEnd && !this.#talk.hasLater)
            this.#toEnd();
        else if (first !== by("rows").firstElementChild)
            scroll.scrollTop = scroll.scrollHeight - below;
        this.#look();
    }
    #toEnd() {
        by("scroll").scrollTop = by("scroll").scrollHeight;
        this.#look();
    }
    #wanted() {
        const at = (ms) => timeOf(this.language, ms, Date.now());
        this.#peerRead = this.#known?.peerRead ?? 0;
        // What was called back is told in its place, and not once more where it was called back.
        const isRow = (message) => message.recall === undefined && message.target === undefined && !isOfNothingKnown(message);
        const said = this.#talk.shown.filter(isRow)
            .flatMap((message) => {
            const row = this.#row(message, at(message.at));
            if (message.seq !== this.#firstUnread)
                return [row];
            const text = wordOf(this.language, "newMessages");
            return [{ key: NEW_KEY, text, kind: "change", about: "", reactions: "" }, row];
        });
        if (this.#talk.hasLater)
            return said;
        const keys = new Set(said.map(({ key }) => key));
        const isSaidHere = ({ to, kind }) => wholeName(to, this.domain) === this.peer && kind !== EDIT && kind !== REACTION;
        const failed = this.failed.filter(({ queued }) => isSaidHere(queued)).map((it) => {
            const why = sentenceOf(this.language, it.code);
            const about = `${wordOf(this.language, "failed")}: ${why}`;
            const { clientId, text } = it.queued;
            const file = fileOf(it.queued);
            return { key: `/${clientId}`, text, kind: "own", about, file, reactions: "", failed: it };
        });
        const waiting = this.client.queue.filter(isSaidHere).map((queued) => {
            const { clientId, text, saidAt } = queued;
            const about = `${at(saidAt)} · ${wordOf(this.language, "waiting")}`;
            return { key: `/${clientId}`, text, kind: "own", about, file: fileOf(queued), reactions: "" };
        });
        return [...said, ...[...failed, ...waiting].filter(({ key }) => !keys.has(key))];
    }
    get #known() {
        return this.client.list.find(({ peer }) => peer === this.peer);
    }
    #row(message, at) {
        const { from, isOwn, text, changes, kind, seq } = message;
        const edited = message.editedAt === undefined ? "" : ` · ${wordOf(this.language, "edited")}`;
        const reactions = reactionsOf(message);
        const key = keyOf(message);
        const beside = {
            reactions,
            quote: this.#quoted(message),
            isMentioned: isMentioned(message, this.account),
        };
        if (changes.length > 0) {
            const sentence = sentenceOfChanges(this.language, from, changes, this.account);
            const row = { key, text: sentence, kind: "change", about: at, reactions: "" };
            return this.#isInvited(message) ? { ...row, invites: seq } : row;
        }
        if (kind === RECALLED) {
            const sentence = sentenceOfRecall(this.language, from, this.account);
            // Another key than before: the element with the old words goes.
            return { key: `${key}/recall`, text: sentence, kind: "change", about: at, reactions: "" };
        }
        const file = fileOf(message);
        // Chatrooms store nothing, and who has left a group can only read.
        const menu = this.#isRoom || this.#known?.hasLeft === true ? {} : { of: message };
        if (isOwn) {
            const counted = isGroup(this.peer) ? { counted: seq } : {};
            const about = `${at}${edited} · ${this.#howFar(seq)}`;
            const isRecallable = message.at > this.#tooLateAt;
            const own = { ...beside, ...counted, ...menu, isRecallable };
            return { key, text, kind: "own", about, file, ...own };
        }
        // In a group, or a room, it is not plain who says something.
        const isPlain = !isGroup(this.peer) && !this.#isRoom;
        const about = `${isPlain ? "" : `${this.wishes.name(from)} · `}${at}${edited}`;
        const sender = isPlain ? {} : { from };
        return { key, text, kind: "theirs", about, file, ...sender, ...beside, ...menu };
    }
    /** Whether an invitation waits for an answer here. */
    get isInvited() {
        return this.#talk.shown.some((it) => this.#isInvited(it));
    }
    /** Whether a message invites this account, and the account has not answered it. */
    #isInvited({ seq, changes }) {
        const { account } = this;
        const isOf = ({ members }) => members.includes(account);
        if (changes.filter(isOf).at(-1)?.verb !== "invite")
            return false;
        const isAnswer = (it) => it.seq > seq && it.changes.some((change) => it.from === account || isOf(change) || change.verb === "dissolve");
        return !this.#answered.has(seq) && !this.#talk.shown.some(isAnswer);
    }
    /** What a message quotes, as it is now; where that is not known yet, as it was. */
    #quoted({ quote }) {
        if (quote === undefined)
            return "";
        const of = this.#quotes.of(quote, this.#talk.shown);
        const from = of?.from ?? quote.from ?? "";
        if (of?.kind === RECALLED)
            return sentenceOfRecall(this.language, from, this.account);
        return `${this.wishes.name(from)}: ${of?.text ?? quote.text ?? ""}`;
    }
    /** How far an own message is: a mark, and the word for it. */
    #howFar(seq) {
        const readers = this.#receipts.readersOf(seq);
        if (readers === undefined) {
            const tick = this.#receipts.tick(seq, this.#peerRead);
            return `${MARKS[tick]} ${wordOf(this.language, tick)}`;
        }
        const { read, total } = readers;
        const names = readers.readers.filter((it) => it.read >= seq)
            .map(({ address }) => shortName(address, this.domain));
        const who = names.length === 0 ? "" : `: ${names.join(", ")}`;
        return `${MARKS.read} ${sentenceOfReaders(this.language, read, total)}${who}`;
    }
    /** Elements that stay are left where they are: a reader is told what is new, and no more. */
    #place(wanted) {
        const list = by("rows");
        const keys = new Set(wanted.map(({ key }) => key));
        for (const [key, element] of this.#rows) {
            if (keys.has(key))
                continue;
            // Who stood on it goes on from here.
            if (element.contains(document.activeElement))
                by("scroll").focus();
            element.remove();
            this.#rows.delete(key);
        }
        let next = list.firstElementChild;
        for (const row of wanted) {
            const element = this.#rows.get(row.key) ?? this.#made(row);
            this.#rows.set(row.key, element);
            element.classList.toggle("failed", row.failed !== undefined);
            element.classList.toggle("mentioned", row.isMentioned === true);
            const about = element.querySelector(".about");
            if (about.textContent !== row.about)
                about.textContent = row.about;
            const parts = [[".text", row.text], [".reactions", row.reactions], [".quote", row.quote ?? ""]];
            for (const [part, text] of parts) {
                // A file is its own text: nobody edits one.
                if (part === ".text" && row.file !== undefined)
                    continue;
                const its = element.querySelector(part);
                if (its.textContent === text)
                    continue;
                if (part === ".text")
                    fill(its, text);
                else
                    its.textContent = text;
            }
            this.#offer(element, row.failed);
            this.#offerAnswers(element, row.invites);
            this.#offerMenu(element, row);
            if (element === next)
                next = next.nextElementSibling;
            else
                list.insertBefore(element, next);
        }
        stepMenus(list);
    }
    #made({ text, kind, file, from }) {
        const element = made("li", "", kind);
        if (from !== undefined) {
            // The style sheet shows them: they are no text of the message.
            element.dataset["initials"] = initialsOf(this.wishes.name(from));
            element.classList.add(`tone${toneOf(from)}`);
        }
        const stay = () => {
            if (isNearEnd(element.clientHeight) && !this.#talk.hasLater)
                this.#toEnd();
        };
        const said = file === undefined ? made("div", "", "text") : madeFile(file, text, stay);
        if (file === undefined)
            fill(said, text);
        const [quote, reactions] = [made("div", "", "quote"), made("div", "", "reactions")];
        element.append(quote, said, reactions, made("small", "", "about"));
        return element;
    }
    #offer(element, failed) {
        const button = element.querySelector(".again");
        if (failed === undefined)
            button?.remove();
        else if (button === null) {
            const again = made("button", wordOf(this.language, "sendAgain"), "plain", "again");
            again.addEventListener("click", () => this.wishes.sendAgain(failed));
            element.append(again);
        }
    }
    /** Accept and Decline, behind an invitation. */
    #offerAnswers(element, seq) {
        const answers = element.querySelector(".answers");
        if (seq === undefined)
            answers?.remove();
        else if (answers === null) {
            const box = made("div", "", "answers");
            for (const [word, verb] of [["accept", "join"], ["decline", "leave"]]) {
                const button = made("button", wordOf(this.language, word), "plain", word);
                button.addEventListener("click", () => void this.#answer(seq, verb));
                box.append(button);
            }
            element.append(box);
        }
    }
    /** Accepts an invitation, or declines it. */
    async #answer(seq, verb) {
        by("say-fault").textContent = "";
        try {
            await this.client.changeGroup(this.peer, verb, { members: [] });
            this.#answered.add(seq);
            if (verb === "join" && !this.#isOver)
                await this.begin();
        }
        catch (error) {
            this.#tellFault(error.code);
        }
        if (!this.#isOver)
            this.show();
    }
    /** Asks who has read a message of a group. */
    async #count(seq) {
        by("say-fault").textContent = "";
        const code = await this.#receipts.count(seq);
        if (code !== undefined)
            this.#tellFault(code);
    }
    /** What may be done with a message: it is made anew where that is something else. */
    #offerMenu(element, { of, file, counted, isRecallable = false }) {
        const menu = element.querySelector(".menu");
        const offered = of === undefined ? "" : `${of.isOwn} ${isRecallable}`;
        if (element.dataset["offered"] === offered)
            return;
        element.dataset["offered"] = offered;
        menu?.remove();
        if (of === undefined)
            return;
        const { seq } = of;
        const choice = (text, chosen) => ({ text, chosen });
        const edit = choice(wordOf(this.language, "edit"), () => this.#edits(seq));
        const recall = choice(wordOf(this.language, "recall"), () => void this.#recall(seq));
        const count = choice(wordOf(this.language, "whoRead"), () => void this.#count(seq));
        // Only texts are edited (IM 16.2).
        const own = isRecallable ? [...(file === undefined ? [edit] : []), recall] : [];
        const asks = counted === undefined ? [] : [count];
        const quote = choice(wordOf(this.language, "quote"), () => this.#quotesNext(seq));
        const emoji = EMOJI.map((it) => choice(it, () => void this.#react(seq, it)));
        const choices = [quote, ...own, ...asks, ...emoji];
        element.append(madeMenu(wordOf(this.language, "moreOf"), choices));
    }
    #at(seq) {
        return this.#talk.shown.find((it) => it.seq === seq);
    }
    #edits(seq) {
        const message = this.#at(seq);
        if (message !== undefined)
            this.wishes.edit(message);
    }
    #quotesNext(seq) {
        const message = this.#at(seq);
        if (message !== undefined)
            this.wishes.quote(message);
    }
    /** Reacts by one more emoji, or by one less. That it is so, a message tells, as to others. */
    async #react(seq, emoji) {
        const message = this.#at(seq);
        if (message === undefined)
            return;
        by("say-fault").textContent = "";
        const own = message.reactions.find((it) => it.by === this.account)?.emoji ?? [];
        const rest = own.filter((it) => it !== emoji);
        const next = rest.length < own.length ? rest : [...own, emoji];
        try {
            await this.client.react(this.peer, message, next);
        }
        catch (error) {
            this.#tellFault(error.code);
        }
    }
    #tellFault(code) {
        if (!this.#isOver)
            by("say-fault").textContent = sentenceOf(this.language, code);
    }
    /** Calls a message back. That it is, a message tells, as it does to others. */
    async #recall(seq) {
        by("say-fault").textContent = "";
        try {
            await this.client.recall(this.peer, seq);
        }
        catch (error) {
            const { code } = error;
            const at = this.#at(seq)?.at ?? 0;
            if (code === "too_late")
                this.#tooLateAt = Math.max(this.#tooLateAt, at);
            this.#tellFault(code);
            if (!this.#isOver)
                this.show();
        }
    }
}
/** The key of a message's row: what waits has the same as what is stored. */
function keyOf({ isOwn, from, clientId }) {
    return `${isOwn ? "" : from}/${clientId}`;
}
/** Whether the end of the list is in sight, or was before it grew by so much, CSS pixels. */
function isNearEnd(grownPx = 0) {
    const { scrollHeight, scrollTop, clientHeight } = by("scroll");
    return scrollHeight - scrollTop - clientHeight < NEAR_PX + grownPx;
}
/** Who reacts to a message: each emoji, and by how many. */
function reactionsOf({ reactions }) {
    const counts = new Map();
    for (const it of reactions.flatMap(({ emoji }) => emoji))
        counts.set(it, (counts.get(it) ?? 0) + 1);
    return [...counts].map(([it, count]) => `${it} ${count}`).join("  ");
}
