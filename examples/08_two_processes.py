"""The same with a process for each peer. On one machine samples go through shared memory."""

import multiprocessing

import pyddsi

COUNT = 10_000


def publish() -> None:
    """What the other process does."""
    with pyddsi.open() as session:
        pub = session.publisher("stream")
        pub.wait_matched(timeout=20.0)
        for number in range(COUNT):
            pub.put(number.to_bytes(4, "little"))
        session.close(timeout=20.0)  # waits until all is acknowledged


if __name__ == "__main__":
    with pyddsi.open() as session:
        sub = session.subscriber("stream")
        process = multiprocessing.get_context("spawn").Process(target=publish)
        process.start()
        rows = 0
        while rows < COUNT:
            rows += len(sub.recv_many(timeout=20.0))
        print(rows, "samples from another process")
        process.join()
