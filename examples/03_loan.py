"""A sample that numpy writes where it is sent from, and reads where it arrived: no copy on the way."""

try:
    import numpy as np
except ModuleNotFoundError:
    raise SystemExit("this example needs numpy: pip install 'pyddsi[numpy]'") from None

import pyddsi

ROWS, COLUMNS = 480, 640

with pyddsi.open() as camera, pyddsi.open() as viewer:
    sub = viewer.subscriber("camera/1/image")
    pub = camera.publisher("camera/1/image")
    pub.wait_matched(timeout=10.0)

    with pub.loan(ROWS * COLUMNS) as memory:  # sent when the block ends, dropped if it raises
        image = np.frombuffer(memory, "u1").reshape(ROWS, COLUMNS)
        image[:] = np.arange(COLUMNS) % 256
        del image  # what still looks at the memory after the block would cost a copy

    with sub.recv(timeout=10.0) as sample:
        image = np.frombuffer(sample.data, "u1").reshape(ROWS, COLUMNS)
        print(image.shape, image[0, 255], image.flags.writeable)
        del image

    pub.put(np.zeros(4_000_000, "u1"))  # larger than the window: it goes out in pieces
    print(len(sub.recv(timeout=10.0)))
