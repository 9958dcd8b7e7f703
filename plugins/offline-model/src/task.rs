//! The request in a task, as far as a few rules can recognize it.

/// A task: the things to examine, and what to find out about each.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Task {
    /// The files and folders that the task names, in order.
    pub paths: Vec<String>,
    /// The texts that the task quotes.
    pub quotes: Vec<String>,
    /// The parts of the task, each with one request.
    pub clauses: Vec<Clause>,
}

/// A single request.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Clause {
    /// The words of the clause, without paths and quotes.
    pub words: Vec<String>,
    /// The files and folders that the clause names itself.
    pub paths: Vec<String>,
    /// The texts that the clause quotes itself.
    pub quotes: Vec<String>,
    /// The stems that describe a suitable tool.
    pub keywords: Vec<String>,
    /// The stems that a suitable tool must know: the noun that is counted, or `longest`.
    pub required: Vec<String>,
    /// A superlative such as `longest`, `shortest` or `largest`, and the noun after it.
    pub superlative: Option<(String, String)>,
    /// The number that the clause names; `1` for "the longest line".
    pub number: Option<u64>,
    /// Set if the clause asks how many.
    pub counts: bool,
    /// Set if the clause asks for the names in a folder.
    pub lists: bool,
    /// Set if the clause asks for a text.
    pub shows: bool,
    /// Set if the clause asks where a quoted text is.
    pub searches: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Path(String),
    Quote(String),
    /// A comma or `and`, which may end a clause.
    Joint,
    /// The end of a sentence.
    Stop,
}

/// The words that begin a request.
#[rustfmt::skip]
const HEADS: &[&str] = &[
    "how", "what", "which", "who", "where", "list", "show", "count", "find", "tell", "give", "read", "print", "name",
    "report", "display", "open", "quote",
];

/// The words that ask for a text itself.
const SHOWS: &[&str] = &["show", "say", "read", "print", "display", "open", "quote", "contain", "content", "cat"];

/// The words that ask where a text is.
const SEARCHES: &[&str] = &["find", "search", "where", "grep", "contain", "mention", "occur", "look"];

/// The words for the entries of a folder.
const LISTED: &[&str] = &["file", "folder", "directory", "entry", "subfolder", "subdirectory"];

/// The words that do not help to choose a tool.
#[rustfmt::skip]
const FILLERS: &[&str] = &[
    "a", "about", "all", "also", "an", "and", "any", "are", "at", "be", "beginning", "both", "but", "by", "can",
    "could", "did", "do", "doe", "each", "every", "exactly", "file", "for", "from", "ha", "have", "her", "here", "hi",
    "his", "i", "in", "inside", "is", "it", "its", "just", "let", "many", "me", "much", "my", "named", "no", "of",
    "on", "or", "our", "out", "please", "several", "so", "some", "text", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "to", "together", "under", "us", "want", "was", "we", "were",
    "will", "with", "within", "would", "you", "your",
];

#[rustfmt::skip]
const NUMBERS: &[&str] = &[
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
];

/// Parses a task. A word that is the name of a tool is not a path.
pub(crate) fn parse(text: &str, tools: &[&str]) -> Task {
    let mut task = Task::default();
    let mut tokens = tokens(text);
    for token in &mut tokens {
        if let Token::Path(name) = token
            && tools.contains(&name.as_str())
        {
            *token = Token::Word(std::mem::take(name));
        }
    }
    for token in &tokens {
        match token {
            Token::Path(path) if !task.paths.contains(path) => task.paths.push(path.clone()),
            Token::Quote(quote) if !task.quotes.contains(quote) => task.quotes.push(quote.clone()),
            _ => {}
        }
    }
    task.clauses = split(&tokens).iter().map(|tokens| clause(tokens, !task.paths.is_empty())).collect();
    task
}

/// Returns a rough stem, which is the same for all forms of a word.
pub(crate) fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let stem = match word.as_str() {
        "char" | "chars" | "letter" | "letters" => "character",
        "dir" | "dirs" => "directory",
        "said" | "says" => "say",
        _ => match word.strip_suffix("ies") {
            Some(stem) if stem.len() > 1 => return format!("{stem}y"),
            _ if word.ends_with("ss") => &word,
            _ => word.strip_suffix('s').filter(|stem| stem.len() > 1).unwrap_or(&word),
        },
    };
    stem.to_owned()
}

