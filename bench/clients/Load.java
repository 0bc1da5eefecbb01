import java.util.Arrays;
import java.util.Scanner;

/**
 * Sends with a client of Apache's from several threads: `ADDRESS TOPIC THREADS BYTES WARM_MS RUN_MS`.
 * Prints READY after warming up; at a line of input it runs, and prints seconds and every latency in µs.
 */
public class Load {
    /** Sends one message and waits for the answer. */
    public interface Send {
        void send(byte[] body) throws Exception;
    }

    public static void main(Send producer, String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[2]);
        byte[] body = new byte[Integer.parseInt(arguments[3])];
        Arrays.fill(body, (byte) 'x');
        run(producer, threads, body, Long.parseLong(arguments[4]));
        System.out.println("READY");
        new Scanner(System.in).nextLine();
        System.out.println(run(producer, threads, body, Long.parseLong(arguments[5])));
        System.exit(0);
    }

    private static String run(Send producer, int threads, byte[] body, long ms) throws Exception {
        StringBuilder latencies = new StringBuilder();
        Thread[] senders = new Thread[threads];
        long began = System.nanoTime(), end = began + ms * 1_000_000;
        for (int number = 0; number < threads; number++) {
            senders[number] = new Thread(() -> {
                StringBuilder own = new StringBuilder();
                try {
                    for (long from = System.nanoTime(); from < end; ) {
                        producer.send(body);
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
