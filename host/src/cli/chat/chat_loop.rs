//! The loop of a chat: keys, the progress of the running step, questions and drawings, one at a time.

use std::{io::Write, path::PathBuf, pin::Pin, sync::Arc};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    chat_key::ChatKey,
    chat_questions::{QuestionTurn, question_turn},
    chat_rows::ChatStatus,
    chat_screen::ChatScreen,
    chat_session::ChatSession,
    chat_state::{ChatAction, ChatState},
    completion::complete,
    file_mentions::with_mentioned_files,
    message_run::{FinishedMessage, MessageOutcome, MessageProgress, MessageRequest, MessageRun, StartedMessage},
    project_commands::ProjectCommands,
    runner_facts::{RunnerFacts, facts_of},
    running_step::{RunningStep, StepProgress},
    shell_command::{ShellCommand, ShellOutput},
    slash_command::{COMMANDS, TypedRequest},
};
use crate::{
    app::App,
    change::UndoableChange,
    cli::{
        ask::QuestionDialog,
        launch,
        render::{
            BOLD, DIM, PLAIN, ProgressDisplay, ProgressLevel, RunOutputFormat, YELLOW, cost, failure_text, name,
            warning,
        },
        runner_args::RunnerArgs,
        secrets::ReplyRedactor,
    },
    error::Report,
    event::Event,
    limits,
    task::TaskInput,
};

/// A chat in progress.
pub struct ChatLoop<W: Write> {
    pub(super) app: Arc<App>,
    /// The options with which the next message runs.
    pub(super) args: RunnerArgs,
    pub(super) session: ChatSession,
    pub(super) facts: RunnerFacts,
    pub(super) screen: ChatScreen<W>,
    pub(super) commands: ProjectCommands,
    /// The question whether to undo these changes.
    pub(super) undo: Option<UndoableChange>,
    pub(super) state: ChatState,
    /// The questions of agents; `None` if nobody is asked.
    pub(super) dialog: Option<QuestionDialog>,
    /// The time from which keys answer the question on the screen.
    pub(super) answers_from: Option<Instant>,
    pub(super) step: RunningStep,
    begun: Instant,
    /// The output of commands that the next message takes with it.
    shared_output: Vec<String>,
    lines: ProgressDisplay,
    pieces: ReplyRedactor,
    /// The tokens of the last request of the agent.
    tokens: u64,
}

/// The next thing that happens.
enum Happening {
    Signal(u8),
    Key(Option<ChatKey>),
    Progress(StepProgress),
    Question(QuestionTurn),
    AnswersBegin,
    DrawingIsDue,
}

impl<W: Write> ChatLoop<W> {
    pub fn new(
        app: Arc<App>,
        args: RunnerArgs,
        session: ChatSession,
        facts: RunnerFacts,
        (screen, state): (ChatScreen<W>, ChatState),
        dialog: Option<QuestionDialog>,
    ) -> Self {
        let level = if args.verbose { ProgressLevel::Verbose } else { ProgressLevel::Normal };
        Self {
            commands: ProjectCommands::of_project(&app.config.root),
            lines: ProgressDisplay::new(RunOutputFormat::Text, level),
            app,
            args,
            session,
            facts,
            screen,
            undo: None,
            state,
            dialog,
            answers_from: None,
            step: RunningStep::None,
            begun: Instant::now(),
            shared_output: Vec::new(),
            pieces: ReplyRedactor::default(),
            tokens: 0,
        }
    }

    /// Prints the agent and its model, and the end of the conversation that is continued.
    pub fn greet(&mut self) {
        let (agent, model) = (name(&self.facts.agent), name(&self.facts.model));
        self.screen.print(&format!("{BOLD}{agent}{PLAIN} on {model} {DIM}· /help shows keys and commands{PLAIN}\n\n"));
        self.recall();
        self.offer_to_go_on();
    }

    /// Runs the chat until the person leaves it. Returns the exit code, and the session.
    pub async fn run(
        mut self,
        mut keys: mpsc::Receiver<ChatKey>,
        mut interrupt: Pin<&mut impl Future<Output = u8>>,
    ) -> (u8, Option<String>) {
        let code = loop {
            let left = match self.next(&mut keys, interrupt.as_mut()).await {
                Happening::Signal(code) => Some(code),
                // The terminal has gone away.
                Happening::Key(None) => Some(0),
                Happening::Key(Some(key)) => self.press(key),
                Happening::Progress(StepProgress::Message(progress)) => self.show_progress(progress),
                Happening::Progress(StepProgress::Shell(output)) => self.end_shell(output),
                Happening::Progress(StepProgress::Selection(facts)) => self.end_selection(facts),
                Happening::Question(turn) => self.show_question(&turn),
                Happening::AnswersBegin => self.begin_answers(),
                Happening::DrawingIsDue => self.draw(),
            };
            if let Some(code) = left {
                break code;
            }
        };
        self.stop().await;
        self.screen.finish();
        (code, self.session.id)
    }

