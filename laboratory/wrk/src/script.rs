//! Scripts in Lua, as wrk runs them: one state for `setup` and `done`, one for each thread.
//!
//! A [`Script`] is one state with the script loaded. It knows no connection and no clock: whoever
//! drives it asks for the next request, for a delay, and tells it what came back. The resources of
//! a script are bounded: memory, and instructions a call ([`Bounds`]). So that the count is seen in
//! every loop, LuaJIT runs as an interpreter here; the libraries `ffi` and `debug` are not there.
//!
//! The invariant: no script stops a thread for good, and every error names file and line.

mod globals;
mod proxies;
mod stats;
mod threads;
mod words;

pub use globals::{ScriptSetting, first_of};
pub use stats::{Errors, ScriptSummary, stdev};
pub use threads::ThreadShare;

use lab::timing::Spectrum;
use load::http::HttpHeader;
use mlua::{Function, HookTriggers, IntoLuaMulti, Lua, MultiValue, Table, Value, VmState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limits of a script.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of one state.
    pub memory_bytes: usize,
    /// Instructions while the file is loaded, and of one call of `setup`, `init` and `done`.
    pub steps_once: u64,
    /// Instructions of one call of anything else.
    pub steps_call: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { memory_bytes: 256 << 20, steps_once: 1_000_000_000, steps_call: 50_000_000 }
    }
}

/// Instructions between two looks at the count.
const STEPS_A_LOOK: u32 = 1_000;
/// Longest delay that a script may ask for: a day.
const DELAY_MS_MAX: f64 = 86_400_000.0;

/// Error of a script, with file and line.
pub type ScriptError = String;

/// Request of a script.
#[derive(Clone, PartialEq, Debug)]
pub enum ScriptRequest {
    /// The protocol's own kind of request: a heartbeat.
    Nothing,
    /// Bytes: HTTP requests, a report's body, a message's payload.
    Bytes(Vec<u8>),
    /// A message.
    Publish {
        /// Its topic; none: the URL's.
        topic: Option<String>,
        /// Payload of the message.
        payload: Vec<u8>,
        /// Its QoS; none: the URL's.
        qos: Option<u8>,
        /// Whether it is kept for later subscribers.
        retain: bool,
    },
}

/// Which of the globals are functions, right after `init`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wants {
    /// `request`.
    pub request: bool,
    /// `response`.
    pub response: bool,
    /// `delay`.
    pub delay: bool,
    /// `connect`.
    pub connect: bool,
    /// `message`.
    pub message: bool,
    /// `heartbeat`.
    pub heartbeat: bool,
    /// `disconnect`.
    pub disconnect: bool,
    /// `stage`.
    pub stage: bool,
}

/// One Lua state with the script in it.
pub struct Script {
    lua: Lua,
    bounds: Bounds,
    /// The script's file.
    name: String,
    watch: Arc<Watch>,
}

/// Limits watched while a script runs.
#[derive(Default)]
struct Watch {
    /// Instructions that are left of this call.
    steps: AtomicU64,
    /// The line that was seen last.
    line: AtomicU64,
}

impl Script {
    /// A state with wrk's globals, in which the script has run. `source` is its file's name and
    /// text; none: no script, only wrk's own functions.
    pub fn new(
        setting: &ScriptSetting,
        source: Option<(&str, &[u8])>,
        bounds: Bounds,
    ) -> Result<Script, ScriptError> {
        let lua = Lua::new();
        let name = source.map_or("wrk", |(name, _)| name).to_owned();
        let this = Script { lua, bounds, name, watch: Arc::default() };
        this.refill(bounds.steps_once);
        this.prepare(setting).map_err(|error| this.fault(&error))?;
        if let Some((name, text)) = source {
            this.refill(bounds.steps_once);
            let chunk = this.lua.load(text).set_name(format!("@{name}"));
            chunk.exec().map_err(|error| this.fault(&error))?;
        }
        Ok(this)
    }

