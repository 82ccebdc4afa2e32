// Rates computed from readings of totals.

/** Totals by name, each with the time of its reading. */
export class Rates {
  #last = new Map();

  /** Add a reading; return the increase per second since the previous one, null for the first. */
  add(name, total, atMs) {
    const before = this.#last.get(name);
    if (before && atMs === before.atMs) return before.rate;
    // A total that fell, or a clock that went back, means that the node restarted.
    const found = before && atMs > before.atMs ? (Math.max(total - before.total, 0) * 1000) / (atMs - before.atMs) : null;
    this.#last.set(name, { total, atMs, rate: found });
    return found;
  }

  /** Forget all other names. */
  keepOnly(names) {
    const kept = new Set(names);
    for (const name of [...this.#last.keys()]) {
      if (!kept.has(name)) this.#last.delete(name);
    }
  }
}
