import assert from "node:assert/strict";
import { test } from "node:test";

import { provider } from "../src/plugin.js";
import { message, withHost } from "../src/shelly-plugin/testing.js";

test("the newest message of the user is repeated", () => {
  withHost({ params: { prefix: "You said: " } }, (host) => {
    const messages = [message("user", "Hello"), message("assistant", "Hi")];
    const reply = provider.complete("echo-1", { messages, tools: [], toolChoice: { tag: "auto" }, meta: [] });
    assert.deepEqual(reply.parts, [{ tag: "text", val: "You said: Hello" }]);
    assert.equal(host.text, "You said: Hello");
  });
});
