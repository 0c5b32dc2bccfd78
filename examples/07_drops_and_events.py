"""What happened, and what was lost: nothing goes missing without a line in the ledger."""

import pyddsi

with pyddsi.open(shared_memory=False) as source, pyddsi.open(shared_memory=False) as reader:
    newest = reader.subscriber("speed", depth=4, on_full="drop_oldest")
    done = reader.subscriber("done")
    pub, end = source.publisher("speed"), source.publisher("done")
    pub.wait_matched(timeout=10.0)
    end.wait_matched(timeout=10.0)

    for number in range(100):
        pub.put(bytes([number]))
    end.put(b"")
    done.recv(timeout=10.0)

    print([bytes(newest.recv(timeout=10.0))[0] for _ in range(4)])
    for drop in reader.drops():
        if drop.reason == "overwritten":
            print(drop.count, drop.place, drop.reason)

    name = reader.name
    reader.close()
    event = source.wait_event("disconnected", timeout=10.0)
    print(event.kind, event.peer == name, event.reason)
    print(source.why_not("speed"))
