//! The loop of a chat: keys, the progress of the running step, questions and drawings, one at a time.

use std::{io::Write, path::PathBuf, pin::Pin, sync::Arc};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    call_log::CallLog,
    chat_key::ChatKey,
    chat_questions::{QuestionTurn, question_turn},
    chat_rows::ChatStatus,
    chat_screen::ChatScreen,
    chat_session::ChatSession,
    chat_state::{ChatAction, ChatState},
    chat_theme::ChatTheme,
    command_arguments::arguments_of,
    completion::{CompletedWords, complete},
    external_editor::ExternalEditor,
    fetched_prompt::FetchedPrompt,
    file_mentions::with_mentioned_files,
    message_run::{MessageRequest, MessageRun},
    notifications::ChatNotifications,
    plugin_development::{DevelopmentProgress, PluginDevelopment, PluginRebuild},
    project_commands::ProjectCommands,
    runner_facts::{RunnerFacts, facts_of},
    running_step::{RunningStep, StepProgress},
    server_prompts::ServerPrompts,
    session_watch::SessionWatch,
    shell_command::ShellCommand,
    slash_command::{COMMANDS, KnownCommands, PromptCommand, TypedRequest},
};
use crate::{
    app::App,
    change::UndoableChange,
    cli::{
        ask::QuestionDialog,
        render::{BOLD, DIM, PLAIN, ProgressDisplay, ProgressLevel, RunOutputFormat, cost, failure_text, name},
        runner_args::RunnerArgs,
        secrets::ReplyRedactor,
    },
    error::Report,
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
    pub(super) theme: ChatTheme,
    pub(super) commands: ProjectCommands,
    pub(super) prompts: Arc<ServerPrompts>,
    /// Lists the prompts of the servers that a run has connected to.
    pub(super) learning: Option<AbortOnDropHandle<()>>,
    /// The question whether to undo these changes.
    pub(super) undo: Option<UndoableChange>,
    pub(super) state: ChatState,
    /// The questions of agents; `None` if nobody is asked.
    pub(super) dialog: Option<QuestionDialog>,
    /// The time from which keys answer the question on the screen.
    pub(super) answers_from: Option<Instant>,
    pub(super) step: RunningStep,
    pub(super) begun: Instant,
    /// The output of commands that the next message takes with it; kept until that has begun.
    pub(super) shared_output: Vec<String>,
    pub(super) event_lines: ProgressDisplay,
    pub(super) redactor: ReplyRedactor,
    /// The tokens of the last request of the agent.
    pub(super) tokens: u64,
    pub(super) calls: CallLog,
    pub(super) notifications: ChatNotifications,
    /// Set once the person has interrupted the running step.
    pub(super) is_interrupted: bool,
    /// Set from the choice of another agent or model on until a message was begun with it.
    pub(super) has_chosen: bool,
    /// The projects whose plugins are built again while the chat runs.
    pub(super) development: Option<PluginDevelopment>,
    /// Their plugins that were built again and not tried yet.
    pub(super) rebuilds: Vec<PluginRebuild>,
    /// The editor that has the terminal.
    editor: Option<ExternalEditor>,
}

/// The next thing that happens.
enum Happening {
    Signal(u8),
    Key(Option<ChatKey>),
    Progress(StepProgress),
    Question(QuestionTurn),
    Development(DevelopmentProgress),
    AnswersBegin,
    DrawingIsDue,
    EditorEnded(Result<String, Report>),
}

impl<W: Write> ChatLoop<W> {
    pub fn new(
        app: Arc<App>,
        args: RunnerArgs,
        session: ChatSession,
        facts: RunnerFacts,
        (screen, state, theme): (ChatScreen<W>, ChatState, ChatTheme),
        dialog: Option<QuestionDialog>,
    ) -> Self {
        let level = if args.verbose { ProgressLevel::Verbose } else { ProgressLevel::Normal };
        Self {
            commands: ProjectCommands::of_project(&app.config.root),
            prompts: Arc::default(),
            learning: None,
            event_lines: ProgressDisplay::new(RunOutputFormat::Text, level),
            app,
            args,
            session,
            facts,
            screen,
            theme,
            undo: None,
            state,
            dialog,
            answers_from: None,
            step: RunningStep::None,
            begun: Instant::now(),
            shared_output: Vec::new(),
            redactor: ReplyRedactor::default(),
            tokens: 0,
            calls: CallLog::default(),
            notifications: ChatNotifications::from_environment(),
            is_interrupted: false,
            has_chosen: false,
            development: None,
            rebuilds: Vec::new(),
            editor: None,
        }
    }

