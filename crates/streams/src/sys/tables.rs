//! The kernel's tables of sockets (/proc/net).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The inodes of all open sockets of AF_UNIX in the calling thread's namespace.
pub fn unix_inodes() -> io::Result<HashSet<u64>> {
    let text = fs::read_to_string("/proc/thread-self/net/unix")?;
    Ok(column(&text, UNIX_INODE).collect())
}

/// The inodes of all TCP sockets in a namespace that are open. Those of closed ones are 0.
pub fn tcp_inodes(netns: impl AsFd) -> io::Result<HashSet<u64>> {
    let texts = tcp_tables(netns)?;
    Ok(texts
        .iter()
        .flat_map(|text| column(text, TCP_INODE))
        .collect())
}

fn column(text: &str, column: usize) -> impl Iterator<Item = u64> + '_ {
    let words = text
        .lines()
        .skip(1)
        .filter_map(move |line| line.split_whitespace().nth(column));
    words.filter_map(|word| word.parse().ok())
}

/// Both tables of TCP sockets in a namespace; one on a kernel without IPv6.
fn tcp_tables(netns: impl AsFd) -> io::Result<Vec<String>> {
    let netns = netns.as_fd().try_clone_to_owned()?;
    // A thread is in a network namespace, so this one ends there.
    let read = move || {
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
        let mut texts = Vec::new();
        for file in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
            match fs::read_to_string(file) {
                Ok(text) => texts.push(text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(texts)
    };
    let read = thread::spawn(read).join();
    read.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Columns of a line, from 0.
const UNIX_INODE: usize = 6;
const TCP_LOCAL: usize = 1;
const TCP_PEER: usize = 2;
const TCP_INODE: usize = 9;

/// The names of a connection: its own address, and its peer's.
pub type Names = (SocketAddr, SocketAddr);

/// The connections of a namespace, and whether a program has them: one that is not accepted yet has no inode.
pub fn connections(netns: impl AsFd) -> io::Result<HashMap<Names, bool>> {
    let texts = tcp_tables(netns)?;
    let lines = texts.iter().flat_map(|text| text.lines());
    Ok(lines.filter_map(connection).collect())
}

fn connection(line: &str) -> Option<(Names, bool)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = |column: usize| address(words.get(column)?);
    let names = (name(TCP_LOCAL)?, name(TCP_PEER)?);
    Some((names, *words.get(TCP_INODE)? != "0"))
}

/// An address as the tables have it: words of 32 bits in the machine's order, in hexadecimal digits.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(digits.get(at..at + 8)?, 16).ok();
    let ip = match digits.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (index, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(8 * index)?.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_accepted_once_a_program_has_it() {
        let own = File::open("/proc/self/ns/net").unwrap();
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else {
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let names = (client.peer_addr().unwrap(), client.local_addr().unwrap());
            assert_eq!(connections(&own).unwrap().get(&names), Some(&false));
            let _server = listener.accept().unwrap();
            assert_eq!(connections(&own).unwrap().get(&names), Some(&true));
        }
    }

    #[test]
    fn open_sockets_are_in_their_table_and_closed_ones_are_not() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        use std::os::unix::net::UnixStream;
        let (one, other) = UnixStream::pair().unwrap();
        let inode = |socket: &UnixStream| {
            let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
            fs::metadata(path).unwrap().ino()
        };
        let (first, second) = (inode(&one), inode(&other));
        let open = unix_inodes().unwrap();
        assert!(open.contains(&first) && open.contains(&second));
        drop(one);
        let open = unix_inodes().unwrap();
        assert!(!open.contains(&first) && open.contains(&second));
    }
}
