/** Finds the call that began a run in the events of older hosts, which do not name it. */

/** The tool that delegates tasks to agents that its arguments name. */
const DELEGATE = "delegate";
/** The origin of a tool that is an agent, before the agent's name in the config. */
const AGENT_ORIGIN = "agent:";
/** Open calls of a run among which the one that began a run is looked for: twice as many as a host executes of one reply. */
const OPEN_CALLS = 256;

interface Delegation {
  /** Index of its step. */
  step: number;
  /** The agent that the tool is; null for `delegate`. */
  agent: string | null;
  /** Runs that it has begun so far. */
  runs: number;
}

/** The calls of a run that may begin runs and have not ended. */
export class OpenDelegations {
  private readonly calls = new Map<string, Delegation>();

  begin(call: string, step: number, tool: string, origin: string): void {
    const isAgent = origin.startsWith(AGENT_ORIGIN);
    if (!isAgent && tool !== DELEGATE) return;
    this.calls.delete(call);
    if (this.calls.size >= OPEN_CALLS) this.calls.delete(this.calls.keys().next().value!);
    this.calls.set(call, { step, agent: isAgent ? origin.slice(AGENT_ORIGIN.length) : null, runs: 0 });
  }

  end(call: string): void {
    this.calls.delete(call);
  }

  clear(): void {
    this.calls.clear();
  }

  /** Takes the step of the call that has begun a run of this agent: of several, that with the fewest runs so far, since runs
   * begin in the order of their calls. Returns -1 if there is none. */
  take(agent: string): number {
    const found = this.fewest(agent) ?? this.fewest(null);
    if (!found) return -1;
    found.runs += 1;
    return found.step;
  }

  private fewest(agent: string | null): Delegation | undefined {
    let found: Delegation | undefined;
    for (const call of this.calls.values()) {
      if (call.agent === agent && (!found || call.runs < found.runs)) found = call;
    }
    return found;
  }
}
