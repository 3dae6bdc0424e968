"""Asks a guest and listens, in the namespace where it is started; ends with its input, and tells then in JSON.

    echoes.py icmp ADDRESS RATE    echo requests at a fixed rate, whatever comes back (open loop)
    echoes.py tcp PORT             one connection of the guest's, which sends back what it gets

The kernel notes when an answer came, so that a busy machine delays no figure.
"""

import bisect
import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

# Only in Python 3.12 and later does the module name it.
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
PR_SET_TIMERSLACK = 29
ECHO_REQUEST, ECHO_REPLY = 8, 0
MAGIC = b"latlab.."
# Answers may take that long after the last question.
LAST = 1.0


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def echo_request(number, identity):
    body = MAGIC + struct.pack("!Q", number)
    head = struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, identity, number & 0xFFFF)
    return head[:2] + struct.pack("!H", checksum(head + body)) + head[4:] + body


def send_all(sock, interval, identity, told):
    """Sends until it is terminated; then tells how many, and the longest pause between two."""
    is_over = []
    signal.signal(signal.SIGTERM, lambda *_: is_over.append(True))
    # A pause of the sender would look like one of the guest.
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    # Sleeps end on time, not up to 50 us later.
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    begun = before = time.monotonic()
    number, pause = 0, 0.0
    while not is_over:
        due = begun + number * interval
        now = time.monotonic()
        if now < due:
            time.sleep(due - now)
            continue
        pause, before = max(pause, now - before), now
        try:
            sock.send(echo_request(number, identity))
            number += 1
        except OSError as error:
            told.write(json.dumps({"failed": str(error)}))
            return
    told.write(json.dumps({"sent": number, "pause": pause}))


def icmp(address, rate):
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    sock.connect((address, 0))
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    identity = os.getpid() & 0xFFFF
    reader, writer = os.pipe()
    sender = os.fork()
    if sender == 0:
        with os.fdopen(writer, "w") as told:
            send_all(sock, 1 / rate, identity, told)
        os._exit(0)
    os.close(writer)
    numbers, times = [], []
    end = None
    watched = select.poll()
    watched.register(sock, select.POLLIN)
    watched.register(sys.stdin, select.POLLIN | select.POLLHUP)
    while end is None or time.monotonic() < end:
        for file, _ in watched.poll(100):
            if file == sys.stdin.fileno():
                watched.unregister(sys.stdin)
                os.kill(sender, signal.SIGTERM)
                end = time.monotonic() + LAST
                continue
            packet, ancillary, _flags, _from = sock.recvmsg(256, 64)
            icmp_part = packet[(packet[0] & 15) * 4 :]
            if icmp_part[0] == ECHO_REPLY and icmp_part[8:16] == MAGIC and icmp_part[4:6] == struct.pack("!H", identity):
                numbers.append(struct.unpack("!Q", icmp_part[16:24])[0])
                seconds, nanos = struct.unpack("qq", ancillary[0][2][:16])
                times.append(seconds + nanos / 1e9)
    with os.fdopen(reader) as told:
        said = json.loads(told.read())
    os.waitpid(sender, 0)
    if "failed" in said:
        sys.exit(f"the sender ended: {said['failed']}")
    print(json.dumps(judged(numbers, times, said["sent"]) | {"pause": said["pause"]}))


def judged(numbers, times, sent):
    """What became of requests 0 to `sent`: the longest silence between two answers, and what did not come once and in order."""
    silences = [b - a for a, b in zip(times, times[1:])]
    # Each number that was higher than all before, and its time.
    highest, when, seen, behind = [], [], set(), []
    for number, at in zip(numbers, times):
        if not highest or number > highest[-1]:
            highest.append(number)
            when.append(at)
        elif number not in seen:
            behind.append(at - when[bisect.bisect_right(highest, number)])
        seen.add(number)
    return {
        "sent": sent,
        "lost": sent - len(seen),
        "duplicated": len(numbers) - len(seen),
        "reordered": len(behind),
        "behind": max(behind, default=0),
        "silence": max(silences, default=None),
    }


def tcp(port):
    """Exchanges a line with the guest 100 times a second, from the word `go` to the word `rest`; tells after each word
    whether the connection lives."""
    listener = socket.create_server(("", port))
    listener.settimeout(60)
    stream, _ = listener.accept()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.settimeout(10)
    lines, exchanges, broken, word = stream.makefile("rb"), 0, None, "rest"
    print("connected", flush=True)
    asked = select.poll()
    asked.register(sys.stdin, select.POLLIN | select.POLLHUP)
    while True:
        try:
            if broken is None and word != "rest":
                question = b"%d\n" % exchanges
                stream.sendall(question)
                answer = lines.readline()
                if answer != question:
                    broken = f"{answer!r} for {question!r}"
                exchanges += 1
        except OSError as error:
            broken = str(error)
        for _ in asked.poll(10):
            if not (word := sys.stdin.readline().strip()):
                return
            print(json.dumps({"exchanges": exchanges, "broken": broken}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "icmp":
        icmp(sys.argv[2], float(sys.argv[3]))
    else:
        tcp(int(sys.argv[2]))
