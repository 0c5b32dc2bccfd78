"""
One process of a measurement of peers.py: a publisher, a subscriber, or one end of a round trip.

    peers.py                      here
       │  go, hush, listen, end; at the pipe's end: leave      (standard input, one word a line)
       ├────────────────────────►
       ◄────────────────────────┤
          open, first, sent, done and what was counted         (one line each: a word, then name=number)

Every sample is `size` bytes and begins with its number, which counts through the publisher's pool of ready payloads and
starts again. Anything of MARK bytes is a marker and not a sample: HELLO is sent until each subscriber has said that one
came, END after the last sample, again and again until all have seen it. The subscriber reads the number of the first and
of the last sample of each batch: they have to follow on the batch before, and to be as far apart as the batch is long.
So it sees every loss, and order, at a price that does not hide the fastest contender.

Nothing is imported here that takes time: a process's start is one of the things that are measured.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _peers_contenders import Contender, Receiver, Sender

MARK = 16  # the length of a marker; no sample is as long
HELLO = (1).to_bytes(8, "little") + bytes(8)
END = (2).to_bytes(8, "little") + bytes(8)
HELLO_S = 0.001  # between two markers
END_S = 0.02
POOL_BYTES = 512 * 1024  # of ready payloads: they stay in the second-level cache of most machines
POOL_MAX = 1024
POOL_MIN = 4
BATCH_MAX = 256  # samples that a subscriber takes at once
BATCH_BYTES = 4 * 1024 * 1024
MANY = 64  # samples of a batch call
WARM = 0.1  # the share of round trips that come before the counted ones

ANSWERS = 100  # a descriptor of our own: a library that prints does not get between our lines


def say(word: str, **values: float) -> None:
    """Tell peers.py."""
    pairs = [f"{name}={value!r}" for name, value in values.items()]
    os.write(ANSWERS, (" ".join([word, *pairs]) + "\n").encode())


def told(wait_s: float | None) -> str:
    """What peers.py says within this time: a word, or nothing. None waits as long as it takes."""
    if not select.select([0], [], [], wait_s)[0]:
        return ""
    word = os.read(0, 64).decode().strip()
    if not word:
        sys.exit(0)  # the pipe's end: nobody wants us any more
    return word


def pool_of(size: int) -> list[bytes]:
    """Ready payloads, numbered."""
    count = max(POOL_MIN, min(POOL_MAX, POOL_BYTES // size))
    body = os.urandom(size - 8)
    return [number.to_bytes(8, "little") + body for number in range(count)]


def batch_of(size: int) -> int:
    """How many samples of this size a subscriber takes at once."""
    return max(4, min(BATCH_MAX, BATCH_BYTES // size))


# ---- one way ------------------------------------------------------------------------------------


def meet(out: Sender) -> str:
    """Send HELLO until told something else; what that was."""
    while not (word := told(HELLO_S)):
        out.put(HELLO)
    return word


def pour(out: Sender, mode: str, size: int, seconds: float) -> int:
    """Send samples for this long, in the way that `mode` names: put, many or loan. How many."""
    payloads = pool_of(size)
    count = len(payloads)
    sent = 0
    clock = time.perf_counter
    end = clock() + seconds
    if mode == "put":
        put = out.put
        while clock() < end:
            for payload in payloads:
                put(payload)
            sent += count
    elif mode == "many":
        put_many = out.put_many
        assert put_many is not None  # noqa: S101 - peers.py has asked
        batches = [payloads[at : at + MANY] for at in range(0, count, MANY)]
        while clock() < end:
            for batch in batches:
                put_many(batch)
            sent += count
    else:
        loan = out.loan
        assert loan is not None  # noqa: S101 - peers.py has asked
        turns = range(count)
        while clock() < end:
            for _ in turns:
                loan(size)
            sent += count
    return sent


def send(peer: Contender, mode: str, size: int, seconds: float) -> None:
    """The publisher."""
    out = peer.sender("go")
    say("open")
    word = meet(out)
    if word == "hush":
        word = told(None)
    if word != "go":
        return
    cpu = time.process_time()
    start = time.perf_counter()
    sent = pour(out, mode, size, seconds)
    say("sent", samples=sent, seconds=time.perf_counter() - start)
    out.put(END)
    while not told(END_S):
        out.put(END)
    say("done", cpu=time.process_time() - cpu)
    told(None)


def take(peer: Contender, mode: str, size: int, _seconds: float) -> None:
    """The subscriber."""
    into = peer.receiver("go")
    say("open")
    while not into.receive(1):
        pass
    say("first", at=time.monotonic())
    count(into, size, numbered=mode != "loan")
    told(None)


def count(into: Receiver, size: int, *, numbered: bool) -> None:
    """Take samples until END, and say what came, and how quickly behind the first batch."""
    receive, view, clock = into.receive, into.view, time.perf_counter
    limit, turn = batch_of(size), len(pool_of(size))
    got = first = gaps = expected = 0
    start = last = cpu = 0.0
    ended = False
    while not ended:
        batch = receive(limit)
        if not batch:
            continue
        head, tail = view(batch[0]), view(batch[-1])
        if len(head) == MARK or len(tail) == MARK:
            ended = END[:8] == bytes(tail[:8]) and len(tail) == MARK
            batch = [sample for sample in batch if len(view(sample)) != MARK]
            if not batch:
                continue
            head, tail = view(batch[0]), view(batch[-1])
        now = clock()
        number = len(batch)
        if numbered:
            low = int.from_bytes(head[:8], "little")
            high = int.from_bytes(tail[:8], "little")
            if (low - expected) % turn or (high - low - number + 1) % turn:
                gaps += 1
            expected = high + 1
        if not got:
            first, start, cpu = number, now, time.process_time()
        got += number
        last = now
        del batch, head, tail  # what a view keeps alive is needed for the next samples
    cpu = time.process_time() - cpu
    rate = (got - first) / (last - start) if last > start else 0.0
    say("done", samples=got, rate=rate, gaps=gaps, cpu=cpu, timed=last - start)


# ---- there and back -----------------------------------------------------------------------------


def ping(peer: Contender, _mode: str, size: int, seconds: float) -> None:
    """Send one sample, wait for its answer, and so on."""
    out, into = peer.sender("go"), peer.receiver("back")
    say("open")
    payload = pool_of(size)[0]
    put, receive, view, clock = out.put, into.receive, into.view, time.perf_counter_ns
    if meet(out) != "listen":
        return
    while not receive(1):
        pass
    say("first")
    if told(None) != "go":
        return
    times: list[int] = []
    cpu = time.process_time()
    end = clock() + int(seconds * 1e9)
    begin = 0
    while begin < end:
        begin = clock()
        put(payload)
        while True:
            batch = receive(1)
            if batch and len(view(batch[0])) == size:
                break
        times.append(clock() - begin)
    cpu = time.process_time() - cpu
    out.put(END)
    times = sorted(times[int(len(times) * WARM) :])
    points = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    found = {name: times[int(len(times) * part)] / 1e3 for name, part in points.items()}
    say("done", trips=len(times), cpu=cpu, **found)
    told(None)


def pong(peer: Contender, _mode: str, size: int, _seconds: float) -> None:
    """Answer each sample by one of the same size."""
    into, out = peer.receiver("go"), peer.sender("back")
    say("open")
    payload = pool_of(size)[0]
    put, receive, view = out.put, into.receive, into.view
    while not receive(1):
        pass
    say("first")
    if meet(out) != "go":
        return
    while True:
        for sample in receive(1):
            seen = view(sample)
            if len(seen) == size:
                put(payload)
            elif bytes(seen[:8]) == END[:8]:
                told(None)
                return


# ---- a process ----------------------------------------------------------------------------------

ROLES = {"send": send, "take": take, "ping": ping, "pong": pong}


def main() -> None:
    """ROLE CONTENDER MODE SIZE SECONDS PLACE PORTS CPUS, all from peers.py."""
    os.dup2(1, ANSWERS)
    os.dup2(2, 1)
    role, name, mode, size, seconds, place, ports, cpus = sys.argv[1:]
    if cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    from _peers_contenders import contender  # noqa: PLC0415 - after the CPU is chosen

    kind = contender(name)
    if role == "import":
        begin = time.perf_counter()
        kind.load()
        loaded = time.perf_counter()
        kind.complete()
        ready = time.perf_counter()
        say("done", ms=(loaded - begin) * 1e3, complete=(ready - begin) * 1e3)
        return
    kind.load()
    first = role in {"send", "ping"}
    peer = kind(place, [int(port) for port in ports.split(",")], int(size), first=first)
    peer.open()
    try:
        ROLES[role](peer, mode, int(size), float(seconds))
    finally:
        gc.collect()
        peer.close()
