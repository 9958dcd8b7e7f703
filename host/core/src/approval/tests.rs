//! Many callers of one broker. A question is opened when its future is polled for the first time.

use std::{
    pin::pin,
    sync::{Arc, Mutex, OnceLock},
};

use futures_util::{FutureExt, future, poll};

use super::*;
use crate::{
    error::Fault,
    event::{AnsweredBy, Event, EventSink, QuestionDecision, RunCx},
    limits,
};

fn broker(policy: HeadlessPolicy) -> ApprovalBroker {
    ApprovalBroker::new(policy, TrustedSubjects::default())
}

fn tool(name: &str) -> PermissionSubject {
    PermissionSubject::Tool { agent: "ada".into(), origin: "p".into(), name: name.into(), digest: "d".into() }
}

fn open(text: &str) -> OpenQuestion {
    OpenQuestion { text: text.into(), ..OpenQuestion::default() }
}

fn offering(labels: &[&str]) -> OpenQuestion {
    let options = labels.iter().map(|label| QuestionOption { label: (*label).into(), description: String::new() });
    OpenQuestion { options: options.collect(), ..open("which?") }
}

fn text(text: &str) -> OpenQuestionAnswer {
    OpenQuestionAnswer::Text(text.into())
}

fn by_person(verdict: Verdict) -> Result<PermissionDecision, Fault> {
    Ok(PermissionDecision { verdict, by: AnsweredBy::Person })
}

fn detail(asked: &InboxQuestion) -> &str {
    match &asked.question.kind {
        QuestionKind::Permission { detail, .. } => detail,
        QuestionKind::Open(open) => panic!("{open:?}"),
    }
}

#[tokio::test]
async fn the_same_question_is_asked_once_and_the_answer_is_shared() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let (ada, bob) = (RunCx::new("ada"), RunCx::new("bob"));
    let mut one = pin!(broker.ask(&ada, open("why?")));
    let mut two = pin!(broker.ask(&bob, open("why?")));
    let mut other = pin!(broker.ask(&bob, open("where?")));
    assert!(poll!(one.as_mut()).is_pending() && poll!(two.as_mut()).is_pending());
    assert!(poll!(other.as_mut()).is_pending());
    let asked = inbox.next().await.unwrap();
    assert_eq!((asked.id, &*asked.question.from, &asked.question.run), (1, "ada", &ada.run));
    let where_to = inbox.next().await.unwrap();
    assert!(poll!(pin!(inbox.next())).is_pending(), "there are two questions, not three");
    inbox.answer(asked.id, text("so")).unwrap();
    assert_eq!(future::join(one, two).await, (Ok(Some(text("so"))), Ok(Some(text("so")))));
    // A decline is an error for all callers of the question.
    let mut third = pin!(broker.ask(&ada, open("where?")));
    assert!(poll!(third.as_mut()).is_pending());
    inbox.decline(where_to.id).unwrap();
    for declined in [other.await, third.await] {
        assert!(matches!(declined, Err(Fault::Denied { .. })), "{declined:?}");
    }
}

#[tokio::test]
async fn a_yes_is_for_the_one_call_that_was_shown() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    let mut calls: Vec<_> =
        ["one", "two", "three", "four"].map(|detail| Box::pin(broker.permit(&cx, tool("t"), detail))).into();
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    let asked = inbox.next().await.unwrap();
    assert_eq!(detail(&asked), "one");
    inbox.decide(asked.id, Verdict::Yes).unwrap();
    assert_eq!(calls.remove(0).await, by_person(Verdict::Yes));
    // The others ask again.
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    let asked = inbox.next().await.unwrap();
    assert_eq!(detail(&asked), "two");
    assert!(poll!(pin!(inbox.next())).is_pending());
    // The caller whose details are shown goes away: a yes would be for a call that was never shown.
    drop(calls.remove(0));
    assert_eq!(inbox.decide(asked.id, Verdict::Yes), Err(AnswerError::NotOpen { id: asked.id }));
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    let asked = inbox.next().await.unwrap();
    assert_eq!(detail(&asked), "three");
    inbox.decide(asked.id, Verdict::No).unwrap();
    assert_eq!(future::join_all(calls).await, [by_person(Verdict::No), by_person(Verdict::No)]);
}

