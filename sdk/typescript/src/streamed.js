// A provider's reply that is put together while it arrives.
import { emit } from "shelly:plugin/sink@0.2.0";

import { PluginError } from "./errors.js";
import { asInteger } from "./integers.js";

const MOST_BYTES = 16 << 20;
const MOST_CALLS = 1_024;
// A server may alternate between a letter of text and one of thinking.
const PIECE = 64;
// A character has at most four bytes, and a piece at most 64 KiB.
const MOST_EMITTED = (64 << 10) / 4;

const count = (number = 0) => asInteger(number);

export class Streamed {
  #model;
  #parts = [];
  #open;
  #usage = usageOf({});
  #bytes = 0;
  #calls = 0;

  constructor(model) {
    this.#model = model;
  }

  text(piece) {
    this.#add("text", piece);
  }

  thinking(piece) {
    this.#add("thinking", piece);
  }

  call(id, name, args) {
    this.#grow(name.length + args.length + PIECE);
    this.#calls += 1;
    if (this.#calls > MOST_CALLS) {
      throw new PluginError("too-large", `the model made more than ${MOST_CALLS} tool calls in one reply`);
    }
    this.#flush();
    this.#parts.push({ tag: "tool-call", val: { id, name, arguments: args || "{}", meta: [] } });
    emit({ tag: "tool-call", val: name });
  }

  usage(total) {
    this.#usage = usageOf(total);
    emit({ tag: "usage", val: this.#usage });
  }

  finish(stop = "end-turn") {
    this.#flush();
    const known = ["end-turn", "tool-calls", "max-tokens", "stop-sequence", "refusal"];
    const reason = known.includes(stop) ? { tag: stop } : { tag: "other", val: stop };
    return { parts: this.#parts, stop: reason, usage: this.#usage, model: this.#model, meta: [] };
  }

  #add(tag, piece) {
    if (piece === "") return;
    this.#grow(new TextEncoder().encode(piece).length);
    if (this.#open?.tag !== tag) {
      this.#flush();
      this.#grow(PIECE);
      this.#open = { tag, texts: [] };
    }
    this.#open.texts.push(piece);
    const letters = piece.length <= MOST_EMITTED ? [piece] : [...piece];
    if (letters.length === 1) emit({ tag, val: piece });
    else for (let at = 0; at < letters.length; at += MOST_EMITTED) {
      emit({ tag, val: letters.slice(at, at + MOST_EMITTED).join("") });
    }
  }

  /** Ends the text or the reasoning that is being added to. */
  #flush() {
    if (this.#open === undefined) return;
    const text = this.#open.texts.join("");
    this.#parts.push(this.#open.tag === "text" ? { tag: "text", val: text } : { tag: "thinking", val: { text } });
    this.#open = undefined;
  }

  #grow(by) {
    this.#bytes += by;
    if (this.#bytes > MOST_BYTES) throw new PluginError("too-large", `the reply has more than ${MOST_BYTES} bytes`);
  }
}

function usageOf({ inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }) {
  return {
    inputTokens: count(inputTokens),
    outputTokens: count(outputTokens),
    cacheReadTokens: count(cacheReadTokens),
    cacheWriteTokens: count(cacheWriteTokens),
  };
}
