//! The protocol between this process and the one that compiles. Neither side trusts the other: lengths are checked
//! before anything is read, and anything unexpected is refused.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::{compile_step::CompileStep, memory_layout::MemoryLayout, sandbox::CompileSandboxStatus};
use crate::error::ComponentError;
use shelly_core::{error::cut, limits};

/// A request to the child: a component, and the step to take with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileRequest<'a> {
    pub step: CompileStep,
    pub layout: MemoryLayout,
    pub component: &'a [u8],
    /// The functions that are kept of the last build. With them, even if there are none, the code is not optimised, and the
    /// answer has the functions of this build.
    pub functions: Option<&'a [u8]>,
}

/// A request as the child has read it.
#[derive(Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    pub step: CompileStep,
    pub layout: MemoryLayout,
    pub component: Vec<u8>,
    /// The functions of the last build: see [`CompileRequest::functions`].
    pub functions: Option<Vec<u8>>,
}

impl CompileRequest<'_> {
    /// The length of the head: step, layout, one byte that says if functions are kept, and the lengths of the component and of
    /// the functions, each as eight bytes in little-endian order.
    const HEAD: usize = 19;

    pub fn to_bytes(self) -> Vec<u8> {
        let functions = self.functions.unwrap_or_default();
        let mut bytes = Vec::with_capacity(Self::HEAD + self.component.len() + functions.len());
        bytes.push(match self.step {
            CompileStep::Validate => 0,
            CompileStep::Compile => 1,
        });
        bytes.push(match self.layout {
            MemoryLayout::Pooled => 0,
            MemoryLayout::OnDemand => 1,
        });
        bytes.push(u8::from(self.functions.is_some()));
        bytes.extend((self.component.len() as u64).to_le_bytes());
        bytes.extend((functions.len() as u64).to_le_bytes());
        bytes.extend(self.component);
        bytes.extend(functions);
        bytes
    }
}

/// Reads a whole request. The component may be at most [`limits::COMPONENT_BYTES`] long, and the functions at most
/// [`limits::KEPT_FUNCTIONS_BYTES`].
pub fn read_request(from: &mut dyn Read) -> io::Result<ReceivedRequest> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut head = [0; CompileRequest::HEAD];
    from.read_exact(&mut head)?;
    let [step, layout, keeps_functions, lengths @ ..] = head;
    let step = match step {
        0 => CompileStep::Validate,
        1 => CompileStep::Compile,
        _ => return Err(wrong("unknown step")),
    };
    let layout = match layout {
        0 => MemoryLayout::Pooled,
        1 => MemoryLayout::OnDemand,
        _ => return Err(wrong("unknown memory layout")),
    };
    let keeps_functions = match keeps_functions {
        0 => false,
        1 => true,
        _ => return Err(wrong("unknown use of functions")),
    };
    let (of_component, of_functions) = lengths.split_at(size_of::<u64>());
    let component = read_part(from, of_component, limits::COMPONENT_BYTES, "the component is too long")?;
    let most_functions = limits::KEPT_FUNCTIONS_BYTES as u64;
    let functions = read_part(from, of_functions, most_functions, "the functions are too long")?;
    match keeps_functions || functions.is_empty() {
        true => Ok(ReceivedRequest { step, layout, component, functions: keeps_functions.then_some(functions) }),
        false => Err(wrong("unexpected functions")),
    }
}

/// Reads a part whose length is these eight bytes.
fn read_part(from: &mut dyn Read, length: &[u8], most: u64, too_long: &str) -> io::Result<Vec<u8>> {
    let length = length.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte));
    if length > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, too_long));
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The child's answer to a [`CompileRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileResponse {
    /// The component is valid.
    Valid,
    /// The component is valid, and this is its code.
    Code(CompiledCode),
    /// The component is not valid.
    Refused(ComponentValidationError),
    /// The compiler rejects the component.
    Failed(String),
}

/// The code of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledCode {
    pub code: Vec<u8>,
    /// The functions to keep for the next build; `None` if none are kept, or those of the last build can stay.
    pub functions: Option<Vec<u8>>,
}

/// The cases of [`ComponentError`] that only a validator finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComponentValidationError {
    CutOff { offset: usize, said: usize, there: usize },
    Invalid { message: String, offset: usize },
    Feature { message: String },
    Async { name: String },
}

impl ComponentValidationError {
    /// Converts an error; `None` for one that needs no validator, which the parent finds by itself.
    pub fn of(error: ComponentError) -> Option<Self> {
        Some(match error {
            ComponentError::CutOff { offset, said, there } => Self::CutOff { offset, said, there },
            ComponentError::Invalid { message, offset } => Self::Invalid { message, offset },
            ComponentError::Feature { message } => Self::Feature { message },
            ComponentError::Async { name } => Self::Async { name: cut(&name, limits::NAME_SHOWN_CHARS) },
            _ => return None,
        })
    }