#[tokio::test]
async fn yes_to_git_reading_holds_for_all_waiting_callers() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    for verdict in [Verdict::No, Verdict::Yes] {
        let mut calls: Vec<_> = ["one", "two", "three"]
            .map(|detail| Box::pin(broker.permit(&cx, PermissionSubject::GitReading, detail)))
            .into();
        for call in &mut calls {
            assert!(poll!(call).is_pending());
        }
        let asked = inbox.next().await.unwrap();
        // The first caller goes away: the others still wait.
        drop(calls.remove(0));
        inbox.decide(asked.id, verdict).unwrap();
        assert_eq!(future::join_all(calls).await, [by_person(verdict), by_person(verdict)]);
    }
    assert!(poll!(pin!(inbox.next())).is_pending(), "nobody asks again");
    let git = PermissionSubject::Program { name: "git".into() };
    assert!(!broker.trusts(&git) && !broker.trusts(&PermissionSubject::GitReading));
    let long = PermissionSubject::Program { name: "x".repeat(limits::QUESTION_LABEL_BYTES + 1) };
    let fault = broker.permit(&cx, long, "").await.unwrap_err();
    assert!(
        fault.to_string().starts_with("cannot ask for permission: the name of a program has more than 256 bytes"),
        "{fault}"
    );
}

#[tokio::test]
async fn same_question_in_another_run_is_asked_again() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let [mine, theirs] = ["mine", "theirs"].map(|run| RunCx::new("ada").with_run(run));
    let (mut one, mut two) = (pin!(broker.permit(&mine, tool("t"), "1")), pin!(broker.permit(&theirs, tool("t"), "2")));
    assert!(poll!(one.as_mut()).is_pending() && poll!(two.as_mut()).is_pending());
    let _nobody_answers = inbox.next().await.unwrap();
    let asked = inbox.next().await.unwrap();
    assert_eq!((detail(&asked), &*asked.question.run), ("2", "theirs"));
    inbox.decide(asked.id, Verdict::No).unwrap();
    assert_eq!(two.await, by_person(Verdict::No));
    assert!(poll!(one).is_pending());
}

#[tokio::test]
async fn trusted_subject_is_stored_and_not_asked_again() {
    struct TrustRecorder(Mutex<Vec<PermissionSubject>>);
    impl TrustPersistence for TrustRecorder {
        fn keep(&self, subject: &PermissionSubject) -> Result<(), Fault> {
            self.0.lock().unwrap().push(subject.clone());
            if *subject == tool("full") { Err(Fault::other("the disk is full")) } else { Ok(()) }
        }
    }
    let recorder = Arc::new(TrustRecorder(Mutex::default()));
    let trusted = TrustedSubjects::new([tool("before")]).unwrap().kept_by(recorder.clone());
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, trusted);
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    let trust = Ok(PermissionDecision { verdict: Verdict::Yes, by: AnsweredBy::Trust });
    assert_eq!(broker.permit(&cx, tool("before"), "").await, trust);
    for (name, kept) in [("t", Ok(())), ("full", Err(AnswerError::NotKept(Fault::other("the disk is full"))))] {
        let (mut one, mut two) = (pin!(broker.permit(&cx, tool(name), "1")), pin!(broker.permit(&cx, tool(name), "2")));
        assert!(poll!(one.as_mut()).is_pending() && poll!(two.as_mut()).is_pending());
        let asked = inbox.next().await.unwrap();
        assert_eq!(inbox.decide(asked.id, Verdict::Trust), kept);
        assert_eq!(future::join(one, two).await, (by_person(Verdict::Trust), by_person(Verdict::Trust)));
        assert_eq!(broker.permit(&cx, tool(name), "3").await, trust);
    }
    assert_eq!(*recorder.0.lock().unwrap(), [tool("t"), tool("full")]);
    assert_eq!(broker.trusted(), [tool("before"), tool("full"), tool("t")]);
}

