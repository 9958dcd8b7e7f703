// A tool of the contract in JavaScript.
const inputSchema = JSON.stringify({ type: "object", properties: { text: { type: "string" } }, required: ["text"] });
const hints = { readOnly: true, nonDestructive: true, idempotent: true, closedWorld: true };

export const tool = {
  specs() {
    return [{ name: "count_words", description: "Counts the words of a text.", inputSchema, hints, meta: [] }];
  },

  call({ arguments: json }) {
    const { text } = JSON.parse(json);
    if (typeof text !== "string") throw { tag: "invalid", val: "`text` must be a string" };
    const words = text.split(/\s+/).filter(Boolean);
    console.log(`${words.length} words in JavaScript`);
    const longest = words.reduce((a, b) => (b.length > a.length ? b : a), "");
    return [{ tag: "json", val: JSON.stringify({ words: words.length, longest }) }];
  },
};
