import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.MessageModel;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.annotation.SelectorType;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * One Spring Boot application that does everything at once: `SpringDrive ADDRESS TOPIC`; prints lines for the test.
 * Its topics and groups begin with TOPIC, as the annotations' placeholders say.
 */
@Configuration
@EnableAutoConfiguration
public class SpringDrive {
    static final int LIMIT_S = 60;
    static final CountDownLatch PUSHED = new CountDownLatch(9);
    static final CountDownLatch BATCHED = new CountDownLatch(5);
    static final CountDownLatch FILTERED = new CountDownLatch(4);
    static final CountDownLatch SELECTED = new CountDownLatch(2);
    static final CountDownLatch DELAYED = new CountDownLatch(1);
    static final CountDownLatch ORDERED = new CountDownLatch(30);
    static final CountDownLatch FAILED = new CountDownLatch(4);
    static final CountDownLatch BROADCAST = new CountDownLatch(9);
    static final CountDownLatch DECIDED = new CountDownLatch(2);
    static final CountDownLatch CHECKED = new CountDownLatch(2);

    public static void main(String[] arguments) throws Exception {
        System.setProperty("rocketmq.name-server", arguments[0]);
        System.setProperty("rocketmq.producer.group", arguments[1] + "-producer");
        System.setProperty("rocketmq.pull-consumer.group", arguments[1] + "-pull");
        System.setProperty("rocketmq.pull-consumer.topic", arguments[1] + "-all");
        System.setProperty("drive.topic", arguments[1]);
        System.setProperty("logging.level.root", "ERROR");
        SpringApplication application = new SpringApplication(SpringDrive.class);
        application.setWebApplicationType(WebApplicationType.NONE);
        application.setLogStartupInfo(false);
        try (ConfigurableApplicationContext context = application.run()) {
            Thread.sleep(2000); // a broadcasting consumer begins at the end of its queues
            drive(context.getBean(RocketMQTemplate.class), arguments[1]);
            say("DONE");
        }
        System.exit(0);
    }

