"""Connections of which each side does something else each time, drawn from a seed.

    interleavings.py server|client ADDRESS SEED ROUNDS DIRECTORY

Each round has a process of its own on each side, and a line of JSON that says what it saw. A byte's value follows from its
place, so that a prefix is told from other bytes.
"""

import contextlib
import errno
import json
import os
import random
import signal
import socket
import struct
import sys
import time

AT_ONCE = 12
FIRST_PORT = 10_000
PATTERN = bytes(at % 251 for at in range(1 << 17))


class Side:
    def __init__(self, seed, number, role):
        self.random = random.Random(f"{seed} {number} {role}")
        self.said = {"round": number, "sent": 0, "received": 0, "right": True, "slowest": 0.0, "end": "", "saw": ""}

    def timed(self, call, *arguments):
        begin = time.monotonic()
        try:
            return call(*arguments)
        finally:
            took = time.monotonic() - begin
            self.said["slowest"] = max(self.said["slowest"], took)

    def pause(self):
        if self.random.random() < 0.5:
            time.sleep(self.random.choice([0, 0.0001, 0.001, 0.01, 0.1]))

    def send(self, conn):
        for _ in range(self.random.choice([0, 1, 1, 3])):
            wanted = self.random.choice([1, 100, 5000, 20_000])
            at = self.said["sent"]
            self.timed(conn.sendall, PATTERN[at : at + wanted])
            self.said["sent"] += wanted
            self.pause()

    def receive(self, conn, most=1 << 30):
        while self.said["received"] < most:
            data = self.timed(conn.recv, self.random.choice([100, 1 << 16]))
            if not data:
                self.said["saw"] = "end"
                return
            at = self.said["received"]
            self.said["right"] &= data == PATTERN[at : at + len(data)]
            self.said["received"] += len(data)

    def talk(self, conn):
        """Both sides send before they read, so what is sent has to fit the buffers of a plain connection."""
        conn.settimeout(20)
        self.pause()
        self.send(conn)
        self.said["end"] = self.random.choice(["shut", "shut", "shut", "close", "reset", "killed", "unread"])
        if self.said["end"] == "reset":
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self.said["end"] == "killed":
            self.tell()
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.said["end"] == "shut":
            conn.shutdown(socket.SHUT_WR)
            self.receive(conn)
        elif self.said["end"] == "unread":
            conn.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                self.receive(conn, self.random.choice([1, 5000]))
        conn.close()

    def tell(self):
        os.write(1, (json.dumps(self.said) + "\n").encode())

    def run(self, act):
        try:
            act()
        except OSError as error:
            self.said["saw"] = error.__class__.__name__
        self.tell()


def client(side, address, port):
    conn = socket.socket()
    if side.random.random() < 0.3:
        conn.setblocking(False)
        try:
            side.timed(conn.connect, (address, port))
        except BlockingIOError:
            pass
        if side.random.random() < 0.3:
            # Given up while it is being made.
            side.said["end"] = "abandoned"
            conn.close()
            return
        conn.settimeout(20)
        error = side.timed(conn.connect_ex, (address, port))
        if error not in (0, errno.EISCONN):
            raise OSError(error, os.strerror(error))
    else:
        side.timed(conn.connect, (address, port))
    side.talk(conn)


def server(side, listener):
    manner = side.random.choice(["accept"] * 6 + ["late", "close", "killed"])
    if manner == "late":
        time.sleep(0.3)
    elif manner == "close":
        side.pause()
        side.said["end"] = "not accepted"
        listener.close()
        return
    elif manner == "killed":
        side.pause()
        side.said["end"] = "killed"
        side.tell()
        os.kill(os.getpid(), signal.SIGKILL)
    # The client may have given up.
    listener.settimeout(1)
    conn = listener.accept()[0]
    if side.random.random() < 0.5:
        listener.close()
    side.talk(conn)


def in_process(act, listeners, own):
    """Does something in a process that has no other's listening socket."""
    process = os.fork()
    if process == 0:
        try:
            for listener in listeners:
                if listener is not own:
                    listener.close()
            act()
        finally:
            os._exit(0)
    return process


def batch(role, address, seed, numbers, reach):
    """Processes of some rounds. All servers listen before a client comes."""
    sides = [Side(seed, number, role) for number in numbers]
    listeners = []
    if role == "server":
        for number in numbers:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("0.0.0.0", FIRST_PORT + number))
            listener.listen()
            listeners.append(listener)
        processes = []
        for side, listener in zip(sides, listeners):
            processes.append(in_process(lambda: side.run(lambda: server(side, listener)), listeners, listener))
            listener.close()
        reach("server", numbers[0])
    else:
        reach.until("server", numbers[0])
        act = lambda side, number: side.run(lambda: client(side, address, FIRST_PORT + number))
        processes = [in_process(lambda: act(*pair), [], None) for pair in zip(sides, numbers)]
    for process in processes:
        os.waitpid(process, 0)
    reach(f"{role} after", numbers[0])
    other = "client" if role == "server" else "server"
    reach.until(f"{other} after", numbers[0])


class Reach:
    """What both sides have reached, as files of a directory."""

    def __init__(self, directory):
        self.directory = directory

    def __call__(self, what, number):
        open(f"{self.directory}/{what} {number}", "w").close()

    def until(self, what, number):
        while not os.path.exists(f"{self.directory}/{what} {number}"):
            time.sleep(0.002)


def main():
    role, address, seed, rounds, directory = sys.argv[1:6]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    print("ready", flush=True)
    numbers = range(int(rounds))
    for first in numbers[::AT_ONCE]:
        batch(role, address, seed, numbers[first : first + AT_ONCE], Reach(directory))
    print("well", flush=True)


main()
