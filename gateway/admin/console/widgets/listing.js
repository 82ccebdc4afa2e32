// A page that is a filtered table: what the filter says is asked of the gateway, which has more than one page shows.

import { attempt } from "./dialogs.js";
import { h, setText } from "./elements.js";
import { counted } from "./words.js";

export const ROWS_MAX = 1000; // of one request; a filter finds the others
const LONG_MS = 10_000; // between two refreshes of a list that has more: the gateway goes through all of it

/**
 * Put title and filter on the head of a page, and a table into its place. `read(text)` returns `{rows, total}` for the text of the filter; `tools` are
 * buttons and fields beside it. Return two functions: `refresh`, for every now and then, which spares long lists, and
 * `read`, for what the operator has just changed.
 */
export function listing(place, head, { title, about = "", filterLabel, placeholder, noun, table, read, tools = [] }) {
  const filter = h("input", { type: "search", placeholder, "aria-label": filterLabel, class: "grow" });
  const total = h("span", { class: "quiet" });
  head.append(
    h("h1", {}, title),
    about ? h("p", { class: "quiet" }, about) : "",
    h("div", { class: "bar-of-tools" }, filter, ...tools, total),
  );
  place.append(table.element);
  const empty = table.empty.textContent; // of a list without a filter
  let asked = 0; // number of requests
  let longest = 0; // rows of an answer
  let answeredMs = 0;

  async function readNow() {
    asked += 1;
    const mine = asked;
    const found = await read(filter.value.trim());
    if (mine !== asked) return; // the filter has changed meanwhile
    longest = Math.max(longest, found.total);
    answeredMs = Date.now();
    table.show(found.rows);
    setText(table.empty, filter.value.trim() ? `No ${noun}s match.` : empty);
    setText(total, `${counted(found.total, noun)}${found.total > found.rows.length ? `, the first ${found.rows.length} are shown` : ""}`);
  }

  async function refresh() {
    if (longest <= ROWS_MAX || Date.now() - answeredMs >= LONG_MS) await readNow();
  }

  filter.addEventListener("input", () => attempt(readNow));
  return { read: readNow, refresh };
}

/** Return a pattern of the gateway: a text without wildcards is found anywhere in a name. */
export function anywhere(text) {
  return text && !/[*?]/.test(text) ? `*${text}*` : text;
}
