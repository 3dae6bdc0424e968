#!/usr/bin/env python3
"""TCP sockets as applications see them: cases whose transcripts are the same on every sound link.

usage: cases.py list
       cases.py server CONTROL_ADDRESS CONTROL_PORT
       cases.py client CONTROL_ADDRESS CONTROL_PORT ADDRESS ADDRESS6 [CASE ...]
       cases.py self [CASE ...]

ADDRESS and ADDRESS6 are the server's, on the link under test. The client prints a JSON line for
each case, with what both sides said. It has no ports of the kernel's choice, no times and no
process ids, so the lines of two links can be compared.

A case is a pair of functions, each run in a process of its own that the end of the case kills with
all that it started. What a function leaves open ends with it. The two wait for each other with
`tell` and `hear`, which go beside the link under test.
"""

import argparse
import asyncio
import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import functools
import http.server
import ipaddress
import itertools
import json
import os
import platform
import random
import resource
import select
import selectors
import signal
import socket
import socketserver
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
import urllib.request
import zlib
from socket import (
    AF_INET,
    AF_INET6,
    IP_TOS,
    IP_TTL,
    IPPROTO_IP,
    IPPROTO_IPV6,
    IPPROTO_TCP,
    IPV6_TCLASS,
    IPV6_UNICAST_HOPS,
    IPV6_V6ONLY,
    MSG_DONTWAIT,
    MSG_ERRQUEUE,
    MSG_MORE,
    MSG_NOSIGNAL,
    MSG_OOB,
    MSG_PEEK,
    MSG_TRUNC,
    MSG_WAITALL,
    SHUT_RD,
    SHUT_RDWR,
    SHUT_WR,
    SO_ACCEPTCONN,
    SO_DOMAIN,
    SO_ERROR,
    SO_KEEPALIVE,
    SO_LINGER,
    SO_OOBINLINE,
    SO_PEERCRED,
    SO_PROTOCOL,
    SO_RCVBUF,
    SO_RCVLOWAT,
    SO_RCVTIMEO,
    SO_REUSEADDR,
    SO_REUSEPORT,
    SO_SNDBUF,
    SO_SNDTIMEO,
    SO_TYPE,
    SOCK_CLOEXEC,
    SOCK_DGRAM,
    SOCK_NONBLOCK,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_CORK,
    TCP_DEFER_ACCEPT,
    TCP_INFO,
    TCP_KEEPCNT,
    TCP_KEEPIDLE,
    TCP_KEEPINTVL,
    TCP_MAXSEG,
    TCP_NODELAY,
    TCP_USER_TIMEOUT,
)

FIRST_PORT = 20000
PORTS_EACH = 4
LIMIT_S = 8
SELF_CONTROL_PORT = 19990

KIB = 1 << 10
MIB = 1 << 20
MOMENT_S = 0.05
MOMENT_MS = 50
LONG_MS = 1000 * LIMIT_S

LINGER = struct.Struct("ii")
TIMEVAL = struct.Struct("ll")
RESET_ON_CLOSE = LINGER.pack(1, 0)
SIOCATMARK = 0x8905
PR_SET_PDEATHSIG = 1

# Those of epoll have the same numbers.
EVENTS = {
    "IN": select.POLLIN,
    "PRI": select.POLLPRI,
    "OUT": select.POLLOUT,
    "ERR": select.POLLERR,
    "HUP": select.POLLHUP,
    "RDHUP": select.POLLRDHUP,
}
ALL_EVENTS = sum(EVENTS.values())

CASES = {}


@dataclasses.dataclass
class Side:
    """What a side of a case is given: the server's addresses, its first port, and two pipes."""

    address: str
    address6: str
    port: int
    mouth: int = -1
    ear: int = -1


side: Side


# Parts of cases: the other side.


def case(server):
    """Registers a function as the client of a case of its name, beside this server."""

    def register(client):
        CASES[client.__name__] = (client, server)
        return client

    return register


def utter(**message):
    os.write(side.mouth, json.dumps(message).encode() + b"\n")


def say(*words):
    """Adds a line to the transcript."""
    utter(say=" ".join(shown(word) for word in words))


def ready():
    """Lets the client begin."""
    utter(ready=True)


def tell():
    """Lets the other side's next `hear` return."""
    utter(tell=True)


def hear():
    os.read(side.ear, 1)


def shown(word):
    if isinstance(word, bytes):
        return ascii(word)[1:] if len(word) <= 64 else f"{len(word)} bytes {zlib.crc32(word):08x}"
    return str(word)


def name_of(number):
    return errno.errorcode.get(number, str(number))


def attempt(call, *arguments):
    """What a call gives, or the name of its error."""
    try:
        result = call(*arguments)
    except OSError as error:
        return name_of(error.errno)
    return "done" if result is None else result


def until(condition):
    """Waits for a condition. The limit of the case is that of the wait."""
    while not condition():
        time.sleep(0.001)


# Parts of cases: processes and threads.


def run(function, *arguments):
    """Runs a function and ends the process."""
    try:
        function(*arguments)
    except BaseException as error:
        traceback.print_exc()
        say("raised", type(error).__name__, name_of(getattr(error, "errno", None)))
    finally:
        os._exit(0)


def fork(function, *arguments):
    pid = os.fork()
    if pid == 0:
        run(function, *arguments)
    return pid


