// Dialogs that ask the operator, and notices of the results.

import { remove } from "../api/admin.js";
import { refusal } from "./access.js";
import { h, setText } from "./elements.js";
import { makeField } from "./fields.js";

const NOTICE_MS = 8_000;
const FIELDS_IN_A_COLUMN = 6; // more fields are shown in columns

/**
 * Show a dialog, and run `action` with the values of the fields by name, unless the account lacks the level. An error is
 * shown in the dialog, which stays open with the values, and at the field that the gateway names. `fields` are those of
 * fields.js; without them, the dialog is a confirmation. Return whether the action succeeded, even if the dialog was closed
 * before that.
 */
export function ask({ title, text, fields = [], confirm, dangerous = false, level, ofNode, action }) {
  const why = refusal(level, ofNode);
  if (why) {
    notice(why, { wrong: true });
    return Promise.resolve(false);
  }
  return new Promise((resolve) => {
    const inputs = fields.map(makeField);
    for (const each of inputs) each.rename("");
    const isBroad = fields.length > FIELDS_IN_A_COLUMN || fields.some((each) => each.rows);
    const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
    const doing = h("button", { class: dangerous ? "danger" : "primary" }, confirm);
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", {}, title),
      text ? h("p", {}, text) : null,
      h("div", { class: isBroad ? "fields many" : "" }, inputs.map((each) => each.element)),
      wrong,
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), doing),
    );
    const dialog = h("dialog", { class: isBroad ? "broad" : null }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      doing.disabled = true;
      wrong.hidden = true;
      for (const each of inputs) each.clear();
      try {
        await action(Object.fromEntries(inputs.map((each) => [each.name, each.read()])));
        resolve(true);
        dialog.close();
      } catch (problem) {
        setText(wrong, problem.message);
        wrong.hidden = false;
        doing.disabled = false;
        if (dialog.open) return markField(inputs, problem);
        notice(problem.message, { wrong: true });
        resolve(false);
      }
      return undefined;
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (!doing.disabled) resolve(false); // otherwise the action is running, and continues
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Show an error at the field that the gateway names, as `window_bytes` or `outgoing.1.qos`. */
function markField(inputs, problem) {
  const path = problem.members?.field;
  if (!path) return;
  const [name, ...rest] = path.split(".");
  const text = problem.message.startsWith(`${path}: `) ? problem.message.slice(path.length + 2) : problem.message;
  inputs.find((each) => each.name === name)?.mark(rest, text);
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
