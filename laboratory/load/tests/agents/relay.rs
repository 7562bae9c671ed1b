//! A cable between a coordinator and an agent that can be cut, listened to and tampered with.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

/// Starts a thread of a test.
pub fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().name("test".to_owned()).spawn(work).expect("a thread")
}

/// The cable.
pub struct Relay {
    addr: SocketAddr,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// Both ends of each connection: the caller's first.
    ends: Vec<(TcpStream, TcpStream)>,
    travelled: Vec<u8>,
}

impl Relay {
    /// A cable to this address.
    pub fn to(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let kept = Arc::new(Mutex::new(Kept::default()));
        let all = Arc::clone(&kept);
        start(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let Ok(called) = TcpStream::connect(target) else { return };
                let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                pass(copy(&caller), copy(&called), Arc::clone(&all));
                pass(copy(&called), copy(&caller), Arc::clone(&all));
                all.lock().expect("nobody panicked").ends.push((caller, called));
            }
        });
        Relay { addr, kept }
    }

    /// Where to call.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Cuts everything that passes.
    pub fn cut(&self) {
        for (caller, called) in self.kept.lock().expect("nobody panicked").ends.drain(..) {
            // An end may have gone by itself.
            let _ = caller.shutdown(Shutdown::Both);
            let _ = called.shutdown(Shutdown::Both);
        }
    }

    /// Says something to the last caller.
    pub fn inject(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().expect("nobody panicked");
        let (caller, _) = kept.ends.last_mut().expect("somebody has called");
        caller.write_all(bytes).expect("it is there");
    }

    /// All that has passed in both directions.
    pub fn travelled(&self) -> String {
        String::from_utf8_lossy(&self.kept.lock().expect("nobody panicked").travelled).into_owned()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, kept: Arc<Mutex<Kept>>) {
    start(move || {
        let mut bytes = [0; 4_096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            kept.lock().expect("nobody panicked").travelled.extend_from_slice(&bytes[..read]);
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        // The other direction may have ended both.
        let _ = to.shutdown(Shutdown::Both);
    });
}
