import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** `Load` by the classic client. */
public class SendClassic {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        Load.main(body -> producer.send(new Message(arguments[1], body)), arguments);
    }
}
