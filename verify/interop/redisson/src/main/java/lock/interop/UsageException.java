package lock.interop;

/** An invalid command line. */
final class UsageException extends RuntimeException {

    static final String TEXT = """
            usage: redisson-node [--lock-watchdog-timeout <ms>] <redis-uri> <command> <args>
              count <lock> <plain|fenced> <threads> <sections> <counter-key>
              hold <lock> <plain|fenced>
              force <lock> <plain|fenced>
              inspect <lock>
            """;

    private static final long serialVersionUID = 1;

    UsageException(String message) {
        super(message);
    }
}
