import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What producers do; each step makes its topic by its first send. */
class Sending extends Clients {
    static void send() throws Exception {
        String topic = fresh("send");
        DefaultMQProducer producer = producer();
        Message message = message(topic, "tag", "key-1 key-2", "héllo 世界");
        message.putUserProperty("color", "blue");
        message.putUserProperty("имя", "значение");
        message.setFlag(42);
        SendResult sent = producer.send(message);
        expectEqual(SendStatus.SEND_OK, sent.getSendStatus(), "status");
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, "*");
        MessageExt got = take(collect(consumer), "the message");
        expectEqual("héllo 世界", new String(got.getBody(), "UTF-8"), "body");
        expectEqual("tag", got.getTags(), "tag");
        expectEqual("key-1 key-2", got.getKeys(), "keys");
        expectEqual("blue", got.getUserProperty("color"), "property");
        expectEqual("значение", got.getUserProperty("имя"), "property that is not ASCII");
        expectEqual(42, got.getFlag(), "flag");
        expectEqual(sent.getMsgId(), got.getMsgId(), "message id");
        expectEqual(sent.getQueueOffset(), got.getQueueOffset(), "queue offset");
        expectEqual(sent.getMessageQueue().getQueueId(), got.getQueueId(), "queue");
        consumer.shutdown();
        producer.shutdown();
    }

    static void sendAsync() throws Exception {
        String topic = fresh("async");
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "first", "", "first"));
        int count = 200;
        CountDownLatch done = new CountDownLatch(count);
        Set<String> failures = java.util.Collections.synchronizedSet(new HashSet<>());
        for (int i = 0; i < count; i++) {
            producer.send(message(topic, "async", "", "async-" + i), new SendCallback() {
                public void onSuccess(SendResult sent) {
                    done.countDown();
                }

                public void onException(Throwable failed) {
                    failures.add(failed.toString());
                    done.countDown();
                }
            });
        }
        expect(done.await(60, TimeUnit.SECONDS), "all answered");
        expect(failures.isEmpty(), "no failures: " + failures);
        expectAll(topic, "async", count);
        producer.shutdown();
    }

    static void sendOneway() throws Exception {
        String topic = fresh("oneway");
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "first", "", "first"));
        for (int i = 0; i < 20; i++) {
            producer.sendOneway(message(topic, "oneway", "", "oneway-" + i));
        }
        expectAll(topic, "oneway", 20);
        producer.shutdown();
    }

    static void sendBatch() throws Exception {
        String topic = fresh("batch");
        DefaultMQProducer producer = producer();
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            Message message = message(topic, "batch", "batch-key-" + i, "batch-" + i);
            message.putUserProperty("at", "" + i);
            batch.add(message);
        }
        SendResult sent = producer.send(batch);
        expectEqual(SendStatus.SEND_OK, sent.getSendStatus(), "status");
        expectEqual(16, sent.getMsgId().split(",").length, "message ids");
        Set<Long> offsets = new HashSet<>();
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, "*");
        BlockingQueue<MessageExt> inbox = collect(consumer);
        for (int i = 0; i < 16; i++) {
            MessageExt got = take(inbox, "message of the batch");
            String at = got.getUserProperty("at");
            expectEqual("batch-" + at, body(got), "body");
            expectEqual("batch-key-" + at, got.getKeys(), "key");
            expectEqual(sent.getQueueOffset() + Long.parseLong(at), got.getQueueOffset(), "offset");
            offsets.add(got.getQueueOffset());
        }
        expectEqual(16, offsets.size(), "distinct offsets");
        consumer.shutdown();
        producer.shutdown();
    }

    static void sendCompressed() throws Exception {
        String topic = fresh("compressed");
        DefaultMQProducer producer = producer();
        producer.send(new Message(topic, "big", filled(300_000)));
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, "*");
        MessageExt got = take(collect(consumer), "the big message");
        expect(Arrays.equals(filled(300_000), got.getBody()), "body is as sent");
        expect(got.getStoreSize() < 100_000, "it was stored compressed");
        consumer.shutdown();
        producer.shutdown();
    }

    static void sendTooLarge() throws Exception {
        String topic = fresh("large");
        DefaultMQProducer producer = producer();
        producer.setMaxMessageSize(16 << 20);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        try {
            producer.send(new Message(topic, "big", filled((4 << 20) + 1)));
            expect(false, "a body over 4 MiB is refused");
        } catch (MQBrokerException refused) {
            expectEqual(13, refused.getResponseCode(), "MESSAGE_ILLEGAL");
        }
        producer.shutdown();
    }

    static void queryByKey() throws Exception {
        String topic = fresh("query");
        DefaultMQProducer producer = producer();
        String unique = producer.send(message(topic, "t", "needle shared", "one")).getMsgId();
        producer.send(message(topic, "t", "other shared", "two"));
        expectEqual(1, query(producer, topic, "needle", 1), "messages with the key");
        expectEqual(2, query(producer, topic, "shared", 2), "messages with the shared key");
        expectEqual("one", body(producer.viewMessage(topic, unique)), "message by its unique id");
        producer.shutdown();
    }

    /** The index is written behind the log: asks until there are as many as expected. */
    private static int query(DefaultMQProducer producer, String topic, String key, int expected)
            throws Exception {
        int found = 0;
        for (int i = 0; i < 100 && found != expected; i++) {
            try {
                QueryResult result = producer.queryMessage(topic, key, 10, 0, Long.MAX_VALUE);
                found = result.getMessageList().size();
            } catch (MQClientException none) {
                found = 0;
            }
            if (found != expected) {
                Thread.sleep(100);
            }
        }
        return found;
    }

    static void viewById() throws Exception {
        String topic = fresh("view");
        DefaultMQProducer producer = producer();
        SendResult sent = producer.send(message(topic, "t", "k", "viewed"));
        expectEqual("viewed", body(producer.viewMessage(topic, sent.getOffsetMsgId())), "body");
        producer.shutdown();
    }

    /** Everything that was sent as NAME-0, NAME-1, ... with the tag NAME arrives, once each. */
    private static void expectAll(String topic, String name, int count) throws Exception {
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, name);
        BlockingQueue<MessageExt> inbox = collect(consumer);
        Set<String> bodies = new HashSet<>();
        for (int i = 0; i < count; i++) {
            bodies.add(body(take(inbox, name + " message " + i)));
        }
        expectEqual(count, bodies.size(), "distinct bodies");
        expect(bodies.contains(name + "-0") && bodies.contains(name + "-" + (count - 1)), "ends");
        consumer.shutdown();
    }
}
