use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use super::{SessionDiskUsage, SessionError};
use shelly_core::limits;

/// The last measurement of all sessions of a folder, shared by the stores of that folder. Measuring reads the folder of every
/// session, so without it the creation of many sessions takes a time that grows with the square of their number.
#[derive(Debug, Clone, Default)]
pub struct MeasuredUsage(Arc<Mutex<Option<UsageMeasurement>>>);

#[derive(Debug)]
struct UsageMeasurement {
    usage: SessionDiskUsage,
    at: Instant,
    /// The number of sessions that were allowed since.
    allowed: usize,
}

impl MeasuredUsage {
    /// Returns the usage before one more session is created. A measurement is used while it is
    /// [recent](limits::SESSION_USAGE_AGE) and few sessions were allowed since; those count as sessions, without their bytes.
    ///
    /// # Errors
    ///
    /// The error of `measure`.
    pub(super) fn before_one_more(
        &self,
        measure: impl FnOnce() -> Result<SessionDiskUsage, SessionError>,
    ) -> Result<SessionDiskUsage, SessionError> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(UsageMeasurement { usage, at, allowed }) = &mut *last
            && *allowed < usage.sessions / limits::SESSION_USAGE_PART
            && at.elapsed() < limits::SESSION_USAGE_AGE
        {
            *allowed += 1;
            return Ok(SessionDiskUsage { sessions: usage.sessions + *allowed - 1, bytes: usage.bytes });
        }
        let usage = measure()?;
        *last = Some(UsageMeasurement { usage, at: Instant::now(), allowed: 1 });
        Ok(usage)
    }

    /// Returns the usage, from a [recent](limits::SESSION_USAGE_AGE) measurement if there is one; the sessions that were allowed
    /// since count as sessions, without their bytes.
    ///
    /// # Errors
    ///
    /// The error of `measure`.
    pub(super) fn recent(
        &self,
        measure: impl FnOnce() -> Result<SessionDiskUsage, SessionError>,
    ) -> Result<SessionDiskUsage, SessionError> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(UsageMeasurement { usage, at, allowed }) = &*last
            && at.elapsed() < limits::SESSION_USAGE_AGE
        {
            return Ok(SessionDiskUsage { sessions: usage.sessions + allowed, bytes: usage.bytes });
        }
        let usage = measure()?;
        *last = Some(UsageMeasurement { usage, at: Instant::now(), allowed: 0 });
        Ok(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_new_sessions_need_no_new_measurement() {
        for (there, expected) in [(0, 20), (12, 20), (64, 5), (320, 1)] {
            let (measured, mut measurements) = (MeasuredUsage::default(), 0);
            for created in 0..20 {
                let usage = measured.before_one_more(|| {
                    measurements += 1;
                    Ok(SessionDiskUsage { sessions: there + created, bytes: 7 })
                });
                let usage = usage.unwrap();
                assert_eq!((usage.sessions, usage.bytes), (there + created, 7), "{there} {created}");
            }
            assert_eq!(measurements, expected, "{there}");
        }
    }

    #[test]
    fn recent_measurement_counts_sessions_allowed_since() {
        let usage = |sessions| Ok(SessionDiskUsage { sessions, bytes: 7 });
        let measured = MeasuredUsage::default();
        assert_eq!(measured.recent(|| usage(64)).unwrap().sessions, 64);
        assert_eq!(measured.recent(|| usage(0)).unwrap().sessions, 64, "it is not measured again");
        assert_eq!(measured.before_one_more(|| usage(0)).unwrap().sessions, 64);
        assert_eq!(measured.recent(|| usage(0)).unwrap().sessions, 65);
    }
}
