// A payload as text, as indented JSON or as hexadecimal bytes, as the operator chooses.

import { h } from "./elements.js";

const LINE_BYTES = 16;
const FORMS = ["text", "JSON", "hex"];

/** Return the bytes of a payload that the gateway wrote as text or in base64. */
export function bytesOf(payload, encoding) {
  if (encoding === "text") return new TextEncoder().encode(payload);
  return Uint8Array.from(atob(payload), (each) => each.charCodeAt(0));
}

/** Return a payload in one of the forms; what it is not, such as JSON, is said in place of it. */
export function formatted(payload, encoding, form) {
  if (form === "hex") return hexLines(bytesOf(payload, encoding));
  if (encoding !== "text") return `${bytesOf(payload, encoding).length} bytes that are not UTF-8 text: choose hex`;
  if (form === "text") return payload;
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch (error) {
    return `not JSON: ${error.message}`;
  }
}

/** Return a payload with a choice of its form. */
export function payloadView(payload, encoding) {
  const content = h("pre", { tabindex: 0, "aria-label": "Payload" });
  const choice = formChoice(likelyForm(payload, encoding), show);

  function show() {
    content.textContent = payload === "" ? "(empty)" : formatted(payload, encoding, choice.value);
  }

  show();
  return h("div", {}, h("label", { class: "quiet" }, "Payload as ", choice), content);
}

/** Return the choice of a form. */
export function formChoice(value, changed) {
  return h("select", { "aria-label": "Form of payloads", onchange: changed }, FORMS.map((each) => h("option", { value: each, selected: each === value }, each)));
}

function likelyForm(payload, encoding) {
  if (encoding !== "text") return "hex";
  return /^\s*[{[]/.test(payload) && !formatted(payload, encoding, "JSON").startsWith("not JSON") ? "JSON" : "text";
}

function hexLines(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += LINE_BYTES) {
    const part = [...bytes.slice(at, at + LINE_BYTES)];
    const hex = part.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((each) => (each >= 0x20 && each < 0x7f ? String.fromCharCode(each) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(3 * LINE_BYTES)} ${text}`);
  }
  return lines.join("\n");
}
