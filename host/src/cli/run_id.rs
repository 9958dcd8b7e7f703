/// Returns the name of a run: its start time and a random part.
pub fn run_id() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut chance = [0; 4];
    // Without random bytes the time alone is the name.
    let _ = getrandom::fill(&mut chance);
    format!("run-{:x}-{:08x}", since.as_millis(), u32::from_le_bytes(chance))
}
