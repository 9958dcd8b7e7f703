use std::{
    any::Any,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// Values that crates above the agent attach to one run, one value per type: open component instances, stores of one run.
/// They are dropped with the last clone.
#[derive(Clone, Default)]
pub struct RunExtensions(Arc<Mutex<Vec<Arc<dyn Any + Send + Sync>>>>);

impl RunExtensions {
    /// Returns the value of this type; the first call creates it.
    pub fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = values.iter().find_map(|there| Arc::clone(there).downcast().ok()) {
            return there;
        }
        let new = Arc::<T>::default();
        values.push(Arc::clone(&new) as _);
        new
    }
}

impl fmt::Debug for RunExtensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunExtensions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RunCx;

    #[test]
    fn run_extensions_are_dropped_with_the_run() {
        let cx = RunCx::new("ada");
        let (of_run, of_clone) = (cx.extensions.get::<Mutex<u32>>(), cx.clone().extensions.get::<Mutex<u32>>());
        *of_run.lock().unwrap() = 7;
        assert_eq!(*of_clone.lock().unwrap(), 7);
        assert_eq!(*cx.anew().extensions.get::<Mutex<u32>>().lock().unwrap(), 0, "of another run");
        assert_eq!(*cx.extensions.get::<Mutex<u8>>().lock().unwrap(), 0, "of another type");
        let weak = Arc::downgrade(&of_run);
        drop((cx, of_run, of_clone));
        assert!(weak.upgrade().is_none());
    }
}
