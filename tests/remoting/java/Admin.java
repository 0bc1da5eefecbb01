import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.body.BrokerStatsData;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.remoting.protocol.body.QueueTimeSpan;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.monitor.DefaultMonitorListener;
import org.apache.rocketmq.tools.monitor.MonitorConfig;
import org.apache.rocketmq.tools.monitor.MonitorService;
import org.apache.rocketmq.tools.monitor.UndoneMsgs;

/**
 * Runs commands of Apache's mqadmin in one process: `Admin ADDRESS`, then one command a line, its words
 * parted by tabs. After the output of each comes a line END. Some commands are not mqadmin's: clients
 * that stay connected, and calls that RocketMQ Dashboard and the Prometheus exporter make besides.
 */
public class Admin {
    static String address;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        Drive.hurryShutdowns();
        System.setErr(System.out);
        String access = System.getProperty("access");
        RPCHook hook = access == null ? null
            : new AclClientRPCHook(new SessionCredentials(access, System.getProperty("secret")));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                run(line.split("\t"), hook);
            } catch (Throwable error) {
                error.printStackTrace();
            }
            System.out.println("\nEND");
            System.out.flush();
        }
        System.exit(0);
    }

    static void run(String[] words, RPCHook hook) throws Exception {
        switch (words[0]) {
            case "consumer-client": consumer(words[1], words[2]); break;
            case "producer-client": producer(words[1]); break;
            case "monitor": monitor(hook); break;
            case "calls": calls(words[1], words[2], words[3], hook); break;
            default: MQAdminStartup.main0(words, hook);
        }
    }

    /** A push consumer that stays; it fails with bodies that say so. */
    static void consumer(String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setInstanceName("resident");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "paid");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            new String(messages.get(0).getBody(), StandardCharsets.UTF_8).equals("bad")
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        System.out.println(consumer.buildMQClientId());
    }

    static void producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(address);
        producer.setInstanceName("resident");
        producer.start();
    }

    /** A round of mqadmin's startMonitoring, which goes on by itself once a minute. */
    static void monitor(RPCHook hook) throws Exception {
        MonitorConfig config = new MonitorConfig();
        config.setNamesrvAddr(address);
        MonitorService service = new MonitorService(config, new DefaultMonitorListener() {
            public void reportUndoneMsgs(UndoneMsgs undone) {
                System.out.println("UNDONE " + undone.getConsumerGroup() + " " + undone.getTopic() + " " + undone.getUndoneMsgsTotal()
                    + " " + undone.getUndoneMsgsSingleMQ() + " " + undone.getUndoneMsgsDelayTimeMills());
            }

            public void reportConsumerRunningInfo(TreeMap<String, ConsumerRunningInfo> infos) {
                for (String client : infos.keySet()) {
                    System.out.println("RUNNING " + client + " " + infos.get(client).getProperties().getProperty("PROP_CONSUME_TYPE"));
                }
            }

            public void endRound() {
                System.out.println("ROUND");
            }
        }, hook);
        service.start();
        try {
            service.doMonitorWork();
        } finally {
            service.shutdown();
        }
    }

    static void calls(String cluster, String topic, String group, RPCHook hook) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(hook);
        admin.setNamesrvAddr(address);
        admin.setInstanceName("calls");
        admin.start();
        try {
            System.out.println("attributes " + admin.examineTopicConfig(address, topic).getAttributes());
            System.out.println("queues " + admin.getAllTopicConfig(address, 5000)
                .getTopicConfigTable().get(topic).getReadQueueNums());
            System.out.println("groups " + admin.queryTopicConsumeByWho(topic).getGroupList());
            System.out.println("retries " + admin.getAllSubscriptionGroup(address, 5000)
                .getSubscriptionGroupTable().get(group).getRetryMaxTimes());
            System.out.println("subscription " + admin.querySubscription(group, topic).getSubString());
            System.out.println("topics " + admin.queryTopicsByConsumer(group).getTopicList());
            for (String name : Arrays.asList("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "BROKER_PUT_NUMS")) {
                String key = name.startsWith("BROKER") ? cluster : name.startsWith("GROUP") ? topic + "@" + group : topic;
                BrokerStatsData stats = admin.viewBrokerStatsData(address, name, key);
                System.out.println(name + " " + (stats.getStatsDay().getSum() > 0) + " " + (stats.getStatsMinute().getTps() > 0));
            }
            long behind = 0;
            for (QueueTimeSpan span : admin.queryConsumeTimeSpan(topic, group)) {
                behind += span.getDelayTime() > 0 ? 1 : 0;
                if (span.getMinTimeStamp() > span.getMaxTimeStamp()) {
                    throw new IllegalStateException(span.toString());
                }
            }
            System.out.println("behind " + behind);
            System.out.println("producers " + new TreeSet<>(admin.getAllProducerInfo(address).getData().keySet()));
            System.out.println("runtime " + new TreeSet<>(admin.fetchBrokerRuntimeStats(address).getTable().keySet()));
            System.out.println("offsets " + admin.getConsumeStatus(topic, group, "").size());
        } finally {
            admin.shutdown();
        }
    }
}
