"""Sends prepared datagrams with `sendmmsg` at a rate, for a time: `python flooder.py HOST PORT RATE SECONDS FILE`.

FILE has the datagrams, each after its length in two bytes.  Where an echo is asked for in the clear, it is given first:
the flood is heard.  Prints how many were sent, in how many seconds, the seconds of processor that took, and whether an
echo was asked for.
"""

import ctypes
import socket
import sys
import time

BATCH = 50


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Header(ctypes.Structure):  # struct msghdr
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("namelen", ctypes.c_uint),
        ("vectors", ctypes.POINTER(Vector)),
        ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("controllen", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class Message(ctypes.Structure):  # struct mmsghdr
    _fields_ = [("header", Header), ("sent", ctypes.c_uint)]


def main() -> None:
    host, port, rate, seconds, path = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
    packets = []
    with open(path, "rb") as file:
        while size := file.read(2):
            packets.append(file.read(int.from_bytes(size, "big")))
    vectors = [Vector(packet, len(packet)) for packet in packets]
    batches = [
        (Message * BATCH)(*(Message(Header(None, 0, ctypes.pointer(vector), 1)) for vector in vectors[i : i + BATCH]))
        for i in range(0, len(vectors) - BATCH + 1, BATCH)
    ]
    send = ctypes.CDLL(None, use_errno=True).sendmmsg
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.connect((host, port))
        echoed = echo(door)
        began, sent, busy = time.monotonic(), 0, time.process_time()
        while (passed := time.monotonic() - began) < seconds:
            if sent > passed * rate:
                time.sleep(0.0005)
                continue
            sent += max(0, send(door.fileno(), batches[sent // BATCH % len(batches)], BATCH, 0))
    print(sent, time.monotonic() - began, time.process_time() - busy, int(echoed))


def echo(door: socket.socket) -> bool:
    """Say something, and echo the token that is asked for; return whether one was."""
    door.settimeout(0.25)
    for _ in range(8):
        door.send(bytes(40))
        try:
            question = door.recv(2048)
        except TimeoutError:
            continue
        if len(question) == 17 and question[:1] == b"\xc1":
            door.send(b"\xc1" + bytes(8) + question[1:9])
            return True
    return False


if __name__ == "__main__":
    main()
