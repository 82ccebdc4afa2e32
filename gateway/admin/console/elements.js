// Making elements. What comes from the gateway only ever becomes text: nothing here parses HTML.

/** Return an element. Attributes that begin with `on` are listeners; null and false leave one out. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

/** Set the text of an element if it is another one: selections and screen readers stay undisturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Return the lines of a text that say something. */
export function linesOf(text) {
  return text.split("\n").map((each) => each.trim()).filter(Boolean);
}

/** Return the number that a text is. What is none stays a text: the gateway says what is wrong with it. */
export function numberOf(text) {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** Return a list of names and values; `many` of them stand in columns. */
export function facts(pairs, { many = false } = {}) {
  return h("dl", { class: many ? "facts many" : "facts" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
