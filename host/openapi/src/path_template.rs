//! Paths of operations, with parameters in them.

use shelly_core::error::Fault;

/// A path such as `/pets/{id}/photos`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathTemplate {
    pieces: Vec<PathPiece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathPiece {
    Text(String),
    /// The name of a parameter.
    Parameter(String),
}

impl PathTemplate {
    /// Parses a path of a document.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong with it.
    pub fn parse(path: &str) -> Result<Self, String> {
        if !path.starts_with('/') {
            return Err("the path does not begin with `/`".into());
        }
        let (mut pieces, mut rest) = (Vec::new(), path);
        while let Some((text, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("the path has `{` without `}`")?;
            if name.is_empty() || name.contains(['{', '/']) {
                return Err("the path has a parameter without a valid name".into());
            }
            pieces.extend([PathPiece::Text(text.to_owned()), PathPiece::Parameter(name.to_owned())]);
            rest = after;
        }
        pieces.push(PathPiece::Text(rest.to_owned()));
        pieces.retain(|piece| *piece != PathPiece::Text(String::new()));
        let is_sent_as_it_is = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(c);
        let mut texts = pieces.iter().filter_map(PathPiece::text);
        if let Some(wrong) = texts.find_map(|text| text.chars().find(|c| !is_sent_as_it_is(*c))) {
            return Err(format!("the path has the character `{}`", wrong.escape_default()));
        }
        if path.contains("//") || path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err("the path has an empty segment, `.` or `..`".into());
        }
        Ok(Self { pieces })
    }

    /// Returns the names of the parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            PathPiece::Parameter(name) => Some(name.as_str()),
            PathPiece::Text(_) => None,
        })
    }

    /// Returns the part of the path before the first segment with a parameter; empty if the first segment has one.
    pub fn prefix(&self) -> &str {
        match &self.pieces[..] {
            [PathPiece::Text(text)] => text,
            [PathPiece::Text(text), ..] => text.rsplit_once('/').map_or("", |(before, _)| before),
            _ => "",
        }
    }

    /// Returns the path with the parameters replaced. `written` returns the text of one, percent-encoded.
    ///
    /// # Errors
    ///
    /// The errors of `written`, and [`Fault::Invalid`] if a segment would lead elsewhere.
    pub fn filled(&self, written: impl Fn(&str) -> Result<String, Fault>) -> Result<String, Fault> {
        let mut path = String::new();
        for piece in &self.pieces {
            match piece {
                PathPiece::Text(text) => path += text,
                PathPiece::Parameter(name) => path += &written(name)?,
            }
        }
        match path.split('/').find(|segment| matches!(*segment, "." | "..")) {
            Some(segment) => {
                Err(Fault::invalid(format!("a path parameter makes the segment `{segment}`, which leads elsewhere")))
            }
            None => Ok(path),
        }
    }
}

impl PathPiece {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Parameter(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_and_filled() {
        for (path, prefix, filled) in [
            ("/", "/", "/"),
            ("/pets", "/pets", "/pets"),
            ("/pets/{a}", "/pets", "/pets/<a>"),
            ("/pets/{a}/toys/{b}.json", "/pets", "/pets/<a>/toys/<b>.json"),
            ("/pets/x{a}", "/pets", "/pets/x<a>"),
            ("/{a}{b}:run", "", "/<a><b>:run"),
        ] {
            let template = PathTemplate::parse(path).unwrap();
            assert_eq!(template.prefix(), prefix, "{path}");
            assert_eq!(template.filled(|name| Ok(format!("<{name}>"))), Ok(filled.into()));
        }
        let template = PathTemplate::parse("/a/{b}/{c}").unwrap();
        assert_eq!(template.parameters().collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn path_that_leads_elsewhere_is_refused() {
        for (path, says) in [
            ("pets", "does not begin with `/`"),
            ("", "does not begin with `/`"),
            ("/a/{b", "`{` without `}`"),
            ("/a/{}", "without a valid name"),
            ("/a/{b/c}", "without a valid name"),
            ("/a?b=c", "the character `?`"),
            ("/a#b", "the character `#`"),
            ("/a b", "the character ` `"),
            ("/a%2fb", "the character `%`"),
            ("/a\\b", "the character `\\\\`"),
            ("/a\u{1b}", "the character `\\u{1b}`"),
            ("/a/../b", "an empty segment, `.` or `..`"),
            ("//h.example/a", "an empty segment, `.` or `..`"),
        ] {
            assert!(PathTemplate::parse(path).unwrap_err().contains(says), "{path}");
        }
        for (path, value) in [("/a/{b}", ".."), ("/a/{b}/c", "."), ("/a/{b}{b}", ".")] {
            let told = PathTemplate::parse(path).unwrap().filled(|_| Ok(value.to_owned())).unwrap_err();
            assert!(told.to_string().contains("which leads elsewhere"), "{path}");
        }
    }
}
