//! Answers requests of MCP servers with the model of the calling agent, and with the person.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Number, Value};

use crate::{
    agent,
    approval::{ApprovalBroker, OpenQuestion, OpenQuestionAnswer, QuestionOption},
    chat::{ChatSnapshot, Message, Part, Role, StopReason},
    error::{Fault, cut},
    limits,
    mcp::{
        ElicitationRequest, ElicitationResult, Elicitor, Sampler, SamplingRequest, SamplingResult, ServerRequestOrigin,
    },
    model::CompletionRequest,
};

/// Answers sampling requests with the model of the agent that made the call, within its budget.
pub(crate) struct CallerModelSampler;

#[async_trait]
impl Sampler for CallerModelSampler {
    async fn sample(&self, asked: &ServerRequestOrigin, request: SamplingRequest) -> Result<SamplingResult, Fault> {
        // The server's preference for a model is ignored.
        let SamplingRequest { system, messages, max_tokens, temperature, stop, models: _ } = request;
        let system = system.map(|text| Message::text(Role::System, &*asked.server, text));
        let messages = system.into_iter().chain(messages).collect();
        let messages = ChatSnapshot::from_messages(messages)
            .map_err(|error| Fault::invalid(format!("the messages cannot be sent to a model: {error}")))?;
        let request = CompletionRequest {
            max_output_tokens: Some(max_tokens),
            temperature,
            ..CompletionRequest::new(messages, [].into())
        };
        let completion = agent::sample(&asked.run, request).await?;
        let said = completion.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let text = said.collect::<Vec<_>>().concat();
        let end = stop.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop.as_str())).min();
        Ok(match end {
            Some(end) => {
                SamplingResult { text: text[..end].into(), model: completion.model, stop: StopReason::StopSequence }
            }
            None => SamplingResult { text, model: completion.model, stop: completion.stop },
        })
    }
}

/// Answers elicitation requests through the approval broker, with one question for each field of a form.
pub(crate) struct BrokerElicitor(pub ApprovalBroker);

/// The schema of a form as the protocol allows it: fields of plain values.
#[derive(Deserialize)]
struct RequestedFormSchema {
    #[serde(default)]
    properties: serde_json::Map<String, Value>,
    #[serde(default)]
    required: Vec<String>,
}

/// The values that a field takes.
#[derive(Debug, Clone, PartialEq)]
enum FormFieldKind {
    Text {
        least: usize,
        most: usize,
    },
    Number {
        whole: bool,
        least: Option<f64>,
        most: Option<f64>,
    },
    Switch,
    /// One or several of these options, each a value and its title.
    Choice {
        of: Vec<(String, String)>,
        several: bool,
    },
}

struct FormField {
    name: String,
    title: String,
    description: String,
    takes: FormFieldKind,
    is_required: bool,
}

#[async_trait]
impl Elicitor for BrokerElicitor {
    async fn elicit(
        &self,
        asked: &ServerRequestOrigin,
        question: ElicitationRequest,
    ) -> Result<ElicitationResult, Fault> {
        let fields = fields(question.schema.get())?;
        let from =
            format!("The MCP server `{}` asks: {}", asked.server, cut(&question.message, limits::QUESTION_BYTES / 8));
        if fields.is_empty() {
            let options = [choice(ACCEPT, "Continue."), choice(DECLINE, "")].into();
            let question = OpenQuestion { text: from, header: header(asked), options, ..OpenQuestion::default() };
            return Ok(match self.put(asked, question).await? {
                Some(OpenQuestionAnswer::Chosen(chosen)) if chosen == [ACCEPT] => {
                    ElicitationResult::Accept(BTreeMap::new())
                }
                Some(_) => ElicitationResult::Decline,
                None => ElicitationResult::Cancel,
            });
        }
        let mut form = BTreeMap::new();
        for field in &fields {
            let mut wrong = None;
            let answered = loop {
                let question = field.question(&from, asked, wrong.as_deref());
                let answer = match self.put(asked, question).await {
                    Ok(Some(answer)) => answer,
                    Ok(None) => return Ok(ElicitationResult::Cancel),
                    // The person declines.
                    Err(Fault::Denied { .. }) => return Ok(ElicitationResult::Decline),
                    Err(fault) => return Err(fault),
                };
                match field.read(&answer) {
                    Ok(value) => break value,
                    // A second invalid answer cancels the form.
                    Err(_) if wrong.is_some() => return Ok(ElicitationResult::Cancel),
                    Err(why) => wrong = Some(why),
                }
            };
            if let Some(value) = answered {
                form.insert(field.name.clone(), value);
            }
        }
        Ok(ElicitationResult::Accept(form))
    }
}

