//! The two ends of a way, and what is tried between them.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Outcome;
use super::bounce::pin;

/// Length of a request and of its response.
const REQUEST_BYTES: usize = 64;
/// Round trips of one turn, and of its warm-up.
const TRIPS: usize = 256;
const WARM_UP_TRIPS: usize = 32;
/// Duration of a stream's turn, and of its warm-up.
const STREAM: Duration = Duration::from_millis(25);
const WARM_UP: Duration = Duration::from_millis(8);
/// Bytes per call of a TCP stream.
const CHUNK_BYTES: usize = 128 * 1024;
const UDP_HEADERS: usize = 28;
/// Timeout of a lost datagram or a stalled connection.
const TIMEOUT: Duration = Duration::from_secs(2);

/// As netperf calls them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Test {
    TcpRr,
    UdpRr,
    TcpStream,
    UdpStream,
}

/// Where a server listens, and what it has received.
pub struct Listening {
    pub address: SocketAddr,
    pub arrived: Arc<AtomicU64>,
}

/// A client, connected to its server.
pub struct Client {
    test: Test,
    socket: Socket,
    chunk: Vec<u8>,
    arrived: Arc<AtomicU64>,
}

enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Test {
    pub fn parse(word: &str) -> Option<Test> {
        let all = [
            ("tcp-rr", Test::TcpRr),
            ("udp-rr", Test::UdpRr),
            ("tcp-stream", Test::TcpStream),
            ("udp-stream", Test::UdpStream),
        ];
        all.into_iter()
            .find(|(name, _)| *name == word)
            .map(|one| one.1)
    }

    const fn is_stream(self) -> bool {
        matches!(self, Test::TcpStream | Test::UdpStream)
    }

    /// Starts a server in the namespace of the calling thread; its thread ends with the process.
    pub fn listen(self, address: SocketAddr, cpu: usize) -> Outcome<Listening> {
        let arrived = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&arrived);
        let address = if matches!(self, Test::TcpRr | Test::TcpStream) {
            let listener = TcpListener::bind(address)?;
            let address = listener.local_addr()?;
            thread::spawn(move || self.serve_tcp(&listener, cpu, &count));
            address
        } else {
            let socket = UdpSocket::bind(address)?;
            let address = socket.local_addr()?;
            thread::spawn(move || self.serve_udp(&socket, cpu, &count));
            address
        };
        Ok(Listening { address, arrived })
    }

    fn serve_tcp(self, listener: &TcpListener, cpu: usize, arrived: &AtomicU64) -> Outcome<()> {
        pin(cpu)?;
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut bytes = vec![
            0;
            if self.is_stream() {
                CHUNK_BYTES
            } else {
                REQUEST_BYTES
            }
        ];
        loop {
            if self.is_stream() {
                let count = stream.read(&mut bytes)?;
                arrived.fetch_add(count as u64, Ordering::Relaxed);
                if count == 0 {
                    return Ok(());
                }
            } else {
                stream.read_exact(&mut bytes)?;
                stream.write_all(&bytes)?;
            }
        }
    }

    fn serve_udp(self, socket: &UdpSocket, cpu: usize, arrived: &AtomicU64) -> Outcome<()> {
        pin(cpu)?;
        let mut bytes = vec![0; CHUNK_BYTES];
        loop {
            let (count, from) = socket.recv_from(&mut bytes)?;
            if self.is_stream() {
                arrived.fetch_add(count as u64, Ordering::Relaxed);
            } else {
                socket.send_to(&bytes[..count], from)?;
            }
        }
    }

    /// Connects from the namespace of the calling thread.
    pub fn connect(
        self,
        to: SocketAddr,
        mtu: usize,
        congestion: &str,
        arrived: Arc<AtomicU64>,
    ) -> Outcome<Client> {
        let length = match self {
            Test::TcpRr | Test::UdpRr => REQUEST_BYTES,
            Test::TcpStream => CHUNK_BYTES,
            Test::UdpStream => mtu - UDP_HEADERS,
        };
        let socket = if matches!(self, Test::TcpRr | Test::TcpStream) {
            let stream = TcpStream::connect(to)?;
            stream.set_nodelay(true)?;
            rustix::net::sockopt::set_tcp_congestion(&stream, congestion)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Socket::Tcp(stream)
        } else {
            let socket = UdpSocket::bind((any_of(to.ip()), 0))?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            Socket::Udp(socket)
        };
        Ok(Client {
            test: self,
            socket,
            chunk: vec![0x5a; length],
            arrived,
        })
    }
}

impl Client {
    /// One turn, and what it found.
    pub fn turn(&mut self) -> Outcome<String> {
        if self.test.is_stream() {
            return self.stream();
        }
        for _ in 0..WARM_UP_TRIPS {
            self.trip()?;
        }
        let mut took = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let begin = Instant::now();
            self.trip()?;
            took.push(begin.elapsed().as_nanos());
        }
        took.sort_unstable();
        Ok(took[TRIPS / 2].to_string())
    }

    fn trip(&mut self) -> Outcome<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => {
                stream.write_all(&self.chunk)?;
                stream.read_exact(&mut self.chunk)?;
            }
            Socket::Udp(socket) => {
                socket.send(&self.chunk)?;
                socket.recv(&mut self.chunk)?;
            }
        }
        Ok(())
    }

    fn stream(&mut self) -> Outcome<String> {
        self.send_for(WARM_UP)?;
        let (arrived, worked) = (self.arrived.load(Ordering::Relaxed), busy()?);
        let took = self.send_for(STREAM)?;
        let arrived = self.arrived.load(Ordering::Relaxed) - arrived;
        let worked = busy()? - worked;
        // Bytes in flight belong to no turn.
        let mut last = u64::MAX;
        while last != self.arrived.load(Ordering::Relaxed) {
            last = self.arrived.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        let rate = arrived as f64 / took.as_secs_f64();
        Ok(format!(
            "{rate:.0},{:.6}",
            worked / (arrived.max(1) as f64 / 1e9)
        ))
    }

    fn send_for(&mut self, time: Duration) -> Outcome<Duration> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            match &mut self.socket {
                Socket::Tcp(stream) => stream.write_all(&self.chunk)?,
                // The receiver may have no room: then it is lost, as on any network.
                Socket::Udp(socket) => drop(socket.send(&self.chunk)),
            }
        }
        Ok(begin.elapsed())
    }
}

/// All addresses of a host, in the family of one.
pub fn any_of(address: IpAddr) -> IpAddr {
    if address.is_ipv4() {
        [0; 4].into()
    } else {
        [0; 16].into()
    }
}

/// Busy seconds of all CPUs together.
fn busy() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let words = text.lines().next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = words.skip(1).filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, (idle, iowait,) hardirq and softirq.
    let [user, nice, system, _, _, hard, soft, ..] = ticks[..] else {
        return Err("/proc/stat is of another form".into());
    };
    Ok((user + nice + system + hard + soft) / rustix::param::clock_ticks_per_second() as f64)
}
