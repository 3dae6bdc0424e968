"""When answers came in at an interface, by the kernel's timestamps: a capture.

    arrivals.py INTERFACE

Prints a line for each IPv4 packet with an ICMP echo reply or with bytes of TCP, until it is killed: the time in ns, and
the sender with its ports or, of ICMP, the identifier.
"""

import select
import socket
import struct
import sys

# Only in Python 3.12 and later does the module name it.
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
ETH_P_IP = 0x0800
PACKET_OUTGOING = 4
ICMP, TCP = 1, 6
ECHO_REPLY = 0
BUFFER_BYTES = 64 << 20
# Lines are written together, at the latest this long after the last packet.
FLUSH_SECONDS = 0.02


def flow_of(packet):
    """The flow of an answer; None for anything else. `packet` begins with its IPv4 header (RFC 791)."""
    header = (packet[0] & 15) * 4
    length = struct.unpack_from("!H", packet, 2)[0]
    rest = packet[header:length]
    sender = socket.inet_ntoa(packet[12:16])
    if packet[9] == ICMP and len(rest) >= 8 and rest[0] == ECHO_REPLY:
        return f"{sender} {struct.unpack_from('!H', rest, 4)[0]}"
    if packet[9] == TCP and len(rest) > (rest[12] >> 4) * 4:
        source, destination = struct.unpack_from("!HH", rest)
        return f"{sender} {source} {destination}"
    return None


def main():
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    sock.bind((sys.argv[1], ETH_P_IP))
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    while True:
        if not select.select([sock], [], [], FLUSH_SECONDS)[0]:
            sys.stdout.flush()
            continue
        packet, ancillary, _, address = sock.recvmsg(2048, 64)
        flow = None if address[2] == PACKET_OUTGOING else flow_of(packet)
        stamps = [data for _level, kind, data in ancillary if kind == SO_TIMESTAMPNS]
        if flow and stamps:
            seconds, nanoseconds = struct.unpack("=qq", stamps[0][:16])
            print(seconds * 1_000_000_000 + nanoseconds, flow)


if __name__ == "__main__":
    main()
