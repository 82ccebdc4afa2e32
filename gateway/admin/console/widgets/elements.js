// Creation of elements. Data from the gateway only becomes text: nothing here parses HTML.

/** Return an element. Attributes that start with `on` are listeners; null and false omit an attribute. */
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

/** Set the text of an element only if it changes, so that selections and screen readers are not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Return the non-empty lines of a text. */
export function linesOf(text) {
  return text.split("\n").map((each) => each.trim()).filter(Boolean);
}

/** Return a text as a number if it is one. Other texts are returned unchanged: the gateway reports the error. */
export function numberOf(text) {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** Return a list of names and values; with `many`, in columns. Names get a capital letter, unless they are `verbatim`. */
export function facts(pairs, { many = false, verbatim = false } = {}) {
  return h("dl", { class: ["facts", many && "many", verbatim && "verbatim"].filter(Boolean).join(" ") }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
