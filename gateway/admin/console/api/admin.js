// Requests to the admin API. Its address is relative to this page, so that a proxy may serve it below a path.

const ROOT = new URL("../", location.href);
const ANSWER_MS = 35_000; // longer than the node's own timeout for a stuck operation
export const DEFAULT_VPN = "default";

/** An error that the gateway reported. `status` is 0 if there was no response; `members` are its problem details. */
export class Problem extends Error {
  constructor(status, text, members = {}) {
    super(text);
    this.status = status;
    this.members = members;
  }
}

/** The message VPN that is shown. It is part of the page's address, so that links include it. */
export function vpn() {
  return new URLSearchParams(location.search).get("vpn") || DEFAULT_VPN;
}

export function chooseVpn(name) {
  const address = new URL(location.href);
  if (name === DEFAULT_VPN) address.searchParams.delete("vpn");
  else address.searchParams.set("vpn", name);
  history.replaceState(null, "", address);
}

export const get = (path, query) => ask("GET", path, query);
export const post = (path, body) => ask("POST", path, {}, body);
export const patch = (path, body) => ask("PATCH", path, {}, body);
export const remove = (path) => ask("DELETE", path);

/** Return the latest operation of a kind, such as a backup, or the replicas of the broker; null if there are none. */
export async function latest(path) {
  try {
    return await get(path);
  } catch (problem) {
    if (problem.status === 409) return null;
    throw problem;
  }
}

/** Return a document of the node as a text. Throws Problem. */
export async function download(path, query) {
  const answer = await reached(fetch(address(path, query, false)));
  const text = await reached(answer.text());
  if (!answer.ok) throw refused(answer, parsed(text));
  return text;
}

/** Send a text to the node, as it is; return the JSON document of the response. Throws Problem. */
export function upload(path, query, text, mediaType) {
  return ask("POST", path, query, text, mediaType);
}

/** The path of a queue, or of a resource below it. */
export function queuePath(name, below = "") {
  return `queues/${encodeURIComponent(name)}${below}`;
}

/**
 * Return the objects of a response that goes on, one JSON document per line, until `signal` aborts it. Throws Problem if
 * the gateway refuses or ends it.
 */
export async function* lines(path, query, signal) {
  for await (const line of texts(path, query, signal)) yield JSON.parse(line);
}

/** Return the objects of a response that goes on, one in the data of each event, as `lines` does. */
export async function* events(path, query, signal) {
  for await (const line of texts(path, query, signal)) {
    if (line.startsWith("data: ")) yield JSON.parse(line.slice("data: ".length));
  }
}

async function* texts(path, query, signal) {
  const answer = await reached(fetch(address(path, query), { signal }));
  if (!answer.ok) throw refused(answer, parsed(await answer.text()));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reached(reader.read());
    if (done) throw new Problem(0, "the gateway ended the answer");
    const found = (rest + value).split("\n");
    rest = found.pop();
    yield* found;
  }
}

/** Return the URL of a path, in the message VPN that is shown unless it is of the node. Throws Problem. */
function address(path, query, ofVpn = true) {
  // Browsers resolve these path segments, even percent-encoded ones.
  if (path.split("/").some((part) => part === "." || part === "..")) {
    throw new Problem(400, "a browser cannot request an object named . or ..; use the command sluicegate");
  }
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  if (ofVpn && vpn() !== DEFAULT_VPN && !url.searchParams.has("vpn")) url.searchParams.set("vpn", vpn());
  return url;
}

/** Send a request; return the JSON document of the response, null for an empty one. Throws Problem. */
async function ask(method, path, query = {}, body = undefined, mediaType = null) {
  const url = address(path, query, mediaType === null);
  const request = { method, headers: { Accept: "application/json" }, signal: AbortSignal.timeout(ANSWER_MS) };
  if (body !== undefined) {
    request.body = mediaType === null ? JSON.stringify(body) : body;
    request.headers["Content-Type"] = mediaType ?? "application/json";
  }
  const answer = await reached(fetch(url, request));
  const found = parsed(await answer.text());
  // A node that is not ready answers 503 with its health, which is a valid response.
  if (!answer.ok && found?.ready === undefined) throw refused(answer, found);
  if (found === undefined) throw new Problem(answer.status, "the server is not a Sluicegate admin port");
  return found;
}

/** Await a part of a response. Throws Problem without one, and AbortError if the page gave it up. */
async function reached(part) {
  try {
    return await part;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, error.name === "TimeoutError" ? "the gateway did not answer in time" : "the gateway cannot be reached");
  }
}

function refused(answer, found) {
  const why = found?.detail ?? `the gateway answered ${answer.status}`;
  return new Problem(answer.status, answer.status === 401 ? `${why}; reload the page to log in` : why, found ?? {});
}

/** Return a JSON document; null for an empty text, undefined for other content, such as a proxy's page. */
function parsed(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
