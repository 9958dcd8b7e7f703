//! Names by which a config selects operations.

use super::operation::ApiOperation;
use shelly_core::limits;

/// A name in a config that selects operations: an `operationId`, or a method and a path. `*` as the method matches each
/// method, `*` as a segment of the path matches each segment, and `**` as the last segment matches all segments that follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationPattern {
    text: String,
}

impl OperationPattern {
    /// Parses a name.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shown = text.chars().take(limits::NAME_SHOWN_CHARS).collect::<String>();
        let shown = shown.escape_debug();
        if text.trim().is_empty() || text.len() > limits::OPENAPI_PATTERN_BYTES {
            return Err(format!("`{shown}` must have 1 to {} bytes", limits::OPENAPI_PATTERN_BYTES));
        }
        let Some((method, path)) = text.split_once(' ') else { return Ok(Self { text: text.to_owned() }) };
        if method != "*" && !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err(format!("`{shown}`: write the method in upper case, or `*` for all methods"));
        }
        if !path.starts_with('/') {
            return Err(format!("`{shown}`: begin the path with `/`, as in `GET /pets/*`"));
        }
        let segments: Vec<_> = path.split('/').collect();
        let is_wrong = |(at, segment): (usize, &&str)| {
            segment.contains('*') && *segment != "*" && (*segment != "**" || at + 1 < segments.len())
        };
        match segments.iter().enumerate().any(is_wrong) {
            true => Err(format!(
                "`{shown}`: `*` stands for a whole segment of the path, and `**` for all segments at its end"
            )),
            false => Ok(Self { text: text.to_owned() }),
        }
    }

    /// Returns the name as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the name selects this operation.
    pub fn selects(&self, operation: &ApiOperation) -> bool {
        if self.text == operation.name {
            return true;
        }
        let Some((method, path)) = self.text.split_once(' ') else { return false };
        (method == "*" || method == operation.method) && is_path(path, &operation.path)
    }
}

fn is_path(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut segments) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), segments.next()) {
            (Some("**"), Some(_)) => return true,
            (Some("*"), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_by_segments() {
        for (pattern, path, is_it) in [
            ("/pets", "/pets", true),
            ("/pets", "/pets/{id}", false),
            ("/pets/*", "/pets/{id}", true),
            ("/pets/*", "/pets", false),
            ("/pets/*", "/pets/{id}/toys", false),
            ("/pets/{id}", "/pets/{id}", true),
            ("/*/{id}", "/pets/{id}", true),
            ("/pets/**", "/pets/{id}/toys", true),
            ("/pets/**", "/pets", false),
            ("/**", "/", true),
            ("/", "/pets", false),
        ] {
            assert_eq!(is_path(pattern, path), is_it, "{pattern} {path}");
        }
    }

    #[test]
    fn invalid_pattern_is_refused_with_reason() {
        for text in ["getPet", "GET /pets", "* /pets/*", "GET /**", "GET /"] {
            assert_eq!(OperationPattern::parse(text).map(|pattern| pattern.as_str().to_owned()), Ok(text.to_owned()));
        }
        let long = "x".repeat(limits::OPENAPI_PATTERN_BYTES + 1);
        for (text, says) in [
            ("", "must have 1 to 512 bytes"),
            (long.as_str(), "must have 1 to 512 bytes"),
            ("get /pets", "write the method in upper case"),
            ("GET pets", "begin the path with `/`"),
            ("GET /pe*", "`*` stands for a whole segment"),
            ("GET /**/a", "`*` stands for a whole segment"),
        ] {
            assert!(OperationPattern::parse(text).unwrap_err().contains(says), "{text}");
        }
    }
}
