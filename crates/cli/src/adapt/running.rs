//! All that is adapted, second by second until the end.

use std::time::{Duration, Instant};

use super::overlay::Overlay;
use super::probes::INTERVAL;
use super::streams::Streams;
use super::told::Told;
use crate::failure::Failure;

/// Shortest reaction to Ctrl-C.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Time between two looks at the placement.
const PLACEMENT_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct Running {
    pub overlay: Option<Overlay>,
    pub streams: Option<Streams>,
    pub told: Told,
    pub begin: Instant,
    pub samples: bool,
}

impl Running {
    pub(super) fn until(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut next = self.begin + INTERVAL;
        let mut next_placement = self.begin + PLACEMENT_INTERVAL;
        while !is_over() {
            let now = Instant::now();
            if now < next {
                std::thread::sleep(STOP_INTERVAL.min(next - now));
                continue;
            }
            // A machine that stood still does not make up for the samples that it missed.
            next = now + INTERVAL;
            self.second()?;
            if now >= next_placement {
                next_placement = now + PLACEMENT_INTERVAL;
                self.tell_placement();
            }
        }
        self.tell_placement();
        Ok(())
    }

    fn second(&mut self) -> Result<(), Failure> {
        let at = self.begin.elapsed();
        if let Some(overlay) = &mut self.overlay {
            overlay.second(at, self.samples, &self.told)?;
        }
        if let Some(streams) = &mut self.streams {
            streams.second(at, &self.told)?;
        }
        Ok(())
    }

    fn tell_placement(&mut self) {
        if let Some(overlay) = &self.overlay {
            self.told.placement(overlay.watch.placement(&overlay.hosts));
        }
    }

    /// Whether there was anything to take back. Errors: the first of them; what is left is taken back all the same.
    pub(super) fn take_back(&mut self) -> Result<bool, Failure> {
        let streams = self.streams.as_mut().map(Streams::take_back);
        let overlay = self.overlay.as_mut().map(Overlay::take_back);
        Ok(streams.unwrap_or(Ok(false))? | overlay.unwrap_or(Ok(false))?)
    }
}
