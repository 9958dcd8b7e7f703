//! A server on loopback, in a process of its own, that streams replies. The path selects one: `/recorded/WIRE/PIECES/` sends
//! all at once, `/paced/WIRE/PIECES/MICROSECONDS/` sends a piece whenever that time has passed, whose text is the time at
//! which it was sent, and `/bytes/COUNT/` sends so many bytes. The rest of the path does not matter.

use std::{
    collections::HashMap,
    error::Error,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::{OLLAMA, RECORDINGS, Recording, now};

/// The argument with which this program is the server.
pub const SERVE: &str = "--serve-replies";

/// Runs until it is dropped.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    pub fn start() -> Result<Self, Box<dyn Error>> {
        let mut child =
            Command::new(std::env::current_exe()?).arg(SERVE).stdout(Stdio::piped()).stdin(Stdio::piped()).spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().ok_or("it has an output")?).read_line(&mut url)?;
        Ok(Self { child, url: url.trim().into() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Streams = Arc<Mutex<HashMap<(&'static str, usize), Arc<[u8]>>>>;

/// Is the server, until whoever started it ends.
pub fn serve() -> Result<(), Box<dyn Error>> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}", listener.local_addr()?);
        let streams = Streams::default();
        loop {
            let (connection, _) = listener.accept().await?;
            let streams = Arc::clone(&streams);
            // A client that goes away is none of its business.
            tokio::spawn(async move { answer(connection, &streams).await.is_ok() });
        }
    })
}

async fn answer(mut connection: TcpStream, streams: &Streams) -> Result<(), Box<dyn Error + Send + Sync>> {
    connection.set_nodelay(true)?;
    let mut bytes = Vec::new();
    while let Some(path) = request(&mut connection, &mut bytes).await? {
        let mut steps = path.split('/').skip(1);
        let mut step = || steps.next().ok_or("the path is too short");
        let kind = step()?;
        if kind == "bytes" {
            send(&mut connection, step()?.parse()?).await?;
            continue;
        }
        connection
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            .await?;
        let (wire, deltas) = (step()?, step()?.parse()?);
        let mut recordings = RECORDINGS.iter().chain([&OLLAMA]);
        let recording = recordings.find(|recording| recording.name == wire).ok_or("there is no such wire")?;
        if kind == "paced" {
            pace(&mut connection, recording, deltas, Duration::from_micros(step()?.parse()?)).await?;
        } else {
            let stream = Arc::clone(
                streams.lock().expect("nobody panics").entry((recording.name, deltas)).or_insert_with(|| {
                    let chunks = recording.events(deltas).iter().map(|event| chunk(event)).collect::<String>();
                    chunks.into_bytes().into()
                }),
            );
            connection.write_all(&stream).await?;
        }
        connection.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

async fn pace(
    connection: &mut TcpStream,
    recording: &Recording,
    deltas: usize,
    pause: Duration,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    for event in recording.begin() {
        connection.write_all(chunk(&event).as_bytes()).await?;
    }
    // Not all at the same moment.
    let offset = pause.mul_f64(f64::from(connection.peer_addr()?.port()) * 0.618 % 1.0);
    let mut ticks = interval_at(Instant::now() + offset, pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut pieces = Vec::with_capacity(deltas);
    for n in 0..deltas {
        ticks.tick().await;
        pieces.push(format!("{} ", now().as_nanos()));
        connection.write_all(chunk(&recording.delta(n, &pieces[n])).as_bytes()).await?;
    }
    for event in recording.end(&pieces) {
        connection.write_all(chunk(&event).as_bytes()).await?;
    }
    Ok(())
}

/// Sends so many letters.
async fn send(connection: &mut TcpStream, count: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    static BYTES: [u8; 256 << 10] = {
        let (mut bytes, mut at) = ([0; 256 << 10], 0);
        while at < bytes.len() {
            bytes[at] = b'a' + (at * 7 % 23) as u8;
            at += 1;
        }
        bytes
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {count}\r\n\r\n");
    let first = count.min(BYTES.len() - head.len());
    connection.write_all(&[head.as_bytes(), &BYTES[..first]].concat()).await?;
    let mut left = count - first;
    while left > 0 {
        let piece = left.min(BYTES.len());
        connection.write_all(&BYTES[..piece]).await?;
        left -= piece;
    }
    Ok(())
}

fn chunk(event: &str) -> String {
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// Reads a request and returns its path; none at the end of the connection. `bytes` is what came of the next one.
async fn request(
    connection: &mut TcpStream,
    bytes: &mut Vec<u8>,
) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if connection.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0").parse::<usize>()?;
    while bytes.len() < end + length {
        if connection.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
    bytes.drain(..end + length);
    Ok(head.split(' ').nth(1).map(Into::into))
}
