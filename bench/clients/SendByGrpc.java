import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.producer.Producer;

/** `Load` by the client of RocketMQ 5. */
public class SendByGrpc {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false).build();
        Producer producer =
            provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        Load.main(
            body -> producer.send(provider.newMessageBuilder().setTopic(topic).setBody(body).build()), arguments);
    }
}
