use serde::{Serialize, de::DeserializeOwned};

use crate::{error::Fault, limits};

/// Reads the state that a coordinator returned in its last call; the default in the first call of a run.
pub(super) fn read<T: Default + DeserializeOwned>(state: &[u8]) -> Result<T, Fault> {
    if state.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(state).map_err(|error| unreadable(&error.to_string()))
}

/// Returns the fault for a state that cannot be read.
pub(super) fn unreadable(why: &str) -> Fault {
    Fault::other(format!("cannot read the state of the coordinator: {why}"))
}

/// Returns the state for the next call.
pub(super) fn write<T: Serialize>(state: &T) -> Result<Vec<u8>, Fault> {
    bounded(serde_json::to_vec(state).expect("a state is JSON"))
}

/// Checks the size of a state.
pub(super) fn bounded(state: Vec<u8>) -> Result<Vec<u8>, Fault> {
    match state.len() <= limits::STATE_BYTES {
        true => Ok(state),
        false => Err(Fault::TooLarge {
            message: format!(
                "the state of the coordinator has {} bytes, the maximum is {}",
                state.len(),
                limits::STATE_BYTES
            ),
        }),
    }
}
