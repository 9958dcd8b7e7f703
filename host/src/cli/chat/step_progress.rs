//! The progress of the step that the person waits for, and its end.

use std::io::Write;

use super::{
    chat_loop::ChatLoop,
    chat_session::ChatSession,
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
            MessageProgress::Dropped if !self.has_started() => {
                self.screen.print(&format!("{DIM}interrupted before it began{PLAIN}\n"));
                self.restore_message();
                return self.end_step();
            }
            MessageProgress::Dropped => {
                self.screen.print(&format!("{DIM}interrupted; your next message continues the step{PLAIN}\n"));
                self.session.can_go_on = self.session.id.is_some();
                return self.end_step();
            }
        }
        None
    }

    /// Returns `true` if the message that the person waits for has been recorded, or would be.
    fn has_started(&self) -> bool {
        matches!(&self.step, RunningStep::Message { run, .. } if run.has_started())
    }

    /// Puts the message whose run has not begun back into the input.
    fn restore_message(&mut self) {
        if let RunningStep::Message { typed, .. } = std::mem::replace(&mut self.step, RunningStep::None) {
            self.state.restore(&typed);
        }
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
        let before = std::mem::replace(&mut self.facts, started.facts.clone());
        // What was said before the last message need not be said again.
        let notes = self.facts.notes.iter().filter(|note| !before.notes.contains(note));
        notes.for_each(|note| self.screen.print(&format!("{DIM}{}{PLAIN}\n", name(note))));
        let warnings = self.facts.warnings.iter().filter(|what| !before.warnings.contains(what));
        warnings.chain(&started.warnings).for_each(|what| self.screen.print(&warning(what)));
    }

    fn show_event(&mut self, event: &Event) {
        if let Event::ModelStarted { agent, tokens, .. } = event
            && *agent == self.facts.agent
        {
            self.tokens = *tokens;
        }
        self.calls.note(event);
        for shown in self.pieces.pass(event) {
            self.screen.show(&shown, self.lines.line(&shown));
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
            let (message, text) = (&entry.message, entry.message.text_content());
            match message.role {
                Role::User if message.is_note() => {}
                Role::User => self.screen.print_typed(&text),
                Role::Assistant if !text.trim().is_empty() => self.screen.print_markdown(&text),
                _ => {}
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
        self.state.take_back_queue();
        if let RunningStep::Watch { typed, .. } = step {
            self.state.restore(&typed);
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
        self.notify_of_end();
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
                        self.state.take_back_queue();
                    }
                }
            }
            Err(report) => {
                // Another program may have begun to work in the session meanwhile.
                if self.begins_to_watch(&typed) {
                    return None;
                }
                self.fail(&report);
                self.state.take_back_queue();
                self.state.restore(&typed);
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

    /// Calls the person's attention to the end of a step that took long.
    fn notify_of_end(&mut self) {
        if self.notifications.are_due_after(self.begun.elapsed()) {
            self.screen.notify(&format!("shelly-host: {} has finished", self.facts.agent));
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
                self.state.take_back_queue();
                self.state.restore(&typed);
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
        self.notify_of_end();
        self.end_step()
    }

    /// Shows the output of a command.
    pub(super) fn end_shell(&mut self, output: ShellOutput) -> Option<u8> {
        let ShellOutput { text, is_cut, failure } = output;
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
                    (self.args.agent, self.args.model, self.facts) = (agent, model, facts);
                    self.tokens = 0;
                }
                Err(report) => self.fail(&report),
            }
        }
        self.end_step()
    }
}