def reap(pid):
    """How a process ended: its exit code, or the number of its signal below 0."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    return reap(pid)


def thread(function, *arguments):
    started = threading.Thread(target=function, args=arguments, daemon=True)
    started.start()
    return started


def thread_raised(raised):
    say("raised", raised.exc_type.__name__, name_of(getattr(raised.exc_value, "errno", None)))


def python(code, *fds, **options):
    """What a new Python prints, which inherits descriptors and has their numbers as arguments."""
    command = [sys.executable, "-ISc", f"import os, socket, sys\n{code}", *map(str, fds)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, **options).stdout.strip()


def catch(number):
    """A list that grows with each signal of this number."""
    caught = []
    signal.signal(number, lambda number, _: caught.append(number))
    return caught


class Alarm(Exception):
    pass


def interrupt_after(seconds):
    """Raises Alarm then, out of whatever the main thread waits in."""

    def ring(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)


# Parts of cases: sockets.


def target(family=AF_INET, offset=0):
    return (side.address if family == AF_INET else side.address6, side.port + offset)


def stream(family=AF_INET, *options):
    sock = socket.socket(family, SOCK_STREAM)
    for option in options:
        sock.setsockopt(*option)
    return sock


def connect(*options, family=AF_INET, offset=0):
    """A connection to the server, with options set before."""
    sock = stream(family, *options)
    sock.connect(target(family, offset))
    return sock


def listen(*options, family=AF_INET, offset=0, address=""):
    listener = stream(family, (SOL_SOCKET, SO_REUSEADDR, 1), *options)
    listener.bind((address, side.port + offset))
    listener.listen(256)
    return listener


def accept(listener):
    return listener.accept()[0]


def welcome(*options, family=AF_INET):
    """Listens, takes one connection, and listens no more."""
    with listen(*options, family=family) as listener:
        ready()
        return accept(listener)


def take(sock, size):
    """This many bytes, or fewer before the end."""
    data = b""
    while len(data) < size and (more := sock.recv(size - len(data))):
        data += more
    return data


def drain(sock):
    """All that comes, and what ends it: EOF or the name of an error."""
    data = bytearray()
    try:
        while more := sock.recv(64 * KIB):
            data += more
    except OSError as error:
        return bytes(data), name_of(error.errno)
    return bytes(data), "EOF"


def ask(sock, data=b"hello"):
    """What an echo gives for some bytes."""
    sock.sendall(data)
    return take(sock, len(data))


def repeat(conn):
    """Sends back what comes, until the end."""
    with conn:
        while data := conn.recv(64 * KIB):
            conn.sendall(data)


def send_until_error(sock, data=b"more", flags=0):
    """The name of the error that sending comes to."""
    while True:
        result = attempt(sock.send, data, flags)
        if isinstance(result, str):
            return result
        time.sleep(0.001)


def send_and_shut(sock, data):
    sock.sendall(data)
    sock.shutdown(SHUT_WR)


def reset(sock):
    """Closes a socket so that the peer is sent a reset."""
    sock.setsockopt(SOL_SOCKET, SO_LINGER, RESET_ON_CLOSE)
    sock.close()


def payload(size):
    return random.Random(size).randbytes(size)


def error_of(sock):
    return name_of(sock.getsockopt(SOL_SOCKET, SO_ERROR))


def number(sock, request):
    """The number that an ioctl gives."""
    return struct.unpack("i", fcntl.ioctl(sock, request, bytes(4)))[0]


def unread(sock):
    return number(sock, termios.FIONREAD)


def at_mark(sock):
    return number(sock, SIOCATMARK)


def wait_unread(sock, size):
    until(lambda: unread(sock) >= size)


def events_of(bits):
    return "|".join(name for name, bit in EVENTS.items() if bits & bit) or "none"


def events(sock, timeout_ms=0, mask=ALL_EVENTS):
    """What poll() says of a socket."""
    poll = select.poll()
    poll.register(sock, mask)
    return events_of(sum(bits for _, bits in poll.poll(timeout_ms)))


def epoll_events(epoll, timeout_ms=LONG_MS):
    return events_of(sum(bits for _, bits in epoll.poll(timeout_ms / 1000)))


def timeout_option(option, seconds):
    return (SOL_SOCKET, option, TIMEVAL.pack(int(seconds), round(seconds % 1 * 1_000_000)))


def get_timeout(sock, option):
    seconds, microseconds = TIMEVAL.unpack(sock.getsockopt(SOL_SOCKET, option, TIMEVAL.size))
    return seconds + microseconds / 1_000_000


def get_linger(sock):
    return LINGER.unpack(sock.getsockopt(SOL_SOCKET, SO_LINGER, LINGER.size))


def waited(seconds, call, *arguments):
    """What an attempt gives, and whether it took this long."""
    before = time.monotonic()
    result = attempt(call, *arguments)
    return f"{shown(result)} after the time: {time.monotonic() - before > 0.9 * seconds}"


# Parts of cases: the C library, for calls that Python hides.

libc = ctypes.CDLL(None, use_errno=True)


def call_c(function, *arguments):
    result = getattr(libc, function)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), function)
    return result


def raw_connect(sock, address):
    call_c("connect", sock.fileno(), address, len(address))


def raw_address(family, port, address):
    packed = socket.inet_pton(family, address)
    if family == AF_INET:
        return struct.pack("=H", family) + struct.pack("!H4s8x", port, packed)
    return struct.pack("=H", family) + struct.pack("!HI16sI", port, 0, packed, 0)


class EpollEvent(ctypes.Structure):
    _pack_ = 4 if platform.machine() == "x86_64" else 8
    _fields_ = [("events", ctypes.c_uint32), ("data", ctypes.c_uint64)]


def epoll_control(epoll, operation, sock, bits, data):
    event = EpollEvent(bits, data)
    call_c("epoll_ctl", epoll.fileno(), operation, sock.fileno(), ctypes.byref(event))


def epoll_wait(epoll, timeout_ms=LONG_MS):
    """The next event and its data, or none."""
    event = EpollEvent()
    if call_c("epoll_wait", epoll.fileno(), ctypes.byref(event), 1, timeout_ms) == 0:
        return "none"
    return f"{events_of(event.events)} {event.data:#x}"


# Servers of many cases.


def nobody():
    """Listens on no port."""
    ready()


def echo():
    """Takes one connection and sends back what comes."""
    repeat(welcome())


def echo6():
    repeat(welcome(family=AF_INET6))


def echoes():
    """Takes connections for ever, each in a thread."""
    listener = listen()
    ready()
    while True:
        thread(repeat, accept(listener))


def echoes_until_told():
    thread(echoes)
    hear()


def sink():
    """Takes one connection and says all that comes."""
    say(*drain(welcome()))


def greeter():
    """Greets one connection and waits for its end."""
    conn = welcome()
    conn.sendall(b"hello")
    say(*drain(conn))


def speaker(words=2):
    """Sends a word each time it is told to."""
    conn = welcome()
    for word in (b"one", b"two")[:words]:
        hear()
        conn.sendall(word)
    say(*drain(conn))


def stayer():
    """Takes one connection and reads when told."""
    conn = welcome()
    hear()
    say(*drain(conn))


def leaver():
    """Takes one connection and closes it."""
    welcome().close()
    tell()


def resetter():
    """Takes one connection and resets it when told."""
    conn = welcome()
    hear()
    reset(conn)
    tell()


def full_table():
    """Accepts a connection when it has a descriptor for it."""
    listener = listen()
    ready()
    until(lambda: "IN" in events(listener))
    free = os.dup(0)
    os.close(free)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, most))
    for _ in range(2):
        say(attempt(accept, listener), events(listener))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, most))
    repeat(accept(listener))


# Connecting.


@case(full_table)
def accept_without_descriptor():
    """A connection waits, and poll() tells it, while the server has no descriptor for it."""
    say(ask(connect()))


@case(nobody)
def refused():
    """Without a listener, connect() gives ECONNREFUSED."""
    say(attempt(stream().connect, target()))


@case(nobody)
def refused_v6():
    """Without a listener, connect() gives ECONNREFUSED over IPv6 too."""
    say(attempt(stream(AF_INET6).connect, target(AF_INET6)))


@case(echo)
def refused_then_connected():
    """A socket that was refused can connect elsewhere."""
    sock = stream()
    say(attempt(sock.connect, target(offset=1)))
    say(attempt(sock.connect, target()))
    say(ask(sock))


def other_address_server():
    listener = listen(address="127.0.0.9")
    ready()
    hear()
    say(events(listener))


@case(other_address_server)
def other_address():
    """A listener on another address does not get the connection."""
    say(attempt(stream().connect, target()))
    tell()


@case(echo)
def wrong_family():
    """An address of another family gives EAFNOSUPPORT, one too short EINVAL, without harm."""
    four = raw_address(AF_INET, *reversed(target()))
    six = raw_address(AF_INET6, *reversed(target(AF_INET6)))
    sock, sock6 = stream(), stream(AF_INET6)
    say(attempt(raw_connect, sock, six))
    say(attempt(raw_connect, sock, four[:8]))
    say(attempt(raw_connect, sock6, four))
    say(attempt(raw_connect, sock6, four + bytes(12)))
    say(attempt(raw_connect, sock, four))
    say(ask(sock))


@case(echo)
def connect_twice():
    """A second connect() gives EISCONN, to the same address and to another."""
    sock = connect()
    say(attempt(sock.connect, target()))
    say(attempt(sock.connect, target(offset=1)))
    say(ask(sock))


@case(echo)
def connect_listening():
    """A listening socket cannot connect: EISCONN."""
    listener = stream()
    listener.listen()
    say(attempt(listener.connect, target()))
    say(ask(connect()))


def disconnected_server():
    listener = listen()
    ready()
    with accept(listener) as conn:
        say(*drain(conn))
    repeat(accept(listener))


@case(disconnected_server)
def disconnect():
    """A connect() to AF_UNSPEC resets the connection, and the socket can connect anew."""
    sock = connect()
    sock.sendall(b"hello")
    until(lambda: number(sock, termios.TIOCOUTQ) == 0)
    say(attempt(raw_connect, sock, bytes(16)))
    say(attempt(sock.getpeername))
    say(attempt(sock.connect, target()))
    say(error_of(sock))
    say(ask(sock))


def full_server():
    """Takes a second connection only when told."""
    listener = stream(AF_INET, (SOL_SOCKET, SO_REUSEADDR, 1))
    listener.bind(("", side.port))
    listener.listen(0)
    ready()
    hear()
    first, second = accept(listener), accept(listener)
    say(*drain(second))
    first.close()


@case(full_server)
def number_taken():
    """A file that gets the number of a socket whose connect() still waits is left alone."""
    first, sock, results = connect(), stream(), []
    waiting = thread(lambda: results.append(attempt(sock.connect, target())))
    until(lambda: sock.getsockopt(IPPROTO_TCP, TCP_INFO, 1) == b"\2")
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), sock.fileno())
        tell()
        waiting.join()
        say(results, stat.S_ISREG(os.fstat(sock.fileno()).st_mode))
        os.write(sock.fileno(), b"log")
        say(os.pread(file.fileno(), 100, 0))
    say(*drain(first))


def begin_connect(sock):
    sock.setblocking(False)
    say(attempt(sock.connect, target()))


def finish_connect(sock):
    """Does what applications do when they learn that a connect is done."""
    say("SO_ERROR", error_of(sock))
    say(attempt(sock.connect, target()))
    say(attempt(sock.connect, target()))
    sock.setblocking(True)
    say(ask(sock))


@case(echo)
def nonblocking_select():
    """select() says that a connect is done by writability; connect() then gives 0, then EISCONN."""
    sock = stream()
    begin_connect(sock)
    readable, writable, other = select.select([sock], [sock], [sock], LIMIT_S)
    say(len(readable), len(writable), len(other))
    finish_connect(sock)


@case(echo)
def nonblocking_poll():
    """poll() says that a connect is done by POLLOUT."""
    sock = stream()
    begin_connect(sock)
    say(events(sock, LONG_MS))
    finish_connect(sock)


@case(echo)
def nonblocking_epoll_level():
    """A level-triggered epoll says EPOLLOUT|EPOLLHUP before, and EPOLLOUT after, each time."""
    sock, epoll = stream(), select.epoll()
    epoll.register(sock, select.EPOLLIN | select.EPOLLOUT)
    say(epoll_events(epoll))
    begin_connect(sock)
    say(epoll_events(epoll))
    say(epoll_events(epoll))
    finish_connect(sock)


@case(echo)
def nonblocking_epoll_edge_before():
    """An edge-triggered epoll that knew the socket before says once that it is connected."""
    sock, epoll = stream(), select.epoll()
    epoll.register(sock, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    say(epoll_events(epoll))
    begin_connect(sock)
    say(epoll_events(epoll))
    say(epoll_events(epoll, MOMENT_MS))
    finish_connect(sock)


@case(echo)
def nonblocking_epoll_edge_after():
    """An edge-triggered epoll that learns of the socket after connect() says so once."""
    sock, epoll = stream(), select.epoll()
    begin_connect(sock)
    epoll.register(sock, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    say(epoll_events(epoll))
    say(epoll_events(epoll, MOMENT_MS))
    finish_connect(sock)


@case(nobody)
def nonblocking_refused():
    """A refusal shows as POLLERR and in SO_ERROR, once; connect() then says ECONNABORTED, once."""
    sock = stream()
    begin_connect(sock)
    say(events(sock, LONG_MS))
    say(error_of(sock))
    say(error_of(sock))
    say(attempt(sock.connect, target()))
    say(attempt(sock.connect, target()))


@case(nobody)
def nonblocking_refused_connect():
    """A refusal that SO_ERROR was not asked for is what the next connect() gives."""
    sock = stream()
    begin_connect(sock)
    until(lambda: "ERR" in events(sock))
    say(attempt(sock.connect, target()))
    say(error_of(sock))


@case(echo)
def connect_with_send_timeout():
    """SO_SNDTIMEO, which limits connect() too, is kept."""
    sock = connect(timeout_option(SO_SNDTIMEO, 2.5))
    say(get_timeout(sock, SO_SNDTIMEO))
    say(ask(sock))


@case(echo)
def connect_with_python_timeout():
    """Python's timeouts make the socket non-blocking and poll."""
    with socket.create_connection(target(), timeout=LIMIT_S) as sock:
        say(ask(sock))
        sock.settimeout(MOMENT_S)
        try:
            sock.recv(1)
        except TimeoutError:
            say("timed out")


def source_port_server():
    conn = welcome()
    say(conn.getpeername()[1] == side.port + 2)
    conn.sendall(b"seen")
    say(*drain(conn))


@case(source_port_server)
def source_port():
    """The server sees the port that the client is bound to."""
    sock = stream(AF_INET, (SOL_SOCKET, SO_REUSEADDR, 1))
    sock.bind(("", side.port + 2))
    sock.connect(target())
    say(take(sock, 4))
    say(sock.getsockname()[1] == side.port + 2)
    # This leaves nothing behind that would keep the next run from the port.
    reset(sock)


def names_server(family=AF_INET):
    """Sends the names of the accepted socket, and says if they outlive the connection."""
    with listen(family=family) as listener:
        ready()
        conn, peer = listener.accept()
    names = conn.getsockname(), conn.getpeername()
    say("accept() gives the peer's name:", peer == names[1])
    conn.sendall(json.dumps(names).encode())
    conn.shutdown(SHUT_WR)
    say(*drain(conn))
    say("the same local name after the end:", conn.getsockname() == names[0])
    say("peer after the end:", attempt(conn.getpeername))


def plain(name):
    """An address and port, without what tells that it is IPv4 in IPv6."""
    address = ipaddress.ip_address(name[0])
    return getattr(address, "ipv4_mapped", None) or address, name[1]


def compare_names(sock):
    """Says how the names at both ends compare, and if they outlive the peer's end."""
    names = sock.getsockname(), sock.getpeername()
    data, _ = drain(sock)
    theirs, mine = json.loads(data)
    say("the same names after the peer's end:", names == (sock.getsockname(), sock.getpeername()))
    say("own name:", plain(sock.getsockname()) == plain(mine))
    say("peer's name:", plain(sock.getpeername()) == plain(theirs))
    say("peer's port is the listener's:", sock.getpeername()[1] == side.port)
    for name in (sock.getsockname(), sock.getpeername(), mine, theirs):
        say("mapped:", name[0].startswith("::ffff:"), *name[2:])
    sock.close()


