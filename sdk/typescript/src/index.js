// Plugins for shelly-host in JavaScript and TypeScript. The functions of the host are in modules of their own, because the
// world of a plugin must import each interface that it uses.
export { PluginError } from "./errors.js";
export { s } from "./schema.js";
export { PURE, Reply, defineTool, exportTools, needsFolder, needsServer, toJson } from "./tool.js";
export {
  exportCoordinator,
  exportEffect,
  exportModelMiddleware,
  exportProvider,
  exportRunMiddleware,
  exportToolMiddleware,
  isAnswer,
  textOf,
} from "./kinds.js";
