"""Apache's mqadmin 5.5.0, unmodified, against a server process; its output compared with REST's."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.settings import Settings
from tests.remoting.mqadmin import AdminTool, admin_tool
from tests.remoting.server_process import REST_S
from tests.remoting.test_java import LIMIT_S, Server, key_pair, served

pytestmark = pytest.mark.slow

API = "/api/v1"


@dataclass
class Session:
    """A server with some content, and the tool."""

    server: Server
    tool: AdminTool
    home: Path

    def get(self, path: str) -> Any:
        return self.server.get(path)

    def publish(
        self, topic: str, *bodies: str, queue: int = 0, **more: Any
    ) -> list[dict[str, Any]]:
        messages = [{"body": body, "queue": queue, **more} for body in bodies]
        answer = self.server.post(f"/topics/{topic}/messages", {"messages": messages})
        assert answer.status_code in (200, 201), answer.text
        return list(answer.json()["messages"])

    def committed(self, group: str, topic: str) -> int:
        """How many messages of a topic a group has done."""
        queues = self.get(f"/groups/{group}/lag").get("queues", [])
        return sum(int(each["committed"]) for each in queues if each["topic"] == topic)

    def audited(self) -> list[str]:
        """The actions of the trail, newest first."""
        return [each["action"] for each in self.get("/audit?limit=50")["items"]]

    def until(self, is_so: Callable[[], bool]) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < end_s
            time.sleep(0.1)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    home = tmp_path_factory.mktemp("mqadmin")
    with served(home / "data") as server, admin_tool(server.address, home) as tool:
        session = Session(server, tool, home)
        assert "success" in tool.run("updateTopic -b {broker} -t orders -r 2 -w 2")
        assert "success" in tool.run("updateSubGroup -b {broker} -g billing -r 3")
        session.publish("orders", "one", tag="paid", keys=["k1"])
        session.publish("orders", "two", "three", queue=1, tag="paid", keys=["k1"])
        tool.client = tool.call("consumer-client", "billing", "orders").split()[-1]
        tool.call("producer-client", "senders")
        session.until(lambda: session.committed("billing", "orders") == 3)
        yield session


def lines_with(text: str, *words: str) -> list[list[str]]:
    """The lines that begin with these words, as words."""
    rows = [line.split() for line in text.splitlines()]
    return [row for row in rows if tuple(row[: len(words)]) == words]


def pairs(text: str, mark: str) -> dict[str, str]:
    """The lines `name mark value`."""
    parts = (line.partition(mark) for line in text.splitlines())
    return {name.strip(): value.strip() for name, is_pair, value in parts if is_pair}


# Each takes the command's output and the session, and compares it with what REST says.
Check = Callable[[str, Session], None]


def cluster(text: str, session: Session) -> None:
    ((_, name, number, address, *_),) = lines_with(text, "DefaultCluster")
    assert (name, number, address) == ("kitemq", "0", session.server.address)


def cluster_totals(text: str, session: Session) -> None:
    ((*_, sent, delivered),) = lines_with(text, "DefaultCluster")
    traffic = session.get("/statistics")["traffic"]
    assert (int(sent), int(delivered)) == (
        traffic["messages_in"]["total"],
        traffic["messages_out"]["total"],
    )


def topics(text: str, session: Session) -> None:
    names = set(text.split())
    assert {each["name"] for each in session.get("/topics")["items"]} <= names
    assert "%RETRY%billing" in names


def topics_with_groups(text: str, session: Session) -> None:
    assert lines_with(text, "DefaultCluster", "orders", "billing")


def topic_clusters(text: str, session: Session) -> None:
    assert text.split() == ["DefaultCluster"]


def route(text: str, session: Session) -> None:
    topic = session.get("/topics/orders")
    ((*_, reading, writing, permission),) = lines_with(text, "DefaultCluster", "kitemq")
    assert [int(reading), int(writing), int(permission)] == [
        topic["read_queues"],
        topic["write_queues"],
        topic["permission"],
    ]


def topic_status(text: str, session: Session) -> None:
    told = [(queue, first, end) for _, queue, first, end, *_ in lines_with(text, "kitemq")]
    queues = session.get("/topics/orders")["queues"]
    assert told == [(str(q["queue"]), q["min_offset"], q["max_offset"]) for q in queues]


def same_permission(text: str, session: Session) -> None:
    assert "equals to the old one" in text


def order_config(text: str, session: Session) -> None:
    assert "orderConf=[kitemq:2]" in text


def allocation(text: str, session: Session) -> None:
    result = json.loads(text)["result"]
    assert sorted(each["queueId"] for queues in result.values() for each in queues) == [0, 1]


def statistics(text: str, session: Session) -> None:
    ((_, _, lag, _, _, sent, delivered),) = lines_with(text, "orders", "billing")
    figures = session.get("/topics/orders/statistics")
    assert int(lag) == session.get("/groups/billing/lag")["count"]
    assert int(sent) == figures["traffic"]["messages_in"]["total"]
    assert int(delivered) == figures["readers"][0]["messages_out"]["total"]


def broker_status(text: str, session: Session) -> None:
    figures = pairs(text, ":")
    assert (
        int(figures["msgPutTotalTodayNow"])
        == session.get("/statistics")["traffic"]["messages_in"]["total"]
    )
    assert figures["brokerVersionDesc"].startswith("KiteMQ ")
    assert int(figures["bootTimestamp"]) < int(time.time() * 1000)
    assert int(figures["earliestMessageTimeStamp"]) > 0


def broker_settings(text: str, session: Session) -> None:
    told = pairs(text, "=")
    settings = Settings()
    assert told["brokerName"] == settings.broker_name
    assert told["defaultTopicQueueNums"] == str(settings.default_queues)


def copies(text: str, session: Session) -> None:
    assert lines_with(text, "#SlaveNum", "0")
    ((_, end),) = lines_with(text, "#MasterCommitLogMaxOffset")
    assert int(end) > int(session.get("/topics/orders/messages/1/1")["position"])


def name_server_settings(text: str, session: Session) -> None:
    assert pairs(text, "=")["listenPort"] == session.server.address.rpartition(":")[2]


def all_progress(text: str, session: Session) -> None:
    assert "Diff Total: 0" in text


def producers(text: str, session: Session) -> None:
    assert f"producer group (senders) instance : clientId={session.tool.client}" in text


def producer_connections(text: str, session: Session) -> None:
    assert session.tool.client in text
    assert "V5_5_0" in text


def consumer_connections(text: str, session: Session) -> None:
    members = session.get("/groups/billing/members")["items"]
    assert [row[0] for row in lines_with(text, session.tool.client)] == [
        each["client"] for each in members
    ]
    assert lines_with(text, "orders", "paid")


def progress(text: str, session: Session) -> None:
    told = [
        (int(row[2]), row[3], row[4], int(row[5])) for row in lines_with(text, "orders", "kitemq")
    ]
    queues = session.get("/groups/billing/lag")["queues"]
    assert told == [
        (each["queue"], each["max_offset"], each["committed"], each["count"])
        for each in queues
        if each["topic"] == "orders"  # not those of its retries, which it shows apart
    ]


def groups(text: str, session: Session) -> None:
    told = {row[0] for row in (line.split() for line in text.splitlines()[1:]) if row}
    assert {each["name"] for each in session.get("/groups")["items"]} <= told


def consumer_status(text: str, session: Session) -> None:
    assert "Rebalance OK" in text
    assert session.tool.client in text


def running_info(text: str, session: Session) -> None:
    assert pairs(text, ":")["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"


def group_config(text: str, session: Session) -> None:
    told, group = pairs(text, "="), session.get("/groups/billing")
    assert int(told["retryMaxTimes"]) == group["retry_max"]
    assert told["consumeEnable"] == str(group["consume_enabled"]).lower()


def done(text: str, session: Session) -> None:
    assert "success" in text


def indexed(text: str) -> dict[str, str]:
    """The IndexKey of each message that a query by key shows, by message id, in order."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row[3] for row in rows if len(row) == 4 and "@" in row[3]}