const ACCEPT: &str = "yes";
const DECLINE: &str = "no";
const LEAVE_OUT: &str = "(leave empty)";

impl BrokerElicitor {
    async fn put(
        &self,
        asked: &ServerRequestOrigin,
        question: OpenQuestion,
    ) -> Result<Option<OpenQuestionAnswer>, Fault> {
        self.0.ask(&asked.run, question).await
    }
}

fn header(asked: &ServerRequestOrigin) -> String {
    cut(&format!("MCP {}", asked.server), limits::QUESTION_LABEL_BYTES / 4)
}

fn choice(label: &str, description: &str) -> QuestionOption {
    QuestionOption { label: cut(label, limits::QUESTION_LABEL_BYTES / 4), description: description.into() }
}

fn fields(schema: &str) -> Result<Vec<FormField>, Fault> {
    let form: RequestedFormSchema = serde_json::from_str(schema)
        .map_err(|error| Fault::invalid(format!("the schema of the form is invalid: {error}")))?;
    if form.properties.len() > limits::MCP_FORM_FIELDS {
        let most = limits::MCP_FORM_FIELDS;
        return Err(Fault::TooLarge { message: format!("the form has more than {most} fields") });
    }
    let read = |(name, field): (String, Value)| {
        let said = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let takes = takes(&field).ok_or_else(|| {
            Fault::invalid(format!("the field `{}` has an unsupported type", cut(&name, 50).escape_debug()))
        })?;
        let is_required = form.required.contains(&name);
        Ok(FormField { title: said("title"), description: said("description"), takes, is_required, name })
    };
    form.properties.into_iter().map(read).collect()
}

