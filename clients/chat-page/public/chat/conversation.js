/**
 * One conversation on the page: its messages, those that wait and those that failed, and how more
 * of it is read.
 */
import { fileOf, isChatroom, isGroup, RECALLED } from "./im/index.js";
import { sentenceOfChange, sentenceOfRecall } from "./changes.js";
import { by, made } from "./dom.js";
import { madeFile } from "./files.js";
import { madeMenu, stepMenus } from "./menu.js";
import { shortName, wholeName } from "./place.js";
import { Talk } from "./talk.js";
import { sentenceOf, timeOf, wordOf } from "./words.js";
/** Messages that are read at once. */
const PAGE = 50;
/** How near the edge counts as there, CSS pixels. */
const NEAR_PX = 60;
/** The conversation with somebody. */
export class Conversation {
    client;
    peer;
    domain;
    language;
    failed;
    wishes;
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
    /** How far the other has read what is shown. */
    #peerRead = 0;
    constructor(client, peer, domain, language, failed, wishes) {
        this.client = client;
        this.peer = peer;
        this.domain = domain;
        this.language = language;
        this.failed = failed;
        this.wishes = wishes;
        this.#isRoom = isChatroom(peer);
        by("rows").replaceChildren();
        by("rows").onkeydown = (event) => stepMenus(by("rows"), event);
        this.show();
        void this.begin();
    }
    /** Another one is looked at. */
    close() {
        this.#isOver = true;
        if (this.#isRoom)
            this.client.leaveChatroom(this.peer).catch(() => undefined);
    }
    /** The connection stands again. */
    resume() {
        if (this.#isRoom || !this.#hasBegun)
            void this.begin();
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
            const gone = { kind: RECALLED, text: "", extra: new Uint8Array(), change: undefined };
            this.#talk.change(message.recall, (it) => ({ ...it, ...gone }));
        }
        return this.#talk.live(message);
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
            const found = this.#isRoom
                ? await this.#join()
                : await this.client.history(this.peer, { ...where, count: PAGE });
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
            const isTold = ["unknown_account", "disconnected", "closed"].includes(code) || this.#isOver;
            if (!isTold)
                by("say-fault").textContent = sentenceOf(this.language, code);
        }
        finally {
            this.#isReading = false;
        }
        if (this.#isOver)
            return;
        this.show();
        const meanwhile = this.#meanwhile;
        this.#meanwhile = [];
        meanwhile.forEach((message) => this.live(message));
        if (next !== undefined)
            await this.#read({ after: next });
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
        const said = this.#talk.shown.filter(({ recall }) => recall === undefined)
            .map((message) => this.#row(message, at(message.at)));
        if (this.#talk.hasLater)
            return said;
        const keys = new Set(said.map(({ key }) => key));
        const isHere = ({ to }) => wholeName(to, this.domain) === this.peer;
        const failed = this.failed.filter(({ queued }) => isHere(queued)).map((it) => {
            const why = sentenceOf(this.language, it.code);
            const about = `${wordOf(this.language, "failed")}: ${why}`;
            const { clientId, text } = it.queued;
            const file = fileOf(it.queued);
            return { key: `/${clientId}`, text, kind: "own", about, file, failed: it };
        });
        const waiting = this.client.queue.filter(isHere).map((queued) => {
            const { clientId, text, saidAt } = queued;
            const about = `${at(saidAt)} · ${wordOf(this.language, "waiting")}`;
            return { key: `/${clientId}`, text, kind: "own", about, file: fileOf(queued) };
        });
        return [...said, ...[...failed, ...waiting].filter(({ key }) => !keys.has(key))];
    }
    get #known() {
        return this.client.list.find(({ peer }) => peer === this.peer);
    }
    #row(message, at) {
        const { from, isOwn, text, clientId, change, kind, seq } = message;
        const key = `${isOwn ? "" : from}/${clientId}`;
        if (change !== undefined) {
            const sentence = sentenceOfChange(this.language, from, change, this.domain);
            return { key, text: sentence, kind: "change", about: at };
        }
        if (kind === RECALLED) {
            const sentence = sentenceOfRecall(this.language, from, this.domain);
            // Another key than before: the element with the old words goes.
            return { key: `${key}/recall`, text: sentence, kind: "change", about: at };
        }
        const file = fileOf(message);
        if (isOwn) {
            const about = `${at} · ${wordOf(this.language, seq <= this.#peerRead ? "read" : "sent")}`;
            const isYoung = message.at > this.#tooLateAt && !this.#isRoom;
            const recall = isYoung ? { recall: seq } : {};
            return { key, text, kind: "own", about, file, ...recall };
        }
        // In a group, or a room, it is not plain who says something.
        const by = isGroup(this.peer) || this.#isRoom ? `${shortName(from, this.domain)} · ` : "";
        return { key, text, kind: "theirs", about: `${by}${at}`, file };
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
            const about = element.querySelector("small");
            if (about.textContent !== row.about)
                about.textContent = row.about;
            this.#offer(element, row.failed);
            this.#offerRecall(element, row.recall);
            if (element === next)
                next = next.nextElementSibling;
            else
                list.insertBefore(element, next);
        }
        stepMenus(list);
    }
    #made({ text, kind, file }) {
        const element = made("li", "", kind);
        const stay = () => {
            if (isNearEnd(element.clientHeight) && !this.#talk.hasLater)
                this.#toEnd();
        };
        const said = file === undefined ? made("div", text, "text") : madeFile(file, text, stay);
        element.append(said, made("small"));
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
    #offerRecall(element, seq) {
        const menu = element.querySelector(".menu");
        if (seq === undefined)
            menu?.remove();
        else if (menu === null) {
            const text = wordOf(this.language, "recall");
            const chosen = () => void this.#recall(seq);
            element.append(madeMenu(wordOf(this.language, "moreOf"), [{ text, chosen }]));
        }
    }
    /** Calls a message back. That it is, a message tells, as it does to others. */
    async #recall(seq) {
        by("say-fault").textContent = "";
        try {
            await this.client.recall(this.peer, seq);
        }
        catch (error) {
            const { code } = error;
            const at = this.#talk.shown.find((it) => it.seq === seq)?.at ?? 0;
            if (code === "too_late")
                this.#tooLateAt = Math.max(this.#tooLateAt, at);
            if (this.#isOver)
                return;
            by("say-fault").textContent = sentenceOf(this.language, code);
            this.show();
        }
    }
}
/** Whether the end of the list is in sight, or was before it grew by so much, CSS pixels. */
function isNearEnd(grownPx = 0) {
    const { scrollHeight, scrollTop, clientHeight } = by("scroll");
    return scrollHeight - scrollTop - clientHeight < NEAR_PX + grownPx;
}