/// Returns the stems of the words in a tool's name or description.
pub(crate) fn stems(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut lower_before = false;
    for c in text.chars() {
        // `readFile` is two words.
        if c.is_uppercase() && lower_before {
            spaced.push(' ');
        }
        lower_before = c.is_lowercase();
        spaced.push(if c.is_alphanumeric() { c } else { ' ' });
    }
    spaced.split_whitespace().map(stem).collect()
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((quote, after)) = quoted(rest) {
            tokens.push(match looks_like_path(quote) || (first == '`' && !quote.contains(' ')) {
                true => Token::Path(quote.to_owned()),
                false => Token::Quote(quote.to_owned()),
            });
            rest = after;
        } else if first.is_whitespace() {
            if first == '\n' {
                tokens.push(Token::Stop);
            }
            rest = &rest[first.len_utf8()..];
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            word(&rest[..end], &mut tokens);
            rest = &rest[end..];
        }
    }
    name_files(tokens)
}

/// Returns the text in quotes at the beginning of `text`, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let close = match text.chars().next()? {
        '"' => '"',
        '`' => '`',
        '\'' => '\'',
        '“' => '”',
        _ => return None,
    };
    let inner = &text[text.chars().next()?.len_utf8()..];
    let (quote, after) = inner.split_once(close)?;
    (!quote.trim().is_empty()).then_some((quote, after))
}

fn word(raw: &str, tokens: &mut Vec<Token>) {
    let begin = raw.trim_start_matches(['(', '[', '{', '<', '*', '"', '\'', '`']);
    let mut core = begin.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '/' && c != '_');
    let tail = &begin[core.len()..];
    core = core.strip_suffix("'s").or(core.strip_suffix("’s")).unwrap_or(core);
    if looks_like_path(core) {
        tokens.push(Token::Path(core.to_owned()));
    } else if core.eq_ignore_ascii_case("and") || core.eq_ignore_ascii_case("then") || core == "&" {
        tokens.push(Token::Joint);
    } else if !core.is_empty() {
        tokens.push(Token::Word(core.to_owned()));
    }
    if tail.contains(['?', '!', ';', '.', ':']) {
        tokens.push(Token::Stop);
    } else if tail.contains(',') {
        tokens.push(Token::Joint);
    }
}

fn looks_like_path(text: &str) -> bool {
    let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or("");
    let extension = name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let short = (1..=8).contains(&extension.len()) || stem.is_empty();
        let plain =
            extension.chars().all(|c| c.is_ascii_alphanumeric()) && extension.chars().any(|c| !c.is_ascii_digit());
        // `e.g` and `3.5` are not files; `.gitignore` is one.
        short && plain && (stem.len() != 1 || extension.len() != 1)
    });
    let slash = text.contains('/') && text.chars().any(char::is_alphanumeric);
    !text.contains("://") && text.len() <= 400 && (extension || slash && !text.contains(char::is_whitespace))
}

/// Recognizes a capitalized name as a file where one is expected: `in LICENSE`, `does Makefile say`, `the README`.
fn name_files(mut tokens: Vec<Token>) -> Vec<Token> {
    for index in 1..tokens.len() {
        let [Token::Word(before), Token::Word(word)] = &tokens[index - 1..=index] else { continue };
        let shouted = word.len() > 2 && word.chars().all(|c| c.is_uppercase());
        let begins_large = word.len() > 1 && word.starts_with(|c: char| c.is_uppercase());
        let before = before.to_lowercase();
        let expected = ["in", "of", "does", "file", "read", "show", "open", "print"].contains(&before.as_str());
        if expected && begins_large || before == "the" && shouted {
            tokens[index] = Token::Path(word.clone());
        }
    }
    tokens
}

/// Finds the name of a folder: `in src`, `in the src folder`, `of folder src`.
fn folder(tokens: &[Token]) -> Option<String> {
    let words: Vec<&str> = tokens.iter().map(|token| if let Token::Word(word) = token { word } else { "" }).collect();
    let start = words.iter().rposition(|word| ["in", "inside", "of", "under", "from", "list", "ls"].contains(word))?;
    let name = words[start + 1..].iter().find(|word| !["the", "folder", "directory", "a", "my"].contains(word))?;
    let vague = ["", "this", "here", "there", "it", "current", "file", "files", "all", "folders", "top", "root"];
    (!vague.contains(name)).then(|| (*name).to_owned())
}

