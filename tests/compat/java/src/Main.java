import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Runs the named steps against the name server in NAMESRV_ADDR, side by side as most of them wait.
 * Each prints "ok NAME" or "FAIL NAME: why"; the suite that starts this asserts the list.
 */
public class Main {
    interface Step {
        void run() throws Exception;
    }

    public static void main(String[] names) throws Exception {
        Map<String, Step> steps = new LinkedHashMap<>();
        steps.put("send", Sending::send);
        steps.put("send-async", Sending::sendAsync);
        steps.put("send-oneway", Sending::sendOneway);
        steps.put("send-batch", Sending::sendBatch);
        steps.put("send-compressed", Sending::sendCompressed);
        steps.put("send-too-large", Sending::sendTooLarge);
        steps.put("query-by-key", Sending::queryByKey);
        steps.put("view-by-id", Sending::viewById);
        steps.put("tag-filter", Consuming::tagFilter);
        steps.put("retry", Consuming::retry);
        steps.put("dead-letter", Consuming::deadLetter);
        steps.put("delay", Consuming::delay);
        steps.put("ordered", Consuming::ordered);
        steps.put("broadcast", Consuming::broadcast);
        steps.put("rebalance", Consuming::rebalance);
        steps.put("resume", Consuming::resume);
        steps.put("pull", Consuming::pull);
        steps.put("lite-pull", Consuming::litePull);
        steps.put("request-reply", Consuming::requestReply);
        ExecutorService threads = Executors.newFixedThreadPool(6);
        Map<String, Future<?>> runs = new LinkedHashMap<>();
        for (String name : names) {
            Step step = steps.get(name);
            runs.put(name, threads.submit(() -> {
                step.run();
                return null;
            }));
        }
        for (Map.Entry<String, Future<?>> run : runs.entrySet()) {
            try {
                run.getValue().get();
                System.out.println("ok " + run.getKey());
            } catch (Exception failed) {
                System.out.println("FAIL " + run.getKey() + ": " + failed);
                failed.printStackTrace();
            }
        }
        System.exit(0);
    }
}
