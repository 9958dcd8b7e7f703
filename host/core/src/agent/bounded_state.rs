use crate::{error::Fault, limits};

/// Returns the state of an effect, a middleware or a coordinator, or a [`Fault`] if it is larger than
/// [`limits::STATE_BYTES`].
pub(crate) fn bounded_state(state: Vec<u8>) -> Result<Vec<u8>, Fault> {
    if state.len() > limits::STATE_BYTES {
        let message = format!("the returned state has {} bytes, the maximum is {}", state.len(), limits::STATE_BYTES);
        return Err(Fault::TooLarge { message });
    }
    Ok(state)
}
