package lock.interop;

import java.util.List;

/** The program: one Redisson client, one command, one report on stdout. */
public final class Node {

    private static final int FAILED = 1;
    private static final int BAD_USAGE = 2;

    private Node() {}

    public static void main(String[] args) {
        int status = 0;
        try {
            run(Invocation.parse(List.of(args)));
        } catch (UsageException e) {
            System.err.println(e.getMessage());
            System.err.print(UsageException.TEXT);
            status = BAD_USAGE;
        } catch (Exception | LinkageError e) {
            System.err.println(oneLine(e));
            status = FAILED;
        }
        // Not exit: a held lock must stay locked until its lease ends, and no hook may change that.
        Runtime.getRuntime().halt(status);
    }

    private static void run(Invocation invocation) throws Exception {
        Command command = Command.parse(invocation);
        try (Client client = new Client(invocation.uri(), invocation.watchdogMillis(), command.threads())) {
            command.run(client, new Lines());
        }
    }

    private static String oneLine(Throwable error) {
        return String.valueOf(error).lines().findFirst().orElse("unknown error");
    }
}
