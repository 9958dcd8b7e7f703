//! Asks the questions of agents at the terminal: one at a time, in order, and never between the lines of the progress
//! display.

mod choice;
mod lines;
mod question_dialog;
mod question_text;
mod trust;

use std::{io::IsTerminal, sync::Arc};

use clap::ValueEnum;
use futures_util::FutureExt;
use lines::TerminalInput;
use question_text::words_of_refusal;

pub use choice::choose;
pub use lines::{TypedLine, TypedLines};
pub use question_dialog::{AnswerOutcome, QuestionDialog, WITHDRAWN};
pub use question_text::{coloured, shown};
pub use trust::{Consent, ConsentPrompt, trust};

use super::{
    live::{FinishedDisplay, RunDisplay},
    render::{DIM, PLAIN, YELLOW, name, tell, tell_prose},
};
use crate::{
    agent::AgentGroup,
    approval::{ApprovalBroker, ApprovalInbox, HeadlessPolicy, PermissionSubject, QuestionKind, TrustedSubjects},
    chat::Message,
    event::EventStream,
    limits,
};

/// The answer to requests for consent where nobody is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ApprovalModeArg {
    /// Refuse everything that needs consent.
    Never,
    /// Allow what you have trusted before, and refuse the rest.
    Granted,
    /// Allow everything.
    All,
}

impl From<ApprovalModeArg> for HeadlessPolicy {
    fn from(approve: ApprovalModeArg) -> Self {
        match approve {
            ApprovalModeArg::Never => Self::Never,
            ApprovalModeArg::Granted => Self::Granted,
            ApprovalModeArg::All => Self::All,
        }
    }
}

/// Returns `true` if a person can be asked: standard error is a terminal, and there is one to type at. Standard input may
/// be a pipe: questions are then answered on the terminal that controls the process.
pub fn is_attended() -> bool {
    std::io::stderr().is_terminal() && TerminalInput::open().is_some()
}

/// Returns the approval broker of a run, and the inbox with its questions for a person. There is an inbox if a person is
/// present and `--approve` is not given. Nothing is trusted yet.
pub fn broker(approve: Option<ApprovalModeArg>, is_attended: bool) -> (ApprovalBroker, Option<ApprovalInbox>) {
    let broker =
        ApprovalBroker::new(approve.map_or(HeadlessPolicy::Never, HeadlessPolicy::from), TrustedSubjects::default());
    let inbox = if approve.is_none() && is_attended { broker.attend() } else { None };
    (broker, inbox)
}

/// Shows the progress of a run and asks the person, until there are no more events. Progress is held back while a question
/// is on the screen. Returns what the display has shown.
pub async fn show(
    mut progress: RunDisplay,
    mut events: EventStream,
    mut person: Option<TerminalPrompter>,
) -> FinishedDisplay {
    let mut held = Vec::new();
    loop {
        tokio::select! {
            event = events.next(), if held.len() < limits::HELD_EVENTS => {
                let Some(event) = event else { break };
                match &person {
                    Some(person) if person.is_asked() && progress.shares_the_terminal() => held.push(event),
                    _ => progress.show(&event),
                }
            }
            () = progress.next_update(), if !person.as_ref().is_some_and(TerminalPrompter::is_asked) => progress.update(),
            turn = attend(person.as_mut()) => match (turn, &mut person) {
                (PrompterEvent::Comes, Some(person)) => {
                    // Earlier events are shown above the question.
                    for _ in 0..limits::EVENT_QUEUE {
                        let Some(Some(event)) = events.next().now_or_never() else { break };
                        progress.show(&event);
                    }
                    progress.suspend();
                    person.put();
                }
                (PrompterEvent::Unclear, _) => {}
                (turn, _) => {
                    progress.resume();
                    held.drain(..).for_each(|event| progress.show(&event));
                    if turn == PrompterEvent::Leaves {
                        person = None;
                    }
                }
            }
        }
    }
    if person.is_some_and(|person| person.is_asked()) {
        tell("\n");
    }
    held.iter().for_each(|event| progress.show(event));
    progress.finish()
}

async fn attend(person: Option<&mut TerminalPrompter>) -> PrompterEvent {
    match person {
        Some(person) => person.turn().await,
        None => std::future::pending().await,
    }
}

/// An event between the broker and the person.
#[derive(Debug, PartialEq, Eq)]
enum PrompterEvent {
    /// A question has come and is to be shown.
    Comes,
    /// The line was no answer; the question is still on the screen.
    Unclear,
    /// The question is answered or withdrawn.
    Done,
    /// No more questions will be asked.
    Leaves,
}

/// Asks a person at the terminal, line by line.
pub struct TerminalPrompter {
    dialog: QuestionDialog,
    lines: TypedLines,
    /// The agents to which the words after a no go; `None`: there is nobody to read them.
    agents: Option<Arc<AgentGroup>>,
}

impl TerminalPrompter {
    pub fn new(inbox: ApprovalInbox) -> Self {
        Self { dialog: QuestionDialog::new(inbox), lines: TypedLines::new(), agents: None }
    }

