use std::time::Duration;

/// Formats the time of a call for people: `12 µs`, `3.4 ms`, `5.6 s`.
pub fn call_time(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.1} s"),
    }
}