    pub fn into_component_error(self) -> ComponentError {
        match self {
            Self::CutOff { offset, said, there } => ComponentError::CutOff { offset, said, there },
            Self::Invalid { message, offset } => ComponentError::Invalid { message, offset },
            Self::Feature { message } => ComponentError::Feature { message },
            Self::Async { name } => ComponentError::Async { name },
        }
    }
}

/// The first bytes of each answer.
const MAGIC: &[u8; 8] = b"compile1";
/// The length of the head: magic, sandbox status, kind, and the length of the payload as eight bytes in little-endian
/// order.
const ANSWER_HEAD: usize = MAGIC.len() + 2 + 8;

const VALID: u8 = 0;
const CODE: u8 = 1;
const REFUSED: u8 = 2;
const FAILED: u8 = 3;
/// The length of the code as eight bytes in little-endian order, the code, then functions.
const CODE_AND_FUNCTIONS: u8 = 4;

/// Returns the maximum length of an answer whose code has at most so many bytes.
pub fn most_answer_bytes(code_bytes: usize, has_functions: bool) -> usize {
    let functions = if has_functions { size_of::<u64>() + limits::KEPT_FUNCTIONS_BYTES } else { 0 };
    code_bytes.saturating_add(ANSWER_HEAD + functions)
}

impl CompileResponse {
    pub fn write(&self, walls: CompileSandboxStatus, to: &mut dyn Write) -> io::Result<()> {
        let json;
        let length;
        let (kind, payload): (u8, Vec<&[u8]>) = match self {
            Self::Valid => (VALID, Vec::new()),
            Self::Code(CompiledCode { code, functions: None }) => (CODE, vec![code.as_slice()]),
            Self::Code(CompiledCode { code, functions: Some(functions) }) => {
                length = (code.len() as u64).to_le_bytes();
                (CODE_AND_FUNCTIONS, vec![length.as_slice(), code.as_slice(), functions.as_slice()])
            }
            Self::Refused(refusal) => {
                json = serde_json::to_vec(refusal)?;
                (REFUSED, vec![json.as_slice()])
            }
            Self::Failed(message) => (FAILED, vec![message.as_bytes()]),
        };
        let bytes: usize = payload.iter().map(|part| part.len()).sum();
        to.write_all(MAGIC)?;
        to.write_all(&[walls.to_bits(), kind])?;
        to.write_all(&(bytes as u64).to_le_bytes())?;
        payload.iter().try_for_each(|part| to.write_all(part))?;
        to.flush()
    }

