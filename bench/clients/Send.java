import java.util.Arrays;
import java.util.Scanner;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends with Apache's client from several threads: `Send ADDRESS TOPIC THREADS BYTES WARM_MS RUN_MS`.
 * Prints READY after warming up; at a line of input it runs, and prints seconds and every latency in µs.
 */
public class Send {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        int threads = Integer.parseInt(arguments[2]);
        byte[] body = new byte[Integer.parseInt(arguments[3])];
        Arrays.fill(body, (byte) 'x');
        run(producer, arguments[1], threads, body, Long.parseLong(arguments[4]));
        System.out.println("READY");
        new Scanner(System.in).nextLine();
        System.out.println(run(producer, arguments[1], threads, body, Long.parseLong(arguments[5])));
        System.exit(0);
    }

    static String run(DefaultMQProducer producer, String topic, int threads, byte[] body, long ms) throws Exception {
        StringBuilder latencies = new StringBuilder();
        Thread[] senders = new Thread[threads];
        long began = System.nanoTime(), end = began + ms * 1_000_000;
        for (int number = 0; number < threads; number++) {
            senders[number] = new Thread(() -> {
                StringBuilder own = new StringBuilder();
                try {
                    for (long from = System.nanoTime(); from < end; ) {
                        producer.send(new Message(topic, body));
                        long to = System.nanoTime();
                        own.append(' ').append((to - from) / 1000);
                        from = to;
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
                synchronized (latencies) {
                    latencies.append(own);
                }
            });
            senders[number].start();
        }
        for (Thread each : senders) {
            each.join();
        }
        return (System.nanoTime() - began) / 1e9 + latencies.toString();
    }
}
