"""Sends with RocketMQ's official Python client, in the environment that has it, and says how fast.

`python official_client.py ADDRESS TOPIC BODY_BYTES THREADS SECONDS` prints one line of JSON: the
seconds that it took, and the latency of each message.
"""

import json
import sys
import threading
import time

from rocketmq import ClientConfiguration, Credentials, Message, Producer

WARM = 20


def main() -> None:
    """Send from all threads until the time is over."""
    address, topic = sys.argv[1:3]
    body, threads, seconds = b"x" * int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    producer = Producer(ClientConfiguration(address, Credentials(), request_timeout=30), (topic,))
    producer.startup()

    def send() -> float:
        message = Message()
        message.topic, message.body = topic, body
        asked_s = time.perf_counter()
        producer.send(message)
        return time.perf_counter() - asked_s

    for _ in range(WARM):
        send()
    took_s: list[list[float]] = [[] for _ in range(threads)]
    began_s = time.perf_counter()

    def work(mine_s: list[float]) -> None:
        while time.perf_counter() - began_s < seconds:
            mine_s.append(send())

    workers = [threading.Thread(target=work, args=(mine_s,)) for mine_s in took_s]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    ended_s = time.perf_counter()
    latencies_s = [each_s for mine_s in took_s for each_s in mine_s]
    print(json.dumps({"seconds": ended_s - began_s, "latencies_s": latencies_s}), flush=True)
    producer.shutdown()


if __name__ == "__main__":
    main()
