//! The progress of the step that the person waits for, and its end.

use std::io::Write;

use super::{
    chat_loop::ChatLoop,
    chat_session::{ChatSession, said},
    fetched_prompt::FetchedPrompt,
    message_run::{FinishedMessage, MessageOutcome, MessageProgress, StartedMessage},
    runner_facts::RunnerFacts,
    running_step::RunningStep,
    session_watch::WatchProgress,
    shell_command::ShellOutput,
};
use crate::{
    chat::Role,
    cli::{
        launch,
        live::{amount_in_words, telling_argument},
        render::{DIM, PLAIN, YELLOW, name, one_line, warning},
    },
    error::{Report, count},
    event::Event,
    limits,
};

impl<W: Write> ChatLoop<W> {
    /// Shows what a run reports. Returns the exit code if the person leaves with it.
    pub(super) fn show_progress(&mut self, progress: MessageProgress) -> Option<u8> {
        match progress {
            MessageProgress::Started(started) => self.show_start(&started),
            MessageProgress::Event(event) => self.show_event(&event),
            MessageProgress::Ended(ended) => return self.end_message(ended),
            MessageProgress::Dropped => return self.end_dropped_message(),
        }
        None
    }

    /// Ends a run that was dropped in the middle of a step.
    fn end_dropped_message(&mut self) -> Option<u8> {
        let step = std::mem::replace(&mut self.step, RunningStep::None);
        let RunningStep::Message { run, typed, compacted_tokens } = step else { return self.end_step() };
        // What was spent until then is spent.
        self.session.ledger = run.ledger().unwrap_or_else(|| self.session.ledger.clone());
        let (is_recorded, compacts) = (self.session.id.is_some(), compacted_tokens.is_some());
        let how = match (run.has_begun(), compacts, is_recorded) {
            (false, ..) => "interrupted before it began",
            (true, true, _) => "interrupted; nothing was replaced",
            (true, false, true) => "interrupted; your next message continues the step",
            (true, false, false) => "interrupted; nothing is recorded here, so the step does not go on",
        };
        self.screen.print(&format!("{DIM}{how}{PLAIN}\n"));
        if run.has_begun() {
            // A run that goes on by itself would answer, and replace nothing.
            self.session.can_go_on = is_recorded && !compacts;
        } else {
            self.state.take_back_queue(&typed);
        }
        self.end_step()
    }

    fn show_start(&mut self, started: &StartedMessage) {
        // A run that goes on without a message takes no output with it.
        if matches!(&self.step, RunningStep::Message { typed, .. } if !typed.is_empty()) {
            self.shared_output.clear();
        }
        if started.session.is_some() {
            launch::remember_session(&self.app.config.root, self.args.config.as_deref());
        }
        self.screen.watch_board(&started.group);
        self.session.id.clone_from(&started.session);
        self.learning = self.prompts.learn(&self.app);
        self.has_chosen = false;
        self.use_facts(started.facts.clone());
        started.warnings.iter().for_each(|what| self.screen.print(&warning(what)));
    }

    /// Uses the facts about an agent from now on, and prints what they say that those before did not.
    pub(super) fn use_facts(&mut self, facts: RunnerFacts) {
        let before = std::mem::replace(&mut self.facts, facts);
        let notes = self.facts.notes.iter().filter(|note| !before.notes.contains(note));
        notes.for_each(|note| self.screen.print(&format!("{DIM}{}{PLAIN}\n", name(note))));
        let warnings = self.facts.warnings.iter().filter(|what| !before.warnings.contains(what));
        warnings.for_each(|what| self.screen.print(&warning(what)));
    }

    fn show_event(&mut self, event: &Event) {
        if let Event::ModelStarted { agent, tokens, .. } = event
            && *agent == self.facts.agent
        {
            self.tokens = *tokens;
        }
        self.calls.note(event);
        for shown in self.redactor.pass(event) {
            self.screen.show(&shown, self.event_lines.line(&shown));
        }
    }