def messages_by_key(text: str, session: Session) -> None:
    found = session.get("/topics/orders/messages/by-key?key=k1")["items"]
    assert list(indexed(text)) == [each["message_id"] for each in found]


def messages_by_tag(text: str, session: Session) -> None:
    found = session.get("/topics/orders/search?filter=paid")["items"]
    assert list(indexed(text)) == [each["message_id"] for each in found]


def message_by_offset(text: str, session: Session) -> None:
    message = session.get("/topics/orders/messages/1/0")
    assert pairs(text, ":")["Queue Offset"] == message["offset"]
    assert f"UNIQ_KEY={message['message_id']}" in text
    assert "trackType=CONSUMED" in text


def queue_entries(text: str, session: Session) -> None:
    assert "max: 2, min: 0" in text
    assert len(re.findall(r"physicOffset", text)) == 2
    assert '"subString":"paid"' in text


def bodies(text: str, session: Session) -> None:
    for body in ("two", "three"):
        assert body in text or str(list(body.encode())) in text


def sent(text: str, session: Session) -> None:
    assert "SEND_OK" in text or " true " in text


def queue_reset(text: str, session: Session) -> None:
    assert "Exception" not in text
    (queue,) = [each for each in session.get("/groups/fresh/lag")["queues"] if each["queue"] == 1]
    assert queue["committed"] == "1"


