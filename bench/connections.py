"""Times TCP connections from one node to another, in nodes that have Python.

    connections.py serve PORT                takes them one after the other and sends back what comes, until it is killed
    connections.py make ADDRESS PORT NUMBER  makes them one after the other: each carries a byte there and back and is
                                             closed; prints how many µs each took on average
    connections.py trips ADDRESS PORT SECONDS
                                             over one connection, 64 bytes there and back, again and again; prints the
                                             median in µs
"""

import socket
import statistics
import sys
import time

REQUEST = bytes(64)
# Connections that are made before those that count.
WARMUP = 20


def serve(port):
    with socket.create_server(("", port)) as listener:
        while True:
            with listener.accept()[0] as connection:
                while request := connection.recv(len(REQUEST)):
                    connection.sendall(request)


def exchange(connection, request):
    connection.sendall(request)
    if connection.recv(len(request), socket.MSG_WAITALL) != request:
        sys.exit("the request did not come back")


def make(address, port, number):
    for _ in range(number):
        with socket.create_connection((address, port)) as connection:
            exchange(connection, b"x")


def made(address, port, number):
    make(address, port, WARMUP)
    begin = time.perf_counter()
    make(address, port, number)
    return (time.perf_counter() - begin) / number * 1e6


def trips(address, port, seconds):
    took = []
    with socket.create_connection((address, port)) as connection:
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            exchange(connection, REQUEST)
            took.append(time.perf_counter() - begin)
    return statistics.median(took) * 1e6


def main():
    verb, *words = sys.argv[1:]
    if verb == "serve":
        serve(int(words[0]))
    address, port, count = words[0], int(words[1]), int(words[2])
    print((made if verb == "make" else trips)(address, port, count))


if __name__ == "__main__":
    main()
