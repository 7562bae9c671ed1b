/**
 * The page: the login form, and the room of the account that is logged in.
 *
 * A password is kept nowhere. A reload logs in by a token of the server, which is kept for this tab
 * or, if the user wants to stay logged in, for this browser, until it expires or the user logs out.
 */
import { Client, ImError } from "./im/index.js";
import { by, Kept, speak } from "./dom.js";
import { issued, LoginShelf, wayOf } from "./login.js";
import { listenToMenus } from "./menu.js";
import { socketUrl, typedName } from "./place.js";
import { Room } from "./room.js";
import { languageOf, sentenceOf, wordOf } from "./words.js";
const shelf = new LoginShelf(new Kept(() => sessionStorage, "holdline-chat:login"), new Kept(() => localStorage, "holdline-chat:login"));
/** The conversation that is open in this tab, behind its account. */
const openHere = new Kept(() => sessionStorage, "holdline-chat:open");
const chosen = new Kept(() => localStorage, "holdline-chat:language");
/** Conversations that are kept right: all that a server remembers, unless it was told otherwise. */
const LIST_MAX = 2_000;
/** Why a login is over that only another one can follow. */
const VOID = ["bad_credentials", "bad_method", "expired"];
let language = languageOf([chosen.text ?? "", ...navigator.languages]);
let client;
let room;
let doorFault = "";
/** The login under way is the kept one: the form is not shown unless it fails. */
let isReturning = false;
function showDoor(fault = "") {
    doorFault = fault;
    isReturning = false;
    by("login-fault").textContent = fault === "" ? "" : sentenceOf(language, fault);
    by("door").hidden = false;
    by("room").hidden = by("returning").hidden = true;
    by("enter").disabled = false;
    document.body.classList.remove("inside", "talking");
    document.body.prepend(by("tongue"));
    const account = by("account");
    (account.value === "" ? account : by("password")).focus();
}
function showRoom(account) {
    by("password").value = "";
    by("door").hidden = by("returning").hidden = true;
    by("room").hidden = false;
    document.body.classList.add("inside");
    by("settings-language").append(by("tongue"));
    const whose = `${account} `;
    room = new Room(client, account, language, (peer) => {
        openHere.text = peer === undefined ? null : whose + peer;
    });
    const kept = openHere.text;
    if (kept?.startsWith(whose))
        room.open(kept.slice(whose.length));
}
/** Logs in. `stays`: the login is kept when the tab is closed. */
function enter(login, secret, stays) {
    client?.close();
    by("enter").disabled = true;
    by("login-fault").textContent = "";
    try {
        const url = socketUrl(location.href);
        client = new Client({ url, account: login.account, listMax: LIST_MAX, people: true, ...secret });
    }
    catch (error) {
        return showDoor(error instanceof ImError ? error.code : "other");
    }
    const mine = client;
    mine.on("state", (state) => {
        if (client === mine)
            tell(state, login, stays);
    });
    mine.connect().catch(() => undefined); // Its state tells.
}
/** Logs in as the browser keeps it, if it does. */
function comeBack() {
    const { login, stays } = shelf;
    by("account").value = login?.account ?? "";
    by("stay").checked = stays;
    const way = login === undefined ? "ask" : wayOf(login, Date.now());
    if (login === undefined || way === "ask")
        return showDoor();
    isReturning = true;
    by("returning").textContent = wordOf(language, "connecting");
    by("returning").hidden = false;
    enter(login, way === "token" ? { loginToken: login.token.token } : {}, stays);
}
function tell(state, login, stays) {
    const isVoid = state.name === "ended" && VOID.includes(state.error.code);
    // Nobody typed a password that could be wrong.
    const fault = isVoid && login.token !== undefined ? "expired" : "";
    if (room !== undefined) {
        room.tell(state);
        // A new password ends the session so, and revokes its token.
        if (isVoid || (state.name === "ended" && state.error.code === "not_authorized"))
            leave("expired");
        return;
    }
    if (state.name === "online") {
        // The name alone: it is the one that the token is proved for.
        shelf.keep(login, stays);
        const isDue = login.needsPassword && !(Date.now() < (login.token?.renewAt ?? 0));
        if (isDue)
            void keepToken(client, login, stays);
        showRoom(state.account);
        room.tell(state);
    }
    else if (isReturning && state.name === "waiting") {
        by("returning").textContent = wordOf(language, "lost");
    }
    else if (state.name === "waiting" || state.name === "ended") {
        if (isReturning && isVoid)
            shelf.clear();
        showDoor(fault || state.error.code);
    }
}
/** Keeps a token for the next login; where the server gives none, that asks for the password. */
async function keepToken(mine, login, stays) {
    const given = await mine.requestToken().catch(() => undefined);
    if (given === undefined || client !== mine || room === undefined)
        return;
    const { token, until } = given;
    shelf.keep({ ...login, token: issued(token, until, Date.now()) }, stays);
}
/** Logs out, or is logged out. What waits to be sent is kept for the next time; else nothing is. */
function leave(fault = "") {
    const forgets = client !== undefined && client.queue.length === 0 && fault === "";
    room?.close(forgets);
    room = undefined;
    const left = client;
    client = undefined;
    if (shelf.login?.token !== undefined)
        left?.revokeTokens().catch(() => undefined);
    if (forgets)
        left?.forget();
    else
        left?.close();
    shelf.clear();
    openHere.text = null;
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
    submitted("login", () => {
        const [account, password] = [typedName(value("account")), value("password")];
        const isOpen = password === "";
        const login = { account, needsPassword: !isOpen };
        enter(login, isOpen ? {} : { password }, by("stay").checked);
    });
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
comeBack();
