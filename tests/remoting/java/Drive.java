import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** Drives Apache's own client: `Drive ADDRESS COMMAND ARGUMENT...`; prints lines for the test. */
public class Drive {
    static String address;
    static final int LIMIT_S = 60;
    /** How often routes are read; a test of several servers does not wait for the default. */
    static final int POLL_MS = Integer.getInteger("poll_ms", 30_000);

    public static void main(String[] arguments) {
        try {
            hurryShutdowns();
            run(arguments);
            say("DONE");
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1); // the client's own threads would keep the process alive
        }
    }

    /**
     * Ends the wait of this thread in a client's shutdown: the client joins a thread that looks only every three
     * seconds whether it is to end. Nothing is to be done any more by then.
     */
    static void hurryShutdowns() {
        Thread caller = Thread.currentThread();
        Thread watch = new Thread(() -> {
            while (caller.isAlive()) {
                boolean waits = Arrays.stream(caller.getStackTrace()).anyMatch(frame ->
                    frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown"));
                if (waits) {
                    Thread.getAllStackTraces().keySet().stream()
                        .filter(thread -> thread.getName().startsWith("NettyEventExecutor"))
                        .forEach(Thread::interrupt);
                }
                try {
                    Thread.sleep(25);
                } catch (InterruptedException ended) {
                    return;
                }
            }
        });
        watch.setDaemon(true);
        watch.start();
    }

    static void run(String[] arguments) throws Exception {
        address = arguments[0];
        String[] rest = Arrays.copyOfRange(arguments, 2, arguments.length);
        switch (arguments[1]) {
            case "send": send(rest[0], Integer.parseInt(rest[1])); break;
            case "ahead": ahead(rest[0], Integer.parseInt(rest[1])); break;
            case "batch": batch(rest[0], Integer.parseInt(rest[1])); break;
            case "delayed": delayed(rest[0]); break;
            case "ordered": ordered(rest[0], Integer.parseInt(rest[1])); break;
            case "transactions": transactions(rest[0]); break;
            case "push": push(rest[0], rest[1], rest[2], Integer.parseInt(rest[3])); break;
            case "failing": failing(rest[0], rest[1]); break;
            case "orderly": orderly(rest[0], rest[1], Integer.parseInt(rest[2])); break;
            case "broadcast": broadcast(rest[0], rest[1], Integer.parseInt(rest[2])); break;
            case "litepull": litepull(rest[0], rest[1], Integer.parseInt(rest[2])); break;
            case "request": request(rest[0], Integer.parseInt(rest[1])); break;
            case "reply": reply(rest[0], rest[1], Integer.parseInt(rest[2])); break;
            case "member": member(rest[0], rest[1]); break;
            case "flood": flood(rest[0]); break;
            case "traced": traced(rest[0], rest[1]); break;
            default: throw new IllegalArgumentException(arguments[1]);
        }
    }

    /** Signs requests by the system properties `access` and `secret`, where they are given. */
    static RPCHook hook() {
        String access = System.getProperty("access");
        return access == null ? null : new AclClientRPCHook(new SessionCredentials(access, System.getProperty("secret")));
    }

    static DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, hook());
        producer.setNamesrvAddr(address);
        producer.setPollNameServerInterval(POLL_MS);
        producer.start();
        return producer;
    }

    static Message message(String topic, String tag, String key, String body) {
        return new Message(topic, tag, key, body.getBytes(StandardCharsets.UTF_8));
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static void say(String... words) {
        synchronized (System.out) {
            System.out.println(String.join(" ", words));
        }
    }

    /** One third each sync, async, one-way; then one large body, which the client compresses. */
    static void send(String topic, int count) throws Exception {
        DefaultMQProducer producer = producer("sender");
        CountDownLatch answered = new CountDownLatch(count);
        for (int number = 0; number < count; number++) {
            Message message = message(topic, number % 2 == 0 ? "even" : "odd", "key-" + number, "m" + number);
            message.putUserProperty("number", String.valueOf(number));
            if (number % 3 == 0) {
                SendResult result = producer.send(message);
                say("SENT", result.getSendStatus().name(), result.getMsgId(), result.getOffsetMsgId(),
                    String.valueOf(result.getMessageQueue().getQueueId()), String.valueOf(result.getQueueOffset()));
                answered.countDown();
            } else if (number % 3 == 1) {
                producer.send(message, new SendCallback() {
                    public void onSuccess(SendResult result) {
                        say("SENT", result.getSendStatus().name(), result.getMsgId(), result.getOffsetMsgId(),
                            String.valueOf(result.getMessageQueue().getQueueId()), String.valueOf(result.getQueueOffset()));
                        answered.countDown();
                    }

                    public void onException(Throwable error) {
                        say("FAILED", String.valueOf(error));
                        answered.countDown();
                    }
                });
            } else {
                producer.sendOneway(message);
                answered.countDown();
            }
        }
        answered.await(LIMIT_S, TimeUnit.SECONDS);
        SendResult result = producer.send(message(topic, "large", "large", "x".repeat(100_000)));
        MessageExt found = producer.viewMessage(topic, result.getOffsetMsgId());
        say("VIEWED", found == null ? "nothing" : String.valueOf(found.getBody().length));
        producer.shutdown();
    }

    /** Sends so many without waiting for any answer; says how many were accepted. */
    static void ahead(String topic, int count) throws Exception {
        DefaultMQProducer producer = producer("sender");
        AtomicInteger accepted = new AtomicInteger();
        CountDownLatch left = new CountDownLatch(count);
        for (int number = 0; number < count; number++) {
            producer.send(message(topic, "a", "", "a" + number), new SendCallback() {
                public void onSuccess(SendResult result) {
                    accepted.incrementAndGet();
                    left.countDown();
                }

                public void onException(Throwable error) {
                    left.countDown();
                }
            }, LIMIT_S * 1000);
        }
        left.await(LIMIT_S, TimeUnit.SECONDS);
        say("ACCEPTED", String.valueOf(accepted.get()));
        producer.shutdown();
    }

    static void batch(String topic, int count) throws Exception {
        DefaultMQProducer producer = producer("sender");
        List<Message> messages = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            messages.add(message(topic, "batch", "b" + number, "b" + number));
        }
        SendResult result = producer.send(messages);
        say("SENT", result.getSendStatus().name(), result.getOffsetMsgId(), result.getMsgId());
        producer.shutdown();
    }

    static void delayed(String topic) throws Exception {
        DefaultMQProducer producer = producer("sender");
        Message level = message(topic, "delay", "", "level");
        level.setDelayTimeLevel(1);
        say("SENT", producer.send(level).getSendStatus().name());
        producer.shutdown();
    }

    static void ordered(String topic, int count) throws Exception {
        DefaultMQProducer producer = producer("sender");
        for (int number = 0; number < count; number++) {
            int lane = number % 3;
            producer.send(message(topic, "o", "", lane + ":" + number), (queues, each, lot) -> queues.get((Integer) lot % queues.size()), lane);
        }
        producer.shutdown();
    }

    /** Commits one, rolls one back, leaves two to be asked about: of these one is committed then. */
    static void transactions(String topic) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("decider");
        producer.setNamesrvAddr(address);
        CountDownLatch checked = new CountDownLatch(2);
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                say("CHECKED", text(message), message.getTransactionId(), message.getTopic());
                checked.countDown();
                return text(message).equals("later-commit") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        Map<String, LocalTransactionState> plan = Map.of(
            "commit", LocalTransactionState.COMMIT_MESSAGE, "rollback", LocalTransactionState.ROLLBACK_MESSAGE,
            "later-commit", LocalTransactionState.UNKNOW, "later-rollback", LocalTransactionState.UNKNOW);
        for (Map.Entry<String, LocalTransactionState> each : plan.entrySet()) {
            say("SENT", producer.sendMessageInTransaction(message(topic, "t", "", each.getKey()), each.getValue()).getSendStatus().name());
        }
        say("ALL_CHECKED", String.valueOf(checked.await(LIMIT_S, TimeUnit.SECONDS)));
        Thread.sleep(500);
        producer.shutdown();
    }

    static DefaultMQPushConsumer consumer(String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(address);
        consumer.setPollNameServerInterval(POLL_MS);
        consumer.setInstanceName(group + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(1000);
        return consumer;
    }

    static void subscribe(DefaultMQPushConsumer consumer, String topic, String filter) throws Exception {
        if (filter.startsWith("SQL:")) {
            consumer.subscribe(topic, MessageSelector.bySql(filter.substring(4)));
        } else {
            consumer.subscribe(topic, filter);
        }
    }

    static void push(String group, String topic, String filter, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = consumer(group);
        subscribe(consumer, topic, filter);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = text(message);
                say("GOT", body.length() > 99 ? "large:" + body.length() : body, message.getMsgId(), message.getTags(), message.getKeys());
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("ALL", String.valueOf(left.await(LIMIT_S, TimeUnit.SECONDS)));
        Thread.sleep(1500);
        consumer.shutdown();
    }

    /** Fails each message the first time; the one called "hopeless" always, with two retries. */
    static void failing(String group, String topic) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger hopeless = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer(group);
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            MessageExt message = messages.get(0);
            say("GOT", text(message), message.getMsgId(), String.valueOf(message.getReconsumeTimes()), message.getTopic());
            if (text(message).equals("hopeless")) {
                if (hopeless.incrementAndGet() == 2) {
                    done.countDown();
                }
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return message.getReconsumeTimes() == 0 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("ALL", String.valueOf(done.await(LIMIT_S, TimeUnit.SECONDS)));
        Thread.sleep(2000);
        consumer.shutdown();
    }

    static void orderly(String group, String topic, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = consumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                say("GOT", text(message));
                left.countDown();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        say("ALL", String.valueOf(left.await(LIMIT_S, TimeUnit.SECONDS)));
        consumer.shutdown();
    }

    static void broadcast(String group, String topic, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(2 * count);
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            String name = "c" + number;
            DefaultMQPushConsumer consumer = consumer(group);
            consumer.setMessageModel(@MODEL@.MessageModel.BROADCASTING);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    say("GOT", name, text(message).length() > 99 ? "large" : text(message));
                    left.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        say("ALL", String.valueOf(left.await(LIMIT_S, TimeUnit.SECONDS)));
        consumers.forEach(DefaultMQPushConsumer::shutdown);
    }

    static void litepull(String group, String topic, int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        int found = 0;
        long end = System.currentTimeMillis() + LIMIT_S * 1000;
        while (found < count && System.currentTimeMillis() < end) {
            for (MessageExt message : consumer.poll(1000)) {
                say("GOT", text(message));
                found++;
            }
        }
        consumer.commitSync();
        consumer.shutdown();
    }

    /** Sends requests that wait for their replies: one synchronous, the others with a callback. */
    static void request(String topic, int count) throws Exception {
        DefaultMQProducer producer = producer("requester");
        Message first = producer.request(message(topic, "ask", "", "q0"), 20_000);
        say("REPLY", new String(first.getBody(), StandardCharsets.UTF_8), first.getUserProperty("answered"));
        CountDownLatch answered = new CountDownLatch(count - 1);
        for (int number = 1; number < count; number++) {
            producer.request(message(topic, "ask", "", "q" + number), new RequestCallback() {
                public void onSuccess(Message reply) {
                    String body = new String(reply.getBody(), StandardCharsets.UTF_8);
                    say("REPLY", body.length() > 99 ? "large:" + body.length() : body, reply.getUserProperty("answered"));
                    answered.countDown();
                }

                public void onException(Throwable error) {
                    say("FAILED", String.valueOf(error));
                    answered.countDown();
                }
            }, 20_000);
        }
        say("ALL", String.valueOf(answered.await(LIMIT_S, TimeUnit.SECONDS)));
        producer.shutdown();
    }

    /** Replies to requests with their own body; to the one called "q2" with a large one. */
    static void reply(String group, String topic, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQProducer producer = producer("replier");
        DefaultMQPushConsumer consumer = consumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    String body = text(message).equals("q2") ? "x".repeat(50_000) : "re:" + text(message);
                    Message reply = MessageUtil.createReplyMessage(message, body.getBytes(StandardCharsets.UTF_8));
                    reply.putUserProperty("answered", "yes");
                    say("REPLIED", producer.send(reply, 5000).getSendStatus().name());
                } catch (Exception error) {
                    say("FAILED", String.valueOf(error));
                }
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("STARTED");
        say("ALL", String.valueOf(left.await(LIMIT_S, TimeUnit.SECONDS)));
        consumer.shutdown();
        producer.shutdown();
    }

    /** Consumes until it is killed, saying which queues each message came from. */
    static void member(String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = consumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                say("GOT", text(message), String.valueOf(message.getQueueId()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("STARTED");
        Thread.sleep(Long.getLong("limit_s", LIMIT_S) * 1000L);
        consumer.shutdown();
    }

    /** Sends until it is killed, saying which message was accepted; what fails is sent again. */
    static void flood(String topic) throws Exception {
        DefaultMQProducer producer = producer("sender");
        producer.setRetryTimesWhenSendFailed(0);
        for (int number = 0; ; number++) {
            for (boolean accepted = false; !accepted; ) {
                try {
                    producer.send(message(topic, "f", "", "f" + number), 1000);
                    say("SENT", "f" + number);
                    accepted = true;
                    Thread.sleep(Integer.getInteger("pause_ms", 0));
                } catch (Exception error) {
                    Thread.sleep(50);
                }
            }
        }
    }

    /** Sends one message and consumes it, both with message traces, which 5.x begins after its start. */
    static void traced(String group, String topic) throws Exception {
        CountDownLatch left = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, (RPCHook) null, new AllocateMessageQueueAveragely(), true, (String) null);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            left.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer("sender", (RPCHook) null, true, (String) null);
        producer.setNamesrvAddr(address);
        producer.start();
        say("SENT", producer.send(message(topic, "t", "traced", "traced")).getMsgId());
        say("ALL", String.valueOf(left.await(LIMIT_S, TimeUnit.SECONDS)));
        Thread.sleep(1500); // traces are sent in the background
        consumer.shutdown();
        producer.shutdown();
    }
}