    static void drive(RocketMQTemplate template, String topic) throws Exception {
        CountDownLatch answered = new CountDownLatch(3);
        for (int number = 0; number < 9; number++) {
            String place = topic + "-all:" + (number % 2 == 0 ? "even" : "odd");
            Message<String> message = MessageBuilder.withPayload("m" + number).setHeader("number", number).build();
            if (number % 3 == 0) {
                say("SENT", template.syncSend(place, message).getSendStatus().name());
            } else if (number % 3 == 1) {
                template.asyncSend(place, message, new SendCallback() {
                    public void onSuccess(SendResult result) {
                        say("SENT", result.getSendStatus().name());
                        answered.countDown();
                    }

                    public void onException(Throwable error) {
                        say("FAILED", String.valueOf(error));
                    }
                });
            } else {
                template.sendOneWay(place, message);
            }
        }
        List<Message<String>> batch = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            batch.add(MessageBuilder.withPayload("b" + number).build());
        }
        say("SENT", template.syncSend(topic + "-batch", batch).getSendStatus().name());
        say("SENT", template.syncSend(topic + "-delay", MessageBuilder.withPayload("level").build(), 3000, 1).getSendStatus().name());
        for (int number = 0; number < 30; number++) {
            String lane = String.valueOf(number % 3);
            template.syncSendOrderly(topic + "-ordered", lane + ":" + number, lane);
        }
        for (String body : new String[] {"good", "hopeless"}) {
            template.syncSend(topic + "-failing", body);
        }
        for (String body : new String[] {"commit", "rollback", "later-commit", "later-rollback"}) {
            say("SENT", template.sendMessageInTransaction(topic + "-decided", MessageBuilder.withPayload(body).build(), body).getSendStatus().name());
        }
        answered.await(LIMIT_S, TimeUnit.SECONDS);
        for (CountDownLatch each : Arrays.asList(PUSHED, BATCHED, FILTERED, SELECTED, DELAYED, ORDERED, FAILED, BROADCAST, CHECKED, DECIDED)) {
            each.await(LIMIT_S, TimeUnit.SECONDS);
        }
        int left = 9;
        for (int turn = 0; left > 0 && turn < LIMIT_S; turn++) {
            for (String body : template.receive(String.class, 1000)) {
                say("GOT", "pull", body);
                left--;
            }
        }
        Thread.sleep(1000);
    }

    static void say(String... words) {
        synchronized (System.out) {
            System.out.println(String.join(" ", words));
        }
    }

    static class Listener implements RocketMQListener<String> {
        final String name;
        final CountDownLatch left;

        Listener(String name, CountDownLatch left) {
            this.name = name;
            this.left = left;
        }

        public void onMessage(String body) {
            say("GOT", name, body);
            left.countDown();
        }
    }

    @RocketMQMessageListener(topic = "${drive.topic}-all", consumerGroup = "${drive.topic}-push")
    static class Push extends Listener {
        Push() { super("push", PUSHED); }
    }

    @RocketMQMessageListener(topic = "${drive.topic}-all", consumerGroup = "${drive.topic}-tag", selectorExpression = "odd")
    static class Tag extends Listener {
        Tag() { super("tag", FILTERED); }
    }

    @RocketMQMessageListener(topic = "${drive.topic}-all", consumerGroup = "${drive.topic}-sql", selectorType = SelectorType.SQL92, selectorExpression = "number > 6")
    static class Sql extends Listener {
        Sql() { super("sql", SELECTED); }
    }

    @RocketMQMessageListener(topic = "${drive.topic}-batch", consumerGroup = "${drive.topic}-batch")
    static class Batch extends Listener {
        Batch() { super("batch", BATCHED); }
    }

    @RocketMQMessageListener(topic = "${drive.topic}-delay", consumerGroup = "${drive.topic}-delay")
    static class Delay extends Listener {
        Delay() { super("delay", DELAYED); }
    }

    @RocketMQMessageListener(topic = "${drive.topic}-ordered", consumerGroup = "${drive.topic}-ordered", consumeMode = ConsumeMode.ORDERLY)
    static class Ordered extends Listener {
        Ordered() { super("ordered", ORDERED); }
    }

    @RocketMQMessageListener(topic = "${drive.topic}-all", consumerGroup = "${drive.topic}-broadcast", messageModel = MessageModel.BROADCASTING)
    static class Broadcast extends Listener {
        Broadcast() { super("broadcast", BROADCAST); }
    }

    @RocketMQMessageListener(topic = "${drive.topic}-decided", consumerGroup = "${drive.topic}-decided")
    static class Decided extends Listener {
        Decided() { super("decided", DECIDED); }
    }

    /** Fails each message the first time, and the one called "hopeless" always. */
    @RocketMQMessageListener(topic = "${drive.topic}-failing", consumerGroup = "${drive.topic}-failing", maxReconsumeTimes = 1, delayLevelWhenNextConsume = 1)
    static class Failing implements RocketMQListener<MessageExt> {
        public void onMessage(MessageExt message) {
            String body = new String(message.getBody());
            say("GOT", "failing", body, String.valueOf(message.getReconsumeTimes()), message.getTopic());
            FAILED.countDown();
            if (body.equals("hopeless") || message.getReconsumeTimes() == 0) {
                throw new IllegalStateException("not this time");
            }
        }
    }

    @RocketMQTransactionListener
    static class Decisions implements RocketMQLocalTransactionListener {
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            switch ((String) argument) {
                case "commit": return RocketMQLocalTransactionState.COMMIT;
                case "rollback": return RocketMQLocalTransactionState.ROLLBACK;
                default: return RocketMQLocalTransactionState.UNKNOWN;
            }
        }

        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            Object payload = message.getPayload();
            String body = payload instanceof byte[] ? new String((byte[]) payload) : String.valueOf(payload);
            say("CHECKED", body);
            CHECKED.countDown();
            return body.equals("later-commit") ? RocketMQLocalTransactionState.COMMIT : RocketMQLocalTransactionState.ROLLBACK;
        }
    }

    @Bean Push push() { return new Push(); }
    @Bean Tag tag() { return new Tag(); }
    @Bean Sql sql() { return new Sql(); }
    @Bean Batch batch() { return new Batch(); }
    @Bean Delay delay() { return new Delay(); }
    @Bean Ordered ordered() { return new Ordered(); }
    @Bean Broadcast broadcast() { return new Broadcast(); }
    @Bean Decided decided() { return new Decided(); }
    @Bean Failing failing() { return new Failing(); }
}
