// Dialogs that ask the operator, and notices of the results.

import { remove } from "../api/admin.js";
import { refusal } from "./access.js";
import { h, setText } from "./elements.js";

const NOTICE_MS = 8_000;
const FIELDS_IN_A_COLUMN = 6; // more fields are shown in columns
const LINE_CHARS = 50; // about the width of a text area
const CHOICES = new Map([["", "–"], ["true", "yes"], ["false", "no"]]); // as people read them
const LINES_MAX = 10; // visible lines of a text area

/**
 * Show a dialog, and run `action` with the values of the fields by name, unless the account lacks the level. An error is
 * shown in the dialog, which stays open with the values. Fields are `{name, label, value, required, hint, placeholder}`,
 * with `options` for suggestions, `choices` for a fixed list, `lines: true` for a text of several lines, or
 * `secret: true` for a password. Without fields, the dialog is a confirmation. Return whether the action succeeded, even
 * if the dialog was closed before that.
 */
export function ask({ title, text, fields = [], confirm, dangerous = false, level, ofNode, action }) {
  const why = refusal(level, ofNode);
  if (why) {
    notice(why, { wrong: true });
    return Promise.resolve(false);
  }
  return new Promise((resolve) => {
    const inputs = fields.map(field);
    const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
    const doing = h("button", { class: dangerous ? "danger" : "primary" }, confirm);
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", {}, title),
      text ? h("p", {}, text) : null,
      h("div", { class: fields.length > FIELDS_IN_A_COLUMN ? "fields many" : "" }, inputs.map((each) => each.row)),
      wrong,
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), doing),
    );
    const dialog = h("dialog", { class: fields.length > FIELDS_IN_A_COLUMN ? "broad" : null }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      doing.disabled = true;
      try {
        await action(Object.fromEntries(inputs.map(({ name, input }) => [name, input.type === "password" ? input.value : input.value.trim()])));
        resolve(true);
        dialog.close();
      } catch (problem) {
        setText(wrong, problem.message);
        wrong.hidden = false;
        doing.disabled = false;
        if (dialog.open) return;
        notice(problem.message, { wrong: true });
        resolve(false);
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (!doing.disabled) resolve(false); // otherwise the action is running, and continues
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function field({ name, label, value = "", required = false, hint = "", placeholder = null, options = [], choices = null, lines = false, secret = false }) {
  const list = options.length ? h("datalist", { id: `options-${name}` }, options.map((each) => h("option", { value: each }))) : null;
  const attributes = { name, value, required, placeholder };
  let input;
  if (choices) input = h("select", attributes, choices.map((each) => h("option", { value: each, selected: each === value }, CHOICES.get(each) ?? each)));
  else if (lines) input = h("textarea", { ...attributes, rows: Math.min(2 + Math.floor(value.length / LINE_CHARS), LINES_MAX) });
  else if (secret) input = h("input", { ...attributes, type: "password", autocomplete: "new-password" });
  else input = h("input", { ...attributes, list: list ? list.id : null, autocomplete: "off" });
  return { name, input, row: h("label", { class: "field" }, label, input, hint ? h("small", {}, hint) : null, list) };
}

/** Show a dialog with content until it is closed. */
export function show(title, content) {
  const dialog = h("dialog", {}, h("h2", {}, title), content, h("form", { method: "dialog", class: "actions" }, h("button", {}, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** Show a notice; one that is `wrong` stays until it is dismissed. */
export function notice(text, { wrong = false } = {}) {
  const line = h("div", { class: wrong ? "notice wrong" : "notice" }, text);
  line.append(h("button", { type: "button", "aria-label": "Dismiss", onclick: () => line.remove() }, "×"));
  document.getElementById("notices").append(line);
  if (!wrong) setTimeout(() => line.remove(), NOTICE_MS);
}

/** Run an action, and show a notice if it fails. */
export async function attempt(action) {
  try {
    await action();
  } catch (problem) {
    notice(problem.message, { wrong: true });
  }
}

/** Ask for confirmation, delete the object at a path, show a notice, and run `afterwards`. */
export async function askToDelete({ title, text, path, name }, afterwards) {
  const gone = await ask({ title, text, confirm: "Delete", dangerous: true, action: () => remove(path) });
  if (!gone) return;
  notice(`${name} was deleted`);
  await attempt(afterwards);
}
