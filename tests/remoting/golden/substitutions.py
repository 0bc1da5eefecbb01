"""What a server chooses and clients repeat: positions, receipts of POPs, recall handles, key pairs.

A client's request names what Apache's broker chose. For KiteMQ it is exchanged for what that
chose in the same place of the session; all other bytes stay.
"""

import json
from typing import NamedTuple

from protocol.remoting.codes import RequestCode as R
from protocol.remoting.frames import Command
from protocol.remoting.signature import ACCESS_KEY, SIGNATURE, sign
from tests.remoting.golden.records import records

POSITION_HEX = 16  # the end of an offset id
SENDS = frozenset({R.SEND_MESSAGE, R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE})
READS = frozenset(
    {R.PULL_MESSAGE, R.LITE_PULL_MESSAGE, R.QUERY_MESSAGE, R.VIEW_MESSAGE_BY_ID, R.POP_MESSAGE}
)
# Requests with a position, by the name of its field.
POSITIONS = {
    R.VIEW_MESSAGE_BY_ID: "offset",
    R.CONSUMER_SEND_MSG_BACK: "offset",
    R.END_TRANSACTION: "commitLogOffset",
}
RECEIPTS = frozenset({R.ACK_MESSAGE, R.CHANGE_MESSAGE_INVISIBLETIME})


class KeyPair(NamedTuple):
    """What a client signs with."""

    access_key: str
    secret_key: str

    def signs(self, command: Command) -> bool:
        return command.fields.get(SIGNATURE) == sign(command, self.secret_key)


class Substitutions:
    """Values of the recorded session with those of this one."""

    def __init__(self, keys: tuple[KeyPair, KeyPair] | None = None) -> None:
        """`keys` are the key pair of the recorded clients and the one in its place."""
        self._keys = keys
        self._positions: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._handles: dict[str, str] = {}
        self._pops: dict[str, Command] = {}  # KiteMQ's answers by the time of Apache's
        self._offsets: dict[str, str] = {}  # of half messages, by Apache's position

    def learn(self, request: Command, apache: Command, kitemq: Command) -> None:
        """Compare a frame of Apache with that of KiteMQ in its place."""
        first, second = apache.fields, kitemq.fields
        if request.code in SENDS and "msgId" in first and "msgId" in second:
            self._learn_ids(first["msgId"], second["msgId"])
            self._offsets[self._position(first["msgId"])] = second["queueOffset"]
        if "recallHandle" in first and "recallHandle" in second:
            self._handles[first["recallHandle"]] = second["recallHandle"]
        if request.code in READS and apache.body and kitemq.body:
            for one, other in zip(records(apache.body), records(kitemq.body), strict=False):
                self._positions[str(one["position"])] = str(other["position"])
        if request.code == R.POP_MESSAGE and "popTime" in first:
            self._pops[first["popTime"]] = kitemq
        if request.code == R.CHANGE_MESSAGE_INVISIBLETIME and "popTime" in first:
            self._pops[first["popTime"]] = kitemq
        if apache.code == R.CHECK_TRANSACTION_STATE:
            self._positions[first["commitLogOffset"]] = second["commitLogOffset"]
            self._offsets[first["commitLogOffset"]] = second["tranStateTableOffset"]

    def exchange(self, command: Command) -> bool:
        """Let a request name what KiteMQ chose; whether that changed it."""
        is_signed = self._keys is not None and self._keys[0].signs(command)
        is_changed = self._exchange(command)
        if self._keys is None or command.fields.get(ACCESS_KEY) != self._keys[0].access_key:
            return is_changed
        command.fields[ACCESS_KEY] = self._keys[1].access_key
        if is_signed:  # else its secret is wrong, and stays so
            command.fields[SIGNATURE] = sign(command, self._keys[1].secret_key)
        return True

    def _exchange(self, command: Command) -> bool:
        fields, before = command.fields, dict(command.fields)
        if name := POSITIONS.get(R(command.code)) if command.code in set(R) else None:
            if command.code == R.END_TRANSACTION:
                offset = fields["tranStateTableOffset"]
                fields["tranStateTableOffset"] = self._offsets.get(fields[name], offset)
            fields[name] = self._positions.get(fields[name], fields[name])
        if command.code == R.RECALL_MESSAGE:
            handle = fields["recallHandle"]
            fields["recallHandle"] = self._handles.get(handle, handle)
        if command.code in RECEIPTS:
            fields["extraInfo"] = self._receipt(fields["extraInfo"])
        if command.code == R.CONSUME_MESSAGE_DIRECTLY:
            fields["msgId"] = self._ids.get(fields["msgId"], fields["msgId"])
        if command.code == R.BATCH_ACK_MESSAGE:
            command.body = self._batch(command.body)
        return fields != before or command.code == R.BATCH_ACK_MESSAGE

    def _batch(self, body: bytes) -> bytes:
        document = json.loads(body)
        for each in document["acks"]:
            if kitemq := self._pops.get(str(each["pt"])):
                each["pt"] = int(kitemq.fields["popTime"])
        return json.dumps(document).encode()

    def _learn_ids(self, first: str, second: str) -> None:
        for one, other in zip(first.split(","), second.split(","), strict=False):
            self._ids[one] = other
            self._positions[self._position(one)] = self._position(other)

    def _position(self, offset_id: str) -> str:
        return str(int(offset_id[-POSITION_HEX:], 16))

    def _receipt(self, text: str) -> str:
        """A receipt with the first offset, the times and the revive queue of KiteMQ's answer."""
        first, time, _, _, mark, *rest = text.split(" ")
        kitemq = self._pops.get(time)
        if kitemq is None:
            return text
        fields = kitemq.fields
        for info in fields.get("startOffsetInfo", "").split(";"):
            if info.split(" ")[:2] == [mark, rest[1]]:
                first = info.split(" ")[2]
        return " ".join(
            (first, fields["popTime"], fields["invisibleTime"], fields["reviveQid"], mark, *rest)
        )
