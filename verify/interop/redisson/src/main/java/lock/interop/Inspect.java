package lock.interop;

import org.redisson.api.RLock;

/** Reports the state of the lock as Redisson sees it. */
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
