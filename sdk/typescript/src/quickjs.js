// Imported by a plugin that componentize-qjs builds. QuickJS passes integers of 64 bits as numbers.
import { useNumbers } from "./integers.js";

useNumbers();