    /// Sends what a person says after a no to the agent that asked.
    pub fn with_agents(self, agents: Arc<AgentGroup>) -> Self {
        Self { agents: Some(agents), ..self }
    }

    /// Returns `true` if a question is on the screen.
    fn is_asked(&self) -> bool {
        self.dialog.asked().is_some()
    }

    /// Shows the question.
    fn put(&mut self) {
        let Some(asked) = self.dialog.asked() else { return };
        self.lines.forget();
        let may_say_more = self.agents.is_some() && self.dialog.is_permission();
        let more = if may_say_more { "after n you may say what to do instead\n" } else { "" };
        let rest = format!("{DIM}{more}{PLAIN}{}", self.dialog.prompt());
        match &asked.question.kind {
            // The lines of files stay as they are.
            QuestionKind::Permission { subject: PermissionSubject::Change { .. }, .. } => {
                tell(&shown(asked));
                tell_prose(&rest);
            }
            _ => tell_prose(&format!("{}{rest}", shown(asked))),
        }
    }

    /// Takes the next question, or a line of the answer to the one on the screen. Cancel safe: nothing is lost if the
    /// future is dropped.
    async fn turn(&mut self) -> PrompterEvent {
        if !self.is_asked() {
            return if self.dialog.next().await { PrompterEvent::Comes } else { PrompterEvent::Leaves };
        }
        let line = tokio::select! {
            () = self.dialog.withdrawn() => {
                tell(&format!("\n{DIM}{WITHDRAWN}{PLAIN}\n"));
                return PrompterEvent::Done;
            }
            line = self.lines.next() => line,
        };
        match line {
            TypedLine::Text(line) => self.take(&line),
            TypedLine::NotText => self.again("the answer is not UTF-8 text"),
            TypedLine::End => {
                let left = "from now on questions get no answer and consent is refused";
                tell(&format!("\n{YELLOW}end of input:{PLAIN} {left}\n"));
                PrompterEvent::Leaves
            }
        }
    }

    fn take(&mut self, line: &str) -> PrompterEvent {
        let from = self.dialog.asked().map(|asked| Arc::clone(&asked.question.from));
        let words = words_of_refusal(line).filter(|_| self.agents.is_some() && self.dialog.is_permission());
        let outcome = match words {
            Some(_) => self.dialog.refuse(),
            None => self.dialog.answer(line),
        };
        match outcome {
            AnswerOutcome::Taken { warning } => {
                let unread = match (&self.agents, from, words) {
                    (Some(agents), Some(from), Some(words)) => agents.send(&from, Message::user(words)).err(),
                    _ => None,
                };
                let unread = unread.map(|why| format!("the agent does not read your words: {why}"));
                for warning in warning.into_iter().chain(unread) {
                    tell(&format!("{YELLOW}warning:{PLAIN} {}\n", name(&warning)));
                }
                PrompterEvent::Done
            }
            AnswerOutcome::InWords => {
                tell(self.dialog.prompt());
                PrompterEvent::Unclear
            }
            AnswerOutcome::Unclear(why) => self.again(&why),
        }
    }

    fn again(&self, why: &str) -> PrompterEvent {
        tell(&format!("{}\n{}", name(why), self.dialog.prompt()));
        PrompterEvent::Unclear
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::mpsc::{Receiver, sync_channel},
    };

