"""A worker in asyncio code: many messages at once, failures that come again, a clean stop.

    python -m examples.worker

Every third thumbnail fails at its first attempt, comes again after a second, and then succeeds.
"""

import asyncio

from kitemq import AsyncConsumer, AsyncProducer, Message, Received

PICTURES = 9


async def main() -> None:
    async with AsyncProducer() as producer:
        pictures = [Message(body=f"picture-{number}.png") for number in range(PICTURES)]
        await producer.send_batch("thumbnails", pictures)

    done = asyncio.Event()
    finished: list[str] = []

    async def make_thumbnail(message: Received) -> None:
        """Returning acknowledges the message; raising lets it come again."""
        number = int(message.text.removeprefix("picture-").removesuffix(".png"))
        if number % 3 == 0 and message.attempt == 1:
            message.nack("the disk was full", delay_s=1)
            return
        finished.append(message.text)
        print(f"{message.text} done at attempt {message.attempt}")
        if len(finished) == PICTURES:
            done.set()

    async with AsyncConsumer("thumbnailers", "thumbnails") as consumer:
        working = asyncio.create_task(consumer.run(make_thumbnail, concurrency=4))
        await done.wait()
        await consumer.stop()  # lets handlers finish and puts back what nobody began
        await working


if __name__ == "__main__":
    asyncio.run(main())
