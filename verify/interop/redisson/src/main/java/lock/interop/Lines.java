package lock.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** The talk with the test: lines in, lines out, each of them flushed. */
final class Lines {

    private final BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** The next line. When the other side has closed, the process ends here, and unlocks nothing. */
    String hear() throws IOException {
        String line = in.readLine();
        if (line == null) {
            Runtime.getRuntime().halt(0);
            throw new IllegalStateException("halted");
        }
        return line.strip();
    }

    /** Takes the next line, and refuses any but the one that is wanted. */
    void expect(String wanted) throws IOException {
        String line = hear();
        if (!line.equals(wanted)) {
            throw new IOException("not understood: " + line);
        }
    }
}
