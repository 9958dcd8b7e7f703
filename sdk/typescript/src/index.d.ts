export { type ErrorKind, PluginError } from "./errors.js";
export { type Infer, type ObjectType, type Type, s } from "./schema.js";
export { type Call, PURE, Reply, type Tool, defineTool, exportTools, needsFolder, needsServer, toJson } from "./tool.js";
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