    use futures_util::poll;
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        approval::{OpenQuestion, OpenQuestionAnswer, PermissionDecision, QuestionOption, Verdict},
        cli::render::{ProgressLevel, RunOutputFormat},
        event::{AnsweredBy, Event, EventSink, LogLevel, RunCx},
    };

    fn open(text: &str, labels: &[&str]) -> OpenQuestion {
        let choice = |label: &&str| QuestionOption { label: (*label).into(), description: String::new() };
        OpenQuestion { text: text.into(), options: labels.iter().map(choice).collect(), ..OpenQuestion::default() }
    }

    /// Returns a prompter whose lines are sent through a channel, and a receiver of its requests for lines.
    fn typist(broker: &ApprovalBroker) -> (TerminalPrompter, mpsc::Sender<TypedLine>, Receiver<()>) {
        let (wants, wanted) = sync_channel(1);
        let (typed, lines) = mpsc::channel(1);
        let lines = TypedLines::from(wants, lines);
        let person = TerminalPrompter { lines, ..TerminalPrompter::new(broker.attend().unwrap()) };
        let person = person.with_agents(Arc::default());
        (person, typed, wanted)
    }

    #[tokio::test]
    async fn a_person_is_asked_until_the_answer_fits() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let (mut person, typed, wanted) = typist(&broker);
        let cx = RunCx::new("ada");
        let subject =
            PermissionSubject::Tool { agent: "ada".into(), origin: "p".into(), name: "t".into(), digest: "d".into() };
        let mut first = pin!(broker.ask(&cx, open("which?", &["a", "b"])));
        let mut second = pin!(broker.permit(&cx, subject.clone(), "{}"));
        assert!(poll!(first.as_mut()).is_pending() && poll!(second.as_mut()).is_pending());
        // A line that was typed before the question was asked.
        typed.send(TypedLine::Text("1\n".into())).await.unwrap();
        assert_eq!(person.turn().await, PrompterEvent::Comes);
        person.put();
        for (line, turn) in
            [("what?\n", PrompterEvent::Unclear), ("3\n", PrompterEvent::Unclear), ("both\n", PrompterEvent::Done)]
        {
            assert!(poll!(pin!(person.turn())).is_pending(), "a line is wanted");
            assert!(wanted.try_recv().is_ok() && wanted.try_recv().is_err(), "one at a time");
            typed.send(TypedLine::Text(line.into())).await.unwrap();
            assert_eq!(person.turn().await, turn, "{line}");
        }
        assert_eq!(first.await, Ok(Some(OpenQuestionAnswer::Text("both".into()))));
        assert_eq!(person.turn().await, PrompterEvent::Comes);
        person.put();
        for (line, turn) in
            [(TypedLine::NotText, PrompterEvent::Unclear), (TypedLine::Text("t\n".into()), PrompterEvent::Done)]
        {
            assert!(poll!(pin!(person.turn())).is_pending());
            typed.send(line).await.unwrap();
            assert_eq!(person.turn().await, turn);
        }
        assert_eq!(second.await, Ok(PermissionDecision { verdict: Verdict::Trust, by: AnsweredBy::Person }));
        // A withdrawn question leaves the screen, and its typed answer does not count for the next one.
        let mut gone = Box::pin(broker.ask(&cx, open("gone?", &[])));
        assert!(poll!(&mut gone).is_pending());
        assert_eq!(person.turn().await, PrompterEvent::Comes);
        person.put();
        assert!(poll!(pin!(person.turn())).is_pending());
        drop(gone);
        assert_eq!(person.turn().await, PrompterEvent::Done);
        typed.send(TypedLine::Text("too late\n".into())).await.unwrap();
        let mut last = pin!(broker.ask(&cx, open("last?", &[])));
        assert!(poll!(last.as_mut()).is_pending());
        assert_eq!(person.turn().await, PrompterEvent::Comes);
        person.put();
        assert!(poll!(pin!(person.turn())).is_pending());
        // After the end of input nothing more is asked.
        typed.send(TypedLine::End).await.unwrap();
        assert_eq!(person.turn().await, PrompterEvent::Leaves);
        drop(person);
        assert_eq!(last.await, Ok(None));
    }

    #[tokio::test]
    async fn no_with_words_refuses_a_permission_alone() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let (mut person, _typed, _wanted) = typist(&broker);
        let cx = RunCx::new("ada");
        let subject = PermissionSubject::Program { name: "rm".into() };
        let mut asked = pin!(broker.permit(&cx, subject, "{}"));
        assert!(poll!(asked.as_mut()).is_pending());
        assert_eq!(person.turn().await, PrompterEvent::Comes);
        assert_eq!(person.take("n use the trash\n"), PrompterEvent::Done);
        assert_eq!(asked.await, Ok(PermissionDecision { verdict: Verdict::No, by: AnsweredBy::Person }));
        let mut open = pin!(broker.ask(&cx, open("why?", &[])));
        assert!(poll!(open.as_mut()).is_pending());
        assert_eq!(person.turn().await, PrompterEvent::Comes);
        assert_eq!(person.take("no, not now\n"), PrompterEvent::Done);
        assert_eq!(open.await, Ok(Some(OpenQuestionAnswer::Text("no, not now".into()))));
    }

    #[tokio::test]
    async fn progress_is_held_back_while_a_question_is_on_the_screen() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let (person, typed, _wanted) = typist(&broker);
        let (events, stream) = EventSink::channel();
        let cx = RunCx::new("ada");
        let mut question = pin!(broker.ask(&cx, open("why?", &[])));
        assert!(poll!(question.as_mut()).is_pending());
        let mut shown =
            Box::pin(show(RunDisplay::lines(RunOutputFormat::Text, ProgressLevel::Normal), stream, Some(person)));
        assert!(poll!(&mut shown).is_pending());
        let log = || Event::PluginLog {
            agent: "ada".into(),
            plugin: "p".into(),
            level: LogLevel::Debug,
            message: String::new(),
        };
        // Held events, and events that wait in the queue.
        for at in 0..limits::HELD_EVENTS + limits::EVENT_QUEUE {
            // Tokio makes a task that never yields wait although an item is ready.
            tokio::task::yield_now().await;
            assert!(poll!(pin!(events.emit(log()))).is_ready(), "event {at}");
            assert!(poll!(&mut shown).is_pending());
        }
        tokio::task::yield_now().await;
        let mut beyond = Box::pin(events.emit(log()));
        assert!(poll!(beyond.as_mut()).is_pending(), "the run waits for the person");
        typed.send(TypedLine::Text("so\n".into())).await.unwrap();
        let answer = tokio::select! {
            _ = &mut shown => panic!("there are still events"),
            answer = &mut question => answer,
        };
        assert_eq!(answer, Ok(Some(OpenQuestionAnswer::Text("so".into()))));
        tokio::select! {
            _ = &mut shown => panic!("there are still events"),
            () = &mut beyond => {}
        }
        drop(beyond);
        drop(events);
        shown.await;
    }
}
