"""Send three messages, receive them, acknowledge them. Needs a server: `kitemq serve`.

python -m examples.quickstart
"""

from kitemq import Consumer, Producer


def main() -> None:
    with Producer() as producer:
        for number in range(3):
            sent = producer.send("orders", f"order {number}", tag="paid", keys=f"order-{number}")
            print(f"sent {sent.message_id} to queue {sent.queue} at offset {sent.offset}")

    with Consumer("billing", {"orders": "paid"}) as consumer:
        for _ in range(3):
            message = consumer.receive(timeout_s=10)
            assert message is not None
            print(f"received {message.text!r}, attempt {message.attempt}")
            message.ack()


if __name__ == "__main__":
    main()
