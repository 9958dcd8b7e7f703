//! A guest's standard output and standard error, logged line by line. The streams of this process are not involved.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::log_quota::PluginLogQuota;
use crate::{
    convert,
    metering::{CallMeter, Limits},
};
use shelly_core::{
    event::{Event, LogLevel, RunCx},
    limits,
};

/// A guest's standard output or standard error. Handles are clones that write to the same buffer.
#[derive(Clone)]
pub struct GuestOutputStream(Arc<Mutex<GuestLineBuffer>>);

impl GuestOutputStream {
    /// Creates a stream whose lines are logged at this level, in the name of this plugin.
    pub fn new(
        level: LogLevel,
        plugin: &Arc<str>,
        limits: &Arc<Limits>,
        (cx, logged, meter): (&RunCx, &PluginLogQuota, &Arc<CallMeter>),
    ) -> Self {
        let lines = GuestLineBuffer {
            cx: cx.clone(),
            plugin: Arc::clone(plugin),
            level,
            logged: logged.clone(),
            meter: Arc::clone(meter),
            limits: Arc::clone(limits),
            line: Vec::new(),
            waiting: VecDeque::new(),
            telling: None,
        };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Attributes further output to this call.
    pub fn begin(&self, cx: &RunCx, logged: &PluginLogQuota, meter: &Arc<CallMeter>) {
        let mut lines = self.lines();
        lines.cx = cx.clone();
        lines.logged = logged.clone();
        lines.meter = Arc::clone(meter);
    }

    /// Logs everything that was written, including a last line without an end.
    pub async fn flush(&self) {
        self.lines().end_line();
        self.wait_until_logged().await;
    }

    fn lines(&self) -> MutexGuard<'_, GuestLineBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all lines are logged. The time that a slow reader takes is not counted as the guest's.
    async fn wait_until_logged(&self) {
        let meter = Arc::clone(&self.lines().meter);
        let _waiting = meter.waits.begin();
        poll_fn(|cx| self.lines().poll_logged(cx)).await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for GuestOutputStream {
    async fn ready(&mut self) {
        self.wait_until_logged().await;
    }
}

impl OutputStream for GuestOutputStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > limits::STDOUT_WRITE_BYTES {
            return Err(StreamError::trap(
                "the plugin writes more to its standard output at once than it was permitted",
            ));
        }
        self.lines().write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    /// Returns 0 while there are lines to log, so that few of them are in memory.
    fn check_write(&mut self) -> StreamResult<usize> {
        let is_logged = self.lines().is_logged();
        Ok(if is_logged { limits::STDOUT_WRITE_BYTES } else { 0 })
    }
}

/// The output of a guest, split into lines.
struct GuestLineBuffer {
    cx: RunCx,
    plugin: Arc<str>,
    level: LogLevel,
    logged: PluginLogQuota,
    meter: Arc<CallMeter>,
    limits: Arc<Limits>,
    /// The unfinished line, at most one byte longer than a log entry.
    line: Vec<u8>,
    /// The lines to log, at most as many as a call may log.
    waiting: VecDeque<String>,
    /// The line that is being logged.
    telling: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl GuestLineBuffer {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_end) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            // Keep one byte more than an entry has: it shows that the line was cut.
            let room = (limits::LOG_ENTRY_BYTES + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if is_end {
                self.end_line();
            }
        }
    }

    /// Makes a log entry of the line, unless it is blank or exceeds the log quota.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let entry = convert::bounded(line.trim_end().to_owned(), limits::LOG_ENTRY_BYTES);
        if !entry.is_empty() && self.logged.admits(entry.len(), &self.limits) {
            self.waiting.push_back(entry);
        }
    }

    fn is_logged(&self) -> bool {
        self.waiting.is_empty() && self.telling.is_none()
    }

    /// Logs one line after the other. A caller that stops polling loses nothing: the next poll continues there.
    fn poll_logged(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(telling) = &mut self.telling {
                ready!(telling.as_mut().poll(cx));
                self.telling = None;
            }
            let Some(message) = self.waiting.pop_front() else { return Poll::Ready(()) };
            let (agent, plugin, level) = (Arc::clone(&self.cx.agent), Arc::clone(&self.plugin), self.level);
            self.telling = Some(Box::pin(self.cx.events.emit(Event::PluginLog { agent, plugin, level, message })));
        }
    }
}
