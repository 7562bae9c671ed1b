"""A server of names for tests (RFC 1035), which knows what it is told and counts what it is asked."""

import ipaddress
import socket
import struct
import threading

A, SOA, AAAA, SRV = 1, 6, 28, 33
NO_SUCH_NAME = 3


def wire(name):
    labels = [label for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def place(priority, weight, port, host):
    """The data of a record of a service (RFC 2782)."""
    return struct.pack("!HHH", priority, weight, port) + wire(host)


def address(text):
    return ipaddress.ip_address(text).packed


class Zone:
    """Answers from `records`, {(name, type): [data]}; every other name is none."""

    def __init__(self, records=None, host="127.0.0.1"):
        self.records, self.asked = dict(records or {}), []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 0))
        self.at = "%s:%d" % self.socket.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self.socket.close()

    def _serve(self):
        while True:
            try:
                question, whence = self.socket.recvfrom(4096)
                self.socket.sendto(self._answer(question), whence)
            except OSError:
                return

    def _answer(self, question):
        at, labels = 12, []
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
            at += question[at] + 1
        kind = struct.unpack("!H", question[at + 1:at + 3])[0]
        name = ".".join(labels)
        self.asked.append((name, kind))
        found = self.records.get((name, kind), [])
        is_known = any(name == known for known, _ in self.records)
        code = 0 if is_known else NO_SUCH_NAME
        record = lambda kind, data: (  # noqa: E731
            b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 1, len(data)) + data)
        answers = b"".join(record(kind, data) for data in found)
        soa = b"" if found else record(SOA, wire("ns") + wire("admin") + struct.pack("!5I", *[1] * 5))
        head = question[:2] + struct.pack("!5H", 0x8580 | code, 1, len(found), int(not found), 0)
        return head + question[12:at + 5] + answers + soa
