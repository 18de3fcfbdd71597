package lock.interop;

/** A command of this program. */
interface Command {

    void run(Client client, Lines lines) throws Exception;

    /** Returns the number of threads that use the client at the same time. */
    default int threads() {
        return 1;
    }

    static Command parse(Invocation invocation) {
        return switch (invocation.command()) {
            case "count" -> Count.parse(invocation);
            case "hold" -> Hold.parse(invocation);
            case "force" -> Force.parse(invocation);
            case "inspect" -> Inspect.parse(invocation);
            default -> throw new UsageException("no command: " + invocation.command());
        };
    }
}