@case(names_server)
def names_v4():
    """getsockname() and getpeername() agree at both ends."""
    compare_names(connect())


@case(functools.partial(names_server, AF_INET6))
def names_v6():
    """The names agree over IPv6 too."""
    compare_names(connect(family=AF_INET6))


@case(functools.partial(names_server, AF_INET6))
def names_mapped_server():
    """An IPv6 listener sees an IPv4 client by a mapped address."""
    compare_names(connect())


@case(names_server)
def names_mapped_client():
    """An IPv6 socket reaches an IPv4 listener by a mapped address."""
    sock = stream(AF_INET6)
    sock.connect((f"::ffff:{side.address}", side.port))
    compare_names(sock)


@case(names_server)
def names_bound():
    """A client that is bound to its own address and any port keeps both."""
    with socket.socket(AF_INET, SOCK_DGRAM) as probe:
        probe.connect(target())
        own = probe.getsockname()[0]
    sock = stream()
    sock.bind((own, 0))
    bound = sock.getsockname()
    sock.connect(target())
    say(sock.getsockname() == bound)
    compare_names(sock)


@case(resetter)
def names_after_reset():
    """After a reset there is no peer: ENOTCONN. The own name stays."""
    sock = connect()
    own = sock.getsockname()
    tell()
    hear()
    say(*drain(sock))
    say(attempt(sock.getpeername))
    say(sock.getsockname() == own)


@case(nobody)
def unconnected():
    """A fresh socket has no peer: ENOTCONN, and EPIPE for a send."""
    sock = stream()
    say(sock.getsockname())
    say(attempt(sock.getpeername))
    say(attempt(sock.recv, 1))
    say(attempt(sock.send, b"a"))
    say(attempt(sock.shutdown, SHUT_WR))
    say(events(sock))


@case(echo)
def misuse():
    """A connected socket can neither be bound, nor listen, nor accept: EINVAL."""
    sock = connect()
    say(attempt(sock.bind, ("", 0)))
    say(attempt(sock.listen))
    say(attempt(sock.accept))
    say(attempt(sock.shutdown, 7))
    say(attempt(os.lseek, sock.fileno(), 0, os.SEEK_CUR))
    say(ask(sock))


def families_server():
    four = listen()
    six = listen((IPPROTO_IPV6, IPV6_V6ONLY, 1), family=AF_INET6)
    ready()
    for listener in (four, six):
        say(take(accept(listener), 1))


@case(families_server)
def two_families():
    """Listeners of both families at one port get the connections of their own."""
    for family, data in ((AF_INET6, b"6"), (AF_INET, b"4")):
        connect(family=family).sendall(data)


def chosen_port_server():
    listener = stream()
    listener.listen()
    conn = welcome()
    conn.sendall(b"%d" % listener.getsockname()[1])
    conn.close()
    repeat(accept(listener))


@case(chosen_port_server)
def chosen_port():
    """A listener that was not bound has a port that the kernel chose, and is reached there."""
    port, _ = drain(connect())
    sock = stream()
    sock.connect((side.address, int(port)))
    say(ask(sock))


def connect_back_server():
    conn = welcome()
    back = stream()
    back.connect((conn.getpeername()[0], side.port + 1))
    back.sendall(b"data")
    say(*drain(conn))


@case(connect_back_server)
def connect_back():
    """The server can connect to a listener of the client."""
    listener = listen(offset=1)
    sock = connect()
    conn, peer = listener.accept()
    say(peer[0] == side.address)
    say(take(conn, 4))
    sock.sendall(b"control")


@case(nobody)
def connect_self():
    """A socket that connects to its own name is connected to itself."""
    name = ("127.0.0.1", side.port + 3)
    sock = stream(AF_INET, (SOL_SOCKET, SO_REUSEADDR, 1))
    sock.bind(name)
    sock.connect(name)
    say(sock.getpeername() == sock.getsockname())
    say(ask(sock))
    # This leaves nothing behind that would keep the next run from the port.
    reset(sock)


# Options.


def kinds(sock):
    return [
        sock.getsockopt(SOL_SOCKET, option)
        for option in (SO_DOMAIN, SO_TYPE, SO_PROTOCOL, SO_ACCEPTCONN)
    ]


def kinds_server():
    listeners = [listen(), listen(family=AF_INET6, offset=1)]
    ready()
    for listener in listeners:
        say("listening", *kinds(listener))
        conn = accept(listener)
        say("accepted", *kinds(conn))
        say(*drain(conn))


@case(kinds_server)
def option_kinds():
    """SO_DOMAIN, SO_TYPE, SO_PROTOCOL and SO_ACCEPTCONN tell of a TCP socket."""
    for family in (AF_INET, AF_INET6):
        say("fresh", *kinds(stream(family)))
        say("connected", *kinds(connect(family=family, offset=int(family == AF_INET6))))


OPTIONS = {
    "TCP_NODELAY": (IPPROTO_TCP, TCP_NODELAY, 1),
    "TCP_KEEPIDLE": (IPPROTO_TCP, TCP_KEEPIDLE, 77),
    "TCP_KEEPINTVL": (IPPROTO_TCP, TCP_KEEPINTVL, 11),
    "TCP_KEEPCNT": (IPPROTO_TCP, TCP_KEEPCNT, 3),
    "TCP_USER_TIMEOUT": (IPPROTO_TCP, TCP_USER_TIMEOUT, 12345),
    "SO_KEEPALIVE": (SOL_SOCKET, SO_KEEPALIVE, 1),
    "SO_OOBINLINE": (SOL_SOCKET, SO_OOBINLINE, 1),
    "SO_REUSEADDR": (SOL_SOCKET, SO_REUSEADDR, 1),
    "SO_RCVLOWAT": (SOL_SOCKET, SO_RCVLOWAT, 3),
    "SO_LINGER": (SOL_SOCKET, SO_LINGER, LINGER.pack(1, 5)),
    "SO_RCVTIMEO": timeout_option(SO_RCVTIMEO, 5.5),
}
OPTIONS_V4 = {
    "IP_TOS": (IPPROTO_IP, IP_TOS, 0x10),
    "IP_TTL": (IPPROTO_IP, IP_TTL, 33),
}
OPTIONS_V6 = {
    "IPV6_TCLASS": (IPPROTO_IPV6, IPV6_TCLASS, 0x10),
    "IPV6_UNICAST_HOPS": (IPPROTO_IPV6, IPV6_UNICAST_HOPS, 33),
    "IPV6_V6ONLY": (IPPROTO_IPV6, IPV6_V6ONLY, 1),
}


def say_options(sock, options):
    for name, (level, option, value) in options.items():
        if isinstance(value, bytes):
            say(name, sock.getsockopt(level, option, len(value)) == value)
        else:
            say(name, sock.getsockopt(level, option))


@case(echo)
def options_before_connect():
    """Options that are set before connect() are the same after it."""
    options = OPTIONS | OPTIONS_V4
    sock = connect(*options.values())
    say_options(sock, options)
    say(ask(sock))


@case(echo6)
def options_before_connect_v6():
    """So are those of IPv6."""
    sock = connect(*OPTIONS_V6.values(), family=AF_INET6)
    say_options(sock, OPTIONS_V6)
    say(ask(sock))


@case(echo)
def options_after_connect():
    """Options can be set after connect()."""
    options = OPTIONS | OPTIONS_V4
    sock = connect()
    for option in options.values():
        sock.setsockopt(*option)
    say_options(sock, options)
    say(ask(sock))


@case(echo6)
def options_after_connect_v6():
    """So can those of IPv6, but not IPV6_V6ONLY: EINVAL."""
    sock = connect(family=AF_INET6)
    for option in OPTIONS_V6.values():
        say(attempt(sock.setsockopt, *option))
    say_options(sock, OPTIONS_V6)
    say(ask(sock))


def inherited_server():
    conn = welcome(*OPTIONS.values())
    say_options(conn, OPTIONS)
    repeat(conn)


@case(inherited_server)
def options_inherited():
    """An accepted socket has the options of its listener."""
    say(ask(connect()))


@case(echo)
def option_defaults():
    """What is not set has the value of a fresh socket."""
    names = ("TCP_NODELAY", "TCP_USER_TIMEOUT", "SO_KEEPALIVE", "SO_LINGER", "SO_RCVLOWAT")
    sock = connect()
    say_options(sock, {name: OPTIONS[name] for name in names} | OPTIONS_V4)
    say(get_timeout(sock, SO_RCVTIMEO), get_linger(sock), error_of(sock))


@case(echo)
def buffer_sizes():
    """SO_SNDBUF and SO_RCVBUF give twice what was set, before or after connect()."""
    sock = connect((SOL_SOCKET, SO_SNDBUF, 30_000), (SOL_SOCKET, SO_RCVBUF, 40_000))
    say(sock.getsockopt(SOL_SOCKET, SO_SNDBUF), sock.getsockopt(SOL_SOCKET, SO_RCVBUF))
    sock.setsockopt(SOL_SOCKET, SO_SNDBUF, 50_000)
    say(sock.getsockopt(SOL_SOCKET, SO_SNDBUF))
    say(ask(sock))


@case(echo)
def maximum_segment():
    """TCP_MAXSEG can be read."""
    say(connect().getsockopt(IPPROTO_TCP, TCP_MAXSEG) > 500)


def tcp_state(sock):
    return sock.getsockopt(IPPROTO_TCP, TCP_INFO, 1)[0]


@case(echo)
def tcp_info():
    """TCP_INFO says that a connected socket is ESTABLISHED (1), and how a fresh one is (7)."""
    sock = connect()
    say(tcp_state(stream()), tcp_state(sock), len(sock.getsockopt(IPPROTO_TCP, TCP_INFO, 104)))


@case(leaver)
def tcp_info_after_close():
    """TCP_INFO says CLOSE_WAIT (8) when the peer has closed."""
    sock = connect()
    hear()
    say(*drain(sock))
    say(tcp_state(sock))


@case(sink)
def cork():
    """TCP_CORK can be set before connect(), and clearing it sends all."""
    sock = connect((IPPROTO_TCP, TCP_CORK, 1))
    say(sock.getsockopt(IPPROTO_TCP, TCP_CORK))
    sock.sendall(b"one ")
    sock.sendall(b"two")
    sock.setsockopt(IPPROTO_TCP, TCP_CORK, 0)
    say(sock.getsockopt(IPPROTO_TCP, TCP_CORK))


@case(echo)
def peer_credentials():
    """SO_PEERCRED of TCP says process 0 and no user."""
    sock = connect()
    say(*struct.unpack("3i", sock.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)))


