//! Looking on while a run goes on: a screen on a terminal, else lines.
//!
//! The screen has a thread of its own, so that a key is answered at once; the run's thread only
//! hands it what a second came to and takes the wishes. Lines go to the error output: what a run
//! has to say in the end stands alone on the other. It knows neither plan nor clients. Invariant:
//! nothing that happens to the terminal holds the run up or ends it.

use lab::order::OnlookerRequest;
use load::run::{RunTick, Watch};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use view::{Press, RunFrame, RunState, Screen, lines};

/// Run that is shown, and how.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Title {
    /// The plan's name.
    pub name: String,
    /// Target of the test, without secrets.
    pub target: String,
    /// Lines, even on a terminal.
    pub plain: bool,
}

/// Time between two lines when it is to be quiet.
const QUIET_MS: u64 = 10_000;
/// The screen looks so often whether there is something new.
const BEAT: Duration = Duration::from_millis(100);

/// Looks on: on a screen if there is one to be had and it is wanted, else in a line a second.
pub fn watch(title: &Title) -> Box<dyn Watch> {
    if title.plain || !Screen::possible() {
        return Box::new(Lines::new(title, false));
    }
    match Live::open(title) {
        Ok(live) => Box::new(live),
        Err(why) => {
            note!("no terminal display, printing lines: {why}");
            Box::new(Lines::new(title, false))
        }
    }
}

/// Looks on in a line every ten seconds, and whenever another part of the run begins.
pub fn quietly(title: &Title) -> Box<dyn Watch> {
    Box::new(Lines::new(title, true))
}

fn state(title: &Title) -> RunState {
    let (name, target) = (title.name.clone(), title.target.clone());
    RunState::new(view::Title { name, target })
}

/// A run on the screen.
struct Live {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the run's thread and the screen's.
struct Shared {
    state: Mutex<RunState>,
    wishes: Mutex<Vec<OnlookerRequest>>,
    /// Whether there is something that was not drawn yet.
    fresh: AtomicBool,
    over: AtomicBool,
}

impl Live {
    fn open(title: &Title) -> Result<Live, String> {
        let screen = Screen::open().map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared {
            state: Mutex::new(state(title)),
            wishes: Mutex::default(),
            fresh: AtomicBool::new(true),
            over: AtomicBool::new(false),
        });
        let thread = Builder::new().name("view".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.show(screen)
        });
        Ok(Live { shared, thread: Some(thread.map_err(|error| error.to_string())?) })
    }

    fn close(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It gives the terminal back however it ends.
            let _ = thread.join();
        }
    }
}

impl Watch for Live {
    fn tick(&mut self, tick: &RunTick) {
        let mut state = self.shared.state();
        see(&mut state, tick);
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            // The terminal went away; whoever reads what is left of it gets lines.
            say(&lines::line(&state));
        }
        self.shared.fresh.store(true, Ordering::Relaxed);
    }

    fn wishes(&mut self) -> Vec<OnlookerRequest> {
        std::mem::take(&mut *self.shared.wishes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn done(&mut self, _run: &lab::run::Run) {
        self.close();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The screen's thread: until the run is over or the terminal is gone.
    fn show(&self, mut screen: Screen) {
        while !self.over.load(Ordering::Relaxed) {
            if self.fresh.swap(false, Ordering::Relaxed) && screen.draw(&self.state()).is_err() {
                return;
            }
            match screen.press(BEAT) {
                Ok(Some(Press::Key(key))) => {
                    if let Some(wish) = self.state().press(key) {
                        let wishes = self.wishes.lock();
                        wishes.unwrap_or_else(PoisonError::into_inner).push(wish);
                    }
                }
                Ok(Some(Press::Resized)) => {}
                Ok(None) => continue,
                Err(_) => return,
            }
            self.fresh.store(true, Ordering::Relaxed);
        }
    }
}

/// A run in lines.
struct Lines {
    state: RunState,
    quiet: bool,
    /// When the last line was printed, and the part of the run that it was about.
    said: Option<(u64, usize, &'static str)>,
}

impl Lines {
    fn new(title: &Title, quiet: bool) -> Lines {
        Lines { state: state(title), quiet, said: None }
    }

    /// Whether this second is worth a line.
    fn due(&self, tick: &RunTick) -> bool {
        let Some((at_ms, stage, part)) = self.said else { return true };
        let news = (stage, part) != (tick.stage, tick.part.name());
        !self.quiet || news || tick.at_ms >= at_ms + QUIET_MS
    }
}

impl Watch for Lines {
    fn tick(&mut self, tick: &RunTick) {
        see(&mut self.state, tick);
        lines::notes(&self.state, tick.notes.len()).iter().for_each(|note| say(note));
        if self.due(tick) {
            say(&lines::line(&self.state));
            self.said = Some((tick.at_ms, tick.stage, tick.part.name()));
        }
    }
}

/// A line; that nobody reads it is no reason to end.
fn say(line: &str) {
    note!("{line}");
}

fn see(state: &mut RunState, tick: &RunTick) {
    state.see(&RunFrame {
        at_ms: tick.at_ms,
        stage: tick.stage,
        stages: &tick.stages,
        part: tick.part.name(),
        clients: tick.clients,
        until_ms: tick.until_ms,
        counts: &tick.counts,
        groups: &tick.groups,
        reading: &tick.reading,
        notes: &tick.notes,
        findings: &tick.findings,
        saturation: &tick.saturation,
    });
}
