//! TCP connections of a network namespace that no descriptor stands for (kernel: networking/proc_net_tcp).

use std::fs;

use super::Error;
use super::file::if_there;

/// Numbers of connections that only the kernel has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kernels {
    /// Those that are being made, and those that no program has accepted.
    pub incoming: usize,
    /// Those that their programs have closed and whose bytes, or end, the peer has not acknowledged.
    pub closing: usize,
}

/// `include/net/tcp_states.h`.
const FIN_WAIT1: u8 = 4;
const LAST_ACK: u8 = 9;
const LISTEN: u8 = 10;
const CLOSING: u8 = 11;
/// A handshake without a socket yet (`TCP_NEW_SYN_RECV`), shown as SYN_RECV.
const SYN_RECV: u8 = 3;

/// The connections of the namespace that this process is in.
pub fn of_process(pid: u32) -> Result<Kernels, Error> {
    let mut all = Kernels::default();
    for table in ["tcp", "tcp6"] {
        let path = format!("/proc/{pid}/net/{table}");
        // A kernel without IPv6 has one table.
        let text = if_there(fs::read_to_string(&path)).map_err(Error::of("read", &path))?;
        count(&text.unwrap_or_default(), &mut all);
    }
    Ok(all)
}

/// Whether programs have closed connections that the kernel goes on with, in any namespace: a glance, where
/// [`of_process`] goes through the table of all connections.
pub fn has_orphans() -> bool {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("TCP:"));
    !line.is_some_and(|line| line.contains(" orphan 0 "))
}

fn count(table: &str, all: &mut Kernels) {
    for line in table.lines().skip(1) {
        let mut words = line.split_whitespace().skip(3);
        let (state, queues) = (words.next(), words.next());
        let inode = words.nth(4);
        let (Some(state), Some(queues), Some(inode)) = (state, queues, inode) else {
            continue;
        };
        let Ok(state) = u8::from_str_radix(state, 16) else {
            continue;
        };
        match state {
            // The second queue of a listening socket counts connections.
            LISTEN => {
                let waiting = queues.split_once(':').unwrap_or_default().1;
                all.incoming += usize::from_str_radix(waiting, 16).unwrap_or(0);
            }
            SYN_RECV => all.incoming += 1,
            FIN_WAIT1 | LAST_ACK | CLOSING if inode == "0" => all.closing += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_without_a_descriptor_are_counted() {
        let line = |state: &str, queues: &str, inode: &str| {
            format!(
                "   0: 0100007F:1A0A 0100007F:8D2C {state} {queues} 01:00000014 00000000     0        0 {inode} 2 0 20 4 30 10 -1\n"
            )
        };
        let mut text = "  sl  local_address rem_address   st tx_queue rx_queue\n".to_owned();
        text += &line("0A", "00000000:00000000", "7");
        text += &line("0A", "00000000:00000002", "8");
        text += &line("03", "00000000:00000000", "0");
        // Open ones, one that waits for the peer's end alone, and one whose program has it yet.
        text += &line("01", "00000010:00000000", "9");
        text += &line("05", "00000000:00000000", "0");
        text += &line("04", "00000010:00000000", "10");
        text += &line("04", "00000010:00000000", "0");
        text += &line("09", "00000000:00000000", "0");
        text += &line("0B", "00000000:00000000", "0");
        let mut all = Kernels::default();
        count(&text, &mut all);
        assert_eq!((all.incoming, all.closing), (3, 3));
    }
}
