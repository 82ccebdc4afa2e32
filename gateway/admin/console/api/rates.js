// Rates computed from readings of totals, and their recent values.

const READINGS_MAX = 90; // of one series: three minutes at one reading every two seconds

/** Totals by name, each with the time of its reading. */
export class Rates {
  #last = new Map();
  #series = new Map();

  /** Add a reading; return the increase per second since the previous one, null for the first. */
  add(name, total, atMs) {
    const before = this.#last.get(name);
    if (before && atMs === before.atMs) return before.rate;
    // A total that fell, or a clock that went back, means that the node restarted.
    const found = before && atMs > before.atMs ? (Math.max(total - before.total, 0) * 1000) / (atMs - before.atMs) : null;
    this.#last.set(name, { total, atMs, rate: found });
    if (found !== null) this.note(name, found);
    return found;
  }

  /** Add a value, not a total, to a series. */
  note(name, value) {
    const series = this.#series.get(name) ?? [];
    series.push(value);
    if (series.length > READINGS_MAX) series.shift();
    this.#series.set(name, series);
  }

  /** The latest rates, oldest first. */
  series(name) {
    return this.#series.get(name) ?? [];
  }

  /** Drop the series of all other names. */
  keepOnly(names) {
    const kept = new Set(names);
    for (const name of [...this.#last.keys()]) {
      if (!kept.has(name)) {
        this.#last.delete(name);
        this.#series.delete(name);
      }
    }
  }
}
