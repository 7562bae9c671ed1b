//! A thread as the main state sees it: where it calls, its globals, and that it shall stop.
//!
//! The globals of a thread are read and set only while it does not run: in `setup` before it
//! starts, in `done` when it has ended. Values go from one state to another as copies.

use super::proxies::proxy;
use mlua::{Lua, Value, WeakLua};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tables within tables that are copied, at most.
const DEPTH_MAX: usize = 64;

/// An address, as scripts hold one: it can be printed, passed on, and nothing else.
pub fn addr(lua: &Lua, addr: SocketAddr) -> mlua::Result<Value> {
    let text = addr.to_string();
    proxy(lua, vec![("__tostring", lua.create_function(move |_, _: Value| Ok(text.clone()))?)])
}

/// The address that a script holds.
pub fn addr_of(value: &Value) -> mlua::Result<SocketAddr> {
    let wrong = || mlua::Error::runtime(format!("a {} is no address", value.type_name()));
    match value {
        Value::UserData(_) => value.to_string()?.parse().map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

/// State that a thread and the scripts share.
#[derive(Debug)]
pub struct ThreadShare {
    addr: Mutex<SocketAddr>,
    stop: AtomicBool,
}

impl ThreadShare {
    /// A thread that calls this address.
    pub fn new(addr: SocketAddr) -> Arc<ThreadShare> {
        Arc::new(ThreadShare { addr: Mutex::new(addr), stop: AtomicBool::new(false) })
    }

    /// Address that it calls.
    pub fn addr(&self) -> SocketAddr {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, addr: SocketAddr) {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner) = addr;
    }

    /// Whether it was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The thread of `state`, for the scripts of `lua`: fields `addr`, methods `get`, `set`, `stop`.
pub fn thread(lua: &Lua, state: &Lua, share: &Arc<ThreadShare>) -> mlua::Result<Value> {
    // Weak, for the state itself holds one of these.
    let state = state.weak();
    let of = state.clone();
    let get = lua.create_function(move |lua, (_, name): (Value, Value)| {
        let state = upgraded(&of)?;
        let name = copied(&name, &state, 0)?;
        copied(&state.globals().get(name)?, lua, 0)
    })?;
    let set = lua.create_function(move |_, (_, name, value): (Value, Value, Value)| {
        let state = upgraded(&state)?;
        state.globals().set(copied(&name, &state, 0)?, copied(&value, &state, 0)?)
    })?;
    let ended = share.clone();
    let stop = lua.create_function(move |_, _: Value| {
        ended.stop();
        Ok(())
    })?;
    let called = share.clone();
    let index =
        lua.create_function(move |lua, (_, name): (Value, String)| match name.as_str() {
            "addr" => addr(lua, called.addr()),
            "get" => Ok(Value::Function(get.clone())),
            "set" => Ok(Value::Function(set.clone())),
            "stop" => Ok(Value::Function(stop.clone())),
            _ => Ok(Value::Nil),
        })?;
    let calls = share.clone();
    let change = lua.create_function(move |_, (_, name, value): (Value, String, Value)| {
        if name != "addr" {
            return Err(mlua::Error::runtime(format!("a thread has no field {name} to set")));
        }
        calls.call(addr_of(&value)?);
        Ok(())
    })?;
    proxy(lua, vec![("__index", index), ("__newindex", change)])
}

fn upgraded(state: &WeakLua) -> mlua::Result<Lua> {
    state.try_upgrade().ok_or_else(|| mlua::Error::runtime("the thread has ended"))
}

/// A copy of a value in another state: booleans, numbers, strings, addresses, tables of these.
fn copied(value: &Value, to: &Lua, depth: usize) -> mlua::Result<Value> {
    let cannot =
        |what: &str| Err(mlua::Error::runtime(format!("cannot transfer '{what}' to thread")));
    match value {
        Value::Nil => Ok(Value::Nil),
        Value::Boolean(is) => Ok(Value::Boolean(*is)),
        Value::Integer(number) => Ok(Value::Integer(*number)),
        Value::Number(number) => Ok(Value::Number(*number)),
        Value::String(text) => to.create_string(text.as_bytes()).map(Value::String),
        Value::Table(_) if depth == DEPTH_MAX => cannot("table that is too deep"),
        Value::Table(table) => {
            let copy = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (name, value) = pair?;
                copy.raw_set(copied(&name, to, depth + 1)?, copied(&value, to, depth + 1)?)?;
            }
            Ok(Value::Table(copy))
        }
        Value::UserData(_) => match addr_of(value) {
            Ok(found) => addr(to, found),
            Err(_) => cannot("userdata"),
        },
        other => cannot(other.type_name()),
    }
}
