package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.protocol.body.ClusterInfo;
import org.apache.rocketmq.test.client.rmq.RMQAsyncSendProducer;
import org.apache.rocketmq.test.client.rmq.RMQNormalConsumer;
import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.client.rmq.RMQTransactionalProducer;
import org.apache.rocketmq.test.clientinterface.AbstractMQConsumer;
import org.apache.rocketmq.test.clientinterface.AbstractMQProducer;
import org.apache.rocketmq.test.factory.ConsumerFactory;
import org.apache.rocketmq.test.listener.AbstractListener;
import org.apache.rocketmq.test.util.MQAdmin;
import org.apache.rocketmq.test.util.MQRandomUtils;

/**
 * Takes the place of the class of the same name, being earlier on the class path: the integration
 * tests then run against the cluster at NAMESRV_ADDR instead of an embedded one.
 */
public class BaseConf {
    public static String nsAddr = System.getenv("NAMESRV_ADDR");
    protected static String clusterName = "DefaultCluster";
    protected static String broker1Name;
    protected static String broker2Name;
    protected static int brokerNum;
    protected static int waitTime = 5;
    protected static int consumeTime = 2 * 60 * 1000;
    protected static List<Object> mqClients = new ArrayList<>();
    protected static boolean debug = false;

    static {
        System.setProperty("rocketmq.remoting.version", "399");
        ClusterInfo cluster = null;
        for (int i = 0; i < 20 && cluster == null; i++) {
            cluster = MQAdmin.getCluster(nsAddr); // null when the answer is late
        }
        List<String> names = new ArrayList<>(new TreeSet<>(cluster.getBrokerAddrTable().keySet()));
        brokerNum = names.size();
        broker1Name = names.get(0);
        broker2Name = names.get(brokerNum - 1);
    }

    public static String initTopic() {
        return initTopicWithName(MQRandomUtils.getRandomTopic());
    }

    public static String initTopicWithName(String topic) {
        for (int i = 0; i < 20; i++) {
            if (IntegrationTestBase.initTopic(topic, nsAddr, clusterName)) {
                return topic;
            }
        }
        throw new IllegalStateException("topic not made: " + topic);
    }

    public static String initConsumerGroup() {
        return initConsumerGroup(MQRandomUtils.getRandomConsumerGroup());
    }

    public static String initConsumerGroup(String group) {
        MQAdmin.createSub(nsAddr, clusterName, group);
        return group;
    }

    public static RMQNormalProducer getProducer(String nameServer, String topic) {
        return getProducer(nameServer, topic, false);
    }

    public static RMQNormalProducer getProducer(String nameServer, String topic, boolean tls) {
        return patient(new RMQNormalProducer(nameServer, topic, tls));
    }

    public static RMQNormalProducer getProducer(
            String nameServer, String topic, String group, String instance) {
        return patient(new RMQNormalProducer(nameServer, topic, group, instance));
    }

    public static RMQTransactionalProducer getTransactionalProducer(
            String nameServer, String topic, TransactionListener listener) {
        return keep(new RMQTransactionalProducer(nameServer, topic, false, listener));
    }

    public static RMQAsyncSendProducer getAsyncProducer(String nameServer, String topic) {
        return keep(new RMQAsyncSendProducer(nameServer, topic));
    }

    public static RMQNormalConsumer getConsumer(
            String nameServer, String topic, String tags, AbstractListener listener) {
        return getConsumer(nameServer, topic, tags, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String nameServer, String topic, String tags, AbstractListener listener, boolean tls) {
        return getConsumer(nameServer, initConsumerGroup(), topic, tags, listener, tls);
    }

    public static RMQNormalConsumer getConsumer(
            String nameServer, String group, String topic, String tags, AbstractListener listener) {
        return getConsumer(nameServer, group, topic, tags, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String nameServer, String group, String topic, String tags, AbstractListener listener,
            boolean tls) {
        return keep(
                ConsumerFactory.getRMQNormalConsumer(nameServer, group, topic, tags, listener, tls));
    }

    public static void shutdown() {
        for (Object client : mqClients) {
            if (client instanceof AbstractMQProducer) {
                ((AbstractMQProducer) client).shutdown();
            } else if (client instanceof AbstractMQConsumer) {
                ((AbstractMQConsumer) client).shutdown();
            }
        }
        mqClients.clear();
    }

    private static <T> T keep(T client) {
        mqClients.add(client);
        return client;
    }

    /** A busy machine is not a failed test. */
    private static RMQNormalProducer patient(RMQNormalProducer producer) {
        producer.getProducer().setSendMsgTimeout(20_000);
        return keep(producer);
    }
}
