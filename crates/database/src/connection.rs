//! One connection to a database, for calls that wait for it.
//!
//! The connection is opened at the first call. One call at a time uses it, and a call that failed
//! or took too long closes it. Invariant: a call ends within its time limit; a connection in an
//! unknown state is not used again.

use crate::schema::{self, Step};
use crate::settings::DatabaseSettings;
use model::ports::databases::accounts::DatabaseFault;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::select;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

/// Errors of a server that will be gone: too many connections, a shutdown, read only.
const PASSING: [u16; 8] = [1040, 1053, 1129, 1158, 1159, 1203, 1290, 1836];

/// Errors that say that somebody else was faster: a lock that was waited for, a deadlock, a name
/// that is there.
const FASTER: [u16; 3] = [1062, 1205, 1213];

/// How long tables may take to be made.
const OPEN: Duration = Duration::from_secs(60);

/// Reason why a call was not carried out.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The client library's.
    Sql(Error),
    /// A fault of ours.
    Fault(DatabaseFault),
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        CallError::Sql(error)
    }
}

impl From<DatabaseFault> for CallError {
    fn from(fault: DatabaseFault) -> CallError {
        CallError::Fault(fault)
    }
}

impl From<CallError> for DatabaseFault {
    fn from(error: CallError) -> DatabaseFault {
        match error {
            CallError::Fault(fault) => fault,
            CallError::Sql(Error::Server(error)) if FASTER.contains(&error.code) => {
                DatabaseFault::Conflict
            }
            CallError::Sql(Error::Server(error)) if PASSING.contains(&error.code) => {
                DatabaseFault::Away(error.to_string())
            }
            CallError::Sql(Error::Server(error)) => DatabaseFault::Refused(error.to_string()),
            CallError::Sql(error) => DatabaseFault::Away(error.to_string()),
        }
    }
}

/// A connection, once it is wanted.
pub(crate) struct Connection {
    runtime: Runtime,
    opts: Opts,
    limit: Duration,
    idle: Mutex<Option<Conn>>,
    /// Set when no more calls are made.
    over: watch::Sender<bool>,
}

impl Connection {
    /// Connects to nobody yet.
    pub(crate) fn new(settings: &DatabaseSettings) -> Result<Connection, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Connection {
            runtime: runtime.map_err(|error| {
                format!(
                    "cannot start a runtime for the database: \
                                                      {error}"
                )
            })?,
            opts: settings.options()?,
            limit: settings.timeout(),
            idle: Mutex::default(),
            over: watch::Sender::new(false),
        })
    }

    /// Ends the call that goes on, and any that comes later.
    pub(crate) fn close(&self) {
        self.over.send_replace(true);
    }

    /// Carries a call out within the usual time.
    pub(crate) fn call<T>(
        &self,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, CallError>,
    ) -> Result<T, DatabaseFault> {
        self.call_within(self.limit, work)
    }

    /// Carries a call out in one transaction.
    pub(crate) fn transaction<T>(
        &self,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, CallError>,
    ) -> Result<T, DatabaseFault> {
        self.call(async |conn| {
            conn.query_drop("START TRANSACTION").await?;
            let done = work(conn).await?;
            conn.query_drop("COMMIT").await?;
            Ok(done)
        })
    }

    /// Makes the tables of a part, or brings them up to date; gives the database's number.
    pub(crate) fn open(&self, part: &'static str, steps: &[Step]) -> Result<u64, DatabaseFault> {
        self.call_within(OPEN, async |conn| schema::make(conn, part, steps).await)
    }

    /// As [`call`](Self::call), with another time limit.
    fn call_within<T>(
        &self,
        limit: Duration,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, CallError>,
    ) -> Result<T, DatabaseFault> {
        let call = async {
            let mut idle = self.idle.lock().await;
            let mut conn = match idle.take() {
                Some(conn) => conn,
                None => Conn::new(self.opts.clone()).await.map_err(CallError::Sql)?,
            };
            let done = work(&mut conn).await;
            if done.is_ok() {
                *idle = Some(conn);
            }
            done
        };
        let late =
            || DatabaseFault::Away(format!("it did not answer within {} ms", limit.as_millis()));
        let mut over = self.over.subscribe();
        let ended = || DatabaseFault::Away("the connection is closed".into());
        self.runtime.block_on(async {
            select! {
                done = timeout(limit, call) => {
                    done.map_err(|_| late())?.map_err(DatabaseFault::from)
                }
                _ = over.wait_for(|over| *over) => Err(ended()),
            }
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A connection says good-bye on its runtime.
        let _on = self.runtime.enter();
        drop(self.idle.get_mut().take());
    }
}
