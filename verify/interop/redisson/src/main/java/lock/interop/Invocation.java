package lock.interop;

import java.util.ArrayList;
import java.util.List;

/** The parsed command line. The command parses its own arguments. */
record Invocation(String uri, long watchdogMillis, String command, List<String> args) {

    private static final long WATCHDOG_MILLIS = 30_000;

    static Invocation parse(List<String> words) {
        List<String> rest = new ArrayList<>(words);
        long watchdogMillis = WATCHDOG_MILLIS;
        while (!rest.isEmpty() && rest.get(0).startsWith("--")) {
            String option = rest.remove(0);
            if (!option.equals("--lock-watchdog-timeout") || rest.isEmpty()) {
                throw new UsageException("bad option " + option);
            }
            watchdogMillis = positive("lock-watchdog-timeout", rest.remove(0));
        }
        if (rest.size() < 2) {
            throw new UsageException("a uri and a command are wanted");
        }
        return new Invocation(rest.get(0), watchdogMillis, rest.get(1), List.copyOf(rest.subList(2, rest.size())));
    }

    String text(int index) {
        return args.get(index);
    }

    Kind kind(int index) {
        return Kind.parse(args.get(index));
    }

    int number(int index) {
        return positive("argument " + args.get(index), args.get(index));
    }

    /** Throws a usage error unless the command has the required number of arguments. */
    void want(int count) {
        if (args.size() != count) {
            throw new UsageException(command + ": wrong number of arguments: " + args.size());
        }
    }

    private static int positive(String what, String word) {
        try {
            int value = Integer.parseInt(word);
            if (value > 0) {
                return value;
            }
        } catch (NumberFormatException e) {
            // reported below
        }
        throw new UsageException(what + ": a positive number is wanted");
    }
}
