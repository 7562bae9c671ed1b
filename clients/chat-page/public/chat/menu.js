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
