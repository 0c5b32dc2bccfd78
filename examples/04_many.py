"""Many samples with one call, on both sides: a list, or the rows of an array."""

try:
    import numpy as np
except ModuleNotFoundError:
    raise SystemExit("this example needs numpy: pip install 'pyddsi[numpy]'") from None

import pyddsi

COUNT = 1000

with pyddsi.open() as sensor, pyddsi.open() as logger:
    sub = logger.subscriber("lab/scale", depth=2 * COUNT)
    pub = sensor.publisher("lab/scale")
    pub.wait_matched(timeout=10.0)

    print(pub.put_many([b"%04d" % number for number in range(COUNT)]), "put")
    texts: list[bytes] = []
    while len(texts) < COUNT:
        texts += map(bytes, sub.recv_many(timeout=10.0))
    print(texts[0], texts[-1])

    rows = np.arange(COUNT * 3, dtype="f4").reshape(COUNT, 3)
    print(pub.put_array(rows), "put")
    found = sub.recv_array("f4", timeout=10.0)
    while len(found) < COUNT:
        found = np.concatenate([found, sub.recv_array("f4", timeout=10.0)])
    print(found.shape, bool((found == rows).all()))
