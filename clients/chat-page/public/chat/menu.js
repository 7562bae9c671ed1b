/** Menus: a summary that opens a few buttons. One is open at a time; Escape or a choice ends it. */
import { made } from "./dom.js";
/** A menu of these choices; `label`: what it is for those who do not see its three dots. */
export function madeMenu(label, choices) {
    const menu = made("details", "", "menu");
    const summary = made("summary", "⋯");
    summary.setAttribute("aria-label", label);
    const list = made("div");
    list.append(...choices.map(({ text, chosen }) => {
        const button = made("button", text, "plain");
        button.addEventListener("click", () => {
            closeMenus();
            chosen();
        });
        return button;
    }));
    menu.append(summary, list);
    return menu;
}
function openMenus() {
    return [...document.querySelectorAll("details.menu[open]")];
}
/** Closes all but the one in which this is; true: one was open. */
export function closeMenus(inside) {
    const others = openMenus().filter((it) => inside === undefined || !it.contains(inside));
    for (const menu of others) {
        const hadFocus = menu.contains(document.activeElement);
        menu.removeAttribute("open");
        if (hadFocus)
            menu.querySelector("summary")?.focus();
    }
    return others.length > 0;
}
/**
 * Of the menus of a list one is on the way of the Tab key: the last, or the one on which one
 * stands. The arrows go to the others.
 */
export function stepMenus(list, event) {
    const all = [...list.querySelectorAll(".menu > summary")];
    const current = all.indexOf(document.activeElement);
    const step = event?.key === "ArrowUp" ? -1 : event?.key === "ArrowDown" ? 1 : 0;
    const next = all[current + step];
    if (current >= 0 && step !== 0 && next !== undefined) {
        event.preventDefault();
        next.focus();
    }
    const way = current >= 0 ? next ?? all[current] : all.at(-1);
    for (const it of all)
        it.tabIndex = it === way ? 0 : -1;
}
/** Has menus close themselves. */
export function listenToMenus() {
    document.addEventListener("pointerdown", ({ target }) => closeMenus(target));
    document.addEventListener("focusin", ({ target }) => closeMenus(target));
    document.addEventListener("keydown", (event) => {
        // Before others hear of it: Escape closes one thing at a time.
        if (event.key === "Escape" && closeMenus())
            event.stopPropagation();
    }, { capture: true });
}
