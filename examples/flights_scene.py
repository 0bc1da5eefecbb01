"""What goes wrong around the flights, so that every page of the console has something to show.

Bookings that nobody can ticket end as dead letters for several reasons, some of them are
dismissed, a replay job sends others again and fails at some; check-ins wait for their time, a
payment is undecided, and a group of reports falls behind. Made once: what exists stays as it is.
"""

import json

from examples.flights_table import TOPIC
from kitemq import Client, Consumer, KiteError, Message, Refused
from kitemq.model.produce import NewMessage

BOOKINGS = "bookings"
SEATS = "seat-maps"  # deleted in the end, so that a job finds it gone
CHECK_INS = "check-ins"
PAYMENTS = "payments"
TICKETING = "ticketing"
REPORT = "flights-report"
BOOKED = 12
SEAT_MAPS = 3
ERRORS = (
    "TimeoutError: the fare service did not answer within 5 s",
    "ValueError: 'Zurich' is no airport code",
    "KeyError: 'passport'",
)
HOUR_MS = 3_600_000
FIRST_FLIGHT_WAIT_S = 20.0
JOB_WAIT_S = 20.0


def set_the_scene(client: Client) -> None:
    """Make all of it but the report's lag; a second time, nothing."""
    try:
        client.topics.create(BOOKINGS, read_queues=1, write_queues=1)
    except Refused:
        return
    client.topics.create(SEATS, read_queues=1, write_queues=1)
    client.topics.create(PAYMENTS, type="TRANSACTION")
    client.topics.create(CHECK_INS, type="DELAY")
    client.groups.create(TICKETING, retry_max=0)
    client.messages.send(BOOKINGS, [_booking(number) for number in range(BOOKED)])
    client.messages.send(
        SEATS, [Message(body=f"seat map {number}", keys="seats") for number in range(SEAT_MAPS)]
    )
    _fail(client)
    client.topics.delete(SEATS)
    client.dead_letters.dismiss(TICKETING, [0, 1], note="test bookings of the training course")
    job = client.dead_letters.redrive(
        TICKETING, range(6, BOOKED + 3), to="origin", rate=0, name="after the fix"
    )
    client.replays.wait(job.id, timeout_s=JOB_WAIT_S)
    client.dead_letters.redrive(TICKETING, dry_run=True, name="would it help now?")
    client.messages.send(CHECK_INS, [_check_in(number) for number in range(20)])
    payment = NewMessage('{"booking":7,"euro":420}', transaction_group="payments", keys=("7",))
    client.messages.send(PAYMENTS, [payment])


def fall_behind(client: Client) -> None:
    """One flight is reported, and then nobody reports any more."""
    try:
        taken = client.deliveries.receive(
            REPORT, TOPIC, wait_s=FIRST_FLIGHT_WAIT_S, client="report-1"
        )
        client.deliveries.ack(REPORT, [each.receipt for each in taken])
    except KiteError:  # the demonstration ended meanwhile
        return


def _fail(client: Client) -> None:
    """Ticketing takes what there is and fails, each time for another reason."""
    for topic, count in ((BOOKINGS, BOOKED), (SEATS, SEAT_MAPS)):
        with Consumer(TICKETING, topic, client.url, client="ticketing-1") as consumer:
            for number in range(count):
                message = consumer.receive(timeout_s=JOB_WAIT_S)
                assert message is not None
                error = ERRORS[number % len(ERRORS)]
                if number % len(ERRORS) == 1:
                    message.reject(error)  # trying again is no use
                else:
                    message.nack(error)


def _booking(number: int) -> Message:
    body = {"booking": number, "from": "JFK", "to": "ZRH", "passengers": 1 + number % 3}
    tag = "business" if number % 4 == 0 else "economy"
    return Message(body=json.dumps(body), tag=tag, keys=f"booking-{number}")


def _check_in(number: int) -> Message:
    return Message(
        body=f"check-in opens for booking {number}",
        keys=f"booking-{number}",
        delay_ms=HOUR_MS + number * HOUR_MS // 4,
    )
