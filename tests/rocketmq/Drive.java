import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageBatch;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.header.EndTransactionRequestHeader;
import org.apache.rocketmq.broker.transaction.OperationResult;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;

/**
 * A real broker of Apache RocketMQ on a folder, without name server and clients: one command in JSON
 * on each line of standard input, one answer on each line of standard output.
 */
public class Drive {
    static final SocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);
    static BrokerController broker;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        JSONObject settings = JSON.parseObject(args[0]);
        String failure = "";
        try {
            start(settings);
        } catch (Throwable error) {
            failure = String.valueOf(error);
        }
        answers.println(JSON.toJSONString(Map.of("started", failure.isEmpty(), "error", failure)));
        if (!failure.isEmpty()) {
            Runtime.getRuntime().halt(1);
        }
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Object answer;
            try {
                answer = run(JSON.parseObject(line));
            } catch (Throwable error) {
                error.printStackTrace();
                answer = Map.of("error", String.valueOf(error));
            }
            answers.println(JSON.toJSONString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    static void start(JSONObject settings) throws Exception {
        BrokerConfig config = new BrokerConfig();
        config.setBrokerIP1("127.0.0.1");
        config.setBrokerName("drive");
        config.setTransactionCheckInterval(3_600_000);
        NettyServerConfig server = new NettyServerConfig();
        server.setBindAddress("127.0.0.1");
        server.setListenPort(settings.getIntValue("port"));
        MessageStoreConfig store = new MessageStoreConfig();
        String root = settings.getString("root");
        store.setStorePathRootDir(root);
        store.setStorePathCommitLog(root + "/commitlog");
        store.setMappedFileSizeCommitLog(settings.getIntValue("segment_bytes"));
        store.setMappedFileSizeConsumeQueue(settings.getIntValue("queue_file_bytes"));
        store.setMaxHashSlotNum(settings.getIntValue("index_slots"));
        store.setMaxIndexNum(settings.getIntValue("index_items"));
        store.setHaListenPort(0);
        store.setFlushDelayOffsetInterval(1000);
        store.setDiskMaxUsedSpaceRatio(95);
        store.setMaxMessageSize(8 * 1024 * 1024);
        broker = new BrokerController(config, server, new NettyClientConfig(), store);
        if (!broker.initialize()) {
            throw new IllegalStateException("the broker cannot load the folder");
        }
        broker.start();
    }

    static Object run(JSONObject command) throws Exception {
        switch (command.getString("do")) {
            case "fill":
                return fill(Path.of(command.getString("path")));
            case "dump":
                return dump(Path.of(command.getString("path")));
            case "query":
                return query(command);
            case "commit":
                broker.getConsumerOffsetManager().commitOffset(
                    "drive", command.getString("group"), command.getString("topic"),
                    command.getIntValue("queue"), command.getLongValue("offset"));
                return Map.of();
            case "offset":
                return Map.of("offset", broker.getConsumerOffsetManager().queryOffset(
                    command.getString("group"), command.getString("topic"),
                    command.getIntValue("queue")));
            case "create":
                broker.getTopicConfigManager().updateTopicConfig(
                    new TopicConfig(command.getString("topic"), command.getIntValue("queues"),
                        command.getIntValue("queues"), 6));
                return Map.of();
            case "persist":
                broker.getConsumerOffsetManager().persist();
                return Map.of();
            case "bounds":
                return Map.of("first",
                    broker.getMessageStore().getMinOffsetInQueue(
                        command.getString("topic"), command.getIntValue("queue")),
                    "end",
                    broker.getMessageStore().getMaxOffsetInQueue(
                        command.getString("topic"), command.getIntValue("queue")));
            case "stop":
                broker.shutdown();
                return Map.of();
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    static Object fill(Path path) throws Exception {
        int count = 0;
        List<MessageExt> halves = new ArrayList<>();
        for (String line : Files.readAllLines(path)) {
            JSONObject each = JSON.parseObject(line);
            String kind = each.getString("kind");
            if (kind.equals("batch")) {
                count += batch(each);
                continue;
            }
            MessageExtBrokerInner message = message(each);
            PutMessageResult result;
            if (kind.equals("half")) {
                MessageAccessor.putProperty(message, MessageConst.PROPERTY_TRANSACTION_PREPARED, "true");
                MessageAccessor.putProperty(message, MessageConst.PROPERTY_PRODUCER_GROUP, "makers");
                message.setSysFlag(MessageSysFlag.TRANSACTION_PREPARED_TYPE);
                message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
                result = broker.getTransactionalMessageService().prepareMessage(message);
                settle(each, message, result);
            } else {
                result = broker.getMessageStore().putMessage(message);
            }
            if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
                throw new IllegalStateException(result.getPutMessageStatus() + " for " + line);
            }
            count++;
        }
        while (broker.getMessageStore().dispatchBehindBytes() > 0) {
            Thread.sleep(20);
        }
        return Map.of("count", count);
    }

    static void settle(JSONObject each, MessageExtBrokerInner half, PutMessageResult put) throws Exception {
        String decision = each.getString("decision");
        if (decision == null) {
            return;
        }
        EndTransactionRequestHeader header = new EndTransactionRequestHeader();
        header.setCommitLogOffset(put.getAppendMessageResult().getWroteOffset());
        header.setProducerGroup("makers");
        header.setTranStateTableOffset(put.getAppendMessageResult().getLogicsOffset());
        boolean commit = decision.equals("commit");
        OperationResult found = commit
            ? broker.getTransactionalMessageService().commitMessage(header)
            : broker.getTransactionalMessageService().rollbackMessage(header);
        MessageExt stored = found.getPrepareMessage();
        if (commit) {
            MessageExtBrokerInner real = new MessageExtBrokerInner();
            real.setTopic(stored.getUserProperty(MessageConst.PROPERTY_REAL_TOPIC));
            real.setQueueId(Integer.parseInt(stored.getUserProperty(MessageConst.PROPERTY_REAL_QUEUE_ID)));
            real.setBody(stored.getBody());
            real.setFlag(stored.getFlag());
            real.setBornTimestamp(stored.getBornTimestamp());
            real.setBornHost(stored.getBornHost());
            real.setStoreHost(stored.getStoreHost());
            real.setPreparedTransactionOffset(header.getCommitLogOffset());
            real.setReconsumeTimes(stored.getReconsumeTimes());
            real.setWaitStoreMsgOK(false);
            real.setSysFlag(MessageSysFlag.TRANSACTION_COMMIT_TYPE);
            real.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(null, stored.getTags()));
            MessageAccessor.setProperties(real, stored.getProperties());
            MessageAccessor.clearProperty(real, MessageConst.PROPERTY_TRANSACTION_PREPARED);
            MessageAccessor.clearProperty(real, MessageConst.PROPERTY_REAL_TOPIC);
            MessageAccessor.clearProperty(real, MessageConst.PROPERTY_REAL_QUEUE_ID);
            real.setPropertiesString(MessageDecoder.messageProperties2String(real.getProperties()));
            broker.getMessageStore().putMessage(real);
        }
        broker.getTransactionalMessageService().deletePrepareMessage(stored);
    }

    static MessageExtBrokerInner message(JSONObject each) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(each.getString("topic"));
        message.setQueueId(each.getIntValue("queue"));
        message.setBody(Base64.getDecoder().decode(each.getString("body")));
        message.setFlag(each.getIntValue("flag"));
        JSONObject properties = each.getJSONObject("properties");
        for (String name : properties.keySet()) {
            MessageAccessor.putProperty(message, name, properties.getString(name));
        }
        if (each.getIntValue("ahead_ms") > 0) {
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_TIMER_DELIVER_MS,
                String.valueOf(System.currentTimeMillis() + each.getIntValue("ahead_ms")));
        }
        message.setReconsumeTimes(each.getIntValue("reconsume_times"));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(null, message.getTags()));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    static int batch(JSONObject each) throws Exception {
        List<Message> parts = new ArrayList<>();
        for (Object one : each.getJSONArray("messages")) {
            JSONObject part = (JSONObject) one;
            Message message = new Message(each.getString("topic"), Base64.getDecoder().decode(part.getString("body")));
            JSONObject properties = part.getJSONObject("properties");
            for (String name : properties.keySet()) {
                MessageAccessor.putProperty(message, name, properties.getString(name));
            }
            parts.add(message);
        }
        MessageExtBatch batch = new MessageExtBatch();
        batch.setTopic(each.getString("topic"));
        batch.setQueueId(each.getIntValue("queue"));
        batch.setBody(MessageBatch.generateFromList(parts).encode());
        MessageAccessor.setProperties(batch, new java.util.HashMap<>());
        batch.setBornTimestamp(System.currentTimeMillis());
        batch.setBornHost(HOST);
        batch.setStoreHost(HOST);
        PutMessageResult result = broker.getMessageStore().putMessages(batch);
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException(result.getPutMessageStatus() + " for a batch");
        }
        return parts.size();
    }

    static Object dump(Path path) throws Exception {
        MessageStore store = broker.getMessageStore();
        int count = 0;
        try (BufferedWriter out = Files.newBufferedWriter(path)) {
            for (Map.Entry<String, ? extends Map<Integer, ConsumeQueueInterface>> topic
                : new TreeMap<>(store.getQueueStore().getConsumeQueueTable()).entrySet()) {
                for (ConsumeQueueInterface queue : new TreeMap<>(topic.getValue()).values()) {
                    count += dumpQueue(store, queue, out);
                }
            }
        }
        return Map.of("count", count);
    }

    static int dumpQueue(MessageStore store, ConsumeQueueInterface queue, BufferedWriter out) throws Exception {
        long offset = queue.getMinOffsetInQueue();
        long end = queue.getMaxOffsetInQueue();
        int count = 0;
        while (offset < end) {
            ReferredIterator<CqUnit> units = queue.iterateFrom(offset);
            if (units == null) {
                break;
            }
            try {
                while (units.hasNext() && offset < end) {
                    CqUnit unit = units.next();
                    MessageExt message = store.lookMessageByOffset(unit.getPos(), unit.getSize());
                    out.write(JSON.toJSONString(described(queue, unit, message)));
                    out.newLine();
                    offset = unit.getQueueOffset() + 1;
                    count++;
                }
            } finally {
                units.release();
            }
        }
        return count;
    }

    static Map<String, Object> described(ConsumeQueueInterface queue, CqUnit unit, MessageExt message) {
        Map<String, Object> fields = new TreeMap<>();
        fields.put("queue_topic", queue.getTopic());
        fields.put("queue_id", queue.getQueueId());
        fields.put("queue_offset", unit.getQueueOffset());
        fields.put("position", unit.getPos());
        fields.put("size_bytes", unit.getSize());
        fields.put("tag_code", unit.getTagsCode());
        if (message == null) {
            return fields;
        }
        fields.put("topic", message.getTopic());
        fields.put("queue", message.getQueueId());
        fields.put("offset", message.getQueueOffset());
        fields.put("flag", message.getFlag());
        fields.put("sys_flag", message.getSysFlag());
        fields.put("born_ms", message.getBornTimestamp());
        fields.put("born_host", message.getBornHostString() + ":" + ((InetSocketAddress) message.getBornHost()).getPort());
        fields.put("stored_ms", message.getStoreTimestamp());
        fields.put("store_host", ((InetSocketAddress) message.getStoreHost()).getAddress().getHostAddress()
            + ":" + ((InetSocketAddress) message.getStoreHost()).getPort());
        fields.put("reconsume_times", message.getReconsumeTimes());
        fields.put("prepared_position", message.getPreparedTransactionOffset());
        fields.put("body_crc", message.getBodyCRC());
        fields.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        fields.put("properties", new TreeMap<>(message.getProperties()));
        return fields;
    }

    static Object query(JSONObject command) throws Exception {
        QueryMessageResult found = broker.getMessageStore().queryMessage(
            command.getString("topic"), command.getString("key"), 64, 0, Long.MAX_VALUE);
        List<Long> positions = new ArrayList<>();
        for (SelectMappedBufferResult each : found.getMessageMapedList()) {
            positions.add(MessageDecoder.decode(each.getByteBuffer().duplicate(), false).getCommitLogOffset());
        }
        found.release();
        return Map.of("positions", positions);
    }
}