    fn prepare(&self, setting: &ScriptSetting) -> mlua::Result<()> {
        let lua = &self.lua;
        // The count of instructions is not looked at in compiled code. What C writes to standard
        // output must come in order with what we write.
        let quiet = "jit.off() jit.flush() jit.on = function() end io.stdout:setvbuf('no')";
        lua.load(quiet).set_name("=prelude").exec()?;
        globals::set(lua, setting)?;
        lua.set_memory_limit(self.bounds.memory_bytes)?;
        watch(lua, &self.watch, STEPS_A_LOOK)
    }

    fn refill(&self, steps: u64) {
        self.watch.steps.store(steps, Ordering::Relaxed);
    }

    /// An error in one line. One for want of memory has no place of its own: what was seen last
    /// must do.
    fn fault(&self, error: &mlua::Error) -> ScriptError {
        if !words::is_memory(error) {
            return words::of(error);
        }
        let (name, line) = (&self.name, self.watch.line.load(Ordering::Relaxed));
        let mib = self.bounds.memory_bytes >> 20;
        format!("{name}: the script used up its memory ({mib} MiB), near line {line}")
    }

    /// Where a global function begins: `FILE:LINE: `; empty: there is none.
    pub fn place(&self, name: &str) -> String {
        self.global(name).map_or(String::new(), |found| format!("{}: ", words::place(&found)))
    }

    /// Gives the state its thread, and tells the main state's `setup` of it.
    pub fn setup(&self, main: &Script, share: &Arc<ThreadShare>) -> Result<(), ScriptError> {
        let own = || -> mlua::Result<Value> {
            let wrk: Table = self.lua.globals().get("wrk")?;
            wrk.set("thread", threads::thread(&self.lua, &self.lua, share)?)?;
            threads::thread(&main.lua, &self.lua, share)
        };
        // `thread:get` and `:set` cost what the thread's state allows.
        self.refill(self.bounds.steps_once);
        main.of_wrk("setup", own().map_err(|error| self.fault(&error))?)
    }

    /// Runs `wrk.init`, and by it the script's `init`; `words` begin with the URL, which is no. 0.
    pub fn init(&self, words: &[String]) -> Result<(), ScriptError> {
        let args = || -> mlua::Result<Table> {
            let args = self.lua.create_table()?;
            words.iter().enumerate().try_for_each(|(at, word)| args.set(at, word.as_str()))?;
            Ok(args)
        };
        self.of_wrk("init", args().map_err(|error| self.fault(&error))?)
    }

    /// Which functions there are.
    pub fn wants(&self) -> Wants {
        let has = |name| self.global(name).is_some();
        Wants {
            request: has("request"),
            response: has("response"),
            delay: has("delay"),
            connect: has("connect"),
            message: has("message"),
            heartbeat: has("heartbeat"),
            disconnect: has("disconnect"),
            stage: has("stage"),
        }
    }

    /// Time before this client's next request.
    pub fn delay(&self, client: u32) -> Result<Duration, ScriptError> {
        let Some(delay) = self.global("delay") else { return Ok(Duration::ZERO) };
        let told: Value = self.call(&delay, client)?;
        let ms = match &told {
            Value::Nil => 0.0,
            told => words::number(told)
                .ok_or_else(|| format!("{}: delay() returned no number", words::place(&delay)))?,
        };
        // Whole milliseconds, as wrk takes them.
        Ok(Duration::from_millis(ms.clamp(0.0, DELAY_MS_MAX) as u64))
    }

