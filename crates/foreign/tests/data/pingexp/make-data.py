#!/usr/bin/env python3
"""Writes tests/data/*.pickle: what ping-exp wrote under Python 2, in its three protocols, and again as Python 3 writes it.

Python 3 can't write Python 2's byte strings; they are put in place of its texts afterwards. Run it in this folder.
"""
import io
import pickle
import pickletools
import struct

REPLIES = [(1, 55, 20.5), (2, 55, 21.25), (4, 55, 19.75), (4, 55, 20.0), (5, 54, 300.0)]

DATA = {
    "experiments": {
        "voice": {
            "responses": REPLIES,
            "summary": {"transmitted": 6, "received": 4, "packet_loss": 33, "time": 1002},
            "rtt_summary": {"min": 19.75, "avg": 90.375, "max": 300.0, "mdev": 121.0},
            "host": "it's.example.org",
            "qos": 184,
        },
        "bulk": {
            "responses": [],
            "summary": {"transmitted": 6, "received": 0, "packet_loss": 100, "time": 1005},
            "rtt_summary": {"min": None, "avg": None, "max": None, "mdev": None},
            "host": "192.0.2.7",
            "qos": None,
        },
    },
    "start-time": 1257894000.25,
    "end-time": 1257894001.5,
    "ping_count": 6,
    "ping_interval": 0.2,
}


def as_python_2(data):
    """Texts become byte strings: V to S in protocol 0, X to U in protocols 1 and 2."""
    out = io.BytesIO()
    ops = list(pickletools.genops(data)) + [(None, None, len(data))]
    for (op, arg, at), (_, _, end) in zip(ops, ops[1:]):
        if op.name == "UNICODE":
            quote = '"' if "'" in arg else "'"
            out.write(b"S" + (quote + arg + quote).encode() + b"\n")
        elif op.name == "BINUNICODE":
            text = arg.encode()
            out.write(b"U" + struct.pack("<B", len(text)) + text)
        else:
            out.write(data[at:end])
    return out.getvalue()


for protocol in range(6):
    data = pickle.dumps(DATA, protocol)
    if protocol < 3:
        with open(f"data/python2-{protocol}.pickle", "wb") as file:
            file.write(as_python_2(data))
    with open(f"data/python3-{protocol}.pickle", "wb") as file:
        file.write(data)
