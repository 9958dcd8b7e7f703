/** Tokens, cost and cache by agent and over time; time and memory of plugins. */

import { useMemo } from "preact/hooks";
import { visible } from "./escape";
import { bytes, count, duration, money, percent, tokens } from "./format";
import { addUsage, cacheShare, noUsage, promptTokens, type Model, type ModelCall, type Usage } from "./model";
import { Plot, type PlotSeries } from "./plot";
import { runsBelow } from "./rows";
import type { App } from "./state";
import { theme } from "./theme";

interface AgentFigures {
  agent: string;
  runs: number;
  calls: number;
  usage: Usage;
  cost: number | null;
  time: number;
  failures: number;
}

function agentsOf(model: Model, within: Set<number> | null): AgentFigures[] {
  const found = new Map<string, AgentFigures>();
  for (const run of model.runs) {
    if (within && !within.has(run.index)) continue;
    let figures = found.get(run.agent);
    if (!figures) found.set(run.agent, (figures = { agent: run.agent, runs: 0, calls: 0, usage: noUsage(), cost: null, time: 0, failures: 0 }));
    figures.runs += 1;
    addUsage(figures.usage, run.usage);
    if (run.cost !== null) figures.cost = (figures.cost ?? 0) + run.cost;
    figures.time += (run.end ?? model.end) - run.start;
    figures.failures += run.failures;
  }
  for (const call of model.calls) {
    const figures = within && !within.has(call.run) ? undefined : found.get(model.runs[call.run]!.agent);
    if (figures) figures.calls += 1;
  }
  return [...found.values()].sort((a, b) => promptTokens(b.usage) + b.usage.output - promptTokens(a.usage) - a.usage.output);
}

const FILL_COLOURS = ["kind-question", "kind-effect", "kind-file", "kind-model", "kind-tool", "kind-team"];

/** The parts of each request, one upon the other: the highest is drawn first. */
function fillSeries(model: Model, calls: ModelCall[]): PlotSeries[] | null {
  const fills = calls.map((call) => model.steps[call.step]?.fills);
  const names = [...new Set(fills.flatMap((fill) => fill?.map(([name]) => name) ?? []))].slice(0, FILL_COLOURS.length);
  if (names.length === 0) return null;
  return names.map((name, at): PlotSeries => ({
    label: name,
    colour: FILL_COLOURS[at]!,
    kind: "bars",
    values: fills.map((fill) => fill?.reduce((sum, [part, size]) => (names.indexOf(part) <= at ? sum + size : sum), 0) ?? null),
  })).reverse();
}

function AgentTable({ agents }: { agents: AgentFigures[] }) {
  const sum = agents.reduce((sum, agent) => {
    addUsage(sum.usage, agent.usage);
    sum.runs += agent.runs;
    sum.calls += agent.calls;
    sum.failures += agent.failures;
    if (agent.cost !== null) sum.cost = (sum.cost ?? 0) + agent.cost;
    return sum;
  }, { agent: "All", runs: 0, calls: 0, usage: noUsage(), cost: null as number | null, time: 0, failures: 0 });
  const hasCost = sum.cost !== null;
  const cells = (of: AgentFigures, isSum: boolean) => (
    <>
      <td>{count(of.runs)}</td>
      <td>{count(of.calls)}</td>
      <td>{count(promptTokens(of.usage))}</td>
      <td><span class="share" aria-hidden="true"><span style={{ width: `${(cacheShare(of.usage) ?? 0) * 100}%` }} /></span>{percent(cacheShare(of.usage))}</td>
      <td>{count(of.usage.output)}</td>
      {hasCost && <td>{money(of.cost)}</td>}
      <td>{isSum ? "" : duration(of.time)}</td>
      <td class={of.failures > 0 ? "failed" : ""}>{count(of.failures)}</td>
    </>
  );
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Figures by agent">
      <table>
        <thead>
          <tr>
            <th scope="col">Agent</th><th scope="col">Runs</th><th scope="col">Requests</th><th scope="col">Prompt tokens</th>
            <th scope="col">From cache</th><th scope="col">Reply tokens</th>{hasCost && <th scope="col">Cost</th>}
            <th scope="col">Time</th><th scope="col">Failures</th>
          </tr>
        </thead>
        <tbody>
          {agents.slice(0, 200).map((agent) => <tr key={agent.agent}><th scope="row">{visible(agent.agent)}</th>{cells(agent, false)}</tr>)}
        </tbody>
        {agents.length > 1 && <tfoot><tr><th scope="row">All</th>{cells(sum, true)}</tr></tfoot>}
      </table>
    </div>
  );
}

