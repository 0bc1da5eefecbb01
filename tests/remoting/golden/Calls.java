import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.NotificationRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PollingInfoRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Calls of Apache's own client that neither the programs of `tests/remoting/java` nor mqadmin make:
 * `Calls ADDRESS TOPIC GROUP CLIENT POPPED`. A call that fails is part of the recording.
 */
public class Calls {
    static final long LIMIT_MS = 10_000;
    static final int QUEUE = 1;
    static String address;
    static MQClientAPIImpl api;

    interface Call {
        Object make() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        String topic = arguments[1], group = arguments[2], client = arguments[3];
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(address);
        admin.setInstanceName("golden");
        admin.start();
        api = admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl();
        MessageQueue queue = new MessageQueue(topic, "kitemq", QUEUE);
        long now = System.currentTimeMillis();
        attempt("search", () -> admin.searchOffset(queue, 0));
        attempt("search later", () -> admin.searchOffset(queue, now));
        attempt("search upper", () -> api.searchOffset(address, queue, now, BoundaryType.UPPER, LIMIT_MS));
        attempt("earliest", () -> admin.earliestMsgStoreTime(queue));
        attempt("earliest of none", () -> admin.earliestMsgStoreTime(new MessageQueue(topic, "kitemq", 0)));
        attempt("system topics", () -> api.getSystemTopicList(LIMIT_MS));
        attempt("system topics of the broker", () -> api.getSystemTopicListFromBroker(address, LIMIT_MS));
        attempt("topics of the cluster", () -> api.getTopicsByCluster("DefaultCluster", LIMIT_MS));
        attempt("unit topics", () -> api.getUnitTopicList(false, LIMIT_MS));
        attempt("topics with unit groups", () -> api.getHasUnitSubTopicList(false, LIMIT_MS));
        attempt("other topics with unit groups", () -> api.getHasUnitSubUnUnitTopicList(false, LIMIT_MS));
        attempt("key values", () -> api.getKVListByNamespace("ORDER_TOPIC_CONFIG", LIMIT_MS));
        attempt("correction", () -> api.queryCorrectionOffset(address, topic, group, new HashSet<>(), LIMIT_MS));
        attempt("all offsets", () -> ask(RequestCode.GET_ALL_CONSUMER_OFFSET, null));
        attempt("all delay offsets", () -> ask(RequestCode.GET_ALL_DELAY_OFFSET, null));
        attempt("group", () -> admin.examineSubscriptionGroupConfig(address, group));
        attempt("allowed", () -> admin.updateAndGetGroupReadForbidden(address, group, topic, null));
        attempt("forbid", () -> admin.updateAndGetGroupReadForbidden(address, group, topic, false));
        attempt("allow", () -> admin.updateAndGetGroupReadForbidden(address, group, topic, true));
        attempt("clone", () -> {
            api.cloneGroupOffset(address, group, "cloned", topic, true, LIMIT_MS);
            return "";
        });
        attempt("directly", () -> {
            MessageExt message = admin.queryMessage(topic, "k1", 1, 0, now).getMessageList().get(0);
            return admin.consumeMessageDirectly(group, client, topic, message.getMsgId());
        });
        attempt("unknown code", () -> ask(7777, null));
        attempt("pop", () -> pop(arguments[4]));
        admin.shutdown();
        System.out.println("DONE");
        System.exit(0);
    }

    static void attempt(String name, Call call) {
        try {
            System.out.println(name + ": " + call.make());
        } catch (Throwable error) {
            System.out.println(name + ": " + error);
        }
    }

    static RemotingCommand ask(int code, CommandCustomHeader header) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, header);
        return api.getRemotingClient().invokeSync(address, request, LIMIT_MS);
    }

    /** Asks for messages, takes them, acknowledges them in one request. */
    static Object pop(String topic) throws Exception {
        NotificationRequestHeader notification = new NotificationRequestHeader();
        notification.setConsumerGroup("batcher");
        notification.setTopic(topic);
        notification.setQueueId(-1);
        notification.setPollTime(0);
        notification.setBornTime(System.currentTimeMillis());
        notification.setOrder(false);
        ask(RequestCode.NOTIFICATION, notification);
        PollingInfoRequestHeader polling = new PollingInfoRequestHeader();
        polling.setConsumerGroup("batcher");
        polling.setTopic(topic);
        polling.setQueueId(0);
        ask(RequestCode.POLLING_INFO, polling);
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup("batcher");
        header.setTopic(topic);
        header.setQueueId(-1);
        header.setMaxMsgNums(8);
        header.setInvisibleTime(30_000);
        header.setPollTime(0);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        List<String> receipts = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch popped = new CountDownLatch(1);
        api.popMessageAsync("kitemq", address, header, LIMIT_MS, new PopCallback() {
            public void onSuccess(PopResult result) {
                if (result.getMsgFoundList() != null) {
                    result.getMsgFoundList().forEach(each -> receipts.add(each.getProperty("POP_CK")));
                }
                popped.countDown();
            }

            public void onException(Throwable error) {
                popped.countDown();
            }
        });
        popped.await(LIMIT_MS, TimeUnit.MILLISECONDS);
        CountDownLatch acknowledged = new CountDownLatch(1);
        api.batchAckMessageAsync(address, LIMIT_MS, new AckCallback() {
            public void onSuccess(AckResult result) {
                acknowledged.countDown();
            }

            public void onException(Throwable error) {
                acknowledged.countDown();
            }
        }, topic, "batcher", receipts);
        acknowledged.await(LIMIT_MS, TimeUnit.MILLISECONDS);
        return receipts;
    }
}