    /// This client's next request: what the global `request` returns, else `wrk.request`.
    pub fn request(&self, client: u32) -> Result<ScriptRequest, ScriptError> {
        let found = self.global("request").or_else(|| {
            let wrk: Table = self.lua.globals().get("wrk").ok()?;
            wrk.get::<Option<Function>>("request").ok().flatten()
        });
        let Some(request) = found else { return Ok(ScriptRequest::Nothing) };
        let told: Value = self.call(&request, client)?;
        let wrong =
            |what: &str| Err(format!("{}: request() returned {what}", words::place(&request)));
        match told {
            Value::Nil => Ok(ScriptRequest::Nothing),
            Value::String(bytes) => Ok(ScriptRequest::Bytes(bytes.as_bytes().to_vec())),
            Value::Integer(_) | Value::Number(_) => {
                Ok(ScriptRequest::Bytes(told.to_string().unwrap_or_default().into_bytes()))
            }
            Value::Table(table) => match publish(&table) {
                Ok(request) => Ok(request),
                Err(error) => wrong(&format!("a table that is no message: {}", words::of(&error))),
            },
            other => wrong(&format!("a {}, no string", other.type_name())),
        }
    }

    /// Gives the script the response to a request of this client.
    pub fn response(
        &self,
        client: u32,
        status: u32,
        headers: &[HttpHeader],
        body: &[u8],
    ) -> Result<(), ScriptError> {
        let Some(response) = self.global("response") else { return Ok(()) };
        let lua = &self.lua;
        let args = || -> mlua::Result<_> {
            let table = lua.create_table()?;
            for (name, value) in headers {
                table.raw_set(lua.create_string(name)?, lua.create_string(value)?)?;
            }
            Ok((status, table, lua.create_string(body)?, client))
        };
        self.call(&response, args().map_err(|error| self.fault(&error))?)
    }

    /// Calls `connect`: the client's connection is open.
    pub fn connect(&self, client: u32) -> Result<(), ScriptError> {
        self.tell("connect", client)
    }

    /// Calls `message`: something came that no request asked for.
    pub fn message(&self, client: u32, body: &[u8], topic: &str) -> Result<(), ScriptError> {
        let bytes = |text| self.lua.create_string(text).map_err(|error| self.fault(&error));
        self.tell("message", (client, bytes(body)?, bytes(topic.as_bytes())?))
    }

    /// Calls `heartbeat`: one was answered after so many microseconds.
    pub fn heartbeat(&self, client: u32, us: u64) -> Result<(), ScriptError> {
        self.tell("heartbeat", (client, us))
    }

    /// Calls `disconnect`: a connection or a call of the client ended, for this cause.
    pub fn disconnect(&self, client: u32, cause: &str) -> Result<(), ScriptError> {
        self.tell("disconnect", (client, cause))
    }

    /// Calls `stage`.
    pub fn stage(&self, name: &str) -> Result<(), ScriptError> {
        self.tell("stage", name)
    }

    /// Calls the script's `done`, if there is one.
    pub fn done(
        &self,
        summary: &ScriptSummary,
        latency: Spectrum,
        requests: Spectrum,
    ) -> Result<(), ScriptError> {
        let Some(done) = self.global("done") else { return Ok(()) };
        self.refill(self.bounds.steps_once);
        let args = stats::arguments(&self.lua, summary, latency, requests);
        let args = args.map_err(|error| self.fault(&error))?;
        done.call(args).map_err(|error| self.fault(&error))
    }

    /// Finds the addresses that take calls, by `wrk.resolve`.
    pub fn resolve(
        &self,
        host: &str,
        service: &str,
    ) -> Result<Vec<std::net::SocketAddr>, ScriptError> {
        self.of_wrk("resolve", (host, service))?;
        let found = || -> mlua::Result<Vec<_>> {
            let wrk: Table = self.lua.globals().get("wrk")?;
            let Some(addrs) = wrk.get::<Option<Table>>("addrs")? else { return Ok(Vec::new()) };
            addrs.sequence_values::<Value>().map(|addr| threads::addr_of(&addr?)).collect()
        };
        found().map_err(|error| self.fault(&error))
    }