/// Splits tokens into clauses. A part without a word that begins a request belongs to the part before it: "how many words
/// and lines".
fn split(tokens: &[Token]) -> Vec<Vec<Token>> {
    let mut clauses: Vec<Vec<Token>> = Vec::new();
    for part in tokens.split(|token| matches!(token, Token::Joint | Token::Stop)) {
        let begins =
            words(part).iter().any(|word| HEADS.contains(&word.to_lowercase().as_str()) || is_superlative(word));
        match clauses.last_mut() {
            Some(before) if !begins => before.extend_from_slice(part),
            _ => clauses.push(part.to_vec()),
        }
    }
    clauses.retain(|clause| !words(clause).is_empty());
    clauses
}

fn words(tokens: &[Token]) -> Vec<String> {
    tokens.iter().filter_map(|token| if let Token::Word(word) = token { Some(word.clone()) } else { None }).collect()
}

fn is_superlative(word: &str) -> bool {
    let word = word.to_lowercase();
    word.len() > 5 && word.ends_with("est") && !["request", "interest", "suggest", "latest"].contains(&word.as_str())
}

/// Interprets a clause. `has_path` is set if the task names a file or folder anywhere.
fn clause(tokens: &[Token], has_path: bool) -> Clause {
    let words = words(tokens);
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let stems: Vec<String> = lower.iter().map(|word| stem(word)).collect();
    let paths = tokens.iter().filter_map(|token| if let Token::Path(path) = token { Some(path.clone()) } else { None });
    let mut clause = Clause { words, paths: paths.collect(), ..Clause::default() };

    // The noun that is counted.
    let pair = |a: &str, b: &str| lower.windows(2).position(|two| two[0] == a && two[1] == b).map(|at| at + 2);
    let counted =
        pair("how", "many").or(pair("number", "of")).or(stems.iter().position(|s| s == "count").map(|at| at + 1));
    if let Some(start) = counted {
        clause.counts = true;
        let number_of = |stem: &&String| !FILLERS.contains(&stem.as_str()) || LISTED.contains(&stem.as_str());
        clause.required.extend(stems[start..].iter().find(number_of).cloned());
    }

    if let Some(at) = lower.iter().position(|word| is_superlative(word)) {
        // Both word orders occur: "The longest lines", "which lines are longest".
        let is_noun = |word: &&String| {
            !FILLERS.contains(&stem(word).as_str()) && !HEADS.contains(&word.as_str()) && number(word).is_none()
        };
        let noun = lower.get(at + 1).or(lower[..at].iter().find(is_noun)).cloned().unwrap_or_default();
        clause.required.push(lower[at].clone());
        // A singular noun asks for one: "The longest line".
        let singular = !noun.is_empty() && !noun.ends_with('s');
        clause.number = singular.then_some(1);
        clause.superlative = Some((lower[at].clone(), noun));
    }
    clause.number = lower.iter().find_map(|word| number(word)).or(clause.number);

    let asks_about_folder = stems.iter().any(|stem| LISTED.contains(&stem.as_str()) && stem != "file")
        || lower.iter().any(|word| word == "files" || word == "list" || word == "ls");
    let counts_text = clause.counts && !clause.required.iter().any(|stem| LISTED.contains(&stem.as_str()));
    clause.lists = asks_about_folder && clause.superlative.is_none() && !counts_text;
    // Only a question such as "What files are in src?" names a folder by a bare word.
    if clause.lists && clause.paths.is_empty() {
        clause.paths.extend(folder(tokens));
    }

    clause.keywords = stems
        .iter()
        .filter(|stem| !FILLERS.contains(&stem.as_str()) && !HEADS.contains(&stem.as_str()))
        .filter(|stem| !SHOWS.contains(&stem.as_str()) && number(stem).is_none() && *stem != "number")
        .cloned()
        .collect();
    if clause.counts {
        clause.keywords.push("count".into());
    }
    let shows = stems.iter().any(|stem| SHOWS.contains(&stem.as_str()));
    let about_nothing_else = clause.keywords.is_empty() && stems.iter().any(|stem| HEADS.contains(&stem.as_str()));
    clause.shows = has_path && !clause.lists && (shows || about_nothing_else) && clause.superlative.is_none();
    let quotes =
        tokens.iter().filter_map(|token| if let Token::Quote(quote) = token { Some(quote.clone()) } else { None });
    clause.quotes = quotes.collect();
    clause.searches = !clause.quotes.is_empty()
        && !clause.counts
        && clause.superlative.is_none()
        && stems.iter().any(|stem| SEARCHES.contains(&stem.as_str()));
    clause
}

fn number(word: &str) -> Option<u64> {
    let spelled = NUMBERS.iter().position(|name| *name == word).map(|value| value as u64);
    spelled.or(word.parse().ok())
}
