//! Plugins made of text: functions of a core module in a few lines, wrapped in a version of the contract.

use std::fmt::Write;

use shelly_host::{conformance::component_of, plugin::ContractVersion};

/// A plugin whose functions answer politely, until told otherwise.
pub struct Guest {
    kinds: &'static [&'static str],
    imports: String,
    functions: Vec<Function>,
    extra: String,
    realloc: String,
    image: Image,
    pages: u32,
    contract: ContractVersion,
}

struct Function {
    kind: &'static str,
    name: &'static str,
    parameters: &'static str,
    body: String,
    answer: u32,
}

/// Every exported function of the kinds that are tested, with its core parameters.
const FUNCTIONS: [(&str, &str, &str); 11] = [
    ("tool", "specs", ""),
    ("tool", "call", "i32 i32 i32 i32 i32 i32 i32 i32"),
    ("effect", "eval", "i32"),
    ("run-middleware", "before", "i32 i32 i32 i32 i32 i32 i32"),
    ("run-middleware", "after", "i32"),
    ("model-middleware", "before", "i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32"),
    ("model-middleware", "after", "i32"),
    ("tool-middleware", "before", "i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32"),
    ("tool-middleware", "after", "i32"),
    ("provider", "complete", "i32"),
    ("coordinator", "next", "i32"),
];

/// Imports as a core module writes them.
pub const LOG: &str = r#"(import "shelly:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;
pub const PROGRESS: &str =
    r#"(import "shelly:plugin/progress@0.1.0" "report" (func $progress (param f64 i32 f64 i32 i32 i32)))"#;
pub const CLOCK: &str = r#"(import "shelly:plugin/clock@0.1.0" "now" (func $now (result i64)))"#;
pub const RANDOM: &str = r#"(import "shelly:plugin/random@0.1.0" "bytes" (func $random (param i32 i32)))"#;
pub const CHAT: &str = r#"
    (import "shelly:plugin/chat@0.1.0" "entries" (func $entries (param i32 i32 i32)))
    (import "shelly:plugin/chat@0.1.0" "read" (func $read (param i32 i32 i32)))"#;
pub const SINK: &str = r#"(import "shelly:plugin/sink@0.1.0" "emit" (func $emit (param i32 i64 i64 i64 i64)))"#;
pub const KV: &str = r#"
    (import "shelly:plugin/kv@0.1.0" "get" (func $get (param i32 i32 i32)))
    (import "shelly:plugin/kv@0.1.0" "set" (func $set (param i32 i32 i32 i32 i32 i32)))
    (import "shelly:plugin/kv@0.1.0" "keys" (func $keys (param i32 i32 i32 i32 i32 i32)))"#;