@case(greeter)
def receive_timeout():
    """SO_RCVTIMEO that is set before connect() limits recv(): EAGAIN."""
    sock = connect(timeout_option(SO_RCVTIMEO, 0.1))
    say(take(sock, 5))
    say(waited(0.1, sock.recv, 1))


def full_server():
    conn = welcome((SOL_SOCKET, SO_RCVBUF, 20_000))
    hear()
    say(len(conn.recv(1000)))


@case(full_server)
def send_timeout():
    """SO_SNDTIMEO limits send() when nobody reads: EAGAIN."""
    sock = connect((SOL_SOCKET, SO_SNDBUF, 20_000), timeout_option(SO_SNDTIMEO, 0.2))
    data = bytes(MIB)
    while isinstance(attempt(sock.send, data), int):
        pass
    say(waited(0.2, sock.send, data))
    tell()


# Accepting.


@case(echo)
def accept_waits():
    """A blocking accept() waits for a connection."""
    time.sleep(0.1)
    say(ask(connect()))


def accept_flags_server():
    listener = listen()
    ready()
    for flags in (0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC):
        fd = call_c("accept4", listener.fileno(), None, None, flags)
        say_flags(fd)
        os.write(fd, b"a")
    say_flags(call_c("accept", listener.fileno(), None, None))


def say_flags(fd):
    status = fcntl.fcntl(fd, fcntl.F_GETFL)
    say(
        "O_NONBLOCK:",
        bool(status & os.O_NONBLOCK),
        "FD_CLOEXEC:",
        bool(fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC),
        "O_RDWR:",
        status & os.O_ACCMODE == os.O_RDWR,
    )


@case(accept_flags_server)
def accept_flags():
    """accept4() sets the flags that it is told to, accept() none."""
    for sock in [connect() for _ in range(5)]:
        say(*drain(sock))


def accept_nonblocking_server():
    listener = listen()
    listener.setblocking(False)
    ready()
    say(attempt(listener.accept))
    say(events(listener))
    tell()
    say(events(listener, LONG_MS))
    fd = call_c("accept", listener.fileno(), None, None)
    say_flags(fd)
    say(attempt(listener.accept))
    repeat(socket.socket(fileno=fd))


@case(accept_nonblocking_server)
def accept_nonblocking():
    """A non-blocking accept() gives EAGAIN, and an accepted socket does not inherit O_NONBLOCK."""
    hear()
    say(ask(connect()))


def accept_timeout_server():
    listener = listen(timeout_option(SO_RCVTIMEO, 0.1))
    ready()
    say(waited(0.1, listener.accept))
    tell()
    until(lambda: events(listener) == "IN")
    conn = accept(listener)
    say(get_timeout(conn, SO_RCVTIMEO))
    repeat(conn)


@case(accept_timeout_server)
def accept_timeout():
    """SO_RCVTIMEO of a listener limits accept(): EAGAIN."""
    hear()
    say(ask(connect()))


def accept_threads_server():
    listener = listen()
    threads = [thread(lambda: repeat(accept(listener))) for _ in range(2)]
    ready()
    for started in threads:
        started.join()


@case(accept_threads_server)
def accept_threads():
    """Two threads in accept() get one connection each."""
    first, second = connect(), connect()
    say(ask(second, b"second"))
    say(ask(first, b"first"))


def accept_processes_server():
    listener = listen()
    pids = [fork(lambda: repeat(accept(listener))) for _ in range(2)]
    ready()
    say(*map(reap, pids))


@case(accept_processes_server)
def accept_processes():
    """Two processes in accept() on one listener get one connection each."""
    first, second = connect(), connect()
    say(ask(second, b"second"))
    say(ask(first, b"first"))


def queued_server():
    listener = listen()
    ready()
    hear()
    time.sleep(0.3)
    conn = accept(listener)
    say(take(conn, 5))
    say(*drain(conn))


@case(queued_server)
def queued_data():
    """What is sent before accept() is there after it."""
    sock = connect()
    sock.sendall(b"early")
    tell()
    time.sleep(0.35)
    sock.sendall(b"late")


@case(queued_server)
def queued_closed():
    """A connection that its client has closed is accepted, with its data and its end."""
    connect().sendall(b"early and gone")
    tell()


@case(queued_server)
def queued_reset():
    """A connection that its client has reset is accepted, and gives ECONNRESET after its data."""
    sock = connect()
    sock.sendall(b"early")
    until(lambda: number(sock, termios.TIOCOUTQ) == 0)
    reset(sock)
    tell()


def queued_order_server():
    listener = listen()
    ready()
    hear()
    for _ in range(5):
        say(take(accept(listener), 1))


@case(queued_order_server)
def queued_order():
    """Connections are accepted in the order of their connects."""
    socks = [connect() for _ in range(5)]
    for index in (3, 1, 4, 0, 2):
        socks[index].sendall(b"%d" % index)
    tell()


def listener_closed_server():
    with listen() as listener:
        ready()
        conn = accept(listener)
        tell()
        hear()
    tell()
    repeat(conn)


@case(listener_closed_server)
def listener_closed():
    """Closing a listener resets what is queued, refuses what comes, keeps what was accepted."""
    accepted = connect()
    hear()
    queued = connect()
    tell()
    hear()
    say(*drain(queued))
    say(attempt(stream().connect, target()))
    say(ask(accepted))


def listener_again_server():
    with listen() as first:
        ready()
        conn = accept(first)
    listener = listen()
    tell()
    thread(repeat, accept(listener))
    repeat(conn)


@case(listener_again_server)
def listener_again():
    """A new listener of the same port gets the connections that come after it."""
    first = connect()
    hear()
    say(ask(connect(), b"second"))
    say(ask(first, b"first"))


def listener_in_use_server():
    listener = listen()
    say(attempt(listen))
    ready()
    repeat(accept(listener))


@case(listener_in_use_server)
def listener_in_use():
    """A second listener of a port is refused: EADDRINUSE."""
    say(ask(connect()))


def listener_shut_server():
    listener = listen()
    waiting = thread(lambda: say(attempt(accept, listener)))
    time.sleep(MOMENT_S)
    listener.shutdown(SHUT_RDWR)
    waiting.join()
    ready()
    hear()
    listener.listen()
    tell()
    repeat(accept(listener))


@case(listener_shut_server)
def listener_shut():
    """shutdown() wakes accept() with EINVAL and refuses connects, until the next listen()."""
    say(attempt(stream().connect, target()))
    tell()
    hear()
    say(ask(connect()))


def reuse_port_worker(results, server):
    listener = listen((SOL_SOCKET, SO_REUSEPORT, 1))
    os.write(results, b"!")
    while True:
        with accept(listener) as conn:
            conn.sendall(b"served")
        os.write(results, b"%d" % server)


def reuse_port_server():
    results, mouth = os.pipe()
    workers = [fork(reuse_port_worker, mouth, server) for server in range(2)]
    until(lambda: number(results, termios.FIONREAD) == 2)
    say(os.read(results, 2))
    ready()
    hear()
    until(lambda: number(results, termios.FIONREAD) == 20)
    os.read(results, 20)
    say(kill(workers[0]))
    tell()
    until(lambda: number(results, termios.FIONREAD) == 10)
    say(os.read(results, 10))
    kill(workers[1])


@case(reuse_port_server)
def reuse_port():
    """The listeners of a SO_REUSEPORT group share the connections; those that stay get all."""
    say({drain(connect()) for _ in range(20)})
    tell()
    hear()
    say({drain(connect()) for _ in range(10)})


ACCEPT_AND_REPEAT = """
with socket.socket(fileno=int(sys.argv[1])) as listener:
    conn = listener.accept()[0]
while data := conn.recv(100):
    conn.sendall(data)
print("ended")
"""


def inherited_listener_server():
    listener = listen()
    ready()
    say(python(ACCEPT_AND_REPEAT, listener.fileno(), pass_fds=[listener.fileno()]))


@case(inherited_listener_server)
def inherited_listener():
    """A program can accept from a listener that it got through exec."""
    say(ask(connect()))


def defer_accept_server():
    listener = listen((IPPROTO_TCP, TCP_DEFER_ACCEPT, 5))
    ready()
    hear()
    say(events(listener, MOMENT_MS))
    tell()
    say(events(listener, LONG_MS))
    repeat(accept(listener))


@case(defer_accept_server)
def defer_accept():
    """With TCP_DEFER_ACCEPT a connection can be accepted when its first data is there."""
    sock = connect()
    tell()
    hear()
    say(ask(sock))


def forking_server():
    listener = listen()
    ready()
    pids = []
    for _ in range(3):
        with accept(listener) as conn:
            pids.append(fork(repeat, conn))
    say(*map(reap, pids))


@case(forking_server)
def fork_per_connection():
    """A server can fork for each connection."""
    socks = [connect() for _ in range(3)]
    for index in (2, 0, 1):
        say(ask(socks[index], b"%d" % index))
        socks[index].close()


def prefork_worker(listener):
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    while True:
        epoll.poll()
        with contextlib.suppress(BlockingIOError):
            repeat(accept(listener))


def prefork_server():
    listener = listen()
    listener.setblocking(False)
    workers = [fork(prefork_worker, listener) for _ in range(2)]
    ready()
    hear()
    say(*map(kill, workers))


@case(prefork_server)
def prefork_epoll():
    """Processes can share a listener by EPOLLEXCLUSIVE and a non-blocking accept()."""
    for _ in range(10):
        with connect() as sock:
            say(ask(sock))
    tell()


def inetd_server():
    conn = welcome()
    say(subprocess.run(["cat"], stdin=conn, stdout=conn).returncode)


@case(inetd_server)
def inetd():
    """A connection can be the standard input and output of a program."""
    sock = connect()
    say(ask(sock))
    send_and_shut(sock, b"the rest")
    say(*drain(sock))


def alarm_raises_server():
    listener = listen()
    ready()
    try:
        interrupt_after(0.1)
        accept(listener)
    except Alarm:
        say("interrupted")
    tell()
    repeat(accept(listener))


@case(alarm_raises_server)
def alarm_raises():
    """A signal interrupts accept(), and the next accept() works."""
    hear()
    say(ask(connect()))


def alarm_returns_server(restart):
    listener = listen()
    caught = catch(signal.SIGALRM)
    signal.siginterrupt(signal.SIGALRM, not restart)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.02)
    ready()
    conn = accept(listener)
    signal.setitimer(signal.ITIMER_REAL, 0)
    say(bool(caught))
    repeat(conn)


@case(functools.partial(alarm_returns_server, True))
def alarm_restarts():
    """With SA_RESTART accept() goes on after a signal's handler."""
    time.sleep(0.2)
    say(ask(connect()))


@case(functools.partial(alarm_returns_server, False))
def alarm_repeated():
    """Without SA_RESTART accept() gives EINTR, and can be called again (which Python does)."""
    time.sleep(0.2)
    say(ask(connect()))


