//! One device whose pushes are timed one by one: from the request to the frame.
//!
//! The probe is a blocking socket with a thread of its own, which notes when a frame came before it
//! does anything else. The request goes over the API like an application's; its answer is not part
//! of the time.

use crate::api::{self, Api};
use crate::caller::speech::{self, Speech};
use crate::clock;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

const PREFIX: &str = "probe";
/// A push that has not come after so long is lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// The device, bound.
pub struct Probe {
    api: Api,
    product: String,
    arrivals: Receiver<Instant>,
    /// Shut down when the probe is dropped, which ends the thread.
    stream: TcpStream,
}

impl Probe {
    /// Binds a device of `product`.
    pub fn connect(to: SocketAddr, api: &Api, product: &str) -> io::Result<Probe> {
        let (product, prefix) = (product.to_owned(), PREFIX.to_owned());
        let speech = Speech::Miop { product: product.clone(), prefix, reports: false };
        let mut stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        let mut hello = Vec::new();
        speech.hello(0, &mut hello);
        stream.write_all(&hello)?;
        let (send, arrivals) = sync_channel(64);
        let reader = stream.try_clone()?;
        let listen = move || drop(listen(reader, &speech, &send));
        std::thread::Builder::new().name("probe".into()).spawn(listen)?;
        let probe = Probe { api: api.clone(), product, arrivals, stream };
        probe.arrival()?; // of the answer to the Bind
        Ok(probe)
    }

    /// Latencies of `count` pushes, one after the other with a `pause` between, microseconds.
    pub fn latencies(&mut self, count: u32, pause: Option<Duration>) -> io::Result<Vec<f64>> {
        let order = api::to_list(&self.product, &[speech::device(PREFIX, 0)], 0);
        let mut latencies = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let began = clock::now();
            self.api.push(&order)?;
            latencies.push(self.arrival()?.duration_since(began).as_nanos() as f64 / 1e3);
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
        }
        Ok(latencies)
    }

    fn arrival(&self) -> io::Result<Instant> {
        self.arrivals.recv_timeout(PATIENCE).map_err(|_| io::Error::other("a push did not come"))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // It fails when the server has closed the connection, which ends the thread as well.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Tells the moment of each push, and of the answer to the Bind, until the connection ends.
fn listen(
    mut stream: TcpStream,
    speech: &Speech,
    arrivals: &SyncSender<Instant>,
) -> io::Result<()> {
    let (mut buffer, mut bytes, mut acks) = ([0; 4096], Vec::new(), Vec::new());
    loop {
        let count = stream.read(&mut buffer)?;
        let now = clock::now();
        if count == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..count]);
        acks.clear();
        let heard = speech.hear(&mut bytes, 0, &mut 0, &mut acks)?;
        for _ in 0..heard.pushes + u32::from(heard.welcomed) {
            arrivals.send(now).map_err(io::Error::other)?;
        }
        stream.write_all(&acks)?;
    }
}
