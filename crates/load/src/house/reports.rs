//! What pilots report, and what becomes of it.
//!
//! Acknowledgements are cumulative. Of the Reports that a device has under way one is timed, so
//! that any window costs the same few bytes a pilot.

use super::{Desk, PilotHouse};
use crate::pilot::State;
use crate::plan::{ReportPace, ReportPlan};
use crate::snapshot::note;
use base::time::{Instant, Now};
use model::id::ConnRef;
use model::pilot::Action;

/// Planned Reports sent in one turn, and pilots looked at for each. More wait a turn.
const REPORTS_PER_TURN: usize = 1_024;

impl PilotHouse {
    /// Sends as many Reports as a device's window takes.
    pub(super) fn fill_window(&mut self, now: Now, pilot: u32, desk: &mut Desk) {
        let Some(ReportPlan { bytes, pace: ReportPace::Window(window) }) = self.reports else {
            return;
        };
        while self.at(pilot).state == State::Online
            && self.at(pilot).open_reports() < u32::from(window)
        {
            self.report(pilot, now.mono, body(bytes), desk);
        }
    }

    /// Sends the Reports whose planned time has come, by the online pilots in turn.
    pub(super) fn report_by_plan(&mut self, now: Now, desk: &mut Desk) {
        let Some(ReportPlan { bytes, .. }) = self.reports else { return };
        let Some(mut plan) = self.report_pace.take() else { return };
        for _ in 0..REPORTS_PER_TURN {
            if !plan.is_due(now.mono) {
                break;
            }
            self.cursor = (self.cursor + 1) % self.pilots.len();
            if self.pilots[self.cursor].state == State::Online {
                let at: Instant = plan.take();
                self.report(self.cursor as u32, at, body(bytes), desk);
            }
        }
        self.report_pace = Some(plan);
    }

    pub(super) fn report(&mut self, pilot: u32, at: Instant, body: Box<[u8]>, desk: &mut Desk) {
        let this = self.at(pilot);
        this.sent += 1;
        if this.timed == 0 {
            (this.timed, this.report_at) = (this.sent, at);
        }
        let conn = ConnRef::from_bits(this.conn);
        self.log.reports += 1;
        self.log.open_reports += 1;
        desk.deliver(conn, Action::Report(body));
    }

    /// The server has taken everything up to `seq`, but for what it refused.
    pub(super) fn taken(&mut self, now: Now, pilot: u32, seq: u32, desk: &mut Desk) {
        let this = &mut self.pilots[pilot as usize];
        if this.state != State::Online || seq <= this.settled || seq > this.sent {
            return;
        }
        let refused = if seq >= this.refused { std::mem::take(&mut this.refused_open) } else { 0 };
        let settled = seq - this.settled;
        this.settled = seq;
        let taken = u64::from(settled.saturating_sub(u32::from(refused)));
        self.log.taken_reports += taken;
        self.log.open_reports -= taken;
        if this.timed != 0 && seq >= this.timed {
            this.timed = 0;
            let spent = now.mono - this.report_at;
            note(&mut self.log.report_us, spent.as_micros() as u64);
        }
        self.fill_window(now, pilot, desk);
    }

    /// The server has refused one. The device goes on in the next tick, not at once: a refusal may
    /// mean that it sends too fast.
    pub(super) fn not_taken(&mut self, pilot: u32, seq: u32, code: u32) {
        let this = &mut self.pilots[pilot as usize];
        if this.state != State::Online || seq <= this.settled || this.open_reports() == 0 {
            return;
        }
        this.refused = this.refused.max(seq);
        this.refused_open = this.refused_open.saturating_add(1);
        if this.timed == seq {
            this.timed = 0;
        }
        if this.open_reports() == 0 {
            // Nothing is left for an acknowledgement to settle.
            (this.settled, this.refused_open) = (this.sent, 0);
        }
        self.log.refused_reports.count(code);
        self.log.open_reports -= 1;
        self.held.push(pilot);
    }
}

/// A body of so many bytes.
fn body(bytes: u32) -> Box<[u8]> {
    vec![b'r'; bytes as usize].into()
}
