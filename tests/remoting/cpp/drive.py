"""Drives the classic Python client, which wraps the C++ client.

`drive.py ADDRESS COMMAND ARGUMENT...` prints lines for the test. Each version runs in an
environment of its own, since all of them are the package `rocketmq`.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq import client as rocketmq

LIMIT_S = 60.0
OUTPUT = threading.Lock()


def say(*words: object) -> None:
    with OUTPUT:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


def text(message: Any) -> str:
    return bytes(message.body).decode()


def message_of(topic: str, body: str, tag: str) -> Any:
    message = rocketmq.Message(topic)
    message.set_body(body)
    message.set_tags(tag)
    message.set_keys(f"key-{body}")
    return message


def sent(result: Any) -> None:
    say("SENT", "SEND_OK" if result.status == rocketmq.SendStatus.OK else "FAILED", result.msg_id)


class Driver:
    """The commands; what they print is what the other languages' drivers print."""

    def __init__(self, address: str) -> None:
        self._address = address

    def _start(self, client: Any) -> Any:
        client.set_namesrv_addr(self._address)
        client.start()
        return client

    def send(self, topic: str, count: str) -> None:
        """Sync, one-way, and async where this version has it."""
        sender = self._start(rocketmq.Producer("sender"))
        answered = threading.Semaphore(0)
        asynchronous = 0
        for number in range(int(count)):
            message = message_of(topic, f"m{number}", "odd" if number % 2 else "even")
            message.set_property("number", str(number))
            if number % 3 == 2:
                sender.send_oneway(message)
            elif number % 3 == 1 and hasattr(sender, "send_async"):
                asynchronous += 1

                def success(result: Any) -> None:
                    sent(result)
                    answered.release()

                sender.send_async(message, success, None)
            else:
                sent(sender.send_sync(message))
        for _ in range(asynchronous):
            assert answered.acquire(timeout=LIMIT_S)
        time.sleep(0.3)
        sender.shutdown()

    def batch(self, topic: str, count: str) -> None:
        sender = self._start(rocketmq.Producer("sender"))
        sent(sender.send_batch([message_of(topic, f"b{n}", "batch") for n in range(int(count))]))
        sender.shutdown()

    def delayed(self, topic: str) -> None:
        sender = self._start(rocketmq.Producer("sender"))
        message = message_of(topic, "level", "d")
        message.set_delay_time_level(1)
        sent(sender.send_sync(message))
        sender.shutdown()

    def ordered(self, topic: str, count: str) -> None:
        sender = self._start(rocketmq.Producer("sender"))
        for number in range(int(count)):
            lane = number % 3
            message = message_of(topic, f"{lane}:{number}", "o")
            if hasattr(sender, "send_orderly"):
                sent(sender.send_orderly(message, lane))
            else:
                sent(sender.send_orderly_with_sharding_key(message, str(lane)))
        sender.shutdown()

    def transactions(self, topic: str) -> None:
        status = rocketmq.TransactionStatus
        plan = {"commit": status.COMMIT, "rollback": status.ROLLBACK}
        checked = threading.Semaphore(0)

        def check(message: Any) -> Any:
            say("CHECKED", text(message))
            checked.release()
            return status.COMMIT if text(message) == "later-commit" else status.ROLLBACK

        sender = self._start(rocketmq.TransactionMQProducer("cpp-decider", check))
        for body in ("commit", "rollback", "later-commit", "later-rollback"):
            result = sender.send_message_in_transaction(
                message_of(topic, body, "t"),
                lambda message, _: plan.get(text(message), status.UNKNOWN),
            )
            sent(result)
        for _ in range(2):
            assert checked.acquire(timeout=LIMIT_S)
        time.sleep(0.5)
        sender.shutdown()

    def push(self, group: str, topic: str, filter: str, count: str) -> None:
        self._consume(
            group, topic, int(count), lambda each: say("GOT", text(each), each.id), filter
        )

    def orderly(self, group: str, topic: str, count: str) -> None:
        self._consume(group, topic, int(count), lambda each: say("GOT", text(each)), orderly=True)

    def failing(self, group: str, topic: str, count: str) -> None:
        """Fails each message the first time, and the one called "hopeless" always."""
        status = rocketmq.ConsumeStatus

        def act(message: Any) -> Any:
            say("GOT", text(message), message.reconsume_times, message.topic)
            is_failing = text(message) == "hopeless" or message.reconsume_times == 0
            return status.RECONSUME_LATER if is_failing else status.CONSUME_SUCCESS

        self._consume(group, topic, int(count), act)

    def broadcast(self, group: str, topic: str, count: str) -> None:
        say("MEMBER")
        name = f"c{os.getpid()}"
        model = rocketmq.MessageModel.BROADCASTING
        self._consume(
            group, topic, int(count), lambda each: say("GOT", name, text(each)), model=model
        )

    def pull(self, group: str, topic: str, count: str) -> None:
        consumer = self._start(rocketmq.PullConsumer(group))
        left = int(count)
        for message in consumer.pull(topic):
            say("GOT", text(message), message.id)
            left -= 1
            if not left:
                break
        consumer.shutdown()

    def _consume(
        self,
        group: str,
        topic: str,
        count: int,
        act: Callable[[Any], Any],
        filter: str = "*",
        *,
        orderly: bool = False,
        model: Any = rocketmq.MessageModel.CLUSTERING,
    ) -> None:
        left = threading.Semaphore(0)
        consumer = rocketmq.PushConsumer(group, orderly, model)
        consumer.set_instance_name(f"{group}-{os.getpid()}")

        def handle(message: Any) -> Any:
            try:
                status = act(message)
            finally:
                left.release()
            if status is None and hasattr(rocketmq, "ConsumeStatus"):
                status = rocketmq.ConsumeStatus.CONSUME_SUCCESS
            return status

        consumer.subscribe(topic, handle, filter)
        self._start(consumer)
        for _ in range(count):
            if not left.acquire(timeout=LIMIT_S):
                say("TIMEOUT")
                break
        time.sleep(1.0)
        consumer.shutdown()


address, command, *arguments = sys.argv[1:]
getattr(Driver(address), command)(*arguments)
say("DONE")
os._exit(0)  # the library's own threads may outlive its shutdown