@case(greeter)
def alarm_receive():
    """A signal interrupts recv(), and the next recv() works."""
    sock = connect()
    say(take(sock, 5))
    try:
        interrupt_after(0.1)
        sock.recv(1)
    except Alarm:
        say("interrupted")
    say(attempt(sock.recv, 1, MSG_DONTWAIT))


# Data.


@case(echo)
def echo_byte():
    """A byte comes back."""
    say(ask(connect(), b"a"))


@case(echo6)
def echo_v6():
    """So it does over IPv6."""
    say(ask(connect(family=AF_INET6), b"a"))


def both_ways(sock, size):
    """Sends and receives this much at once."""
    sender = thread(send_and_shut, sock, payload(size))
    data, end = drain(sock)
    sender.join()
    say(data, end)


def both_ways_server(size):
    both_ways(welcome(), size)


@case(functools.partial(both_ways_server, MIB))
def both_ways_1m():
    """1 MiB in both directions at once arrives whole."""
    both_ways(connect(), MIB + 1)


@case(functools.partial(both_ways_server, 16 * MIB))
def both_ways_16m():
    """16 MiB in both directions at once arrive whole."""
    both_ways(connect(), 16 * MIB + 1)


@case(sink)
def small_writes():
    """Many small writes arrive as one stream."""
    sock = connect((IPPROTO_TCP, TCP_NODELAY, 1))
    for index in range(3000):
        sock.sendall(b"%d," % index)


@case(echo)
def vectors():
    """sendmsg(), writev(), readv() and recvmsg() go over several buffers."""
    sock = connect()
    say(sock.sendmsg([b"one", b"", b"two"]), os.writev(sock.fileno(), [b"three", b"four"]))
    wait_unread(sock, 15)
    first, second = bytearray(4), bytearray(4)
    say(os.readv(sock.fileno(), [first, second]), bytes(first), bytes(second))
    first, second = bytearray(4), bytearray(4)
    size, ancillary, flags, address = sock.recvmsg_into([first, second])
    say(size, ancillary, flags, address, bytes(first), bytes(second))


@case(echo)
def read_and_write():
    """read() and write() do what recv() and send() do."""
    sock = connect()
    say(os.write(sock.fileno(), b"hello"))
    wait_unread(sock, 5)
    say(os.read(sock.fileno(), 100))


@case(echo)
def receive_into():
    """recv() writes no more than it received, and recvfrom() gives no address."""
    sock = connect()
    sock.sendall(b"hello")
    wait_unread(sock, 5)
    buffer = bytearray(b"." * 8)
    say(sock.recv_into(buffer, 3), bytes(buffer))
    say(*sock.recvfrom(100))


@case(echo)
def send_nothing():
    """To send nothing is no end, and sendto()'s address is not looked at."""
    sock = connect()
    say(sock.send(b""), os.write(sock.fileno(), b""))
    say(sock.sendto(b"hello", target(offset=1)))
    say(take(sock, 5))
    say(attempt(sock.recv, 0))


@case(echo)
def peek():
    """MSG_PEEK leaves the data."""
    sock = connect()
    sock.sendall(b"hello")
    wait_unread(sock, 5)
    say(sock.recv(3, MSG_PEEK), sock.recv(10, MSG_PEEK), unread(sock))
    say(sock.recv(2), sock.recv(10, MSG_PEEK), sock.recv(10))


def wait_all_server():
    conn = welcome()
    tell()
    say(conn.recv(10, MSG_WAITALL))
    say(conn.recv(10, MSG_WAITALL))


@case(wait_all_server)
def wait_all():
    """MSG_WAITALL waits for all or the end."""
    sock = connect()
    hear()
    sock.sendall(b"01234")
    time.sleep(MOMENT_S)
    sock.sendall(b"56789")
    time.sleep(MOMENT_S)
    sock.sendall(b"end")


@case(echo)
def do_not_wait():
    """MSG_DONTWAIT gives EAGAIN when there is nothing."""
    sock = connect()
    say(attempt(sock.recv, 1, MSG_DONTWAIT))
    say(attempt(sock.recv, 1, MSG_DONTWAIT | MSG_PEEK))
    say(attempt(sock.recv, 1, MSG_ERRQUEUE))
    say(ask(sock))


@case(echo)
def count_unread():
    """FIONREAD counts what can be read."""
    sock = connect()
    say(unread(sock))
    sock.sendall(b"hello")
    wait_unread(sock, 5)
    say(unread(sock), sock.recv(2), unread(sock), sock.recv(3), unread(sock))


@case(stayer)
def count_unsent():
    """TIOCOUTQ falls to 0 when the peer's system has the data, read or not."""
    sock = connect()
    sock.sendall(b"hello")
    until(lambda: number(sock, termios.TIOCOUTQ) == 0)
    tell()


@case(speaker)
def low_water_mark():
    """With SO_RCVLOWAT, poll() and recv() wait for that much."""
    sock = connect((SOL_SOCKET, SO_RCVLOWAT, 6))
    tell()
    wait_unread(sock, 3)
    say(events(sock, MOMENT_MS))
    tell()
    say(events(sock, LONG_MS, select.POLLIN))
    say(sock.recv(100))


@case(sink)
def more_comes():
    """MSG_MORE holds data back until the next send."""
    sock = connect()
    say(sock.send(b"one ", MSG_MORE), sock.send(b"two"))


@case(echo)
def truncate():
    """MSG_TRUNC takes data of TCP and throws it away."""
    sock = connect()
    sock.sendall(b"hello")
    wait_unread(sock, 5)
    say(len(sock.recv(3, MSG_TRUNC)))
    say(sock.recv(100))


def rights_server():
    data, fds, flags, _ = socket.recv_fds(welcome(), 100, 1)
    say(data, fds, flags)


@case(rights_server)
def rights_over_tcp():
    """TCP sends the data and no descriptors."""
    say(socket.send_fds(connect(), [b"hello"], [0]))


@contextlib.contextmanager
def file_of(data):
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


@case(sink)
def sendfile():
    """sendfile() sends a file."""
    size = 300_000
    sock = connect()
    with file_of(payload(size)) as file:
        sent = 0
        while count := os.sendfile(sock.fileno(), file.fileno(), sent, size):
            sent += count
        say(sent, file.tell())


@case(sink)
def splice_out():
    """splice() moves a file through a pipe to a socket."""
    sock = connect()
    output, source = os.pipe()
    total = 0
    with file_of(payload(300_000)) as file:
        while size := os.splice(file.fileno(), source, 64 * KIB):
            total += size
            while size:
                size -= os.splice(output, sock.fileno(), size)
    say(total)


def splice_in_server():
    conn = welcome()
    output, source = os.pipe()
    data = b""
    while size := os.splice(conn.fileno(), source, 16 * KIB):
        data += os.read(output, size)
    say(data)


@case(splice_in_server)
def splice_in():
    """splice() moves what comes to a pipe, until the end."""
    connect().sendall(payload(300_000))


@case(sink)
def file_object():
    """A buffered file of a socket works."""
    sock = connect()
    with sock.makefile("w") as file:
        print("hello", *range(3), file=file)


URGENT = (SOL_SOCKET, SO_OOBINLINE, 0)
URGENT_INLINE = (SOL_SOCKET, SO_OOBINLINE, 1)


def urgent_server(option):
    conn = welcome(option)
    say(attempt(conn.recv, 1, MSG_OOB))
    tell()
    until(lambda: "PRI" in events(conn))
    wait_unread(conn, 3)
    say(events(conn))
    say(at_mark(conn), attempt(conn.recv, 1, MSG_OOB))
    say(conn.recv(100), at_mark(conn))
    rest = take(conn, 1)
    say(rest, at_mark(conn))
    tell()
    say(*drain(conn))


def send_urgent(sock):
    hear()
    sock.sendall(b"abc")
    sock.send(b"!", MSG_OOB)
    sock.sendall(b"def")
    hear()


@case(functools.partial(urgent_server, URGENT))
def urgent():
    """An urgent byte comes beside the data, which stops at its mark, and poll() says POLLPRI."""
    send_urgent(connect())


@case(functools.partial(urgent_server, URGENT_INLINE))
def urgent_inline():
    """With SO_OOBINLINE the urgent byte comes in the data, and MSG_OOB gives EINVAL."""
    send_urgent(connect())


def urgent_signal_server():
    caught = catch(signal.SIGURG)
    conn = welcome()
    fcntl.fcntl(conn, fcntl.F_SETOWN, os.getpid())
    tell()
    until(lambda: caught)
    say(conn.recv(1, MSG_OOB))


@case(urgent_signal_server)
def urgent_signal():
    """The owner of a socket gets SIGURG for urgent data."""
    sock = connect()
    hear()
    sock.send(b"!", MSG_OOB)


@case(functools.partial(speaker, 1))
def signal_driven():
    """O_ASYNC and an owner, set before connect(), are kept, and data gives SIGIO."""
    caught = catch(signal.SIGIO)
    sock = stream()
    fcntl.fcntl(sock, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sock, fcntl.F_SETFL, os.O_ASYNC)
    sock.connect(target())
    say(bool(fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_ASYNC))
    say(fcntl.fcntl(sock, fcntl.F_GETOWN) == os.getpid())
    time.sleep(MOMENT_S)
    caught.clear()
    tell()
    until(lambda: caught)
    say(take(sock, 3))


# Ends.


def until_half_closed_server():
    conn = welcome()
    say(*drain(conn))
    conn.sendall(payload(100_000))


@case(until_half_closed_server)
def half_close_client():
    """After the client's half-close, the server's data still arrives, and sending gives EPIPE."""
    sock = connect()
    send_and_shut(sock, b"question")
    say(attempt(sock.send, b"more"))
    say(*drain(sock))


def half_closing_server():
    conn = welcome()
    send_and_shut(conn, b"greeting")
    say(*drain(conn))


@case(half_closing_server)
def half_close_server():
    """After the server's half-close, the client's data still arrives."""
    sock = connect()
    say(*drain(sock))
    sock.sendall(payload(100_000))


@case(functools.partial(speaker, 1))
def shut_reading():
    """SHUT_RD gives an end to read, while the peer can still send and what it sends can be read."""
    sock = connect()
    sock.shutdown(SHUT_RD)
    say(sock.recv(1))
    tell()
    wait_unread(sock, 3)
    say(sock.recv(100), sock.recv(100))
    sock.sendall(b"to the peer")


@case(echoes_until_told)
def shut_wakes_reader():
    """shutdown() wakes a recv() of another thread."""
    for how in (SHUT_RD, SHUT_RDWR):
        sock = connect()
        reader = thread(lambda reads: say(reads(1)), sock.recv)
        time.sleep(MOMENT_S)
        sock.shutdown(how)
        reader.join()
    tell()