pub const PROCESS: &str = r#"
    (import "shelly:plugin/process@0.1.0" "run" (func $run (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#;
pub const FILES: &str = r#"
    (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
      (func $open (param i32 i32 i32 i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.0" "[resource-drop]descriptor" (func $close (param i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.create-directory-at"
      (func $create-directory (param i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.remove-directory-at"
      (func $remove-directory (param i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.unlink-file-at"
      (func $unlink (param i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.rename-at"
      (func $rename (param i32 i32 i32 i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.link-at"
      (func $link (param i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.symlink-at"
      (func $symlink (param i32 i32 i32 i32 i32 i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.set-size"
      (func $set-size (param i32 i64 i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.read-directory" (func $list (param i32 i32)))
    (import "wasi:filesystem/types@0.2.0" "[resource-drop]directory-entry-stream" (func $drop-listing (param i32)))"#;

/// An unused address: functions may use it for the results of imports.
pub const SCRATCH: u32 = 16;

impl Guest {
    /// One of these kinds. A tool is called `t` and says `ok`, an effect edits nothing, a middleware lets pass, a model
    /// says `ok`, a coordinator ends its team with `ok`.
    pub fn of(kinds: &'static [&'static str]) -> Self {
        let mut image = Image { bytes: vec![] };
        let functions = FUNCTIONS.iter().filter(|(kind, ..)| kinds.contains(kind));
        let functions = functions.map(|&(kind, name, parameters)| {
            let answer = match name {
                "specs" => image.specs(&[Spec::default()]),
                "call" => image.reply("ok"),
                "eval" => image.step(&[], &[]),
                // Whatever is decided, the first case of it does nothing.
                "before" | "after" => image.words(&[0; 26]),
                "next" => {
                    let text = image.text("ok");
                    image.answer_of_a_team(text)
                }
                _ => {
                    let text = image.text("ok");
                    image.completion(text, [0; 2])
                }
            };
            Function { kind, name, parameters, body: String::new(), answer }
        });
        let functions = functions.collect();
        let (imports, extra, realloc) = (String::new(), String::new(), String::new());
        Self { kinds, imports, functions, extra, realloc, image, pages: 64, contract: ContractVersion::V0_1 }
    }

    /// For this version of the contract, in place of 0.1.
    pub fn of_version(self, contract: ContractVersion) -> Self {
        Self { contract, ..self }
    }

    /// A plugin with the tool `t`.
    pub fn tool() -> Self {
        Self::of(&["tool"])
    }

    /// With these imports.
    pub fn import(mut self, imports: &str) -> Self {
        self.imports.push_str(imports);
        self
    }

    /// With more fields in the module.
    pub fn with(mut self, fields: &str) -> Self {
        self.extra.push_str(fields);
        self
    }

    /// With a memory of so many pages.
    pub fn pages(mut self, pages: u32) -> Self {
        self.pages = pages;
        self
    }

    fn function(&mut self, name: &str) -> &mut Function {
        self.functions.iter_mut().find(|function| function.name == name).unwrap()
    }

    /// Runs this in the function, before it answers.
    pub fn on(mut self, name: &str, body: &str) -> Self {
        self.function(name).body.push_str(body);
        self
    }

    /// Runs this where memory is asked for, before it is given.
    pub fn on_realloc(mut self, body: &str) -> Self {
        self.realloc.push_str(body);
        self
    }

    /// Bytes of the values in its memory, from [`BASE`] on.
    pub fn image_bytes(&self) -> u32 {
        self.image.bytes.len() as u32
    }

    /// Answers this in the function.
    pub fn answer(mut self, name: &str, answer: impl FnOnce(&mut Image) -> u32) -> Self {
        self.function(name).answer = answer(&mut self.image);
        self
    }

    /// Runs this in a tool call whose arguments are not `{}`, so that the same plugin can be seen to work afterwards.
    pub fn attack(self, body: &str) -> Self {
        self.on("call", &format!("(if (i32.ne (local.get 5) (i32.const 2)) (then {body}))"))
    }

    /// Answers this in a tool call whose arguments are not `{}`.
    pub fn attack_with(mut self, answer: impl FnOnce(&mut Image) -> u32) -> Self {
        let answer = answer(&mut self.image);
        self.attack(&format!("(return (i32.const {answer}))"))
    }

    /// Puts a text into the memory: pointer and length, as two arguments.
    pub fn text(&mut self, text: &str) -> String {
        let [at, length] = self.image.text(text);
        format!("(i32.const {at}) (i32.const {length})")
    }

    /// The values in its memory.
    pub fn image(&mut self) -> &mut Image {
        &mut self.image
    }

    /// The component.
    pub fn component(&self) -> Vec<u8> {
        self.component_of(&self.module()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The component with the functions of this at the end of another module, which is text. It has a memory and whatever
    /// else there is; what it exports is not exported.
    pub fn component_around(&self, module: &str) -> Result<Vec<u8>, String> {
        let (module, _) = module.rsplit_once(')').ok_or("it is no text of a module")?;
        let fields = module.lines().filter(|line| !line.trim_start().starts_with("(export "));
        let fields = fields.collect::<Vec<_>>().join("\n");
        self.component_of(&format!("{fields}\n(export \"memory\" (memory 0))\n{})", self.fields()))
    }

    fn component_of(&self, module: &str) -> Result<Vec<u8>, String> {
        // Texts name version 0.1. The values that they hold are laid out in the same way in all versions.
        let module = module.replace("@0.1.0", &format!("@{}", self.contract));
        let module = wat::parse_str(module).map_err(|error| error.to_string())?;
        let kinds: Vec<_> = self.kinds.iter().map(|kind| kind.parse().unwrap()).collect();
        component_of(&module, &kinds, self.contract)
    }

    fn module(&self) -> String {
        let Self { imports, pages, .. } = self;
        format!("(module {imports} (memory (export \"memory\") {pages}) {})", self.fields())
    }

    /// All but the imports and the memory.
    fn fields(&self) -> String {
        let data: String = self.image.bytes.iter().fold(String::new(), |mut data, byte| {
            write!(data, "\\{byte:02x}").unwrap();
            data
        });
        let mut functions = String::new();
        for Function { kind, name, parameters, body, answer } in &self.functions {
            write!(
                functions,
                "(func (export \"shelly:plugin/{kind}@0.1.0#{name}\") (param {parameters}) (result i32)
                   (local $n i32) (local $x i32)
                   {body}
                   (i32.const {answer}))"
            )
            .unwrap();
        }
        let (extra, realloc) = (&self.extra, &self.realloc);
        let end = (BASE + self.image.bytes.len() as u32).next_multiple_of(8);
        format!(
            "(global $free (mut i32) (i32.const {end}))
             (data (i32.const {BASE}) \"{data}\")
             (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32)
               {realloc}
               (global.set $free (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
               (global.get $free)
               (global.set $free (i32.add (global.get $free) (local.get 3))))
             {extra} {functions}"
        )
    }
}

/// Repeats this so often.
pub fn times(count: u32, body: &str) -> String {
    format!(
        "(local.set $n (i32.const {count}))
         (loop $again {body} (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))"
    )
}

/// Values in a guest's memory, laid out as the contract's types are.
pub struct Image {
    bytes: Vec<u8>,
}

/// The address at which the values begin.
pub const BASE: u32 = 1024;

/// A tool as a guest describes it.
pub struct Spec {
    pub name: String,
    pub description: String,
    pub schema: String,
}

impl Default for Spec {
    fn default() -> Self {
        Self { name: "t".into(), description: "Does it.".into(), schema: r#"{"type":"object"}"#.into() }
    }
}

impl Image {
    fn put(&mut self, bytes: &[u8]) -> u32 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = BASE + self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        at
    }

    /// Words one after the other; where they are.
    pub fn words(&mut self, words: &[u32]) -> u32 {
        let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(&bytes)
    }

    /// A text: pointer and length.
    pub fn text(&mut self, text: &str) -> [u32; 2] {
        [self.put(text.as_bytes()), text.len() as u32]
    }

    /// A list of values of so many words each: pointer and length.
    pub fn list(&mut self, size: usize, values: &[Vec<u32>]) -> [u32; 2] {
        let mut words = Vec::new();
        for value in values {
            assert!(value.len() <= size);
            words.extend(value);
            words.resize(words.len() + size - value.len(), 0);
        }
        [self.words(&words), values.len() as u32]
    }

    /// The result of a tool call: these pieces, each a case of `content` and its words.
    pub fn contents(&mut self, pieces: &[Vec<u32>]) -> u32 {
        let [at, length] = self.list(12, pieces);
        self.words(&[0, 0, at, length])
    }

    /// The result of a tool call: a text.
    pub fn reply(&mut self, text: &str) -> u32 {
        let [at, length] = self.text(text);
        self.contents(&[vec![0, at, length]])
    }

    /// The result of a tool call: a text of so many zero bytes, taken from the end of the memory.
    pub fn long_reply(&mut self, bytes: u32) -> u32 {
        self.contents(&[vec![0, ZEROS, bytes]])
    }

    /// A failure: a case of `error` and its text. Fits whatever function fails.
    pub fn failure(&mut self, case: u32, [at, length]: [u32; 2]) -> u32 {
        self.words(&[1, 0, case, 0, at, length, 0, 0, 0, 0])
    }

    /// Returns the result of `specs`.
    pub fn specs(&mut self, specs: &[Spec]) -> u32 {
        let mut spec = |Spec { name, description, schema }: &Spec| {
            [name, description, schema].map(|text| self.text(text)).concat()
        };
        let specs: Vec<_> = specs.iter().map(&mut spec).collect();
        let [at, length] = self.list(12, &specs);
        self.words(&[0, 0, at, length])
    }

    /// Returns the result of `eval`: this state and these edits, each a case of `edit` and its words.
    pub fn step(&mut self, state: &[u8], edits: &[Vec<u32>]) -> u32 {
        let state = [self.put(state), state.len() as u32];
        let [at, length] = self.list(8, edits);
        self.step_of(state, [0, at, length, 0])
    }

    /// Returns the result of `eval` with the given state and first words of the action.
    pub fn step_of(&mut self, [state, length]: [u32; 2], action: [u32; 4]) -> u32 {
        let mut words = vec![0, 0, state, length];
        words.extend(action);
        words.resize(42, 0);
        self.words(&words)
    }

    /// A question to a model, as `eval` returns it.
    pub fn ask(&mut self) -> u32 {
        let mut words = vec![0; 42];
        words[4] = 1;
        self.words(&words)
    }

    /// The end of a team, as `next` returns it: with this text.
    pub fn answer_of_a_team(&mut self, [at, length]: [u32; 2]) -> u32 {
        let [at, count] = self.list(12, &[vec![0, at, length]]);
        let mut words = vec![0, 0, 0, 0, 1, 1, at, count];
        words.resize(42, 0);
        self.words(&words)
    }

    /// Returns the result of `complete`: a text, and a `meta`.
    pub fn completion(&mut self, [at, length]: [u32; 2], meta: [u32; 2]) -> u32 {
        let [parts, count] = self.list(9, &[vec![0, at, length]]);
        let mut words = vec![0; 20];
        (words[2], words[3]) = (parts, count);
        (words[18], words[19]) = (meta[0], meta[1]);
        self.words(&words)
    }

    /// Returns the result of `before` around a request: send this one in its place, with the message of a user that is this
    /// text; to this model, if one is named.
    pub fn pass(&mut self, model: Option<&str>, message: Option<&str>) -> u32 {
        let mut words = vec![0; 26];
        if let Some(model) = model {
            words[4..7].copy_from_slice(&[&[1][..], &self.text(model)].concat());
        }
        if let Some(message) = message {
            let [at, length] = self.text(message);
            let parts = self.list(9, &[vec![0, at, length]]);
            let messages = self.list(7, &[[&[0, 0, 1][..], &parts].concat()]);
            words[7..10].copy_from_slice(&[&[1][..], &messages].concat());
        }
        self.words(&words)
    }

    /// Returns the result of `before` and `after` around a request: this text in the place of the model's reply.
    pub fn reply_instead(&mut self, text: &str) -> u32 {
        let [at, length] = self.text(text);
        let parts = self.list(9, &[vec![0, at, length]]);
        let mut words = vec![0, 0, 1, 0, parts[0], parts[1]];
        words.resize(26, 0);
        self.words(&words)
    }

    /// Returns the result of `after` around a request: send it again, to this model if one is named, with so many bytes of
    /// state.
    pub fn again(&mut self, model: Option<&str>, state: u32) -> u32 {
        let model = model.map_or(vec![0, 0, 0], |model| [&[1][..], &self.text(model)].concat());
        self.words(&[&[0, 0, 3, 0][..], &model, &[0, 0, 0, ZEROS, state]].concat())
    }

    /// Returns the result of `before` around a call: a case of `verdict` and its words, and JSON in place of the arguments.
    pub fn decide(&mut self, verdict: &[u32], arguments: Option<&str>) -> u32 {
        let mut words = [&[0, 0][..], verdict].concat();
        words.resize(12, 0);
        if let Some(arguments) = arguments {
            words[7..10].copy_from_slice(&[&[1][..], &self.text(arguments)].concat());
        }
        self.words(&words)
    }

    /// Returns the result of `after` around a call: these pieces in place of its result.
    pub fn instead(&mut self, pieces: &[Vec<u32>]) -> u32 {
        let [at, length] = self.list(12, pieces);
        self.words(&[0, 0, 1, at, length])
    }

    /// Pairs of a key and a value.
    pub fn meta(&mut self, pairs: &[(String, String)]) -> [u32; 2] {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| [self.text(key), self.text(value)].concat()).collect();
        self.list(4, &pairs)
    }
}

/// An address behind all that tests put into a memory of the usual size; zero bytes are a text, too.
pub const ZEROS: u32 = 3 << 20;
