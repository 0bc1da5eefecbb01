// Drives Apache RocketMQ's official Java client, unmodified, as a test says: the same commands and
// answers as drive.py has. It is compiled against the newest client and runs with older ones too:
// what an older one lacks is called only where a test asks for it.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.client.java.impl.producer.SendReceiptImpl;
import org.apache.rocketmq.client.java.message.MessageViewImpl;
// The client carries a reader of JSON along; taking it spares a dependency.
import org.apache.rocketmq.shaded.com.google.gson.Gson;
import org.apache.rocketmq.shaded.com.google.gson.JsonElement;
import org.apache.rocketmq.shaded.com.google.gson.JsonObject;

public final class Drive {
    private static final Gson GSON = new Gson();
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Pattern CODE = Pattern.compile("response-code=(\\d+)");
    private static final PrintStream OUT = System.out;

    private static final Map<String, AutoCloseable> clients = new ConcurrentHashMap<>();
    // Messages by the receipt handle that they came with.
    private static final Map<String, MessageViewImpl> held = new ConcurrentHashMap<>();
    private static ClientConfiguration configuration;

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // answers are all that standard output carries
        configuration = configured(arguments[0], GSON.fromJson(arguments[1], JsonObject.class));
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JsonObject command = GSON.fromJson(line, JsonObject.class);
            Thread thread = new Thread(() -> answer(command));
            thread.setDaemon(true);
            thread.start();
        }
        Runtime.getRuntime().halt(0);
    }

    private static ClientConfiguration configured(String address, JsonObject options) {
        int timeout = options.has("timeout_s") ? options.get("timeout_s").getAsInt() : 10;
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(address)
            .setRequestTimeout(Duration.ofSeconds(timeout));
        if (options.has("access_key")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(
                text(options, "access_key"), text(options, "secret_key")));
        }
        if (!options.has("tls") || !options.get("tls").getAsBoolean()) {
            builder.enableSsl(false); // before 5.0.5 there was no such choice, and always TLS
        }
        return builder.build();
    }

    private static void answer(JsonObject command) {
        Map<String, Object> line = new HashMap<>();
        line.put("id", command.get("id"));
        try {
            line.put("ok", done(command));
        } catch (Throwable thrown) {
            line.put("error", told(thrown));
        }
        say(line);
    }

    private static Object done(JsonObject command) throws Exception {
        String name = text(command, "name");
        switch (text(command, "do")) {
            case "producer":
                return producer(name, command);
            case "simple":
                return simple(name, command);
            case "push":
                return push(name, command);
            case "send":
                return send(name, command);
            case "recall":
                return ((Producer) clients.get(name))
                    .recallMessage(text(command, "topic"), text(command, "handle"))
                    .getMessageId().toString();
            case "receive":
                return receive(name, command);
            case "ack":
                return ack(name, text(command, "handle"));
            case "change":
                return change(name, command);
            case "shutdown":
                clients.remove(name).close();
                return null;
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private static Object producer(String name, JsonObject command) throws Exception {
        List<String> topics = new ArrayList<>();
        command.getAsJsonArray("topics").forEach(each -> topics.add(each.getAsString()));
        ProducerBuilder builder = PROVIDER.newProducerBuilder()
            .setClientConfiguration(configuration)
            .setTopics(topics.toArray(new String[0]));
        if (has(command, "checks")) {
            JsonObject checks = command.getAsJsonObject("checks");
            builder.setTransactionChecker(view -> check(name, checks, view));
        }
        clients.put(name, builder.build());
        return null;
    }

    private static TransactionResolution check(String name, JsonObject checks, MessageView view) {
        String body = new String(bytes(view), StandardCharsets.UTF_8);
        String answer = checks.has(body) ? text(checks, body) : "unknown";
        say(Map.of("event", "check", "client", name, "message", told(view), "answer", answer));
        switch (answer) {
            case "commit":
                return TransactionResolution.COMMIT;
            case "rollback":
                return TransactionResolution.ROLLBACK;
            default:
                return TransactionResolution.UNKNOWN;
        }
    }

    private static Object simple(String name, JsonObject command) throws Exception {
        clients.put(name, PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(text(command, "group"))
            .setSubscriptionExpressions(filters(command))
            .setAwaitDuration(Duration.ofSeconds(command.get("wait_s").getAsInt()))
            .build());
        return null;
    }

    private static Object push(String name, JsonObject command) throws Exception {
        Map<String, Integer> fails = new ConcurrentHashMap<>();
        command.getAsJsonObject("fails").entrySet()
            .forEach(each -> fails.put(each.getKey(), each.getValue().getAsInt()));
        long slowMs = Math.round(command.get("slow_s").getAsDouble() * 1000);
        clients.put(name, PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(text(command, "group"))
            .setSubscriptionExpressions(filters(command))
            .setMessageListener(view -> consume(name, fails, slowMs, view))
            .build());
        return null;
    }

    private static ConsumeResult consume(
        String name, Map<String, Integer> fails, long slowMs, MessageView view) {
        String body = new String(bytes(view), StandardCharsets.UTF_8);
        int left = fails.merge(body, -1, Integer::sum) + 1;
        double now = System.currentTimeMillis() / 1000.0;
        say(Map.of("event", "message", "client", name, "message", told(view), "at_s", now));
        try {
            Thread.sleep(slowMs);
        } catch (InterruptedException interrupted) {
            return ConsumeResult.FAILURE;
        }
        return left > 0 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    }

    private static Map<String, FilterExpression> filters(JsonObject command) {
        Map<String, FilterExpression> found = new HashMap<>();
        for (Map.Entry<String, JsonElement> each
            : command.getAsJsonObject("subscriptions").entrySet()) {
            String text = each.getValue().getAsString();
            found.put(each.getKey(), text.startsWith("SQL: ")
                ? new FilterExpression(text.substring(5), FilterExpressionType.SQL92)
                : new FilterExpression(text));
        }
        return found;
    }

    private static Message message(JsonObject fields) {
        MessageBuilder builder = PROVIDER.newMessageBuilder()
            .setTopic(text(fields, "topic"))
            .setBody(Base64.getDecoder().decode(text(fields, "body")));
        if (fields.has("tag")) {
            builder.setTag(text(fields, "tag"));
        }
        if (fields.has("keys")) {
            List<String> keys = new ArrayList<>();
            fields.getAsJsonArray("keys").forEach(each -> keys.add(each.getAsString()));
            builder.setKeys(keys.toArray(new String[0]));
        }
        if (fields.has("properties")) {
            fields.getAsJsonObject("properties").entrySet()
                .forEach(each -> builder.addProperty(each.getKey(), each.getValue().getAsString()));
        }
        if (fields.has("message_group")) {
            builder.setMessageGroup(text(fields, "message_group"));
        }
        if (fields.has("priority")) {
            builder.setPriority(fields.get("priority").getAsInt());
        }
        if (fields.has("deliver_at_ms")) {
            builder.setDeliveryTimestamp(fields.get("deliver_at_ms").getAsLong());
        }
        return builder.build();
    }

    private static Object send(String name, JsonObject command) throws Exception {
        Producer producer = (Producer) clients.get(name);
        Message message = message(command.getAsJsonObject("message"));
        String wanted = text(command, "transaction");
        Transaction transaction = wanted.isEmpty() ? null : producer.beginTransaction();
        SendReceiptImpl receipt = (SendReceiptImpl)
            (transaction == null ? producer.send(message) : producer.send(message, transaction));
        if (wanted.equals("commit")) {
            transaction.commit();
        } else if (wanted.equals("rollback")) {
            transaction.rollback();
        }
        Map<String, Object> found = new HashMap<>();
        found.put("message_id", receipt.getMessageId().toString());
        found.put("transaction_id", receipt.getTransactionId());
        found.put("offset", receipt.getOffset());
        found.put("recall_handle", optional(() -> receipt.getRecallHandle(), ""));
        return found;
    }

    private static Object receive(String name, JsonObject command) throws Exception {
        List<Object> found = new ArrayList<>();
        for (MessageView view : ((SimpleConsumer) clients.get(name)).receive(
            command.get("max").getAsInt(),
            Duration.ofSeconds(command.get("invisible_s").getAsInt()))) {
            held.put(((MessageViewImpl) view).getReceiptHandle(), (MessageViewImpl) view);
            found.add(told(view));
        }
        return found;
    }

    private static Object ack(String name, String handle) throws Exception {
        // The client acknowledges by the handle that the message has; this may be an older one.
        MessageViewImpl message = held.get(handle);
        message.setReceiptHandle(handle);
        ((SimpleConsumer) clients.get(name)).ack(message);
        return null;
    }

    private static Object change(String name, JsonObject command) throws Exception {
        MessageViewImpl message = held.get(text(command, "handle"));
        ((SimpleConsumer) clients.get(name)).changeInvisibleDuration(
            message, Duration.ofSeconds(command.get("invisible_s").getAsInt()));
        held.put(message.getReceiptHandle(), message);
        return message.getReceiptHandle();
    }

    /** A message as the test sees it. */
    private static Map<String, Object> told(MessageView view) {
        Map<String, Object> found = new HashMap<>();
        found.put("message_id", view.getMessageId().toString());
        found.put("topic", view.getTopic());
        found.put("body", Base64.getEncoder().encodeToString(bytes(view)));
        found.put("tag", view.getTag().orElse(""));
        found.put("keys", new TreeSet<>(view.getKeys()));
        found.put("message_group", view.getMessageGroup().orElse(""));
        found.put("properties", view.getProperties());
        found.put("attempt", view.getDeliveryAttempt());
        found.put("born_host", view.getBornHost());
        found.put("born_ms", view.getBornTimestamp());
        found.put("deliver_at_ms", view.getDeliveryTimestamp().orElse(0L));
        found.put("priority", optional(() -> view.getPriority().orElse(0), null));
        found.put("handle", ((MessageViewImpl) view).getReceiptHandle());
        found.put("corrupted", ((MessageViewImpl) view).isCorrupted());
        return found;
    }

    private interface Getter<T> {
        T get();
    }

    /** What an older client's class may lack. */
    private static <T> T optional(Getter<T> getter, T otherwise) {
        try {
            return getter.get();
        } catch (NoSuchMethodError missing) {
            return otherwise;
        }
    }

    private static Map<String, Object> told(Throwable thrown) {
        while (thrown.getCause() != null
            && (thrown instanceof ExecutionException || thrown instanceof CompletionException)) {
            thrown = thrown.getCause();
        }
        StringBuilder text = new StringBuilder(String.valueOf(thrown.getMessage()));
        for (Throwable cause = thrown.getCause(); cause != null; cause = cause.getCause()) {
            text.append("; ").append(cause);
        }
        Matcher code = CODE.matcher(text);
        Map<String, Object> found = new HashMap<>();
        found.put("type", thrown.getClass().getSimpleName());
        found.put("code", code.find() ? Integer.valueOf(code.group(1)) : null);
        found.put("text", text.toString());
        return found;
    }

    private static byte[] bytes(MessageView view) {
        ByteBuffer body = view.getBody().duplicate();
        byte[] found = new byte[body.remaining()];
        body.get(found);
        return found;
    }

    private static boolean has(JsonObject object, String name) {
        return object.has(name) && !object.get(name).isJsonNull();
    }

    private static String text(JsonObject object, String name) {
        return object.get(name).getAsString();
    }

    private static void say(Map<String, Object> line) {
        String text = GSON.newBuilder().serializeNulls().create().toJson(line) + "\n";
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        synchronized (OUT) {
            OUT.write(data, 0, data.length);
            OUT.flush();
        }
    }
}
