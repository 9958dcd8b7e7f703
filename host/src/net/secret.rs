use std::{fmt, sync::Arc};

/// A credential. It is shown by nothing but the request that it is meant for.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Texts this short are not blotted out: that would garble messages and hide nothing.
    const SHORTEST: usize = 4;

    /// Takes a credential. White space around it is dropped: files and shells add line ends.
    pub fn new(value: impl AsRef<str>) -> Self {
        Self(value.as_ref().trim().into())
    }

    /// The credential itself, to put it into a request.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the credential, should a server have echoed it.
    pub fn blot(&self, text: &str) -> String {
        if self.0.len() < Self::SHORTEST { text.into() } else { text.replace(&*self.0, "***") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_never_shown() {
        let secret = Secret::new(" sk-very-secret\n");
        assert_eq!(secret.expose(), "sk-very-secret");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** Secret(***) Some(Secret(***))");
        assert_eq!(secret.blot("bad key sk-very-secret, sk-very-secret!"), "bad key ***, ***!");
        assert_eq!(Secret::new("").blot("text"), "text");
    }
}