    /// Parses the whole output of a child. Returns `None` if it is anything but one complete answer.
    pub fn parse(mut bytes: Vec<u8>) -> Option<(Self, CompileSandboxStatus)> {
        let (head, payload) = bytes.split_first_chunk::<ANSWER_HEAD>()?;
        let (walls, kind, length) = match head.strip_prefix(MAGIC)? {
            [walls, kind, length @ ..] => (*walls, *kind, u64::from_le_bytes(length.try_into().ok()?)),
            _ => return None,
        };
        let is_code = matches!(kind, CODE | CODE_AND_FUNCTIONS);
        if payload.len() as u64 != length || !is_code && payload.len() > limits::COMPILE_MESSAGE_BYTES {
            return None;
        }
        let answer = match kind {
            VALID if payload.is_empty() => Self::Valid,
            CODE if !payload.is_empty() => {
                Self::Code(CompiledCode { code: bytes.split_off(ANSWER_HEAD), functions: None })
            }
            CODE_AND_FUNCTIONS => {
                let (length, parts) = payload.split_first_chunk::<{ size_of::<u64>() }>()?;
                let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
                let (code, functions) = parts.split_at_checked(length).filter(|(code, _)| !code.is_empty())?;
                Self::Code(CompiledCode { code: code.to_vec(), functions: Some(functions.to_vec()) })
            }
            REFUSED => Self::Refused(serde_json::from_slice(payload).ok()?),
            FAILED => Self::Failed(String::from_utf8(payload.to_vec()).ok()?),
            _ => return None,
        };
        Some((answer, CompileSandboxStatus::from_bits(walls)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALLS: CompileSandboxStatus = CompileSandboxStatus { limits: true, files: false, calls: true };

    fn written(answer: &CompileResponse) -> Vec<u8> {
        let mut bytes = Vec::new();
        answer.write(WALLS, &mut bytes).unwrap();
        bytes
    }

    fn answers() -> Vec<CompileResponse> {
        vec![
            CompileResponse::Valid,
            CompileResponse::Code(CompiledCode { code: b"code".to_vec(), functions: None }),
            CompileResponse::Code(CompiledCode { code: b"code".to_vec(), functions: Some(b"functions".to_vec()) }),
            CompileResponse::Code(CompiledCode { code: b"code".to_vec(), functions: Some(Vec::new()) }),
            CompileResponse::Failed("no".into()),
            CompileResponse::Refused(ComponentValidationError::CutOff { offset: 1, said: 2, there: 3 }),
            CompileResponse::Refused(ComponentValidationError::Invalid { message: "m".into(), offset: 1 }),
            CompileResponse::Refused(ComponentValidationError::Feature { message: "m".into() }),
            CompileResponse::Refused(ComponentValidationError::Async { name: "f".into() }),
        ]
    }

    #[test]
    fn compile_response_round_trips() {
        for answer in answers() {
            let bytes = written(&answer);
            assert_eq!(CompileResponse::parse(bytes), Some((answer, WALLS)));
        }
    }

    #[test]
    fn longest_answer_has_room_for_code_and_functions() {
        let answer = |functions: Option<usize>| {
            let functions = functions.map(|length| vec![1; length]);
            written(&CompileResponse::Code(CompiledCode { code: vec![1; 5], functions })).len()
        };
        assert_eq!(most_answer_bytes(5, false), answer(None));
        assert_eq!(most_answer_bytes(5, true), answer(Some(3)) - 3 + limits::KEPT_FUNCTIONS_BYTES);
    }

    #[test]
    fn compile_response_with_wrong_length_is_refused() {
        for answer in answers() {
            let bytes = written(&answer);
            for end in 0..bytes.len() {
                assert_eq!(CompileResponse::parse(bytes[..end].to_vec()), None, "{answer:?} to {end}");
            }
            assert_eq!(CompileResponse::parse([bytes, vec![0]].concat()), None, "{answer:?} and one more");
        }
    }

    #[test]
    fn compile_response_of_unknown_kind_is_refused() {
        let head =
            |kind: u8, payload: &[u8]| [MAGIC, &[0, kind][..], &(payload.len() as u64).to_le_bytes(), payload].concat();
        assert!(
            CompileResponse::parse(head(VALID, b"")).is_some() && CompileResponse::parse(head(FAILED, b"m")).is_some()
        );
        let long = vec![b'm'; limits::COMPILE_MESSAGE_BYTES + 1];
        assert!(CompileResponse::parse(head(FAILED, &long[1..])).is_some());
        for (kind, payload) in [
            (VALID, &b"x"[..]),
            (CODE, b""),
            (REFUSED, b"{}"),
            (FAILED, b"\xff"),
            (FAILED, &long),
            (CODE_AND_FUNCTIONS, b""),
            (CODE_AND_FUNCTIONS, b"\0\0\0\0\0\0\0\0functions"),
            (CODE_AND_FUNCTIONS, b"\x05\0\0\0\0\0\0\0code"),
            (CODE_AND_FUNCTIONS, b"\xff\xff\xff\xff\xff\xff\xff\xffcode"),
            (5, b""),
            (255, b"x"),
        ] {
            assert_eq!(CompileResponse::parse(head(kind, payload)), None, "{kind}");
        }
        let mut other = head(VALID, b"");
        other[7] = b'2';
        assert_eq!(CompileResponse::parse(other), None);
    }

    #[test]
    fn compile_request_is_read_whole_or_refused() {
        let component = &b"component"[..];
        let request = |functions| CompileRequest {
            step: CompileStep::Compile,
            layout: MemoryLayout::OnDemand,
            component,
            functions,
        };
        for functions in [None, Some(&b""[..]), Some(&b"functions"[..])] {
            let bytes = request(functions).to_bytes();
            let expected = ReceivedRequest {
                step: CompileStep::Compile,
                layout: MemoryLayout::OnDemand,
                component: component.to_vec(),
                functions: functions.map(<[u8]>::to_vec),
            };
            assert_eq!(read_request(&mut &*bytes).unwrap(), expected);
            for end in 0..bytes.len() {
                assert!(read_request(&mut &bytes[..end]).is_err(), "{functions:?} to {end}");
            }
        }
        let bytes = request(Some(&b"functions"[..])).to_bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            bytes
        };
        // An unknown step, layout and use of functions, functions that nobody uses, and impossible lengths.
        for (at, byte) in [(0, 2), (1, 2), (2, 2), (2, 0), (10, 0xff), (18, 0xff)] {
            let error = read_request(&mut &*with(at, byte)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{at}");
        }
        let too_many = (limits::KEPT_FUNCTIONS_BYTES as u64 + 1).to_le_bytes();
        let beyond = [&bytes[..11], &too_many, &bytes[CompileRequest::HEAD..]].concat();
        assert_eq!(read_request(&mut &*beyond).unwrap_err().to_string(), "the functions are too long");
    }

    #[test]
    fn only_validator_errors_become_refusals() {
        let error = ComponentError::Async { name: "f".repeat(limits::NAME_SHOWN_CHARS + 9) };
        let refusal = ComponentValidationError::of(error).unwrap();
        let shown = "f".repeat(limits::NAME_SHOWN_CHARS) + "…";
        assert_eq!(refusal.into_component_error(), ComponentError::Async { name: shown });
        assert_eq!(ComponentValidationError::of(ComponentError::NoKind), None);
    }
}
