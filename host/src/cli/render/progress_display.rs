//! Shows events while an agent works.

use std::io::IsTerminal;

use super::{
    call_time::call_time as time,
    event_stream::{begin_stream, print_event},
    output_format::RunOutputFormat,
    print::{tell, warning},
    prose::tell_prose,
    terminal_text::{BOLD, DIM, GREEN, PLAIN, RED, YELLOW, name, one_line},
};
use crate::{
    agent::RunError,
    app::{PreparedRun, RunSession},
    cli::{secrets::ReplyRedactor, silent_models::SilentModels},
    event::{
        AnsweredBy, Event, LogLevel, MiddlewareAction, ModelWait, NO_ORIGIN, PluginRequestOutcome, QuestionDecision,
        StreamEvent,
    },
};

/// The amount of progress that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressLevel {
    /// Warnings alone.
    Quiet,
    /// The steps of agents.
    Normal,
    /// Also what plugins log, and what each call of a plugin costs.
    Verbose,
}

/// Shows the progress of a run in lines.
pub struct ProgressDisplay {
    output: RunOutputFormat,
    level: ProgressLevel,
    /// The name of the session in which the run is recorded.
    session: Option<String>,
    /// The models that have not begun to reply.
    silences: SilentModels,
    pieces: ReplyRedactor,
}

impl ProgressDisplay {
    pub fn new(output: RunOutputFormat, level: ProgressLevel) -> Self {
        Self { output, level, session: None, silences: SilentModels::default(), pieces: ReplyRedactor::default() }
    }

    fn is_quiet(&self) -> bool {
        self.level == ProgressLevel::Quiet
    }

    fn is_verbose(&self) -> bool {
        self.level == ProgressLevel::Verbose
    }

    /// Returns `true` if the output goes to the terminal on which questions are asked.
    pub fn shares_the_terminal(&self) -> bool {
        self.output != RunOutputFormat::Events || std::io::stdout().is_terminal()
    }

    /// Shows the notices from before the run, and begins the stream of events if that is the output. Returns the warnings
    /// that are to be emitted as events, where they are not shown at once.
    pub fn notes(&mut self, prepared: &PreparedRun, session: Option<&RunSession>) -> Vec<Event> {
        self.session = session.map(|session| session.journal.id().to_owned());
        begin_stream(self.session.as_deref(), self.output);
        if let Some(session) = session
            && !self.is_quiet()
        {
            let goes_on = if session.is_unfinished { ": continues where it was interrupted" } else { "" };
            tell(&format!("{DIM}session {}{goes_on}{PLAIN}\n", name(session.journal.id())));
        }
        for note in prepared.notes.iter().filter(|_| !self.is_quiet()) {
            tell_prose(&format!("{DIM}{}{PLAIN}\n", name(note)));
        }
        let changed = session.iter().flat_map(|session| &session.changed);
        let changed = changed.map(|what| format!("since the session was last used: {what}"));
        let left_out = session.iter().flat_map(|session| session.warnings.iter().cloned());
        let mut unshown = Vec::new();
        for message in prepared.warnings.iter().cloned().chain(left_out).chain(changed) {
            let event = Event::Warning { message };
            match self.output {
                RunOutputFormat::Events => unshown.push(event),
                RunOutputFormat::Text | RunOutputFormat::Json => self.show_line(&event),
            }
        }
        unshown
    }

    /// Shows an event: a line of JSON on standard output, or a line for people on standard error.
    pub fn show(&mut self, event: &StreamEvent) {
        if self.output != RunOutputFormat::Events {
            return self.show_line(&event.event);
        }
        for shown in self.pieces.pass_numbered(event) {
            print_event(self.session.as_deref(), &shown);
        }
    }

    /// Shows an event to people: a line on standard error.
    pub fn show_line(&mut self, event: &Event) {
        self.silences.note(event);
        if let Some(line) = self.line(event) {
            tell_prose(&format!("{line}\n"));
        }
    }

    /// Waits until an agent has waited for its model so long that a line is due.
    pub async fn silence(&self) {
        match self.is_quiet() {
            true => std::future::pending().await,
            false => self.silences.next().await,
        }
    }

    /// Prints a line for each agent whose wait is due.
    pub fn tell_silence(&mut self) {
        for (agent, waited) in self.silences.overdue() {
            let (agent, seconds) = (name(&agent), waited.as_secs_f64());
            tell(&format!("{DIM}{agent}   waiting for the model for {seconds:.0} s{PLAIN}\n"));
        }
    }

