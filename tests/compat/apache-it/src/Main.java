import org.junit.runner.JUnitCore;
import org.junit.runner.Result;
import org.junit.runner.notification.Failure;

/**
 * Runs the test classes named on the command line. Prints "ok CLASS NUMBER tests" for each, or
 * "FAIL TEST: why".
 */
public class Main {
    private static final String PACKAGE = "org.apache.rocketmq.test.";

    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Result result = new JUnitCore().run(Class.forName(PACKAGE + name));
            if (result.wasSuccessful()) {
                System.out.println("ok " + name + " " + result.getRunCount() + " tests");
            }
            for (Failure failure : result.getFailures()) {
                System.out.println("FAIL " + failure.getTestHeader() + ": " + failure.getTrace());
            }
        }
        System.exit(0);
    }
}
