"""Connections that come and go, each of whose bytes are checked in both directions.

    flows.py serve ADDRESS            three servers: of threads, of an event loop, of a process for each connection
    flows.py call ADDRESS STOP SEED   clients of four manners, until the file STOP is there
"""

import asyncio
import hashlib
import os
import random
import select
import signal
import socket
import struct
import sys
import threading
import time

THREADS, EVENTS, PROCESSES = 7001, 7002, 7003


def echo(conn):
    """Sends back what comes, slower than it comes at times, and its digest at the end."""
    digest = hashlib.sha256()
    pause = random.Random(conn.fileno())
    while data := conn.recv(1 << 16):
        digest.update(data)
        conn.sendall(data)
        if pause.random() < 0.05:
            time.sleep(0.01)
    conn.sendall(digest.digest())
    conn.close()


def serve_threads(address):
    listener = socket.create_server((address, THREADS))
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()


async def answer(reader, writer):
    digest = hashlib.sha256()
    while data := await reader.read(1 << 16):
        digest.update(data)
        writer.write(data)
        await writer.drain()
    writer.write(digest.digest())
    await writer.drain()
    writer.close()


async def serve_events(address):
    server = await asyncio.start_server(answer, address, EVENTS)
    await server.serve_forever()


def serve_processes(address):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.create_server((address, PROCESSES))
    while True:
        conn = listener.accept()[0]
        if os.fork() == 0:
            listener.close()
            echo(conn)
            os._exit(0)
        conn.close()


def serve(address):
    if os.fork() == 0:
        serve_processes(address)
    threading.Thread(target=serve_threads, args=(address,), daemon=True).start()
    print("ready", flush=True)
    asyncio.run(serve_events(address))


class Flow:
    """What one connection sends and has yet to get back."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.left = self.random.randrange(20, 120)
        self.digest = hashlib.sha256()
        self.back = hashlib.sha256()
        self.sent = self.got = 0
        self.tail = b""

    def piece(self):
        self.left -= 1
        data = self.random.randbytes(self.random.choice([1, 100, 4096, 70_000, 200_000]))
        self.digest.update(data)
        self.sent += len(data)
        return data

    def take(self, data):
        # The last 32 bytes are the server's digest.
        data = self.tail + data
        self.tail, data = data[-32:], data[:-32]
        self.back.update(data)
        self.got += len(data)

    def check(self):
        assert self.got == self.sent, f"{self.got} bytes of {self.sent} came back"
        assert self.back.digest() == self.digest.digest(), "other bytes came back"
        assert self.tail == self.digest.digest(), "other bytes arrived"


def blocking(address, port, flow):
    conn = socket.create_connection((address, port))

    def send():
        while flow.left:
            conn.sendall(flow.piece())
            time.sleep(flow.random.random() / 100)
        conn.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    while data := conn.recv(1 << 16):
        flow.take(data)
    sender.join()


def with_timeouts(address, port, flow):
    """Reads wait in poll(2), writes in the kernel, with an option that the anchor has to be given."""
    conn = socket.create_connection((address, port), 30)
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 30, 0))
    while flow.left:
        data = flow.piece()
        sent = threading.Thread(target=conn.sendall, args=(data,))
        sent.start()
        length = 0
        while length < len(data):
            part = conn.recv(1 << 16)
            length += len(part)
            flow.take(part)
        sent.join()
        time.sleep(flow.random.random() / 100)
    conn.shutdown(socket.SHUT_WR)
    while data := conn.recv(1 << 16):
        flow.take(data)


def edge_triggered(address, port, flow):
    conn = socket.create_connection((address, port))
    conn.setblocking(False)
    events = select.epoll()
    events.register(conn, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET | select.EPOLLRDHUP)
    rest, is_over = b"", False
    while True:
        for _, event in events.poll():
            if event & select.EPOLLIN:
                while True:
                    try:
                        data = conn.recv(1 << 16)
                    except BlockingIOError:
                        break
                    if not data:
                        return
                    flow.take(data)
            if event & select.EPOLLOUT:
                try:
                    while rest or flow.left:
                        rest = rest or flow.piece()
                        rest = rest[conn.send(rest) :]
                except BlockingIOError:
                    continue
                if not is_over:
                    conn.shutdown(socket.SHUT_WR)
                    is_over = True


def slow_reader(address, port, flow):
    """Much waits unread: as much as both buffers take."""
    conn = socket.create_connection((address, port))

    def send():
        while flow.left:
            conn.sendall(flow.piece())
        conn.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(flow.random.random())
    while data := conn.recv(1 << 14):
        flow.take(data)
        time.sleep(0.0002)
    sender.join()


def call(address, stop, seed):
    manners = [blocking, with_timeouts, edge_triggered, slow_reader]
    done = [0, 0]
    failures = []

    def run(number):
        count = 0
        while not os.path.exists(stop) and not failures:
            count += 1
            flow = Flow(f"{seed} {number} {count}")
            manner = manners[number % 4]
            port = [THREADS, EVENTS, PROCESSES][(number + count) % 3]
            try:
                manner(address, port, flow)
                flow.check()
            except (AssertionError, OSError) as error:
                failures.append(f"{manner.__name__} to {port}: {error!r}")
            done[0] += 1
            done[1] += flow.got

    callers = [threading.Thread(target=run, args=(number,)) for number in range(16)]
    for caller in callers:
        caller.start()
    print("ready", flush=True)
    for caller in callers:
        caller.join()
    for failure in failures:
        print(failure)
    print(f"{done[0]} connections, {done[1]} bytes")
    print("failed" if failures else "well", flush=True)


if sys.argv[1] == "serve":
    serve(sys.argv[2])
else:
    call(*sys.argv[2:5])
