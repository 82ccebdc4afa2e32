// The admin port, asked. Its address is that of this page, one level up, so that a proxy may put it below a path.

const ROOT = new URL("../", location.href);
const ANSWER_MS = 35_000; // longer than the node takes to say that it is stuck
export const DEFAULT_VPN = "default";

/** What the gateway did not do, in its own words. `status` is 0 when nobody answered. */
export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** The message VPN that is shown: the address names it, so what somebody types there counts, and a link leads to it. */
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

/** Return what became of the latest one of something, a backup say; null when there was none. */
export async function latest(path) {
  try {
    return await get(path);
  } catch (problem) {
    if (problem.status === 409) return null;
    throw problem;
  }
}

/** The path of a queue, or of something below it. */
export function queuePath(name, below = "") {
  return `queues/${encodeURIComponent(name)}${below}`;
}

/** Return what the gateway answers; null for nothing. Throws Problem. */
async function ask(method, path, query = {}, body = undefined) {
  // As a part of an address a browser takes them for the way to somewhere else, however they are written.
  if (path.split("/").some((part) => part === "." || part === "..")) {
    throw new Problem(400, "a browser cannot ask for what is named . or .., the command sluicegate can");
  }
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  if (vpn() !== DEFAULT_VPN) url.searchParams.set("vpn", vpn());
  const request = { method, headers: { Accept: "application/json" }, signal: AbortSignal.timeout(ANSWER_MS) };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(url, request);
  } catch (error) {
    throw new Problem(0, error.name === "TimeoutError" ? "the gateway does not answer in time" : "no gateway answers");
  }
  const found = parsed(await answer.text());
  // A node that is not ready answers 503 with its health: that is what was asked for.
  if (!answer.ok && found?.ready === undefined) {
    const why = found?.detail ?? `the gateway answered ${answer.status}`;
    throw new Problem(answer.status, answer.status === 401 ? `${why}; reload the page to log in` : why);
  }
  if (found === undefined) throw new Problem(answer.status, "what answers there is no admin port of Sluicegate");
  return found;
}

/** Return a JSON document; null for an empty text, undefined for what is none, such as a proxy's page. */
function parsed(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
