// Requests to the admin API. Its address is relative to this page, so that a proxy may serve it below a path.

const ROOT = new URL("../", location.href);
const ANSWER_MS = 35_000; // longer than the node's own timeout for a stuck operation
export const DEFAULT_VPN = "default";

/** An error that the gateway reported. `status` is 0 if there was no response. */
export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
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

/** Return the latest operation of a kind, such as a backup; null if there was none. */
export async function latest(path) {
  try {
    return await get(path);
  } catch (problem) {
    if (problem.status === 409) return null;
    throw problem;
  }
}

/** The path of a queue, or of a resource below it. */
export function queuePath(name, below = "") {
  return `queues/${encodeURIComponent(name)}${below}`;
}

/** Send a request; return the JSON document of the response, null for an empty one. Throws Problem. */
async function ask(method, path, query = {}, body = undefined) {
  // Browsers resolve these path segments, even percent-encoded ones.
  if (path.split("/").some((part) => part === "." || part === "..")) {
    throw new Problem(400, "a browser cannot request an object named . or ..; use the command sluicegate");
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
    throw new Problem(0, error.name === "TimeoutError" ? "the gateway did not answer in time" : "the gateway cannot be reached");
  }
  const found = parsed(await answer.text());
  // A node that is not ready answers 503 with its health, which is a valid response.
  if (!answer.ok && found?.ready === undefined) {
    const why = found?.detail ?? `the gateway answered ${answer.status}`;
    throw new Problem(answer.status, answer.status === 401 ? `${why}; reload the page to log in` : why);
  }
  if (found === undefined) throw new Problem(answer.status, "the server is not a Sluicegate admin port");
  return found;
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
