//! Multiplies the structure of components: a part is repeated up to a thousand times, inside itself or beside itself. Most
//! of the results are as valid as the input; the rest is refused at some depth.

/// Bytes of the largest component that is made: more only takes longer to be counted.
const MADE_BYTES: usize = 4 << 20;
/// Components in one another that are followed.
const DEPTH: usize = 40;

const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;
const INSTANCE: u8 = 5;
const LAYER: usize = 6;
const FUNCTION: u8 = 3;
const CODE: u8 = 10;

/// Decisions: from the first byte on, and nothing but zeros at their end.
pub struct Decisions<'a>(pub &'a [u8]);

impl Decisions<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number below `most`, which is at least 1.
    pub fn below(&mut self, most: usize) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()])) % most
    }

    /// Returns a number of repetitions for something of so many bytes: up to some ten thousand, a few as a rule.
    fn times(&mut self, bytes: usize) -> usize {
        let times = 2 + (usize::from(self.byte()) << (self.byte() % 9));
        times.min(MADE_BYTES / bytes.max(1)).max(1)
    }
}

/// A module or component: its header and its sections.
#[derive(Clone)]
struct Binary {
    header: [u8; 8],
    sections: Vec<Section>,
}

#[derive(Clone)]
struct Section {
    id: u8,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Bytes(Vec<u8>),
    Inner(Binary),
}

impl Binary {
    fn read(bytes: &[u8], depth: usize) -> Option<Self> {
        let (header, mut rest) = bytes.split_first_chunk::<8>()?;
        let is_component = header[LAYER] != 0;
        let mut sections = Vec::new();
        while let Some((id, after)) = rest.split_first() {
            let (length, digits) = number(after)?;
            let content = after.get(digits..digits.checked_add(length)?)?;
            rest = &after[digits + length..];
            let inner = (is_component && [CORE_MODULE, COMPONENT].contains(id) && depth < DEPTH)
                .then(|| Self::read(content, depth + 1))
                .flatten();
            let content = inner.map_or_else(|| Content::Bytes(content.to_vec()), Content::Inner);
            sections.push(Section { id: *id, content });
        }
        Some(Self { header: *header, sections })
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = self.header.to_vec();
        for section in &self.sections {
            let content = section.content();
            bytes.push(section.id);
            bytes.extend(digits(content.len()));
            bytes.extend(content);
        }
        bytes
    }

    fn is_component(&self) -> bool {
        self.header[LAYER] != 0
    }

    /// A part of it that is chosen: itself, or one of the modules and components in it.
    fn part(&mut self, decisions: &mut Decisions<'_>) -> &mut Self {
        let inner =
            self.sections.iter().enumerate().filter(|(_, section)| matches!(section.content, Content::Inner(_)));
        let inner: Vec<_> = inner.map(|(at, _)| at).collect();
        let Some(at) = inner.get(decisions.below(inner.len() + 1)).copied() else { return self };
        let Content::Inner(inner) = &mut self.sections[at].content else { unreachable!("only those can be chosen") };
        inner.part(decisions)
    }

    fn section(&mut self, id: u8) -> Option<&mut Vec<u8>> {
        self.sections.iter_mut().find_map(|section| match &mut section.content {
            Content::Bytes(bytes) if section.id == id => Some(bytes),
            _ => None,
        })
    }
}

impl Section {
    fn content(&self) -> Vec<u8> {
        match &self.content {
            Content::Bytes(bytes) => bytes.clone(),
            Content::Inner(inner) => inner.write(),
        }
    }

    fn bytes(id: u8, bytes: Vec<u8>) -> Self {
        Self { id, content: Content::Bytes(bytes) }
    }
}

/// A number in seven bits a byte, and the bytes that it takes.
fn number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        number |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

fn digits(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let more = number > 0x7f;
        bytes.push((number & 0x7f) as u8 | if more { 0x80 } else { 0 });
        number >>= 7;
        if !more {
            return bytes;
        }
    }
}

/// The items of a section that begins with their number, so many times.
fn repeated_items(section: &[u8], times: usize) -> Option<Vec<u8>> {
    let (count, at) = number(section)?;
    Some([digits(count.checked_mul(times)?), section[at..].repeat(times)].concat())
}