READS: dict[str, Check] = {
    "clusterList": cluster,
    "clusterList -m": cluster_totals,
    "topicList": topics,
    "topicList -c": topics_with_groups,
    "topicClusterList -t orders": topic_clusters,
    "topicRoute -t orders -l": route,
    "topicStatus -t orders": topic_status,
    "updateTopicPerm -b {broker} -t orders -p 6": same_permission,
    "updateOrderConf -t orders -m get": order_config,
    "updateOrderConf -t orders -m put -v kitemq:2": order_config,
    "allocateMQ -t orders -i 192.0.2.1,192.0.2.2": allocation,
    "statsAll -t orders": statistics,
    "brokerStatus -b {broker}": broker_status,
    "getBrokerConfig -b {broker}": broker_settings,
    "getNamesrvConfig": name_server_settings,
    "brokerConsumeStats -b {broker}": all_progress,
    "producer -b {broker}": producers,
    "producerConnection -g senders -t orders": producer_connections,
    "consumerConnection -g billing": consumer_connections,
    "consumerProgress -g billing": progress,
    "consumerProgress": groups,
    "consumerStatus -g billing": consumer_status,
    "consumerStatus -g billing -i {client}": running_info,
    "getConsumerConfig -g billing": group_config,
    "haStatus -b {broker}": copies,
    "cleanExpiredCQ -b {broker}": done,
    "cleanUnusedTopic -b {broker}": done,
    "deleteExpiredCommitLog -b {broker}": done,
    "deleteKvConfig -s own -k name": done,
    "updateBrokerConfig -b {broker} -k brokerName -v kitemq": done,
    "queryMsgByKey -t orders -k k1": messages_by_key,
    "queryMsgByKey -t orders -k paid -p T": messages_by_tag,
    "queryMsgByOffset -t orders -b kitemq -i 1 -o 0": message_by_offset,
    "queryCq -t orders -q 1 -i 0 -c 5 -b {broker} -g billing": queue_entries,
    "consumeMessage -t orders -b kitemq -i 1 -o 0": bodies,
    "printMsg -t orders -d true": bodies,
    "printMsgByQueue -t orders -a kitemq -i 1 -p true -d true": bodies,
    "resetOffsetByTime -g fresh -t orders -s 0 -b {broker} -q 1 -o 1": queue_reset,
    "checkMsgSendRT -t sent -a 2 -s 100": sent,
    "sendMsgStatus -b kitemq -s 100 -c 2": sent,
    "exportMetadata -c DefaultCluster -f .": done,
    "exportConfigs -c DefaultCluster -f .": done,
    "exportMetrics -c DefaultCluster -f .": done,
}
REFUSALS = {
    "updateBrokerConfig -b {broker} -k defaultTopicQueueNums -v 9": "the setting default_queues",
    "updateBrokerConfig -b {broker} -k slaveReadEnable -v true": "is no setting here",
    "updateNamesrvConfig -k serverWorkerThreads -v 9": "is no setting here",
    "updateKvConfig -s own -k name -v value": "keeps no values but the queues of topics",
    "updateOrderConf -t orders -m put -v kitemq:9": "updateTopic changes the number of queues",
    "updateTopic -b {broker} -t orders -a +message.type=FIFO": "is a topic of type NORMAL",
    "updateTopic -b {broker} -t other -a +cleanup.policy=COMPACTION": "is not offered",
    "updateStaticTopic -t static -qn 2 -b kitemq": "static topics spread over brokers",
    "getBrokerEpoch -b kitemq": "no cluster of brokers",
    "resetMasterFlushOffset -b {broker} -o 0": "no cluster of brokers",
    "getColdDataFlowCtrInfo -b {broker}": "not throttled",
    "setCommitLogReadAheadMode -b {broker} -m 1": "not throttled",
    "checkRocksdbCqWriteProgress -c DefaultCluster": "in RocksDB",
    "getSyncStateSet -a {broker} -b kitemq": "no controller elects a master",
    "electMaster -a {broker} -b 0 -bn kitemq -c DefaultCluster": "no controller elects a master",
    "cleanBrokerMetadata -a {broker} -b 1 -bn kitemq -c DefaultCluster": "no controller elects",
    "addBroker -c {broker} -b nothing": "no cluster of brokers",
    "updateColdDataFlowCtrGroupConfig -b {broker} -g billing -v 10": "not throttled",
    "exportPopRecord -b {broker}": "not in records of POPs",
    "wipeWritePerm -b other": "the one broker is",
    "switchTimerEngine -b {broker} -e F": "in no timer wheel",
    "getBrokerLiteInfo -b {broker}": "there are no lite topics",
    # These print no reason of any broker.
    "getParentTopicInfo -p orders": "[kitemq] error.",
    "getLiteTopicInfo -p orders -l one": "[kitemq] error.",
    "getLiteClientInfo -p orders -g billing -c one": "[kitemq] error.",
    "getLiteGroupInfo -p orders -g billing": "[kitemq] error.",
    "triggerLiteDispatch -p orders -g billing": "error",
}


