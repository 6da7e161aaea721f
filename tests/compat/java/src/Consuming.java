import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What consumers do; each step has topics and groups of its own. */
class Consuming extends Clients {
    static void tagFilter() throws Exception {
        String topic = fresh("tags");
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 30; i++) {
            producer.send(message(topic, "Tag" + "ABC".charAt(i % 3), "", "" + i));
        }
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, "TagA || TagC");
        BlockingQueue<MessageExt> inbox = collect(consumer);
        for (int i = 0; i < 20; i++) {
            expect(!"TagB".equals(take(inbox, "filtered message").getTags()), "TagB stays away");
        }
        expect(inbox.poll(2, TimeUnit.SECONDS) == null, "nothing more arrives");
        consumer.shutdown();
        producer.shutdown();
    }

    static void retry() throws Exception {
        String topic = fresh("retry");
        DefaultMQProducer producer = producer();
        SendResult sent = producer.send(message(topic, "t", "k", "again"));
        BlockingQueue<MessageExt> inbox = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (messages.get(0).getReconsumeTimes() == 0) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            inbox.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        MessageExt got = take(inbox, "the message, 10 s after it was given back");
        expectEqual("again", body(got), "body");
        expectEqual(1, got.getReconsumeTimes(), "times it was given back");
        expectEqual(topic, got.getTopic(), "topic");
        expectEqual(sent.getMsgId(), got.getMsgId(), "message id");
        consumer.shutdown();
        producer.shutdown();
    }

    static void deadLetter() throws Exception {
        String topic = fresh("dead");
        String group = fresh("dead_group");
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "t", "dead-key", "dead"));
        DefaultMQPushConsumer consumer = consumer(group, topic, "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                ConsumeConcurrentlyStatus.RECONSUME_LATER);
        consumer.start();
        int found = 0;
        for (int i = 0; i < 600 && found == 0; i++) {
            Thread.sleep(200);
            try {
                QueryResult dead =
                        producer.queryMessage("%DLQ%" + group, "dead-key", 10, 0, Long.MAX_VALUE);
                found = dead.getMessageList().size();
                expectEqual("dead", body(dead.getMessageList().get(0)), "body");
            } catch (MQClientException notYet) {
                found = 0;
            }
        }
        expectEqual(1, found, "messages in the dead letter queue");
        consumer.shutdown();
        producer.shutdown();
    }

    static void delay() throws Exception {
        String topic = fresh("delay");
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "now", "", "now"));
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, "*");
        BlockingQueue<MessageExt> inbox = collect(consumer);
        take(inbox, "the first message");
        Message later = message(topic, "later", "delay-key", "later");
        later.setDelayTimeLevel(2);
        SendResult sent = producer.send(later);
        MessageExt got = take(inbox, "the delayed message");
        long took = got.getStoreTimestamp() - got.getBornTimestamp();
        expect(took >= 4_900, "it waited its 5 s, took " + took + " ms");
        expect(took < 30_000, "it did not wait much longer, took " + took + " ms");
        expectEqual(topic, got.getTopic(), "topic");
        expectEqual(sent.getMsgId(), got.getMsgId(), "message id");
        consumer.shutdown();
        producer.shutdown();
    }

    static void ordered() throws Exception {
        String topic = fresh("ordered");
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 40; i++) {
            producer.send(message(topic, "t", "", "" + i),
                    (queues, message, arg) -> queues.get((Integer) arg % queues.size()), i % 2);
        }
        BlockingQueue<MessageExt> inbox = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            inbox.addAll(messages);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        int[] next = {0, 1};
        for (int i = 0; i < 40; i++) {
            int number = Integer.parseInt(body(take(inbox, "ordered message")));
            expectEqual(next[number % 2], number, "next of queue " + number % 2);
            next[number % 2] += 2;
        }
        consumer.shutdown();
        producer.shutdown();
    }

    static void broadcast() throws Exception {
        String topic = fresh("broadcast");
        String group = fresh("group");
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "first", "", "first"));
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        List<BlockingQueue<MessageExt>> inboxes = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = consumer(group, topic, "*");
            // Without its name, because 4.x and 5.x have this enum in different packages.
            consumer.setMessageModel(consumer.getMessageModel().valueOf("BROADCASTING"));
            inboxes.add(collect(consumer));
            consumers.add(consumer);
        }
        for (BlockingQueue<MessageExt> inbox : inboxes) {
            expectEqual("first", body(take(inbox, "the message, at each consumer")), "body");
        }
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
    }

    /** Two consumers of one group share the queues; when one leaves, the other takes all. */
    static void rebalance() throws Exception {
        String topic = fresh("rebalance");
        String group = fresh("group");
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "first", "", "first"));
        DefaultMQPushConsumer first = consumer(group, topic, "*");
        DefaultMQPushConsumer second = consumer(group, topic, "*");
        BlockingQueue<MessageExt> firstInbox = collect(first);
        BlockingQueue<MessageExt> secondInbox = collect(second);
        sendUntil(producer, topic, "shared", () -> tagged(firstInbox) && tagged(secondInbox));
        second.shutdown();
        Set<MessageQueue> all = new HashSet<>(first.fetchSubscribeMessageQueues(topic));
        Set<Integer> seen = new HashSet<>();
        sendUntil(producer, topic, "left", () -> {
            for (MessageExt got = firstInbox.poll(); got != null; got = firstInbox.poll()) {
                if ("left".equals(got.getTags())) {
                    seen.add((got.getBrokerName() + got.getQueueId()).hashCode());
                }
            }
            return seen.size() == all.size();
        });
        first.shutdown();
        producer.shutdown();
    }

    private static boolean tagged(BlockingQueue<MessageExt> inbox) {
        return inbox.stream().anyMatch(got -> "shared".equals(got.getTags()));
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void sendUntil(
            DefaultMQProducer producer, String topic, String tag, Condition condition)
            throws Exception {
        for (int i = 0; i < 600; i++) {
            if (condition.holds()) {
                return;
            }
            producer.send(message(topic, tag, "", "" + i));
            Thread.sleep(100);
        }
        expect(false, "consumers share the queues: " + tag);
    }

    /** A group goes on where it stopped. */
    static void resume() throws Exception {
        String topic = fresh("resume");
        String group = fresh("group");
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 10; i++) {
            producer.send(message(topic, "t", "", "before-" + i));
        }
        DefaultMQPushConsumer first = consumer(group, topic, "*");
        // The stop must wait for the listeners, else it commits less than the inbox has seen.
        first.setAwaitTerminationMillisWhenShutdown(20_000);
        BlockingQueue<MessageExt> inbox = collect(first);
        for (int i = 0; i < 10; i++) {
            take(inbox, "message before the stop");
        }
        first.shutdown();
        producer.send(message(topic, "t", "", "after"));
        DefaultMQPushConsumer second = consumer(group, topic, "*");
        expectEqual("after", body(take(collect(second), "message after the stop")), "body");
        second.shutdown();
        producer.shutdown();
    }

    @SuppressWarnings("deprecation")
    static void pull() throws Exception {
        String topic = fresh("pull");
        String group = fresh("group");
        DefaultMQProducer producer = producer();
        MessageQueue queue = producer.send(message(topic, "t", "", "0")).getMessageQueue();
        for (int i = 1; i < 50; i++) {
            producer.send(message(topic, "t", "", "" + i), queue);
        }
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(NAME_SERVER);
        consumer.setInstanceName(fresh("instance"));
        consumer.start();
        expectEqual(0L, consumer.minOffset(queue), "first offset");
        expectEqual(50L, consumer.maxOffset(queue), "end offset");
        long at = 0;
        while (at < 50) {
            PullResult pulled = consumer.pull(queue, "*", at, 32);
            expectEqual(PullStatus.FOUND, pulled.getPullStatus(), "status at " + at);
            for (MessageExt got : pulled.getMsgFoundList()) {
                expectEqual("" + at++, body(got), "body");
            }
            expectEqual(at, pulled.getNextBeginOffset(), "next offset");
        }
        expectEqual(PullStatus.NO_NEW_MSG, consumer.pull(queue, "*", 50, 32).getPullStatus(), "end");
        expectEqual(PullStatus.OFFSET_ILLEGAL, consumer.pull(queue, "*", 99, 32).getPullStatus(),
                "status beyond the end");
        PullResult none = consumer.pull(queue, "other", 0, 32);
        expectEqual(PullStatus.NO_MATCHED_MSG, none.getPullStatus(), "status of another tag");
        long middle = consumer.viewMessage(topic,
                consumer.pull(queue, "*", 25, 1).getMsgFoundList().get(0).getMsgId())
                .getStoreTimestamp();
        long found = consumer.searchOffset(queue, middle);
        expect(found <= 25 && found >= 0, "offset by time is at or before the message: " + found);
        consumer.updateConsumeOffset(queue, 30);
        consumer.getOffsetStore().persistAll(new HashSet<>(Set.of(queue)));
        long committed = -1;
        for (int i = 0; i < 100 && committed != 30; i++) { // the commit is one-way
            Thread.sleep(100);
            committed = consumer.fetchConsumeOffset(queue, true);
        }
        expectEqual(30L, committed, "committed offset");
        consumer.shutdown();
        producer.shutdown();
    }

    static void litePull() throws Exception {
        String topic = fresh("lite");
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 20; i++) {
            producer.send(message(topic, "t", "", "" + i));
        }
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(fresh("group"));
        consumer.setNamesrvAddr(NAME_SERVER);
        consumer.setInstanceName(fresh("instance"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        Set<String> bodies = new HashSet<>();
        long deadline = System.currentTimeMillis() + 120_000;
        while (bodies.size() < 20 && System.currentTimeMillis() < deadline) {
            consumer.poll(1_000).forEach(got -> bodies.add(body(got)));
        }
        expectEqual(20, bodies.size(), "distinct bodies");
        consumer.shutdown();
        producer.shutdown();
    }

    static void requestReply() throws Exception {
        String topic = fresh("request");
        DefaultMQProducer producer = producer();
        DefaultMQProducer replier = producer();
        producer.send(message(topic, "first", "", "first"));
        DefaultMQPushConsumer consumer = consumer(fresh("group"), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt asked : messages) {
                if (!"ask".equals(asked.getTags())) {
                    continue;
                }
                try {
                    byte[] answer = ("re: " + body(asked)).getBytes();
                    replier.send(MessageUtil.createReplyMessage(asked, answer));
                } catch (Exception failed) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Message reply = producer.request(message(topic, "ask", "", "question"), 60_000);
        expectEqual("re: question", new String(reply.getBody()), "reply");
        consumer.shutdown();
        replier.shutdown();
        producer.shutdown();
    }
}
