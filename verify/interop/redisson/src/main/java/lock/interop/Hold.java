package lock.interop;

import java.io.IOException;

/** One thread that takes the lock immediately and then executes the orders on stdin. */
record Hold(String name, Kind kind) implements Command {

    static Hold parse(Invocation it) {
        it.want(2);
        return new Hold(it.text(0), it.kind(1));
    }

    @Override
    public void run(Client client, Lines lines) throws Exception {
        NodeLock lock = client.lock(name, kind);
        acquire(lock, lines);
        while (true) {
            String line = lines.hear();
            switch (line) {
                case "acquire" -> acquire(lock, lines);
                case "release" -> {
                    lock.release();
                    lines.say("released", "\"at\":" + WallClock.micros());
                }
                case "is_held" -> lines.say("is_held", "\"held\":" + lock.redisson().isHeldByCurrentThread());
                case "quit" -> {
                    return;
                }
                default -> throw new IOException("not understood: " + line);
            }
        }
    }

    private static void acquire(NodeLock lock, Lines lines) {
        lines.say("held", lock.acquire().fields());
    }
}