/// Otherwise a program that ends right after the call could forget the trust.
#[tokio::test]
async fn trust_is_stored_before_callers_resume() {
    #[derive(Default)]
    struct PermittingTrust {
        broker: OnceLock<ApprovalBroker>,
        heard: Mutex<Vec<Option<Result<PermissionDecision, Fault>>>>,
    }
    impl TrustPersistence for PermittingTrust {
        fn keep(&self, subject: &PermissionSubject) -> Result<(), Fault> {
            let broker = self.broker.get().unwrap();
            let heard = broker.permit(&RunCx::new("ada"), subject.clone(), "the same").now_or_never();
            self.heard.lock().unwrap().push(heard);
            Ok(())
        }
    }
    let trust = Arc::new(PermittingTrust::default());
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default().kept_by(trust.clone()));
    assert!(trust.broker.set(broker.clone()).is_ok());
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    let mut call = pin!(broker.permit(&cx, tool("t"), ""));
    assert!(poll!(call.as_mut()).is_pending());
    let asked = inbox.next().await.unwrap();
    inbox.decide(asked.id, Verdict::Trust).unwrap();
    assert_eq!(call.await, by_person(Verdict::Trust));
    assert_eq!(*trust.heard.lock().unwrap(), [None], "the question was open while it was written");
}

#[tokio::test]
async fn trusted_subjects_are_bounded() {
    let many = |count: usize| TrustedSubjects::new((0..count).map(|at| tool(&at.to_string())));
    assert!(matches!(many(limits::TRUSTED_SUBJECTS + 1), Err(Fault::TooLarge { .. })));
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, many(limits::TRUSTED_SUBJECTS).unwrap());
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    let mut call = pin!(broker.permit(&cx, tool("one more"), ""));
    assert!(poll!(call.as_mut()).is_pending());
    let asked = inbox.next().await.unwrap();
    assert_eq!(inbox.decide(asked.id, Verdict::Trust), Err(AnswerError::TrustIsFull));
    inbox.decide(asked.id, Verdict::Yes).unwrap();
    assert_eq!(call.await, by_person(Verdict::Yes));
}

#[tokio::test]
async fn question_without_waiting_callers_is_withdrawn() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    let mut one = Box::pin(broker.ask(&cx, open("why?")));
    let mut two = Box::pin(broker.ask(&cx, open("why?")));
    assert!(poll!(&mut one).is_pending() && poll!(&mut two).is_pending());
    let asked = inbox.next().await.unwrap();
    let mut closed = Box::pin(inbox.closed(asked.id));
    drop(one);
    assert!(poll!(&mut closed).is_pending(), "somebody still waits");
    drop(two);
    closed.await;
    assert_eq!(inbox.answer(asked.id, text("so")), Err(AnswerError::NotOpen { id: asked.id }));
    // A question withdrawn before it was handed out is never seen.
    let mut unseen = Box::pin(broker.ask(&cx, open("unseen?")));
    assert!(poll!(&mut unseen).is_pending());
    drop(unseen);
    assert!(poll!(pin!(inbox.next())).is_pending());
    drop(broker);
    assert!(inbox.next().await.is_none(), "nobody can ask any more");
}

#[tokio::test]
async fn without_a_front_end_the_policy_decides() {
    use AnsweredBy::{Policy as Rule, Trust};
    use Verdict::{No, Yes};
    for (policy, known, unknown) in [
        (HeadlessPolicy::Never, (No, Rule), (No, Rule)),
        (HeadlessPolicy::Granted, (Yes, Trust), (No, Rule)),
        (HeadlessPolicy::All, (Yes, Rule), (Yes, Rule)),
    ] {
        let broker = ApprovalBroker::new(policy, TrustedSubjects::new([tool("known")]).unwrap());
        let cx = RunCx::new("ada");
        for (name, (verdict, by)) in [("known", known), ("unknown", unknown)] {
            assert_eq!(
                broker.permit(&cx, tool(name), "").await,
                Ok(PermissionDecision { verdict, by }),
                "{policy:?} {name}"
            );
        }
        assert_eq!(broker.ask(&cx, open("why?")).await, Ok(None), "{policy:?}");
        // Questions that are open when the front end goes away are decided in the same way.
        let mut inbox = broker.attend().unwrap();
        assert!(broker.attend().is_none(), "one front end at a time");
        let mut seen = pin!(broker.ask(&cx, open("why?")));
        let (mut one, mut two) =
            (pin!(broker.permit(&cx, tool("unknown"), "1")), pin!(broker.permit(&cx, tool("unknown"), "2")));
        assert!(poll!(seen.as_mut()).is_pending());
        assert!(poll!(one.as_mut()).is_pending() && poll!(two.as_mut()).is_pending());
        inbox.next().await.unwrap();
        drop(inbox);
        assert_eq!(seen.await, Ok(None));
        let ruling = Ok(PermissionDecision { verdict: unknown.0, by: unknown.1 });
        assert_eq!(future::join(one, two).await, (ruling.clone(), ruling));
        assert!(broker.attend().is_some(), "another may attend now");
    }
}