    /// Shows what another program has done in the session.
    pub(super) fn show_watched(&mut self, progress: WatchProgress) -> Option<u8> {
        match progress {
            WatchProgress::Changed(session) => {
                self.show_newer(&session);
                self.session = *session;
                self.screen.change();
                None
            }
            WatchProgress::Free => {
                let finished = "the other program has finished: your next message continues the session here";
                self.screen.print(&format!("{DIM}{finished}{PLAIN}\n"));
                self.end_watch()
            }
            WatchProgress::Failed(report) => {
                self.fail(&report);
                self.end_watch()
            }
        }
    }

    /// Prints the messages of a session that are newer than those that were shown.
    fn show_newer(&mut self, session: &ChatSession) {
        let shown = self.session.chat.snapshot().last().map(|entry| entry.id);
        for entry in session.chat.snapshot().newer_than(shown) {
            let message = &entry.message;
            match said(message) {
                Some(text) if message.role == Role::User => self.screen.print_typed(&text),
                Some(text) => self.screen.print_markdown(&text),
                None => {}
            }
            for call in message.tool_calls() {
                let arguments = one_line(&telling_argument(&call.arguments), limits::LIVE_DETAIL_CHARS);
                self.screen.print(&format!("{DIM}· {} {arguments}{PLAIN}\n", name(&call.name)));
            }
        }
    }

    /// Ends the watch of a session. What the person wanted to send comes back: the other program may have changed their mind.
    fn end_watch(&mut self) -> Option<u8> {
        let step = std::mem::replace(&mut self.step, RunningStep::None);
        if let RunningStep::Watch { typed, .. } = step {
            self.state.take_back_queue(&typed);
        }
        self.offer_to_go_on();
        self.end_step()
    }

    fn end_message(&mut self, ended: Result<FinishedMessage, Report>) -> Option<u8> {
        self.screen.end_run();
        let (typed, compacted_tokens) = match std::mem::replace(&mut self.step, RunningStep::None) {
            RunningStep::Message { typed, compacted_tokens, .. } => (typed, compacted_tokens),
            _ => (String::new(), None),
        };
        self.notify_of_end(&name(&self.facts.agent));
        match ended {
            Ok(FinishedMessage { outcome, chat, ledger }) => {
                (self.session.chat, self.session.ledger) = (chat, ledger);
                self.session.can_go_on = false;
                match outcome {
                    MessageOutcome::Answered => self.show_compaction(compacted_tokens),
                    MessageOutcome::Interrupted => self.screen.print(&format!("{DIM}interrupted{PLAIN}\n")),
                    MessageOutcome::Failed(report) => {
                        self.fail(&report);
                        // A run that goes on by itself would answer, and replace nothing.
                        self.session.can_go_on = compacted_tokens.is_none();
                        let again = match self.session.can_go_on {
                            true => "Enter alone tries again",
                            false => "nothing was replaced; /compact tries again",
                        };
                        self.screen.print(&format!("{DIM}{again}{PLAIN}\n"));
                        self.state.take_back_queue("");
                    }
                }
            }
            Err(report) => {
                // Another program may have begun to work in the session meanwhile.
                if self.watch_if_in_use(&typed) {
                    return None;
                }
                self.fail(&report);
                self.state.take_back_queue(&typed);
            }
        }
        self.end_step()
    }

    /// Says what a summary has saved. `before` are the tokens of the conversation that it took the place of.
    fn show_compaction(&mut self, before: Option<u64>) {
        let Some(before) = before else { return };
        let (before, now) = (amount_in_words(before), amount_in_words(self.session.chat.snapshot().tokens()));
        self.screen.print(&format!(
            "{DIM}the agent continues from this summary: {now} tokens in place of {before}; the session keeps \
             everything{PLAIN}\n"
        ));
    }

    /// Calls the person's attention to the end of a step that took long. `what` is an agent or a command.
    fn notify_of_end(&mut self, what: &str) {
        if self.notifications.are_due_after(self.begun.elapsed(), self.is_interrupted) {
            self.screen.notify(&format!("shelly-host: {what} has finished"));
        }
    }

