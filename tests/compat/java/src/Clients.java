import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Clients with generous time limits: a busy machine is not a failed test. */
class Clients {
    static final String NAME_SERVER = System.getenv("NAMESRV_ADDR");
    private static final AtomicInteger MADE = new AtomicInteger();

    /** A name nobody else uses, for topics, groups and instances. */
    static String fresh(String what) {
        return "Java_" + what + "_" + System.currentTimeMillis() + "_" + MADE.incrementAndGet();
    }

    static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(fresh("producer"));
        producer.setNamesrvAddr(NAME_SERVER);
        producer.setInstanceName(fresh("instance"));
        producer.setSendMsgTimeout(20_000);
        producer.setMqClientApiTimeout(20_000);
        producer.start();
        return producer;
    }

    /** Not yet started; reads from the first message on. */
    static DefaultMQPushConsumer consumer(String group, String topic, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(NAME_SERVER);
        consumer.setInstanceName(fresh("instance"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tags);
        return consumer;
    }

    /** Starts it; everything it gets goes to the inbox. */
    static BlockingQueue<MessageExt> collect(DefaultMQPushConsumer consumer) throws Exception {
        BlockingQueue<MessageExt> inbox = new LinkedBlockingQueue<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            inbox.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return inbox;
    }

    static MessageExt take(BlockingQueue<MessageExt> inbox, String what) throws Exception {
        MessageExt message = inbox.poll(120, TimeUnit.SECONDS);
        expect(message != null, what + " arrives");
        return message;
    }

    static Message message(String topic, String tag, String key, String body) {
        return new Message(topic, tag, key, body.getBytes());
    }

    static String body(MessageExt message) {
        return new String(message.getBody());
    }

    static void expect(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException("not so: " + what);
        }
    }

    static void expectEqual(Object expected, Object found, String what) {
        expect(expected.equals(found), what + " is " + expected + ", found " + found);
    }

    static byte[] filled(int size) {
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        return body;
    }
}
