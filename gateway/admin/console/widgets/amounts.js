// Amounts of bytes and time as people type and read them: `64 MiB`, `1.5 GB`, `90 s`. Sizes follow the rules of the configuration file.

const SIZES = new Map([
  ["B", 1n],
  ["kB", 10n ** 3n],
  ["MB", 10n ** 6n],
  ["GB", 10n ** 9n],
  ["TB", 10n ** 12n],
  ["KiB", 2n ** 10n],
  ["MiB", 2n ** 20n],
  ["GiB", 2n ** 30n],
  ["TiB", 2n ** 40n],
]);
const TIMES = new Map([
  ["ms", 1n],
  ["s", 1000n],
  ["min", 60_000n],
  ["h", 3_600_000n],
  ["d", 86_400_000n],
]);
// The units in which an amount is written, the largest first.
const OF_SIZES = ["TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB"];
const OF_TIMES = ["d", "h", "min", "s"];
const AMOUNT = /^([0-9]{1,15})(?:\.([0-9]{1,9}))?\s*([a-z]*)$/i;

/** A kind of amount. `plain` is the unit in which the gateway counts it, and so that of a number without a unit. */
class Amount {
  #units;
  #order;
  #plain;

  constructor(units, order, plain) {
    this.#units = units;
    this.#order = order;
    this.#plain = plain;
  }

  /** Return a number of the gateway in the largest unit in which it is a whole number. `read` reads it back. */
  write(number) {
    const amount = BigInt(number) * this.#units.get(this.#plain);
    const fits = (unit) => amount !== 0n && amount % this.#units.get(unit) === 0n;
    const unit = this.#order.find(fits) ?? this.#plain;
    return `${amount / this.#units.get(unit)} ${unit}`;
  }

  /** Return the number that a text stands for, from `minimum` to `maximum`. Throws Error, which says what is allowed. */
  read(text, { minimum = 0, maximum = Number.MAX_SAFE_INTEGER }) {
    const number = this.#numberOf(text);
    if (number === null) throw new Error(`${text} is not ${this.#what()}; allowed: a number with ${this.#unitWords()}; ${this.#plain} if without`);
    if (number < minimum || number > maximum) throw new Error(`${text} is out of range; allowed: ${this.write(minimum)} to ${this.write(maximum)}`);
    return Number(number);
  }

  /** Return the number of the plain unit; null for a text that is no amount, or none of whole plain units. */
  #numberOf(text) {
    const [, whole, fraction = "", unit] = AMOUNT.exec(text.trim()) ?? [];
    const known = [...this.#units.keys()].find((each) => each.toLowerCase() === (unit || this.#plain).toLowerCase());
    if (whole === undefined || known === undefined) return null;
    // In whole numbers: as a float, 0.1 GB is not exact.
    const divisor = 10n ** BigInt(fraction.length) * this.#units.get(this.#plain);
    const amount = BigInt(whole + fraction) * this.#units.get(known);
    return amount % divisor === 0n ? amount / divisor : null;
  }

  #what() {
    return this.#plain === "B" ? "a size in whole bytes" : `${this.#units === SIZES ? "a size" : "a time"} in whole ${this.#plain}`;
  }

  #unitWords() {
    const names = [...this.#units.keys()];
    return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
  }
}

export const BYTES = new Amount(SIZES, OF_SIZES, "B");
export const MEBIBYTES = new Amount(SIZES, ["TiB", "GiB"], "MiB");
export const SECONDS = new Amount(TIMES, OF_TIMES, "s");
export const MILLISECONDS = new Amount(TIMES, OF_TIMES, "ms");
