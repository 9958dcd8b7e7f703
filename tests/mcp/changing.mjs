// A server of the official SDK whose tools change: each call of `grow` adds one. Over standard input and output.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

const server = new McpServer({ name: "changing", version: "1.0.0" });
let grown = 0;
server.registerTool("grow", { description: "Adds a tool." }, () => {
    const n = ++grown;
    server.registerTool(`grown_${n}`, { description: "Was added." }, () => ({ content: [{ type: "text", text: `I am ${n}.` }] }));
    return { content: [{ type: "text", text: "Grown." }] };
});
await server.connect(new StdioServerTransport());