@pytest.mark.parametrize("command", READS)
def test_a_command_shows_what_rest_shows(session: Session, command: str) -> None:
    READS[command](session.tool.run(command), session)


@pytest.mark.parametrize("command", REFUSALS)
def test_a_command_for_what_is_not_offered_prints_the_reason(
    session: Session, command: str
) -> None:
    assert REFUSALS[command] in session.tool.run(command)


def test_calls_of_dashboard_and_exporter_answer(session: Session) -> None:
    text = session.tool.call("calls", "DefaultCluster", "orders", "billing")
    told = {line.split()[0]: line.partition(" ")[2] for line in text.splitlines() if line.strip()}
    topic, group = session.get("/topics/orders"), session.get("/groups/billing")
    assert told["attributes"] == f"{{message.type={topic['type']}}}"
    assert told["queues"] == str(topic["read_queues"])
    assert told["retries"] == str(group["retry_max"])
    # Another test has the group `fresh` read the topic.
    assert "billing" in told["groups"].strip("[]").split(", ")
    assert told["subscription"] == "paid"
    assert "orders" in told["topics"]
    assert told["behind"] == "0"
    for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "BROKER_PUT_NUMS"):
        assert told[name].startswith("true "), name  # of the day; its minute may be over
    assert "senders" in told["producers"]
    assert told["offsets"] == "1"
    for name in (
        "commitLogDirCapacity",
        "putMessageDistributeTime",
        "runtime",
        "queryThreadPoolQueueSize",
    ):
        assert name in told["runtime"], name


def test_a_consumer_processes_a_message_on_request(session: Session) -> None:
    bad = session.publish("orders", "bad", tag="other")[0]
    tool, found = session.tool, {}
    for offset, queue in (("0", 1), (bad["offset"], bad["queue"])):
        text = tool.run(f"queryMsgByOffset -t orders -b kitemq -i {queue} -o {offset}")
        offset_id = pairs(text, ":")["OffsetID"]
        found[queue] = tool.run(f"queryMsgById -t orders -i {offset_id} -g billing -d {{client}}")
    assert "CR_SUCCESS" in found[1]
    assert "CR_LATER" in found[bad["queue"]]
    assert session.audited()[:2] == ["client.verify"] * 2
    body = {"client": tool.client, "topic": "orders", "queue": 1, "offset": "0"}
    answer = session.server.post("/groups/billing/members/verify", body).json()
    assert (answer["verdict"], answer["code"]) == ("consumed", "CR_SUCCESS")


def test_what_the_tool_sends_has_a_trace(session: Session) -> None:
    row = lines_with(session.tool.run("sendMessage -t sent -p one -c paid -m true"), "kitemq")
    ((*_, status, message_id),) = row
    assert status == "SEND_OK"
    assert session.get(f"/messages/{message_id}/journey")["stages"]
    assert lines_with(session.tool.run(f"queryMsgTraceById -i {message_id}"), "Pub")


