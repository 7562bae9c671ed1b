//! A machine that takes nothing and says nothing, for tests of what is around machines.

use base::time::Now;
use model::close::CloseReason;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};

/// Machine without state.
pub struct Mute {
    _room: (u64, bool),
}

impl Machine for Mute {
    type Up = ();
    type Down = ();

    fn opened(&mut self, _: Now, _: &Link, _: &mut Outbox<()>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn receive(
        &mut self,
        _: Now,
        _: &mut Input<'_>,
        _: &mut Outbox<()>,
    ) -> Result<(), CloseReason> {
        Ok(())
    }

    fn command(&mut self, _: Now, (): (), _: &mut Outbox<()>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn wake(&mut self, _: Now, _: &mut Outbox<()>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn silent(&mut self, _: Now, _: &mut Outbox<()>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<()>) {}

    fn closed(&mut self, _: Now, _: CloseReason, _: &mut Outbox<()>) {}
}
