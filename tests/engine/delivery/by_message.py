"""Deliveries by column as deliveries of messages, which are read one by one."""

from engine.broker import Broker, Delivery, DeliveryColumns


def by_message(broker: Broker, deliveries: DeliveryColumns | list[Delivery]) -> list[Delivery]:
    """The same deliveries."""
    if isinstance(deliveries, list):
        return deliveries
    return [
        Delivery(
            broker.message(receipt.topic, receipt.queue, receipt.offset),
            receipt,
            1,
            deliveries.invisible_until_ms,
        )
        for run in deliveries.runs
        for receipt in run.receipts
    ]
