/// The error that ends a call when its guest calls `exit`.
#[derive(Debug, thiserror::Error)]
#[error("the plugin exited with code {code}")]
pub struct GuestExit {
    /// The code that the guest passed.
    pub code: u8,
}
