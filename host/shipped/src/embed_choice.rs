//! The choice of whether the plugins become part of the program. The build script includes this file; in the library only its
//! tests are compiled.

/// The choice of whether the plugins become part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedChoice {
    /// They are embedded, or the build fails.
    Required,
    /// They are embedded if a toolchain here can build them.
    IfPossible,
    /// They are left out.
    LeftOut,
}

impl EmbedChoice {
    /// The environment variable that decides.
    pub const VARIABLE: &str = "SHELLY_EMBED_PLUGINS";

    /// Returns the choice that the value of the variable makes, or the kind of the build if there is none.
    ///
    /// # Errors
    ///
    /// A message about a value that the variable cannot have.
    pub fn of(value: Option<&str>, is_release: bool) -> Result<Self, String> {
        match value {
            None | Some("") if is_release => Ok(Self::IfPossible),
            None | Some("") | Some("0") => Ok(Self::LeftOut),
            Some("1") => Ok(Self::Required),
            Some(other) => {
                let variable = Self::VARIABLE;
                Err(format!("{variable} is `{other}`; write 1 to embed the plugins, 0 to leave them out"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_required_only_if_the_variable_says_so() {
        for (value, is_release, choice) in [
            (None, true, EmbedChoice::IfPossible),
            (Some(""), true, EmbedChoice::IfPossible),
            (None, false, EmbedChoice::LeftOut),
            (Some("1"), true, EmbedChoice::Required),
            (Some("1"), false, EmbedChoice::Required),
            (Some("0"), true, EmbedChoice::LeftOut),
        ] {
            assert_eq!(EmbedChoice::of(value, is_release), Ok(choice), "{value:?}, release: {is_release}");
        }
        let error = EmbedChoice::of(Some("yes"), true).unwrap_err();
        assert!(error.starts_with("SHELLY_EMBED_PLUGINS is `yes`; write 1"), "{error}");
    }
}
