// A tool that counts the words, lines and characters of a text.
@{engine}
import { PURE, PluginError, defineTool, exportTools, s } from "./shelly-plugin/index.js";

export const countText = defineTool({
  name: "@{tool}",
  description: "Counts the words, lines and characters of a text.",
  // The model reads the descriptions of the arguments.
  args: s.object({ text: s.string("The text to count in.") }),
  // It only computes from its arguments.
  hints: PURE,
  run({ text }) {
    if (text === "") {
      // The model reads the error and tries again: say what would be right.
      throw new PluginError("invalid", "`text` is empty; pass the text to count in");
    }
    return {
      words: text.split(/\s+/).filter(Boolean).length,
      lines: text.replace(/\n$/, "").split("\n").length,
      characters: [...text].length,
    };
  },
});

export const tool = exportTools(countText);