@case(stayer)
def shut_twice():
    """A second shutdown() is no error while the peer has not closed."""
    sock = connect()
    for how in (SHUT_WR, SHUT_WR, SHUT_RD, SHUT_RD):
        say(attempt(sock.shutdown, how))
        if how == SHUT_WR:
            say(events(sock))
    tell()


def shut_after_end_server():
    conn = welcome()
    conn.shutdown(SHUT_WR)
    say(*drain(conn))
    say(events(conn))
    say(attempt(conn.shutdown, SHUT_RDWR))


@case(shut_after_end_server)
def shut_after_end():
    """When both directions have ended, poll() says POLLHUP, and shutdown() gives ENOTCONN."""
    sock = connect()
    say(*drain(sock))
    sock.shutdown(SHUT_WR)
    until(lambda: "HUP" in events(sock).split("|"))
    say(events(sock))


@case(leaver)
def write_after_close():
    """Writes to a peer that has closed come to EPIPE, and then give it at once."""
    sock = connect()
    say(*drain(sock))
    say(send_until_error(sock))
    say(attempt(sock.send, b"more"))
    say(attempt(sock.recv, 1))


@case(leaver)
def write_after_close_once():
    """The first write to a peer that has closed is no error."""
    sock = connect()
    say(*drain(sock))
    say(sock.send(b"more"))


@case(leaver)
def pipe_signal():
    """Writes to a peer that has closed give SIGPIPE, but not with MSG_NOSIGNAL."""
    caught = catch(signal.SIGPIPE)
    sock = connect()
    say(*drain(sock))
    say(send_until_error(sock, flags=MSG_NOSIGNAL), len(caught))
    say(attempt(sock.send, b"more"), len(caught))


def write_until_killed(sock):
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    send_until_error(sock)


@case(leaver)
def pipe_signal_kills():
    """SIGPIPE ends a process that does not handle it."""
    sock = connect()
    say(*drain(sock))
    say(reap(fork(write_until_killed, sock)))


def close_unread_server(words):
    conn = welcome()
    wait_unread(conn, 6)
    conn.sendall(words)
    conn.close()
    tell()


@case(functools.partial(close_unread_server, b""))
def close_unread():
    """A close with unread data gives the peer ECONNRESET, once."""
    sock = connect()
    sock.sendall(b"unread")
    hear()
    say(*drain(sock))
    say(attempt(sock.recv, 1))
    say(attempt(sock.send, b"more"))


@case(functools.partial(close_unread_server, b"last words"))
def close_unread_after_words():
    """What was sent before a close with unread data can be read before ECONNRESET."""
    sock = connect()
    sock.sendall(b"unread")
    hear()
    until(lambda: "ERR" in events(sock))
    say(*drain(sock))


def reset_reader():
    """Waits for the reset before it reads."""
    conn = welcome()
    tell()
    until(lambda: "ERR" in events(conn))
    say(*drain(conn))
    say(*drain(conn))


@case(reset_reader)
def linger_before_connect():
    """A linger time of 0, set before connect(), makes close() reset the connection."""
    sock = connect((SOL_SOCKET, SO_LINGER, RESET_ON_CLOSE))
    say(*get_linger(sock))
    hear()
    sock.close()


@case(reset_reader)
def linger_after_connect():
    """So it does when it is set after."""
    sock = connect()
    hear()
    reset(sock)


@case(reset_reader)
def linger_after_data():
    """What had arrived before the reset can be read."""
    sock = connect()
    hear()
    sock.sendall(b"hello")
    until(lambda: number(sock, termios.TIOCOUTQ) == 0)
    reset(sock)


def linger_again_server(*options):
    conn = welcome(*options)
    for _ in range(2):
        conn.setsockopt(SOL_SOCKET, SO_LINGER, RESET_ON_CLOSE)
    tell()
    say(take(conn, 5))
    tell()


def send_hello():
    sock = connect()
    hear()
    sock.sendall(b"hello")
    hear()


@case(linger_again_server)
def linger_again():
    """A linger time of 0 that is set again puts nothing among the data."""
    send_hello()


@case(functools.partial(linger_again_server, URGENT_INLINE))
def linger_inline():
    """Nor does it where urgent bytes come in the data."""
    send_hello()


def connect_and_exit():
    sock = connect((SOL_SOCKET, SO_LINGER, RESET_ON_CLOSE))
    hear()
    # The socket must not be closed by Python before.
    sock.detach()


@case(reset_reader)
def linger_at_exit():
    """A process that ends resets such a connection too."""
    say(reap(fork(connect_and_exit)))


@case(sink)
def linger_waits():
    """With a linger time, close() returns when the peer's system has all."""
    sock = connect((SOL_SOCKET, SO_LINGER, LINGER.pack(1, LIMIT_S)))
    sock.sendall(payload(MIB))
    sock.close()


@case(half_closing_server)
def poll_half_closed():
    """After the peer's half-close poll() says POLLIN|POLLOUT|POLLRDHUP."""
    sock = connect()
    until(lambda: "RDHUP" in events(sock))
    say(events(sock))
    say(*drain(sock))
    say(events(sock))
    sock.sendall(b"more")


@case(resetter)
def poll_reset():
    """After a reset poll() says all, and POLLERR until the error is taken."""
    sock = connect()
    say(events(sock))
    tell()
    until(lambda: "ERR" in events(sock))
    say(events(sock))
    say(error_of(sock))
    say(events(sock))
    say(attempt(sock.recv, 1))


@case(greeter)
def poll_data():
    """poll() says POLLIN|POLLOUT for data, and POLLOUT when it is read."""
    sock = connect()
    wait_unread(sock, 5)
    say(events(sock))
    say(sock.recv(5))
    say(events(sock))


# Copies of a socket in this process and others.


@case(sink)
def dup_before_connect():
    """A copy that was made before connect() is connected too."""
    sock = stream()
    copy = sock.dup()
    sock.connect(target())
    say(copy.getpeername() == sock.getpeername())
    for index in range(4):
        (sock, copy)[index % 2].sendall(b"%d" % index)


@case(sink)
def dup_connects():
    """The connect() of a copy connects the first."""
    sock = stream()
    sock.dup().connect(target())
    sock.sendall(b"by the first")


@case(sink)
def dup2_after_connect():
    """dup2() can put a connection in another descriptor's place."""
    sock = connect()
    place = os.open("/dev/null", os.O_RDONLY)
    os.dup2(sock.fileno(), place)
    sock.close()
    os.write(place, b"by the copy")


def dup2_over_server():
    listener = listen()
    ready()
    conns = [accept(listener) for _ in range(2)]
    for conn in reversed(conns):
        say(*drain(conn))
        tell()


@case(dup2_over_server)
def dup2_over():
    """dup2() of a connection over another ends that, and both descriptors are of the first."""
    first, second = connect(), connect()
    second.sendall(b"before")
    os.dup2(first.fileno(), second.fileno())
    hear()
    first.sendall(b"by the first ")
    second.sendall(b"by the second")


def listener_copy_server():
    listener = listen()
    copy = listener.dup()
    listener.close()
    ready()
    conn = accept(copy)
    copy.close()
    tell()
    repeat(conn)


@case(listener_copy_server)
def listener_copy():
    """A copy of a listener accepts when the first is closed, and its close ends the listening."""
    sock = connect()
    hear()
    say(attempt(stream().connect, target()))
    say(ask(sock))


def listener_in_fork_server():
    listener = listen()
    pid = fork(lambda: repeat(accept(listener)))
    listener.close()
    ready()
    say(reap(pid))


@case(listener_in_fork_server)
def listener_in_fork():
    """A forked process can accept when the one that began to listen has closed the listener."""
    say(ask(connect()))


def last_close_server():
    conn = welcome()
    hear()
    say(events(conn, MOMENT_MS))
    tell()
    say(*drain(conn))


@case(last_close_server)
def last_close_ends():
    """The peer sees the end when the last copy is closed."""
    sock = stream()
    copy = sock.dup()
    sock.connect(target())
    sock.close()
    tell()
    hear()
    copy.close()


@case(last_close_server)
def last_close_of_fork():
    """A copy in a process that was forked counts as well."""
    sock = connect()
    pid = fork(hear)
    sock.close()
    tell()
    say(reap(pid))


@case(sink)
def fork_after_connect():
    """A forked process shares the connection."""
    sock = connect()
    say(reap(fork(sock.sendall, b"child ")))
    sock.sendall(b"parent")


def write_when_told(sock, ear):
    os.read(ear, 1)
    sock.sendall(b"child ")
    say(take(sock, 6))


@case(echo)
def fork_before_connect():
    """A process that was forked before connect() has the connection too."""
    sock = stream()
    ear, mouth = os.pipe()
    pid = fork(write_when_told, sock, ear)
    sock.connect(target())
    os.write(mouth, b".")
    say(reap(pid))
    say(ask(sock))


@case(echo)
def fork_connects():
    """What a forked process connects is connected here."""
    sock = stream()
    say(reap(fork(sock.connect, target())))
    say(sock.getpeername() == target())
    say(ask(sock))


@case(echo)
def fork_connects_watched():
    """An epoll here sees the connect of a forked process."""
    sock, epoll = stream(), select.epoll()
    epoll.register(sock, select.EPOLLIN | select.EPOLLET)
    say(epoll_events(epoll))
    say(reap(fork(sock.connect, target())))
    sock.sendall(b"hello")
    say(epoll_events(epoll))
    say(take(sock, 5))


ASK = """
fd = int(sys.argv[1])
os.write(fd, b"by the program")
print(os.read(fd, 100))
"""


@case(echo)
def exec_after_connect():
    """A program that is started with the connection can use it."""
    sock = connect()
    say(python(ASK, sock.fileno(), pass_fds=[sock.fileno()]))
    say(ask(sock))


CONNECT = """
sock = socket.socket(fileno=int(sys.argv[1]))
sock.connect((sys.argv[2], int(sys.argv[3])))
print(sock.getpeername() == (sys.argv[2], int(sys.argv[3])))
"""


@case(echo)
def exec_connects():
    """A program can connect a socket for the one that started it."""
    sock = stream()
    say(python(CONNECT, sock.fileno(), *target(), pass_fds=[sock.fileno()]))
    say(ask(sock))


PROBE = """
for fd in map(int, sys.argv[1:]):
    try:
        os.fstat(fd)
        print(fd - int(sys.argv[1]), "open")
    except OSError as error:
        print(error.strerror)
"""


@case(echoes_until_told)
def close_on_exec():
    """FD_CLOEXEC is after connect() as it was before, set or not."""
    for inheritable in (False, True):
        sock = stream()
        sock.set_inheritable(inheritable)
        sock.connect(target())
        say(sock.get_inheritable())
        say(python(PROBE, sock.fileno(), close_fds=False))
        say(ask(sock))
    tell()


