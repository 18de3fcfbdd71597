package lock.interop;

/** The kinds of Redisson locks. */
enum Kind {
    PLAIN,
    FENCED;

    static Kind parse(String word) {
        return switch (word) {
            case "plain" -> PLAIN;
            case "fenced" -> FENCED;
            default -> throw new UsageException("no kind of lock: " + word);
        };
    }
}
