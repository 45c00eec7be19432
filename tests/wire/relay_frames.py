"""What a relay sends its store, as bytes: see proto/relay.h and relay.proto."""

import struct

MAGIC = b"\xf5rdzv\r\n\x1a"
HELLO, WELCOME, REFUSED, OPEN, OPENED, REQUEST, ANSWER, DONE, CLOSE, ENDED, PING, PONG, RESTART = range(1, 14)
MORE = 1
PAYLOAD_MAX = 64 << 10
MODERN = 1  # of enum c10d_version


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def message(*fields):
    """(number, value) each: an integer, or bytes."""
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        else:
            out += varint(number << 3) + varint(value)
    return out


def frame(kind, payload=b"", channel=0, number=0, flags=0):
    return struct.pack("<IBBHIQ", len(payload), kind, flags, 0, channel, number) + payload


def hello(space, is_http=False, versions=(1, 1)):
    """The first bytes of a relay."""
    return MAGIC + frame(HELLO, message((1, versions[0]), (2, versions[1]), (3, space), (4, b"a-relay"),
                                        (5, int(is_http)), (7, b"0.0.0")))


def opened(channel, session, resumes, version=MODERN):
    """A client has come, or is still there."""
    return frame(OPEN, varint(1 << 3 | 1) + struct.pack("<Q", session) + message(
        (2, version), (3, b"127.0.0.1"), (4, 1000 + channel), (5, b"127.0.0.1"), (6, 29400),
        (7, int(resumes)), (8, 1)), channel)


def request(data, channel, number):
    """A request of a client, in as many frames as it takes."""
    parts = [data[at:at + PAYLOAD_MAX] for at in range(0, len(data), PAYLOAD_MAX)] or [b""]
    return b"".join(frame(REQUEST, part, channel, number, MORE if i + 1 < len(parts) else 0)
                    for i, part in enumerate(parts))


def restart(name, nodes=3, generation=1, stage=1):
    """A relay with --exit-on-restart says where it stands; stage: of enum restart_stage."""
    return frame(RESTART, struct.pack("<I", nodes) + name, number=generation, flags=stage)
