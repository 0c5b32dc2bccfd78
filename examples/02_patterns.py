"""A pattern covers many resources; where= takes only samples that fit, and is looked at before they are sent."""

import pyddsi

with pyddsi.open() as plant, pyddsi.open() as office:
    poses = office.subscriber("plant/robot/*/pose")
    hot = office.subscriber("plant/**/temperature", where="celsius > 80")

    pubs = [plant.publisher(f"plant/robot/{number}/pose") for number in (7, 8)]
    oven = plant.publisher("plant/oven/2/temperature")
    for pub in (*pubs, oven):
        pub.wait_matched(timeout=10.0)

    for pub in pubs:
        pub.put(b"home")
    oven.put(b'{"celsius": 75}')
    oven.put(b'{"celsius": 91}')

    for _ in pubs:
        sample = poses.recv(timeout=10.0)
        print(sample.resource, bytes(sample))
    sample = hot.recv(timeout=10.0)
    print(sample.resource, bytes(sample))
