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
}

impl CompileRequest<'_> {
    /// The length of the head: step, layout, and the length of the component as eight bytes in little-endian order.
    const HEAD: usize = 10;

    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::HEAD + self.component.len());
        bytes.push(match self.step {
            CompileStep::Validate => 0,
            CompileStep::Compile => 1,
        });
        bytes.push(match self.layout {
            MemoryLayout::Pooled => 0,
            MemoryLayout::OnDemand => 1,
        });
        bytes.extend((self.component.len() as u64).to_le_bytes());
        bytes.extend(self.component);
        bytes
    }
}

/// Reads a whole request. The component may be at most [`limits::COMPONENT_BYTES`] long.
pub fn read_request(from: &mut dyn Read) -> io::Result<(CompileStep, MemoryLayout, Vec<u8>)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut head = [0; CompileRequest::HEAD];
    from.read_exact(&mut head)?;
    let [step, layout, length @ ..] = head;
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
    let length = u64::from_le_bytes(length);
    if length > limits::COMPONENT_BYTES {
        return Err(wrong("the component is too long"));
    }
    let mut component = Vec::new();
    from.take(length).read_to_end(&mut component)?;
    if component.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((step, layout, component))
}

/// The child's answer to a [`CompileRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileResponse {
    /// The component is valid.
    Valid,
    /// The component is valid, and this is its code.
    Code(Vec<u8>),
    /// The component is not valid.
    Refused(ComponentValidationError),
    /// The compiler rejects the component.
    Failed(String),
}

/// The cases of [`ComponentError`] that only a validator finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComponentValidationError {
    CutOff { offset: usize, said: usize, there: usize },
    Invalid { message: String, offset: usize },
    Feature { message: String },
    Async { functions: Vec<String> },
}

impl ComponentValidationError {
    /// Converts an error; `None` for one that needs no validator, which the parent finds by itself.
    pub fn of(error: ComponentError) -> Option<Self> {
        Some(match error {
            ComponentError::CutOff { offset, said, there } => Self::CutOff { offset, said, there },
            ComponentError::Invalid { message, offset } => Self::Invalid { message, offset },
            ComponentError::Feature { message } => Self::Feature { message },
            ComponentError::Async { mut functions } => {
                // Keep one more than is shown, which tells the parent that there are more.
                functions.truncate(limits::NAMES_SHOWN + 1);
                let shown = |name: &String| cut(name, limits::NAME_SHOWN_CHARS);
                Self::Async { functions: functions.iter().map(shown).collect() }
            }
            _ => return None,
        })
    }

    pub fn into_component_error(self) -> ComponentError {
        match self {
            Self::CutOff { offset, said, there } => ComponentError::CutOff { offset, said, there },
            Self::Invalid { message, offset } => ComponentError::Invalid { message, offset },
            Self::Feature { message } => ComponentError::Feature { message },
            Self::Async { functions } => ComponentError::Async { functions },
        }
    }
}

/// The first bytes of each answer.
const MAGIC: &[u8; 8] = b"compile1";
/// The length of the head: magic, sandbox status, kind, and the length of the payload as eight bytes in little-endian
/// order.
pub const ANSWER_HEAD: usize = MAGIC.len() + 2 + 8;

const VALID: u8 = 0;
const CODE: u8 = 1;
const REFUSED: u8 = 2;
const FAILED: u8 = 3;

impl CompileResponse {
    pub fn write(&self, walls: CompileSandboxStatus, to: &mut dyn Write) -> io::Result<()> {
        let json;
        let (kind, payload) = match self {
            Self::Valid => (VALID, &[][..]),
            Self::Code(code) => (CODE, &**code),
            Self::Refused(refusal) => {
                json = serde_json::to_vec(refusal)?;
                (REFUSED, &*json)
            }
            Self::Failed(message) => (FAILED, message.as_bytes()),
        };
        to.write_all(MAGIC)?;
        to.write_all(&[walls.to_bits(), kind])?;
        to.write_all(&(payload.len() as u64).to_le_bytes())?;
        to.write_all(payload)?;
        to.flush()
    }

    /// Parses the whole output of a child. Returns `None` if it is anything but one complete answer.
    pub fn parse(mut bytes: Vec<u8>) -> Option<(Self, CompileSandboxStatus)> {
        let (head, payload) = bytes.split_first_chunk::<ANSWER_HEAD>()?;
        let (walls, kind, length) = match head.strip_prefix(MAGIC)? {
            [walls, kind, length @ ..] => (*walls, *kind, u64::from_le_bytes(length.try_into().ok()?)),
            _ => return None,
        };
        if payload.len() as u64 != length || kind != CODE && payload.len() > limits::COMPILE_MESSAGE_BYTES {
            return None;
        }
        let answer = match kind {
            VALID if payload.is_empty() => Self::Valid,
            CODE if !payload.is_empty() => Self::Code(bytes.split_off(ANSWER_HEAD)),
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
            CompileResponse::Code(b"code".to_vec()),
            CompileResponse::Failed("no".into()),
            CompileResponse::Refused(ComponentValidationError::CutOff { offset: 1, said: 2, there: 3 }),
            CompileResponse::Refused(ComponentValidationError::Invalid { message: "m".into(), offset: 1 }),
            CompileResponse::Refused(ComponentValidationError::Feature { message: "m".into() }),
            CompileResponse::Refused(ComponentValidationError::Async { functions: vec!["f".into()] }),
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
            (4, b""),
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
        let request =
            CompileRequest { step: CompileStep::Compile, layout: MemoryLayout::OnDemand, component: b"component" };
        let bytes = request.to_bytes();
        let read = read_request(&mut &*bytes).unwrap();
        assert_eq!(read, (CompileStep::Compile, MemoryLayout::OnDemand, b"component".to_vec()));
        for end in 0..bytes.len() {
            assert!(read_request(&mut &bytes[..end]).is_err(), "{end}");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            bytes
        };
        // An unknown step, an unknown layout, and an impossible length.
        for (at, byte) in [(0, 2), (1, 2), (9, 0xff)] {
            let error = read_request(&mut &*with(at, byte)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{at}");
        }
    }

    #[test]
    fn only_validator_errors_become_refusals() {
        let error = ComponentError::Async { functions: vec!["f".into(); limits::NAMES_SHOWN + 9] };
        let refusal = ComponentValidationError::of(error).unwrap();
        assert_eq!(
            refusal.into_component_error(),
            ComponentError::Async { functions: vec!["f".into(); limits::NAMES_SHOWN + 1] }
        );
        assert_eq!(ComponentValidationError::of(ComponentError::NoKind), None);
    }
}