#[tokio::test]
async fn nothing_is_dropped_under_a_flood() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    let count = limits::OPEN_QUESTIONS * 3;
    let mut asking = pin!(future::join_all((0..count).map(|at| broker.ask(&cx, open(&at.to_string())))));
    assert!(poll!(asking.as_mut()).is_pending());
    let mut asked = Vec::new();
    for _ in 0..limits::OPEN_QUESTIONS {
        asked.push(inbox.next().await.unwrap());
    }
    assert!(poll!(pin!(inbox.next())).is_pending(), "no more than that are open at once");
    // A question that is open already needs no further permit.
    let mut same = pin!(broker.ask(&cx, open("0")));
    assert!(poll!(same.as_mut()).is_pending());
    let person = async {
        for at in 0..count {
            if at >= limits::OPEN_QUESTIONS {
                asked.push(inbox.next().await.unwrap());
            }
            inbox.answer(asked[at].id, text(&format!("answer {at}"))).unwrap();
        }
    };
    let (answers, same, ()) = future::join3(asking, same, person).await;
    assert_eq!(same, Ok(Some(text("answer 0"))));
    for (at, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, Ok(Some(text(&format!("answer {at}")))));
    }
}

#[tokio::test]
async fn invalid_answer_leaves_the_question_open() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    let several = OpenQuestion { multi_select: true, max_selections: Some(2), ..offering(&["a", "b", "c"]) };
    let (mut one, mut many) = (pin!(broker.ask(&cx, offering(&["a", "b"]))), pin!(broker.ask(&cx, several)));
    let mut call = pin!(broker.permit(&cx, tool("t"), ""));
    assert!(poll!(one.as_mut()).is_pending() && poll!(many.as_mut()).is_pending());
    assert!(poll!(call.as_mut()).is_pending());
    for _ in 0..3 {
        inbox.next().await.unwrap();
    }
    let chosen = |labels: &[&str]| OpenQuestionAnswer::Chosen(labels.iter().map(|label| (*label).into()).collect());
    let bytes = limits::ANSWER_BYTES + 1;
    for (id, answer, error) in [
        (9, text("x"), AnswerError::NotOpen { id: 9 }),
        (1, text(" \n"), AnswerError::Empty { id: 1 }),
        (1, text(&"x".repeat(bytes)), AnswerError::TooLong { id: 1, bytes }),
        (1, chosen(&["a", "z"]), AnswerError::NoOption { id: 1, label: "z".into() }),
        (1, chosen(&["a", "b"]), AnswerError::Selections { id: 1, chosen: 2, most: 1 }),
        (2, chosen(&[]), AnswerError::Selections { id: 2, chosen: 0, most: 2 }),
        (2, chosen(&["a", "b", "c"]), AnswerError::Selections { id: 2, chosen: 3, most: 2 }),
        (3, text("yes"), AnswerError::WrongKind { id: 3, wants: "a yes or a no" }),
    ] {
        assert_eq!(inbox.answer(id, answer), Err(error));
    }
    assert!(matches!(inbox.decide(1, Verdict::Yes), Err(AnswerError::WrongKind { id: 1, .. })));
    assert_eq!(inbox.decline(9), Err(AnswerError::NotOpen { id: 9 }));
    inbox.answer(1, chosen(&["b", "b"])).unwrap();
    inbox.answer(2, chosen(&["c", "a"])).unwrap();
    inbox.decline(3).unwrap();
    assert_eq!(one.await, Ok(Some(chosen(&["b"]))));
    assert_eq!(many.await, Ok(Some(chosen(&["a", "c"]))));
    assert_eq!(call.await, by_person(Verdict::No));
    assert_eq!(inbox.answer(1, chosen(&["b"])), Err(AnswerError::NotOpen { id: 1 }));
}