function PluginTable({ model }: { model: Model }) {
  const plugins = [...model.plugins.values()].sort((a, b) => b.cpu - a.cpu);
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Figures by plugin">
      <table>
        <thead>
          <tr>
            <th scope="col">Plugin</th><th scope="col">Calls</th><th scope="col">CPU</th><th scope="col">Time</th><th scope="col">Most memory</th>
            <th scope="col">Read</th><th scope="col">Returned</th><th scope="col">HTTP</th><th scope="col">Failures</th>
          </tr>
        </thead>
        <tbody>
          {plugins.slice(0, 200).map((plugin) => (
            <tr key={plugin.plugin}>
              <th scope="row">{visible(plugin.plugin)}</th><td>{count(plugin.calls)}</td><td>{duration(plugin.cpu)}</td>
              <td>{duration(plugin.duration)}</td><td>{bytes(plugin.memory)}</td><td>{bytes(plugin.bytesIn)}</td>
              <td>{bytes(plugin.bytesOut)}</td><td>{count(plugin.requests)}</td>
              <td class={plugin.failures > 0 ? "failed" : ""}>{count(plugin.failures)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Figures({ app }: { app: App }) {
  const { model } = app;
  const key = `${model.revision}/${app.run}`;
  const data = useMemo(() => {
    const within = runsBelow(model, app.run);
    const calls = model.calls.filter((call) => !within || within.has(call.run)).sort((a, b) => a.time - b.time);
    const sum = noUsage();
    let cost: number | null = null;
    const sums = calls.map((call) => {
      addUsage(sum, call.usage);
      if (call.cost !== null) cost = (cost ?? 0) + call.cost;
      return { tokens: promptTokens(sum) + sum.output, cost, share: cacheShare(sum) };
    });
    const plugins = model.steps.filter((step) => step.kind === "plugin" && step.cpu !== undefined && (!within || within.has(step.run)))
      .sort((a, b) => a.start - b.start);
    return { within, calls, sums, sum, cost: cost as number | null, plugins };
  }, [key]);
  const agents = useMemo(() => agentsOf(model, data.within), [key]);
  const times = data.calls.map((call) => call.time - model.start);
  const ofStep = (index: number) => app.select(data.calls[index]?.step ?? -1);
  const fills = useMemo(() => fillSeries(model, data.calls), [key]);
  const scheme = theme.value();
  const scope = app.run >= 0 ? ` of ${visible(model.runs[app.run]!.agent)}` : "";
  return (
    <div class="figures-view">
      <section>
        <h2>Agents{scope}</h2>
        <AgentTable agents={agents} />
      </section>
      {times.length > 0 && (
        <section class="plots" key={`${app.run}/${data.cost !== null}`}>
          <Plot
            title="Tokens of each request" times={times} theme={scheme} format={tokens} select={ofStep}
            summary={`Tokens of ${times.length} requests over time; the table above has the sums`}
            series={[
              { label: "prompt", colour: "kind-model", kind: "points", values: data.calls.map((call) => promptTokens(call.usage)) },
              { label: "of it from cache", colour: "kind-tool", kind: "points", values: data.calls.map((call) => call.usage.read) },
              { label: "reply", colour: "kind-question", kind: "points", values: data.calls.map((call) => call.usage.output) },
            ]}
          />
          <Plot
            title="Tokens, added up" times={times} theme={scheme} format={tokens} select={ofStep}
            summary={`Tokens added up: ${count(data.sums.at(-1)?.tokens ?? 0)} at the end`}
            series={[{ label: "tokens", colour: "accent", kind: "steps", values: data.sums.map((sum) => sum.tokens) }]}
          />
          <Plot
            title="Share of the prompt from cache" times={times} theme={scheme} format={percent} most={1} select={ofStep}
            summary={`Share of the prompt from cache: ${percent(cacheShare(data.sum))} in all`}
            series={[
              { label: "request", colour: "kind-tool", kind: "points", values: data.calls.map((call) => cacheShare(call.usage)) },
              { label: "in all", colour: "accent", kind: "line", values: data.sums.map((sum) => sum.share) },
            ]}
          />
          {fills && (
            <Plot
              title="What fills the window" times={times} theme={scheme} format={tokens} select={ofStep} series={fills}
              summary="Tokens of each request by what they are; each request has them as a table"
            />
          )}
          {data.cost !== null && (
            <Plot
              title="Cost, added up" times={times} theme={scheme} format={money} select={ofStep} summary={`Cost: ${money(data.cost)} in all`}
              series={[{ label: "cost", colour: "kind-question", kind: "steps", values: data.sums.map((sum) => sum.cost) }]}
            />
          )}
        </section>
      )}
      {model.plugins.size > 0 && (
        <section>
          <h2>Plugins</h2>
          <PluginTable model={model} />
          {data.plugins.length > 0 && (
            <div class="plots" key={app.run}>
              <Plot
                title="CPU time of each call" times={data.plugins.map((step) => step.start - model.start)} theme={scheme} format={duration}
                summary={`CPU time of ${data.plugins.length} calls of plugins`} select={(index) => app.select(data.plugins[index]?.index ?? -1)}
                series={[{ label: "CPU", colour: "kind-effect", kind: "points", values: data.plugins.map((step) => step.cpu ?? null) }]}
              />
              <Plot
                title="Memory of each call" times={data.plugins.map((step) => step.start - model.start)} theme={scheme} format={bytes}
                summary={`Memory of ${data.plugins.length} calls of plugins`} select={(index) => app.select(data.plugins[index]?.index ?? -1)}
                series={[{ label: "memory", colour: "kind-file", kind: "points", values: data.plugins.map((step) => step.memory ?? null) }]}
              />
            </div>
          )}
        </section>
      )}
      {times.length === 0 && model.plugins.size === 0 && <p class="blank">There are no requests to a model yet.</p>}
    </div>
  );
}