@case(echoes_until_told)
def status_flags():
    """O_NONBLOCK is after connect() as it was before, set by fcntl(), ioctl() or not."""
    for way in ("none", "F_SETFL", "FIONBIO"):
        sock = stream()
        if way == "F_SETFL":
            fcntl.fcntl(sock, fcntl.F_SETFL, os.O_NONBLOCK)
        if way == "FIONBIO":
            fcntl.ioctl(sock, termios.FIONBIO, struct.pack("i", 1))
        say(way, attempt(raw_connect, sock, raw_address(AF_INET, *reversed(target()))))
        say(events(sock, LONG_MS, select.POLLOUT))
        say_flags(sock.fileno())
    tell()


@case(echo)
def descriptor_kind():
    """A connection is a socket to fstat() and in /proc."""
    sock = connect()
    status = os.fstat(sock.fileno())
    say(stat.S_ISSOCK(status.st_mode))
    say(os.readlink(f"/proc/self/fd/{sock.fileno()}") == f"socket:[{status.st_ino}]")


@case(echo)
def descriptor_inode():
    """A socket's inode is the same before and after connect()."""
    sock = stream()
    inode = os.fstat(sock.fileno()).st_ino
    sock.connect(target())
    say(os.fstat(sock.fileno()).st_ino == inode)


def use_passed(channel, use):
    _, fds, _, _ = socket.recv_fds(channel, 1, 1)
    with socket.socket(fileno=fds[0]) as sock:
        use(sock)


def pass_on(sock, use):
    """Gives a socket to a process that was there before it; waits for what that does with it."""
    channel, far = socket.socketpair()
    pid = fork(use_passed, far, use)
    socket.send_fds(channel, [b"."], [sock.fileno()])
    say(reap(pid))


@case(echo)
def passed_after_connect():
    """A connection can be passed to another process."""
    sock = connect()
    pass_on(sock, lambda passed: say(ask(passed, b"by the other")))
    say(ask(sock))


@case(echo)
def passed_before_connect():
    """What another process connects after it was passed is connected here."""
    sock = stream()
    pass_on(sock, lambda passed: passed.connect(target()))
    say(ask(sock))


def passing_server():
    conn = welcome()
    pass_on(conn, repeat)


@case(passing_server)
def passed_accepted():
    """An accepted socket can be passed to another process."""
    sock = connect()
    say(ask(sock))
    sock.shutdown(SHUT_WR)
    say(*drain(sock))


# epoll.


@case(functools.partial(speaker, 1))
def epoll_data_kept():
    """The data of an epoll registration is that of before connect(), and MOD and DEL work."""
    sock, epoll = stream(), select.epoll()
    add, delete, modify = 1, 2, 3
    epoll_control(epoll, add, sock, select.EPOLLIN, 0x1122334455667788)
    say(epoll_wait(epoll))
    sock.connect(target())
    say(epoll_wait(epoll, MOMENT_MS))
    say(attempt(epoll_control, epoll, add, sock, select.EPOLLIN, 1))
    tell()
    say(epoll_wait(epoll))
    epoll_control(epoll, modify, sock, select.EPOLLOUT, 0xAABBCCDDEEFF0011)
    say(epoll_wait(epoll))
    epoll_control(epoll, delete, sock, 0, 0)
    say(epoll_wait(epoll, 0))
    say(attempt(epoll_control, epoll, modify, sock, select.EPOLLIN, 1))
    say(attempt(epoll_control, epoll, delete, sock, 0, 0))
    epoll_control(epoll, add, sock, select.EPOLLIN, 2)
    say(epoll_wait(epoll))
    say(take(sock, 3))


@case(speaker)
def epoll_level():
    """A level-triggered epoll says that there is data until it is read, also for later data."""
    sock, epoll = stream(), select.epoll()
    epoll.register(sock, select.EPOLLIN)
    sock.connect(target())
    for _ in range(2):
        tell()
        say(epoll_events(epoll))
        say(epoll_events(epoll))
        say(take(sock, 3))
        say(epoll_events(epoll, 0))


@case(speaker)
def epoll_edge():
    """An edge-triggered epoll says so once for each arrival, read or not."""
    sock, epoll = stream(), select.epoll()
    epoll.register(sock, select.EPOLLIN | select.EPOLLET)
    say(epoll_events(epoll))
    sock.connect(target())
    for _ in range(2):
        tell()
        say(epoll_events(epoll))
        say(epoll_events(epoll, MOMENT_MS))
    say(take(sock, 6))


@case(functools.partial(speaker, 1))
def epoll_one_shot():
    """EPOLLONESHOT says it once, until the registration is modified."""
    sock, epoll = connect(), select.epoll()
    epoll.register(sock, select.EPOLLIN | select.EPOLLONESHOT)
    tell()
    say(epoll_events(epoll))
    say(epoll_events(epoll, 0))
    epoll.modify(sock, select.EPOLLIN | select.EPOLLONESHOT)
    say(epoll_events(epoll))
    say(take(sock, 3))


@case(functools.partial(speaker, 1))
def epoll_of_closed():
    """A registration lasts while there is a copy of the closed descriptor."""
    sock, epoll = stream(), select.epoll()
    epoll.register(sock, select.EPOLLIN | select.EPOLLET)
    copy = sock.dup()
    sock.connect(target())
    sock.close()
    tell()
    wait_unread(copy, 3)
    say(epoll_events(epoll))
    say(take(copy, 3))
    copy.close()
    say(epoll_events(epoll, 0))


@case(functools.partial(speaker, 1))
def epoll_two():
    """Two epolls, one in the other, both see what comes."""
    sock, outer, inner = stream(), select.epoll(), select.epoll()
    inner.register(sock, select.EPOLLIN)
    outer.register(inner, select.EPOLLIN)
    sock.connect(target())
    say(epoll_events(outer, 0))
    tell()
    say(epoll_events(outer))
    say(epoll_events(inner))
    say(take(sock, 3))
    say(epoll_events(outer, 0))


@case(leaver)
def epoll_hang_up():
    """epoll says EPOLLIN|EPOLLRDHUP when the peer has closed."""
    sock, epoll = stream(), select.epoll()
    epoll.register(sock, select.EPOLLRDHUP | select.EPOLLET)
    say(epoll_events(epoll))
    sock.connect(target())
    say(epoll_events(epoll))
    say(*drain(sock))


def epoll_accepted_server():
    listener, epoll = listen(), select.epoll()
    epoll.register(listener, select.EPOLLIN | select.EPOLLET)
    ready()
    say(epoll_events(epoll))
    conn = accept(listener)
    epoll.register(conn, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
    tell()
    say(epoll_events(epoll))
    say(conn.recv(100))
    tell()
    say(epoll_events(epoll))
    say(*drain(conn))


@case(epoll_accepted_server)
def epoll_accepted():
    """An edge-triggered epoll sees a connection come, its data and its end."""
    sock = connect()
    hear()
    sock.sendall(b"hello")
    hear()


# Libraries and servers of programs.


def asyncio_server():
    async def answer(reader, writer):
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    async def serve():
        server = await asyncio.start_server(answer, "0.0.0.0", side.port)
        ready()
        await asyncio.get_running_loop().run_in_executor(None, hear)
        server.close()

    asyncio.run(serve())


@case(asyncio_server)
def asyncio_streams():
    """asyncio's server and clients work."""

    async def converse(index):
        reader, writer = await asyncio.open_connection(*target())
        answers = []
        for word in ("one", "two"):
            writer.write(f"{word} {index}\n".encode())
            answers.append((await reader.readline()).decode().strip())
        writer.close()
        await writer.wait_closed()
        return answers

    async def converse_all():
        return await asyncio.gather(*map(converse, range(5)))

    for answers in asyncio.run(converse_all()):
        say(*answers)
    tell()


def selectors_server():
    selector = selectors.DefaultSelector()
    listener = listen()
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    ready()
    ended = 0
    while ended < 3:
        for key, _ in selector.select():
            if key.fileobj is listener:
                conn = accept(listener)
                conn.setblocking(False)
                selector.register(conn, selectors.EVENT_READ)
            elif data := key.fileobj.recv(100):
                key.fileobj.sendall(data)
            else:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                ended += 1
    say(len(selector.get_map()))


@case(selectors_server)
def selectors_loop():
    """A loop of the selectors module serves several clients."""
    socks = [connect() for _ in range(3)]
    for index, sock in itertools.chain(enumerate(socks), enumerate(reversed(socks))):
        say(ask(sock, b"%d" % index))


class ThreadingServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def serve_until_told(handler):
    with ThreadingServer(("", side.port), handler) as server:
        serving = thread(server.serve_forever, 0.01)
        ready()
        hear()
        server.shutdown()
        serving.join()


class LineHandler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())


@case(functools.partial(serve_until_told, LineHandler))
def threading_server():
    """socketserver's threads serve several clients."""
    socks = [connect() for _ in range(3)]
    for index in (1, 2, 0):
        say(ask(socks[index], b"line %d\n" % index))
    for sock in socks:
        sock.close()
    tell()


