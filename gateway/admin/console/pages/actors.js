// The tree of actors, with inbox, batch size and handling time of each.

import { get } from "../api/admin.js";
import { h } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count } from "../widgets/words.js";

const OPEN_UP_TO = 20; // an actor with more children is collapsed: there can be thousands of connections

export function open(place) {
  const turned = new Set(); // paths that the operator expanded or collapsed
  let roots = [];
  const table = new LiveTable({
    label: "Actors",
    columns: [
      { title: "Actor", value: (each) => each.path, cell: (each) => label(each) },
      { title: "State", value: (each) => each.state, wide: true },
      { title: "Inbox", value: (each) => each.inbox_depth, cell: (each) => count(each.inbox_depth), numeric: true },
      { title: "Handled", value: (each) => each.handled_count, cell: (each) => count(each.handled_count), numeric: true },
      { title: "Batch", value: (each) => each.batch_size_mean, cell: (each) => each.batch_size_mean.toFixed(1), numeric: true, wide: true },
      { title: "µs/batch", value: (each) => each.handling_time_us, cell: (each) => each.handling_time_us.toFixed(1), numeric: true, wide: true },
      { title: "Restarts", value: (each) => each.restart_count, numeric: true },
      { title: "Kind", value: (each) => each.kind, wide: true },
    ],
    key: (each) => each.path,
    open: turn,
  });
  const about = "An actor takes what is in its inbox in batches. Batch is their mean length, and µs/batch the mean time for one.";
  place.append(h("h1", {}, "Actors"), h("p", { class: "quiet" }, about), table.element);

  function turn(actor) {
    if (!actor.children.length) return;
    if (turned.has(actor.path)) turned.delete(actor.path);
    else turned.add(actor.path);
    table.show([...rows(roots, 0)]);
  }

  const isOpen = (actor) => actor.children.length <= OPEN_UP_TO !== turned.has(actor.path);

  function* rows(actors, depth) {
    for (const actor of actors) {
      yield { ...actor, depth };
      if (isOpen(actor)) yield* rows(actor.children, depth + 1);
    }
  }

  function label(actor) {
    const mark = actor.children.length ? (isOpen(actor) ? "▾ " : "▸ ") : "  ";
    const more = actor.children.length && !isOpen(actor) ? ` (${count(actor.children.length)})` : "";
    const made = h("span", { class: "branch" }, `${mark}${actor.name}${more}`);
    made.style.paddingLeft = `${actor.depth * 1.2}em`;
    return made;
  }

  async function refresh() {
    roots = (await get("actors")).actors;
    table.show([...rows(roots, 0)]);
  }

  return { refresh };
}