fn takes(field: &Value) -> Option<FormFieldKind> {
    let texts = |value: &Value| {
        let list = value.as_array()?.iter().map(|value| value.as_str().map(str::to_owned));
        list.collect::<Option<Vec<_>>>()
    };
    let titled = |value: &Value| {
        let one = |choice: &Value| {
            let value = choice.get("const")?.as_str()?;
            Some((value.to_owned(), choice.get("title").and_then(Value::as_str).unwrap_or(value).to_owned()))
        };
        value.as_array()?.iter().map(one).collect::<Option<Vec<_>>>()
    };
    let choices = |field: &Value| {
        if let Some(of) = field.get("oneOf").or_else(|| field.get("anyOf")) {
            return titled(of);
        }
        let values = texts(field.get("enum")?)?;
        let names = field.get("enumNames").and_then(texts).filter(|names| names.len() == values.len());
        let names = names.unwrap_or_else(|| values.clone());
        Some(values.into_iter().zip(names).collect())
    };
    let number = |key: &str| field.get(key).and_then(Value::as_f64);
    let count = |key: &str| field.get(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
    match field.get("type").and_then(Value::as_str)? {
        "string" => match choices(field) {
            Some(of) => Some(FormFieldKind::Choice { of, several: false }),
            None => {
                let most = count("maxLength").unwrap_or(limits::ANSWER_BYTES);
                Some(FormFieldKind::Text { least: count("minLength").unwrap_or_default(), most })
            }
        },
        "array" => Some(FormFieldKind::Choice { of: choices(field.get("items")?)?, several: true }),
        "boolean" => Some(FormFieldKind::Switch),
        "number" => Some(FormFieldKind::Number { whole: false, least: number("minimum"), most: number("maximum") }),
        "integer" => Some(FormFieldKind::Number { whole: true, least: number("minimum"), most: number("maximum") }),
        _ => None,
    }
}

impl FormField {
    fn question(&self, from: &str, asked: &ServerRequestOrigin, wrong: Option<&str>) -> OpenQuestion {
        let short = |text: &str| cut(text, limits::QUESTION_BYTES / 16);
        let called = if self.title.is_empty() { &self.name } else { &self.title };
        let mut text = format!("{from}\n{}", short(called));
        if !self.description.is_empty() {
            text = format!("{text}: {}", short(&self.description));
        }
        if let Some(wrong) = wrong {
            text = format!("{text}\n({wrong})");
        }
        let mut options: Vec<_> = match &self.takes {
            FormFieldKind::Switch => vec![choice(ACCEPT, ""), choice(DECLINE, "")],
            FormFieldKind::Choice { of, .. } if of.len() < limits::QUESTION_OPTIONS => {
                of.iter().map(|(value, title)| choice(title, if value == title { "" } else { value })).collect()
            }
            FormFieldKind::Choice { of, .. } => {
                let names: Vec<_> = of.iter().map(|(_, title)| title.as_str()).collect();
                text = format!("{text}\nOne of: {}", short(&names.join(", ")));
                Vec::new()
            }
            FormFieldKind::Text { .. } | FormFieldKind::Number { .. } => Vec::new(),
        };
        if !self.is_required {
            options.push(choice(LEAVE_OUT, ""));
        }
        let multi_select = matches!(self.takes, FormFieldKind::Choice { several: true, .. }) && options.len() > 1;
        OpenQuestion { text, header: header(asked), options, multi_select, max_selections: None }
    }

    /// Parses the answer to a value; `None` if the field is left out.
    fn read(&self, answer: &OpenQuestionAnswer) -> Result<Option<Value>, String> {
        let words: Vec<&str> = match answer {
            OpenQuestionAnswer::Text(text) => vec![text.trim()],
            OpenQuestionAnswer::Chosen(chosen) => chosen.iter().map(String::as_str).collect(),
        };
        let said = words.first().copied().unwrap_or_default();
        if !self.is_required && (said == LEAVE_OUT || said.is_empty()) {
            return Ok(None);
        }
        let value = match &self.takes {
            FormFieldKind::Text { least, most } => {
                let chars = said.chars().count();
                if !(*least..=*most).contains(&chars) {
                    return Err(format!("the answer must have {least} to {most} characters, but has {chars}"));
                }
                Value::from(said)
            }
            FormFieldKind::Number { whole, least, most } => number(said, *whole, *least, *most)?,
            FormFieldKind::Switch => match said.to_lowercase().as_str() {
                ACCEPT | "y" | "true" => true.into(),
                DECLINE | "n" | "false" => false.into(),
                _ => return Err(format!("answer `{ACCEPT}` or `{DECLINE}`")),
            },
            FormFieldKind::Choice { of, several } => {
                let find = |word: &str| {
                    let found = of
                        .iter()
                        .find(|(value, title)| value == word || *title == word || choice(title, "").label == word);
                    found.map(|(value, _)| Value::from(value.as_str())).ok_or("the answer is not one of the choices")
                };
                match (several, answer) {
                    (false, _) => find(said)?,
                    (true, OpenQuestionAnswer::Chosen(_)) => {
                        words.into_iter().map(find).collect::<Result<Vec<_>, _>>()?.into()
                    }
                    (true, OpenQuestionAnswer::Text(text)) => {
                        text.split(',').map(|word| find(word.trim())).collect::<Result<Vec<_>, _>>()?.into()
                    }
                }
            }
        };
        Ok(Some(value))
    }
}

fn number(said: &str, whole: bool, least: Option<f64>, most: Option<f64>) -> Result<Value, String> {
    let parsed = match whole {
        true => said.parse::<i64>().ok().map(|number| (number as f64, Number::from(number))),
        false => {
            let number = said.parse::<f64>().ok();
            number.and_then(|number| Some((number, Number::from_f64(number)?)))
        }
    };
    let (value, number) =
        parsed.ok_or(if whole { "the answer must be a whole number" } else { "the answer must be a number" })?;
    match (least, most) {
        (Some(least), _) if value < least => Err(format!("the answer must be at least {least}")),
        (_, Some(most)) if value > most => Err(format!("the answer must be at most {most}")),
        _ => Ok(number.into()),
    }
}