    /// Returns the line for people; `None` if the event is not shown to them.
    pub fn line(&self, event: &Event) -> Option<String> {
        if self.is_quiet() && !matches!(event, Event::Warning { .. }) {
            return None;
        }
        Some(match event {
            Event::RunStarted { agent, parent_agent, prefix, model, task, .. } => {
                let (prefix, agent) = (name(prefix), name(agent));
                // A team has no model.
                let model = if model.is_empty() { String::new() } else { format!(" on {}", name(model)) };
                match parent_agent {
                    None => format!("{prefix} {BOLD}{agent}{PLAIN}{model}"),
                    Some(parent) => {
                        let (parent, task) = (name(parent), one_line(task, 80));
                        format!("{prefix} {BOLD}{agent}{PLAIN}{model} {DIM}for {parent}{PLAIN} {task}")
                    }
                }
            }
            Event::ModelStarted { .. } | Event::ModelDelta { .. } | Event::MessageAdded { .. } => return None,
            // These lines show no partial replies.
            Event::RepliesWithheld { .. } => return None,
            Event::ModelWaits { wait: ModelWait::BatchPolling | ModelWait::BatchCompleted, .. }
                if !self.is_verbose() =>
            {
                return None;
            }
            Event::ModelWaits { agent, model, detail, .. } => {
                format!("{DIM}{}   {}: {}{PLAIN}", name(agent), name(model), one_line(detail, 200))
            }
            Event::HandedOver { agent, to, reason } => {
                format!(
                    "{DIM}{}{PLAIN}   hands over to {BOLD}{}{PLAIN}: {}",
                    name(agent),
                    name(to),
                    one_line(reason, 80)
                )
            }
            Event::TeamStep { agent, step, members, done, reasoning } => {
                let who: Vec<_> = members.iter().map(|member| name(member)).collect();
                let what = match (done, who.is_empty()) {
                    (true, _) => "is done".to_owned(),
                    (false, true) => format!("step {}: no member works", step + 1),
                    (false, false) => format!("step {}: {BOLD}{}{PLAIN}", step + 1, one_line(&who.join(", "), 200)),
                };
                let why =
                    reasoning.as_deref().map_or(String::new(), |why| format!(" {DIM}({}){PLAIN}", one_line(why, 200)));
                format!("{DIM}{}{PLAIN}   {what}{why}", name(agent))
            }
            Event::MemberReplied { text: None, .. } => return None,
            Event::MemberReplied { agent, text: Some(text) } => {
                format!("{DIM}{}{PLAIN}   says: {}", name(agent), one_line(text, 500))
            }
            Event::Overspent { agent, message } => {
                format!("{DIM}{}{PLAIN}   {YELLOW}{}{PLAIN}", name(agent), one_line(message, 200))
            }
            Event::Missed { count } => format!("{DIM}{count} events were missed{PLAIN}"),
            // What follows says it: another attempt of a middleware, or the failure of the run.
            Event::ModelFailed { again: false, .. } if !self.is_verbose() => return None,
            Event::ModelFailed { agent, model, reason, again } => {
                let then = if *again { "; retrying" } else { "" };
                let (agent, model, reason) = (name(agent), name(model), one_line(reason, 200));
                format!("{DIM}{agent}{PLAIN}   {YELLOW}{model} failed{PLAIN}: {reason}{then}")
            }
            Event::ModelFinished { agent, iteration, calls, usage, duration, .. } => {
                let does = match calls {
                    0 => "answers".to_owned(),
                    1 => "calls a tool".to_owned(),
                    calls => format!("calls {calls} tools"),
                };
                let (turn, time) = (iteration + 1, time(*duration));
                let (input, output) = (usage.total() - usage.output_tokens, usage.output_tokens);
                format!(
                    "{DIM}{}{PLAIN} turn {turn}: the model {does} ({time}, {input} tokens in, {output} out)",
                    name(agent)
                )
            }
            Event::ToolStarted { agent, tool, origin, arguments, .. } => {
                let (agent, tool) = (name(agent), name(tool));
                let of = match origin.as_str() {
                    NO_ORIGIN => "(unknown tool)".to_owned(),
                    origin => format!("of {}", name(origin)),
                };
                format!("{DIM}{agent}{PLAIN}   {tool} {DIM}{of}{PLAIN} {}", one_line(arguments, 80))
            }
            Event::ToolProgress { agent, done, total, message, .. } => {
                let of = total.map_or(String::new(), |total| format!(" of {total}"));
                let message = message.as_deref().map_or(String::new(), |message| format!(" {}", one_line(message, 80)));
                format!("{DIM}{}{PLAIN}     {done}{of}{message}", name(agent))
            }
            Event::ToolFinished { agent, tool, is_error, reason, bytes, duration, .. } => {
                let how = if *is_error { format!("{RED}failed{PLAIN}") } else { format!("{GREEN}done{PLAIN}") };
                let why = reason.as_deref().map_or(String::new(), |why| format!(": {}", one_line(why, 200)));
                let (agent, tool, time) = (name(agent), name(tool), time(*duration));
                format!("{DIM}{agent}{PLAIN}   {tool} {how} ({time}, {bytes} bytes){why}")
            }
            Event::FileChange { agent, act, path, to, added, removed, .. } => {
                let to = to.as_deref().map_or(String::new(), |to| format!(" to {}", one_line(to, 200)));
                let lines = added
                    .zip(*removed)
                    .map_or(String::new(), |(more, less)| format!(" {GREEN}+{more}{PLAIN} {RED}-{less}{PLAIN}"));
                format!("{DIM}{}{PLAIN}   {act} {}{to}{lines}", name(agent), one_line(path, 200))
            }
            Event::EffectEdited { agent, effect, edit, .. } => {
                format!("{DIM}{}{PLAIN}   {} edits the chat: {edit}", name(agent), name(effect))
            }
            Event::EffectRefused { agent, effect, edit, reason } => {
                let (agent, effect, reason) = (name(agent), name(effect), one_line(reason, 200));
                format!("{DIM}{agent}{PLAIN}   {effect}: {edit} {YELLOW}refused{PLAIN}: {reason}")
            }
            Event::EffectFailed { agent, effect: failed, reason, skipped }
            | Event::MiddlewareFailed { agent, middleware: failed, reason, skipped } => {
                let (agent, failed, reason) = (name(agent), name(failed), one_line(reason, 200));
                let goes_on = if *skipped { "; continuing without it" } else { "" };
                format!("{DIM}{agent}{PLAIN}   {failed} {YELLOW}failed{PLAIN}{goes_on}: {reason}")
            }
            Event::MiddlewareActed {
                agent, middleware, action: MiddlewareAction::Retry, reason: Some(reason), ..
            } => {
                format!("{DIM}{}{PLAIN}   {}: {}", name(agent), name(middleware), one_line(reason, 200))
            }
            Event::MiddlewareActed { agent, middleware, action, tool, reason } => {
                let of = tool.as_deref().map_or(String::new(), |tool| format!(" {}", name(tool)));
                let why = reason.as_deref().map_or(String::new(), |reason| format!(" ({})", one_line(reason, 200)));
                format!("{DIM}{}{PLAIN}   {}: {action}{of}{why}", name(agent), name(middleware))
            }
            Event::PluginCall { .. } if !self.is_verbose() => return None,
            Event::PluginCall {
                agent,
                plugin,
                function,
                outcome,
                duration,
                cpu,
                memory,
                host_calls,
                bytes_in,
                bytes_out,
                ..
            } => {
                let (agent, plugin, wall, cpu) = (name(agent), name(plugin), time(*duration), time(*cpu));
                let taken = format!("{wall}, CPU {cpu}, {} KiB, {host_calls} calls", memory >> 10);
                let crossed = format!("{bytes_in} B in, {bytes_out} B out");
                format!("{DIM}{agent}     {plugin} {function}: {outcome} ({taken}, {crossed}){PLAIN}")
            }
            Event::PluginWaits { agent, plugin, held, total } => {
                let (agent, plugin, held, total) = (name(agent), name(plugin), held >> 20, total >> 20);
                format!("{DIM}{agent}     {plugin} waits for memory: plugins hold {held} of {total} MiB{PLAIN}")
            }
            Event::PluginRequest { outcome: PluginRequestOutcome::Answered, .. } if !self.is_verbose() => return None,
            Event::PluginRequest {
                agent,
                plugin,
                method,
                url,
                outcome,
                status,
                reason,
                credential,
                hops,
                duration,
            } => {
                let (agent, plugin, url) = (name(agent), name(plugin), one_line(url, 200));
                let status = status.map_or(String::new(), |status| format!(" {status}"));
                let why = reason.as_deref().map_or(String::new(), |reason| format!(": {}", one_line(reason, 200)));
                let with = credential.as_deref().map_or(String::new(), |with| format!(", credential {}", name(with)));
                let hops = if *hops == 0 { String::new() } else { format!(", {hops} redirects") };
                let took = time(*duration);
                let method = name(method);
                format!("{DIM}{agent}     {plugin} {method} {url}: {outcome}{status} ({took}{with}{hops}){PLAIN}{why}")
            }
            Event::CapabilityDecided { .. } if !self.is_verbose() => return None,
            Event::CapabilityDecided { agent, plugin, capability, allowed, rule } => {
                let has = if *allowed { "has" } else { "does not have" };
                let (agent, plugin, what, rule) = (name(agent), name(plugin), one_line(capability, 200), name(rule));
                format!("{DIM}{agent}     {plugin} {has} {what} ({rule}){PLAIN}")
            }
            Event::PluginLog { level, .. } if !self.is_verbose() && *level < LogLevel::Warn => return None,
            Event::PluginLog { agent, plugin, level, message } => {
                let level = match level {
                    LogLevel::Debug => "debug",
                    LogLevel::Info => "info",
                    LogLevel::Warn => "warn",
                    LogLevel::Error => "error",
                };
                let (agent, plugin, message) = (name(agent), name(plugin), one_line(message, 200));
                format!("{DIM}{agent}     {plugin} {level}:{PLAIN} {message}")
            }
            // The question and its answer are on the screen already.
            Event::QuestionAsked { .. } | Event::QuestionAnswered { by: AnsweredBy::Person, .. } => return None,
            Event::QuestionAnswered { by: AnsweredBy::Trust, .. } if !self.is_verbose() => return None,
            Event::QuestionAnswered { agent, question, outcome, by, .. } => {
                let because = if *by == AnsweredBy::Trust { "trusted" } else { "not asked" };
                let outcome = if *outcome == QuestionDecision::Nobody { "no answer" } else { outcome.name() };
                let (agent, question) = (name(agent), one_line(question, 200));
                format!("{DIM}{agent}{PLAIN}   {question} {YELLOW}{outcome}{PLAIN} ({because})")
            }
            Event::Warning { message } => warning(message),
            Event::RunFinished { agent, error, iterations, usage, of_children, duration, .. } => {
                let (agent, time) = (name(agent), time(*duration));
                let tokens = match of_children.total() {
                    0 => format!("{} tokens", usage.total()),
                    others => format!("{} tokens and {others} in sub-runs", usage.total()),
                };
                let ends = match error {
                    None => "is done",
                    Some(error) if *error == RunError::Cancelled.to_string() => "is cancelled",
                    Some(_) => "failed",
                };
                let turns = if *iterations == 1 { "turn" } else { "turns" };
                format!("{BOLD}{agent}{PLAIN} {ends}: {iterations} {turns}, {tokens}, {time}")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn unknown_tool_is_shown_without_origin() {
        let progress = ProgressDisplay::new(RunOutputFormat::Text, ProgressLevel::Normal);
        for (origin, says) in [(NO_ORIGIN, "(unknown tool)"), ("files", "of files")] {
            let (call, tool, arguments) = ("1".into(), "read".into(), "{}".into());
            let event = Event::ToolStarted { agent: "a".into(), call, tool, origin: origin.into(), arguments };
            assert!(progress.line(&event).unwrap().contains(says), "{origin}");
        }
    }

    #[test]
    fn failed_request_is_told_once() {
        let failed = |again| Event::ModelFailed { agent: "a".into(), model: "m".into(), reason: "down".into(), again };
        for (level, again, is_told) in [
            (ProgressLevel::Normal, true, true),
            (ProgressLevel::Normal, false, false),
            (ProgressLevel::Verbose, false, true),
        ] {
            let progress = ProgressDisplay::new(RunOutputFormat::Text, level);
            assert_eq!(progress.line(&failed(again)).is_some(), is_told, "{level:?}, {again}");
        }
        let progress = ProgressDisplay::new(RunOutputFormat::Text, ProgressLevel::Normal);
        let event = |action, reason: &str| Event::MiddlewareActed {
            agent: "a".into(),
            middleware: "fallback".into(),
            action,
            tool: None,
            reason: Some(reason.into()),
        };
        let line = progress.line(&event(MiddlewareAction::Retry, "asks spare instead (m: down)")).unwrap();
        assert!(line.ends_with("   fallback: asks spare instead (m: down)"), "{line}");
        assert!(progress.line(&event(MiddlewareAction::Deny, "no")).unwrap().ends_with("   fallback: deny (no)"));
    }

    #[test]
    fn failed_call_says_why_on_one_line_without_commands() {
        let progress = ProgressDisplay::new(RunOutputFormat::Text, ProgressLevel::Normal);
        let finished = |reason: Option<&str>| Event::ToolFinished {
            agent: "a".into(),
            call: "1".into(),
            tool: "read".into(),
            is_error: reason.is_some(),
            reason: reason.map(str::to_owned),
            bytes: 7,
            duration: Duration::from_micros(1_000),
        };
        let line = progress.line(&finished(Some("no such file:\n\x1b[2Jdocs/x"))).unwrap();
        assert!(line.ends_with(", 7 bytes): no such file: \\u{1b}[2Jdocs/x"), "{line}");
        assert!(progress.line(&finished(Some(&"x".repeat(9_000)))).unwrap().chars().count() < 400);
        assert!(progress.line(&finished(None)).unwrap().ends_with("7 bytes)"));
        let said = Event::MemberReplied { agent: "desk/ada".into(), text: Some("Yes.\nerror: forged".into()) };
        assert!(progress.line(&said).unwrap().ends_with("says: Yes. error: forged"));
    }
}