    /// Waits for the next happening.
    async fn next(
        &mut self,
        keys: &mut mpsc::Receiver<ChatKey>,
        interrupt: Pin<&mut impl Future<Output = u8>>,
    ) -> Happening {
        let due = self.screen.next_drawing(self.state.is_working());
        let Self { dialog, step, answers_from, .. } = self;
        tokio::select! {
            biased;
            code = interrupt => Happening::Signal(code),
            key = keys.recv() => Happening::Key(key),
            () = until(due) => Happening::DrawingIsDue,
            () = until(*answers_from) => Happening::AnswersBegin,
            turn = question_turn(dialog.as_mut()) => Happening::Question(turn),
            progress = step.next() => Happening::Progress(progress),
        }
    }

    fn draw(&mut self) -> Option<u8> {
        let total = self.session.ledger.total();
        let status = ChatStatus {
            model: self.facts.model.clone(),
            agent: self.facts.agent.to_string(),
            tokens: self.tokens,
            window: self.facts.window.tokens(),
            cost: (total.completions > 0).then(|| cost(&total)),
            session: self.session.id.clone(),
        };
        self.screen.draw(&self.state, &status, Some(self.begun.elapsed()));
        None
    }

    /// Handles a key. Returns the exit code if the person leaves.
    fn press(&mut self, key: ChatKey) -> Option<u8> {
        self.screen.change();
        let root = project_folder(&self.app);
        let (state, commands) = (&mut self.state, &self.commands);
        let names = || COMMANDS.iter().map(|known| known.name.to_owned()).chain(commands.names().iter().cloned());
        let action = state.press(key, |before| complete(before, &names().collect::<Vec<_>>(), &root))?;
        match action {
            ChatAction::Send(text) => return self.send(&text),
            ChatAction::Answer(line) => self.answer(&line),
            ChatAction::Interrupt => self.interrupt(),
            ChatAction::Quit => return Some(0),
            ChatAction::Redraw => self.screen.erase(),
        }
        None
    }

    /// Acts on a complete line. Returns the exit code if the person leaves.
    fn send(&mut self, typed: &str) -> Option<u8> {
        if typed.trim().is_empty() {
            if self.session.can_go_on {
                self.start_message(String::new(), None);
            }
            return None;
        }
        match TypedRequest::parse(typed, self.commands.names()) {
            TypedRequest::Message(text) => self.send_message(typed, text),
            TypedRequest::Custom { name, arguments } => match self.commands.message(&name, &arguments) {
                Ok(text) => self.send_message(typed, text),
                Err(report) => self.fail(&report),
            },
            TypedRequest::Shell { command, .. } if command.is_empty() => {
                self.state.set_hint("type the command after the exclamation mark: !git status".into());
            }
            TypedRequest::Shell { command, is_shared } => self.start_shell(typed, &command, is_shared),
            TypedRequest::Command { command, argument } => {
                self.screen.print_typed(typed.trim());
                return self.execute(command, &argument);
            }
            TypedRequest::Unknown { name: unknown, nearest } => {
                let meant = nearest.map_or("/help lists the commands".into(), |near| format!("did you mean /{near}?"));
                self.state.set_hint(format!("there is no command /{}; {meant}", name(&unknown)));
                self.state.restore(typed);
            }
        }
        self.go_on()
    }

    /// Sends a message to the agent, with the files that it mentions. `typed` is what the person typed.
    fn send_message(&mut self, typed: &str, text: String) {
        match with_mentioned_files(text, &project_folder(&self.app)) {
            Ok(mut input) => {
                self.screen.print_typed(&input.text);
                for output in self.shared_output.drain(..) {
                    input.text.push_str("\n\n");
                    input.text.push_str(&output);
                }
                self.start_message(typed.to_owned(), Some(input));
            }
            Err(report) => {
                self.fail(&report);
                self.state.restore(typed);
            }
        }
    }

    fn start_message(&mut self, typed: String, input: Option<TaskInput>) {
        let title = input.as_ref().map_or(String::new(), |input| input.text.clone());
        let request = MessageRequest {
            agent: self.args.agent.clone(),
            model: self.args.model.clone(),
            recording: self.session.recording(&self.app, &self.args.named(), &title),
            message: input.map(TaskInput::into_message),
            chat: self.session.chat.clone(),
        };
        self.begin(RunningStep::Message { run: MessageRun::start(Arc::clone(&self.app), request), typed });
    }

    fn start_shell(&mut self, typed: &str, command: &str, is_shared: bool) {
        self.screen.print_typed(typed.trim());
        match ShellCommand::start(command) {
            Ok(command) => self.begin(RunningStep::Shell { command, is_shared, typed: typed.trim().to_owned() }),
            Err(report) => self.fail(&report),
        }
    }

    /// Looks at another agent or model. It is used from the next message on if it can be.
    pub(super) fn start_selection(&mut self, agent: Option<String>, model: Option<String>) {
        let (app, of_agent, of_model) = (Arc::clone(&self.app), agent.clone(), model.clone());
        let task = tokio::spawn(async move { facts_of(&app, of_agent.as_deref(), of_model.as_deref()).await });
        self.begin(RunningStep::Selection { task, agent, model });
    }

