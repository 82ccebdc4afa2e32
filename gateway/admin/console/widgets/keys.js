// Keyboard shortcuts: those of every page, and those of the open page.

import { show } from "./dialogs.js";
import { h } from "./elements.js";

let ofPage = [];
let everywhere = [];
let lastRow = null; // that a key has moved the focus to

/** Set the shortcuts of every page: `{key, meaning, press, ofRows}`. Those `ofRows` act on a row that has the focus. */
export function listen(keys) {
  everywhere = keys;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && event.target.matches("input,select,textarea")) return event.target.blur();
    if (event.target.matches("input:not([type=checkbox]),select,textarea")) return undefined;
    const found = [...ofPage, ...everywhere].find((each) => each.key === event.key && (!each.ofRows || event.target.matches("tr")));
    if (found) {
      event.preventDefault();
      found.press();
    }
    return undefined;
  });
}

/** Set the shortcuts of the open page. */
export function takeKeys(keys) {
  ofPage = keys;
}

export function showKeys() {
  const lines = [...everywhere, ...ofPage].map(({ key, meaning }) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning)));
  show("Keys", h("dl", { class: "keys" }, lines));
}

/** Open the row that has the focus; one that opens nothing has a link to follow, if any. */
export function openRow() {
  const row = document.activeElement;
  (row.matches(".opens") ? row : row.querySelector("a"))?.click();
}

/** Move the focus among the rows of the page, from the last one that had it. */
export function moveRow(by) {
  const rows = [...document.querySelectorAll("#page tbody tr[tabindex]")];
  const at = rows.indexOf(document.activeElement?.closest("tr") ?? lastRow);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1);
  lastRow = rows[next] ?? null;
  lastRow?.focus();
}
