//! What a person sees while waiting, and the lines that say what was done.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use forebay::format::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Standard error: progress bars if it is a terminal, and messages unless quiet.
pub struct Terminal {
    quiet: bool,
    bar: Mutex<Option<(ProgressBar, Instant)>>,
}

impl Terminal {
    /// The terminal; `quiet` for none of both.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, bar: Mutex::new(None) }
    }

    /// Says something to the person.
    pub fn say(&self, text: impl std::fmt::Display) {
        self.clear();
        if !self.quiet {
            eprintln!("{text}");
        }
    }

    /// Warns the person, quiet or not.
    pub fn warn(&self, text: impl std::fmt::Display) {
        self.clear();
        eprintln!("warning: {text}");
    }

    fn clear(&self) {
        if let Some((bar, _)) = self.bar.lock().expect("no panic while drawing").take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Progress for Terminal {
    fn begin(&self, what: &str, total: u64) {
        self.clear();
        if self.quiet {
            return;
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg:20} {wide_bar} {percent:>3} %  {eta} left");
        bar.set_style(style.expect("a constant template"));
        bar.set_message(what.to_owned());
        *self.bar.lock().expect("no panic while drawing") = Some((bar, Instant::now()));
    }

    fn advance(&self, steps: u64) {
        if let Some((bar, started)) = &*self.bar.lock().expect("no panic while drawing") {
            bar.inc(steps);
            // indicatif itself shows nothing where standard error is no terminal.
            if bar.is_hidden() && started.elapsed() > PATIENCE {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
    }
}