    fn tell(&self, name: &str, args: impl IntoLuaMulti) -> Result<(), ScriptError> {
        match self.global(name) {
            Some(function) => self.call(&function, args),
            None => Ok(()),
        }
    }

    fn global(&self, name: &str) -> Option<Function> {
        match self.lua.globals().raw_get(name) {
            Ok(Value::Function(function)) => Some(function),
            _ => None,
        }
    }

    fn call<R: mlua::FromLuaMulti>(
        &self,
        function: &Function,
        args: impl IntoLuaMulti,
    ) -> Result<R, ScriptError> {
        self.refill(self.bounds.steps_call);
        function.call(args).map_err(|error| self.fault(&error))
    }

    /// Calls a function of the table `wrk`.
    fn of_wrk(&self, name: &str, args: impl IntoLuaMulti) -> Result<(), ScriptError> {
        self.refill(self.bounds.steps_once);
        let called = || -> mlua::Result<()> {
            let wrk: Table = self.lua.globals().get("wrk")?;
            let function: Function = wrk.get(name)?;
            function.call::<MultiValue>(args).map(|_| ())
        };
        called().map_err(|error| self.fault(&error))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Closing a state runs finalizers; nothing may be called back by then.
        self.lua.remove_global_hook();
    }
}

/// A message as a table: `{topic, payload, qos}`, by place or by name.
fn publish(table: &Table) -> mlua::Result<ScriptRequest> {
    let field = |name: &str, at: i64| -> mlua::Result<Value> {
        match table.get::<Value>(name)? {
            Value::Nil if at > 0 => table.get(at),
            found => Ok(found),
        }
    };
    let text = |value: Value, what: &str| -> mlua::Result<Option<Vec<u8>>> {
        match &value {
            Value::Nil => Ok(None),
            Value::String(text) => Ok(Some(text.as_bytes().to_vec())),
            Value::Integer(_) | Value::Number(_) => Ok(Some(value.to_string()?.into_bytes())),
            other => Err(mlua::Error::runtime(format!("{what} is a {}", other.type_name()))),
        }
    };
    let topic = text(field("topic", 1)?, "topic")?;
    let topic = topic.map(|bytes| {
        String::from_utf8(bytes).map_err(|_| mlua::Error::runtime("topic is not UTF-8"))
    });
    let qos = match words::number(&field("qos", 3)?) {
        None => None,
        Some(qos @ (0.0 | 1.0 | 2.0)) => Some(qos as u8),
        Some(qos) => return Err(mlua::Error::runtime(format!("qos is {qos}, not 0, 1 or 2"))),
    };
    Ok(ScriptRequest::Publish {
        topic: topic.transpose()?,
        payload: text(field("payload", 2)?, "payload")?.unwrap_or_default(),
        qos,
        retain: matches!(field("retain", 0)?, Value::Boolean(true)),
    })
}

/// Counts instructions, so many at a look, and ends the call that has used up its own. A script
/// that catches that error is looked at with every instruction from then on.
fn watch(lua: &Lua, seen: &Arc<Watch>, a_look: u32) -> mlua::Result<()> {
    let seen = seen.clone();
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(a_look), move |lua, debug| {
        let line = debug.current_line();
        if let Some(line) = line {
            seen.line.store(line as u64, Ordering::Relaxed);
        }
        let left = seen.steps.load(Ordering::Relaxed);
        if left > 0 {
            seen.steps.store(left.saturating_sub(u64::from(a_look)), Ordering::Relaxed);
            return Ok(VmState::Continue);
        }
        if a_look > 1 {
            watch(lua, &seen, 1)?;
        }
        let place = match (debug.source().short_src, line) {
            (Some(file), Some(line)) => format!("{file}:{line}: "),
            _ => String::new(),
        };
        Err(mlua::Error::runtime(format!(
            "{place}the script did not come to an end: a call used up its instructions"
        )))
    })
}

#[cfg(test)]
mod tests;
