//! Connections that were handed over, with a cipher that anybody can read.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

/// A cipher that anybody can read: it turns letters round, and says `!` where it is over.
struct Mirror;

impl Cipher for Mirror {
    fn receive(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> io::Result<bool> {
        if bytes.contains(&0) {
            return Err(ErrorKind::InvalidData.into());
        }
        if bytes.contains(&b'?') {
            out.extend_from_slice(b"[asked]");
            return Ok(true);
        }
        plain.extend(bytes.iter().map(u8::to_ascii_uppercase));
        Ok(!bytes.contains(&b'!'))
    }

    fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.extend(plain.iter().map(u8::to_ascii_lowercase));
        Ok(())
    }

    fn farewell(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"[bye]");
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

const LONG: Duration = Duration::from_secs(600);

fn over<S>(stream: S, ciphered: bool, silence: Duration) -> Handed<S> {
    let cipher = ciphered.then(|| Box::new(Mirror) as Box<dyn Cipher>);
    let (said, unsent) = (b"first ".to_vec(), b"[hello]".to_vec());
    Handed::over(stream, cipher, (said, unsent), (silence, LONG), Box::new(()))
}

#[test]
fn what_came_before_is_read_first_and_what_waits_is_written_first() {
    run(async {
        for (ciphered, heard, told) in
            [(false, "first then", "[hello]Answer"), (true, "first THEN", "[hello]answer[bye]")]
        {
            let (mut peer, stream) = duplex(1024);
            let mut handed = over(stream, ciphered, LONG);
            peer.write_all(b"then").await.expect("it is taken");
            let mut bytes = vec![0; heard.len()];
            handed.read_exact(&mut bytes).await.expect("it comes");
            assert_eq!(bytes, heard.as_bytes());
            handed.write_all(b"Answer").await.expect("it is taken");
            peer.shutdown().await.expect("it is over");
            handed.shutdown().await.expect("it is over");
            drop(handed);
            let mut bytes = String::new();
            peer.read_to_string(&mut bytes).await.expect("it comes");
            assert_eq!(bytes, told);
        }
    });
}

#[test]
fn an_end_in_the_cipher_is_the_end_and_a_bad_record_an_error() {
    run(async {
        let (mut peer, stream) = duplex(1024);
        let mut handed = over(stream, true, LONG);
        peer.write_all(b"a!").await.expect("it is taken");
        let mut bytes = Vec::new();
        handed.read_to_end(&mut bytes).await.expect("it ends though the socket is open");
        assert_eq!(bytes, b"first A!");
        let (mut peer, stream) = duplex(1024);
        let mut handed = over(stream, true, LONG);
        peer.write_all(&[0]).await.expect("it is taken");
        assert!(handed.read_to_end(&mut Vec::new()).await.is_err());
    });
}

#[test]
fn who_says_nothing_and_who_reads_nothing_is_let_go() {
    run(async {
        let (_peer, stream) = duplex(1024);
        let mut handed = over(stream, false, Duration::from_millis(1));
        let ended = handed.read_to_end(&mut Vec::new()).await;
        assert_eq!(ended.expect_err("it is let go").kind(), ErrorKind::TimedOut);
        let (_peer, stream) = duplex(16);
        let mut handed = over(stream, true, Duration::from_millis(1));
        handed.write_all(&[b'x'; 1024]).await.expect("it waits here");
        let ended = handed.flush().await;
        assert_eq!(ended.expect_err("it is let go").kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn whoever_asks_and_never_reads_is_read_no_further() {
    run(async {
        let (mut peer, stream) = duplex(4);
        let mut handed = over(stream, true, Duration::from_millis(50));
        let asks = tokio::spawn(async move { while peer.write_all(b"????").await.is_ok() {} });
        let ended = handed.read_to_end(&mut Vec::new()).await;
        assert_eq!(ended.expect_err("it is let go").kind(), ErrorKind::TimedOut);
        assert!(handed.unsent.len() <= UNSENT_MAX + PIECE, "{}", handed.unsent.len());
        drop(handed);
        asks.await.expect("it ends, too");
    });
}
