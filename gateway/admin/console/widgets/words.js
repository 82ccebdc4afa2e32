// Formatting of numbers, sizes and times.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ABBREVIATIONS = /\b(acl|dmq|http|mqtt|rest|tls|ttl|vpn)\b/g;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function count(number) {
  return grouped.format(number);
}

/** Return a number of things: `1 queue`, `2 queues`. */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Format a rate; a dash until there are two readings. */
export function rate(number) {
  if (number === null) return "–";
  return number > 0 && number < 10 ? number.toFixed(1) : count(number);
}

export function size(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${UNITS[unit]}`;
}

/** Return the name of a protocol as people write it. */
export function protocolName(protocol) {
  return protocol === "flow" ? protocol : protocol.toUpperCase();
}

/** Return a name as words: `rejected_to_dmq` is `rejected to DMQ`. */
export function words(name) {
  return name.replaceAll(/[_-]/g, " ").replaceAll(ABBREVIATIONS, (each) => each.toUpperCase());
}

export function moment(wallMs) {
  const at = new Date(wallMs);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}
