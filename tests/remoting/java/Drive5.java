import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What only the 5.x client can do: `Drive5 ADDRESS COMMAND ARGUMENT...`. */
public class Drive5 {
    public static void main(String[] arguments) {
        try {
            Drive.address = arguments[0];
            Drive.hurryShutdowns();
            run(arguments[1], Arrays.copyOfRange(arguments, 2, arguments.length));
            Drive.say("DONE");
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1); // the client's own threads would keep the process alive
        }
    }

    static void run(String command, String[] rest) throws Exception {
        switch (command) {
            case "pop": pop(rest[0], rest[1], rest[2], Integer.parseInt(rest[3])); break;
            case "failing": failing(rest[0], rest[1]); break;
            case "member": member(rest[0], rest[1]); break;
            case "recall": recall(rest[0]); break;
            default: throw new IllegalArgumentException(command);
        }
    }

    static DefaultMQPushConsumer consumer(String group, String topic, String filter) throws Exception {
        DefaultMQPushConsumer consumer = Drive.consumer(group);
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(20_000);
        Drive.subscribe(consumer, topic, filter);
        return consumer;
    }

    static void say(MessageExt message) {
        String mark = message.getProperty("POP_CK") == null ? "pulled" : "popped";
        Drive.say("GOT", Drive.text(message), message.getMsgId(), String.valueOf(message.getReconsumeTimes()), mark);
    }

    static void pop(String group, String topic, String filter, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = consumer(group, topic, filter);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(Drive5::say);
            messages.forEach(each -> left.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Drive.say("STARTED");
        Drive.say("ALL", String.valueOf(left.await(Drive.LIMIT_S, TimeUnit.SECONDS)));
        Thread.sleep(500);
        consumer.shutdown();
    }

    /** Fails each message the first time; the one called "hopeless" always. */
    static void failing(String group, String topic) throws Exception {
        CountDownLatch done = new CountDownLatch(4);
        DefaultMQPushConsumer consumer = consumer(group, topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            say(message);
            done.countDown();
            boolean isDone = message.getReconsumeTimes() > 0 && !Drive.text(message).equals("hopeless");
            return isDone ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        Drive.say("ALL", String.valueOf(done.await(Drive.LIMIT_S, TimeUnit.SECONDS)));
        Thread.sleep(1000);
        consumer.shutdown();
    }

    /** Consumes until it is killed, slowly, so that it holds messages then. */
    static void member(String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = consumer(group, topic, "*");
        consumer.setPopInvisibleTime(5_000);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(Drive5::say);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Drive.say("STARTED");
        Thread.sleep(Drive.LIMIT_S * 1000L);
        consumer.shutdown();
    }

    /** Recalls one of two delayed messages, then again with a handle that is worth nothing. */
    static void recall(String topic) throws Exception {
        DefaultMQProducer producer = Drive.producer("recaller");
        SendResult kept = delayed(producer, topic, "kept");
        SendResult recalled = delayed(producer, topic, "recalled");
        Drive.say("RECALLED", producer.recallMessage(topic, recalled.getRecallHandle()), recalled.getMsgId());
        Drive.say("PLAIN", String.valueOf(producer.send(Drive.message(topic, "now", "", "now")).getRecallHandle()));
        Thread.sleep(4000);
        try {
            producer.recallMessage(topic, kept.getRecallHandle());
        } catch (MQBrokerException error) {
            Drive.say("REFUSED", String.valueOf(error.getResponseCode()));
        }
        producer.shutdown();
    }

    static SendResult delayed(DefaultMQProducer producer, String topic, String body) throws Exception {
        Message message = Drive.message(topic, "delay", "", body);
        message.setDelayTimeMs(3000);
        return producer.send(message);
    }
}
