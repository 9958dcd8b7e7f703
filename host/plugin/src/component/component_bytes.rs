use shelly_core::digest::Sha256Digest;

/// The bytes of a component, and their digest.
pub struct ComponentBytes {
    pub bytes: Vec<u8>,
    pub digest: Sha256Digest,
}
