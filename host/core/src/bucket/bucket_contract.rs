//! The contract of [`StateBucket`]: checks that every implementation passes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use super::{BucketError, StateBucket, change_entry};
use crate::limits;

/// An empty bucket.
pub trait BucketFixture: Send + Sync {
    /// Returns the bucket as another host would open it.
    fn bucket(&self) -> Arc<dyn StateBucket>;
}

/// A check of one rule.
type BucketCheck = (&'static str, fn(&dyn BucketFixture) -> Result<(), String>);

const CHECKS: [BucketCheck; 7] = [
    ("values_are_read_as_written", values_are_read_as_written),
    ("write_requires_its_revision", write_requires_its_revision),
    ("revisions_never_repeat", revisions_never_repeat),
    ("keys_are_listed_by_prefix", keys_are_listed_by_prefix),
    ("bounds_are_held", bounds_are_held),
    ("racing_changes_are_all_done", racing_changes_are_all_done),
    ("watch_tells_of_changes", watch_tells_of_changes),
];

/// Runs all checks, each on a bucket of its own, and returns the failed ones with the reasons.
pub fn failed_bucket_checks(new_fixture: impl Fn() -> Box<dyn BucketFixture>) -> Vec<(&'static str, String)> {
    CHECKS.iter().filter_map(|(name, check)| Some((*name, check(&*new_fixture()).err()?))).collect()
}

/// Returns an error with both values if they differ.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, not {expected:?}")),
    }
}

fn text(error: BucketError) -> String {
    error.to_string()
}

fn value(bucket: &dyn StateBucket, key: &str) -> Result<Option<Vec<u8>>, String> {
    Ok(bucket.get(key).map_err(text)?.map(|entry| entry.value))
}

fn values_are_read_as_written(fixture: &dyn BucketFixture) -> Result<(), String> {
    let (bucket, other) = (fixture.bucket(), fixture.bucket());
    same("no value", value(&*bucket, "a")?, None)?;
    let large: Vec<u8> = (0..limits::BUCKET_VALUE_BYTES).map(|at| (at % 251) as u8).collect();
    let mut revision = None;
    for content in [&b"text"[..], &b""[..], &[0, 255, 13, 10][..], &large[..], &b"small again"[..]] {
        revision = bucket.write("a", revision, Some(content)).map_err(text)?;
        let entry = other.get("a").map_err(text)?.ok_or("the other host sees nothing")?;
        same("revision", Some(entry.revision), revision)?;
        if entry.value != content {
            return Err(format!("{} bytes were read as {} others", content.len(), entry.value.len()));
        }
    }
    same("removed", other.write("a", revision, None).map_err(text)?.is_some(), true)?;
    same("value after that", value(&*bucket, "a")?, None)
}

fn write_requires_its_revision(fixture: &dyn BucketFixture) -> Result<(), String> {
    let bucket = fixture.bucket();
    same("removal of nothing", bucket.write("a", None, None).map_err(text)?, None)?;
    same("no such revision", bucket.write("a", Some(7), Some(b"1")).map_err(text)?, None)?;
    let first = bucket.write("a", None, Some(b"1")).map_err(text)?;
    same("created", first.is_some(), true)?;
    same("created again", bucket.write("a", None, Some(b"1")).map_err(text)?, None)?;
    let second = bucket.write("a", first, Some(b"1")).map_err(text)?;
    same("replaced", second.is_some() && second > first, true)?;
    same("replaced again", bucket.write("a", first, Some(b"1")).map_err(text)?, None)?;
    same("removed by an old revision", bucket.write("a", first, None).map_err(text)?, None)?;
    same("removed", bucket.write("a", second, None).map_err(text)?.is_some(), true)?;
    same("replaced after removal", bucket.write("a", second, Some(b"2")).map_err(text)?, None)?;
    same("created after removal", bucket.write("a", None, Some(b"2")).map_err(text)?.is_some(), true)
}

