package lock.interop;

/** Something this program can be told to do. */
interface Command {

    void run(Client client, Lines lines) throws Exception;

    /** How many threads use the client at one time. */
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