    fn begin(&mut self, step: RunningStep) {
        self.step = step;
        self.begun = Instant::now();
        self.state.begin_work();
        self.screen.change();
    }

    /// Ends the running step, and goes on with the next message that waits. Returns the exit code if that leaves.
    fn end_step(&mut self) -> Option<u8> {
        self.step = RunningStep::None;
        self.screen.end_run();
        self.pieces = ReplyRedactor::default();
        let next = self.state.end_work()?;
        self.send(&next)
    }

    /// Goes on with the next message that waits if no step runs.
    fn go_on(&mut self) -> Option<u8> {
        match &self.step {
            RunningStep::None => self.end_step(),
            _ => None,
        }
    }

    fn interrupt(&mut self) {
        self.state.end_question();
        self.answers_from = None;
        self.undo = None;
        self.state.take_back_queue();
        match &mut self.step {
            RunningStep::None => {}
            RunningStep::Message { run, .. } => run.interrupt(),
            RunningStep::Shell { command, .. } => command.kill(),
            RunningStep::Selection { task, .. } => task.abort(),
        }
    }

    fn show_progress(&mut self, progress: MessageProgress) -> Option<u8> {
        match progress {
            MessageProgress::Started(started) => self.show_start(&started),
            MessageProgress::Event(event) => self.show_event(&event),
            MessageProgress::Ended(ended) => return self.end_message(ended),
            MessageProgress::Dropped => {
                self.screen.print(&format!("{DIM}interrupted; your next message continues the step{PLAIN}\n"));
                self.session.can_go_on = self.session.id.is_some();
                return self.end_step();
            }
        }
        None
    }

    fn show_start(&mut self, started: &StartedMessage) {
        if let (Some(config), true) = (&self.args.config, self.session.id.is_none() && started.session.is_some()) {
            launch::keep_config_begun_here(config);
        }
        self.session.id.clone_from(&started.session);
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
        for shown in self.pieces.pass(event) {
            self.screen.show(&shown, self.lines.line(&shown));
        }
    }

    fn end_message(&mut self, ended: Result<FinishedMessage, Report>) -> Option<u8> {
        self.screen.end_run();
        let typed = match std::mem::replace(&mut self.step, RunningStep::None) {
            RunningStep::Message { typed, .. } => typed,
            _ => String::new(),
        };
        match ended {
            Ok(FinishedMessage { outcome, chat, ledger }) => {
                (self.session.chat, self.session.ledger) = (chat, ledger);
                self.session.can_go_on = false;
                match outcome {
                    MessageOutcome::Answered => {}
                    MessageOutcome::Interrupted => self.screen.print(&format!("{DIM}interrupted{PLAIN}\n")),
                    MessageOutcome::Failed(report) => {
                        self.fail(&report);
                        self.screen.print(&format!("{DIM}Enter alone tries again{PLAIN}\n"));
                        self.session.can_go_on = true;
                        self.state.take_back_queue();
                    }
                }
            }
            Err(report) => {
                self.fail(&report);
                self.state.take_back_queue();
                self.state.restore(&typed);
            }
        }
        self.end_step()
    }

    fn end_shell(&mut self, output: ShellOutput) -> Option<u8> {
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
            self.shared_output.push(crate::task::marked_text("command_output", &origin, &format!("{text}{end}")));
            self.screen.print(&format!("{DIM}the output goes with your next message{PLAIN}\n"));
        }
        self.end_step()
    }

    fn end_selection(&mut self, facts: Result<RunnerFacts, Report>) -> Option<u8> {
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

    /// Shows a failure.
    pub(super) fn fail(&mut self, report: &Report) {
        self.screen.print(&failure_text(report));
    }

    fn offer_to_go_on(&mut self) {
        if self.session.can_go_on {
            self.state.set_hint("the last run has no answer: Enter alone continues it".into());
        }
    }

    /// Begins a new conversation, or continues another one.
    pub(super) fn enter_session(&mut self, session: ChatSession) {
        self.session = session;
        self.tokens = 0;
        self.offer_to_go_on();
    }

    /// Shows the end of the conversation that is continued.
    pub(super) fn recall(&mut self) {
        for (role, text) in self.session.last_messages() {
            match role {
                crate::chat::Role::User => self.screen.print_typed(&text),
                _ => self.screen.print_markdown(&text),
            }
        }
    }

    /// Stops the running step and waits until its programs have ended.
    async fn stop(&mut self) {
        match std::mem::replace(&mut self.step, RunningStep::None) {
            RunningStep::Message { mut run, .. } => {
                run.stop().await;
            }
            RunningStep::Selection { task, .. } => task.abort(),
            RunningStep::None | RunningStep::Shell { .. } => {}
        }
        self.app.settled().await;
        self.app.close_servers().await;
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns the folder to which paths in messages are relative.
fn project_folder(app: &App) -> PathBuf {
    match app.config.root.as_os_str().is_empty() {
        true => ".".into(),
        false => app.config.root.clone(),
    }
}
