// Deleting something: the question before, and what is said and done afterwards.

import { remove } from "./admin.js";
import { ask, attempt, notice } from "./dialogs.js";

/** Ask whether what has this path and name is to go, delete it, say so, and do what comes `afterwards`. */
export async function askToDelete({ title, text, path, name }, afterwards) {
  const gone = await ask({ title, text, confirm: "Delete", dangerous: true, deed: () => remove(path) });
  if (!gone) return;
  notice(`${name} was deleted`);
  await attempt(afterwards);
}
