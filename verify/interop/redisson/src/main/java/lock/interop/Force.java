package lock.interop;

/** Releases the lock of any holder. */
record Force(String name, Kind kind) implements Command {

    static Force parse(Invocation it) {
        it.want(2);
        return new Force(it.text(0), it.kind(1));
    }

    @Override
    public void run(Client client, Lines lines) {
        lines.say("forced", "\"forced\":" + client.lock(name, kind).redisson().forceUnlock());
    }
}