fn revisions_never_repeat(fixture: &dyn BucketFixture) -> Result<(), String> {
    let bucket = fixture.bucket();
    let mut seen = Vec::new();
    for round in 0..3 {
        let first = bucket.write("a", None, Some(b"same")).map_err(text)?.ok_or("not created")?;
        let second = bucket.write("a", Some(first), Some(b"same")).map_err(text)?.ok_or("not replaced")?;
        bucket.write("a", Some(second), None).map_err(text)?.ok_or("not removed")?;
        seen.extend([first, second]);
        same("increasing", seen.is_sorted_by(|one, other| one < other), true)
            .map_err(|why| format!("{round}: {why}"))?;
    }
    Ok(())
}

fn keys_are_listed_by_prefix(fixture: &dyn BucketFixture) -> Result<(), String> {
    let bucket = fixture.bucket();
    same("nothing", bucket.keys("a").map_err(text)?, vec![])?;
    for key in ["a.b", "a.c.d", "ab", "a", "b.a", "a.=2e", "a.gone"] {
        bucket.write(key, None, Some(b"1")).map_err(text)?;
    }
    let gone = bucket.get("a.gone").map_err(text)?.map(|entry| entry.revision);
    bucket.write("a.gone", gone, None).map_err(text)?;
    let expected = ["a.=2e", "a.b", "a.c.d"].map(String::from).to_vec();
    same("below a", fixture.bucket().keys("a").map_err(text)?, expected)?;
    same("below a.c", bucket.keys("a.c").map_err(text)?, vec!["a.c.d".into()])
}

fn bounds_are_held(fixture: &dyn BucketFixture) -> Result<(), String> {
    let bucket = fixture.bucket();
    let large = vec![0; limits::BUCKET_VALUE_BYTES + 1];
    let bytes = large.len();
    same("too large", bucket.write("a", None, Some(&large)), Err(BucketError::TooLarge { bytes }))?;
    let long = "k".repeat(limits::BUCKET_KEY_BYTES + 1);
    for key in ["", "a b", "a*", "a..b", ">", &long] {
        for refused in [bucket.get(key).err(), bucket.write(key, None, Some(b"")).err(), bucket.keys(key).err()] {
            same(key, matches!(refused, Some(BucketError::BadKey { .. })), true)?;
        }
    }
    let longest = "k".repeat(limits::BUCKET_KEY_BYTES);
    same("longest key", bucket.write(&longest, None, Some(b"")).map_err(text)?.is_some(), true)
}

fn racing_changes_are_all_done(fixture: &dyn BucketFixture) -> Result<(), String> {
    const HOSTS: usize = 4;
    const CHANGES: usize = 10;
    let count = |bytes: Option<&[u8]>| bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse::<usize>().ok());
    let failed: Vec<String> = thread::scope(|scope| {
        let host = || {
            let bucket = fixture.bucket();
            for _ in 0..CHANGES {
                let next = |there: Option<&[u8]>| {
                    let next = count(there).unwrap_or(0) + 1;
                    Ok::<_, BucketError>((Some(next.to_string().into_bytes()), ()))
                };
                change_entry(&*bucket, "n", next).map_err(text)?;
            }
            Ok::<(), String>(())
        };
        let hosts: Vec<_> = (0..HOSTS).map(|_| scope.spawn(host)).collect();
        hosts
            .into_iter()
            .filter_map(|host| host.join().unwrap_or_else(|_| Err("a host panicked".into())).err())
            .collect()
    });
    same("failures", failed, vec![])?;
    same("changes", count(value(&*fixture.bucket(), "n")?.as_deref()), Some(HOSTS * CHANGES))
}

fn watch_tells_of_changes(fixture: &dyn BucketFixture) -> Result<(), String> {
    let (bucket, other) = (fixture.bucket(), fixture.bucket());
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    let changed = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let watch = bucket.watch("a", Arc::new(changed)).map_err(text)?;
    let mut revision = None;
    for _ in 0..2 {
        // The watch may begin a moment after it was asked for, and tells of its beginning.
        let began = Instant::now();
        loop {
            let before = told.load(Ordering::SeqCst);
            revision = other.write("a", revision, Some(b"1")).map_err(text)?;
            thread::sleep(limits::CONTRACT_PAUSE);
            if told.load(Ordering::SeqCst) > before {
                break;
            }
            if began.elapsed() > limits::CONTRACT_WAIT {
                return Err("the watch says nothing".into());
            }
        }
    }
    drop(watch);
    Ok(())
}
