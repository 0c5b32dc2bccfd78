"""Two peers in one program: one publishes, the other prints. On two machines it is the same."""

import pyddsi

with pyddsi.open() as robot, pyddsi.open() as watcher:
    sub = watcher.subscriber("plant/robot/7/pose")
    pub = robot.publisher("plant/robot/7/pose", reliable=True)
    pub.wait_matched(timeout=10.0)

    pub.put(b"x=1 y=2")
    sample = sub.recv(timeout=10.0)
    print(sample.resource, bytes(sample.data))
