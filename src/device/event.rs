//! `torch.Event`: a point in a stream, with the time at which it was reached.

use super::stream;
use crate::error::{Error, Result};
use crate::pjrt::Event as PjrtEvent;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug)]
enum State {
    /// Its marker waits in the launch queue.
    Queued,
    /// The work before it, unfinished when it was recorded.
    Recorded(Vec<Arc<PjrtEvent>>),
}

/// One recording.
#[derive(Debug)]
pub struct Mark {
    state: Mutex<State>,
    passed: Condvar,
    /// When the work before it was done.
    time: Mutex<Option<Instant>>,
}

impl Mark {
    pub fn queued() -> Arc<Mark> {
        Arc::new(Mark {
            state: Mutex::new(State::Queued),
            passed: Condvar::new(),
            time: Mutex::new(None),
        })
    }

    /// The marker has come up: `before` is what was unfinished on its stream then.
    pub fn reached(self: &Arc<Self>, before: Vec<Arc<PjrtEvent>>) {
        if before.is_empty() {
            *self.time.lock() = Some(Instant::now());
        }
        for event in &before {
            // The last of them to finish leaves the time.
            let mark = self.clone();
            event.on_ready(Box::new(move |_| *mark.time.lock() = Some(Instant::now())));
        }
        *self.state.lock() = State::Recorded(before);
        self.passed.notify_all();
    }

    pub fn query(&self) -> bool {
        match &*self.state.lock() {
            State::Queued => false,
            State::Recorded(before) => before.iter().all(|event| event.is_ready().unwrap_or(true)),
        }
    }

    /// What has to finish, once the marker has come up (waits for the launch queue, not for the device).
    pub fn before(&self) -> Vec<Arc<PjrtEvent>> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Recorded(before) => return before.clone(),
                State::Queued => self.passed.wait(&mut state),
            }
        }
    }

    pub fn synchronize(&self) -> Result<()> {
        stream::wait_all(&self.before())
    }

    /// Milliseconds from `start` to this mark; both must have been reached.
    pub fn elapsed_milliseconds(&self, start: &Mark) -> Result<f64> {
        let not_yet = || {
            Error::runtime(
                "both events must be completed before calculating elapsed time; call synchronize() on them first",
            )
        };
        if !self.query() || !start.query() {
            return Err(not_yet());
        }
        // A callback may still be on its way when the event already reads ready.
        let time = |mark: &Mark| {
            for _ in 0..1000 {
                if let Some(time) = *mark.time.lock() {
                    return Some(time);
                }
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
            None
        };
        let (from, to) = (time(start).ok_or_else(not_yet)?, time(self).ok_or_else(not_yet)?);
        Ok(if to >= from {
            (to - from).as_secs_f64() * 1e3
        } else {
            -(from - to).as_secs_f64() * 1e3
        })
    }
}
