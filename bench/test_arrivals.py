"""Which packets of a capture are answers."""

import socket
import struct
import unittest

import arrivals


def packet(protocol, payload, options=b"", padding=b""):
    words = 5 + len(options) // 4
    length = words * 4 + len(payload)
    header = struct.pack("!BBHHHBBH", 0x40 | words, 0, length, 0, 0, 64, protocol, 0)
    return header + socket.inet_aton("198.18.0.2") + socket.inet_aton("198.18.0.1") + options + payload + padding


def tcp(payload):
    return struct.pack("!HHIIBBHHH", 7000, 40000, 1, 1, 5 << 4, 16, 100, 0, 0) + payload


class Answers(unittest.TestCase):
    def test_an_echo_reply_has_its_identifier_and_a_request_is_none(self):
        reply = struct.pack("!BBHHH", 0, 0, 0, 77, 1)
        self.assertEqual(arrivals.flow_of(packet(arrivals.ICMP, reply)), "198.18.0.2 77")
        self.assertEqual(arrivals.flow_of(packet(arrivals.ICMP, reply, options=bytes(8))), "198.18.0.2 77")
        self.assertIsNone(arrivals.flow_of(packet(arrivals.ICMP, b"\x08" + reply[1:])))
        self.assertIsNone(arrivals.flow_of(packet(arrivals.ICMP, reply[:6])))

    def test_a_bare_acknowledgement_is_no_answer_however_it_is_padded(self):
        self.assertEqual(arrivals.flow_of(packet(arrivals.TCP, tcp(b"x"))), "198.18.0.2 7000 40000")
        self.assertIsNone(arrivals.flow_of(packet(arrivals.TCP, tcp(b""), padding=bytes(6))))
        self.assertIsNone(arrivals.flow_of(packet(17, tcp(b"x"))))


if __name__ == "__main__":
    unittest.main()
