import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after the other in this process. A line of standard input is a command,
 * its words parted by tabs; the answer is its size in bytes on a line of its own, then what the
 * command printed, to either output.
 */
public class Admin {
    public static void main(String[] none) throws Exception {
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(capture);
            System.setErr(capture);
            try {
                MQAdminStartup.main0(line.split("\t"), null);
            } catch (Throwable thrown) {
                thrown.printStackTrace(capture);
            }
            capture.flush();
            byte[] text = printed.toByteArray();
            out.println(text.length);
            out.write(text);
            out.flush();
        }
    }
}
