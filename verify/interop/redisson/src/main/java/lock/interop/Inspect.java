package lock.interop;

import org.redisson.api.RLock;

/** Tells what Redisson sees of the lock. */
record Inspect(String name) implements Command {

    static Inspect parse(Invocation it) {
        it.want(1);
        return new Inspect(it.text(0));
    }

    @Override
    public void run(Client client, Lines lines) {
        RLock lock = client.view(name);
        boolean locked = lock.isLocked();
        long remaining = lock.remainTimeToLive();
        lines.say(
                "locked",
                "\"locked\":" + locked + ",\"remaining\":" + remaining + ",\"holds\":" + lock.getHoldCount());
    }
}
