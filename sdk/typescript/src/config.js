// The plugin's params for this agent.
import { get } from "shelly:plugin/config@0.2.0";

import { PluginError } from "./errors.js";
import { WrongValue } from "./schema.js";

export function params(shape) {
  const given = JSON.parse(get());
  try {
    return shape === undefined ? given : shape.parse(given, "");
  } catch (wrong) {
    throw wrong instanceof WrongValue ? new PluginError("invalid", `params: ${wrong.message}`) : wrong;
  }
}