class HttpHandler(http.server.BaseHTTPRequestHandler):
    def answer(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer(payload(100_000))

    def do_POST(self):
        self.answer(shown(self.rfile.read(int(self.headers["Content-Length"]))).encode())

    def log_message(self, *_):
        pass


@case(functools.partial(serve_until_told, HttpHandler))
def http_server():
    """http.server and urllib work."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"http://{side.address}:{side.port}/"
    for body in (None, payload(200_000)):
        with opener.open(url, body) as response:
            say(response.status, response.read())
    tell()


def datagram_server():
    with socket.socket(AF_INET, SOCK_DGRAM) as datagrams:
        datagrams.bind(("", side.port))
        conn = welcome()
        data, address = datagrams.recvfrom(100)
        datagrams.sendto(data.upper(), address)
        repeat(conn)


@case(datagram_server)
def datagrams_beside():
    """A connected UDP socket of the same port works beside."""
    sock = connect()
    with socket.socket(AF_INET, SOCK_DGRAM) as datagrams:
        datagrams.connect(target())
        say(datagrams.getpeername() == target(), datagrams.getsockopt(SOL_SOCKET, SO_TYPE))
        datagrams.send(b"datagram")
        say(datagrams.recv(100))
    say(ask(sock))


def own_node_server():
    listener = listen(family=AF_INET6)
    ready()
    for address in ("127.0.0.1", side.address, "0.0.0.0", "::1", side.address6):
        sock = stream(AF_INET6 if ":" in address else AF_INET)
        sock.connect((address, side.port))
        conn = accept(listener)
        say(conn.getpeername()[:2] == plain_pair(sock.getsockname()))
        thread(repeat, conn)
        say(ask(sock))
        sock.close()


def plain_pair(name):
    """The name by which an IPv6 listener knows an address and port."""
    return (name[0] if ":" in name[0] else f"::ffff:{name[0]}", name[1])


@case(own_node_server)
def own_node():
    """A node's own listener is reached by each of its addresses."""


def many_open_server():
    listener = listen()
    ready()
    conns = [accept(listener) for _ in range(200)]
    for conn in conns:
        conn.sendall(take(conn, 3))
    say(sum(conn.recv(1) == b"" for conn in conns))


@case(many_open_server)
def many_open():
    """200 connections can be open at once."""
    socks = [connect() for _ in range(200)]
    numbers = [b"%03d" % index for index in range(200)]
    for sock, data in zip(socks, numbers, strict=True):
        sock.sendall(data)
    say([take(sock, 3) for sock in socks] == numbers)


def many_in_turn_server():
    listener = listen()
    ready()
    for _ in range(300):
        repeat(accept(listener))
    say("done")


@case(many_in_turn_server)
def many_in_turn():
    """300 connections can come one after the other."""
    answers = []
    for index in range(300):
        with connect() as sock:
            answers.append(ask(sock, b"%d" % index))
    say(b" ".join(answers))


def converse_often(index):
    for turn in range(10):
        with connect() as sock:
            data = b"%d %d" % (index, turn)
            if ask(sock, data) != data:
                say("wrong")


@case(echoes_until_told)
def many_threads():
    """8 threads can connect at once."""
    threads = [thread(converse_often, index) for index in range(8)]
    for started in threads:
        started.join()
    tell()


@case(echoes_until_told)
def many_processes():
    """4 processes can connect at once."""
    say(*map(reap, [fork(converse_often, index) for index in range(4)]))
    tell()


# Processes that end, and sides that are slow.


def killed_worker(listener):
    conn = accept(listener)
    conn.sendall(payload(32 * KIB))
    tell()
    signal.pause()


def killed_server():
    worker = fork(killed_worker, listen())
    ready()
    hear()
    say(kill(worker))
    tell()


@case(killed_server)
def server_killed():
    """What a server sent before it was killed arrives, then the end."""
    sock = connect()
    hear()
    tell()
    hear()
    say(*drain(sock))


@case(killed_server)
def server_killed_unread():
    """If it had not read all, the end is ECONNRESET."""
    sock = connect()
    sock.sendall(b"unread")
    until(lambda: number(sock, termios.TIOCOUTQ) == 0)
    say(take(sock, 32 * KIB))
    hear()
    tell()
    hear()
    say(*drain(sock))


def send_and_pause():
    sock = connect()
    sock.sendall(b"hello")
    signal.pause()


def client_killed_server():
    conn = welcome()
    say(take(conn, 5))
    tell()
    say(*drain(conn))


@case(client_killed_server)
def client_killed():
    """The server sees the end of a client that was killed."""
    pid = fork(send_and_pause)
    hear()
    say(kill(pid))


@case(echo)
def idle():
    """A connection works after it was idle."""
    sock = connect()
    say(ask(sock))
    time.sleep(1)
    say(ask(sock))


def exiting_server(size):
    with listen((SOL_SOCKET, SO_SNDBUF, 200_000)) as listener:
        ready()
        worker = fork(lambda: accept(listener).sendall(payload(size)))
    say(reap(worker))
    tell()


@case(functools.partial(exiting_server, 48 * KIB))
def read_after_exit():
    """All that a process sent can be read after its exit."""
    sock = connect()
    hear()
    say(*drain(sock))


@case(functools.partial(exiting_server, 8 * MIB))
def read_through_exit():
    """So can what is too much for the buffers while it sends."""
    sock = connect()
    time.sleep(MOMENT_S)
    say(*drain(sock))


@case(sink)
def exit_with_data():
    """What a client sent arrives when it exits at once."""
    connect().sendall(payload(100_000))


def slow_reader():
    conn = welcome((SOL_SOCKET, SO_RCVBUF, 30_000))
    hear()
    say(*drain(conn))


@case(slow_reader)
def slow_reading():
    """A non-blocking send comes to EAGAIN when nobody reads; all arrives when one does."""
    sock = connect((SOL_SOCKET, SO_SNDBUF, 30_000))
    sock.setblocking(False)
    data = memoryview(payload(4 * MIB))
    while isinstance(sent := attempt(sock.send, data), int):
        data = data[sent:]
    say(sent)
    tell()
    while data:
        events(sock, LONG_MS, select.POLLOUT)
        data = data[sock.send(data) :]


def close_full_server():
    conn = welcome((SOL_SOCKET, SO_RCVBUF, 30_000))
    hear()
    time.sleep(MOMENT_S)
    reset(conn)


@case(close_full_server)
def blocked_send_reset():
    """A send() that waits for a reader gets the ECONNRESET of its close."""
    sock = connect((SOL_SOCKET, SO_SNDBUF, 30_000))
    tell()
    say(send_until_error(sock, bytes(MIB)))


# The two sides' parents.


class Lines:
    """Messages of a descriptor, each a line of JSON."""

    def __init__(self, fd):
        self.fd = fd
        self.ended = False
        self.rest = b""

    def read(self):
        """The messages of one read, which waits if there is nothing."""
        data = os.read(self.fd, 64 * KIB)
        self.ended = not data
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


class Control:
    """The connection of the two sides' parents."""

    def __init__(self, sock):
        sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self.sock = sock
        self.lines = Lines(sock.fileno())
        self.pending = []

    def send(self, **message):
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def read(self):
        self.pending += self.lines.read()
        if self.lines.ended:
            raise EOFError("the control connection ended")

    def receive(self, *kinds):
        """The next message of these kinds. Others are late, and nobody's any more."""
        while True:
            while not self.pending:
                self.read()
            message = self.pending.pop(0)
            if not message.keys().isdisjoint(kinds):
                return message

    def close(self):
        self.sock.close()


class Child:
    """The process of one side of a case, and all that it starts."""

    def __init__(self, function, its_side, control, *not_its):
        self.control = control
        self.transcript = []
        self.deadline = time.monotonic() + LIMIT_S
        lines, its_side.mouth = os.pipe()
        its_side.ear, self.ear = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for other in (control, *not_its):
                other.close()
            os.close(lines)
            os.close(self.ear)
            be_child(function, its_side)
        os.setpgid(self.pid, self.pid)
        os.close(its_side.mouth)
        os.close(its_side.ear)
        self.lines = Lines(lines)
        self.pidfd = os.pidfd_open(self.pid)

    def take(self):
        """Takes what the child uttered."""
        for message in self.lines.read():
            if "say" in message:
                self.transcript.append(message["say"])
            else:
                self.control.send(**message)

    def relay(self):
        """Goes between the child and the other side until the child ends."""
        poll = select.poll()
        for fd in (self.lines.fd, self.control.lines.fd, self.pidfd):
            poll.register(fd, select.POLLIN)
        while self.pidfd not in (found := self.wait(poll)):
            if self.lines.fd in found:
                self.take()
            if self.control.lines.fd in found:
                self.control.read()

    def wait(self, poll):
        for _ in range(self.take_tells()):
            with contextlib.suppress(BrokenPipeError):
                os.write(self.ear, b".")
        left = self.deadline - time.monotonic()
        found = [fd for fd, _ in poll.poll(max(0, 1000 * left))]
        if not found:
            raise TimeoutError
        return found

    def take_tells(self):
        """How often the other side told this one to go on."""
        pending = self.control.pending
        others = [message for message in pending if "tell" not in message]
        tells = len(pending) - len(others)
        pending[:] = others
        return tells

    def end(self):
        """Kills what is left and takes the last of what it uttered."""
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        while not self.lines.ended:
            self.take()
        for fd in (self.lines.fd, self.ear, self.pidfd):
            os.close(fd)


def be_child(function, its_side):
    global side
    side = its_side
    os.setpgid(0, 0)
    call_c("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.excepthook = thread_raised
    run(function)


def transcript_of(function, its_side, control, *not_its):
    """Runs one side of a case."""
    child = Child(function, its_side, control, *not_its)
    timed_out = []
    try:
        child.relay()
    except TimeoutError:
        timed_out = ["TIMEOUT"]
    finally:
        child.end()
    return child.transcript + timed_out


# The commands of the program.


def list_cases():
    print(*CASES, sep="\n")


def family_of(address):
    return AF_INET6 if ":" in address else AF_INET


def serve(control_address, control_port):
    listener = socket.create_server(
        (control_address, control_port), family=family_of(control_address)
    )
    print("ready", flush=True)
    while True:
        control = Control(accept(listener))
        with contextlib.suppress(EOFError, ConnectionError), contextlib.closing(control):
            while True:
                request = control.receive("case")
                _, server = CASES[request.pop("case")]
                transcript = transcript_of(server, Side(**request), control, listener)
                control.send(transcript=transcript)


def run_client(control_address, control_port, address, address6, names):
    names = names or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        sys.exit(f"no such case: {' '.join(unknown)}")
    control = Control(socket.create_connection((control_address, control_port)))
    indices = {name: index for index, name in enumerate(CASES)}
    for name in names:
        port = FIRST_PORT + PORTS_EACH * indices[name]
        its_side = Side(address, address6, port)
        control.send(case=name, address=address, address6=address6, port=port)
        answer = control.receive("ready", "transcript")
        client = []
        if "ready" in answer:
            client = transcript_of(CASES[name][0], its_side, control)
            answer = control.receive("transcript")
        line = {"case": name, "client": client, "server": answer["transcript"]}
        print(json.dumps(line), flush=True)


def check_self(names):
    """Runs the cases twice within this node; says what differs or failed."""
    control = ["127.0.0.1", str(SELF_CONTROL_PORT)]
    command = [sys.executable, __file__]
    with subprocess.Popen([*command, "server", *control], stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        client = [*command, "client", *control, "127.0.0.1", "::1", *names]
        try:
            runs = [subprocess.check_output(client, text=True).splitlines() for _ in range(2)]
        finally:
            server.kill()
    bad = 0
    for lines in zip(*runs, strict=True):
        failed = any(word in line for line in lines for word in ('"TIMEOUT"', '"raised '))
        if failed or lines[0] != lines[1]:
            bad += 1
            print(*lines, sep="\n")
    print(f"{len(runs[0])} cases, {bad} of them bad")
    sys.exit(bad > 0)


def main():
    parser = argparse.ArgumentParser(description="Cases of TCP sockets.")
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("list")
    server = commands.add_parser("server")
    client = commands.add_parser("client")
    for command in (server, client):
        command.add_argument("control_address")
        command.add_argument("control_port", type=int)
    client.add_argument("address")
    client.add_argument("address6")
    for command in (client, commands.add_parser("self")):
        command.add_argument("case", nargs="*")
    given = parser.parse_args()
    match given.command:
        case "list":
            list_cases()
        case "server":
            serve(given.control_address, given.control_port)
        case "client":
            run_client(
                given.control_address,
                given.control_port,
                given.address,
                given.address6,
                given.case,
            )
        case "self":
            check_self(given.case)


if __name__ == "__main__":
    main()
