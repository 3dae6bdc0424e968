#!/usr/bin/python3 -B
"""Both ends of a TCP connection on which numbers go to and fro, for bench/container-moves.

    sequence.py serve MEGABYTES idle|write   takes one connection and sends back what comes
    sequence.py ask ADDRESS                  a number each millisecond; a line of input is answered by the longest
                                            silence since the last one in ms, and how many were sent and came back

Numbers have to come back once and in order, or the asking end says so and ends with 2.
"""

import select
import socket
import struct
import sys
import threading
import time

PORT = 7777
PAGE = 4096
RATE = 1000
NUMBER = struct.Struct(">Q")


def serve(megabytes, writes):
    memory = bytearray(megabytes << 20)
    for at in range(0, len(memory), PAGE):
        memory[at] = 1
    if writes:
        # The connection does not wait for the writer.
        sys.setswitchinterval(0.0002)
        threading.Thread(target=write, args=(memory,), daemon=True).start()
    with socket.create_server(("", PORT)) as server:
        connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while taken := connection.recv(PAGE):
        connection.sendall(taken)


def write(memory):
    value = 0
    while True:
        value = (value + 1) % 256
        for at in range(0, len(memory), PAGE):
            memory[at] = value
            if at % (1 << 20) == 0:
                time.sleep(0.0005)


class Asker:
    def __init__(self, address):
        self.connection = socket.create_connection((address, PORT))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.setblocking(False)
        self.sent = self.back = 0
        self.out = self.rest = b""
        self.begin = self.last = time.monotonic()
        self.silence = 0.0

    def send(self):
        due = int((time.monotonic() - self.begin) * RATE)
        while self.sent < due:
            self.out += NUMBER.pack(self.sent)
            self.sent += 1
        if self.out:
            try:
                self.out = self.out[self.connection.send(self.out) :]
            except BlockingIOError:
                pass

    def take(self):
        taken = self.connection.recv(1 << 16)
        if not taken:
            sys.exit("the connection was closed")
        now = time.monotonic()
        self.silence, self.last = max(self.silence, now - self.last), now
        self.rest += taken
        while len(self.rest) >= NUMBER.size:
            (number,) = NUMBER.unpack_from(self.rest)
            self.rest = self.rest[NUMBER.size :]
            if number != self.back:
                print(f"number {number} came when {self.back} was due", file=sys.stderr)
                sys.exit(2)
            self.back += 1

    def run(self):
        print("connected", flush=True)
        while True:
            self.send()
            until = self.begin + (self.sent + 1) / RATE - time.monotonic()
            ready, _, _ = select.select([self.connection, sys.stdin], [], [], max(0, until))
            if self.connection in ready:
                self.take()
            if sys.stdin in ready:
                if not sys.stdin.readline():
                    return
                print(f"{self.silence * 1e3:.3f} {self.sent} {self.back}", flush=True)
                self.silence = 0.0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", megabytes, ("idle" | "write") as how]:
            serve(int(megabytes), how == "write")
        case ["ask", address]:
            Asker(address).run()
        case _:
            sys.exit(__doc__)
