/** What a person can do while a run goes on: answer, write to it, cancel it; and what is left of its budget. */

import { useState } from "preact/hooks";
import { visible } from "../escape";
import { count, money } from "../format";
import { Block, Line } from "../text";
import { budgetOf, isOver, path, request, requestList, tokensOf, type Budget, type Question, type ServedRun } from "./api";
import { STATE_CLASSES, useLooks } from "./home";
import { errorText, Questions } from "./questions";

const LOOK_EVERY = 1_500;

/** What is left of the budget with which this tab started the run. */
function left(run: ServedRun, budget: Budget | null): string[] {
  if (!budget) return [];
  const found: string[] = [];
  if (budget.tokens !== undefined) found.push(`${count(Math.max(0, budget.tokens - tokensOf(run.usage)))} of ${count(budget.tokens)} tokens left`);
  if (budget.usd !== undefined && typeof run.cost_usd === "number") found.push(`${money(Math.max(0, budget.usd - run.cost_usd))} of ${money(budget.usd)} left`);
  if (budget.time !== undefined) found.push(`at most ${budget.time}`);
  return found;
}

export function RunBar({ id, home, unauthorized }: { id: string; home: () => void; unauthorized: () => void }) {
  const [run, setRun] = useState<ServedRun | null>(null);
  const [questions, setQuestions] = useState<Question[]>([]);
  const [message, setMessage] = useState("");
  const [notice, setNotice] = useState("");
  /** Why the run cannot be looked at now. */
  const [trouble, setTrouble] = useState("");
  const [asked, setAsked] = useState(false);
  const lookNow = useLooks(async () => {
    try {
      const [run, questions] = await Promise.all([
        request<ServedRun>("GET", `/runs/${path(id)}`), requestList<Question>(`/questions?run=${path(id)}`, "questions"),
      ]);
      setRun(run);
      setQuestions(questions);
      setTrouble("");
    } catch (error) {
      const status = (error as { status?: number }).status;
      if (status === 401) return unauthorized();
      // Nothing can be answered or cancelled there now.
      setQuestions([]);
      if (status === 404) setRun(null);
      setTrouble(
        status === 404 ? "The server does not know this run: it was started anew, or has forgotten it. Its session can be continued from the start view."
          : status === undefined ? "The server does not answer. It is asked again and again." : errorText(error),
      );
    }
  }, LOOK_EVERY);
  const act = (action: Promise<unknown>, said: string) => action.then(
    () => {
      setNotice(said);
      lookNow();
    },
    (error: unknown) => setNotice(errorText(error)),
  );
  const isWorking = run !== null && !trouble && !isOver(run.state);
  return (
    <>
      <section class="run-bar" aria-label="The run">
        <button type="button" class="quiet" onClick={home}>‹ All runs</button>
        {run && !trouble && <span class={`pill ${STATE_CLASSES[run.state] ?? ""}`}>{visible(run.state)}</span>}
        {run && <span class="muted">{[typeof run.cost_usd === "number" ? money(run.cost_usd) : "", ...left(run, budgetOf(id))].filter(Boolean).join(" · ")}</span>}
        {isWorking && (
          <form class="say" onSubmit={(event) => {
            event.preventDefault();
            const text = message.trim();
            if (!text) return;
            void act(request("POST", `/runs/${path(id)}/messages`, { text }).then(() => setMessage("")), "The agent reads it before its next turn.");
          }}>
            <input type="text" value={message} placeholder="Write to the agent" aria-label="Write to the agent" maxLength={16_000} onInput={(event) => setMessage(event.currentTarget.value)} />
            <button type="submit" disabled={!message.trim()}>Send</button>
          </form>
        )}
        {isWorking && (
          <button type="button" class="danger" onClick={() => {
            setAsked(true);
            void act(request("POST", `/runs/${path(id)}/cancel`), asked ? "The run is dropped." : "The step in progress ends, then the run does.");
          }}>{asked ? "Drop at once" : "Cancel"}</button>
        )}
        <span class={trouble ? "failure" : "muted"} role="status"><Line text={trouble || notice} /></span>
      </section>
      <Questions questions={questions} answered={lookNow} />
      {run?.error && <div class="notices" role="note"><p><Line text={[run.error.title, run.error.detail, run.error.mend].filter(Boolean).join(": ")} /></p></div>}
      {run && run.warnings && run.warnings.length > 0 && (
        <div class="notices">{run.warnings.slice(0, 10).map((warning) => <p><Line text={warning} /></p>)}</div>
      )}
      {run?.result?.text && (
        <details class="answer">
          <summary>Answer</summary>
          <div class="answer-body"><Block text={run.result.text} plain /></div>
        </details>
      )}
    </>
  );
}