@pytest.mark.parametrize("query", ["-k k1", "-k paid -p T"])
def test_a_query_by_key_or_tag_goes_on_after_the_last_key(session: Session, query: str) -> None:
    command = f"queryMsgByKey -t orders {query}"
    all_of_them = indexed(session.tool.run(command))
    pages = [indexed(session.tool.run(f"{command} -m 2"))]
    while pages[-1]:
        last = list(pages[-1].values())[-1]
        pages.append(indexed(session.tool.run(f"{command} -m 2 -l {last}")))
    assert [list(page) for page in pages] == [list(all_of_them)[:2], list(all_of_them)[2:], []]


def test_a_message_is_processed_by_its_message_id(session: Session) -> None:
    message_id = session.get("/topics/orders/messages/1/0")["message_id"]
    text = session.tool.run(
        f"queryMsgByUniqueKey -t orders -i {message_id} -g billing -d {{client}}"
    )
    assert "CR_SUCCESS" in text


def test_what_the_tool_changes_shows_in_rest_and_is_audited(session: Session) -> None:
    tool = session.tool
    tool.run("updateTopic -b {broker} -t letters -r 2 -w 2 -a +message.type=FIFO -o true")
    letters = session.get("/topics/letters")
    assert (letters["type"], letters["read_queues"]) == ("FIFO", 2)
    (session.home / "topics.json").write_text(
        '[{"topicName":"first","readQueueNums":3,"writeQueueNums":3,"perm":6},'
        '{"topicName":"second","readQueueNums":1,"writeQueueNums":1,"perm":4}]'
    )
    tool.run("updateTopicList -b {broker} -f topics.json")
    assert session.get("/topics/first")["write_queues"] == 3
    assert session.get("/topics/second")["permission"] == 4
    (session.home / "groups.json").write_text(
        '[{"groupName":"readers","retryMaxTimes":2},{"groupName":"writers","retryMaxTimes":5}]'
    )
    tool.run("updateSubGroupList -b {broker} -f groups.json")
    assert session.get("/groups/writers")["retry_max"] == 5
    assert {"topic.create", "group.create"} <= set(session.audited())
    tool.run("wipeWritePerm -b kitemq")
    assert session.get("/topics/first")["permission"] == 4
    assert "topic.change" in session.audited()
    tool.run("addWritePerm -b kitemq")
    assert session.get("/topics/first")["permission"] == 6


def test_the_tool_makes_moves_and_deletes(session: Session) -> None:
    tool = session.tool
    tool.run("updateTopic -b {broker} -t moved -r 2 -w 2")
    tool.run("updateSubGroup -b {broker} -g movers -r 3")
    assert session.get("/groups/movers")["retry_max"] == 3
    session.publish("moved", "1", tag="paid")
    session.publish("moved", "2", queue=1, tag="paid")
    assert ["moved"] in tool.rows("topicList")
    rows = lines_with(tool.run("topicStatus -t moved"), "kitemq")
    assert sum(int(row[3]) for row in rows) == 2
    tool.call("consumer-client", "movers", "moved")
    session.until(lambda: session.committed("movers", "moved") == 2)

    def progress(column: int) -> int:
        rows = lines_with(tool.run("consumerProgress -g movers"), "moved")
        return sum(int(row[column]) for row in rows)

    assert progress(4) == 2
    (copied,) = [tool.run("cloneGroupOffset -s movers -d movers2 -t moved -o true")]
    assert "success" in copied
    assert session.get("/groups/movers2/lag")["count"] == 0
    tool.run("updateTopicPerm -b {broker} -t moved -p 2")  # so that nothing is consumed again
    tool.run("resetOffsetByTime -g movers -t moved -s 0")
    assert progress(5) == 2
    assert "group.reset" in session.audited()
    tool.run("skipAccumulatedMessage -g movers -t moved")
    assert progress(5) == 0
    tool.run("deleteSubGroup -b {broker} -g movers2")
    tool.run("deleteTopic -c DefaultCluster -t moved")
    moved = f"{session.server.url}{API}/topics/moved"
    assert httpx.get(moved, timeout=REST_S).status_code == 404
    assert {"topic.delete", "group.delete"} <= set(session.audited())


