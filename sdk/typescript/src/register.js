// Loaded before unit tests: node --import ./src/shelly-plugin/register.js --test
import { register } from "node:module";

register("./hooks.js", import.meta.url);