    /// Prints the agent and its model, and the end of the conversation that is continued.
    pub fn greet(&mut self) {
        let (agent, model) = (name(&self.facts.agent), name(&self.facts.model));
        self.screen.print(&format!("{BOLD}{agent}{PLAIN} on {model} {DIM}· /help shows keys and commands{PLAIN}\n\n"));
        self.recall();
        self.watch_or_offer();
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
                Happening::Progress(progress) => self.advance(progress),
                other => {
                    self.react(other);
                    None
                }
            };
            if let Some(code) = left {
                break code;
            }
        };
        self.stop().await;
        self.screen.finish();
        (code, self.session.id)
    }

    /// Handles what the running step reports. Returns the exit code if the person leaves with it.
    fn advance(&mut self, progress: StepProgress) -> Option<u8> {
        match progress {
            StepProgress::Message(progress) => self.show_progress(progress),
            StepProgress::Shell(output) => self.end_shell(output),
            StepProgress::Watch(progress) => self.show_watched(progress),
            StepProgress::Prompt(fetched) => self.end_prompt(fetched),
            StepProgress::Text(text) => self.end_text(text),
            StepProgress::Selection(facts) => self.end_selection(facts),
            StepProgress::Adoption(adoption) => self.end_adoption(adoption),
        }
    }

    /// Handles what never ends the chat.
    fn react(&mut self, happening: Happening) {
        match happening {
            Happening::Question(turn) => self.show_question(&turn),
            Happening::Development(progress) => self.show_development(progress),
            Happening::AnswersBegin => self.begin_answers(),
            Happening::DrawingIsDue => self.draw(),
            Happening::EditorEnded(edited) => self.end_editor(edited),
            Happening::Signal(_) | Happening::Key(_) | Happening::Progress(_) => {}
        }
    }

    /// Waits for the next happening.
    async fn next(
        &mut self,
        keys: &mut mpsc::Receiver<ChatKey>,
        interrupt: Pin<&mut impl Future<Output = u8>>,
    ) -> Happening {
        let has_terminal = self.editor.is_none();
        let due = self.screen.next_drawing(self.state.is_working()).filter(|_| has_terminal);
        // A person who does not see a question cannot answer it.
        let answers_from = self.answers_from.filter(|_| has_terminal);
        let Self { dialog, step, editor, development, .. } = self;
        tokio::select! {
            biased;
            code = interrupt => Happening::Signal(code),
            edited = editor_end(editor.as_mut()) => Happening::EditorEnded(edited),
            key = keys.recv() => Happening::Key(key),
            () = until(due) => Happening::DrawingIsDue,
            () = until(answers_from) => Happening::AnswersBegin,
            turn = question_turn(dialog.as_mut()) => Happening::Question(turn),
            progress = development_progress(development.as_mut()) => Happening::Development(progress),
            progress = step.next() => Happening::Progress(progress),
        }
    }

    fn draw(&mut self) {
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
    }

    /// Handles a key. Returns the exit code if the person leaves.
    fn press(&mut self, key: ChatKey) -> Option<u8> {
        if let ChatKey::Focus(has_focus) = key {
            self.notifications.set_focus(has_focus);
            return None;
        }
        self.screen.change_by_key();
        let root = project_folder(&self.app);
        let Self { state, commands, facts, prompts, step, .. } = &mut *self;
        let names = || {
            let own = COMMANDS.iter().map(|known| known.name.to_owned());
            own.chain(commands.names().iter().cloned()).chain(facts.skill_commands()).chain(prompts.commands())
        };
        let words = CompletedWords {
            commands: &|| names().collect(),
            arguments: &|command| arguments_of(command, step, &facts.agent),
        };
        let action = state.press(key, |before| complete(before, &words, &root))?;
        match action {
            ChatAction::Send(text) => return self.send(&text),
            ChatAction::Execute(text) => return self.send(&text),
            ChatAction::Answer(line) => {
                self.answer(&line);
                return self.start_next_waiting();
            }
            ChatAction::Interrupt => self.interrupt(),
            ChatAction::Quit => return Some(0),
            ChatAction::Redraw => self.screen.erase(),
            ChatAction::ShowCalls => self.show_calls(),
            ChatAction::EditText => self.open_editor(),
        }
        None
    }

    /// Shows the calls of the last answer in full, and with each further press those of the answer before.
    fn show_calls(&mut self) {
        let Some(calls) = self.calls.next_shown() else {
            let all = "there are no earlier tool calls here; shelly-host session show --full has all of a session";
            return self.state.set_hint(all.into());
        };
        for call in calls {
            self.screen.print(&format!("{}\n", call.heading));
            self.screen.print_plain(&call.text);
        }
        self.screen.print("\n");
    }

    /// Gives the terminal to the person's editor, with the text that was typed.
    fn open_editor(&mut self) {
        self.screen.erase();
        match ExternalEditor::open(self.state.input().editor().text()) {
            Ok(editor) => self.editor = Some(editor),
            Err(report) => self.fail(&report),
        }
    }

    fn end_editor(&mut self, edited: Result<String, Report>) {
        self.editor = None;
        // A question that came meanwhile is on the screen only now.
        self.answers_from = self.answers_from.map(|_| Instant::now() + limits::CHAT_QUESTION_PAUSE);
        match edited {
            Ok(text) => self.state.replace_text(&text),
            Err(report) => self.fail(&report),
        }
        self.screen.erase();
    }

    /// Acts on a complete line. Returns the exit code if the person leaves.
    fn send(&mut self, typed: &str) -> Option<u8> {
        if typed.trim().is_empty() {
            if self.session.can_go_on {
                self.start_message(String::new(), None);
            }
            return None;
        }
        let servers: Vec<_> = self.app.servers().iter().map(|server| server.name.clone()).collect();
        let (skills, prompts) = (self.facts.skill_commands(), self.prompts.commands());
        let known =
            KnownCommands { project: self.commands.names(), skills: &skills, servers: &servers, prompts: &prompts };
        match TypedRequest::parse(typed, &known) {
            TypedRequest::Message(text) => self.send_message(typed, text),
            TypedRequest::Custom { name, arguments } => match self.commands.message(&name, &arguments) {
                Ok(text) => self.send_message(typed, text),
                Err(report) => {
                    self.fail(&report);
                    self.state.restore(typed);
                }
            },
            TypedRequest::Skill { name: skill, words } => self.send_message(typed, skill_message(&skill, &words)),
            TypedRequest::Prompt(command) => self.start_prompt(typed, command),
            TypedRequest::Shell { command, .. } if command.is_empty() => {
                self.state.set_hint("type the command after the exclamation mark: !git status".into());
            }
            TypedRequest::Shell { command, is_shared } => self.start_shell(typed, &command, is_shared),
            TypedRequest::Command { command, argument } => {
                self.screen.print_typed(typed.trim());
                if let Some(code) = self.execute(command, &argument) {
                    return Some(code);
                }
            }
            TypedRequest::Unknown { name: unknown, nearest } => {
                let meant = nearest.map_or("/help lists the commands".into(), |near| format!("did you mean /{near}?"));
                self.state.set_hint(format!("there is no command /{}; {meant}", name(&unknown)));
                self.state.restore(typed);
            }
        }
        self.start_next_waiting()
    }

    /// Sends a message to the agent, with the files that it mentions. `typed` is what the person typed.
    fn send_message(&mut self, typed: &str, text: String) {
        let input = with_mentioned_files(text, typed, &project_folder(&self.app));
        self.send_input(typed, input);
    }

    /// Sends the text of a prompt to the agent, with its images and the files that the person mentions. What the server
    /// mentions is not attached.
    pub(super) fn send_prompt(&mut self, typed: &str, prompt: FetchedPrompt) {
        let mentioned = with_mentioned_files(typed.to_owned(), typed, &project_folder(&self.app));
        let input = mentioned.map(|mut input| {
            input.attachments.extend(prompt.attachments);
            TaskInput { text: prompt.text, ..input }
        });
        self.send_input(typed, input);
    }

    fn send_input(&mut self, typed: &str, input: Result<TaskInput, Report>) {
        match input {
            Ok(mut input) => {
                self.screen.print_typed(&input.text);
                for output in &self.shared_output {
                    input.text.push_str("\n\n");
                    input.text.push_str(output);
                }
                self.start_message(typed.to_owned(), Some(input));
            }
            Err(report) => {
                self.fail(&report);
                self.state.restore(typed);
            }
        }
    }

    /// Gets the text of a prompt, whose server may have to be connected first.
    fn start_prompt(&mut self, typed: &str, command: PromptCommand) {
        let (prompt, server) = (name(&command.prompt), name(&command.server));
        self.screen.print(&format!("{DIM}getting the prompt {prompt} of the MCP server {server}{PLAIN}\n"));
        let (app, prompts) = (Arc::clone(&self.app), Arc::clone(&self.prompts));
        let task = tokio::spawn(async move { prompts.fetch(&app, &command).await });
        self.begin(RunningStep::Prompt { task, typed: typed.to_owned() });
    }

    fn start_message(&mut self, typed: String, input: Option<TaskInput>) {
        self.start_run(typed, input, None);
    }

    /// Asks for a summary that takes the place of the conversation.
    pub(super) fn start_compaction(&mut self, request: TaskInput) {
        let tokens = self.session.chat.snapshot().tokens();
        self.start_run(String::new(), Some(request), Some(tokens));
    }

    fn start_run(&mut self, typed: String, input: Option<TaskInput>, compacted_tokens: Option<u64>) {
        let title = input.as_ref().map_or(String::new(), |input| input.text.clone());
        let request = MessageRequest {
            agent: self.args.agent.clone(),
            model: self.args.model.clone(),
            recording: self.session.recording(&self.app, &self.args.named(), &title),
            message: input.map(TaskInput::into_message),
            chat: self.session.chat.clone(),
            compacts: compacted_tokens.is_some(),
            has_chosen: self.has_chosen,
        };
        // A line now answers a question of the agent, not whether to undo.
        self.undo = None;
        self.answers_from = None;
        self.state.end_question();
        self.calls.begin_answer();
        let run = MessageRun::start(Arc::clone(&self.app), request);
        self.begin(RunningStep::Message { run, typed, compacted_tokens });
    }

    /// Watches the session if another program works in it, and returns `true` then. `typed` is what the person wanted to send.
    pub(super) fn watch_if_in_use(&mut self, typed: &str) -> bool {
        let ChatSession { id, is_trusted, .. } = &self.session;
        let watch = id.as_deref().and_then(|id| SessionWatch::start(self.app.sessions(), id, *is_trusted));
        let Some(watch) = watch else { return false };
        let how = "another program works in this session; what it adds appears here, and Esc looks away";
        self.screen.print(&format!("{DIM}{how}{PLAIN}\n"));
        self.begin(RunningStep::Watch { watch, typed: typed.to_owned() });
        true
    }

    fn start_shell(&mut self, typed: &str, command: &str, is_shared: bool) {
        self.screen.print_typed(typed.trim());
        match ShellCommand::start(command) {
            Ok(command) => self.begin(RunningStep::Shell { command, is_shared, typed: typed.trim().to_owned() }),
            Err(report) => {
                self.fail(&report);
                self.state.restore(typed);
            }
        }
    }

    /// Looks at another agent or model. It is used from the next message on if it can be.
    pub(super) fn start_selection(&mut self, agent: Option<String>, model: Option<String>) {
        let (app, of_agent, of_model) = (Arc::clone(&self.app), agent.clone(), model.clone());
        let task = tokio::spawn(async move { facts_of(&app, of_agent.as_deref(), of_model.as_deref()).await });
        self.begin(RunningStep::Selection { task, agent, model });
    }

    pub(super) fn begin(&mut self, step: RunningStep) {
        self.step = step;
        self.is_interrupted = false;
        self.begun = Instant::now();
        self.state.begin_work();
        self.screen.change();
    }

    /// Ends the running step, and goes on with the next message that waits. Returns the exit code if that leaves.
    pub(super) fn end_step(&mut self) -> Option<u8> {
        self.step = RunningStep::None;
        self.screen.end_run();
        self.redactor = ReplyRedactor::default();
        self.calls.end_answer();
        // A plugin that was built again is used from the next message on.
        if self.adopt_rebuilds() {
            return None;
        }
        let next = self.state.end_work()?;
        self.send(&next)
    }

    /// Starts the next message that waits, unless a step runs or the person is asked something.
    fn start_next_waiting(&mut self) -> Option<u8> {
        match &self.step {
            RunningStep::None if self.undo.is_none() => self.end_step(),
            _ => None,
        }
    }

    fn interrupt(&mut self) {
        self.state.end_question();
        self.answers_from = None;
        self.undo = None;
        self.is_interrupted = true;
        self.state.take_back_queue("");
        match &mut self.step {
            RunningStep::None => {}
            RunningStep::Message { run, .. } => run.interrupt(),
            RunningStep::Shell { command, .. } => command.kill(),
            RunningStep::Watch { typed, .. } => {
                let typed = std::mem::take(typed);
                self.state.take_back_queue(&typed);
                self.end_step();
            }
            RunningStep::Prompt { task, .. } => task.abort(),
            RunningStep::Text { task, .. } => task.abort(),
            RunningStep::Selection { task, .. } => task.abort(),
            RunningStep::Adoption { task } => task.abort(),
        }
    }

    /// Shows a failure.
    pub(super) fn fail(&mut self, report: &Report) {
        self.screen.print(&failure_text(report));
    }

    /// Says that the last run has no answer, if it has none.
    pub(super) fn offer_to_go_on(&mut self) {
        if self.session.can_go_on {
            self.state.set_hint("the last run has no answer: Enter alone continues it".into());
        }
    }

    /// Begins a new conversation, or continues another one.
    pub(super) fn enter_session(&mut self, session: ChatSession) {
        self.session = session;
        self.tokens = 0;
    }

    /// Watches the session if another program works in it, and returns `true` then; otherwise offers to go on.
    pub(super) fn watch_or_offer(&mut self) -> bool {
        let is_watched = self.watch_if_in_use("");
        if !is_watched {
            self.offer_to_go_on();
        }
        is_watched
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
            RunningStep::Prompt { task, .. } => task.abort(),
            RunningStep::Text { task, .. } => task.abort(),
            RunningStep::Selection { task, .. } => task.abort(),
            RunningStep::Adoption { task } => task.abort(),
            RunningStep::None | RunningStep::Shell { .. } | RunningStep::Watch { .. } => {}
        }
        if let Some(development) = &mut self.development {
            development.stop().await;
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

/// Waits for what happens to the projects of plugins; never ready without one. Cancel safe.
async fn development_progress(development: Option<&mut PluginDevelopment>) -> DevelopmentProgress {
    match development {
        Some(development) => development.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the end of the editor; never ready without one. Cancel safe.
async fn editor_end(editor: Option<&mut ExternalEditor>) -> Result<String, Report> {
    match editor {
        Some(editor) => editor.end().await,
        None => std::future::pending().await,
    }
}

/// Returns the message that asks an agent to use a skill; `words` say for what, if there are any.
fn skill_message(skill: &str, words: &str) -> String {
    let request = format!("Use the skill `{skill}`; load it first unless it is part of your instructions.");
    if words.is_empty() { request } else { format!("{request}\n\n{words}") }
}

/// Returns the folder to which paths in messages are relative.
fn project_folder(app: &App) -> PathBuf {
    match app.config.root.as_os_str().is_empty() {
        true => ".".into(),
        false => app.config.root.clone(),
    }
}