def test_a_round_of_monitoring_shows_the_lag_that_rest_shows(session: Session) -> None:
    tool = session.tool
    tool.run("updateTopic -b {broker} -t watched -r 2 -w 2")
    tool.run("updateSubGroup -b {broker} -g watchers")
    for queue in (0, 1):
        session.publish("watched", "before", queue=queue, tag="paid")
    tool.call("consumer-client", "watchers", "watched")
    session.until(lambda: session.committed("watchers", "watched") == 2)  # a place in both queues
    tool.run("updateSubGroup -b {broker} -g watchers -s false")
    session.publish("watched", "1", "2", tag="paid")
    session.publish("watched", "3", queue=1, tag="paid")
    text = tool.call("monitor")
    assert ["ROUND"] in lines_with(text, "ROUND"), text
    ((_, _, _, total, most, delay_ms),) = lines_with(text, "UNDONE", "watchers", "watched")
    queues = session.get("/groups/watchers/lag")["queues"]
    counts = [each["count"] for each in queues if each["topic"] == "watched"]
    assert (int(total), int(most)) == (sum(counts), max(counts)) == (3, 2)
    assert int(delay_ms) > 0  # the newest messages are later than the last ones consumed
    assert lines_with(text, "RUNNING", tool.client, "CONSUME_PASSIVELY")


def test_resets_directly_one_after_the_other_each_move_the_group(session: Session) -> None:
    tool = session.tool
    tool.run("updateTopic -b {broker} -t again -r 1 -w 1")
    tool.run("updateSubGroup -b {broker} -g agains")
    session.publish("again", "1", "2")
    for when, offset in (("now", "2"), ("0", "0"), ("0", "0"), ("now", "2"), ("now", "2")):
        text = tool.run(f"resetOffsetByTime -g agains -t again -s {when}")
        assert lines_with(text, "kitemq", "0", offset), text
        (queue,) = session.get("/groups/agains/lag")["queues"]
        assert queue["committed"] == offset


def test_users_and_their_rights(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data, ("--admin-name", "boss", "--admin-password", "correct horse battery")):
        pass
    token, access_key, secret_key = key_pair(data)
    keys = (f"-Daccess={access_key}", f"-Dsecret={secret_key}")
    with served(data) as server, admin_tool(server.address, tmp_path, *keys) as tool:
        assert "success" in tool.run("createUser -b {broker} -u ann -p tractor-7-lamp -t Normal")
        assert lines_with(tool.run("listUser -b {broker}"), "ann", "null", "Normal", "enable")
        assert lines_with(tool.run("getUser -b {broker} -u boss"), "boss", "null", "Super")
        tool.run(
            "createAcl -b {broker} -s User:ann -r Topic:orders-*,Group:billing -a Pub,Sub -d Allow"
        )
        listed = tool.run("listAcl -b {broker}")
        assert lines_with(
            listed, "User:ann", "Custom", "Topic:orders-*", "[Pub,", "Sub]", "null", "Allow"
        )
        assert lines_with(tool.run("getAcl -b {broker} -s User:ann"), "User:ann")

        rights = ["produce:{}", "consume:{}"]
        boss = {"authorization": f"Bearer {token}"}
        ann = httpx.get(f"{server.url}{API}/users/ann", headers=boss, timeout=REST_S).json()
        assert (ann["role"], ann["patterns"]) == (
            "operator",
            [each.format(name) for name in ("topic:orders-*", "group:billing") for each in rights],
        )
        refused = "updateAcl -b {broker} -s User:ann -r Topic:orders-* -a Pub -d Deny"
        assert "never denied" in tool.run(refused)
        tool.run("updateAcl -b {broker} -s User:ann -r Topic:orders-* -a All -d Allow")
        tool.run("deleteAcl -b {broker} -s User:ann -r Group:billing")
        assert lines_with(
            tool.run("listAcl -b {broker}"), "User:ann", "Custom", "Topic:orders-*", "[All]"
        )
        for copy in (
            "copyUser -f {broker} -t {broker} -u ann",
            "copyAcl -f {broker} -t {broker} -s User:ann",
        ):
            assert "success" in tool.run(copy)
        tool.run("updateUser -b {broker} -u ann -s disable")
        assert lines_with(
            tool.run("getUser -b {broker} -u ann"), "ann", "null", "Normal", "disable"
        )
        tool.run("deleteUser -b {broker} -u ann")
        assert not lines_with(tool.run("listUser -b {broker}"), "ann")
        assert "tractor" not in b"".join(
            path.read_bytes() for path in data.rglob("*") if path.is_file()
        ).decode("latin-1")
