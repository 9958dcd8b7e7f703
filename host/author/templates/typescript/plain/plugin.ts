// A component with a world of its own, `wit/@{id}.wit`: each function that it exports is a tool.
import type { Guest } from "local:plugin/plugin";

import { counts } from "./logic.js";

export const count: Guest["count"] = (text) => counts(text);
