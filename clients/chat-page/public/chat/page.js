/**
 * The page: the door, at which one says who one is, and the room behind it.
 *
 * A password is kept nowhere: who has one gives it again after a reload.
 */
import { Client, ImError } from "./im/index.js";
import { by, Kept, speak } from "./dom.js";
import { listenToMenus } from "./menu.js";
import { socketUrl, typedName } from "./place.js";
import { Room } from "./room.js";
import { languageOf, sentenceOf, wordOf } from "./words.js";
/** Who is in this tab; a password is asked for again where `needs-password` stands beside it. */
const whoIsHere = new Kept(() => sessionStorage, "holdline-chat:account");
const needsPassword = new Kept(() => sessionStorage, "holdline-chat:needs-password");
const chosen = new Kept(() => localStorage, "holdline-chat:language");
/** Conversations that are kept right: all that a server remembers, unless it was told otherwise. */
const LIST_MAX = 2_000;
let language = languageOf([chosen.text ?? "", ...navigator.languages]);
let client;
let room;
let doorFault = "";
function showDoor(fault = "") {
    doorFault = fault;
    by("login-fault").textContent = fault === "" ? "" : sentenceOf(language, fault);
    by("door").hidden = false;
    by("room").hidden = true;
    by("enter").disabled = false;
    document.body.classList.remove("inside", "talking");
    const account = by("account");
    (account.value === "" ? account : by("password")).focus();
}
function showRoom(account) {
    by("password").value = "";
    by("door").hidden = true;
    by("room").hidden = false;
    document.body.classList.add("inside");
    room = new Room(client, account, language);
}
function enter(account, password) {
    client?.close();
    by("enter").disabled = true;
    by("login-fault").textContent = "";
    try {
        const url = socketUrl(location.href);
        const secret = password === "" ? {} : { password };
        client = new Client({ url, account, listMax: LIST_MAX, ...secret });
    }
    catch (error) {
        return showDoor(error instanceof ImError ? error.code : "other");
    }
    const mine = client;
    mine.on("state", (state) => {
        if (client === mine)
            tell(state, password !== "");
    });
    mine.connect().catch(() => undefined); // Its state tells.
}
function tell(state, hasPassword) {
    if (room !== undefined) {
        room.tell(state);
        if (state.name === "ended" && state.error.code === "bad_credentials")
            leave(state.error.code);
        return;
    }
    if (state.name === "online") {
        whoIsHere.text = client.account;
        needsPassword.text = hasPassword ? "yes" : null;
        showRoom(state.account);
        room.tell(state);
    }
    else if (state.name === "waiting" || state.name === "ended") {
        showDoor(state.error.code);
    }
}
/** Back to the door. What waits to be sent is kept for the next time; else nothing is. */
function leave(fault = "") {
    const forgets = client !== undefined && client.queue.length === 0 && fault === "";
    room?.close(forgets);
    room = undefined;
    const left = client;
    client = undefined;
    if (forgets)
        left?.forget();
    else
        left?.close();
    [whoIsHere.text, needsPassword.text] = [null, null];
    showDoor(fault);
}
function choose(next) {
    language = next;
    chosen.text = next;
    speak(language);
    room?.speak(language);
    by("login-fault").textContent = doorFault === "" ? "" : sentenceOf(language, doorFault);
    if (room === undefined)
        document.title = wordOf(language, "title");
}
function listen() {
    const on = (id, event, call) => by(id).addEventListener(event, call);
    const submitted = (id, call) => on(id, "submit", (event) => {
        event.preventDefault();
        call();
    });
    const value = (id) => by(id).value;
    submitted("login", () => enter(typedName(value("account")), value("password")));
    submitted("open", () => room?.named(value("peer")));
    submitted("say", () => room?.say());
    submitted("seek", () => room?.search());
    submitted("make", () => room?.make());
    submitted("add", () => room?.add());
    on("leave", "click", () => leave());
    on("again", "click", () => room?.again());
    on("members-shown", "click", () => room?.showMembers());
    on("quit", "click", () => room?.quit());
    on("cancel-edit", "click", () => room?.cancelEdit());
    on("cancel-quote", "click", () => room?.cancelQuote());
    on("more-found", "click", () => room?.searchOn());
    on("back", "click", () => room?.back());
    on("more", "click", () => room?.earlier());
    on("newest", "click", () => room?.newest());
    on("more-people", "click", () => room?.morePeople());
    on("text", "input", () => room?.written());
    on("text", "blur", () => room?.leavesField());
    on("scroll", "scroll", () => room?.scrolled());
    on("language", "change", () => choose(value("language")));
    on("text", "keydown", (event) => {
        const { key, shiftKey, isComposing } = event;
        if (!isComposing && !shiftKey && room?.presses(key))
            return event.preventDefault();
        // Enter while a word is being composed chooses it, and sends nothing.
        if (key === "Enter" && !shiftKey && !isComposing) {
            event.preventDefault();
            room?.say();
        }
        else if (key === "Escape" && !isComposing)
            room?.back();
    });
    document.addEventListener("visibilitychange", () => room?.seen());
    globalThis.addEventListener("pagehide", () => room?.leaves());
    listenToMenus();
}
by("language").value = language;
speak(language);
document.title = wordOf(language, "title");
listen();
const account = whoIsHere.text;
if (account !== null)
    by("account").value = account;
showDoor();
if (account !== null && needsPassword.text === null)
    enter(account, "");
