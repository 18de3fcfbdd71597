package lock.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Orders and reports: one JSON object per line, with numbers and words as values. Each report is flushed. */
final class Lines {

    private final BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private static final String ORDER_BEGINS = "{\"do\":\"";
    private static final String ORDER_ENDS = "\"}";

    void say(String report) {
        say(report, "");
    }

    /** Writes a report with fields, as JSON without the braces. */
    void say(String report, String fields) {
        System.out.println("{\"say\":\"" + report + "\"" + (fields.isEmpty() ? "" : "," + fields) + "}");
        System.out.flush();
    }

    /** Returns the next order. If the other side has closed, the process ends here without unlocking anything. */
    String hear() throws IOException {
        String line = in.readLine();
        if (line == null) {
            Runtime.getRuntime().halt(0);
            throw new IllegalStateException("halted");
        }
        String order = line.strip();
        if (!order.startsWith(ORDER_BEGINS) || !order.endsWith(ORDER_ENDS)) {
            throw new IOException("not understood: " + line);
        }
        return order.substring(ORDER_BEGINS.length(), order.length() - ORDER_ENDS.length());
    }

    /** Takes the next order and refuses any other than the expected one. */
    void expect(String wanted) throws IOException {
        String line = hear();
        if (!line.equals(wanted)) {
            throw new IOException("not understood: " + line);
        }
    }
}