#[tokio::test(start_paused = true)]
async fn question_times_out_and_is_withdrawn() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let cx = RunCx::new("ada");
    let started = tokio::time::Instant::now();
    let outcome = broker.ask(&cx, open("why?")).await;
    assert!(matches!(outcome, Err(Fault::Timeout { .. })), "{outcome:?}");
    assert_eq!(started.elapsed().as_secs(), limits::QUESTION_TIME.as_secs());
    assert!(poll!(pin!(inbox.next())).is_pending(), "it was withdrawn");
    let long = tool(&"x".repeat(limits::QUESTION_LABEL_BYTES + 1));
    assert!(matches!(broker.permit(&cx, long, "").await, Err(Fault::TooLarge { .. })));
}

#[tokio::test]
async fn events_name_the_asking_agent_and_the_decider() {
    let broker = ApprovalBroker::new(HeadlessPolicy::Granted, TrustedSubjects::new([tool("t")]).unwrap());
    let (events, mut stream) = EventSink::channel();
    let cx = RunCx::new("ada").with_events(events);
    broker.permit(&cx, tool("t"), "").await.unwrap();
    broker.ask(&cx, open("why?")).await.unwrap();
    let mut inbox = broker.attend().unwrap();
    let person = async {
        let asked = inbox.next().await.unwrap();
        inbox.answer(asked.id, text("so")).unwrap();
    };
    future::join(broker.ask(&cx, open("why?")), person).await.0.unwrap();
    for (id, question, outcome, by) in [
        (1, "may the agent call the tool `t` of `p`?", QuestionDecision::Yes, AnsweredBy::Trust),
        (2, "why?", QuestionDecision::Nobody, AnsweredBy::Policy),
        (3, "why?", QuestionDecision::Answered, AnsweredBy::Person),
    ] {
        let (agent, question) = (Arc::clone(&cx.agent), question.to_owned());
        let asked = Event::QuestionAsked { agent: Arc::clone(&agent), id, question: question.clone() };
        assert_eq!(stream.next_event().await, Some(asked));
        assert_eq!(stream.next_event().await, Some(Event::QuestionAnswered { agent, id, question, outcome, by }));
    }
}

#[tokio::test]
async fn open_questions_are_listed_until_they_close() {
    let broker = broker(HeadlessPolicy::Never);
    let mut inbox = broker.attend().unwrap();
    let (ada, bob) = (RunCx::new("ada").with_run("one"), RunCx::new("bob").with_run("two"));
    assert!(inbox.open().is_empty() && poll!(pin!(inbox.other_than(&[]))).is_pending());
    let mut first = Box::pin(broker.ask(&ada, open("why?")));
    let mut second = Box::pin(broker.permit(&bob, tool("t"), "{}"));
    assert!(poll!(first.as_mut()).is_pending() && poll!(second.as_mut()).is_pending());
    let ids = |questions: &[InboxQuestion]| questions.iter().map(|asked| asked.id).collect::<Vec<_>>();
    assert_eq!(inbox.next().await.unwrap().id, 1);
    assert_eq!(ids(&inbox.open()), [1, 2], "whether they were handed out or not");
    assert_eq!(ids(&inbox.other_than(&[1]).await.unwrap()), [1, 2]);
    let mut changes = Box::pin(inbox.other_than(&[1, 2]));
    assert!(poll!(changes.as_mut()).is_pending());
    drop(second);
    assert_eq!(ids(&changes.await.unwrap()), [1], "the second was withdrawn");
    inbox.answer(1, text("so")).unwrap();
    assert_eq!(first.await, Ok(Some(text("so"))));
    assert!(inbox.open().is_empty());
    drop(broker);
    assert!(inbox.other_than(&[]).await.is_none());
}
