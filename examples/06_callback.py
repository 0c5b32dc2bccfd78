"""Callbacks: a function is called with each sample, on a thread of the session; it may publish itself."""

import pyddsi

with pyddsi.open() as client, pyddsi.open() as server:
    answers = client.subscriber("upper/answer")
    reply = server.publisher("upper/answer")

    @server.subscriber("upper/question").callback
    def answer(sample: pyddsi.Sample) -> None:
        """Publish the same in capitals."""
        reply.put(bytes(sample).upper())

    ask = client.publisher("upper/question")
    ask.wait_matched(timeout=10.0)
    reply.wait_matched(timeout=10.0)
    for word in (b"who", b"is", b"there"):
        ask.put(word)
        print(bytes(answers.recv(timeout=10.0)))
