/** Open questions of agents, with the answers that a person can give. */

import { useState } from "preact/hooks";
import { unifiedDiff } from "../diff";
import { Block, Diff, JsonOrText, Line } from "../text";
import { visible } from "../escape";
import { duration } from "../format";
import { ApiError, request, type Question } from "./api";

export const errorText = (error: unknown): string => {
  if (error instanceof ApiError) return [error.message, error.problem.mend].filter(Boolean).join(". ");
  return error instanceof Error ? error.message : String(error);
};

const isDiff = (text: string): boolean => /^(--- |diff |@@ )/m.test(text) && /^[+-]/m.test(text);

function Detail({ text }: { text: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="What it wants to do">
      {isDiff(text) ? <Diff lines={unifiedDiff(text)} /> : <JsonOrText text={text} />}
    </div>
  );
}

interface CardProps {
  question: Question;
  answered: () => void;
}

/** A name that labels what belongs to one question. */
const nameOf = (question: Question): string => `question-${question.id}`;

function Permission({ question, send }: { question: Question; send: (reply: unknown) => void }) {
  const [message, setMessage] = useState("");
  return (
    <>
      {question.detail && <Detail text={question.detail} />}
      <div class="answers">
        <button type="button" class="primary" onClick={() => send({ verdict: "yes" })}>Yes, this time</button>
        <button type="button" onClick={() => send({ verdict: "trust" })}>Yes, and do not ask again</button>
        <span class="answer-no">
          <input
            type="text" value={message} placeholder="What to do instead" aria-label="What the agent should do instead" maxLength={4_000}
            onInput={(event) => setMessage(event.currentTarget.value)}
          />
          <button type="button" class="danger" onClick={() => send({ verdict: "no", ...(message.trim() ? { message: message.trim() } : {}) })}>No</button>
        </span>
      </div>
    </>
  );
}

function Open({ question, send }: { question: Question; send: (reply: unknown) => void }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState<string[]>([]);
  const options = Array.isArray(question.options) ? question.options : [];
  const most = question.multi_select ? question.max_selections ?? options.length : 1;
  const toggle = (label: string) => {
    if (!question.multi_select) return setChosen([label]);
    setChosen(chosen.includes(label) ? chosen.filter((other) => other !== label) : [...chosen, label].slice(-most));
  };
  return (
    <form onSubmit={(event) => {
      event.preventDefault();
      if (text.trim()) send({ text: text.trim() });
      else if (chosen.length > 0) send({ chosen });
    }}>
      {options.length > 0 && (
        <fieldset class="options">
          <legend class="unseen">Answers</legend>
          {options.map((option) => (
            <label key={option.label}>
              <input
                type={question.multi_select ? "checkbox" : "radio"} name={nameOf(question)} checked={chosen.includes(option.label)}
                onChange={() => toggle(option.label)}
              />
              <span><b><Line text={option.label} /></b> {option.description && <span class="muted"><Line text={option.description} /></span>}</span>
            </label>
          ))}
        </fieldset>
      )}
      <div class="answers">
        <input
          type="text" value={text} placeholder={options.length > 0 ? "Or another answer" : "Your answer"} aria-label="Your answer" maxLength={16_000}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={!text.trim() && chosen.length === 0}>Answer</button>
        <button type="button" onClick={() => send({ decline: true })}>Decline</button>
      </div>
    </form>
  );
}

export function QuestionCard({ question, answered }: CardProps) {
  const [error, setError] = useState("");
  const [isSent, setSent] = useState(false);
  const send = (reply: unknown) => {
    setSent(true);
    setError("");
    request("POST", `/questions/${question.id}`, reply).then(answered, (error: unknown) => {
      setSent(false);
      setError(errorText(error));
      if (error instanceof ApiError && error.status === 404) answered();
    });
  };
  const isPermission = question.kind === "permission";
  const left = Date.parse(question.expires ?? "") - Date.now();
  const title = isPermission ? question.action || "act" : question.header || "A question";
  return (
    <article class="card question" aria-label={`Question of ${visible(question.agent ?? "an agent")}`}>
      <header>
        <span class="pill wait">{visible(question.agent ?? "agent")} asks</span>
        <h2>{isPermission ? <>May it <Line text={title} />?</> : <Line text={title} />}</h2>
        {Number.isFinite(left) && left > 0 && <span class="muted">{duration(left)} left</span>}
      </header>
      {!isPermission && question.text && <div class="scroll" tabIndex={0} role="region" aria-label="The question"><Block text={question.text} plain /></div>}
      <div class={isSent ? "sent" : ""}>
        {isPermission ? <Permission question={question} send={send} /> : <Open question={question} send={send} />}
      </div>
      {error && <p class="failure" role="alert"><Line text={error} /></p>}
    </article>
  );
}

export function Questions({ questions, answered }: { questions: Question[]; answered: () => void }) {
  if (questions.length === 0) return null;
  return (
    <section class="questions" aria-label="Open questions" aria-live="polite">
      {questions.slice(0, 50).map((question) => <QuestionCard key={question.id} question={question} answered={answered} />)}
    </section>
  );
}
