//! The global table `wrk`: what the URL says, and the functions that make requests of it.
//!
//! Scripts read its fields, change them, and call and replace its functions; what the functions do
//! therefore goes by the fields as they are when they are called.

use super::threads::{addr, addr_of};
use mlua::{Function, Lua, MultiValue, ObjectLike, Table, Value};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Arguments of the command line.
#[derive(Clone, Debug, Default)]
pub struct ScriptSetting {
    /// The URL's scheme.
    pub scheme: String,
    /// The URL's host; an IPv6 address without brackets.
    pub host: String,
    /// The URL's port, if it has one.
    pub port: Option<String>,
    /// The URL's path with its query.
    pub path: String,
    /// Headers, `Name: value`.
    pub headers: Vec<String>,
    /// Whether requests are HTTP's: `wrk.init` makes one.
    pub http: bool,
}

/// Time that `wrk.connect` gives a call.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// Sets the global `wrk`.
pub fn set(lua: &Lua, setting: &ScriptSetting) -> mlua::Result<()> {
    let wrk = lua.create_table()?;
    wrk.set("scheme", setting.scheme.as_str())?;
    wrk.set("host", setting.host.as_str())?;
    wrk.set("port", setting.port.as_deref())?;
    wrk.set("method", "GET")?;
    wrk.set("path", setting.path.as_str())?;
    let headers = lua.create_table()?;
    for header in &setting.headers {
        // What has no colon with a space behind it is left out, as by wrk.
        if let Some((name, value)) = header.split_once(": ") {
            headers.set(name, value)?;
        }
    }
    wrk.set("headers", headers)?;
    wrk.set("lookup", lua.create_function(lookup)?)?;
    wrk.set("connect", lua.create_function(connect)?)?;
    let format: Function =
        lua.load(include_str!("format.lua")).set_name("=[wrk]").call(wrk.clone())?;
    wrk.set("format", format)?;
    wrk.set("resolve", lua.create_function(resolve)?)?;
    wrk.set("setup", lua.create_function(setup)?)?;
    let http = setting.http;
    wrk.set("init", lua.create_function(move |lua, args: Value| init(lua, args, http))?)?;
    lua.globals().set("wrk", wrk)
}

fn wrk_of(lua: &Lua) -> mlua::Result<Table> {
    lua.globals().get("wrk")
}

/// `wrk.lookup(host, service)`: all addresses of a name.
fn lookup(lua: &Lua, (host, service): (String, Option<String>)) -> mlua::Result<Table> {
    let service = service.unwrap_or_default();
    let port = match service.as_str() {
        "" => Some(0),
        "http" => Some(80),
        "https" => Some(443),
        "mqtt" => Some(1883),
        other => other.parse::<u16>().ok(),
    };
    let unable = |why: &dyn std::fmt::Display| {
        mlua::Error::runtime(format!("unable to resolve {host}:{service} {why}"))
    };
    let port = port.ok_or_else(|| unable(&"Servname not supported"))?;
    let found = (host.as_str(), port).to_socket_addrs().map_err(|error| unable(&error))?;
    let found = found.map(|found| addr(lua, found)).collect::<mlua::Result<Vec<_>>>()?;
    lua.create_sequence_from(found)
}

/// `wrk.connect(addr)`: whether a call to an address comes through.
fn connect(_: &Lua, held: Value) -> mlua::Result<bool> {
    Ok(TcpStream::connect_timeout(&addr_of(&held)?, CONNECT_WAIT).is_ok())
}

/// `wrk.resolve(host, service)`: the addresses that take calls become `wrk.addrs`.
fn resolve(lua: &Lua, (host, service): (String, String)) -> mlua::Result<()> {
    let wrk = wrk_of(lua)?;
    let (lookup, connect): (Function, Function) = (wrk.get("lookup")?, wrk.get("connect")?);
    let taking = lua.create_table()?;
    for addr in lookup.call::<Table>((host, service))?.sequence_values::<Value>() {
        let addr = addr?;
        if connect.call::<bool>(addr.clone())? {
            taking.raw_push(addr)?;
        }
    }
    wrk.set("addrs", taking)
}

/// `wrk.setup(thread)`: the thread gets the first address, then the script's `setup` is called.
fn setup(lua: &Lua, thread: mlua::AnyUserData) -> mlua::Result<()> {
    if let Some(addrs) = wrk_of(lua)?.get::<Option<Table>>("addrs")?
        && let first @ Value::UserData(_) = addrs.get::<Value>(1)?
    {
        thread.set("addr", first)?;
    }
    match lua.globals().get("setup")? {
        Value::Function(own) => own.call(thread),
        _ => Ok(()),
    }
}

/// `wrk.init(args)`: the header `Host`, the script's `init`, and then the request of a script that
/// has none of its own. Called by the script's `init` itself, it does not call that again.
fn init(lua: &Lua, args: Value, http: bool) -> mlua::Result<()> {
    let wrk = wrk_of(lua)?;
    let headers: Table = wrk.get("headers")?;
    if headers.get::<Value>("Host")?.is_nil() {
        headers.set("Host", host_header(&wrk)?)?;
    }
    let inside: bool = lua.named_registry_value::<Option<bool>>("init")?.unwrap_or(false);
    if let (Value::Function(own), false) = (lua.globals().get("init")?, inside) {
        lua.set_named_registry_value("init", true)?;
        let done = own.call::<MultiValue>(args);
        lua.set_named_registry_value("init", false)?;
        done?;
    }
    if http {
        let text: Value = wrk.get::<Function>("format")?.call(())?;
        wrk.set("request", lua.create_function(move |_, _: MultiValue| Ok(text.clone()))?)?;
    }
    Ok(())
}

fn host_header(wrk: &Table) -> mlua::Result<String> {
    let host: String = wrk.get("host")?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Ok(match wrk.get::<Option<String>>("port")? {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

/// The address that a thread calls when no script says otherwise.
pub fn first_of(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut found = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("unable to resolve {host}:{port} {error}"))?;
    found.next().ok_or_else(|| format!("unable to resolve {host}:{port}: no address"))
}