    /// Calls the person's attention to a question.
    pub(super) fn notify_of_question(&mut self, from: &str) {
        if self.notifications.are_due_for_question() {
            self.screen.notify(&format!("shelly-host: {from} needs your answer"));
        }
    }

    /// Sends the text of a prompt to the agent.
    pub(super) fn end_prompt(&mut self, fetched: Result<FetchedPrompt, Report>) -> Option<u8> {
        let typed = match std::mem::replace(&mut self.step, RunningStep::None) {
            RunningStep::Prompt { typed, .. } => typed,
            _ => String::new(),
        };
        match fetched {
            Ok(prompt) => self.send_prompt(&typed, prompt),
            Err(report) => {
                self.fail(&report);
                self.state.take_back_queue(&typed);
            }
        }
        match self.step {
            RunningStep::None => self.end_step(),
            _ => None,
        }
    }

    /// Shows a text that was put together.
    pub(super) fn end_text(&mut self, text: Result<String, Report>) -> Option<u8> {
        match text {
            Ok(text) => self.screen.print(&format!("{}\n\n", text.trim_end())),
            Err(report) => self.fail(&report),
        }
        if let RunningStep::Text { typed, .. } = self.step {
            self.notify_of_end(typed);
        }
        self.end_step()
    }

    /// Shows the output of a command.
    pub(super) fn end_shell(&mut self, output: ShellOutput) -> Option<u8> {
        let ShellOutput { text, is_cut, failure } = output;
        if let RunningStep::Shell { typed, .. } = &self.step {
            let what = name(typed);
            self.notify_of_end(&what);
        }
        self.screen.print_plain(&text);
        if is_cut {
            let most = limits::CHAT_SHELL_OUTPUT_BYTES >> 10;
            self.screen.print(&format!("{YELLOW}the output after {most} KiB is left out{PLAIN}\n"));
        }
        if let Some(failure) = &failure {
            self.screen.print(&format!("{YELLOW}{}{PLAIN}\n", name(failure)));
        }
        if let RunningStep::Shell { is_shared: true, typed, .. } = &self.step {
            let end = failure.map_or(String::new(), |failure| format!("\n{failure}"));
            let origin =
                format!("is the output of `{}`, which the person has run", typed.trim_start_matches('!').trim());
            self.share_output(crate::task::marked_text("command_output", &origin, &format!("{text}{end}")));
        }
        self.end_step()
    }

    /// Keeps an output for the next message. If all of them together become longer than one may be, the oldest are left out.
    fn share_output(&mut self, output: String) {
        self.shared_output.push(output);
        // The newest is kept in any case: only the marks around it can make it longer.
        let most = limits::CHAT_SHELL_OUTPUT_BYTES;
        let mut left_out = 0;
        while self.shared_output.len() > 1 && self.shared_output.iter().map(String::len).sum::<usize>() > most {
            self.shared_output.remove(0);
            left_out += 1;
        }
        self.screen.print(&format!("{DIM}the output goes with your next message{PLAIN}\n"));
        if left_out > 0 {
            let what = format!(
                "{} left out: together they are longer than {} KiB",
                count(left_out, "earlier output is", "earlier outputs are"),
                most >> 10
            );
            self.screen.print(&warning(&what));
        }
    }

    /// Uses another agent or model, if it can be used.
    pub(super) fn end_selection(&mut self, facts: Result<RunnerFacts, Report>) -> Option<u8> {
        if let RunningStep::Selection { agent, model, .. } = std::mem::replace(&mut self.step, RunningStep::None) {
            match facts {
                Ok(facts) => {
                    let (of, on) = (name(&facts.agent), name(&facts.model));
                    self.screen.print(&format!("{DIM}from now on: agent {of}, model {on}{PLAIN}\n"));
                    (self.args.agent, self.args.model, self.has_chosen) = (agent, model, true);
                    self.use_facts(facts);
                    self.tokens = 0;
                }
                Err(report) => self.fail(&report),
            }
        }
        self.end_step()
    }
}
