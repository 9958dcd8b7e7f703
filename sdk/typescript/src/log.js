// The host's log. What a plugin writes to the console is there, too.
import { write } from "shelly:plugin/log@0.2.0";

export const debug = (message) => write("debug", String(message));
export const info = (message) => write("info", String(message));
export const warn = (message) => write("warn", String(message));
export const error = (message) => write("error", String(message));