/// A component with some of its structure multiplied, as the decisions say; `None` if the seed is no binary.
pub fn multiplied(seed: &[u8], decisions: &mut Decisions<'_>) -> Option<Vec<u8>> {
    let mut binary = Binary::read(seed, 0)?;
    for _ in 0..=decisions.below(3) {
        if binary.write().len() > MADE_BYTES {
            break;
        }
        match decisions.below(4) {
            0 => within_one_another(&mut binary, decisions),
            _ => multiply(binary.part(decisions), decisions),
        }
    }
    Some(binary.write()).filter(|bytes| bytes.len() <= 2 * MADE_BYTES)
}

fn multiply(binary: &mut Binary, decisions: &mut Decisions<'_>) {
    let at = decisions.below(binary.sections.len().max(1));
    let Some(section) = binary.sections.get(at).cloned() else { return };
    let bytes = section.content();
    match (decisions.below(if binary.is_component() { 4 } else { 8 }), &section.content) {
        // The section itself.
        (0, _) => {
            let again = vec![section; decisions.times(bytes.len())];
            drop(binary.sections.splice(at..at, again));
        }
        // Its items.
        (1 | 2, Content::Bytes(_)) => {
            let times = decisions.times(bytes.len());
            if let Some(items) = repeated_items(&bytes, times) {
                binary.sections[at] = Section::bytes(section.id, items);
            }
        }
        // Instances of some component, each of which makes all that it holds.
        (3, _) if binary.is_component() => {
            let (times, of) = (decisions.times(3), decisions.below(4));
            let items = [&[0], &digits(of)[..], &[0]].concat().repeat(times);
            binary.sections.push(Section::bytes(INSTANCE, [digits(times), items].concat()));
        }
        // Functions with their bodies.
        (3, _) => {
            let sizes = [FUNCTION, CODE].map(|id| binary.section(id).map_or(0, |bytes| bytes.len()));
            let times = decisions.times(sizes[0] + sizes[1]);
            for id in [FUNCTION, CODE] {
                let Some(bytes) = binary.section(id) else { continue };
                if let Some(items) = repeated_items(bytes, times) {
                    *bytes = items;
                }
            }
        }
        // What stands in one function.
        (4.., _) => {
            if let Some(code) = binary.section(CODE)
                && let Some(multiplied) = multiplied_body(code, decisions)
            {
                *code = multiplied;
            }
        }
        _ => {}
    }
}

/// The component in so many others, each of which makes an instance or two of the one in it.
fn within_one_another(binary: &mut Binary, decisions: &mut Decisions<'_>) {
    let twice = decisions.below(2) == 0;
    for _ in 0..2 + decisions.below(DEPTH) {
        let header = binary.header;
        let inner = std::mem::replace(binary, Binary { header, sections: vec![] });
        binary.sections.push(Section { id: COMPONENT, content: Content::Inner(inner) });
        let instances: &[u8] = if twice { &[2, 0, 0, 0, 0, 0, 0] } else { &[1, 0, 0, 0] };
        binary.sections.push(Section::bytes(INSTANCE, instances.to_vec()));
    }
}

/// Code in which the first body that is chosen has more locals, more blocks around it, or its instructions many times.
fn multiplied_body(code: &[u8], decisions: &mut Decisions<'_>) -> Option<Vec<u8>> {
    const I64: u8 = 0x7e;
    const BLOCK: [u8; 2] = [0x02, 0x40];
    const LOOP: [u8; 2] = [0x03, 0x40];
    const END: u8 = 0x0b;
    let (count, mut at) = number(code)?;
    for _ in 0..decisions.below(count.max(1)) {
        let (length, digits) = number(&code[at..])?;
        at = at.checked_add(digits + length).filter(|at| *at < code.len())?;
    }
    let (length, own) = number(&code[at..])?;
    let body = code.get(at + own..at + own + length)?;
    let (groups, mut locals) = number(body)?;
    for _ in 0..groups {
        // A number and a type, which mostly is one byte.
        locals += number(body.get(locals..)?)?.1 + 1;
    }
    let instructions = body.get(locals..body.len().checked_sub(1)?)?;
    let body = match decisions.below(4) {
        0 => {
            let group = [digits(decisions.below(65_536)), vec![I64]].concat();
            [digits(groups + 1), group, body[number(body)?.1..].to_vec()].concat()
        }
        kind => {
            let times = decisions.times(instructions.len().max(3));
            let instructions = match kind {
                1 => instructions.repeat(times),
                2 => [&BLOCK.repeat(times), instructions, &[END].repeat(times)].concat(),
                _ => [&LOOP.repeat(times), instructions, &[END].repeat(times)].concat(),
            };
            [&body[..locals], &instructions, &[END]].concat()
        }
    };
    Some([&code[..at], &digits(body.len()), &body, &code[at + own + length..]].concat())
}
