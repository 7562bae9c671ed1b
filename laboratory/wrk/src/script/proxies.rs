//! Things that scripts hold and that are ours: addresses, threads, distributions.
//!
//! To Lua they are userdata with a metatable and nothing in it; what they do is in functions of the
//! metatable. (Userdata that own a value of ours would be finalized by LuaJIT, and the finalizers
//! of mlua 0.12 end in a crash there.)

use mlua::{Function, Lua, Value};

/// A userdata with these functions as metamethods.
pub fn proxy(lua: &Lua, methods: Vec<(&str, Function)>) -> mlua::Result<Value> {
    const NAME: &str = "proxy";
    let make = match lua.named_registry_value::<Option<Function>>(NAME)? {
        Some(make) => make,
        None => {
            let text = "local new, meta, each = newproxy, getmetatable, pairs
                return function(methods)
                    local made = new(true)
                    for name, method in each(methods) do meta(made)[name] = method end
                    return made
                end";
            let make: Function = lua.load(text).set_name("=proxy").eval()?;
            lua.set_named_registry_value(NAME, make.clone())?;
            make
        }
    };
    make.call(lua.create_table_from(methods)?)
}
