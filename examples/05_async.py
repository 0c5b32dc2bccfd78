"""With asyncio: the loop waits for samples, and for room, without a thread."""

import asyncio

import pyddsi


async def publish(session: pyddsi.Session) -> None:
    """Ten samples, as fast as the reader takes them."""
    pub = session.publisher("count")
    await pub.wait_matched_async(timeout=10.0)
    for number in range(10):
        await pub.put_async(b"%d" % number)


async def main() -> None:
    """Publish and read at the same time."""
    async with pyddsi.open() as one, pyddsi.open() as other:
        sub = other.subscriber("count")
        task = asyncio.create_task(publish(one))
        total = 0
        async for sample in sub:
            total += int(bytes(sample))
            if bytes(sample) == b"9":
                break
        await task
        print("the sum is", total)


asyncio.run(main())
