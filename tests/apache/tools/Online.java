import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A producer and a consumer that stay online, so that there is something to show: "Online NAMESRV
 * TOPIC BROKER PRODUCER_GROUP CONSUMER_GROUP COUNT". Sends COUNT messages to queue 0 of the topic,
 * the same each time, prints "sent UNIQUE_ID OFFSET_ID" for each and "consumed" once all have been
 * consumed and committed, and stays until it is asked to stop by a signal.
 */
public class Online {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int count = Integer.parseInt(args[5]);
        DefaultMQProducer producer = new DefaultMQProducer(args[3]);
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("producer");
        producer.setSendMsgTimeout(20_000);
        producer.start();
        MessageQueue queue = new MessageQueue(topic, args[2], 0);
        for (int i = 0; i < count; i++) {
            Message message = new Message(topic, "tag-" + i % 2, "key-" + i, ("body " + i).getBytes());
            message.putUserProperty("at", "" + i);
            var sent = producer.send(message, queue);
            System.out.println("sent " + sent.getMsgId() + " " + sent.getOffsetMsgId());
        }
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[4]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("consumer");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(1_000);
        consumer.subscribe(topic, "tag-0 || tag-1");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        var offsets = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
        while (offsets.readOffset(queue, ReadOffsetType.READ_FROM_STORE) < count) {
            Thread.sleep(200);
        }
        System.out.println("consumed");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.shutdown();
            producer.shutdown();
        }));
    }
}
