/** Starts the page: a trace in this file, a run that goes on, or the start view of a server. */

import { render } from "preact";
import { followSource } from "./feed";
import { loadChunks, readMeta, type Meta } from "./loader";
import { TracePage } from "./page";
import { startServe } from "./serve/start";
import { App } from "./state";
import { theme } from "./theme";

const root = document.getElementById("app")!;

/** The file says what it holds in a block behind this program; resolves when the browser has read it, or all. */
async function waitForMeta(): Promise<Meta | null> {
  for (;;) {
    const meta = readMeta();
    if (meta || document.readyState !== "loading") return meta;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Forbids this document every connection: its data are in it. */
function forbidConnections(): void {
  const policy = document.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = "connect-src 'none'";
  document.head.append(policy);
}

function show(app: App): void {
  theme.start(() => app.update(() => {}));
  render(<TracePage app={app} />, root);
  app.readLink();
}

async function start(): Promise<void> {
  const meta = await waitForMeta();
  const isServed = location.protocol === "http:" || location.protocol === "https:";
  if (meta?.serve || (!meta && isServed)) {
    startServe(root);
    return;
  }
  const app = new App();
  if (meta) app.meta = meta;
  if (meta?.live) {
    app.isLoading = false;
    app.follows = true;
    show(app);
    followSource(meta.live, {
      lines: (lines) => app.addLines(lines),
      state: (state, detail) => app.update(() => {
        app.feed = { state, detail };
        if (state === "ended") app.reducer.finish();
      }),
    });
    return;
  }
  forbidConnections();
  show(app);
  await loadChunks(app.store, app.reducer, (damaged) => {
    app.chunksRead += 1;
    app.damaged = damaged;
    app.updateSoon();
  });
  app.reducer.finish();
  app.update(() => { app.isLoading = false; });
  app.readLink();
}

void start();
