//! A wire to NATS that can be cut: bytes wait on it until it is whole again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::spawn;

/// A wire to each of some servers.
pub(crate) struct Proxy {
    ports: Vec<u16>,
    is_cut: Arc<(Mutex<bool>, Condvar)>,
}

impl Proxy {
    /// To these ports.
    pub(crate) fn begin(targets: &[u16]) -> Proxy {
        let is_cut = Arc::<(Mutex<bool>, Condvar)>::default();
        let mut ports = Vec::new();
        for target in targets.iter().copied() {
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
            ports.push(listener.local_addr().expect("it is bound").port());
            let is_cut = Arc::clone(&is_cut);
            #[expect(clippy::disallowed_methods, reason = "a test's thread")]
            spawn(move || {
                for client in listener.incoming().flatten() {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                    let both = (client.try_clone(), server.try_clone());
                    let (Ok(from_client), Ok(to_server)) = both else { continue };
                    let (a, b) = (Arc::clone(&is_cut), Arc::clone(&is_cut));
                    #[expect(clippy::disallowed_methods, reason = "a test's thread")]
                    spawn(move || forward(from_client, to_server, &a));
                    #[expect(clippy::disallowed_methods, reason = "a test's thread")]
                    spawn(move || forward(server, client, &b));
                }
            });
        }
        Proxy { ports, is_cut }
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect()
    }

    /// Cuts it, or makes it whole.
    pub(crate) fn cut(&self, is_cut: bool) {
        *self.is_cut.0.lock().unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.is_cut.1.notify_all();
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, is_cut: &(Mutex<bool>, Condvar)) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut bytes).unwrap_or(0);
        let locked = is_cut.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(is_cut.1.wait_while(locked, |is_cut| *is_cut));
        if length == 0 || to.write_all(&bytes[..length]).is_err() {
            let _ = to.shutdown(std::net::Shutdown::Both);
            let _ = from.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}
