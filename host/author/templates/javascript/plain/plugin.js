// A component with a world of its own, `wit/@{id}.wit`: each function that it exports is a tool.
import { counts } from "./logic.js";

export function count(text) {
  return counts(text);
}
