/** The keys, and how to read the page. */

import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
  ["j  k", "next and previous step"],
  ["Enter", "read the selected step"],
  ["Esc", "back: close help, step, search"],
  ["/", "search in everything"],
  ["f", "only failures and warnings"],
  ["e", "next failure"],
  ["x", "fold or unfold the run"],
  ["t", "by delegation or by time"],
  ["+  −  0", "zoom the timeline, show all"],
  ["g  G", "first and last step"],
  ["1  2", "steps, figures"],
  ["d", "dark or light"],
  ["?", "this help"],
];

export function Help({ close }: { close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    box.current?.showModal();
  }, []);
  return (
    <dialog ref={box} class="help" aria-label="Help" onClose={close} onClick={(event) => { if (event.target === box.current) box.current?.close(); }}>
      <header>
        <h2>Keys</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={() => box.current?.close()}>✕</button>
      </header>
      <dl>
        {KEYS.map(([key, what]) => (
          <div><dt>{key.split("  ").map((one) => <kbd>{one}</kbd>)}</dt><dd>{what}</dd></div>
        ))}
      </dl>
      <h2>Reading the page</h2>
      <p>
        Each lane of the timeline is a run of an agent; thin lines lead from the call that delegated to the run that it began. Ctrl and the
        wheel zoom, dragging moves. A click on an agent limits everything to it and those that work for it.
      </p>
      <p>
        Characters that are not visible, or that would reorder text, are shown as escapes such as <span class="escape">\u202e</span>. A link
        with <code>#run=…&amp;step=…</code> leads to a step.
      </p>
    </dialog>
  );
}
